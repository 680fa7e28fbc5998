"""MAP decoding on forests: max-product, exact and linear in the size of the graph.

Scores have the overcomplete layout: n_nodes * n_states node entries, node by node, then
n_states * n_states entries per edge, edge by edge, the state of the tail changing slowest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..edge_lists import checked_edges, checked_scores, half_edges, is_forest
from ._viterbi_kernels import breadth_first, max_product

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
        if not is_forest(n_nodes, self.tail, self.head):
            raise ValueError("the graph has a cycle; max-product needs a forest")
        ptr, half = half_edges(n_nodes, self.tail, self.head)
        self._order = np.empty(n_nodes, np.int64)
        self._parent = np.empty(n_nodes, np.int64)
        self._up = np.empty(n_nodes, np.int64)
        breadth_first(ptr, half, self.tail, self.head, self._order, self._parent, self._up)

    def solve(self, scores: ArrayLike) -> tuple[Ints, float]:
        """Labels of shape (n_nodes,) that maximise the total score, and that score.

        Ties go to the lowest state, roots first.
        """
        states = self.n_states
        size = self.n_nodes * states + self.n_edges * states**2
        given = checked_scores("scores", scores, size)
        labels = np.empty(self.n_nodes, np.int64)
        value = max_product(self._order, self._parent, self._up, self.head, given, states, labels)
        return labels, float(value)
