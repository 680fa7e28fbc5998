"""Graphs of labellings and grids, against networkx and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from labellings import (
    grid_edges,
    loopy,
)

from mlestruct.structures import (
    Grid,
    PairwiseGraph,
    grid,
)

examples = settings(deadline=None, max_examples=30)


@examples
@given(loopy(max_nodes=7))
def test_graphs_know_their_degrees_and_components(drawn):
    nx = pytest.importorskip("networkx")
    space, _ = drawn
    graph = PairwiseGraph(space.n_nodes, space.edges)
    reference = nx.Graph(space.edges.tolist())
    reference.add_nodes_from(range(space.n_nodes))
    assert graph.degree.tolist() == [reference.degree(n) for n in range(space.n_nodes)]
    assert graph.n_components == nx.number_connected_components(reference)
    assert graph.is_forest == (len(space.edges) == 0 or nx.is_forest(reference))


@pytest.mark.parametrize("neighbours", [4, 8])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (2, 2), (3, 4)])
def test_grids_list_their_edges_by_direction(shape, neighbours):
    found = Grid(*shape, neighbours)
    expected = grid_edges(*shape, neighbours)
    np.testing.assert_array_equal(np.stack([found.tail, found.head], axis=1), expected)
    assert found.n_edges == len(expected) == sum(found.direction_sizes)
    assert found.n_components == 1
    assert found.is_forest == (len(expected) == found.n_nodes - 1)
    assert grid(*shape, neighbours) is grid(*shape, neighbours)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 1], [2, 2]], "edge 1 joins node 2 to itself"),
        ([[0, 1], [1, 0]], "more than once"),
        ([[0, 1], [0, 3]], r"edge 1 is \(0, 3\); nodes are 0 to 2"),
        ([[-1, 1]], r"edge 0 is \(-1, 1\)"),
        ([[0, 1, 2]], r"expected shape \(n_edges, 2\)"),
        ([[0.5, 1.0]], "nodes must be integers"),
        ([["a", "b"]], "nodes must be integers"),
    ],
)
def test_bad_edges_are_named(edges, message):
    with pytest.raises(ValueError, match=f"edges: .*{message}"):
        PairwiseGraph(3, edges)


def test_grids_have_4_or_8_neighbours():
    with pytest.raises(ValueError, match="neighbours: expected 4 or 8, got 6"):
        Grid(2, 2, 6)
