"""Features of sequences, and expectations part by part."""

import numpy as np
import pytest
from enumerated_sequences import random_sequences
from scipy import sparse

from mlestruct.features.sequences import SequenceFeatures
from mlestruct.structures.sequences import Sequences


def feature_maps(rng, chains, n_features=5):
    nodes = rng.normal(size=(chains.n_nodes, n_features))
    nodes[rng.random(nodes.shape) < 0.5] = 0.0
    n = chains.n_states
    constant = {"n_edges": chains.n_edges}
    return {
        "dense": SequenceFeatures(nodes, n, **constant),
        "single precision": SequenceFeatures(nodes.astype(np.float32), n, **constant),
        "sparse": SequenceFeatures(sparse.coo_array(nodes), n, **constant),
        "edge features": SequenceFeatures(nodes, n, rng.normal(size=(chains.n_edges, 2))),
    }


KINDS = ["dense", "single precision", "sparse", "edge features"]


@pytest.mark.parametrize("kind", KINDS)
def test_feature_map_is_linear_with_its_adjoint(kind):
    rng = np.random.default_rng(0)
    chains, _ = random_sequences(rng)
    features = feature_maps(rng, chains)[kind]
    matrix = np.array([features.scores(e) for e in np.eye(features.n_features)]).T
    assert matrix.shape == (features.n_scored, features.n_features)
    theta, tau = rng.normal(size=features.n_features), rng.random(features.n_scored)
    np.testing.assert_allclose(features.scores(theta), matrix @ theta, atol=1e-12)
    np.testing.assert_allclose(features.moments(tau), matrix.T @ tau, atol=1e-12)
    assert features.score_range(theta) == pytest.approx(np.ptp(matrix @ theta))
    vertex = chains.encode(rng.integers(3, size=chains.n_nodes))
    at = features.moments_at(vertex.indices, vertex.values)
    np.testing.assert_allclose(at, matrix.T @ vertex.dense(features.n_scored), atol=1e-12)
    # Layout: node weights (L, C), then edge weights (L*L, D).
    node_weights, edge_weights = features.split(theta)
    x, v = (rows.scores(np.eye(rows.n_features)) for rows in (features.nodes, features.edges))
    expected = np.concatenate([(x @ node_weights.T).ravel(), (v @ edge_weights.T).ravel()])
    np.testing.assert_allclose(features.scores(theta), expected, atol=1e-12)
    sizes = [gram.shape[0] * scales.shape[0] for gram, scales in features.second_moments()]
    assert sum(sizes) == features.n_features


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [1, 5, 1000])
@pytest.mark.parametrize("size", [0.5, 500.0])
def test_expectation_part_by_part_equals_marginals(kind, part, size, monkeypatch):
    monkeypatch.setattr("mlestruct.structures.sequences.CHUNK", part)
    rng = np.random.default_rng(3)
    chains = Sequences([3, 1, 6, 2, 2, 1], 4)
    features = feature_maps(rng, chains)[kind]
    theta = size * rng.normal(size=features.n_features)
    scores = features.scores(theta)
    exact = chains.marginals(scores)
    found, moments = chains.expectation(features, theta)
    assert found.value == found.upper_bound == pytest.approx(exact.value, rel=1e-12)
    np.testing.assert_allclose(moments, features.moments(exact.tau), atol=1e-9)
    states = chains.label(chains.decode(scores).vertex)
    np.testing.assert_array_equal(chains.best_states(features, theta), states)
    nodes = exact.tau[: chains.n_nodes * 4].reshape(-1, 4)
    np.testing.assert_allclose(chains.state_probabilities(features, theta), nodes, atol=1e-10)
    labels = rng.integers(4, size=chains.n_nodes)
    likelihood = chains.encode(labels).dot(scores) - exact.value
    each = chains.log_likelihoods(features, theta, labels)
    assert each.sum() == pytest.approx(likelihood, rel=1e-9)
    same, again = chains.expectation(features, theta, np.zeros(chains.n_coordinates))
    assert same.value == pytest.approx(found.value, rel=1e-12)
    np.testing.assert_allclose(again, moments, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_expected_moments_are_the_derivative_of_log_z(kind):
    rng = np.random.default_rng(4)
    chains, _ = random_sequences(rng)
    features = feature_maps(rng, chains)[kind]
    theta, direction = 0.5 * rng.normal(size=(2, features.n_features))

    def log_z(step):
        return chains.expectation(features, theta + step * direction)[0].value

    slope = (log_z(1e-5) - log_z(-1e-5)) / 2e-5
    assert chains.expectation(features, theta)[1] @ direction == pytest.approx(slope, rel=1e-6)


def test_a_forest_is_the_sum_of_its_chains():
    rng = np.random.default_rng(5)
    together = Sequences([4, 1, 3], 3)
    nodes = rng.normal(size=(8, 2))
    theta = rng.normal(size=3 * 2 + 9)
    found, moments = together.expectation(SequenceFeatures(nodes, 3, n_edges=5), theta)
    value, total = 0.0, np.zeros_like(theta)
    for first, last in ((0, 4), (4, 5), (5, 8)):
        alone = SequenceFeatures(nodes[first:last], 3, n_edges=last - first - 1)
        part, sums = Sequences([last - first], 3).expectation(alone, theta)
        value, total = value + part.value, total + sums
    assert found.value == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(moments, total, atol=1e-12)


def test_features_are_stored_small_where_that_loses_nothing():
    whole = SequenceFeatures(np.arange(6.0).reshape(3, 2), 2, n_edges=2)
    broken = SequenceFeatures(np.arange(6.0).reshape(3, 2) / 3, 2, n_edges=2)
    assert whole.nodes.matrix.dtype == np.float32
    assert broken.nodes.matrix.dtype == np.float64
    with pytest.raises(ValueError, match="n_edges"):
        SequenceFeatures(np.zeros((2, 1)), 2)


def test_second_moments_of_sparse_features_are_the_diagonal():
    rng = np.random.default_rng(0)
    nodes = rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.5)
    features = SequenceFeatures(sparse.csr_array(nodes), 3, n_edges=5)
    for found, columns in (
        (features, nodes),
        (features.with_constant(), np.column_stack([nodes, np.ones(6)])),
    ):
        gram, _ = found.second_moments()[0]
        np.testing.assert_allclose(gram, np.diag(columns.T @ columns), atol=1e-12)


@pytest.mark.parametrize("n_features", [4, 400])
def test_scores_of_sparse_rows_with_few_and_with_many_features(n_features):
    rng = np.random.default_rng(0)
    nodes = sparse.random_array((6, n_features), density=min(1.0, 40 / (6 * n_features)), rng=rng)
    features = SequenceFeatures(nodes, 3, n_edges=5)
    theta = rng.normal(size=features.n_features)
    found, _ = features.stream(theta).scores(slice(1, 5), slice(0, 3))
    weights = theta[: 3 * n_features].reshape(3, n_features)
    np.testing.assert_allclose(found, (nodes.toarray() @ weights.T)[1:5], atol=1e-12)
