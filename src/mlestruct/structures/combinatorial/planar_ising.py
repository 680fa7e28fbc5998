"""The Ising model without field on a planar graph: two sides, and scores of edges between them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from ...algorithms.pairwise.spanning_trees import tree_weights
from ...algorithms.planar_graph import KacWard, best_cut, dual_graph
from ..contract import Bounds
from ..decoder import DecoderSpace, bounds_by_decoding
from ..entropy import factor_entropy
from .counted import CountedOutputs
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
        self._dual = dual_graph(self.tail, self.head, places)
        self.rho = tree_weights(len(places), self.tail, self.head).sum(axis=0)
        n = self.tail.shape[0]
        super().__init__(
            lambda scores: best_cut(self._dual, scores),
            n,
            entropy=factor_entropy(n, [], coordinates=self.rho) if entropy is None else entropy,
        )
        key = hash((places.tobytes(), self.tail.tobytes(), self.head.tobytes()))
        if entropy is None:  # another entropy is another space
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
        parent, edge, order = self._tree
        differs = np.asarray(label, dtype=bool)
        spins = np.ones(self.n_nodes, dtype=np.int64)
        for v in order.tolist():
            spins[v] = spins[parent[v]] * (-1 if differs[edge[v]] else 1)
        return spins

    def label_of_spins(self, spins: ArrayLike) -> Ints:
        """The 0/1 vector of edges whose ends have different spins."""
        side = np.asarray(spins)
        return (side[self.tail] != side[self.head]).astype(np.int64)

    @property
    def _tree(self) -> tuple[Ints, Ints, Ints]:
        """A spanning tree: parent and edge to it of every node, and an order of nodes after 0."""
        n, size = self.n_nodes, self.n_coordinates
        graph = csr_array((np.arange(1, size + 1), (self.tail, self.head)), shape=(n, n))
        graph = (graph + graph.T).tocsr()
        order, parent = breadth_first_order(graph, 0, directed=False)
        rest = order[1:].astype(np.int64)
        edge = np.full(n, -1, dtype=np.int64)
        for v in rest.tolist():
            edge[v] = int(graph[parent[v], v]) - 1
        return parent.astype(np.int64), edge, rest

    def exact(self, scores: Floats) -> CountedOutputs:
        """log Z and marginals by a determinant; samples edge by edge along a spanning tree."""
        counted = KacWard(self.tail, self.head, self.positions)
        log_z, tau = counted.solve(scores)
        _, tree, order = self._tree

        def draw(rng: np.random.Generator) -> Bools:
            given, cut = scores.copy(), np.zeros(self.n_coordinates, dtype=bool)
            for e in tree[order].tolist():
                cut[e] = rng.uniform() < counted.solve(given)[1][e]
                given[e] = np.inf if cut[e] else -np.inf
            return self.label_of_spins(self.spins(cut)).astype(bool)

        return CountedOutputs(log_z, tau, draw)

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """Outputs found on the way from below; spanning trees from above."""
        entropy = factor_entropy(self.n_coordinates, [], coordinates=self.rho)
        return bounds_by_decoding(self, scores, tol, entropy, "spanning trees")
