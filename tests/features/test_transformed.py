"""Constants, other weights and statistics of features, against dense arrays."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct.features import DenseFeatures, Levels
from mlestruct.features.arrays import SparseFeatures
from mlestruct.features.constant import ConstantColumn, ConstantFeature
from mlestruct.features.contract import Columns
from mlestruct.features.rows import ConstantRows, DenseRows, RowGroups, SparseRows
from mlestruct.features.sequences import SequenceFeatures
from mlestruct.features.transformed import TransformedFeatures

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(7, 3)) * (RNG.random((7, 3)) < 0.7)
LEVELS = Levels([[0], [1], [2], [2]], n_levels=[2])
GROUPS = RowGroups([DenseRows(MATRIX[:4]), ConstantRows(3)], [1, 0], 4)
STACKED = np.zeros((7, 4))
STACKED[:4, 1:], STACKED[4:, 0] = MATRIX[:4], 1.0
ROWS = [
    (DenseRows(MATRIX), MATRIX),
    (DenseRows(MATRIX.astype(np.float32)), MATRIX.astype(np.float32)),
    (SparseRows(sparse.csr_array(MATRIX)), MATRIX),
    (ConstantRows(5), np.ones((5, 1))),
    (LEVELS, LEVELS.dense()),
]


@pytest.mark.parametrize(("rows", "dense"), ROWS)
def test_statistics_of_rows(rows, dense):
    dense = dense.astype(float)
    found = rows.columns()
    np.testing.assert_allclose(found.total, dense.sum(axis=0), atol=1e-9)
    around = ((dense - dense.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose(found.deviations, around, atol=1e-9)
    np.testing.assert_allclose(found.low, dense.min(axis=0))
    np.testing.assert_allclose(found.high, dense.max(axis=0))
    varying = dense.std(axis=0) > 0
    np.testing.assert_array_equal(found.constant, ~varying)
    np.testing.assert_allclose(found.scale[varying], dense.std(axis=0)[varying])
    np.testing.assert_allclose(found.mean[varying], dense.mean(axis=0)[varying])


def test_statistics_of_groups_count_their_own_columns():
    found = GROUPS.columns()
    np.testing.assert_allclose(found.count, [3, 4, 4, 4])
    np.testing.assert_allclose(found.total, STACKED.sum(axis=0))
    np.testing.assert_allclose(found.scale[1:], MATRIX[:4].std(axis=0))
    twice = Columns.weighted([(Columns.of(MATRIX), 2.0)])
    both = Columns.of(np.concatenate([MATRIX, MATRIX]), chunk=3)
    np.testing.assert_allclose(twice.scale, both.scale)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_scales_of_columns_far_from_zero(make):
    """Seconds since 1970 within an hour: a difference of mean squares has no digits left."""
    far = 1.7e9 + np.random.default_rng(0).normal(size=(50, 2))
    columns = Columns.of if make is np.asarray else Columns.of_sparse
    np.testing.assert_allclose(columns(make(far)).scale, far.std(axis=0), rtol=1e-6)
    parts = Columns.weighted([(columns(make(far[:20])), 2.0), (columns(make(far[20:])), 1.0)])
    expected = np.concatenate([far[:20], far]).std(axis=0)
    np.testing.assert_allclose(parts.scale, expected, rtol=1e-6)


@pytest.mark.parametrize(("rows", "dense"), [*ROWS, (GROUPS, STACKED)])
def test_a_constant_column_behind_rows(rows, dense):
    found, byhand = ConstantColumn(rows), np.column_stack([dense, np.ones(len(dense))])
    n, size = byhand.shape
    weights, values = RNG.normal(size=(size, 2)), RNG.normal(size=(n, 2))
    np.testing.assert_allclose(found.scores(weights), byhand @ weights, atol=1e-6)
    np.testing.assert_allclose(found.scores(weights[:, 0]), byhand @ weights[:, 0], atol=1e-6)
    np.testing.assert_allclose(found.moments(values), byhand.T @ values, atol=1e-6)
    np.testing.assert_allclose(found.gram(), byhand.T @ byhand, atol=1e-6)
    some = np.array([0, 2, 3])
    np.testing.assert_allclose(found.take(some).scores(weights), byhand[some] @ weights, atol=1e-6)
    out = np.zeros((size, 2))
    found.part(slice(1, 3)).add_moments(values[1:3], out)
    np.testing.assert_allclose(out, byhand[1:3].T @ values[1:3], atol=1e-6)
    at = found.moments_at(np.array([1, 1]), np.array([0, 2]), np.array([2.0, 3.0]), 3)
    np.testing.assert_allclose(at, np.outer(byhand[1], [2.0, 0.0, 3.0]), atol=1e-6)
    np.testing.assert_allclose(found.columns().total, byhand.sum(axis=0), atol=1e-6)


@pytest.mark.parametrize("make", [DenseFeatures, lambda m: SparseFeatures(sparse.csr_array(m))])
def test_other_weights_and_a_constant_of_pairs(make):
    transform = sparse.csr_array(RNG.normal(size=(4, 4)))
    found = TransformedFeatures(ConstantFeature(make(MATRIX)), transform)
    byhand = np.column_stack([MATRIX, np.ones(7)]) @ transform.toarray()
    theta, tau = RNG.normal(size=4), RNG.normal(size=7)
    np.testing.assert_allclose(found.scores(theta), byhand @ theta)
    np.testing.assert_allclose(found.moments(tau), byhand.T @ tau)
    np.testing.assert_allclose(
        found.moments_at(np.array([1, 4]), np.array([1.0, 0.5])), byhand[1] + 0.5 * byhand[4]
    )
    assert found.score_range(theta) == pytest.approx(np.ptp(byhand @ theta))
    np.testing.assert_allclose(found.inner.columns().total, [*MATRIX.sum(axis=0), 7.0])
    if found.matrix is not None:
        np.testing.assert_allclose(found.matrix, byhand)


@pytest.mark.parametrize("kept", [None, np.array([0, 1, 4, 7, 9])])
def test_sequences_under_other_weights(kept):
    """Scores and moments part by part, and the model of the curvature."""
    plain = SequenceFeatures(MATRIX, 2, n_edges=6)
    plain = plain if kept is None else plain.restricted(kept)
    constant = plain.with_constant()
    size = constant.n_features
    assert size == plain.n_features + 2
    transform = sparse.csr_array(np.diag(RNG.uniform(1, 2, size=size)))
    found = TransformedFeatures(constant, transform)
    theta = RNG.normal(size=size)
    stream = found.stream(theta)
    nodes, _ = stream.scores(slice(0, 7), slice(0, 6))
    full = found.scores(theta)
    np.testing.assert_allclose(nodes.ravel(), full[:14])
    stream.add(np.ones((7, 2)), 6 * np.ones((1, 2, 2)))
    np.testing.assert_allclose(stream.moments(), found.moments(np.ones(full.size)))
    diagonal = np.concatenate(
        [np.outer(s, g if g.ndim == 1 else np.diag(g)).ravel() for g, s in found.second_moments()]
    )
    plain_diagonal = np.concatenate(
        [
            np.outer(s, g if g.ndim == 1 else np.diag(g)).ravel()
            for g, s in constant.second_moments()
        ]
    )
    own = transform.diagonal() ** 2
    rows = constant.n_features if kept is not None else 4
    np.testing.assert_allclose(diagonal[:rows], (plain_diagonal * own)[:rows])
