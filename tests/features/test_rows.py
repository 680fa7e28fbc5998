"""Rows of features, against the matrices they stand for."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct.features import Levels
from mlestruct.features.rows import ConstantRows, DenseRows, RowGroups, SparseRows


# ---------------------------------------------------------------------- rows
def make_rows(kind, rng, n=11):
    """Rows of a kind, and the matrix they stand for."""
    if kind == "constant":
        return ConstantRows(n), np.ones((n, 1))
    if kind == "levels":
        rows = Levels(rng.integers(0, 4, size=(n, 2)), [3, 3])
        return rows, rows.dense()
    if kind == "groups":  # two groups with columns of their own, and a third that borrows
        first, one = make_rows("dense", rng, 4)
        second, two = make_rows("levels", rng, 5)
        third, three = make_rows("sparse", rng, n - 9)
        matrix = np.zeros((n, 3 + 7))
        matrix[:4, :3], matrix[4:9, 3:], matrix[9:, 1:4] = one, two, three
        return RowGroups([first, second, third], [0, 3, 1], 10), matrix
    matrix = rng.normal(size=(n, 3))
    if kind == "sparse":
        matrix[rng.random(matrix.shape) < 0.5] = 0.0
        return SparseRows(sparse.csr_array(matrix)), matrix
    if kind == "integers":
        matrix = rng.integers(-3, 4, size=(n, 3))
    if kind == "single":
        matrix = matrix.astype(np.float32)
    return DenseRows(matrix), matrix.astype(np.float64)


ROWS = ["dense", "single", "integers", "sparse", "constant", "levels", "groups"]


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("width", [None, 1, 3])
def test_rows_multiply_like_their_matrix(kind, width):
    rng = np.random.default_rng(0)
    rows, matrix = make_rows(kind, rng)
    columns = () if width is None else (width,)
    weights = rng.normal(size=(matrix.shape[1], *columns))
    values = rng.normal(size=(matrix.shape[0], *columns))
    atol = 1e-5 if kind == "single" else 1e-12
    assert (len(rows), rows.n_features) == matrix.shape
    np.testing.assert_allclose(rows.scores(weights), matrix @ weights, atol=atol)
    np.testing.assert_allclose(rows.moments(values), matrix.T @ values, atol=atol)
    np.testing.assert_allclose(rows.gram(), matrix.T @ matrix, atol=atol)
    assert rows.scores(weights).dtype == rows.moments(values).dtype == np.float64
    for kept in (np.array([0, 2, 5, 9, 10]), np.arange(3, 8), np.zeros(0, dtype=int)):
        part = rows.take(kept)
        assert len(part) == len(kept)
        np.testing.assert_allclose(part.scores(weights), matrix[kept] @ weights, atol=atol)
        np.testing.assert_allclose(
            part.moments(values[: len(kept)]), matrix[kept].T @ values[: len(kept)], atol=atol
        )


def test_scores_of_rows_can_be_written_to():
    rng = np.random.default_rng(0)
    for kind in ROWS:
        rows, matrix = make_rows(kind, rng)
        scores = rows.scores(np.zeros((matrix.shape[1], 2)))
        scores += 1.0
        assert rows.scores(np.zeros((matrix.shape[1], 2))).max() == 0.0


def test_large_single_precision_sums_are_kept_in_double_precision():
    matrix = np.random.default_rng(0).normal(size=(50_000, 2)).astype(np.float32)
    rows = DenseRows(matrix)
    exact = matrix.astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(rows.moments(np.ones(50_000)), exact, rtol=1e-9)
    np.testing.assert_allclose(rows.moments(np.ones((50_000, 2)))[:, 0], exact, atol=0.05)


def test_second_moments_of_many_rows_are_estimated():
    matrix = np.random.default_rng(0).normal(size=(70_001, 2))
    np.testing.assert_allclose(
        DenseRows(matrix).gram(), matrix.T @ matrix, atol=0.05 * len(matrix), rtol=0.05
    )


def test_wide_sparse_rows_have_a_diagonal_of_second_moments():
    matrix = sparse.random(20, 2500, density=0.01, random_state=0, format="csr")
    gram = SparseRows(matrix).gram()
    np.testing.assert_allclose(gram, (matrix.toarray() ** 2).sum(axis=0))
    within = RowGroups([SparseRows(matrix), DenseRows(matrix.toarray()[:3])], [0, 0], 2500).gram()
    assert within.shape == (2500, 2500)
