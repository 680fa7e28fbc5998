"""Matchings in general graphs over the matching polytope itself: mixtures of true matchings.

Beyond the local polytope, odd sets of nodes are kept from pairing up among themselves. The decoder
is a blossom algorithm, so all points the solvers meet are globally consistent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...algorithms.frank_wolfe import frank_wolfe_marginals
from ...algorithms.fully_corrective import fully_corrective_marginals
from ...algorithms.matching import odd_set_dual
from ...algorithms.matching.blossom import best_matching
from ...algorithms.matching.odd_set_dual import OddSets
from ...algorithms.matching.odd_set_separation import (
    CUT_LIMIT,
    provably_in_matching_polytope,
    violated_odd_sets,
)
from ...exceptions import MissingCapability
from ..contract import BeliefMarginals, Decoding, Marginals, Vertex
from ..graphs.simple import SimpleGraph
from .local import LocalMatching, even_marginals

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_STEPS = 100  # of Frank-Wolfe, where the local optimum is not a mixture of matchings
VIOLATION = 1e-9  # of an odd-set constraint that is overlooked


@dataclass
class WarmStart:
    """State of the local oracle, the odd sets met, and the last point of this polytope."""

    local: Any
    sets: OddSets
    tau: Floats


class MatchingPolytope(LocalMatching):
    """Output space of matchings in `graph`, over the convex hull of all of them.

    Parameters
    ----------
    graph : SimpleGraph, or the number of nodes for all pairs
    rho : float or array of shape (n_nodes,), in [1/2, 1]
    perfect : bool, whether every node must be matched
    """

    polytope = "exact"

    def __init__(self, graph: SimpleGraph | int, rho: ArrayLike = 1.0, perfect: bool = True):
        self._covering: Floats | None = None
        super().__init__(graph, rho, bool(perfect))

    def _over_nodes(
        self, graph: SimpleGraph, rho: ArrayLike, nodes: Ints, capacity: Ints
    ) -> MatchingPolytope:
        return MatchingPolytope(graph, rho, not self.free.any())

    def _over(self, graph: SimpleGraph, rho: ArrayLike) -> MatchingPolytope:
        return MatchingPolytope(graph, rho, not self.free.any())

    def _find_fixed(self) -> tuple[Floats, Bools | None, Bools]:
        """Edges in no or in every perfect matching.

        Nothing beyond what is fixed in the local polytope if that has no odd cycles, or if its
        maximum-entropy point is proven to be a mixture of perfect matchings: all open edges are
        strictly inside there. Otherwise matchings are found that cover as many new edges as
        possible, until there are no more new edges to cover.
        """
        graph, n = self.graph, self.graph.n_nodes
        if self.free.any() or (graph.is_complete and n > 2 and n % 2 == 0):
            return super()._find_fixed()
        best_matching(n, graph.ptr, graph.col, np.zeros(graph.n_edges))  # raises if there is none
        fixed, varies, singles = super()._find_fixed()
        keep = np.ones(graph.n_edges, dtype=bool) if varies is None else varies
        part, _, edges = graph.subgraph(keep)
        if part.n_edges == 0 or part.is_bipartite:
            return fixed, varies, singles
        even, _ = even_marginals(part, np.ones(part.n_nodes), np.zeros(part.n_nodes, dtype=bool))
        if provably_in_matching_polytope(part.ptr, part.col, part.components, even):
            return fixed, varies, singles
        share = covering_mixture(part)
        fixed[edges[share == 1.0]] = 1.0
        keep[edges] = (share > 0.0) & (share < 1.0)
        self._covering = np.zeros(graph.n_edges)
        self._covering[edges] = share
        return fixed, None if keep.all() else keep, singles

    def _find_interior(self) -> Floats:
        """The mixture of covering matchings if one was needed, else as in the local polytope.

        With single nodes: mostly single, each edge a little, which is always consistent.
        """
        if self._covering is not None:
            return np.maximum(self._covering, self.fixed)
        if self.free.any() and self.graph.is_complete:
            n = self.graph.n_nodes  # 1 / n would lie on the odd set of all nodes
            t = np.full(self.n_scored, 1.0 / (n + 1))
            return self._coordinates(t, np.full(n, 2.0 / (n + 1)))
        if self.free.any():
            share = 0.5 / max(int(self.graph.degree.max(initial=0)), 1)
            share /= 1.0 + self.graph.n_nodes / 2.0
            t = np.full(self._varying[0].n_edges, share)
            rest: Floats = 1.0 - share * self._varying[0].degree.astype(np.float64)
            return self._coordinates(t, rest)
        return super()._find_interior()

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
        mixture of matchings, and a bound everywhere. Otherwise odd sets get prices; in graphs too
        large to find these, Frank-Wolfe steps from MAP calls approach the optimum and may stop
        short of `tol`.
        """
        known = warm if isinstance(warm, WarmStart) else WarmStart(None, OddSets(), self.interior())
        local = super().marginals(scores, known.local, tol)
        if self._is_consistent(local.tau):
            return replace(local, warm=WarmStart(local.warm, known.sets, local.tau))
        if self._varying[0].n_nodes <= CUT_LIMIT:
            state = WarmStart(local.warm, known.sets, known.tau)
            found = self._marginals_with_sets(scores, state, tol)
            if warm is not None and not self._is_consistent(found.tau):
                # The odd sets of the earlier scores do not fit these.
                return self.marginals(scores, None, tol)
            # Mixtures of few matchings are cheap where there are few nodes.
            if warm is None and found.gap > tol and self._varying[0].n_nodes <= 60:
                return self._from_vertices(scores, found, tol)
            return found
        start = known.tau + 1e-3 * (self.interior() - known.tau)
        tau, value, upper, steps = frank_wolfe_marginals(self, scores, start, tol, MAX_STEPS)
        state = WarmStart(local.warm, known.sets, tau)
        return Marginals(tau, value, min(upper, local.upper_bound), state, steps)

    def _from_vertices(self, scores: Floats, found: Marginals, tol: float) -> Marginals:
        """The better of `found` and of a mixture of few matchings."""
        tau, value, upper, calls, _ = fully_corrective_marginals(self, scores, tol, MAX_STEPS)
        upper = min(upper, found.upper_bound)
        if value < found.value:
            tau, value = found.tau, found.value
        return Marginals(tau, value, upper, found.warm, found.iterations + calls)

    def belief_propagation(
        self,
        scores: Floats,
        damping: float = 0.0,
        max_sweeps: int = 2000,
        tol: float = 1e-8,
        warm: Any = None,
    ) -> BeliefMarginals:
        """Not available: belief propagation does not enforce odd-set constraints."""
        raise MissingCapability(
            "method='bp' maximises over the local polytope; use LocalMatching, or method='auto'"
        )

    def _marginals_with_sets(self, scores: Floats, known: WarmStart, tol: float) -> Marginals:
        """Marginals by prices on odd sets, moved inwards where a set is still violated."""
        found = odd_set_dual.solve(
            super().marginals, self._violated, scores, known.sets, known.local, tol
        )
        tau, gained = found.tau, 0.0
        if not found.proven:
            tau = self.decode(scores).vertex.dense(self.n_coordinates)
        elif found.sets.inside:
            table, max_edges = np.array(found.sets.inside), np.array(found.sets.max_edges)
            excess = table @ tau[: self.n_scored] - max_edges
            inside = self._inside_of(found.sets)
            slack = max_edges - table @ inside[: self.n_scored]
            over = (excess > 0.0) & (slack > VIOLATION)
            # Sets without slack are tight in every matching: their price bounds the excess.
            gained = float(found.sets.prices @ np.where(over, 0.0, np.maximum(excess, 0.0)))
            step = float(np.max(excess[over] / (excess + slack)[over], initial=0.0))
            tau = tau + step * (inside - tau)
        value = float(scores @ tau) + self.entropy(tau) - 2.0 * gained
        state = WarmStart(found.warm, found.sets, tau)
        return Marginals(tau, value, found.upper_bound, state, found.iterations)

    def _inside_of(self, sets: OddSets) -> Floats:
        """The interior point, moved off those odd sets that it lies on.

        A matching that uses as few edges within such a set as possible is mixed in, and kept.
        """
        point = self.interior()
        for within, max_edges in zip(sets.inside, sets.max_edges, strict=True):
            if max_edges - within @ point[: self.n_scored] <= VIOLATION:
                avoid = np.zeros(self.n_coordinates)
                avoid[: self.n_scored] = -within
                other = self.decode(avoid).vertex.dense(self.n_coordinates)
                point = 0.5 * (point + other)
        self._interior = point
        return point.copy()

    def _violated(self, tau: Floats) -> list[tuple[Floats, float]]:
        """Odd sets that tau violates: the edges within each, and how much they may hold."""
        graph, _, edges = self._varying
        table = graph.dense(tau[edges])
        single = self._singles(tau)
        out = []
        for members in violated_odd_sets(table, single, VIOLATION):
            within = np.zeros(self.n_scored)
            within[edges] = members[graph.row] & members[graph.col]
            out.append((within, 0.5 * (int(members.sum()) - 1)))
        return out

    @cached_property
    def prefers_decoding(self) -> bool:
        """Whether marginals are expensive: a large graph, unproven even at zero scores."""
        graph = self._varying[0]
        if graph.n_nodes <= CUT_LIMIT or (graph.is_complete and not self.free.any()):
            return False
        t, z = even_marginals(graph, *self._remaining)
        return not self._is_consistent(self._coordinates(t, z))

    def _is_consistent(self, tau: Floats) -> bool:
        """Whether a point of the local polytope is proven to be a mixture of matchings."""
        graph, nodes, edges = self._varying
        if graph.n_edges == 0 or graph.is_bipartite:
            return True
        if not self.free.any():
            return provably_in_matching_polytope(graph.ptr, graph.col, graph.components, tau[edges])
        both, values = _doubled(graph, tau[edges], tau[self.n_scored + nodes])
        return provably_in_matching_polytope(both.ptr, both.col, both.components, values)


def _doubled(graph: SimpleGraph, t: Floats, z: Floats) -> tuple[SimpleGraph, Floats]:
    """Two copies of a graph, each node joined to its copy: imperfect matchings made perfect."""
    n = graph.n_nodes
    row, col = graph.row, graph.col
    nodes = np.arange(n)
    pairs = np.concatenate(
        [
            np.stack([row, col], axis=1),
            np.stack([row, col], axis=1) + n,
            np.stack([nodes, nodes + n], axis=1),
        ]
    )
    doubled, edge = SimpleGraph.from_edges(2 * n, pairs)
    values = np.empty(doubled.n_edges)
    values[edge] = np.concatenate([t, t, z])
    return doubled, values


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
