"""Calibration of labellings, against counting node by node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from reliability_curves import assert_same

from mlestruct.metrics import reliability, state_reliability

examples = settings(deadline=None, max_examples=60)


# ---------------------------------------------------------------- states
@examples
@given(generators, st.booleans())
def test_states_are_counted_one_by_one(rng, named):
    n_states = int(rng.integers(2, 5))
    classes = list("abcd"[:n_states]) if named else list(range(n_states))
    shapes = [(3, 4), (5,), (1,), (0,)]
    tables = [rng.dirichlet(np.ones(n_states), shape) for shape in shapes]
    codes = [rng.integers(-1, n_states, shape) for shape in shapes]
    codes[0][0, 0] = 0
    labels = codes
    if named:
        labels = [np.array([*classes, None], dtype=object)[code].tolist() for code in codes]
    every, top, second = [], [], []
    for table, code in zip(tables, codes, strict=True):
        for at in np.ndindex(code.shape):
            if code[at] < 0:
                continue
            row = table[at]
            every += [(row[s], code[at] == s) for s in range(n_states)]
            top.append((row.max(), row.argmax() == code[at]))
            second.append((row[1], code[at] == 1))
    for expected, options in (
        (every, {}),
        (top, {"top": True}),
        (second, {"state": classes[1]}),
    ):
        wanted = reliability([p for p, _ in expected], [y for _, y in expected])
        assert_same(state_reliability(tables, labels, classes, **options), wanted)
        if not named:
            assert_same(state_reliability(tables, labels, **options), wanted)


def test_one_table_and_stacked_tables():
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(3), (4, 6))
    labels = rng.integers(0, 3, (4, 6))
    expected = state_reliability(list(tables), list(labels))
    assert_same(state_reliability(tables, labels), expected)
    one = state_reliability(tables[0].tolist(), labels[0].tolist())
    assert_same(one, state_reliability([tables[0]], [labels[0]]))


def test_strings_that_no_state_stands_for_are_misses():
    """As in `score`, which counts them as wrong."""
    found = state_reliability([[0.9, 0.1]], ["new"], ["a", "b"])
    assert found.n == 2
    assert found.observed[found.count > 0].max() == 0.0
    assert found.brier == pytest.approx((0.81 + 0.01) / 2)


@pytest.mark.parametrize(
    ("tables", "labels", "classes", "options", "message"),
    [
        ([np.eye(2)], [[0, 1], [0]], None, {}, "labels: expected 1 samples"),
        ([np.eye(2)], [[0, 1, 1]], None, {}, r"labels\[0\]: expected shape \(2,\).*\(3,\)"),
        ([np.eye(2)], [[0, 2]], None, {}, r"labels\[0\]: found the label 2"),
        ([np.eye(2)], [["a", "b"]], None, {}, r"labels\[0\]: expected integers.*classes_"),
        ([np.eye(2)], [[0, 1]], ["a", "b"], {}, r"labels\[0\]: expected strings.*classes_"),
        ([np.eye(2), np.eye(3)], [[0, 1], [0, 1, 2]], None, {}, r"tables\[1\]: expected 2 states"),
        ([np.eye(2)], [[0, 1]], [2, 1], {}, "classes: expected distinct strings"),
        ([np.eye(2)], [[-1, -1]], None, {}, "labels: no events"),
        ([2 * np.eye(2)], [[0, 1]], None, {}, r"tables\[0\]: .*2\.0 at position \(0, 0\)"),
        ([0.1, 0.9], [1], None, {}, r"tables: expected shape \(\.\.\., n_states\)"),
        ([np.eye(2)], [[0, 1]], None, {"state": 2}, "state: expected one of"),
        ([np.eye(2)], [[0, 1]], None, {"state": 1, "top": True}, "state: cannot be combined"),
    ],
)
def test_errors_of_states(tables, labels, classes, options, message):
    with pytest.raises(ValueError, match=message):
        state_reliability(tables, labels, classes, **options)
