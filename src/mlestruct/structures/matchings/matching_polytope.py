"""Matchings in general graphs over the matching polytope itself: mixtures of true matchings.

Beyond the local polytope, odd sets of nodes are kept from pairing up among themselves. The decoder
is a blossom algorithm, so all points the solvers meet are globally consistent. There is no marginal
oracle for this polytope: the local optimum is the answer if it is proven to be a mixture of
matchings, as it is in large groups without strong pairs; otherwise Frank-Wolfe gives the marginals.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ...algorithms.frank_wolfe import frank_wolfe_marginals
from ...algorithms.fully_corrective import fully_corrective_marginals
from ...algorithms.matching.blossom import best_matching
from ...algorithms.matching.odd_sets import LARGEST, provably_odd_sets_hold
from ..contract import Decoding, Marginals, Vertex
from ..graphs.simple import SimpleGraph
from .local import LocalMatching

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class MatchingPolytope(LocalMatching):
    """Output space of matchings in `graph`, over the convex hull of all of them.

    Parameters
    ----------
    graph : SimpleGraph, or the number of nodes for all pairs
    rho : float or array of shape (n_nodes,), in [1/2, 1]
    perfect : bool, or array of shape (n_nodes,) of equal values
        Whether every node must be matched.
    capacity : 1
    """

    def __init__(
        self,
        graph: SimpleGraph | int,
        rho: ArrayLike = 1.0,
        perfect: ArrayLike = True,
        capacity: ArrayLike = 1,
    ):
        if np.any(np.asarray(capacity) != 1) or np.unique(perfect).size > 1:
            raise ValueError(
                "MatchingPolytope is for capacity 1 and all nodes perfect, or none; use "
                "LocalMatching"
            )
        super().__init__(graph, rho, perfect, capacity)

    def _find_fixed(self) -> tuple[Floats, Bools | None, Bools]:
        """Edges in no or in every perfect matching: none of those that cover all edges has them."""
        self._covering: Floats | None = None
        if self.free.any() or self.graph.is_complete:
            return super()._find_fixed()
        self._covering = share = covering_mixture(self.graph)
        varies = (share > 0.0) & (share < 1.0)
        return np.where(varies, 0.0, share), None if varies.all() else varies, self.free

    def _find_interior(self) -> Floats:
        """A mixture of matchings that cover all edges.

        With single nodes: all edges alike, so little that no odd set is full.
        """
        if self._covering is not None:
            return self._covering
        if not self.free.any():
            return super()._find_interior()
        # 1 / n in a complete group of odd size would lie on the odd set of all nodes.
        degree = self._varying[0].degree
        share = 1.0 / (degree.max(initial=0) + 2.0)
        return self._coordinates(np.full(self._varying[0].n_edges, share), 1.0 - share * degree)

    def _decode_varying(
        self, graph: SimpleGraph, scores: Floats, single: Floats, warm: Floats | None
    ) -> Decoding:
        best = best_matching(
            graph.n_nodes, graph.ptr, graph.col, scores,
            single=single if self.free.any() else None, warm=warm,
        )  # fmt: skip
        indices = np.concatenate([best.edges, graph.n_edges + best.single_nodes])
        return Decoding(Vertex(indices, np.ones(indices.shape[0])), best.score, best.prices)

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """tau maximising <scores, tau> + H_rho(tau), with certified bounds of log Z_rho.

        The local polytope is larger, so its optimum is the answer wherever it is proven to be a
        mixture of matchings, and a bound everywhere. Otherwise Frank-Wolfe answers, in groups of
        more than 16 nodes with up to 300 MAP calls, after which the gap may be above `tol`.
        """
        state, known = (None, None) if warm is None else warm
        local = super().marginals(scores, state, tol)
        if self._is_mixture(local.tau):
            return replace(local, warm=(local.warm, known))
        if self._is_small:
            found = fully_corrective_marginals(self, scores, tol, 1000, known=known)
            tau, value, upper, calls, known = found
        else:
            # Mixtures of hundreds of matchings: to find their weights takes longer than calls.
            inside = self.interior()
            start = inside if known is None else known + 1e-3 * (inside - known)
            tau, value, upper, calls = frank_wolfe_marginals(self, scores, start, tol, max_iter=300)
            known = tau
        # Far apart scores leave little beside the best matching, which mixtures only approach.
        best = self.decode(scores).vertex.dense(self.n_coordinates)
        attained = float(scores @ best) + self.entropy(best)
        if attained > value:
            tau, value = best, attained
        upper, calls = max(min(upper, local.upper_bound), value), local.iterations + calls
        return Marginals(tau, value, upper, (local.warm, known), calls)

    @property
    def _is_small(self) -> bool:
        """Whether mixtures of few matchings suffice, in which odd sets usually matter."""
        return self._varying[0].n_nodes <= 16

    @cached_property
    def prefers_decoding(self) -> bool:
        """Whether odd sets matter in most marginals: in small groups, and if they do at scores 0.

        Ten groups of 6 or 10 nodes learn in .1 s by decoding, in .3-8 s by Frank-Wolfe marginals.
        """
        graph = self._varying[0]
        if graph.is_bipartite or self._is_small or graph.is_complete:
            return self._is_small and not graph.is_bipartite
        return not self._is_mixture(super().marginals(np.zeros(self.n_coordinates)).tau)

    def _is_mixture(self, tau: Floats) -> bool:
        """Whether a point of the local polytope is proven to be a mixture of matchings."""
        graph, nodes, edges = self._varying
        if graph.n_edges == 0 or graph.is_bipartite:
            return True
        n, (count, label) = graph.n_nodes, graph.components
        table: Any = sparse.csr_array((tau[edges], graph.col, graph.ptr), shape=(n, n))
        table = sparse.csr_array(table + table.T)
        if self.free.any():
            # Two copies of the graph, each node joined to its copy: singles become pairs.
            single = sparse.diags_array(tau[self.n_scored + nodes])
            table = sparse.block_array([[table, single], [single, table]], format="csr")
            label = np.tile(label, 2)
        if np.bincount(label).max() > LARGEST:
            return False
        parts = (np.flatnonzero(label == k) for k in range(count))
        return all(provably_odd_sets_hold(table[part][:, part].toarray()) for part in parts)


def covering_mixture(graph: SimpleGraph) -> Floats:
    """The mean of perfect matchings that together use every edge that any of them can use.

    Each one uses as many new edges as possible; when the best one has none, no perfect matching
    has. Edges of share 0 are then in no perfect matching and those of share 1 in all.
    """
    uses = np.zeros(graph.n_edges)
    count = 0
    while True:
        found = best_matching(graph.n_nodes, graph.ptr, graph.col, np.where(uses > 0, 0.0, 1.0))
        if count and (uses[found.edges] > 0).all():
            return uses / count
        uses[found.edges] += 1.0
        count += 1
