"""Paths in a directed graph without cycles, with the exact entropy of their marginals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from ...algorithms.dag_paths import PathGraph
from ...exceptions import InfeasibleError
from .._entropy_kernels import FLOOR
from ..contract import Bounds
from ..decoder import DecoderSpace
from .counted import CountedOutputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class PathEntropy:
    """H = sum over nodes of tau_v log tau_v - sum over edges of tau_e log tau_e.

    A random path is a Markov chain, whose choice at a node v has the probabilities tau_e / tau_v of
    the edges that leave it: this is its entropy, without approximation.
    """

    def __init__(self, n_nodes: int, tail: Ints, used: NDArray[np.bool_]):
        self._n_nodes, self._tail, self._used = n_nodes, tail, used

    def _at_nodes(self, tau: Floats) -> Floats:
        return np.bincount(self._tail, tau, self._n_nodes).astype(np.float64)

    def __call__(self, tau: Floats) -> float:
        nodes = self._at_nodes(tau)
        return float(xlogy(nodes, nodes).sum() - xlogy(tau, tau).sum())

    def gradient(self, tau: Floats) -> Floats:
        nodes = self._at_nodes(tau)[self._tail]
        slope = np.log(np.maximum(nodes, FLOOR)) - np.log(np.maximum(tau, FLOOR))
        return np.where(self._used, slope, 0.0)


class Paths(DecoderSpace):
    """Output space of the paths from a source to a target in a directed graph without cycles.

    A coordinate is an edge, 1 if the path takes it. Entropy and marginals are exact, so learning
    maximises the likelihood itself.

    Parameters
    ----------
    edges : (n_edges, 2), each from its first node to its second
    source, target : nodes

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference import marginals
    >>> from mlestruct.structures import Paths
    >>> diamond = Paths([(0, 1), (0, 2), (1, 3), (2, 3)], source=0, target=3)
    >>> marginals(diamond, [np.log(3.0), 0.0, 0.0, 0.0]).tau.round(2)
    array([0.75, 0.25, 0.75, 0.25])
    """

    def __init__(self, edges: ArrayLike, source: int, target: int, entropy: Any = None):
        pairs = np.asarray(edges)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise ValueError(
                f"edges: expected whole numbers of shape (n_edges, 2), got {edges!r:.60}"
            )
        if pairs.min(initial=0) < 0:
            raise ValueError("edges: nodes are numbered from 0")
        n_nodes = int(max(pairs.max(initial=0), source, target)) + 1
        self.tail, self.head = np.ascontiguousarray(pairs.astype(np.int64).T)
        graph = PathGraph(n_nodes, self.tail, self.head, int(source), int(target))
        if source == target or not graph.used.any():
            raise InfeasibleError(
                f"edges: there is no path from {source} to {target}", [int(source)], "nodes"
            )
        self._graph = graph
        exact = entropy is None
        super().__init__(
            graph.best,
            len(pairs),
            entropy=PathEntropy(n_nodes, self.tail, graph.used) if exact else entropy,
            interior=graph.marginals(np.zeros(len(pairs)))[1],
            marginals=self._forward_backward if exact else None,
        )
        key = hash((self.tail.tobytes(), self.head.tobytes(), source, target))
        if entropy is None:  # another entropy is another space
            self.fingerprint = f"paths {len(pairs)} {key}"

    def _forward_backward(self, scores: Floats) -> tuple[Floats, float]:
        log_z, tau = self._graph.marginals(scores)
        return tau, log_z

    def exact(self, scores: Floats) -> CountedOutputs:
        """log Z, marginals and samples by sums over paths from and to each node."""
        log_z, tau = self._graph.marginals(scores)
        ahead = self._graph.backward(scores)
        return CountedOutputs(log_z, tau, lambda rng: self._graph.sample(scores, ahead, rng))

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """log Z is exact."""
        log_z = self._graph.marginals(scores)[0]
        return Bounds(log_z, log_z, "exact", "exact")
