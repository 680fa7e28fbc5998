"""Spanning trees of a graph: the best one by sorting edges, their number by a determinant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...algorithms.matrix_tree import best_tree, sample_tree, tree_partition
from ..decoder import DecoderSpace
from .counted import CountedOutputs
from .graph import connected_graph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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

    def __init__(self, n_nodes: int, edges: ArrayLike | None = None, entropy: Any = None):
        if edges is None:
            edges = np.stack(np.triu_indices(int(n_nodes), 1), axis=1)
        low, high = connected_graph(n_nodes, edges)
        self._n_nodes, self.tail, self.head = int(n_nodes), low, high
        super().__init__(self._best, low.shape[0], entropy=entropy)
        self.fingerprint = f"trees {self._n_nodes} {hash((low.tobytes(), high.tobytes()))}"

    @property
    def n_nodes(self) -> int:
        return self._n_nodes

    @property
    def edges(self) -> Ints:
        """Shape (n_edges, 2), the smaller node first."""
        return np.stack([self.tail, self.head], axis=1)

    def _best(self, scores: Floats) -> NDArray[np.bool_]:
        return best_tree(self._n_nodes, self.tail, self.head, scores)

    def exact(self, scores: Floats) -> CountedOutputs:
        """log Z by the matrix-tree theorem; samples by loop-erased random walks."""
        graph = self._n_nodes, self.tail, self.head
        found = tree_partition(*graph, scores)
        return CountedOutputs(
            found.log_partition, found.tau, lambda rng: sample_tree(*graph, scores, rng)
        )
