"""What counts as a forest, and which lists of edges are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators

from mlestruct.algorithms.edge_lists import checked_edges, is_forest
from mlestruct.algorithms.pairwise.viterbi import ForestDecoder

examples = settings(deadline=None, max_examples=150)


@examples
@given(st.integers(1, 12), st.integers(0, 12), generators)
def test_is_forest_agrees_with_networkx(n, n_edges, rng):
    nx = pytest.importorskip("networkx")
    pairs = [p for p in np.ndindex(n, n) if p[0] < p[1]]
    chosen = [pairs[k] for k in rng.permutation(len(pairs))[:n_edges]]
    tail, head = np.array(chosen, int).reshape(-1, 2).T
    graph = nx.empty_graph(n)
    graph.add_edges_from(chosen)
    assert is_forest(n, tail, head) == nx.is_forest(graph)
    if not is_forest(n, tail, head):
        with pytest.raises(ValueError, match="has a cycle"):
            ForestDecoder(n, tail, head, 2)


@pytest.mark.parametrize(
    ("n", "tail", "head", "message"),
    [
        (0, [], [], "n_nodes must be at least 1"),
        (2, [0], [2], r"head must be in 0\.\.1, got 2\.\.2"),
        (2, [-1], [1], r"tail must be in 0\.\.1"),
        (2, [0.5], [1], "tail must be a 1-d array of integers"),
        (3, [0, 1], [1], "same length"),
        (2, [0, 1], [1, 1], "edge 1 joins node 1 to itself"),
        (2, [0, 1], [1, 0], "given twice"),
    ],
)
def test_edges_are_checked(n, tail, head, message):
    with pytest.raises(ValueError, match=message):
        checked_edges(n, tail, head)
