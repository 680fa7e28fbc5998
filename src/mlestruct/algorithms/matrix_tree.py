"""Weighted spanning trees: the best one, their partition function (matrix-tree theorem), samples.

The determinant of the theorem is computed by star-mesh transforms, node by node, in the logarithmic
domain: only positive numbers are added, so scores may have any range.
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
    """log Z and the probability of every edge."""

    log_partition: float
    tau: Floats


def best_tree(n_nodes: int, tail: Ints, head: Ints, scores: Floats) -> Bools:
    """Whether each edge is in the spanning tree of the largest total score."""
    order = np.argsort(-scores, kind="stable")
    rank = np.empty(order.shape[0])
    rank[order] = np.arange(1.0, order.shape[0] + 1.0)  # the tree depends on the order alone
    graph = csr_array((rank, (tail, head)), shape=(n_nodes, n_nodes))
    chosen = minimum_spanning_tree(graph).data.astype(np.int64) - 1
    out = np.zeros(order.shape[0], dtype=bool)
    out[order[chosen]] = True
    return out


def tree_partition(n_nodes: int, tail: Ints, head: Ints, scores: Floats) -> TreePartition:
    """Sum over all spanning trees of exp(total score), and its gradient, the edge probabilities.

    Node v, the last one left, has log-weights w_u to the others; it adds log sum exp(w) to log Z
    and a weight exp(w_a + w_b) / sum exp(w) between every two of them. The gradient follows these
    steps backwards.
    """
    table = np.full((n_nodes, n_nodes), -np.inf)
    table[tail, head] = table[head, tail] = scores
    log_partition, steps = 0.0, []
    for v in range(n_nodes - 1, 0, -1):
        row = table[v, :v]
        total = float(logsumexp(row))
        log_partition += total
        mesh = row[:, None] + row[None] - total
        before = table[:v, :v]
        after = np.logaddexp(before, mesh)
        np.fill_diagonal(after, -np.inf)
        with np.errstate(invalid="ignore"):
            added = np.exp(mesh - after)  # share of the mesh in the new weight
        added[~np.isfinite(after)] = 0.0
        steps.append((np.exp(row - total), added))
        table[:v, :v] = after
    slope = np.zeros((n_nodes, n_nodes))
    for v, (share, added) in zip(range(1, n_nodes), reversed(steps), strict=True):
        mesh_slope = slope[:v, :v] * added
        slope[:v, :v] -= mesh_slope
        of_row = mesh_slope.sum(axis=1)
        slope[v, :v] = slope[:v, v] = of_row + (1.0 - 0.5 * of_row.sum()) * share
    return TreePartition(log_partition, np.clip(slope[tail, head], 0.0, 1.0))


def sample_tree(
    n_nodes: int, tail: Ints, head: Ints, scores: Floats, rng: np.random.Generator
) -> Bools:
    """A spanning tree with probability proportional to exp(total score) (Wilson's algorithm).

    Random walks from every node to the tree so far, with loops erased. They take long where few
    edges of low score connect parts of the graph.
    """
    edge_of = np.full((n_nodes, n_nodes), -1, dtype=np.int64)
    edge_of[tail, head] = edge_of[head, tail] = np.arange(tail.shape[0])
    table = np.full((n_nodes, n_nodes), -np.inf)
    table[tail, head] = table[head, tail] = scores
    steps = np.cumsum(np.exp(table - logsumexp(table, axis=1, keepdims=True)), axis=1)
    inside, following = np.zeros(n_nodes, dtype=bool), np.zeros(n_nodes, dtype=np.int64)
    inside[0] = True
    out = np.zeros(tail.shape[0], dtype=bool)
    for start in range(1, n_nodes):
        v = start
        while not inside[v]:
            drawn = np.searchsorted(steps[v], rng.uniform() * steps[v, -1], side="right")
            following[v] = drawn
            v = int(drawn)
        v = start
        while not inside[v]:
            inside[v] = True
            out[edge_of[v, following[v]]] = True
            v = int(following[v])
    return out
