"""Weighted trees, directed from a root or without direction: the best one, sums over all, samples.

A directed tree gives every node but the root, node 0, a parent. Tables hold the score of u as the
parent of v at [u, v], -inf where there is no edge. The determinant of the matrix-tree theorem is
computed node by node in the logarithmic domain: only positive numbers are added, so scores may have
any range. A tree without direction is a directed one in a symmetric table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import logsumexp

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class TreePartition(NamedTuple):
    """log Z, and the probability of every edge: at [u, v] that u is the parent of v."""

    log_partition: float
    tau: Floats


def score_table(n_nodes: int, tail: Ints, head: Ints, scores: Floats, symmetric: bool) -> Floats:
    """Scores of edges as a table, -inf elsewhere."""
    table = np.full((n_nodes, n_nodes), -np.inf)
    table[tail, head] = scores
    if symmetric:
        table[head, tail] = scores
    return table


def best_spanning_tree(n_nodes: int, tail: Ints, head: Ints, scores: Floats) -> Bools:
    """Whether each edge is in the spanning tree of the largest total score."""
    order = np.argsort(-scores, kind="stable")
    rank = np.empty(order.shape[0])
    rank[order] = np.arange(1.0, order.shape[0] + 1.0)  # the tree depends on the order alone
    ends = tail.astype(np.int32), head.astype(np.int32)  # SciPy 1.15 takes no others
    graph = csr_array((rank, ends), shape=(n_nodes, n_nodes))
    chosen = minimum_spanning_tree(graph).data.astype(np.int64) - 1
    out = np.zeros(order.shape[0], dtype=bool)
    out[order[chosen]] = True
    return out


def best_parents(table: Floats) -> Ints:
    """Parents in the directed tree of the largest total score, -1 of the root (Edmonds 1967).

    Every node takes its best parent. A cycle that results becomes one node, which a parent outside
    enters at the node where that costs least.
    """
    n = table.shape[0]
    parent = np.argmax(np.where(np.eye(n, dtype=bool), -np.inf, table), axis=0)
    parent[0] = -1
    cycle = _cycle(parent)
    if cycle is None:
        return parent
    inside = np.zeros(n, dtype=bool)
    inside[cycle] = True
    rest = np.flatnonzero(~inside)
    into = table[np.ix_(rest, cycle)] - table[parent[cycle], cycle]
    out = table[np.ix_(cycle, rest)]
    smaller = np.full((rest.size + 1, rest.size + 1), -np.inf)
    smaller[:-1, :-1] = table[np.ix_(rest, rest)]
    smaller[:-1, -1], smaller[-1, :-1] = into.max(axis=1), out.max(axis=0)
    found = best_parents(smaller)
    result = np.full(n, -1, dtype=np.int64)
    result[cycle] = parent[cycle]
    for k, v in enumerate(rest.tolist()):
        if v > 0:
            inner = found[k] == rest.size
            result[v] = cycle[int(np.argmax(out[:, k]))] if inner else rest[found[k]]
    entered = int(found[-1])
    result[cycle[int(np.argmax(into[entered]))]] = rest[entered]
    return result


def _cycle(parent: Ints) -> Ints | None:
    """The nodes of some cycle, None if there is none."""
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
            return np.array(cycle, dtype=np.int64)
    return None


def tree_partition(table: Floats) -> TreePartition:
    """Sum over all directed trees of exp(total score), and its gradient, the edge probabilities.

    The last node v adds log sum over u of exp(w_uv) to log Z; through it, u becomes a parent of x
    with the weight w_uv w_vx / sum. The gradient follows these steps backwards.
    """
    table = table.copy()
    n = table.shape[0]
    log_partition, steps = 0.0, []
    for v in range(n - 1, 0, -1):
        into, out = table[:v, v], table[v, :v]
        total = float(logsumexp(into))
        log_partition += total
        through = into[:, None] + out[None] - total
        after = np.logaddexp(table[:v, :v], through)
        np.fill_diagonal(after, -np.inf)
        with np.errstate(invalid="ignore"):
            share = np.exp(through - after)
        share[~np.isfinite(after)] = 0.0
        steps.append((np.exp(into - total), share))
        table[:v, :v] = after
    slope = np.zeros((n, n))
    for v, (chance, share) in zip(range(1, n), reversed(steps), strict=True):
        through = slope[:v, :v] * share
        slope[:v, :v] -= through
        slope[v, :v] = through.sum(axis=0)
        slope[:v, v] = through.sum(axis=1) + (1.0 - through.sum()) * chance
    return TreePartition(log_partition, np.clip(slope, 0.0, 1.0))


def sample_parents(table: Floats, rng: np.random.Generator) -> Ints:
    """Parents of a tree with probability proportional to exp(total score) (Wilson's algorithm).

    Random walks from every node, parent by parent, to the tree so far, with loops erased. They take
    long where the root is reached only through edges of low score.
    """
    n = table.shape[0]
    steps = np.cumsum(np.exp(table[:, 1:] - logsumexp(table[:, 1:], axis=0)), axis=0)
    inside, parent = np.zeros(n, dtype=bool), np.full(n, -1, dtype=np.int64)
    inside[0] = True
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
