"""Spanning-tree weights and the forest polytope, against enumeration and closed forms."""

import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from mlestruct.algorithms.pairwise.spanning_trees import forest_split, tree_weights

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


def most_overfull(n, tail, head, rho):
    """Largest rho(E(S)) - |S| over nonempty S, by listing them all."""
    sets = (np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1
    return float((sets[:, tail] * sets[:, head] @ rho - sets.sum(axis=1)).max())


def check_weights(graph, into, atol=1e-10):
    """What holds on every graph: as much as a forest has edges, and at most one parent per node."""
    n, tail, head = graph
    n_components, _ = components(*graph)
    assert into.sum() == pytest.approx(n - n_components, abs=atol * n)
    assert into.min(initial=0) >= 0
    assert inflow(n, tail, head, *into).max(initial=0.0) <= 1.0 + atol


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


def bridges(n, tail, head):
    """Edges without which there are more components."""
    n_components, _ = components(n, tail, head)
    without = [np.delete(np.arange(len(tail)), e) for e in range(len(tail))]
    return np.array([components(n, tail[k], head[k])[0] > n_components for k in without], bool)


@examples
@given(graphs(), st.integers(1, 40))
def test_shares_lie_in_the_polytope_and_have_every_edge(graph, n_trees):
    into = tree_weights(*graph, n_trees)
    check_weights(graph, into)
    rho = into.sum(axis=0)
    assert most_overfull(*graph, rho) <= -1 + 1e-12
    assert (rho > 0).all()
    np.testing.assert_allclose(rho[bridges(*graph)], 1.0, atol=1e-15)
    np.testing.assert_array_equal(tree_weights(*graph, n_trees), into)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 200), st.floats(0.5, 20), seeds)
def test_trees_are_added_until_every_edge_is_in_one(n, density, seed):
    graph = random_graph(n, int(density * n), seed)
    into = tree_weights(*graph, 1)
    check_weights(graph, into)
    assert (into.sum(axis=0) > 0).all()
    assert is_inside(*graph, into.sum(axis=0))


@settings(deadline=None, max_examples=40)
@given(graphs(max_nodes=8))
def test_shares_tend_to_those_that_the_densest_part_allows(graph):
    """The least share of the most even point of the polytope is that of the densest set."""
    n, tail, head = graph
    if len(tail) == 0:
        return
    sets = ((np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1).astype(bool)
    edges = (sets[:, tail] & sets[:, head]).sum(axis=1)
    densest = ((sets.sum(axis=1) - 1)[edges > 0] / edges[edges > 0]).min()
    n_trees = 400
    assert tree_weights(*graph, n_trees).sum(axis=0).min() > densest - 3 / n_trees


@pytest.mark.parametrize("graph", [complete(12), grid(15, 15), random_graph(300, 900, 0)])
def test_shares_are_near_those_of_all_spanning_trees(graph):
    """On graphs without dense parts: effective resistances (Kirchhoff)."""
    n, tail, head = graph
    adjacency = matrix(n, tail, head).toarray()
    adjacency += adjacency.T
    inverse = np.linalg.pinv(np.diag(adjacency.sum(axis=0)) - adjacency, hermitian=True)
    diagonal = np.diag(inverse)
    resistance = diagonal[tail] + diagonal[head] - 2 * inverse[tail, head]
    far = np.abs(tree_weights(*graph).sum(axis=0) - resistance)
    assert far.mean() < 0.1


def test_parts_have_the_weights_that_they_have_alone():
    parts = [complete(5), grid(4, 3), (3, np.zeros(0, int), np.zeros(0, int)), grid(1, 6)]
    tails, heads, n = [], [], 0
    for size, tail, head in parts:
        tails.append(tail + n)
        heads.append(head + n)
        n += size
    together = tree_weights(n, np.concatenate(tails), np.concatenate(heads))
    alone = np.concatenate([tree_weights(*part) for part in parts], axis=1)
    np.testing.assert_array_equal(together, alone)


@examples
@given(graphs(), seeds)
def test_the_list_of_edges_does_not_matter(graph, seed):
    n, tail, head = graph
    order = np.random.default_rng(seed).permutation(len(tail))
    turned = tree_weights(n, head[order], tail[order])
    np.testing.assert_array_equal(turned[::-1], tree_weights(*graph)[:, order])


@pytest.mark.parametrize("n", [3, 6, 31, 32])
def test_rings_have_exactly_even_shares(n):
    at = np.arange(n)
    rho = tree_weights(n, at, (at + 1) % n).sum(axis=0)
    np.testing.assert_allclose(rho, 1 - 1 / n, rtol=1e-15)


def test_large_graphs_take_linear_time():
    graph = random_graph(40_000, 120_000, 0)
    tree_weights(*complete(4))  # compiles
    began = time.process_time()
    into = tree_weights(*graph)
    assert time.process_time() - began < 20.0  # elimination would take 40,000**3 operations
    check_weights(graph, into, 1e-9)


@pytest.mark.parametrize("n", [1, 5])
def test_no_edges(n):
    none = np.zeros(0, dtype=np.int64)
    assert tree_weights(n, none, none).shape == (2, 0)
    assert forest_split(n, none, none, np.zeros(0)).shape == (2, 0)


def check_split(n, tail, head, rho):
    into = forest_split(n, tail, head, rho)
    assert into.min(initial=0) >= 0
    np.testing.assert_allclose(into.sum(axis=0), rho, atol=1e-15)
    assert inflow(n, tail, head, *into).max(initial=0) <= 1 + 1e-9


def is_inside(n, tail, head, rho):
    return forest_split(n, tail, head, rho) is not None


@settings(deadline=None, max_examples=400)
@given(weighted_graphs())
def test_forest_polytope_is_bounded_by_all_sets_of_nodes(graph):
    assert is_inside(*graph) == (most_overfull(*graph) <= -1 + 1e-9)
    if is_inside(*graph):
        check_split(*graph)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 80), st.floats(0.5, 5), st.integers(1, 9), seeds)
def test_averages_of_forests_are_inside_and_nothing_beyond_them(n, density, size, seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(n, int(density * n) + 1, seed)
    if len(graph[1]) == 0:
        return
    rho = random_trees(graph, rng, size)
    check_split(*graph, rho)
    check_split(*graph, 0.9 * rho)
    rho[rng.integers(len(rho))] += 1e-6
    assert not is_inside(*graph, rho)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 25), st.integers(2, 25), st.floats(0.01, 0.2), seeds)
def test_shares_of_trees_lie_on_the_boundary(height, width, slack, seed):
    _, tail, head = graph = grid(height, width)
    rho = tree_weights(*graph).sum(axis=0)
    check_split(*graph, rho)
    e = np.random.default_rng(seed).integers(len(rho))
    assert not is_inside(*graph, rho + 1e-6 * (np.arange(len(rho)) == e))
    # A dense spot inside a loose surrounding is found as well.
    loose = (1 - slack) * rho
    if height >= 2:
        row, column = (height - 2) // 2, (width - 2) // 2
        square = row * width + column + np.array([0, 1, width, width + 1])
        loose[np.isin(tail, square) & np.isin(head, square)] = 0.75 + 1e-6
        assert not is_inside(*graph, loose)


def test_one_weight_for_all_edges_of_large_graphs():
    graph = grid(150, 90)
    check_split(*graph, np.full(len(graph[1]), 0.5))
    graph = grid(50, 30)
    most = (graph[0] - 1) / len(graph[1])
    check_split(*graph, np.full(len(graph[1]), most))
    assert not is_inside(*graph, np.full(len(graph[1]), most + 1e-6))
    graph = random_graph(5000, 15_000, 0)
    check_split(*graph, tree_weights(*graph).sum(axis=0))


def test_torus_of_halves_can_be_directed_but_is_outside():
    at = np.arange(400).reshape(20, 20)
    tail = np.concatenate([at.ravel(), at.ravel()])
    head = np.concatenate([np.roll(at, 1, 0).ravel(), np.roll(at, 1, 1).ravel()])
    assert not is_inside(400, tail, head, np.full(800, 0.5))
    check_split(400, tail, head, np.full(800, 399 / 800))
