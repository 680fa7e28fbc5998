"""Spanning-tree weights and the forest polytope, against enumeration and closed forms."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.sparse.linalg import spsolve

from mlestruct.algorithms.pairwise import spanning_trees
from mlestruct.algorithms.pairwise.spanning_trees import (
    even_trees,
    in_tree_polytope,
    orientation,
    tree_probabilities,
    tree_weights,
    uniform_scalar,
    violating_nodes,
)

examples = settings(deadline=None, max_examples=200)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def graphs(draw, max_nodes=6):
    """Any graph; edges in any order, either end first."""
    n = draw(st.integers(1, max_nodes))
    edges = draw(st.permutations(list(combinations(range(n), 2))))
    edges = edges[: draw(st.integers(0, len(edges)))]
    turned = draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    edges = [e[::-1] if turn else e for e, turn in zip(edges, turned, strict=True)]
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return n, ends[:, 0], ends[:, 1]


@st.composite
def weighted_graphs(draw):
    """A graph and weights of few levels, so that constraints are often exactly tight."""
    n, tail, head = draw(graphs())
    levels = draw(st.sampled_from([2, 3, 4, 5, 7]))
    size = len(tail)
    parts = draw(st.lists(st.integers(0, levels), min_size=size, max_size=size))
    return n, tail, head, np.array(parts, dtype=float) / levels


def grid(height, width):
    at = np.arange(height * width).reshape(height, width)
    tail = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    head = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    return height * width, tail, head


def complete(n):
    return n, *np.triu_indices(n, 1)


def random_graph(n, m, seed):
    rng = np.random.default_rng(seed)
    pairs = np.sort(rng.integers(0, n, (2 * m, 2)), axis=1)
    pairs = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
    pairs = pairs[rng.permutation(len(pairs))[:m]]
    return n, pairs[:, 0], pairs[:, 1]


def matrix(n, tail, head, data=None):
    data = np.ones(len(tail)) if data is None else data
    ends = np.asarray(tail, np.int32), np.asarray(head, np.int32)  # as SciPy 1.15 takes them
    return sparse.coo_array((data, ends), shape=(n, n)).tocsr()


def components(n, tail, head):
    return connected_components(matrix(n, tail, head), directed=False)


def roots(n, tail, head):
    """The first node of each component."""
    return np.unique(components(n, tail, head)[1], return_index=True)[1]


def inflow(n, tail, head, into_tail, into_head):
    return np.bincount(tail, into_tail, n) + np.bincount(head, into_head, n)


def enumerated_trees(n, tail, head):
    """Frequencies of an edge pointing into tail and head, over all spanning forests."""
    starts = roots(n, tail, head).tolist()
    edges = list(zip(range(len(tail)), tail.tolist(), head.tolist(), strict=True))
    into = np.zeros((2, len(tail)))
    count = 0
    for chosen in combinations(edges, n - len(starts)):
        reached, steps = list(starts), []
        for v in reached:
            for e, t, h in chosen:
                if v in (t, h) and (u := t + h - v) not in reached:
                    reached.append(u)
                    steps.append((int(u == h), e))
        if len(reached) == n:
            count += 1
            for side, e in steps:
                into[side, e] += 1
    return into / count


def most_overfull(n, tail, head, rho):
    """Largest rho(E(S)) - |S| over nonempty S, by listing them all."""
    sets = (np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1
    return float((sets[:, tail] * sets[:, head] @ rho - sets.sum(axis=1)).max())


def dense_resistances(n, tail, head):
    adjacency = matrix(n, tail, head).toarray()
    adjacency += adjacency.T
    laplacian = np.diag(adjacency.sum(axis=0)) - adjacency
    pinv = np.linalg.pinv(laplacian, rcond=1e-10, hermitian=True)  # singular: 1e-15 may not cut
    diagonal = np.diag(pinv)
    return diagonal[tail] + diagonal[head] - 2 * pinv[tail, head]


def check_weights(graph, weights, atol=1e-10):
    """What holds on every graph: Foster's theorem, and one parent per node but none per root."""
    n, tail, head = graph
    n_components, _ = components(*graph)
    assert weights.rho.sum() == pytest.approx(n - n_components, abs=atol * n)
    assert min(weights.into_tail.min(initial=0), weights.into_head.min(initial=0)) >= 0
    np.testing.assert_allclose(weights.into_tail + weights.into_head, weights.rho, atol=1e-15)
    expected = np.ones(n)
    expected[roots(*graph)] = 0
    actual = inflow(n, tail, head, weights.into_tail, weights.into_head)
    np.testing.assert_allclose(actual, expected, atol=atol)


def random_trees(graph, rng, size):
    """An average of spanning forests."""
    n, tail, head = graph
    rho = np.zeros(len(tail))
    edge = {(t, h): e for e, (t, h) in enumerate(zip(tail.tolist(), head.tolist(), strict=True))}
    for _ in range(size):
        tree = minimum_spanning_tree(matrix(n, tail, head, 1 + rng.random(len(tail)))).tocoo()
        for t, h in zip(tree.row.tolist(), tree.col.tolist(), strict=True):
            rho[edge[t, h] if (t, h) in edge else edge[h, t]] += 1 / size
    return rho


@examples
@given(graphs())
def test_weights_are_frequencies_in_all_directed_spanning_trees(graph):
    weights = tree_probabilities(*graph)
    into_tail, into_head = enumerated_trees(*graph)
    np.testing.assert_allclose(weights.rho, into_tail + into_head, atol=1e-12)
    np.testing.assert_allclose(weights.into_tail, into_tail, atol=1e-12)
    np.testing.assert_allclose(weights.into_head, into_head, atol=1e-12)
    check_weights(graph, weights)


@examples
@given(graphs())
def test_sparse_elimination_finds_the_same_frequencies_in_small_graphs(graph):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spanning_trees, "SMALL", 0)
        weights = tree_probabilities(*graph)
    into_tail, into_head = enumerated_trees(*graph)
    np.testing.assert_allclose(weights.into_tail, into_tail, atol=1e-12)
    np.testing.assert_allclose(weights.into_head, into_head, atol=1e-12)
    check_weights(graph, weights)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 150), st.floats(0.2, 6), seeds)
def test_weights_of_random_graphs_are_effective_resistances(n, density, seed):
    graph = random_graph(n, int(density * n), seed)
    weights = tree_probabilities(*graph)
    check_weights(graph, weights)
    np.testing.assert_allclose(weights.rho, dense_resistances(*graph), atol=1e-10)


def test_weights_of_a_grid_match_a_dense_inverse():
    graph = grid(20, 20)
    weights = tree_probabilities(*graph)
    check_weights(graph, weights)
    np.testing.assert_allclose(weights.rho, dense_resistances(*graph), atol=1e-10)


def test_weights_of_a_large_grid_match_sampled_solves():
    n, tail, head = graph = grid(120, 120)
    weights = tree_probabilities(*graph)
    check_weights(graph, weights)
    adjacency = matrix(*graph)
    adjacency += adjacency.T
    laplacian = (sparse.diags_array(adjacency.sum(axis=1)) - adjacency).tocsc()[1:, 1:]  # root 0
    for e in np.random.default_rng(0).choice(len(tail), 6, replace=False):
        t, h = tail[e], head[e]
        row = np.zeros((n, 2))
        row[[t, h], [0, 1]] = 1
        inverse = np.zeros((n, 2))
        inverse[1:] = spsolve(laplacian, sparse.csc_array(row[1:])).toarray()
        assert weights.into_tail[e] == pytest.approx(inverse[t, 0] - inverse[t, 1], abs=1e-10)
        assert weights.into_head[e] == pytest.approx(inverse[h, 1] - inverse[h, 0], abs=1e-10)


def test_closed_forms():
    for n in (2, 3, 8, 50, 300):
        np.testing.assert_allclose(tree_probabilities(*complete(n)).rho, 2 / n, atol=1e-12)
    for n in (3, 10, 1000):
        at = np.arange(n)
        np.testing.assert_allclose(tree_probabilities(n, at, (at + 1) % n).rho, 1 - 1 / n)


def test_weights_of_a_forest_are_exactly_one_and_zero():
    path = tree_probabilities(*grid(1, 20000))
    np.testing.assert_array_equal(path.rho, 1)
    np.testing.assert_array_equal(path.into_head, 1)
    np.testing.assert_array_equal(path.into_tail, 0)
    star_and_pair = tree_probabilities(8, np.array([3, 3, 3, 7]), np.array([1, 2, 4, 6]))
    np.testing.assert_array_equal(star_and_pair.into_tail, [1, 0, 0, 1])
    np.testing.assert_array_equal(star_and_pair.into_head, [0, 1, 1, 0])


def test_bridges_between_dense_parts_are_certain():
    _, tail, head = complete(5)
    tail, head = np.r_[tail, tail + 5, 0], np.r_[head, head + 5, 9]
    weights = tree_probabilities(12, tail, head)  # nodes 10 and 11 have no edge
    np.testing.assert_allclose(weights.rho[:-1], 2 / 5, atol=1e-12)
    assert (weights.rho[-1], weights.into_tail[-1], weights.into_head[-1]) == (1, 0, 1)


def test_long_narrow_graphs_keep_their_precision():
    graph = grid(2, 20000)
    weights = tree_probabilities(*graph)
    check_weights(graph, weights)
    # Far from its ends a ladder is endless: rungs have resistance 1 / sqrt(3).
    assert weights.rho[-10000] == pytest.approx(1 / np.sqrt(3), abs=1e-10)
    assert weights.rho[10000] == pytest.approx(1 - 1 / np.sqrt(12), abs=1e-10)


def bridges(n, tail, head):
    """Edges without which there are more components."""
    n_components, _ = components(n, tail, head)
    without = [np.delete(np.arange(len(tail)), e) for e in range(len(tail))]
    return np.array([components(n, tail[k], head[k])[0] > n_components for k in without], bool)


@examples
@given(graphs(), st.integers(1, 40))
def test_even_trees_lie_in_the_polytope_and_have_every_edge(graph, n_trees):
    weights = even_trees(*graph, n_trees)
    check_weights(graph, weights)
    assert most_overfull(*graph, weights.rho) <= -1 + 1e-12
    assert (weights.rho > 0).all()
    assert (weights.rho[bridges(*graph)] == 1).all()
    again = even_trees(*graph, n_trees)
    np.testing.assert_array_equal(again.into_head, weights.into_head)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 200), st.floats(0.5, 20), seeds)
def test_trees_are_added_until_every_edge_is_in_one(n, density, seed):
    graph = random_graph(n, int(density * n), seed)
    weights = even_trees(*graph, 1)
    check_weights(graph, weights)
    assert (weights.rho > 0).all()
    assert in_tree_polytope(*graph, weights.rho)


@settings(deadline=None, max_examples=40)
@given(graphs(max_nodes=8))
def test_shares_of_even_trees_tend_to_those_that_the_densest_part_allows(graph):
    """The least share of the most even point of the polytope is that of the densest set."""
    if len(graph[1]) == 0:
        return
    n_trees = 400
    assert even_trees(*graph, n_trees).rho.min() > uniform_scalar(*graph) - 3 / n_trees


def test_weights_are_probabilities_unless_elimination_takes_long():
    for graph in (grid(60, 60), complete(200), random_graph(300, 900, 0)):
        np.testing.assert_array_equal(tree_weights(*graph).rho, tree_probabilities(*graph).rho)
    large = random_graph(4000, 12000, 0)
    weights = tree_weights(*large)
    check_weights(large, weights)
    np.testing.assert_array_equal(weights.rho, even_trees(*large).rho)
    assert in_tree_polytope(*large, weights.rho)
    assert 4000**3 / len(large[1]) > 1e4  # of a dense elimination


@pytest.mark.parametrize("n", [0, 1, 5])
def test_no_edges(n):
    none = np.zeros(0, dtype=np.int64)
    assert tree_probabilities(n, none, none).rho.shape == (0,)
    assert tree_weights(n, none, none).rho.shape == even_trees(n, none, none).rho.shape == (0,)
    into_tail, into_head = orientation(n, none, none, np.zeros(0))
    assert into_tail.shape == into_head.shape == (0,)
    assert in_tree_polytope(n, none, none, np.zeros(0))
    assert uniform_scalar(n, none, none) == 1.0


def check_orientation(n, tail, head, rho):
    into_tail, into_head = orientation(n, tail, head, rho)
    assert min(into_tail.min(initial=0), into_head.min(initial=0)) >= 0
    np.testing.assert_allclose(into_tail + into_head, rho, atol=1e-15)
    assert inflow(n, tail, head, into_tail, into_head).max(initial=0) <= 1 + 1e-12
    return into_tail, into_head


@settings(deadline=None, max_examples=400)
@given(weighted_graphs())
def test_orientation_exists_exactly_under_hakimis_condition(graph):
    if most_overfull(*graph) > 1e-9:
        assert orientation(*graph) is None
    else:
        check_orientation(*graph)


@settings(deadline=None, max_examples=400)
@given(weighted_graphs())
def test_forest_polytope_is_bounded_by_all_sets_of_nodes(graph):
    _, tail, head, rho = graph
    assert in_tree_polytope(*graph) == (most_overfull(*graph) <= -1 + 1e-9)
    nodes = violating_nodes(*graph)
    if nodes is not None:
        assert rho[np.isin(tail, nodes) & np.isin(head, nodes)].sum() > len(nodes) - 1 + 1e-9


@examples
@given(graphs())
def test_uniform_scalar_is_set_by_the_densest_set(graph):
    scalar = uniform_scalar(*graph)
    ones = np.ones(len(graph[1]))
    assert most_overfull(*graph, scalar * ones) <= -1 + 1e-12
    if scalar < 1:
        assert most_overfull(*graph, (scalar + 1e-6) * ones) > -1 + 1e-9
    assert in_tree_polytope(*graph, scalar * ones)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 80), st.floats(0.5, 5), st.integers(1, 9), seeds)
def test_averages_of_forests_are_inside_and_nothing_beyond_them(n, density, size, seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(n, int(density * n) + 1, seed)
    if len(graph[1]) == 0:
        return
    rho = random_trees(graph, rng, size)
    check_orientation(*graph, rho)
    assert in_tree_polytope(*graph, rho)
    assert in_tree_polytope(*graph, 0.9 * rho)
    rho[rng.integers(len(rho))] += 1e-6
    assert not in_tree_polytope(*graph, rho)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 25), st.integers(2, 25), st.floats(0.01, 0.2), seeds)
def test_tree_probabilities_lie_on_the_boundary(height, width, slack, seed):
    _, tail, head = graph = grid(height, width)
    rho = tree_probabilities(*graph).rho
    check_orientation(*graph, rho)
    assert in_tree_polytope(*graph, rho)
    e = np.random.default_rng(seed).integers(len(rho))
    assert not in_tree_polytope(*graph, rho + 1e-6 * (np.arange(len(rho)) == e))
    # A dense spot inside a loose surrounding is found as well.
    loose = (1 - slack) * rho
    if height >= 2:
        row, column = (height - 2) // 2, (width - 2) // 2
        square = row * width + column + np.array([0, 1, width, width + 1])
        loose[np.isin(tail, square) & np.isin(head, square)] = 0.75 + 1e-6
        assert not in_tree_polytope(*graph, loose)
        assert set(square) <= set(violating_nodes(*graph, loose))


def test_half_is_inside_every_grid_by_whole_edges():
    graph = grid(150, 90)
    half = np.full(len(graph[1]), 0.5)
    into_tail, into_head = check_orientation(*graph, half)
    assert set(into_tail) | set(into_head) == {0.0, 0.5}
    assert in_tree_polytope(*graph, half)
    assert uniform_scalar(*graph) == (graph[0] - 1) / len(half)


def test_torus_of_halves_can_be_directed_but_is_outside():
    at = np.arange(400).reshape(20, 20)
    tail = np.concatenate([at.ravel(), at.ravel()])
    head = np.concatenate([np.roll(at, 1, 0).ravel(), np.roll(at, 1, 1).ravel()])
    half = np.full(800, 0.5)
    check_orientation(400, tail, head, half)
    assert orientation(400, tail, head, half + 1e-6) is None
    assert not in_tree_polytope(400, tail, head, half)


@pytest.mark.parametrize("bad", [-0.1, 1.1, np.nan])
def test_weights_that_are_no_probabilities_are_outside(bad):
    assert not in_tree_polytope(2, np.array([0]), np.array([1]), np.array([bad]))


@pytest.mark.parametrize("bad", [np.array([-0.1]), np.array([np.nan]), np.ones(2)])
def test_orientation_refuses_what_cannot_be_divided(bad):
    with pytest.raises(ValueError, match="rho must be 1 numbers"):
        orientation(2, np.array([0]), np.array([1]), bad)
