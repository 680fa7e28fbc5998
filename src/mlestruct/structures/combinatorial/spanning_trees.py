"""Spanning trees of a graph, and directed ones: best by sorting edges or contracting cycles, their
sum by a determinant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from ...algorithms.matrix_tree import (
    best_parents,
    best_spanning_tree,
    sample_parents,
    score_table,
    tree_partition,
)
from ...exceptions import InfeasibleError
from ..decoder import DecoderSpace
from .counted import CountedOutputs
from .graph import connected_graph, directed_edges

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class SpanningTrees(DecoderSpace):
    """Output space of the spanning trees of a connected graph.

    A coordinate is an edge, 1 if it is in the tree. Marginals by Frank-Wolfe use the entropy of
    independent edges; `exact` gives log Z and marginals by the matrix-tree theorem
    (`ExactInference(SpanningTrees(...))` for learning with them).

    Parameters
    ----------
    n_nodes : int
    edges : (n_edges, 2), without loops or repetitions; by default all pairs of nodes
    entropy : as in `DecoderSpace`

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference import log_partition
    >>> from mlestruct.structures import SpanningTrees
    >>> trees = log_partition(SpanningTrees(6), np.zeros(15), method="exact")
    >>> round(np.exp(trees)) == 6**4  # Cayley
    True
    """

    is_directed = False

    def __init__(self, n_nodes: int, edges: ArrayLike | None = None, entropy: Any = None):
        self._n_nodes = int(n_nodes)
        self.tail, self.head = self._read(edges)
        super().__init__(self._best, self.tail.shape[0], entropy=entropy)
        key = hash((self.tail.tobytes(), self.head.tobytes()))
        if entropy is None:  # another entropy is another space
            self.fingerprint = f"{type(self).__name__} {self._n_nodes} {key}"

    def _read(self, edges: ArrayLike | None) -> tuple[Ints, Ints]:
        if edges is None:
            edges = np.stack(np.triu_indices(self._n_nodes, 1), axis=1)
        return connected_graph(self._n_nodes, edges)

    @property
    def n_nodes(self) -> int:
        return self._n_nodes

    @property
    def edges(self) -> Ints:
        """Shape (n_edges, 2): the smaller node first, or the parent."""
        return np.stack([self.tail, self.head], axis=1)

    def _table(self, scores: Floats) -> Floats:
        return score_table(self._n_nodes, self.tail, self.head, scores, not self.is_directed)

    def _best(self, scores: Floats) -> Bools:
        return best_spanning_tree(self._n_nodes, self.tail, self.head, scores)

    def _output(self, parent: Ints) -> Bools:
        """The 0/1 vector of a tree's edges, from the parents of its nodes."""
        chosen: Bools = parent[self.head] == self.tail
        return chosen if self.is_directed else chosen | (parent[self.tail] == self.head)

    def exact(self, scores: Floats) -> CountedOutputs:
        """log Z by the matrix-tree theorem; samples by loop-erased random walks."""
        table = self._table(scores)
        log_partition, tau = tree_partition(table)
        if not self.is_directed:
            tau = np.minimum(tau + tau.T, 1.0)
        return CountedOutputs(
            log_partition,
            tau[self.tail, self.head],
            lambda rng: self._output(sample_parents(table, rng)),
        )


class DirectedTrees(SpanningTrees):
    """Output space of the directed trees from node 0 that reach all nodes: dependency parses.

    A coordinate is an edge from a parent to a child, 1 if it is in the tree: of the edges into a
    node other than 0 exactly one is. The best tree is found by contracting cycles (Chu-Liu and
    Edmonds), log Z by the matrix-tree theorem for directed graphs.

    Parameters
    ----------
    n_nodes : int, with the root, node 0
    edges : (n_edges, 2), each from parent to child; by default all but those into the root
    entropy : as in `DecoderSpace`; `factor_entropy(n, space.choices)` is that of independent nodes

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference import log_partition
    >>> from mlestruct.structures import DirectedTrees
    >>> round(np.exp(log_partition(DirectedTrees(4), np.zeros(9), method="exact")))  # 4^2
    16
    """

    is_directed = True

    def _read(self, edges: ArrayLike | None) -> tuple[Ints, Ints]:
        n = self._n_nodes
        if edges is None:
            edges = [(u, v) for v in range(1, n) for u in range(n) if u != v]
        tail, head = directed_edges(n, edges)
        if (head == 0).any():
            raise ValueError("edges: node 0 is the root and has no parent")
        graph = csr_array((np.ones(tail.size), (tail, head)), shape=(n, n))
        reached = breadth_first_order(graph, 0, return_predecessors=False)
        if reached.size < n:
            away = np.setdiff1d(np.arange(n), reached)[:5].tolist()
            raise InfeasibleError(
                f"edges: there is no way from the root to nodes {away}", away, "nodes"
            )
        return tail, head

    @property
    def choices(self) -> list[Ints]:
        """For every node but the root the coordinates of the edges into it."""
        return [np.flatnonzero(self.head == v) for v in range(1, self._n_nodes)]

    def parents(self, label: ArrayLike) -> Ints:
        """The parent of every node, -1 of the root, from a 0/1 vector of edges."""
        out = np.full(self._n_nodes, -1, dtype=np.int64)
        chosen = np.asarray(label, dtype=bool)
        out[self.head[chosen]] = self.tail[chosen]
        return out

    def label_of_parents(self, parents: ArrayLike) -> Ints:
        """The 0/1 vector of edges, from the parent of every node (that of the root is ignored)."""
        return self._output(np.asarray(parents)).astype(np.int64)

    def _best(self, scores: Floats) -> Bools:
        return self._output(best_parents(self._table(scores)))
