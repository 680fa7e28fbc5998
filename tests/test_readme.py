"""The README's Python example runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.skipif(not README.is_file(), reason="the README is not beside the tests")
def test_the_example_runs():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:  # later blocks go on with the names of earlier ones
        exec(compile(block, str(README), "exec"), names)
        assert names["model"].converged_
    assert names["model"].score(names["tables"], names["Y"]) > 0.5
    assert names["segmenter"].converged_
    assert names["segmenter"].score(names["pictures"][20:], names["masks"][20:]) > 0.7
    assert names["tagger"].score(names["letters"][40:], names["words"][40:]) > 0.5
    assert names["scored"].coef_.shape == (64,)
    assert any((label == -1).any() for label in names["picky"].predict(names["bounded"]))


@pytest.mark.skipif(not README.is_file(), reason="the README is not beside the tests")
def test_the_page_on_inference_runs():
    page = README.parent / "docs" / "inference.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        names: dict = {}
        exec(compile(block, str(page), "exec"), names)
        assert names["found"].converged
        assert names["found"].gap <= 1e-6


@pytest.mark.skipif(not README.is_file(), reason="the README is not beside the tests")
def test_the_page_on_decoders_runs():
    page = README.parent / "docs" / "decoders.md"
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
    assert names["model"].converged_
    assert names["model"].certified_
    assert names["model"].coef_[0] > 0 > names["model"].coef_[1]


@pytest.mark.skipif(not README.is_file(), reason="the README is not beside the tests")
def test_the_page_on_output_spaces_runs():
    page = README.parent / "docs" / "output_spaces.md"
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
    model, X, Y = (names[name] for name in ("model", "X", "Y"))
    assert model.converged_
    assert model.solver_ == "bcfw"
    assert model.coef_[0] < 0 < model.coef_[1]
    overlaps = [min(a[1], b[1]) > max(a[0], b[0]) for a, b in zip(model.predict(X), Y, strict=True)]
    assert np.mean(overlaps) > 0.9
    # The exact distribution against all 78 intervals of 12 positions.
    scores = names["scores"]
    weights = {(i, j): np.exp(scores[i:j].sum()) for i in range(12) for j in range(i + 1, 13)}
    assert len(weights) == 78
    assert names["found"].log_partition == pytest.approx(np.log(sum(weights.values())))
    share = sum(w for (i, j), w in weights.items() if i <= 4 < j) / sum(weights.values())
    assert names["found"].tau[4] == pytest.approx(share)
    assert set(names["drawn"]) <= set(weights)
    assert names["exact"].converged_


@pytest.mark.skipif(not README.is_file(), reason="the README is not beside the tests")
def test_both_sides_of_the_page_on_crfsuite_find_the_same():
    pytest.importorskip("sklearn_crfsuite")
    page = README.parent / "docs" / "coming_from_sklearn_crfsuite.md"
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
    ours, theirs, X = names["ours"], names["theirs"], names["X"]
    assert ours.converged_
    for name in ("state_features_", "transition_features_"):
        expected = {key: w for key, w in getattr(theirs, name).items() if w}  # it stores zeros
        assert getattr(ours, name) == pytest.approx(expected, abs=2e-3)
    pairs = zip(ours.predict_marginals(X, as_dicts=True), theirs.predict_marginals(X), strict=True)
    for found, expected in pairs:
        for one, other in zip(found, expected, strict=True):
            assert one == pytest.approx(other, abs=1e-3)
    assert [y.tolist() for y in ours.predict(X)] == [list(y) for y in theirs.predict(X)]
