"""Any tables of records give links that form a matching, or an error that names a table."""

import numpy as np
import pytest
from changed_arrays import answer, frames_like, fuzzed, options_from
from hypothesis import given
from hypothesis import strategies as st

from mlestruct.datasets import make_people
from mlestruct.linkage import (
    RecordLinker,
    candidate_pairs,
    guess_comparisons,
)

pytest.importorskip("pandas")
LEFT, RIGHT, KNOWN = make_people(25, random_state=0)
TEXT = [table.astype(str) for table in (LEFT, RIGHT)]
MODEL = RecordLinker(alpha=1.0).fit(LEFT, RIGHT, KNOWN)
NAMES = ("table", "left", "right", "known", "column", "block")
BLOCKING = {
    "block": [
        (),
        ["surname"],
        [["surname", "town"]],
        ["nothing"],
        [[]],
        "surname",
        [None],
        3,
        None,
    ],
    "neighbours": [1, 10, 0, -1, 2.5, "x", None, True],
    "kinds": [None, {"birth": "date"}, {"surname": "category"}, ["text"], 3],
}
LINKER = {
    "columns": [None, ["surname"], ["nothing"], [], "surname", 3],
    "kinds": [None, {"surname": "text"}, {"surname": "x"}, {"x": "text"}, ["text"], 3],
    "block": BLOCKING["block"],
    "neighbours": BLOCKING["neighbours"],
    "alpha": [1.0, -1.0, np.nan, "x", None, True],
    "rho": [0.95, 0.5, 2.0, np.nan, "x", None],
    "random_state": [0, -1, "x", None],
}
PRECISION = {"precision": [None, 0.9, 0.0, 2.0, np.nan, "x", True]}


@fuzzed
@given(left=frames_like(TEXT[0]), right=frames_like(TEXT[1]), options=options_from(BLOCKING))
def test_candidates(left, right, options):
    found = answer(candidate_pairs, left, right, names=NAMES, **options)
    if found is not None:
        rows, cols = found
        keys = rows * max(len(right), 1) + cols
        assert (np.diff(keys) > 0).all()
        assert rows.max(initial=-1) < len(left)
        assert cols.max(initial=-1) < len(right)


@fuzzed
@given(left=frames_like(TEXT[0]), right=frames_like(TEXT[1]), columns=st.sampled_from(
    [["surname"], ["nothing"], [], "surname", None, 3]), kinds=st.sampled_from(LINKER["kinds"]),
)  # fmt: skip
def test_comparisons(left, right, columns, kinds):
    answer(guess_comparisons, left, right, columns, kinds, names=NAMES)


@fuzzed
@given(
    left=frames_like(LEFT), right=frames_like(RIGHT), known=frames_like(KNOWN),
    which=st.integers(0, 3), options=options_from(LINKER),
)  # fmt: skip
def test_fit(left, right, known, which, options):
    tables = [LEFT, RIGHT, KNOWN]
    if which < 3:
        tables[which] = [left, right, known][which]
        options = {}
    found = answer(RecordLinker(**{"alpha": 1.0, "tol": 0.1, **options}).fit, *tables,
                   names=(*NAMES, *LINKER))  # fmt: skip
    if found is not None:
        assert np.isfinite(found.coef_).all()


@fuzzed
@given(
    left=frames_like(LEFT), right=frames_like(RIGHT), known=st.none() | frames_like(KNOWN),
    options=options_from(PRECISION),
)  # fmt: skip
def test_link(left, right, known, options):
    found = answer(MODEL.link, left, right, known=known, names=NAMES, **options)
    if found is not None:
        proposed = found.proposed
        assert proposed["left"].is_unique
        assert proposed["right"].is_unique
        assert found.pairs["probability"].between(0.0, 1.0 + 1e-9).all()


@fuzzed
@given(pairs=frames_like(KNOWN.set_axis(["left", "right"], axis=1)))
def test_contributions(pairs):
    found = answer(MODEL.contributions, LEFT, RIGHT, pairs, names=NAMES)
    if found is not None:
        assert found.shape[1] == MODEL.coef_.size
