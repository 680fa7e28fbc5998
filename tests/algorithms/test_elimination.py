"""Elimination orders: what their rules promise, checked step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from labellings import grid_edges, loopy, random_edges
from scipy import sparse
from scipy.sparse.linalg import splu

from mlestruct.algorithms.elimination import (
    frontier_order,
    minimum_degree_columns,
    minimum_fill_order,
)


@settings(max_examples=40, deadline=None)
@given(model=loopy(max_nodes=14))
def test_the_next_node_couples_the_fewest_pairs(model):
    space, _ = model
    order = minimum_fill_order(space.n_nodes, space.tail, space.head, 20)
    linked = np.zeros((space.n_nodes, space.n_nodes), dtype=bool)
    linked[space.tail, space.head] = linked[space.head, space.tail] = True
    left = set(range(space.n_nodes))
    for node in order:
        pairs = {}
        for n in left:
            around = np.flatnonzero(linked[n])
            known = linked[np.ix_(around, around)].sum()
            pairs[n] = around.size * (around.size - 1) - known
        assert pairs[node] == min(pairs.values())
        around = np.flatnonzero(linked[node])
        linked[np.ix_(around, around)] = True
        linked[around, around] = False
        linked[node] = linked[:, node] = False
        left.remove(node)
    assert not left


@pytest.mark.parametrize("shape", [(4, 30), (30, 4)])
def test_the_front_of_a_grid_is_its_short_side(shape):
    edges = grid_edges(*shape)
    order = frontier_order(120, *edges.T, np.ones(120), 21)
    assert sorted(order.tolist()) == list(range(120))
    done, widest = np.zeros(120, dtype=bool), 0
    for node in order:
        done[node] = True
        inner, outer = edges[done[edges[:, 0]]][:, 1], edges[done[edges[:, 1]]][:, 0]
        front = {int(n) for n in np.concatenate([inner, outer]) if not done[n]}
        widest = max(widest, len(front))
    assert widest == 4
    assert frontier_order(120, *edges.T, np.ones(120), 5) is not None
    assert frontier_order(120, *edges.T, np.ones(120), 4) is None


def test_frontier_orders_of_several_components_and_isolated_nodes():
    order = frontier_order(7, np.array([5, 1]), np.array([2, 6]), np.ones(7), 2)
    place = np.argsort(order)
    assert abs(place[5] - place[2]) == abs(place[1] - place[6]) == 1
    assert frontier_order(7, np.array([5, 1]), np.array([2, 6]), np.ones(7), 1) is None


@settings(max_examples=60, deadline=None)
@given(model=loopy(max_nodes=14))
def test_columns_of_a_minimum_degree_order_are_the_neighbours_at_elimination(model):
    space, _ = model
    n = space.n_nodes
    place, ptr, row = minimum_degree_columns(n, space.tail, space.head)
    assert sorted(place.tolist()) == list(range(n))
    linked = np.zeros((n, n), dtype=bool)
    linked[place[space.tail], place[space.head]] = True
    linked |= linked.T
    parts = np.linalg.matrix_power(linked | np.eye(n, dtype=bool), n) > 0
    for k in range(n):
        later = np.flatnonzero(linked[k, k + 1 :]) + k + 1
        assert row[ptr[k] : ptr[k + 1]].tolist() == later.tolist()
        linked[np.ix_(later, later)] = True
        part = np.flatnonzero(parts[k])
        assert place[np.isin(place, part)][0] == part.max()  # the first node comes last
    cost = int((np.diff(ptr) ** 2).sum())
    assert minimum_degree_columns(n, space.tail, space.head, cost) is not None
    if cost:
        assert minimum_degree_columns(n, space.tail, space.head, cost - 1) is None


@pytest.mark.parametrize("kind", ["grid", "random"])
def test_minimum_degree_fills_in_about_as_little_as_superlu(kind):
    n = 900
    rng = np.random.default_rng(0)
    edges = grid_edges(30, 30) if kind == "grid" else random_edges(rng, n, 3 / n)
    links = sparse.coo_array((np.ones(len(edges)), edges.T), (n, n))
    links = links + links.T
    laplacian = sparse.csc_array(sparse.diags_array(links.sum(axis=1) + 1.0) - links)
    options = {"SymmetricMode": True}
    factor = splu(laplacian, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    _, _, row = minimum_degree_columns(n, *edges.T)
    assert len(row) < 1.1 * (factor.L.nnz - n)
