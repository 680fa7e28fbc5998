"""Features of sequences, and expectations part by part."""

import numpy as np
import pytest
from enumerated_sequences import random_sequences
from scipy import sparse

from mlestruct.features.labellings import SequenceFeatures
from mlestruct.features.rows import Rows, Scaling
from mlestruct.structures.sequences import Sequences


def with_transitions(nodes, n_states, n_edges, **options):
    return SequenceFeatures(Rows(nodes, **options), Rows.ones(n_edges), n_states)


def feature_maps(rng, chains, n_features=5):
    nodes = rng.normal(size=(chains.n_nodes, n_features))
    nodes[rng.random(nodes.shape) < 0.5] = 0.0
    n, n_edges = chains.n_states, chains.n_edges
    scaled = Rows(nodes, constant=True)
    edges = Rows(rng.normal(size=(n_edges, 2)))
    every = n * n_features + n * n
    kept = np.flatnonzero(rng.random(every) < 0.6)
    return {
        "dense": with_transitions(nodes, n, n_edges),
        "single precision": with_transitions(nodes.astype(np.float32), n, n_edges),
        "sparse": with_transitions(sparse.coo_array(nodes), n, n_edges),
        "constant": with_transitions(sparse.csr_array(nodes), n, n_edges, constant=True),
        "standardised": SequenceFeatures(
            scaled.scaled(Scaling.of(scaled.columns(), True)), Rows.ones(n_edges), n
        ),
        "edge features": SequenceFeatures(Rows(nodes), edges, n),
        "some weights": SequenceFeatures(Rows(nodes), Rows.ones(n_edges), n, kept),
    }


KINDS = [
    "dense", "single precision", "sparse", "constant", "standardised", "edge features",
    "some weights",
]  # fmt: skip


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
    again = features.without_rows()
    np.testing.assert_allclose(again.standardised(again.original(theta)), theta, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [1, 5, 1000])
@pytest.mark.parametrize("size", [0.5, 500.0])
def test_expectation_part_by_part_equals_marginals(kind, part, size, monkeypatch):
    monkeypatch.setattr("mlestruct.structures.sequences.CHUNK", part)
    monkeypatch.setattr("mlestruct.features.labellings.CHUNK", part)
    rng = np.random.default_rng(3)
    chains = Sequences([3, 1, 6, 2, 2, 1], 4)
    features = feature_maps(rng, chains)[kind]
    theta = size * rng.normal(size=features.n_features)
    scores = features.scores(theta)
    assert features.score_range(theta) == pytest.approx(np.ptp(scores))
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
    found, moments = together.expectation(with_transitions(nodes, 3, 5), theta)
    value, total = 0.0, np.zeros_like(theta)
    for first, last in ((0, 4), (4, 5), (5, 8)):
        alone = with_transitions(nodes[first:last], 3, last - first - 1)
        part, sums = Sequences([last - first], 3).expectation(alone, theta)
        value, total = value + part.value, total + sums
    assert found.value == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(moments, total, atol=1e-12)


def test_second_moments_of_sparse_features_are_the_diagonal():
    rng = np.random.default_rng(0)
    nodes = rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.5)
    for constant in (False, True):
        features = with_transitions(sparse.csr_array(nodes), 3, 5, constant=constant)
        columns = np.column_stack([nodes, np.ones(6)])[:, : 4 + constant]
        gram, _ = features.second_moments()[0]
        np.testing.assert_allclose(gram, np.diag(columns.T @ columns), atol=1e-12)


@pytest.mark.parametrize("n_features", [4, 400])
def test_scores_of_sparse_rows_with_few_and_with_many_features(n_features):
    rng = np.random.default_rng(0)
    nodes = sparse.random_array((6, n_features), density=min(1.0, 40 / (6 * n_features)), rng=rng)
    features = with_transitions(nodes, 3, 5)
    theta = rng.normal(size=features.n_features)
    found, _ = features.stream(theta).scores(slice(1, 5), slice(0, 3))
    weights = theta[: 3 * n_features].reshape(3, n_features)
    np.testing.assert_allclose(found, (nodes.toarray() @ weights.T)[1:5], atol=1e-12)
