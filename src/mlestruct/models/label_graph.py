"""Which labels are coupled: all, none, a tree, given pairs, or what an l1 penalty selects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import xlogy

from ..structures.graphs.pairwise import PairwiseGraph, check_edges

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def all_pairs(n_nodes: int) -> Ints:
    """Edges of the complete graph, shape (n_nodes * (n_nodes - 1) / 2, 2)."""
    return np.stack(np.triu_indices(n_nodes, 1), axis=1).astype(np.int64)


def chow_liu_tree(states: Ints, weights: Floats) -> Ints:
    """The spanning tree of the largest mutual information (Chow and Liu 1968), shape (n - 1, 2).

    Counts start at 1/2 a cell, so that no pair of rare answers has all the information.
    """
    total = float(weights.sum()) + 2.0
    on = states.astype(np.float64)
    both = ((on * weights[:, None]).T @ on + 0.5) / total
    one = ((on * weights[:, None]).sum(axis=0) + 1.0) / total
    information = np.zeros_like(both)
    for pair, left, right in (
        (both, one, one),
        (one[:, None] - both, one, 1.0 - one),
        (one[None, :] - both, 1.0 - one, one),
        (1.0 - one[:, None] - one[None, :] + both, 1.0 - one, 1.0 - one),
    ):
        information += xlogy(pair, np.maximum(pair, 1e-300) / np.outer(left, right))
    cost = 1.0 + information.max() - information  # SciPy takes 0 for no edge
    tree = minimum_spanning_tree(np.triu(cost, 1)).tocoo()
    return np.stack([tree.row, tree.col], axis=1).astype(np.int64)


def read_graph(graph: Any, n_nodes: int) -> PairwiseGraph:
    """The graph of given pairs of labels."""
    if isinstance(graph, PairwiseGraph):
        if graph.n_nodes != n_nodes:
            raise ValueError(f"graph has {graph.n_nodes} nodes, but there are {n_nodes} labels")
        return graph
    return PairwiseGraph(n_nodes, check_edges(graph, n_nodes, "graph"))
