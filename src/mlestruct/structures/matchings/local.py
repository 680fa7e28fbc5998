"""Marginals of matchings and b-matchings in general graphs, over the local polytope.

`space.py` has the output space itself. Marginals of sparse graphs come from the double cover, a
bipartite matching problem; those of larger complete graphs and of capacities above 1 from the edge
dual where no marginal is near 1 or rho is small, else from the double cover too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._lazy import cached_property
from ...algorithms.frank_wolfe import frank_wolfe_marginals
from ...algorithms.matching import edge_dual, newton
from ...algorithms.matching.blossom import best_matching
from ...algorithms.matching.lower_bounds import drop_bound, swap_bound
from ...exceptions import InfeasibleError, MissingCapability
from ..contract import BeliefMarginals, Bounds, Marginals
from ..graphs.simple import SimpleGraph
from .belief_propagation import belief_marginals, feasible, presolved_beliefs
from .bipartition_bound import bipartition_bound
from .presolve import Layout, PresolvedMatching, presolve
from .reduced_scores import cap_bound, is_wide, reduced_marginals
from .space import MatchingSpace, is_matching

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class LocalMatching(MatchingSpace):
    """Output space of matchings in `graph`, relaxed to its local polytope.

    Parameters
    ----------
    graph : SimpleGraph, or the number of nodes for all pairs
    rho : float or array of shape (n_nodes,)
        Reweighting in [1/2, 1]; if some capacities are above 1, it is 0 there and 1/2 elsewhere.
    perfect : bool, or array of shape (n_nodes,)
        Whether a node must use all its capacity.
    capacity : int or array of shape (n_nodes,), number of partners
    """

    @property
    def _is_small(self) -> bool:
        """Whether the double cover is about as fast as anything else."""
        return self._varying[0].n_nodes <= newton.SMALL_LIMIT

    @cached_property
    def _is_tiny(self) -> bool:
        """Whether the double cover is faster than the edge dual: up to 25 nodes."""
        graph = self._varying[0]
        return self._has_cover and graph.n_edges > 0 and graph.n_nodes <= 25

    @cached_property
    def _passes_messages(self) -> bool:
        """Whether belief propagation on the double cover comes first: in sparse graphs."""
        graph = self._varying[0]
        return self._has_cover and graph.n_edges > 0 and not graph.is_complete

    @cached_property
    def _problem(self) -> edge_dual.EdgeProblem:
        """The varying part, for the edge dual."""
        graph, nodes, _ = self._varying
        capacity, free = self._remaining
        return edge_dual.EdgeProblem(
            graph.ptr, graph.col, graph.is_complete, self._edge_rho[nodes],
            np.asarray(capacity, dtype=np.float64), free, np.where(free, self.single_rho[nodes], 0),
        )  # fmt: skip

    @cached_property
    def _has_cover(self) -> bool:
        """Whether the varying part is a plain matching, all of it perfect or all with singles."""
        capacity, free = self._remaining
        weights = self.single_rho[self._varying[1]]
        return is_matching(capacity, free) and bool(not free.any() or weights.all())

    @cached_property
    def _presolved(self) -> PresolvedMatching | None:
        """The varying part as a bipartite problem on the double cover; None for b-matchings.

        All its sums are twice those of the graph itself.
        """
        if not self._has_cover:
            return None
        _, free = self._remaining
        graph, nodes, edges = self._varying
        cover, edge = graph.double_cover()
        n = graph.n_nodes
        size = cover.n_edges
        layout = Layout(size, size + n, size + 2 * n)
        rho = self._edge_rho[nodes]
        core = presolve(cover, rho, rho, not free.any(), layout)
        if free.any():
            a = core.rows.a.copy()
            a[core.rows.col == n] = self.single_rho[nodes]
            core = replace(core, rows=core.rows._replace(a=a, rho_cols=self.single_rho[nodes]))
        own = np.concatenate([edges[edge], *[self.n_scored + nodes] * 2])
        return replace(
            core,
            source=own[core.source],
            col_source=own[core.col_source],
            fixed=self.fixed,
        )

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """tau maximising <scores, tau> + H_rho(tau), with certified bounds of log Z_rho.

        The edge dual of larger graphs gives it where no marginal comes near 1 or rho is small;
        otherwise the double cover does, as in the bipartite case.
        """
        if not np.isfinite(scores).all():
            raise ValueError("scores must be finite; forbid pairs by leaving them out of the graph")
        if warm is None and self._has_cover and is_wide(scores):
            found = reduced_marginals(self, scores, None, tol)
            if found is not None:
                return cap_bound(self, scores, found, tol)
        return cap_bound(self, scores, self.direct_marginals(scores, warm, tol), tol)

    def _direct_marginals(self, scores: Floats, warm: Any, tol: float) -> Marginals:
        constant = float(scores @ self.fixed)
        covered = isinstance(warm, newton.Solution)
        if not (self._passes_messages or self._is_tiny or (covered and self._is_small)):
            known = warm if isinstance(warm, edge_dual.EdgeSolution) else None
            found = edge_dual.solve(
                self._problem, self._edges(scores), self._singles(scores),
                None if known is None else known.prices, tol,
                use_tangents=not (self._has_cover and self._is_small),
                strong=None if known is None else (known.strong, known.t[known.strong]),
            )  # fmt: skip
            solved = found.upper_bound - found.value <= tol or self._entropy.c.max() <= 0.0
            if solved or not self._has_cover:
                tau, value = self._coordinates(found.t, found.z), found.value
                if found.failed:
                    return self._marginals_of_decoder(scores, found, constant, tol)
                return Marginals(
                    tau, value + constant, found.upper_bound + constant, found, found.iterations
                )
        return self._marginals_of_cover(scores, warm if covered else None, constant, tol)

    def _marginals_of_decoder(
        self, scores: Floats, found: edge_dual.EdgeSolution, constant: float, tol: float
    ) -> Marginals:
        """Where the edge dual fails and there is no double cover: a vertex, or Frank-Wolfe."""
        tau = self.decode(scores).vertex.dense(self.n_coordinates)
        value = float(scores @ tau) + self.entropy(tau)
        upper, steps = found.upper_bound + constant, 0
        if upper - value > tol:
            point, other, bound, steps = frank_wolfe_marginals(
                self, scores, self.interior(), tol, max_iter=300
            )
            upper = min(upper, bound)
            if other > value:
                tau, value = point, other
        return Marginals(tau, value, upper, found, found.iterations + steps)

    def _marginals_of_cover(
        self, scores: Floats, warm: newton.Solution | None, constant: float, tol: float
    ) -> Marginals:
        core = self._presolved
        assert core is not None
        counts = np.diff(core.rows.ptr)
        start = np.repeat(1.0 / np.maximum(counts, 1), counts), np.where(core.free, 0.5, 1.0)
        w, w_cols = core.entries(scores), core.columns(scores)
        if self._passes_messages:
            found = core.oracle(w, w_cols, lambda: start, warm, 2.0 * tol, self.n_jobs)
        else:
            found = newton.solve(core.rows, w, w_cols, lambda: start, warm, 2.0 * tol)
        tau, value = self._folded(core, found.t, found.z), 0.5 * found.value
        if not np.isfinite(value):
            best = self.decode(scores)
            tau, value = best.vertex.dense(self.n_coordinates), best.score - constant
            found.t = np.maximum(core.entries(tau), 1e-200)
            found.z = np.where(core.free, np.maximum(core.columns(tau), 1e-200), 1.0)
        return Marginals(
            tau, value + constant, 0.5 * found.upper_bound + constant, found, found.iterations
        )

    def _folded(self, core: PresolvedMatching, t: Floats, z: Floats) -> Floats:
        """Marginals from those of the double cover, the mean of both directions of an edge."""
        tau = self.fixed.copy()
        tau += 0.5 * np.bincount(core.source, t, minlength=self.n_coordinates)
        tau[core.col_source[core.free]] += 0.5 * z[core.free]
        return tau

    def reduced_scores(self, scores: Floats) -> tuple[Floats | None, float, None]:
        """Scores minus the prices of the best vertex of the local polytope, and their sum."""
        graph, nodes, edges = self._varying
        w, single = self._edges(scores), self._singles(scores)
        prices = MatchingSpace._decode_varying(self, graph, w, single, None).prices
        if prices is None or graph.n_edges == 0:
            return None, 0.0, None
        reduced = np.zeros_like(scores)
        reduced[edges] = w - prices[graph.row] - prices[graph.col]
        free = self._remaining[1]
        reduced[self.n_scored + nodes[free]] = single[free] - prices[free]
        return reduced, float(prices.sum() + scores @ self.fixed), None

    def repriced(self, warm: Any, prices: Floats | None) -> None:
        """States of reduced problems are not kept."""

    def belief_propagation(
        self,
        scores: Floats,
        damping: float = 0.0,
        max_sweeps: int = 2000,
        tol: float = 1e-8,
        warm: Any = None,
    ) -> BeliefMarginals:
        """Marginals over the local polytope by belief propagation on the double cover."""
        core = self._presolved if self.is_simple else None
        if core is None:
            raise MissingCapability(
                "method='bp' is for matchings in which all nodes or none may stay single, and no "
                "capacity is above 1"
            )
        if self.is_fixed:
            tau = self.fixed.copy()
            return BeliefMarginals(tau, float(scores @ tau), 0, 0.0, True, None)
        options = {"damping": damping, "max_sweeps": max_sweeps, "tol": tol}
        found, constant = presolved_beliefs(self, core, scores, warm, options)
        tau = self._folded(core, found.t, found.z)
        return belief_marginals(tau, found, 0.5 * found.log_partition + constant)

    def feasible(self, tau: Floats) -> tuple[Floats, float]:
        """Marginals near tau with exact sums, and by how much the worst sum misses 1."""
        core = self._presolved
        if core is None:
            raise self.lacks("feasible")
        t, z, excess = feasible(core, tau)
        return self._folded(core, t, z), excess

    def interior(self) -> Floats:
        """A point with every coordinate that is not fixed strictly inside its range.

        Even shares on complete graphs; otherwise the maximum-entropy point at zero scores.
        """
        if self._interior is None:
            self._interior = self._find_interior()
        return self._interior.copy()

    def _find_interior(self) -> Floats:
        graph = self._varying[0]
        n = graph.n_nodes
        capacity, free = self._remaining
        if graph.is_complete and is_matching(capacity, free):
            share = 1.0 / (n - 1 + int(free.any()))
            return self._coordinates(np.full(graph.n_edges, share), np.full(n, share))
        return self._coordinates(*even_marginals(graph, capacity, free))

    def price_bound(self, scores: Floats, prices: Floats, tau: Floats) -> float:
        """A proven upper bound of log Z_rho at any prices of the varying nodes, near tau."""
        found = edge_dual.solve(
            self._problem, self._edges(scores), self._singles(scores), prices, 1e-7, 1
        )
        bound = found.upper_bound
        core = self._presolved if found.failed and self._is_small else None
        if core is not None:
            bound_of_cover, _ = newton.polish(
                core.rows, core.entries(scores), core.columns(scores), np.append(prices, 0.0),
                core.entries(tau), 1e-7,
            )  # fmt: skip
            bound = min(bound, 0.5 * bound_of_cover)
        return bound + float(scores @ self.fixed)

    def _swap_floor(self, scores: Floats) -> float:
        """A proven lower bound of log Z itself, from the best matching and those around it."""
        best = self.decode_integral(scores)
        if not self.is_simple:
            return best.score
        partner = self.label(best.vertex)
        w = scores[: self.n_scored]
        if not self.free.any():
            return swap_bound(partner, self.graph.dense(w, -np.inf))
        if not self.free.all():
            return best.score
        single = np.where(self.capacity > 0, scores[self.n_scored :], 0.0)
        w = w - single[self.graph.row] - single[self.graph.col]
        return float(single.sum()) + drop_bound(partner, self.graph.dense(w, -np.inf))

    # ------------------------------------------------------------------ questions
    def require_feasible(self) -> None:
        """Raise where the nodes cannot be matched perfectly, though fractional matchings exist."""
        nodes = self.capacity > 0
        if not self.is_simple or self.free[nodes].any() or self.polytope == "exact":
            return
        if int(nodes.sum()) % 2:
            raise InfeasibleError(
                f"{int(nodes.sum())} nodes: an odd number cannot be matched perfectly; leave a "
                "node out, or allow single nodes by perfect=False",
                [],
                "nodes",
            )
        graph = self.graph
        if nodes.all() and not graph.is_complete:
            best_matching(graph.n_nodes, graph.ptr, graph.col, np.zeros(graph.n_edges))  # or raises

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """rho = 1/2 bounds log Z from above; cuts and swaps bound it from below."""
        upper = self.with_rho(0.5).marginals(scores, None, tol).upper_bound
        if not self.is_simple:
            best = self.decode_integral(scores).score
            return Bounds(
                best, upper, "score of the best b-matching", "nodes' edges as independent"
            )
        floors = {
            "matchings around the best one": self._swap_floor(scores),
            "Bethe value (rho = 1) of a cut into two sides": bipartition_bound(self, scores, tol),
        }
        reason = max(floors, key=lambda name: floors[name])
        return Bounds(floors[reason], upper, reason, "reweighted value (rho = 1/2)")

    def local_restricted(self, keep: Bools) -> tuple[LocalMatching, Ints]:
        """The local polytope of some of the pairs, and the place of its coordinates in this one.

        Its best point may be of halves alone, on edges that contain no matching.
        """
        rho = self.rho if self.is_simple else 0.5
        smaller = LocalMatching(self.graph.with_edges(keep), rho, ~self.free, self.capacity)
        return smaller, self._places(keep)

    def local_marginals(self, scores: Floats, tol: float) -> Marginals:
        """Marginals over the local polytope, also where this structure's is the exact one."""
        return LocalMatching.marginals(self, scores, None, tol)


def even_marginals(graph: SimpleGraph, capacity: Floats, free: Bools) -> tuple[Floats, Floats]:
    """Edges' and unused capacities' values of largest entropy (rho = 1/2), at zero scores.

    Unused capacity has a share of it at all nodes: without, it could be used up.
    """
    n = graph.n_nodes
    rho = np.where(capacity > 1, 0.0, 0.5)
    problem = edge_dual.EdgeProblem(
        graph.ptr, graph.col, graph.is_complete, rho,
        np.asarray(capacity, dtype=np.float64), free, np.where(free, 0.5, 0.0),
    )  # fmt: skip
    found = edge_dual.solve(problem, np.zeros(graph.n_edges), np.zeros(n), None, 1e-10)
    return found.t, found.z
