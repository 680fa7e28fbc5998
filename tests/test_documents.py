"""The documents: their Python runs and prints what they say; files, names and pages that they
mention exist."""

import contextlib
import importlib
import importlib.util
import io
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict, cross_val_score

import mlestruct
from mlestruct import ChainCRF
from mlestruct.cli import main

ROOT = Path(__file__).parent.parent
PAGES = sorted(ROOT.glob("docs/*.md"))
DOCUMENTS = [ROOT / "README.md", *PAGES]

pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").is_file(), reason="the documents are not beside the tests"
)


# ---------------------------------------------------------------------- code
def python_blocks(document):
    """Pairs of a block of code and the output that the page shows for it (empty: not shown)."""
    text = document.read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", text, re.DOTALL)


NUMBER = re.compile(r"-?\d*\.?\d+(?:e[+-]?\d+)?")


def assert_prints(found, shown):
    """Words agree, integers agree, other numbers agree to three units of their last shown digit."""
    assert NUMBER.sub("#", found).split() == NUMBER.sub("#", shown).split(), found
    for a, b in zip(NUMBER.findall(found), NUMBER.findall(shown), strict=True):
        if "e" in b:  # a relative gap: at most ten times as large
            assert 0 <= float(a) <= 10 * float(b), found
        else:
            decimals = len(b.partition(".")[2])
            assert abs(float(a) - float(b)) <= 3.01 * 10.0**-decimals * (decimals > 0), found


WITH_CODE = [document for document in DOCUMENTS if python_blocks(document)]


@pytest.mark.parametrize("document", WITH_CODE, ids=lambda path: path.name)
def test_code_runs(document, tmp_path, monkeypatch):
    """All blocks of a page, one after the other, in an empty folder; then what they must find."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block, shown in python_blocks(document):
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(block, str(document), "exec"), names)
        except ModuleNotFoundError as error:
            if str(error.name).startswith("mlestruct"):
                raise
            pytest.skip(f"{document.name}: {error}")
        if shown:
            assert_prints(printed.getvalue(), shown)
    if document.stem in FINDINGS:
        FINDINGS[document.stem](names)


def check_readme(names):
    assert names["tracker"].converged_
    assert names["tracker"].score(names["X"][30:], [np.arange(8)] * 10) > 0.8


def check_index(names):
    assert names["segmenter"].score(list(names["pictures"]), list(names["masks"])) > 0.9


def check_matchings(names):
    assert names["model"].converged_
    assert names["scored"].coef_.shape == (64,)
    assert any((label == -1).any() for label in names["picky"].predict(names["bounded"]))


def check_linkage(names):
    assert names["precision"] == pytest.approx(0.952, abs=0.01)  # as the page says
    assert names["recall"] == pytest.approx(1.0, abs=0.01)
    files = ["left.csv", "right.csv", "--known", "known.csv", "-o", "links.csv"]
    assert main(["link", *files, "--quiet"]) == 0
    assert len(Path("links.csv").read_text().splitlines()) == 1 + len(names["left"])
    assert names["model"].converged_


def check_labellings(names):
    assert names["segmenter"].converged_
    assert (names["given"][1], names["given"][9]) == (2, 0)


def check_choosing(names):
    np.testing.assert_array_equal(names["again"].coef_, names["model"].coef_)
    assert names["machine"].duality_gap_ >= 0


def check_inference(names):
    assert names["found"].converged
    assert names["found"].gap <= 1e-6


def check_decoders(names):
    assert names["model"].converged_
    assert names["model"].certified_
    assert names["model"].coef_[0] > 0 > names["model"].coef_[1]
    check_new_space(names)


def check_new_space(names):
    model, X, Y = (names[name] for name in ("finder", "recordings", "events"))
    assert model.converged_
    assert model.solver_ == "fully corrective"
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


def check_coming_from(names):
    graphs, states = names["graphs"][30:], names["states"][30:]
    assert min(names[name].score(graphs, states) for name in ("crf", "svm")) > 0.7
    assert names["learned"].converged_
    assert names["learned"].coef_[0] > 0.3
    assert names["learned"].coef_[1] < -0.3
    check_crfsuite(names)


def check_crfsuite(names):
    """Both packages find the same."""
    flat_report = importlib.import_module("sklearn_crfsuite.metrics").flat_classification_report
    ours, theirs, X, Y = (names[name] for name in ("ours", "theirs", "X", "Y"))
    assert ours.converged_
    for name in ("state_features_", "transition_features_"):
        expected = {key: w for key, w in getattr(theirs, name).items() if w}  # it stores zeros
        assert getattr(ours, name) == pytest.approx(expected, abs=2e-3)
    pairs = zip(ours.predict_marginals(X), theirs.predict_marginals(X), strict=True)
    for found, expected in pairs:
        for row, other in zip(found.tolist(), expected, strict=True):
            assert dict(zip(ours.classes_, row, strict=True)) == pytest.approx(other, abs=1e-3)
    assert [y.tolist() for y in ours.predict(X)] == [list(y) for y in theirs.predict(X)]
    held_out = [names["held_out"][m].tolist() for m in range(len(X))]
    assert names["report"] == flat_report(Y, held_out)
    right = [np.mean(np.concatenate(held_out[k : k + 20]) == np.concatenate(Y[k : k + 20]))
             for k in (0, 20, 40)]  # fmt: skip
    np.testing.assert_allclose(names["scores"], right)
    with pytest.raises(ValueError, match="inhomogeneous"):
        cross_val_predict(ChainCRF(), X, Y, cv=3)
    with pytest.raises(ValueError, match="Sequence of sequences"):
        cross_val_score(ChainCRF(), X, Y, cv=3, scoring="f1_macro", error_score="raise")
    assert names["without_suffix"].classes_.tolist() == ["number", "street"]
    np.testing.assert_allclose(names["more"].coef_, ChainCRF().fit(X, Y).coef_, atol=1e-9)


def check_splink(names):
    linked = names["links"].proposed[["left", "right"]].to_numpy()
    true = set(map(tuple, names["truth"].to_numpy()))
    assert np.mean([tuple(pair) in true for pair in linked]) > 0.9


def check_neural_networks(names):
    assert (names["certificate"] < 1e-4).all()
    assert names["edges"].grad.abs().sum() > 0
    assert names["accuracy"] > 0.5


FINDINGS = {
    "README": check_readme,
    "index": check_index,
    "matchings": check_matchings,
    "linkage": check_linkage,
    "labellings": check_labellings,
    "choosing": check_choosing,
    "inference": check_inference,
    "decoders": check_decoders,
    "neural_networks": check_neural_networks,
    "coming_from": check_coming_from,
    "coming_from_splink": check_splink,
}


# ---------------------------------------------------------------------- what they mention
def is_importable(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one; True if a package that it needs is
    not installed."""
    parts = name.split(".")
    if parts[:2] == ["mlestruct", "torch"] and importlib.util.find_spec("torch") is None:
        return True  # collecting doctests leaves an empty module of that name
    for k in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != parts[0]:
                return True
            continue
        for part in parts[k:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_exist(document):
    """Paths are relative to the package, the repository or the document."""
    places = (ROOT / "src" / "mlestruct", ROOT / "src", ROOT, document.parent)
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/.])[\w.-]+(?:/[\w.-]+)*/[\w.-]+\.py\b", text))
    missing = [path for path in named if not any((place / path).is_file() for place in places)]
    assert not sorted(missing)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_names_exist(document):
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w/])(?:mlestruct|benchmarks)(?:\.(?!md\b)[A-Za-z_]\w*)+", text))
    assert not sorted(name for name in named if not is_importable(name))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_linked_files_exist(document):
    text = document.read_text(encoding="utf-8")
    links = {link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)}
    local = {link for link in links if link and "://" not in link}
    assert not sorted(link for link in local if not (document.parent / link).exists())


def test_every_page_is_in_the_table_of_contents():
    """Of the site: in docs/guide.md, docs/coming_from.md or docs/inside.md."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    trees = [
        tree for text in texts for tree in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    ]
    listed = {re.sub(r".*<(.*)>", r"\1", line) for tree in trees for line in tree.splitlines()}
    assert not sorted({page.stem for page in PAGES} - listed - {"index"})


def test_every_public_package_is_in_the_reference():
    """Those that name what is public; `docs/conf.py` lists their names."""
    packages = [
        file.parent.name
        for file in (ROOT / "src" / "mlestruct").glob("*/__init__.py")
        if "__all__" in file.read_text(encoding="utf-8")
    ]
    listed = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8").split()
    assert packages
    assert not sorted(name for name in packages if f"mlestruct.{name}" not in listed)


def test_all_files_tell_the_same_version():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changes, re.MULTILINE)[1] == mlestruct.__version__
    assert f"version: {mlestruct.__version__}\n" in citation


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90
