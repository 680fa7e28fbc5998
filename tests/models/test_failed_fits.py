"""Models around estimators: a refit that fails or is interrupted leaves them as they were."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from mlestruct.linkage import RecordLinker  # noqa: E402
from mlestruct.models import tuned  # noqa: E402
from mlestruct.pairing import GroupMatcher, SideMatcher  # noqa: E402
from mlestruct.segmentation import ImageSegmenter  # noqa: E402
from mlestruct.tagging import SequenceTagger  # noqa: E402


def records(columns):
    rng = np.random.default_rng(len(columns))
    names = ["ann", "ben", "cid", "dora", "eve", "finn", "gus", "hal"]
    return pd.DataFrame({name: rng.permutation(names) for name in columns})


def pictures(n_labels):
    rng = np.random.default_rng(n_labels)
    names = np.array(["sky", "grass", "tree"])[:n_labels]
    masks = [names[rng.integers(n_labels, size=(6, 6))] for _ in range(2)]
    return [rng.random((6, 6, 3)) for _ in masks], masks


def sentences(n_columns):
    words = [[("a",) * n_columns, ("b",) * n_columns], [("b",) * n_columns, ("a",) * n_columns]]
    return words, [["X", "Y"], ["Y", "X"]]


PAIRS = pd.DataFrame({"a": np.arange(0, 8, 2), "b": np.arange(1, 8, 2)})
FEW, MANY = ["name", "town"], ["name", "street", "phone"]
CASES = {
    "linker": (RecordLinker, [(records(c), records(c), PAIRS) for c in (FEW, MANY)]),
    "group": (GroupMatcher, [(records(c), PAIRS) for c in (FEW, MANY)]),
    "sides": (SideMatcher, [(records(c), records(c), PAIRS) for c in (FEW, MANY)]),
    "tagger": (SequenceTagger, [sentences(n) for n in (1, 2)]),
    "segmenter": (ImageSegmenter, [pictures(n) for n in (2, 3)]),
}


def fails(*_, **__):
    raise RuntimeError("in the middle")


def interrupts(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("failure", [fails, interrupts])
@pytest.mark.parametrize("name", CASES)
def test_a_failed_refit_changes_nothing(name, failure, monkeypatch):
    make, (first, second) = CASES[name]
    model = make(alpha=1.0).fit(*first)
    before = dict(vars(model))
    monkeypatch.setattr(tuned, "standard_errors", failure)  # the last step of a fit
    with pytest.raises((RuntimeError, KeyboardInterrupt)):
        model.fit(*second)
    after = vars(model)
    assert list(after) == list(before)
    assert all(after[key] is before[key] for key in before)
    unfitted = make(alpha=1.0)
    with pytest.raises((RuntimeError, KeyboardInterrupt)):
        unfitted.fit(*second)
    assert not [key for key in vars(unfitted) if key.endswith("_")]


@pytest.mark.parametrize("name", CASES)
def test_options_that_say_nothing_are_refused(name):
    make, (data, _) = CASES[name]
    with pytest.raises(ValueError, match=r"random_state: .*'x'"):
        make(alpha=1.0, random_state="x").fit(*data)
    for option in {"singles", "hog"} & set(make().get_params()):
        with pytest.raises(TypeError, match=f"{option} must be True or False, got 'q'"):
            make(alpha=1.0, **{option: "q"}).fit(*data)


def test_folds_are_drawn_with_a_generator():
    data = pictures(2)
    seeded = [
        ImageSegmenter(hog=False, random_state=np.random.default_rng(3)).fit(*data)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(seeded[0].coef_, seeded[1].coef_)
    assert seeded[0].held_out_ is not None
