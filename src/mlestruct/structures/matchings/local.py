"""Matchings and b-matchings in general graphs, over the local polytope.

Every node i has a capacity b_i, the number of partners it has (or may have at most). Coordinates
of tau: one per edge, then, where some node may have fewer partners, one per node for its unused
capacity. The local polytope asks only that every node's coordinates sum to its capacity; in
graphs with odd cycles its vertices are half-integral (`MatchingPolytope` rules those out). The
entropy is that of the bipartite case,

    H = sum_ij (rho_i + rho_j - 1)(1 - tau_ij) log(1 - tau_ij) - tau_ij log tau_ij
        - sum_i rho_i sigma_i log sigma_i        (single nodes),

with rho_i = 0 at nodes of capacity above 1, whose joint entropy has no closed form: what is left
counts their edges as independent. Where there are such nodes, those of capacity 1 have rho_i of at
most 1/2, so that every edge's entropy is concave by itself. log Z_rho >= log Z wherever
rho_i + rho_j <= 1 on all edges (rho = 1/2, and all b-matchings with capacities above 1). With
rho = 1 it is *not* a lower bound here, unlike in bipartite graphs.

Marginals come from the oracle of two sides on the double cover. The edge dual is first in complete
groups of more than 100 nodes; it is all there is for b-matchings, which have no such cover.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._running import wait_for
from ...algorithms.frank_wolfe import frank_wolfe_marginals
from ...algorithms.matching import edge_dual, newton
from ...algorithms.matching.assignment import edges_between, fractional_matching
from ...algorithms.matching.b_matching import best_b_matching
from ...algorithms.matching.blossom import best_matching
from ...exceptions import InfeasibleError
from ..contract import Bounds, Decoding, Marginals, Vertex
from ..entropy import SeparableEntropy
from ..graphs.bipartite import varying
from ..graphs.simple import SimpleGraph
from .bipartition_bound import bipartition_bound
from .presolve import Layout, PresolvedMatching, presolve
from .space import MatchingSpace, check_partners, node_capacity, node_rho, whole_numbers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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

    def __init__(
        self,
        graph: SimpleGraph | int,
        rho: ArrayLike = 1.0,
        perfect: ArrayLike = True,
        capacity: ArrayLike = 1,
    ):
        self.graph = graph if isinstance(graph, SimpleGraph) else SimpleGraph.complete(graph)
        n = self.graph.n_nodes
        self.capacity = node_capacity(capacity, n)
        self.free = ~np.broadcast_to(np.asarray(perfect, dtype=bool), (n,))
        self.is_simple = bool((self.capacity <= 1).all())
        self.rho = node_rho(rho, n)
        if not self.is_simple:
            self.rho = np.where(self.capacity > 1, 0.0, 0.5)
        self.n_scored = self.graph.n_edges
        self.n_coordinates = self.n_scored + (n if self.free.any() else 0)
        self.fixed, self.varying_edges, self.varying_singles = self._find_fixed()
        self.single_at = np.full(n, -1)
        if self.free.any():
            self.single_at = np.arange(self.n_scored, self.n_coordinates)
        self._interior: Floats | None = None
        parts = (self.graph.ptr, self.graph.col, self.capacity, self.free)
        self.fingerprint = f"{type(self).__name__} {hash(tuple(part.tobytes() for part in parts))}"

    # ------------------------------------------------------------------ fixed coordinates
    def _find_fixed(self) -> tuple[Floats, Bools | None, Bools]:
        """Coordinates with the same value in all points (0 elsewhere), edges that vary (None: all
        do), and nodes whose unused capacity varies.
        """
        graph, n = self.graph, self.graph.n_nodes
        fixed = np.zeros(self.n_coordinates)
        if graph.is_complete and n > 2 and n % 2 == 0 and self._plain_perfect:
            return fixed, None, self.free
        if self.free.all() and (self.capacity > 0).all() and (graph.degree > 0).all():
            return fixed, None, self.free
        found = self._decode_varying(graph, np.zeros(graph.n_edges), np.zeros(n), None)
        x = found.vertex.dense(graph.n_edges + n)
        x, slack = x[: graph.n_edges], x[graph.n_edges :]
        cover, edge = graph.double_cover()
        grows, shrinks = self.free & (slack < self.capacity), self.free & (slack > 0)
        both, singles = varying(
            cover.row, cover.col, x[edge], np.tile(grows, 2), np.tile(shrinks, 2), n
        )
        edges = np.zeros(graph.n_edges, dtype=bool)
        edges[edge[both]] = True
        singles = singles[:n]
        fixed[: graph.n_edges] = np.where(edges, 0.0, x)
        if self.free.any():
            fixed[graph.n_edges :] = np.where(singles, 0.0, slack)
        whole = edges.all() and graph.degree.all() and not fixed.any()
        return fixed, None if whole else edges, singles

    @property
    def _plain_perfect(self) -> bool:
        return bool((self.capacity == 1).all() and not self.free.any())

    @cached_property
    def _varying(self) -> tuple[SimpleGraph, Ints, Ints]:
        """The graph of the edges that vary, its nodes and its edges."""
        if self.varying_edges is None:
            return self.graph, np.arange(self.graph.n_nodes), np.arange(self.n_scored)
        return self.graph.subgraph(self.varying_edges)

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one admissible matching."""
        return self._varying[0].n_edges == 0

    @cached_property
    def _remaining(self) -> tuple[Floats, Bools]:
        """Capacity that is not fixed at the varying nodes, and which of them may leave some."""
        graph, nodes = self.graph, self._varying[1]
        left = self.capacity.astype(np.float64)
        for end in (graph.row, graph.col):
            left -= np.bincount(end, self.fixed[: self.n_scored], minlength=graph.n_nodes)
        if self.n_coordinates > self.n_scored:
            left -= self.fixed[self.n_scored :]
        return left[nodes], self.varying_singles[nodes]

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """The two nodes of every edge."""
        return self.graph.row, self.graph.col

    def with_rho(self, rho: ArrayLike) -> Any:
        """The same output space with another entropy; with capacities above 1, this one."""
        if not self.is_simple:
            return self
        return type(self)(self.graph, rho, ~self.free, self.capacity)

    @property
    def _own_rho(self) -> Floats | float:
        """rho as the constructor takes it."""
        return self.rho if self.is_simple else 0.5

    def restricted(self, keep: Bools) -> tuple[Any, Ints]:
        """The same over some of the pairs only, and the place of its coordinates in this one."""
        graph = self.graph.with_edges(keep)
        smaller = type(self)(graph, self._own_rho, ~self.free, self.capacity)
        return smaller, self._places(keep)

    def _places(self, keep: Bools) -> Ints:
        """Coordinates of the kept edges, and of all unused capacities."""
        single = np.arange(self.n_scored, self.n_coordinates)
        return np.concatenate([np.flatnonzero(keep), single])

    def _part(self, keep: Bools, nodes: Ints, capacity: Ints) -> tuple[Any, Ints]:
        if not keep.any():
            return None, nodes
        number = np.full(self.graph.n_nodes, -1, dtype=np.int64)
        number[nodes] = np.arange(nodes.size)
        ends = np.stack([number[self.graph.row[keep]], number[self.graph.col[keep]]], axis=1)
        graph, _ = SimpleGraph.from_edges(nodes.size, ends)
        rho = self.rho[nodes] if self.is_simple else 0.5
        part = type(self)(graph, rho, ~self.free[nodes], capacity[nodes])
        return part, nodes if self.free[nodes].any() else nodes[:0]

    def _edges(self, values: Floats) -> Floats:
        """Values of the varying edges, from those of all coordinates."""
        return values[: self.n_scored] if self.varying_edges is None else values[self._varying[2]]

    def _singles(self, values: Floats) -> Floats:
        """Values of the varying nodes' unused capacity, 0 where there is none."""
        nodes = self._varying[1]
        if self.n_coordinates == self.n_scored:
            return np.zeros(nodes.shape[0])
        return np.where(self.varying_singles[nodes], values[self.n_scored + nodes], 0.0)

    def _coordinates(self, t: Floats, z: Floats) -> Floats:
        """Marginals of all coordinates, from those of varying edges and nodes."""
        if self.n_coordinates == t.shape[0]:
            return t
        tau = self.fixed.copy()
        _, nodes, edges = self._varying
        tau[edges] = t
        if self.n_coordinates > self.n_scored:
            single = self.varying_singles[nodes]
            tau[self.n_scored + nodes[single]] = z[single]
        return tau

    def _make_entropy(self) -> SeparableEntropy:
        graph, rho = self.graph, self.rho
        a, c = np.zeros(self.n_coordinates), np.zeros(self.n_coordinates)
        edges = slice(None) if self.varying_edges is None else self.varying_edges
        a[: self.n_scored][edges] = 1.0
        c[: self.n_scored][edges] = (rho[graph.row] + rho[graph.col] - 1.0)[edges]
        if self.free.any():
            a[self.n_scored :] = np.where(self.varying_singles, rho, 0.0)
        return SeparableEntropy(a, c)

    # ------------------------------------------------------------------ decoding
    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A vertex of the polytope of the largest total score, with prices of the varying nodes."""
        graph = self._varying[0]
        found = self._decode_varying(graph, self._edges(scores), self._singles(scores), warm)
        vertex = self._with_fixed(found.vertex)
        return Decoding(vertex, vertex.dot(scores), found.prices)

    def _with_fixed(self, vertex: Vertex) -> Vertex:
        """A vertex over varying edges and nodes as one over all coordinates."""
        if self.n_coordinates == self._varying[0].n_edges:
            return vertex
        graph, nodes, edges = self._varying
        is_edge = vertex.indices < graph.n_edges
        own = edges[vertex.indices[is_edge]]
        single = nodes[vertex.indices[~is_edge] - graph.n_edges] + self.n_scored
        known = np.flatnonzero(self.fixed)
        return Vertex(
            np.concatenate([own, single, known]),
            np.concatenate([vertex.values[is_edge], vertex.values[~is_edge], self.fixed[known]]),
        )

    def _decode_varying(
        self, graph: SimpleGraph, scores: Floats, single: Floats, warm: Floats | None
    ) -> Decoding:
        """The best vertex over the edges of `graph`, then its nodes' unused capacity."""
        nodes = graph.n_nodes
        if graph is self.graph:
            capacity, free = self.capacity.astype(np.float64), self.free
        else:
            capacity, free = self._remaining
        if is_matching(capacity, free):
            after, prices = fractional_matching(
                nodes, graph.ptr, graph.col, scores,
                single=single if free.any() else None, warm=warm,
            )  # fmt: skip
            node = np.arange(nodes)
            used = (node < after) | (after[after] != node)  # pairs once, odd cycles all around
            values = np.where(after[after] == node, 1.0, 0.5)[used]
            chosen = edges_between(nodes, graph.ptr, graph.col, node[used], after[used])
            unused = np.flatnonzero(after == node)
            amount = np.ones(unused.size)
            score = float(scores[chosen] @ values + single[unused].sum())
        else:
            best = best_b_matching(nodes, graph.ptr, graph.col, scores, capacity, ~free, single)
            unused = np.flatnonzero(best.slack)
            amount = best.slack[unused]
            chosen, values, prices, score = best.edges, best.values, best.prices, best.score
        indices = np.concatenate([chosen, graph.n_edges + unused])
        return Decoding(Vertex(indices, np.concatenate([values, amount])), score, prices)

    def best_label(self, scores: Floats) -> Ints:
        """The best matching, never a fractional one, as `label` has it."""
        return self.label(self.decode_integral(self.break_ties(scores)).vertex)

    def decode_integral(self, scores: Floats) -> Decoding:
        """A matching (or b-matching) of the largest total score, never a fractional one."""
        graph = self._varying[0]
        w, single = self._edges(scores), self._singles(scores)
        capacity, free = self._remaining
        if is_matching(capacity, free):
            best = best_matching(
                graph.n_nodes, graph.ptr, graph.col, w, single=single if free.any() else None
            )
            indices = np.concatenate([best.edges, graph.n_edges + best.single_nodes])
            vertex = Vertex(indices, np.ones(indices.shape[0]))
        else:
            filled = best_b_matching(
                graph.n_nodes, graph.ptr, graph.col, w, capacity, ~free, single, integral=True
            )
            unused = np.flatnonzero(filled.slack)
            vertex = Vertex(
                np.concatenate([filled.edges, graph.n_edges + unused]),
                np.concatenate([filled.values, filled.slack[unused]]),
            )
        vertex = self._with_fixed(vertex)
        return Decoding(vertex, vertex.dot(scores))

    # ------------------------------------------------------------------ labels
    def encode(self, label: Any) -> Vertex:
        """The vertex of a label: partners (n_nodes,), -1 for single, or pairs (n_pairs, 2)."""
        n = self.graph.n_nodes
        if self.is_simple and np.ndim(label) != 2:
            return self.vertex_of_pairs(check_partners(label, n, None))
        pairs = whole_numbers(label, (len(label), 2), "one row per pair")
        if ((pairs < 0) | (pairs >= n)).any():
            raise ValueError(f"nodes are numbered 0 to {n - 1}, got {label!r}")
        return self.vertex_of_pairs(pairs)

    def label(self, vertex: Vertex) -> Ints:
        """Partner of every node (-1: single), or with capacities above 1 the pairs, sorted."""
        edges = np.sort(vertex.indices[vertex.indices < self.n_scored])
        pairs = np.stack([self.graph.row[edges], self.graph.col[edges]], axis=1)
        if not self.is_simple:
            return pairs
        partner = np.full(self.graph.n_nodes, -1, dtype=np.int64)
        partner[pairs[:, 0]], partner[pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
        return partner

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        """The share of nodes (partnerships) other than in `vertex`: constant + <scores, tau>."""
        scores = np.zeros(self.n_coordinates)
        is_edge = vertex.indices < self.n_scored
        weight = np.where(is_edge, 2.0, 1.0) * vertex.values
        scores[vertex.indices] = -weight / max(float(self.capacity.sum()), 1.0)
        return 1.0, scores

    # ------------------------------------------------------------------ marginals
    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """tau maximising <scores, tau> + H_rho(tau), with certified bounds of log Z_rho."""
        if not np.isfinite(scores).all():
            raise ValueError("scores must be finite; forbid pairs by leaving them out of the graph")
        # A bound takes .3 s for a million pairs, marginals take several of them.
        found: Marginals = wait_for(
            "matching marginals", self._marginals, scores, warm, tol, seconds=1e-6 * scores.size
        )
        return found

    def _marginals(self, scores: Floats, warm: Any, tol: float) -> Marginals:
        constant = float(scores @ self.fixed)
        if self.is_fixed:
            return Marginals(self.fixed.copy(), constant, constant, None, 0)
        graph = self._varying[0]
        # With up to 100 nodes the cover is .5-2 x as fast, and 2-20 x where marginals come near 1.
        if not self._has_cover or (graph.is_complete and graph.n_nodes > 100):
            known = warm if isinstance(warm, edge_dual.EdgeSolution) else None
            found = edge_dual.solve(
                self._problem, self._edges(scores), self._singles(scores), known, tol
            )
            if found.failed and not self._has_cover:
                return self._marginals_of_decoder(scores, found, constant, tol)
            if found.upper_bound - found.value <= tol or not self._has_cover:
                tau, value = self._coordinates(found.t, found.z), found.value + constant
                return Marginals(tau, value, found.upper_bound + constant, found, found.iterations)
        known_cover = warm if isinstance(warm, newton.Solution) else None
        return self._marginals_of_cover(scores, known_cover, constant, tol)

    def _marginals_of_decoder(
        self, scores: Floats, found: edge_dual.EdgeSolution, constant: float, tol: float
    ) -> Marginals:
        """Where the edge dual of b-matchings fails: a vertex, or Frank-Wolfe."""
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
        problem = w[None], w_cols[None], lambda: start, [warm], np.array([2.0 * tol])
        found = core.oracle.each(*problem, self.n_jobs)[0]
        tau, value = self._folded(core, found.t, found.z), 0.5 * found.value
        best = self.decode(scores) if not found.gap <= 2.0 * tol else None
        if best is not None and best.score - constant > value:
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

    @cached_property
    def _problem(self) -> edge_dual.EdgeProblem:
        """The varying part, for the edge dual."""
        graph, nodes, _ = self._varying
        (capacity, free), rho = self._remaining, self.rho[nodes]
        return edge_dual.EdgeProblem(
            graph.ptr, graph.col, graph.is_complete, rho, capacity, free, np.where(free, rho, 0.0)
        )

    @cached_property
    def _has_cover(self) -> bool:
        """Whether the varying part is a plain matching, all of it perfect or all with singles."""
        capacity, free = self._remaining
        has_entropy = bool(self.rho[self._varying[1]].all())
        return is_matching(capacity, free) and (has_entropy or not free.any())

    @cached_property
    def _presolved(self) -> PresolvedMatching | None:
        """The varying part as a bipartite problem on the double cover; None for b-matchings.

        All its sums are twice those of the graph itself.
        """
        if not self._has_cover:
            return None
        graph, nodes, edges = self._varying
        cover, edge = graph.double_cover()
        n, size, rho = graph.n_nodes, cover.n_edges, self.rho[nodes]
        layout = Layout(size, size + n, size + 2 * n)
        core = presolve(cover, rho, rho, not self._remaining[1].any(), layout)
        own = np.concatenate([edges[edge], *[self.n_scored + nodes] * 2])
        return replace(
            core, source=own[core.source], col_source=own[core.col_source], fixed=self.fixed
        )

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
        # Unused capacity has entropy at all nodes: without, it could be used up.
        even = replace(
            self._problem,
            rho=np.where(capacity > 1, 0.0, 0.5),
            single_rho=np.where(free, 0.5, 0.0),
        )
        found = edge_dual.solve(even, np.zeros(graph.n_edges), np.zeros(n), None, 1e-10)
        return self._coordinates(found.t, found.z)

    def price_bound(self, scores: Floats, prices: Floats, tau: Floats) -> float:
        """A proven upper bound of log Z_rho at any prices of the varying nodes."""
        bound = edge_dual.price_bound(
            self._problem, self._edges(scores), self._singles(scores), prices
        )
        return bound + float(scores @ self.fixed)

    def require_feasible(self) -> None:
        """Raise where the nodes cannot be matched perfectly, though fractional matchings exist."""
        nodes = self.capacity > 0
        if not self.is_simple or self.free[nodes].any():
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
        """rho = 1/2 bounds log Z from above; a cut into two sides bounds it from below."""
        half = LocalMatching(self.graph, 0.5, ~self.free, self.capacity)
        above = half.marginals(scores, None, tol)
        if not self.is_simple:
            best = self.decode_integral(scores).score
            reasons = "score of the best b-matching", "nodes' edges as independent"
            return Bounds(best, above.upper_bound, *reasons)
        upper_reason = "reweighted value (rho = 1/2)"
        if not is_matching(self.capacity, self.free):
            best = self.decode_integral(scores).score
            return Bounds(best, above.upper_bound, "score of the best matching", upper_reason)
        lower = bipartition_bound(self, scores, above.tau[: self.n_scored], tol)
        reason = "best matching, or Bethe value (rho = 1) of a cut into two sides"
        return Bounds(lower, above.upper_bound, reason, upper_reason)


def is_matching(capacity: NDArray[Any], free: Bools) -> bool:
    """Whether all capacities are 1, and all nodes or none may stay single."""
    return bool((capacity == 1).all() and (free.all() or not free.any()))
