"""Features of levels in compact storage, against the matrices they stand for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.features.levels import Levels


def indicators(codes, n_levels):
    """The definition, written out: a one, then code >= 1, code >= 2, ... for each channel."""
    rows = [
        [1]
        + [int(c >= level) for c, n in zip(row, n_levels, strict=True) for level in range(1, n + 1)]
        for row in np.asarray(codes)
    ]
    return np.array(rows, dtype=float).reshape(len(rows), 1 + sum(n_levels))


@st.composite
def levels(draw):
    n_levels = draw(st.lists(st.sampled_from([1, 2, 3, 10, 16, 255]), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_edges = draw(st.integers(0, 40))
    codes = np.stack([rng.integers(0, n + 1, size=n_edges) for n in n_levels], axis=1)
    return Levels(codes, n_levels), codes, rng


# ---- Levels -----------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(levels())
def test_levels_act_as_the_matrix_they_stand_for(case):
    edges, codes, rng = case
    V = indicators(codes, edges.n_levels)
    n, d = V.shape
    assert edges.shape == (n, d)
    assert len(edges) == n
    assert edges.n_features == d
    np.testing.assert_array_equal(edges.dense(), V)
    for columns in ((), (1,), (4,)):
        weights, values = rng.normal(size=(d, *columns)), rng.normal(size=(n, *columns))
        np.testing.assert_allclose(edges.scores(weights), V @ weights, atol=1e-10)
        np.testing.assert_allclose(edges.moments(values), V.T @ values, atol=1e-10)
    np.testing.assert_array_equal(edges.gram(), V.T @ V)


@settings(max_examples=20, deadline=None)
@given(levels())
def test_levels_can_be_taken(case):
    edges, codes, rng = case
    if not len(edges):
        return
    some = rng.integers(len(edges), size=7)
    np.testing.assert_array_equal(edges.take(some).codes, codes[some])
    assert edges.take(some).n_levels == edges.n_levels
    assert edges.take([]).shape == (0, edges.n_features)
    np.testing.assert_array_equal(edges.take(codes[:, 0] == 1).codes, codes[codes[:, 0] == 1])


def test_levels_take_a_few_bytes_an_edge():
    edges = Levels(np.zeros((1000, 2), dtype=np.uint8), [10, 10])
    assert edges.codes.dtype == np.uint8
    assert edges.nbytes <= 3 * 1000


def test_levels_accept_what_is_not_contiguous_or_not_float64():
    codes = np.random.default_rng(0).integers(0, 4, size=(2, 9)).T
    edges = Levels(codes.astype(float), [3, 3])
    V = indicators(codes, [3, 3])
    values = np.arange(36).reshape(4, 9).T
    np.testing.assert_allclose(edges.moments(values), V.T @ values)
    np.testing.assert_allclose(edges.scores(list(range(7))), V @ np.arange(7))


def test_codes_count_the_thresholds_exceeded():
    values = [[0.1, -1.0], [0.1001, 5.0], [0.3, np.inf]]
    edges = Levels.from_values(values, [[0.1, 0.2], [0.0, 1.0, 2.0]])
    np.testing.assert_array_equal(edges.codes, [[0, 0], [1, 3], [2, 3]])
    assert edges.n_levels == (2, 3)


def test_levels_reject_what_they_cannot_hold():
    for codes, n_levels, message in (
        ([[3]], [2], r"codes: channel 0 must lie in 0\.\.2, found 3 to 3"),
        ([[-1]], [2], "codes: channel 0"),
        ([[0.5]], [2], "codes: .*fractions"),
        ([[np.nan]], [2], "codes: .*NaN"),
        ([["a"]], [2], "codes: .*dtype"),
        ([0, 1], [2], r"codes: expected shape \(n_edges, 1\)"),
        ([[0, 1]], [2], r"codes: .*got \(1, 2\)"),
        ([[0]], [256], "n_levels: .*256"),
        ([[0]], [0], "n_levels"),
        (np.zeros((3, 0)), [], "n_levels"),
    ):
        with pytest.raises(ValueError, match=message):
            Levels(codes, n_levels)
    for values, thresholds, message in (
        ([[np.nan]], [[0.0]], "values: 1 of 1 are NaN"),
        ([[0.0]], [[0.0], [1.0]], r"values: expected shape \(n_edges, 2\)"),
        ([[0.0]], [[1.0, 1.0]], r"thresholds\[0\]: .*increasing"),
        ([[0.0]], [[np.nan]], r"thresholds\[0\]"),
        ([[0.0]], [[]], r"thresholds\[0\]: .*got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            Levels.from_values(values, thresholds)
    edges = Levels([[0], [1]], [1])
    with pytest.raises(ValueError, match=r"weights: expected shape \(2,\) or \(2, k\), got \(3,\)"):
        edges.scores(np.zeros(3))
    with pytest.raises(ValueError, match="values"):
        edges.moments(np.zeros((3, 2)))
