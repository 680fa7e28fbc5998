"""MAP decoding on forests: max-product, exact and linear in the size of the graph.

Scores have the overcomplete layout: n_nodes * n_states node entries, node by node, then
n_states * n_states entries per edge, edge by edge, the state of the tail changing slowest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ._viterbi_kernels import breadth_first, max_product

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


def is_forest(n_nodes: int, tail: ArrayLike, head: ArrayLike) -> bool:
    """Whether the graph has no cycle."""
    i, j = checked_edges(n_nodes, tail, head)
    return bool(i.size == n_nodes - n_components(n_nodes, i, j))


def n_components(n_nodes: int, tail: Ints, head: Ints) -> int:
    """Number of connected components."""
    graph = coo_array((np.ones(tail.size, np.int8), (tail, head)), (n_nodes, n_nodes))
    return int(connected_components(graph, directed=False, return_labels=False))


class ForestDecoder:
    """Best labelling of a forest (any number of components, isolated nodes allowed).

    Parameters
    ----------
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    n_states : number of states of every node

    Examples
    --------
    >>> decoder = ForestDecoder(2, [0], [1], n_states=2)
    >>> labels, value = decoder.solve([0.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 1.0])
    >>> labels.tolist(), value
    ([0, 0], 3.0)
    """

    def __init__(self, n_nodes: int, tail: ArrayLike, head: ArrayLike, n_states: int) -> None:
        if n_states < 1:
            raise ValueError(f"n_states must be at least 1, got {n_states}")
        self.n_nodes, self.n_states = int(n_nodes), int(n_states)
        self.tail, self.head = checked_edges(n_nodes, tail, head)
        self.n_edges = self.tail.size
        if self.n_edges != n_nodes - n_components(n_nodes, self.tail, self.head):
            raise ValueError("the graph has a cycle; max-product needs a forest")
        ptr, half = half_edges(n_nodes, self.tail, self.head)
        self._order = np.empty(n_nodes, np.int64)
        self._parent = np.empty(n_nodes, np.int64)
        self._up = np.empty(n_nodes, np.int64)
        breadth_first(ptr, half, self.tail, self.head, self._order, self._parent, self._up)

    def solve(self, scores: ArrayLike) -> tuple[Ints, float]:
        """Labels of shape (n_nodes,) that maximise the total score, and that score.

        Among equally good choices the lowest state wins, roots first.
        """
        states = self.n_states
        size = self.n_nodes * states + self.n_edges * states**2
        given = checked_scores("scores", scores, size)
        labels = np.empty(self.n_nodes, np.int64)
        value = max_product(self._order, self._parent, self._up, self.head, given, states, labels)
        return labels, float(value)


def half_edges(n_nodes: int, tail: Ints, head: Ints) -> tuple[Ints, Ints]:
    """(ptr, half): half[ptr[i]:ptr[i + 1]] are the edges at node i, plus n_edges where i is head.

    Sorted by the node at the other end.
    """
    ends = np.concatenate([tail, head])
    half = np.lexsort((np.concatenate([head, tail]), ends))
    ptr = np.zeros(n_nodes + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=n_nodes), out=ptr[1:])
    return ptr, half
