"""Spanning trees of a graph, and directed ones: the best one, sums over all, samples.

A directed tree gives every node but the root, node 0, a parent. Tables hold the score of u as the
parent of v at [u, v], -inf where there is no edge. The determinant of the matrix-tree theorem is
computed node by node in the logarithmic domain: only positive numbers are added, so scores may have
any range. A tree without direction is a directed one in a symmetric table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.special import logsumexp

from ...exceptions import InfeasibleError
from ..decoder import DecoderSpace
from ..exact import CountedOutputs
from .graph import checked_pairs, connected_graph

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
        if entropy is None:  # another entropy is another space
            key = hash((self.tail.tobytes(), self.head.tobytes()))
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
        table = np.full((self._n_nodes, self._n_nodes), -np.inf)
        table[self.tail, self.head] = scores
        if not self.is_directed:
            table[self.head, self.tail] = scores
        return table

    def _best(self, scores: Floats) -> Bools:
        order = np.argsort(-scores, kind="stable")
        rank = np.empty(order.shape[0])
        rank[order] = np.arange(1.0, order.shape[0] + 1.0)  # the tree depends on the order alone
        ends = self.tail.astype(np.int32), self.head.astype(np.int32)  # SciPy 1.15 takes no others
        tree = minimum_spanning_tree(csr_array((rank, ends), shape=(self._n_nodes,) * 2))
        out = np.zeros(order.shape[0], dtype=bool)
        out[order[tree.data.astype(np.int64) - 1]] = True
        return out

    def _output(self, parent: Ints) -> Bools:
        """The 0/1 vector of a tree's edges, from the parents of its nodes."""
        chosen: Bools = parent[self.head] == self.tail
        return chosen if self.is_directed else chosen | (parent[self.tail] == self.head)

    def exact(self, scores: Floats) -> CountedOutputs:
        """log Z by the matrix-tree theorem; samples by loop-erased random walks."""
        table = self._table(scores)
        log_partition, tau = _tree_partition(table)
        if not self.is_directed:
            tau = np.minimum(tau + tau.T, 1.0)
        return CountedOutputs(
            log_partition,
            tau[self.tail, self.head],
            lambda rng: self._output(_sample_parents(table, rng)),
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
        tail, head = checked_pairs(n, edges)
        if np.unique(tail * n + head).size != tail.size:
            raise ValueError("edges: an edge is given twice")
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


def best_parents(table: Floats) -> Ints:
    """Parents in the directed tree of the largest total score, -1 of the root (Edmonds 1967).

    Every node takes its best parent. A cycle that results becomes one node, which a parent outside
    enters at the node where that costs least.
    """
    n = table.shape[0]
    parent = np.argmax(np.where(np.eye(n, dtype=bool), -np.inf, table), axis=0)
    parent[0] = -1
    cycle = _cycle(parent)
    if cycle.size == 0:
        return parent
    rest = np.setdiff1d(np.arange(n), cycle)
    into = table[np.ix_(rest, cycle)] - table[parent[cycle], cycle]
    out = table[np.ix_(cycle, rest)]
    smaller = np.full((rest.size + 1, rest.size + 1), -np.inf)
    smaller[:-1, :-1] = table[np.ix_(rest, rest)]
    smaller[:-1, -1], smaller[-1, :-1] = into.max(axis=1), out.max(axis=0)
    found = best_parents(smaller)
    for k, v in enumerate(rest.tolist()):
        if v > 0:
            inner = found[k] == rest.size
            parent[v] = cycle[int(np.argmax(out[:, k]))] if inner else rest[found[k]]
    entered = int(found[-1])
    parent[cycle[int(np.argmax(into[entered]))]] = rest[entered]
    return parent


def _cycle(parent: Ints) -> Ints:
    """The nodes of some cycle, empty if there is none."""
    seen = np.full(parent.shape[0], -1, dtype=np.int64)
    for start in range(parent.shape[0]):
        v = start
        while v >= 0 and seen[v] < 0:
            seen[v] = start
            v = int(parent[v])
        if v >= 0 and seen[v] == start:
            cycle = [v]
            while parent[cycle[-1]] != v:
                cycle.append(int(parent[cycle[-1]]))
            return np.array(cycle)
    return np.zeros(0, dtype=np.int64)


def _tree_partition(table: Floats) -> tuple[float, Floats]:
    """log of the sum over all directed trees, and its gradient: P(u is the parent of v) at [u, v].

    The last node v adds log sum over u of exp(w_uv) to log Z; through it, u becomes a parent of x
    with the weight w_uv w_vx / sum. The gradient follows these steps backwards.
    """
    table, n = table.copy(), table.shape[0]
    log_partition, steps = 0.0, []
    for v in range(n - 1, 0, -1):
        into, out = table[:v, v], table[v, :v]
        total = float(logsumexp(into))
        log_partition += total
        through = into[:, None] + out[None] - total
        after = np.logaddexp(table[:v, :v], through)
        np.fill_diagonal(after, -np.inf)
        with np.errstate(invalid="ignore"):
            share = np.where(np.isfinite(after), np.exp(through - after), 0.0)
        steps.append((np.exp(into - total), share))
        table[:v, :v] = after
    slope = np.zeros((n, n))
    for v, (chance, share) in zip(range(1, n), reversed(steps), strict=True):
        through = slope[:v, :v] * share
        slope[:v, :v] -= through
        slope[v, :v] = through.sum(axis=0)
        slope[:v, v] = through.sum(axis=1) + (1.0 - through.sum()) * chance
    return log_partition, np.clip(slope, 0.0, 1.0)


def _sample_parents(table: Floats, rng: np.random.Generator) -> Ints:
    """Parents of a tree with probability proportional to exp(total score) (Wilson's algorithm).

    Random walks from every node, parent by parent, to the tree so far, with loops erased. They take
    long where the root is reached only through edges of low score.
    """
    n = table.shape[0]
    steps = np.cumsum(np.exp(table[:, 1:] - logsumexp(table[:, 1:], axis=0)), axis=0)
    inside, parent = np.arange(n) == 0, np.full(n, -1, dtype=np.int64)
    for start in range(1, n):
        v = start
        while not inside[v]:
            column = steps[:, v - 1]
            parent[v] = np.searchsorted(column, rng.uniform() * column[-1], side="right")
            v = int(parent[v])
        v = start
        while not inside[v]:
            inside[v] = True
            v = int(parent[v])
    return parent
