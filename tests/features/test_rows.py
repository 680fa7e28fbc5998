"""Rows of features, against the matrices they stand for, and feature maps of a user's own."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct.features import FeatureMap, Rows
from mlestruct.features.rows import Columns, Scaling, as_feature_map

KINDS = ["dense", "single", "integers", "sparse", "one row", "one sparse row"]


def make_rows(kind, rng, n=11, *, constant=False, scaled=False):
    """Rows of a kind, and the matrix they stand for."""
    matrix, n_rows = rng.normal(size=(n, 3)), None
    if kind.startswith("one"):
        matrix, n_rows = matrix[:1], n
    if "sparse" in kind:
        matrix[rng.random(matrix.shape) < 0.5] = 0.0
    if kind == "integers":
        matrix = rng.integers(-3, 4, size=(n, 3))
    if kind == "single":
        matrix = matrix.astype(np.float32)
    given = sparse.coo_array(matrix) if "sparse" in kind else matrix
    rows = Rows(given, n_rows=n_rows, constant=constant)
    matrix = np.repeat(matrix, n, axis=0) if n_rows else matrix
    matrix = np.column_stack([matrix, np.ones(n)]) if constant else matrix
    matrix = matrix.astype(np.float64)
    if scaled:
        own = Scaling(np.array([1.0, -2.0, 0.5, 0.0]), np.array([2.0, 0.1, 3.0, 1.0]))
        rows, matrix = rows.scaled(own), (matrix - own.mean) / own.scale
    return rows, matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [None, 1, 3])
@pytest.mark.parametrize(("constant", "scaled"), [(False, False), (True, False), (True, True)])
def test_rows_multiply_like_their_matrix(kind, width, constant, scaled):
    rng = np.random.default_rng(0)
    rows, matrix = make_rows(kind, rng, constant=constant, scaled=scaled)
    columns = () if width is None else (width,)
    weights = rng.normal(size=(matrix.shape[1], *columns))
    values = rng.normal(size=(matrix.shape[0], *columns))
    atol = 1e-4 if kind == "single" else 1e-10
    assert (len(rows), rows.n_features) == matrix.shape == (rows.n_scored, rows.n_features)
    np.testing.assert_allclose(rows.scores(weights), matrix @ weights, atol=atol)
    np.testing.assert_allclose(rows.moments(values), matrix.T @ values, atol=atol)
    gram = matrix.T @ matrix
    np.testing.assert_allclose(rows.gram(), gram, atol=10 * atol, rtol=1e-4)
    np.testing.assert_allclose(rows.gram(diagonal=True), np.diag(gram), atol=10 * atol, rtol=1e-4)
    assert rows.scores(weights).dtype == rows.moments(values).dtype == np.float64
    scores = rows.scores(weights)
    scores += 1.0  # may be written to
    np.testing.assert_allclose(rows.scores(weights), matrix @ weights, atol=atol)
    for kept in (np.array([0, 2, 5, 9, 10]), np.arange(3, 8), np.zeros(0, dtype=int)):
        part, own = rows.take(kept), values[: len(kept)]
        assert len(part) == len(kept)
        np.testing.assert_allclose(part.scores(weights), matrix[kept] @ weights, atol=atol)
        np.testing.assert_allclose(part.moments(own), matrix[kept].T @ own, atol=atol)
    if width is None:
        places, numbers = np.array([1, 4, 4]), np.array([0.5, 2.0, -1.0])
        expected = matrix[places].T @ numbers
        np.testing.assert_allclose(rows.moments_at(places, numbers), expected, atol=atol)
    else:
        part = rows.part(slice(3, 8))
        np.testing.assert_allclose(
            part.scores(*rows.inner(weights)), matrix[3:8] @ weights, atol=atol
        )
        out = np.zeros(weights.shape)
        part.add_moments(values[3:8], out)
        np.testing.assert_allclose(rows.finished(out), matrix[3:8].T @ values[3:8], atol=atol)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_described_as_they_are(kind):
    rows, matrix = make_rows(kind, np.random.default_rng(0), constant=True)
    found = rows.columns()
    np.testing.assert_allclose(found.low, matrix.min(axis=0))
    np.testing.assert_allclose(found.high, matrix.max(axis=0))
    varies = np.ptp(matrix, axis=0) > 0
    np.testing.assert_allclose(found.mean, np.where(varies, matrix.mean(axis=0), 0.0))
    np.testing.assert_allclose(found.scale, np.where(varies, matrix.std(axis=0), 1.0))
    own = Scaling.of(found, centred=True)
    weights = np.random.default_rng(1).normal(size=(4, 2))
    np.testing.assert_allclose(rows.scores(own.original(weights)), rows.scaled(own).scores(weights))
    np.testing.assert_allclose(own.standardised(own.original(weights)), weights)


def test_columns_of_weighted_parts():
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(5, 2)), rng.normal(4.0, 2.0, size=(7, 2))
    found = Columns.weighted([(Rows(one).columns(), 2.0), (Rows(two).columns(), 1.0)])
    together = np.concatenate([one, one, two])
    np.testing.assert_allclose(found.mean, together.mean(axis=0))
    np.testing.assert_allclose(found.scale, together.std(axis=0))


def test_large_single_precision_sums_are_kept_in_double_precision():
    matrix = np.random.default_rng(0).normal(size=(50_000, 2)).astype(np.float32)
    rows = Rows(matrix)
    exact = matrix.astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(rows.moments(np.ones(50_000)), exact, rtol=1e-9)
    np.testing.assert_allclose(rows.moments(np.ones((50_000, 2)))[:, 0], exact, atol=0.05)


def test_second_moments_of_many_rows_are_estimated():
    matrix = np.random.default_rng(0).normal(size=(70_001, 2))
    np.testing.assert_allclose(
        Rows(matrix).gram(), matrix.T @ matrix, atol=0.05 * len(matrix), rtol=0.05
    )


def test_wide_sparse_rows_have_a_diagonal_of_second_moments():
    matrix = sparse.random(20, 2500, density=0.01, random_state=0, format="csr")
    np.testing.assert_allclose(Rows(matrix).gram(), (matrix.toarray() ** 2).sum(axis=0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Rows(np.ones(3)), ValueError, "`matrix` must have 2 dimensions"),
        (lambda: Rows(sparse.csr_array([[1j]])), ValueError, "`matrix` must hold real numbers"),
        (lambda: Rows([["a"]]), ValueError, "matrix"),
        (lambda: Rows(np.ones((2, 2)), "ab"), TypeError, "`names` must be a sequence of str"),
        (lambda: Rows(np.ones((2, 2)), ["a"]), ValueError, "`names` must hold 2 names; got 1"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---------------------------------------------------------------------- maps of a user's own
class Plain:
    """A feature map that knows nothing of the contract's class."""

    n_features, n_scored = 2, 3

    def __init__(self, matrix):
        self._matrix = matrix

    def scores(self, theta):
        return self._matrix @ theta

    def moments(self, tau):
        return tau @ self._matrix


def test_objects_with_the_required_members_are_adapted_once():
    matrix = np.arange(6.0).reshape(3, 2)
    features = as_feature_map(Plain(matrix))
    assert isinstance(features, FeatureMap)
    assert as_feature_map(features) is features
    np.testing.assert_array_equal(features.scores(np.ones(2)), matrix.sum(axis=1))
    np.testing.assert_array_equal(features.moments_at(np.array([2]), np.array([3.0])), [12, 15])
    assert features.score_range(np.ones(2)) == 8.0
    assert features.second_moments() is None


def test_an_adapted_map_keeps_its_names():
    plain = Plain(np.ones((3, 2)))
    plain.feature_names = ["a", "b"]
    assert as_feature_map(plain).feature_names == ["a", "b"]


def test_what_is_missing_is_named():
    with pytest.raises(TypeError, match=r"`features` must be a matrix or have .* dict lacks"):
        as_feature_map({})
