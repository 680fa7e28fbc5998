"""Planar graphs: faces of a straight-line drawing, the best cut, and sums over all cuts.

A cut is the set of edges whose ends are on different sides. In a planar graph cuts are the even
subgraphs of the dual graph, so that the best one is a matching problem (Hadlock 1975), and the sum
over all cuts is the partition function of an Ising model without field (Kac and Ward 1952).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from .matching.blossom import best_matching

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Dual(NamedTuple):
    """The faces on both sides of every edge, (n_edges,) each, and the number of faces."""

    left: Ints
    right: Ints
    n_faces: int


def dual_graph(tail: Ints, head: Ints, positions: Floats) -> Dual:
    """Faces of a drawing with straight edges; ValueError if edges must cross.

    Half-edge e points from tail to head, half-edge n_edges + e back. A walk along a face turns at
    every node into the next half-edge by angle.
    """
    n_edges, n_nodes = tail.shape[0], positions.shape[0]
    start, end = np.concatenate([tail, head]), np.concatenate([head, tail])
    way = positions[end] - positions[start]
    order = np.lexsort((np.arctan2(way[:, 1], way[:, 0]), start))
    place = np.empty_like(order)
    place[order] = np.arange(order.shape[0])
    first = np.searchsorted(start[order], np.arange(n_nodes + 1))
    reverse = np.concatenate([np.arange(n_edges, 2 * n_edges), np.arange(n_edges)])
    before = place[reverse] - 1  # clockwise at the node that a half-edge points to
    before = np.where(before < first[end], first[end + 1] - 1, before)
    following = order[before]
    face = np.full(2 * n_edges, -1, dtype=np.int64)
    n_faces = 0
    for half in range(2 * n_edges):
        if face[half] >= 0:
            continue
        at = half
        while face[at] < 0:
            face[at] = n_faces
            at = int(following[at])
        n_faces += 1
    if n_nodes - n_edges + n_faces != 2:
        raise ValueError(
            f"positions: the drawing has {n_faces} faces, a connected planar graph of {n_nodes} "
            f"nodes and {n_edges} edges has {2 - n_nodes + n_edges}; edges must not cross"
        )
    return Dual(face[:n_edges], face[n_edges:], n_faces)


def best_cut(dual: Dual, scores: Floats) -> Bools:
    """Whether each edge is in the cut of the largest total score.

    All edges of positive score are wanted. The faces with an odd number of them are paired by
    shortest paths in the dual graph, and the wanted edges changed along these paths.
    """
    wanted = scores > 0.0
    odd = np.bincount(dual.left, wanted, dual.n_faces) + np.bincount(
        dual.right, wanted, dual.n_faces
    )
    ends = np.flatnonzero(odd % 2 == 1)
    if ends.size == 0:
        return wanted
    low, high = np.minimum(dual.left, dual.right), np.maximum(dual.left, dual.right)
    weight = np.abs(scores)
    order = np.lexsort((weight, low * dual.n_faces + high))
    keys = (low * dual.n_faces + high)[order]
    kept = order[np.concatenate([[True], keys[1:] != keys[:-1]])]  # the lightest of parallel edges
    kept = kept[low[kept] != high[kept]]
    # SciPy takes weights of 0 for missing edges.
    cost = np.maximum(weight[kept], 1e-12 * max(float(weight.max()), 1e-290))
    shape = (dual.n_faces, dual.n_faces)
    graph = csr_array((cost, (low[kept], high[kept])), shape=shape)
    edge_at = csr_array((kept + 1, (low[kept], high[kept])), shape=shape)
    edge_at = (edge_at + edge_at.T).tocsr()
    distance, previous = dijkstra(graph, directed=False, indices=ends, return_predecessors=True)
    n = ends.size
    a, b = np.triu_indices(n, 1)
    ptr = np.searchsorted(a, np.arange(n + 1))
    pairs = best_matching(n, ptr, b, -distance[a, ends[b]]).edges
    cut = wanted.copy()
    for source, target in zip(a[pairs].tolist(), ends[b[pairs]].tolist(), strict=True):
        at = target
        while at != ends[source]:
            other = int(previous[source, at])
            edge = int(edge_at[other, at]) - 1
            cut[edge] = not cut[edge]
            at = other
    return cut


class KacWard:
    """log of the sum over all cuts of exp(total score), and the probability of every edge.

    With w = tanh(-score / 2), every edge twice, and T the matrix of w times exp(i angle / 2) for
    turns from one half-edge into the next, log Z = sum of (score / 2 + log cosh(score / 2))
    + (n_nodes - 1) log 2 + log det(1 - T) / 2.
    """

    def __init__(self, tail: Ints, head: Ints, positions: Floats):
        self.n_nodes, self.n_edges = positions.shape[0], tail.shape[0]
        start, end = np.concatenate([tail, head]), np.concatenate([head, tail])
        way = positions[end] - positions[start]
        angle = np.arctan2(way[:, 1], way[:, 0])
        turn = angle[None, :] - angle[:, None]
        turn = (turn + np.pi) % (2.0 * np.pi) - np.pi
        follows = end[:, None] == start[None, :]
        half = np.arange(2 * self.n_edges)
        follows[half, (half + self.n_edges) % (2 * self.n_edges)] = False
        self._turns = np.where(follows, np.exp(0.5j * turn), 0.0)

    def solve(self, scores: Floats) -> tuple[float, Floats]:
        """log Z and tau; scores of +-inf force an edge into or out of the cut."""
        w = np.tanh(-0.5 * scores)
        matrix = np.eye(2 * self.n_edges) - np.tile(w, 2)[:, None] * self._turns
        log_det = float(np.linalg.slogdet(matrix)[1])
        with np.errstate(invalid="ignore"):
            parts = 0.5 * scores + np.logaddexp(0.5 * scores, -0.5 * scores) - np.log(2.0)
        log_z = float(parts.sum() + (self.n_nodes - 1) * np.log(2.0) + 0.5 * log_det)
        inner = np.einsum("ij,ji->i", self._turns, np.linalg.inv(matrix)).real
        by_w = -0.5 * (inner[: self.n_edges] + inner[self.n_edges :])
        tau = 0.5 - 0.5 * w - 0.5 * (1.0 - w * w) * by_w
        return log_z, np.clip(tau, 0.0, 1.0)
