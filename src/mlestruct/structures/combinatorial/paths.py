"""Paths in a directed graph without cycles, with the exact entropy of their marginals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from ...exceptions import InfeasibleError
from .._entropy_kernels import FLOOR
from ..contract import Bounds
from ..decoder import DecoderSpace
from ..exact import CountedOutputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
        self.source, self.target = int(source), int(target)
        n_nodes = int(max(pairs.max(initial=0), source, target)) + 1
        self.tail, self.head = np.ascontiguousarray(pairs.astype(np.int64).T)
        self._groups = _edges_by_level(n_nodes, self.tail, self.head)
        self._n_nodes, zeros = n_nodes, np.zeros(len(pairs))
        to, onwards = self._sums(zeros, self.source), self._sums(zeros, self.target)
        used = np.isfinite(to[self.tail] + onwards[self.head])
        if source == target or not used.any():
            raise InfeasibleError(
                f"edges: there is no path from {source} to {target}", [self.source], "nodes"
            )
        is_exact = entropy is None
        super().__init__(
            self._best,
            len(pairs),
            entropy=PathEntropy(n_nodes, self.tail, used) if is_exact else entropy,
            interior=self._forward_backward(zeros)[0],
            marginals=self._forward_backward if is_exact else None,
        )
        if is_exact:  # another entropy is another space
            key = hash((self.tail.tobytes(), self.head.tobytes(), source, target))
            self.fingerprint = f"paths {len(pairs)} {key}"

    def _sums(self, scores: Floats, end: int, add: Any = np.logaddexp) -> Floats:
        """log of the sum over paths from the source to each node, or from each to the target.

        With `add` the maximum, the score of the best one.
        """
        out = np.full(self._n_nodes, -np.inf)
        out[end] = 0.0
        forward = end == self.source
        start, stop = (self.tail, self.head) if forward else (self.head, self.tail)
        for group in self._groups if forward else reversed(self._groups):
            add.at(out, stop[group], out[start[group]] + scores[group])
        return out

    def _walk(self, choose: Any) -> Bools:
        """The path that takes at each node the edge that `choose` picks among those out of it."""
        out, node = np.zeros(self.tail.size, dtype=bool), self.source
        while node != self.target:
            edge = choose(np.flatnonzero(self.tail == node))
            out[edge] = True
            node = int(self.head[edge])
        return out

    def _best(self, scores: Floats) -> Bools:
        total = self._sums(scores, self.target, np.maximum)[self.head] + scores
        return self._walk(lambda edges: edges[np.argmax(total[edges])])

    def _forward_backward(self, scores: Floats) -> tuple[Floats, float]:
        to, onwards = self._sums(scores, self.source), self._sums(scores, self.target)
        log_z = float(onwards[self.source])
        tau = np.exp(to[self.tail] + scores + onwards[self.head] - log_z)
        return np.minimum(tau, 1.0), log_z

    def exact(self, scores: Floats) -> CountedOutputs:
        """log Z, marginals and samples by sums over paths from and to each node."""
        tau, log_z = self._forward_backward(scores)
        ahead = scores + self._sums(scores, self.target)[self.head]

        def draw(rng: np.random.Generator) -> Bools:
            def choose(edges: Ints) -> int:
                chance = np.exp(ahead[edges] - ahead[edges].max())
                return int(rng.choice(edges, p=chance / chance.sum()))

            return self._walk(choose)

        return CountedOutputs(log_z, tau, draw)

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """log Z is exact."""
        log_z = self._forward_backward(scores)[1]
        return Bounds(log_z, log_z, "exact", "exact")


class PathEntropy:
    """H = sum over nodes of tau_v log tau_v - sum over edges of tau_e log tau_e.

    A random path is a Markov chain, whose choice at a node v has the probabilities tau_e / tau_v of
    the edges that leave it: this is its entropy, without approximation.
    """

    def __init__(self, n_nodes: int, tail: Ints, used: Bools):
        self._n_nodes, self._tail, self._used = n_nodes, tail, used

    def __call__(self, tau: Floats) -> float:
        nodes = np.bincount(self._tail, tau, self._n_nodes)
        return float(xlogy(nodes, nodes).sum() - xlogy(tau, tau).sum())

    def gradient(self, tau: Floats) -> Floats:
        nodes = np.bincount(self._tail, tau, self._n_nodes)[self._tail]
        slope = np.log(np.maximum(nodes, FLOOR)) - np.log(np.maximum(tau, FLOOR))
        return np.where(self._used, slope, 0.0)


def _edges_by_level(n_nodes: int, tail: Ints, head: Ints) -> list[Ints]:
    """Edges in groups; those into a node come before those out of it. ValueError at cycles."""
    waiting = np.bincount(head, minlength=n_nodes)
    ready, groups, done = np.flatnonzero(waiting == 0), list[Ints](), 0
    while ready.size:
        out = np.flatnonzero(np.isin(tail, ready))
        groups.append(out)
        done += ready.size
        np.subtract.at(waiting, head[out], 1)
        after = np.unique(head[out])
        ready = after[waiting[after] == 0]
    if done < n_nodes:
        cycle = np.flatnonzero(waiting > 0)[:5].tolist()
        raise ValueError(f"edges: nodes {cycle} are on a cycle or behind one")
    return groups
