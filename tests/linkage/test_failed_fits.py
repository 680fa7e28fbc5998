"""A refit of a linker that fails or is interrupted leaves the linker as it was."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from mlestruct.linkage import RecordLinker  # noqa: E402


def records(columns):
    rng = np.random.default_rng(len(columns))
    names = ["ann", "ben", "cid", "dora", "eve", "finn", "gus", "hal"]
    left = pd.DataFrame({name: rng.permutation(names) for name in columns})
    return left, left.iloc[np.arange(-1, 7)].reset_index(drop=True)  # left 0 is right 1


PAIRS = pd.DataFrame({"a": np.arange(0, 8, 2), "b": np.arange(1, 8, 2)})
FEW, MANY = (
    (*records(columns), PAIRS) for columns in (["name", "town"], ["name", "street", "phone"])
)


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
@pytest.mark.filterwarnings("ignore:known")
def test_a_failed_refit_changes_nothing(failure, monkeypatch):
    def fails(self, model):
        raise failure

    model = RecordLinker(alpha=1.0).fit(*FEW)
    before = dict(vars(model))
    monkeypatch.setattr(RecordLinker, "_adopt", fails)  # the last step of a fit
    with pytest.raises(failure):
        model.fit(*MANY)
    after = vars(model)
    assert list(after) == list(before)
    assert all(after[key] is before[key] for key in before)
    unfitted = RecordLinker(alpha=1.0)
    with pytest.raises(failure):
        unfitted.fit(*MANY)
    assert not [key for key in vars(unfitted) if key.endswith("_")]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"random_state": "x"}, ValueError, "`random_state` must be .*'x'"),
        ({"alpha": "best"}, ValueError, "alpha: expected a number or 'auto', got 'best'"),
    ],
)
@pytest.mark.filterwarnings("ignore:known")
def test_options_of_another_kind_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        RecordLinker(**{"alpha": 1.0, **options}).fit(*FEW)


def test_links_that_are_not_compared_are_an_error_or_a_warning():
    left, right, known = FEW
    unlike = right.map(lambda cell: cell[::-1] + "x")
    with pytest.raises(ValueError, match="none of the 4 links is among the 0 candidate pairs"):
        RecordLinker(alpha=1.0).fit(left, unlike, known)
    with pytest.warns(match="only 50% of the links are among the candidate pairs"):
        RecordLinker(alpha=1.0).fit(left, pd.concat([right[:4], unlike[4:]]), known)
