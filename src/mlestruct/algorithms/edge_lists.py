"""Undirected graphs as lists of edges tail[e] - head[e]: checks, adjacency, components."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def checked_edges(n_nodes: int, tail: ArrayLike, head: ArrayLike) -> tuple[Ints, Ints]:
    """`tail` and `head` as int64 arrays of shape (n_edges,), each undirected edge given once."""
    if n_nodes < 1:
        raise ValueError(f"n_nodes must be at least 1, got {n_nodes}")
    ends = []
    for name, given in (("tail", tail), ("head", head)):
        array = np.asarray(given)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise ValueError(
                f"{name} must be a 1-d array of integers, got shape {array.shape} of {array.dtype}"
            )
        if array.size and (array.min() < 0 or array.max() >= n_nodes):
            raise ValueError(
                f"{name} must be in 0..{n_nodes - 1}, got {array.min()}..{array.max()}"
            )
        ends.append(np.array(array, np.int64, order="C"))  # ours, writable: one compiled type
    i, j = ends
    if i.shape != j.shape:
        raise ValueError(f"tail and head must have the same length, got {i.size} and {j.size}")
    if (i == j).any():
        raise ValueError(
            f"edge {int(np.argmax(i == j))} joins node {i[np.argmax(i == j)]} to itself"
        )
    keys = np.sort(np.minimum(i, j) * n_nodes + np.maximum(i, j))
    if (keys[1:] == keys[:-1]).any():
        raise ValueError("an edge is given twice; add up its scores and give it once")
    return i, j


def checked_scores(name: str, given: ArrayLike, size: int) -> Floats:
    """`given` as a float64 array of shape (size,), laid out as kernels expect, checked."""
    scores = np.require(given, np.float64, ["C", "W"])  # a read-only array would recompile
    if scores.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {scores.shape}")
    largest = max(float(scores.max(initial=0.0)), -float(scores.min(initial=0.0)))
    if not np.isfinite(4.0 * largest * (size + 1)):
        raise ValueError(f"{name} must be finite and its sum must not overflow")
    return scores


def is_forest(n_nodes: int, tail: Ints, head: Ints) -> bool:
    """Whether the graph has no cycle."""
    graph = coo_array((np.ones(tail.size, np.int8), (tail, head)), (n_nodes, n_nodes))
    n_components = connected_components(graph, directed=False, return_labels=False)
    return bool(tail.size == n_nodes - n_components)


def half_edges(n_nodes: int, tail: Ints, head: Ints) -> tuple[Ints, Ints]:
    """Adjacency (ptr, half), of shapes (n_nodes + 1,) and (2 * n_edges,).

    half[ptr[i]:ptr[i + 1]] are the edges e at node i, as e where i is the tail and e + n_edges
    where i is the head, sorted by the node at the other end.
    """
    ends = np.concatenate([tail, head])
    half = np.lexsort((np.concatenate([head, tail]), ends))
    ptr = np.zeros(n_nodes + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=n_nodes), out=ptr[1:])
    return ptr, half
