"""Graphs as lists of edges, as users give them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ...algorithms.edge_lists import checked_edges
from ...exceptions import InfeasibleError

Ints = NDArray[np.int64]


def checked_pairs(n_nodes: int, edges: ArrayLike) -> tuple[Ints, Ints]:
    """Both ends of every edge, without loops."""
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"edges: expected whole numbers of shape (n_edges, 2), got {pairs.dtype} of shape "
            f"{pairs.shape}"
        )
    if pairs.min() < 0 or pairs.max() >= n_nodes:
        raise ValueError(
            f"edges: expected nodes 0 .. {n_nodes - 1}, got {pairs.min()} .. {pairs.max()}"
        )
    tail, head = pairs.astype(np.int64).T.copy()
    if (tail == head).any():
        raise ValueError(f"edges: node {tail[np.argmax(tail == head)]} has an edge to itself")
    return tail, head


def connected_graph(n_nodes: int, edges: ArrayLike) -> tuple[Ints, Ints]:
    """The smaller and the larger end of every edge of a simple, connected graph."""
    ends = checked_edges(n_nodes, *checked_pairs(n_nodes, edges))
    low, high = np.minimum(*ends), np.maximum(*ends)
    links = coo_array((np.ones(low.size, dtype=np.int8), (low, high)), shape=(n_nodes, n_nodes))
    part = connected_components(links, directed=False)[1]
    if part.max(initial=0) > 0:
        away = np.flatnonzero(part != part[0])[:5].tolist()
        raise InfeasibleError(
            f"edges: the graph is not connected, nodes {away} have no path to node 0", away, "nodes"
        )
    return low, high
