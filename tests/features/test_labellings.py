"""Features of labellings, against their definition and dense matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, grid_edges, random_edges
from random_scores import generators

from mlestruct.features import Rows
from mlestruct.features.labellings import (
    PairwiseFeatures,
    StateFeatures,
    edge_ties,
)
from mlestruct.features.rows import Scaling
from mlestruct.structures import PairwiseGraph, grid

examples = settings(deadline=None, max_examples=25)


# ---------------------------------------------------------------------- scores and moments
def score_by_hand(label, listed, nodes, edges, node_weights, edge_weights):
    """Score of a labelling from the definition, edge by edge."""
    total = sum(node_weights[s] @ u for s, u in zip(label, nodes, strict=True))
    for (i, j), v in zip(listed, edges, strict=True):
        total += edge_weights[label[i], label[j]] @ v
    return total


def draw_features(rng, n_states, n_nodes=5):
    """A graph, features of nodes and edges, and both feature maps over them."""
    edges = random_edges(rng, n_nodes, 0.6)
    nodes, pairs = rng.normal(size=(n_nodes, 2)), rng.normal(size=(len(edges), 3))
    parts = (PairwiseGraph(n_nodes, edges), Rows(nodes), Rows(pairs))
    features = StateFeatures(*parts, n_states)
    return Labellings(n_nodes, edges, n_states), edges, nodes, pairs, features


@examples
@given(generators, st.sampled_from([2, 3]))
def test_scores_are_those_of_the_definition(rng, n_states):
    space, listed, nodes, pairs, features = draw_features(rng, n_states)
    theta = rng.normal(size=features.n_features)
    split = 2 * n_states
    node_weights = theta[:split].reshape(n_states, 2)
    edge_weights = theta[split:].reshape(n_states, n_states, 3)
    picked = space.labels[rng.choice(len(space.labels), size=6)]
    by_hand = np.array(
        [score_by_hand(y, listed, nodes, pairs, node_weights, edge_weights) for y in picked]
    )
    found = space.point(picked) @ features.scores(theta)
    np.testing.assert_allclose(found, by_hand, atol=1e-10)


@examples
@given(generators, st.sampled_from([2, 3]))
def test_moments_are_the_adjoint_of_scores(rng, n_states):
    *_, features = draw_features(rng, n_states)
    theta = rng.normal(size=features.n_features)
    tau = rng.normal(size=features.n_scored)
    scores = features.scores(theta)
    assert scores.shape == (features.n_scored,)
    assert features.moments(tau) @ theta == pytest.approx(scores @ tau, abs=1e-9)
    some = rng.choice(features.n_scored, size=min(3, features.n_scored), replace=False)
    dense = np.zeros(features.n_scored)
    dense[some] = tau[some]
    np.testing.assert_allclose(
        features.moments_at(some, tau[some]), features.moments(dense), atol=1e-12
    )


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 4)])
@pytest.mark.parametrize("n_states", [2, 3])
def test_grids_have_the_scores_of_their_graph(shape, n_states):
    rng = np.random.default_rng(0)
    edges = grid_edges(*shape)
    n_nodes = shape[0] * shape[1]
    rows = (Rows(rng.normal(size=(n_nodes, 2))), Rows(rng.normal(size=(len(edges), 2))))
    one = StateFeatures(grid(*shape), *rows, n_states)
    two = StateFeatures(PairwiseGraph(n_nodes, edges), *rows, n_states)
    theta, tau = rng.normal(size=one.n_features), rng.normal(size=one.n_scored)
    np.testing.assert_allclose(one.scores(theta), two.scores(theta), atol=1e-12)
    np.testing.assert_allclose(one.moments(tau), two.moments(tau), atol=1e-12)


@pytest.mark.parametrize("n_states", [2, 3])
def test_single_precision_changes_little(n_states):
    rng = np.random.default_rng(0)
    nodes, pairs = rng.normal(size=(12, 4)), rng.normal(size=(17, 3))
    maps = []
    for precision in (np.float32, np.float64):
        rows = (Rows(nodes.astype(precision)), Rows(pairs.astype(precision)))
        maps.append(StateFeatures(grid(3, 4), *rows, n_states))
    theta, tau = rng.normal(size=maps[0].n_features), rng.random(maps[0].n_scored)
    np.testing.assert_allclose(maps[0].scores(theta), maps[1].scores(theta), atol=1e-5)
    np.testing.assert_allclose(maps[0].moments(tau), maps[1].moments(tau), atol=1e-5)


@pytest.mark.parametrize("ties", ["full", "symmetric", "potts"])
@pytest.mark.parametrize("kind", [StateFeatures, PairwiseFeatures])
@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("one_edge_feature", [True, False])
def test_theta_of_tied_weights_and_standardised_columns(ties, kind, n_states, one_edge_feature):
    """Scores are those of `original(theta)` with the columns as they are; moments the adjoint."""
    rng = np.random.default_rng(0)
    graph = grid(2, 3)
    nodes = Rows(rng.normal(3.0, 2.0, size=(6, 2)), constant=True)
    edges = Rows(rng.normal(1.0, 4.0, size=(graph.n_edges, 3)))
    if one_edge_feature:
        edges = Rows.ones(graph.n_edges)

    def over(nodes, edges, tied):
        graphs = () if kind is PairwiseFeatures else (graph,)
        return kind(*graphs, nodes, edges, n_states, tied)

    scaled = (
        nodes.scaled(Scaling.of(nodes.columns(), centred=True)),
        edges.scaled(Scaling.of(edges.columns(), centred=False)),
    )
    features = over(*scaled, edge_ties(ties, n_states))
    theta, tau = rng.normal(size=features.n_features), rng.random(features.n_scored)
    coef = features.original(theta)
    assert coef.shape == (n_states * 3 + n_states**2 * edges.n_features,)
    np.testing.assert_allclose(over(nodes, edges, None).scores(coef), features.scores(theta))
    assert features.moments(tau) @ theta == pytest.approx(features.scores(theta) @ tau)
    np.testing.assert_allclose(
        features.moments_at(np.arange(tau.size), tau), features.moments(tau), atol=1e-12
    )
    np.testing.assert_allclose(features.standardised(coef), theta)
    np.testing.assert_allclose(features.without_rows().original(theta), coef)
    table = coef[n_states * 3 :].reshape(n_states, n_states, -1)
    if ties == "symmetric":
        np.testing.assert_allclose(table, table.swapaxes(0, 1))
    if ties == "potts":
        assert not table[~np.eye(n_states, dtype=bool)].any()
        np.testing.assert_allclose(table[0, 0], table[1, 1])
    (gram, of_nodes), (_, of_edges) = features.second_moments()
    rows = scaled[0].scores(np.eye(3))
    np.testing.assert_allclose(gram, rows.T @ rows, atol=1e-9)
    counts = {"full": 1, "potts": n_states}.get(ties)
    if counts:
        np.testing.assert_allclose(of_edges, min(counts / n_states**2, 0.25))
    assert of_nodes.tolist() == [min(1 / n_states, 0.25)] * n_states


@pytest.mark.parametrize("ties", ["full", "potts"])
def test_edges_that_are_all_alike_share_a_table(ties):
    rng = np.random.default_rng(0)
    graph = grid(3, 4)
    features = StateFeatures(
        graph, Rows(rng.normal(size=(12, 2))), Rows.ones(graph.n_edges), 3, edge_ties(ties, 3)
    )
    theta, tau = rng.normal(size=features.n_features), rng.random(features.n_scored)
    nodes, table = features.shared_tables(theta)
    both = np.concatenate([nodes.ravel(), np.tile(table.ravel(), graph.n_edges)])
    np.testing.assert_allclose(both, features.scores(theta))
    total = tau[36:].reshape(-1, 3, 3).sum(axis=0, keepdims=True)
    found = features.shared_moments(tau[:36].reshape(12, 3), total)
    np.testing.assert_allclose(found, features.moments(tau))
    edges = Rows(np.ones((graph.n_edges, 1)))
    assert StateFeatures(graph, features.nodes, edges, 3).shared_tables(theta) is None


def test_edge_weights_that_there_are_not():
    with pytest.raises(ValueError, match="`edge_weights` must be 'full', 'symmetric' or 'potts'"):
        edge_ties("ising", 2)
