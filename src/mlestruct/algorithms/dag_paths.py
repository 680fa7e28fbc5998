"""Paths from a source to a target in a directed graph without cycles: best one, sums over all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class PathGraph:
    """Edges in an order in which those into a node come before those out of it.

    Parameters
    ----------
    tail, head : arrays of shape (n_edges,), of each edge tail -> head
    source, target : nodes

    Attributes
    ----------
    used : booleans of shape (n_edges,), whether some path has the edge
    """

    def __init__(self, n_nodes: int, tail: Ints, head: Ints, source: int, target: int):
        self.n_nodes, self.tail, self.head = n_nodes, tail, head
        self.source, self.target = source, target
        level = self._levels()
        self._groups = [
            np.flatnonzero(level[tail] == k) for k in range(int(level.max(initial=0)) + 1)
        ]
        reached = np.isfinite(self.forward(np.zeros(tail.shape[0])))
        leads = np.isfinite(self.backward(np.zeros(tail.shape[0])))
        self.used: Bools = reached[tail] & leads[head]

    def _levels(self) -> Ints:
        """The longest way to each node from those without predecessors; ValueError at cycles."""
        level, waiting = (
            np.zeros(self.n_nodes, dtype=np.int64),
            np.bincount(self.head, minlength=self.n_nodes),
        )
        ready, done = np.flatnonzero(waiting == 0), 0
        while ready.size:
            done += ready.size
            out = np.flatnonzero(np.isin(self.tail, ready))
            np.maximum.at(level, self.head[out], level[self.tail[out]] + 1)
            np.subtract.at(waiting, self.head[out], 1)
            after = np.unique(self.head[out])
            ready = after[waiting[after] == 0]
        if done < self.n_nodes:
            cycle = np.flatnonzero(waiting > 0)[:5].tolist()
            raise ValueError(f"edges: nodes {cycle} are on a cycle or behind one")
        return level

    def forward(self, scores: Floats) -> Floats:
        """log of the sum over paths from the source to each node."""
        out = np.full(self.n_nodes, -np.inf)
        out[self.source] = 0.0
        for group in self._groups:
            np.logaddexp.at(out, self.head[group], out[self.tail[group]] + scores[group])
        return out

    def backward(self, scores: Floats) -> Floats:
        """log of the sum over paths from each node to the target."""
        out = np.full(self.n_nodes, -np.inf)
        out[self.target] = 0.0
        for group in reversed(self._groups):
            np.logaddexp.at(out, self.tail[group], out[self.head[group]] + scores[group])
        return out

    def best(self, scores: Floats) -> Bools:
        """Whether each edge is on the path of the largest total score."""
        value = np.full(self.n_nodes, -np.inf)
        value[self.target] = 0.0
        for group in reversed(self._groups):
            np.maximum.at(value, self.tail[group], value[self.head[group]] + scores[group])
        total = value[self.head] + scores
        order = np.lexsort((-total, self.tail))
        first = np.searchsorted(self.tail[order], np.arange(self.n_nodes))
        out = np.zeros(scores.shape[0], dtype=bool)
        node = self.source
        while node != self.target:
            edge = int(order[first[node]])
            out[edge] = True
            node = int(self.head[edge])
        return out

    def marginals(self, scores: Floats) -> tuple[float, Floats]:
        """log Z and the probability of every edge."""
        ahead, behind = self.backward(scores), self.forward(scores)
        log_z = float(ahead[self.source])
        with np.errstate(invalid="ignore"):
            tau = np.exp(behind[self.tail] + scores + ahead[self.head] - log_z)
        return log_z, np.where(self.used, np.minimum(tau, 1.0), 0.0)

    def sample(self, scores: Floats, ahead: Floats, rng: np.random.Generator) -> Bools:
        """A path with probability proportional to exp(total score); `ahead` is `backward`."""
        out = np.zeros(scores.shape[0], dtype=bool)
        node = self.source
        while node != self.target:
            edges = np.flatnonzero((self.tail == node) & self.used)
            chance = np.exp(scores[edges] + ahead[self.head[edges]] - ahead[node])
            edge = int(rng.choice(edges, p=chance / chance.sum()))
            out[edge] = True
            node = int(self.head[edge])
        return out
