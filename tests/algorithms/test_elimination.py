"""Elimination orders: what their rules promise, checked step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from labellings import grid_edges, loopy

from mlestruct.algorithms.elimination import (
    frontier_order,
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
