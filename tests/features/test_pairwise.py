"""Features of pairwise models, against their definition and dense matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, grid_edges, random_edges
from random_scores import generators

from mlestruct.features import BinaryFeatures, StateFeatures
from mlestruct.features.pairwise import MergedEdges
from mlestruct.features.rows import DenseRows
from mlestruct.structures import PairwiseGraph, grid

examples = settings(deadline=None, max_examples=25)


# ---------------------------------------------------------------------- scores and moments
def score_by_hand(label, listed, nodes, edges, node_weights, edge_weights):
    """Score of a labelling from the definition, edge by listed edge."""
    total = sum(node_weights[s] @ u for s, u in zip(label, nodes, strict=True))
    for (i, j), v in zip(listed, edges, strict=True):
        total += edge_weights[label[i], label[j]] @ v
    return total


def draw_features(rng, n_states, repeated, n_nodes=5):
    """A graph, features of nodes and listed edges, and both feature maps over them."""
    edges = random_edges(rng, n_nodes, 0.6)
    listed, merged = edges, None
    if repeated and len(edges):
        number = rng.integers(len(edges), size=2 * len(edges))
        flipped = rng.random(2 * len(edges)) < 0.5
        flipped[0] = True
        listed = np.where(flipped[:, None], edges[number][:, ::-1], edges[number])
        merged = MergedEdges(number, flipped)
    nodes, pairs = rng.normal(size=(n_nodes, 2)), rng.normal(size=(len(listed), 3))
    graph = PairwiseGraph(n_nodes, edges)
    parts = (graph, DenseRows(nodes), DenseRows(pairs))
    maps = [StateFeatures(*parts, n_states, merged)]
    if n_states == 2:
        maps.append(BinaryFeatures(*parts, merged))
    return Labellings(n_nodes, edges, n_states), listed, nodes, pairs, maps


@examples
@given(generators, st.sampled_from([2, 3]), st.booleans())
def test_scores_are_those_of_the_definition(rng, n_states, repeated):
    space, listed, nodes, pairs, maps = draw_features(rng, n_states, repeated)
    theta = rng.normal(size=maps[0].n_features)
    split = 2 * n_states
    node_weights = theta[:split].reshape(n_states, 2)
    edge_weights = theta[split:].reshape(n_states, n_states, 3)
    picked = space.labels[rng.choice(len(space.labels), size=6)]
    by_hand = np.array(
        [score_by_hand(y, listed, nodes, pairs, node_weights, edge_weights) for y in picked]
    )
    found = space.point(picked) @ maps[0].scores(theta)
    np.testing.assert_allclose(found, by_hand, atol=1e-10)
    if n_states == 2:  # relative to the labelling that is 0 everywhere
        zero = score_by_hand(
            np.zeros(5, dtype=int), listed, nodes, pairs, node_weights, edge_weights
        )
        minimal = np.array([space.drop(point) for point in space.point(picked)])
        np.testing.assert_allclose(minimal @ maps[1].scores(theta), by_hand - zero, atol=1e-10)


@examples
@given(generators, st.sampled_from([2, 3]), st.booleans())
def test_moments_are_the_adjoint_of_scores(rng, n_states, repeated):
    space, _, _, _, maps = draw_features(rng, n_states, repeated)
    theta = rng.normal(size=maps[0].n_features)
    for features in maps:
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
    if n_states == 2:
        a, b = space.random_point(rng), space.vertices[rng.integers(len(space.vertices))]
        np.testing.assert_allclose(
            maps[1].moments(space.drop(b)) - maps[1].moments(space.drop(a)),
            maps[0].moments(b - a),
            atol=1e-10,
        )


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 4)])
@pytest.mark.parametrize("n_states", [2, 3])
def test_grids_have_the_scores_of_their_graph(shape, n_states):
    rng = np.random.default_rng(0)
    edges = grid_edges(*shape)
    n_nodes = shape[0] * shape[1]
    rows = (DenseRows(rng.normal(size=(n_nodes, 2))), DenseRows(rng.normal(size=(len(edges), 2))))
    kind = BinaryFeatures if n_states == 2 else StateFeatures
    states = () if n_states == 2 else (n_states,)
    one = kind(grid(*shape), *rows, *states)
    two = kind(PairwiseGraph(n_nodes, edges), *rows, *states)
    theta, tau = rng.normal(size=one.n_features), rng.normal(size=one.n_scored)
    np.testing.assert_allclose(one.scores(theta), two.scores(theta), atol=1e-12)
    np.testing.assert_allclose(one.moments(tau), two.moments(tau), atol=1e-12)


@pytest.mark.parametrize("n_states", [2, 3])
def test_single_precision_changes_little(n_states):
    rng = np.random.default_rng(0)
    nodes, pairs = rng.normal(size=(12, 4)), rng.normal(size=(17, 3))
    maps = []
    for precision in (np.float32, np.float64):
        rows = (DenseRows(nodes.astype(precision)), DenseRows(pairs.astype(precision)))
        maps.append(
            BinaryFeatures(grid(3, 4), *rows)
            if n_states == 2
            else StateFeatures(grid(3, 4), *rows, n_states)
        )
    theta, tau = rng.normal(size=maps[0].n_features), rng.random(maps[0].n_scored)
    np.testing.assert_allclose(maps[0].scores(theta), maps[1].scores(theta), atol=1e-5)
    np.testing.assert_allclose(maps[0].moments(tau), maps[1].moments(tau), atol=1e-5)


@pytest.mark.parametrize("which", [0, -1])
def test_the_constant_is_a_node_feature_of_ones(which):
    rng = np.random.default_rng(0)
    graph = grid(2, 3)
    nodes, edges = rng.normal(size=(6, 2)), DenseRows(rng.normal(size=(graph.n_edges, 3)))
    makers = [
        lambda rows: StateFeatures(graph, rows, edges, 3),
        lambda rows: BinaryFeatures(graph, rows, edges),
    ]
    features = makers[which](DenseRows(nodes)).with_constant()
    expected = makers[which](DenseRows(np.column_stack([nodes, np.ones(6)])))
    assert features.n_features == expected.n_features
    theta, tau = rng.normal(size=features.n_features), rng.random(features.n_scored)
    np.testing.assert_allclose(features.scores(theta), expected.scores(theta))
    np.testing.assert_allclose(features.moments(tau), expected.moments(tau))
