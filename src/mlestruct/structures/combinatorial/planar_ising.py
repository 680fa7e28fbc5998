"""The Ising model without field on a planar graph: two sides, and scores of edges between them.

A cut is the set of edges whose ends are on different sides. In a planar graph cuts are the even
subgraphs of the dual graph, so that the best one is a matching problem (Hadlock 1975), and the sum
over all cuts is the partition function of an Ising model without field (Kac and Ward 1952).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra

from ...algorithms.matching.blossom import best_matching
from ...algorithms.pairwise.spanning_trees import tree_weights
from ..contract import Bounds
from ..decoder import DecoderSpace, bounds_by_decoding
from ..entropy import factor_entropy
from ..exact import CountedOutputs
from .graph import connected_graph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class PlanarIsing(DecoderSpace):
    """Output space of the cuts of a planar graph: which edges have ends of different spin.

    A coordinate is an edge, 1 if the spins of its ends differ; a positive score prefers that. The
    best output is found by perfect matching in the dual graph. The default entropy is
    tree-reweighted, sum of rho_e h(tau_e) with rho from spanning trees: node marginals are 1/2, so
    nothing else is left of it, and log Z_rho is an upper bound. `exact` gives log Z and marginals
    by the determinant of Kac and Ward.

    Parameters
    ----------
    positions : (n_nodes, 2), of a drawing in which straight edges do not cross
    edges : (n_edges, 2), of a connected graph
    entropy : as in `DecoderSpace`

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference import log_partition
    >>> from mlestruct.structures import PlanarIsing
    >>> square = PlanarIsing([(0, 0), (1, 0), (1, 1), (0, 1)], [(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> round(np.exp(log_partition(square, np.zeros(4), method="exact")))  # 16 spins, 2 to a cut
    8
    """

    def __init__(self, positions: ArrayLike, edges: ArrayLike, entropy: Any = None):
        places = np.asarray(positions, dtype=np.float64)
        if places.ndim != 2 or places.shape[1] != 2 or not np.isfinite(places).all():
            raise ValueError(
                f"positions: expected finite numbers of shape (n_nodes, 2), got {places.shape}"
            )
        self.positions = places
        self.tail, self.head = connected_graph(len(places), edges)
        self._faces = _faces(self.tail, self.head, places)
        self.rho = tree_weights(len(places), self.tail, self.head).sum(axis=0)
        n = self.tail.shape[0]
        self._trees = factor_entropy(n, [], coordinates=self.rho)
        super().__init__(
            lambda scores: _best_cut(self._faces, scores),
            n,
            entropy=self._trees if entropy is None else entropy,
        )
        if entropy is None:  # another entropy is another space
            key = hash((places.tobytes(), self.tail.tobytes(), self.head.tobytes()))
            self.fingerprint = f"planar {n} {key}"

    @property
    def n_nodes(self) -> int:
        return int(self.positions.shape[0])

    @property
    def edges(self) -> Ints:
        """Shape (n_edges, 2), the smaller node first."""
        return np.stack([self.tail, self.head], axis=1)

    def spins(self, label: ArrayLike) -> Ints:
        """Spins 1 and -1 of all nodes, that of node 0 being 1, from a 0/1 vector of edges."""
        sign = np.where(np.asarray(label, dtype=bool), -1, 1)
        spins = np.ones(self.n_nodes, dtype=np.int64)
        for v, parent, edge in self._tree():
            spins[v] = spins[parent] * sign[edge]
        return spins

    def label_of_spins(self, spins: ArrayLike) -> Ints:
        """The 0/1 vector of edges whose ends have different spins."""
        side = np.asarray(spins)
        return (side[self.tail] != side[self.head]).astype(np.int64)

    def _tree(self) -> list[tuple[int, int, int]]:
        """A spanning tree: every node after 0, its parent, which comes before, and their edge."""
        shape, number = (self.n_nodes, self.n_nodes), np.arange(1, self.n_coordinates + 1)
        graph = csr_array((number, (self.tail, self.head)), shape=shape)
        graph = (graph + graph.T).tocsr()
        order, parent = breadth_first_order(graph, 0, directed=False)
        return [(v, parent[v], int(graph[parent[v], v]) - 1) for v in order[1:].tolist()]

    def exact(self, scores: Floats) -> CountedOutputs:
        """log Z and marginals by a determinant; samples edge by edge along a spanning tree."""
        turns = _turns(self.tail, self.head, self.positions)

        def draw(rng: np.random.Generator) -> Bools:
            given, cut = scores.copy(), np.zeros(self.n_coordinates, dtype=bool)
            for _, _, e in self._tree():
                cut[e] = rng.uniform() < _sum_of_cuts(turns, self.n_nodes, given)[1][e]
                given[e] = np.inf if cut[e] else -np.inf
            return self.label_of_spins(self.spins(cut)).astype(bool)

        return CountedOutputs(*_sum_of_cuts(turns, self.n_nodes, scores), draw)

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """Outputs found on the way from below; spanning trees from above."""
        return bounds_by_decoding(self, scores, tol, self._trees, "spanning trees")


def _faces(tail: Ints, head: Ints, positions: Floats) -> Ints:
    """The faces on both sides of every edge, (2, n_edges); ValueError if straight edges cross.

    Half-edge e points from tail to head, half-edge n_edges + e back. A walk along a face turns at
    every node into the next half-edge by angle.
    """
    n_edges, n_nodes = tail.shape[0], positions.shape[0]
    start, end = np.concatenate([tail, head]), np.concatenate([head, tail])
    way = positions[end] - positions[start]
    order = np.lexsort((np.arctan2(way[:, 1], way[:, 0]), start))
    place = np.argsort(order)
    first = np.searchsorted(start[order], np.arange(n_nodes + 1))
    before = np.roll(place, n_edges) - 1  # clockwise at the node that a half-edge points to
    following = order[np.where(before < first[end], first[end + 1] - 1, before)]
    face, n_faces = np.full(2 * n_edges, -1, dtype=np.int64), 0
    for half in range(2 * n_edges):
        at = half
        while face[at] < 0:
            face[at] = n_faces
            at = int(following[at])
        n_faces = int(face.max()) + 1
    if n_nodes - n_edges + n_faces != 2:
        raise ValueError(
            f"positions: the drawing has {n_faces} faces, a connected planar graph of {n_nodes} "
            f"nodes and {n_edges} edges has {2 - n_nodes + n_edges}; edges must not cross"
        )
    return face.reshape(2, n_edges)


def _best_cut(faces: Ints, scores: Floats) -> Bools:
    """Whether each edge is in the cut of the largest total score.

    All edges of positive score are wanted. The faces with an odd number of them are paired by
    shortest paths in the dual graph, and the wanted edges changed along these paths.
    """
    cut, n_faces = scores > 0.0, int(faces.max()) + 1
    ends = np.flatnonzero(np.bincount(faces.ravel(), np.tile(cut, 2), n_faces) % 2 == 1)
    if ends.size == 0:
        return cut
    low, high = np.sort(faces, axis=0)
    weight = np.abs(scores)
    order = np.lexsort((weight, low * n_faces + high))  # the lightest of parallel edges comes first
    kept = order[np.unique((low * n_faces + high)[order], return_index=True)[1]]
    kept = kept[low[kept] != high[kept]]
    # SciPy takes weights of 0 for missing edges.
    cost = np.maximum(weight[kept], 1e-12 * max(float(weight.max()), 1e-290))
    pairs, shape = (low[kept], high[kept]), (n_faces, n_faces)
    edge_at = csr_array((kept + 1, pairs), shape=shape)
    edge_at = (edge_at + edge_at.T).tocsr()
    distance, previous = dijkstra(
        csr_array((cost, pairs), shape=shape), directed=False, indices=ends,
        return_predecessors=True,
    )  # fmt: skip
    a, b = np.triu_indices(ends.size, 1)
    ptr = np.searchsorted(a, np.arange(ends.size + 1))
    paired = best_matching(ends.size, ptr, b, -distance[a, ends[b]]).edges
    for source, at in zip(a[paired].tolist(), ends[b[paired]].tolist(), strict=True):
        while at != ends[source]:
            other = int(previous[source, at])
            cut[int(edge_at[other, at]) - 1] ^= True
            at = other
    return cut


def _turns(tail: Ints, head: Ints, positions: Floats) -> NDArray[np.complex128]:
    """exp(i angle / 2) of the turn from one half-edge into the next, 0 if it does not follow."""
    start, end = np.concatenate([tail, head]), np.concatenate([head, tail])
    way = positions[end] - positions[start]
    angle = np.arctan2(way[:, 1], way[:, 0])
    turn = (angle[None, :] - angle[:, None] + np.pi) % (2.0 * np.pi) - np.pi
    follows = end[:, None] == start[None, :]
    half = np.arange(start.size)
    follows[half, np.roll(half, tail.size)] = False  # not straight back
    return np.where(follows, np.exp(0.5j * turn), 0.0)


def _sum_of_cuts(
    turns: NDArray[np.complex128], n_nodes: int, scores: Floats
) -> tuple[float, Floats]:
    """log of the sum over all cuts of exp(total score), and the probability of every edge.

    With w = tanh(-score / 2), every edge twice, and T the matrix of w times turns, log Z = sum of
    (score / 2 + log cosh(score / 2)) + (n_nodes - 1) log 2 + log det(1 - T) / 2. Scores of +-inf
    force an edge into or out of the cut.
    """
    w = np.tanh(-0.5 * scores)
    matrix = np.eye(2 * w.size) - np.tile(w, 2)[:, None] * turns
    with np.errstate(invalid="ignore"):
        parts = 0.5 * scores + np.logaddexp(0.5 * scores, -0.5 * scores) - np.log(2.0)
    log_det = float(np.linalg.slogdet(matrix)[1])
    log_z = float(parts.sum() + (n_nodes - 1) * np.log(2.0) + 0.5 * log_det)
    inner = np.einsum("ij,ji->i", turns, np.linalg.inv(matrix)).real
    by_w = -0.5 * inner.reshape(2, -1).sum(axis=0)
    tau = 0.5 - 0.5 * w - 0.5 * (1.0 - w * w) * by_w
    return log_z, np.clip(tau, 0.0, 1.0)
