"""Matchings and b-matchings in general graphs, over the local polytope.

Every node i has a capacity b_i, the number of partners it has (or may have at most). Coordinates
of tau: one per edge, then, where some node may have fewer partners, one per node for its unused
capacity. The local polytope asks only that every node's coordinates sum to its capacity; in
graphs with odd cycles its vertices are half-integral (`ExactMatching` rules those out). The
entropy is that of the bipartite case,

    H = sum_ij (rho_i + rho_j - 1)(1 - tau_ij) log(1 - tau_ij) - tau_ij log tau_ij
        - sum_i rho_i sigma_i log sigma_i        (single nodes),

with rho_i = 0 at nodes of capacity above 1, whose joint entropy has no closed form: what is left
counts their edges as independent. Where there are such nodes, those of capacity 1 have rho_i of at
most 1/2, so that every edge's entropy is concave by itself. log Z_rho >= log Z wherever
rho_i + rho_j <= 1 on all edges (rho = 1/2, and all b-matchings with capacities above 1). With
rho = 1 it is *not* a lower bound here, unlike in bipartite graphs.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..decoders.blossom import best_matching
from ..decoders.bmatching import best_b_matching
from ..decoders.fractional import fractional_matching
from ..decoders.integral_bmatching import best_integral_b_matching
from ..inference import edge_oracle, matching_oracle
from ..inference.frank_wolfe_marginals import frank_wolfe_marginals
from ..inference.swap_bound import drop_bound, swap_bound
from .base import Decoding, Marginals, Vertex
from .entropy import SeparableEntropy
from .matching_core import Layout, MatchingCore, build_core
from .settled import varying
from .simple_graph import SimpleGraph
from .softened import SAFE_RHO, SoftenedMatching

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_STEPS = 300  # of Frank-Wolfe, where there is no better oracle
POLISHING = 1  # Newton steps on the prices of a decoder, for a certificate


class LocalMatching:
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

    polytope = "local"

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
        self.single_rho = np.where(self.free, self.rho, 0.0)
        self.n_scored = self.graph.n_edges
        self.n_coordinates = self.n_scored + (n if self.free.any() else 0)
        self.settled, self.open_edges, self.open_singles = self._settle()
        self._set_rho(self.rho)
        self._interior: Floats | None = None
        shape = (self.graph.ptr.tobytes(), self.graph.col.tobytes())
        self.fingerprint = f"{self.polytope} matching {hash(shape)} " + str(
            hash((self.capacity.tobytes(), self.free.tobytes()))
        )

    # ------------------------------------------------------------------ what is open
    def _settle(self) -> tuple[Floats, Bools | None, Bools]:
        """Coordinates with the same value in all points (0 elsewhere), edges that vary (None: all
        do), and nodes whose unused capacity varies.
        """
        graph, n = self.graph, self.graph.n_nodes
        settled = np.zeros(self.n_coordinates)
        if graph.is_complete and n > 2 and n % 2 == 0 and self._plain_perfect:
            return settled, None, self.free
        if self.free.all() and (self.capacity > 0).all() and (graph.degree > 0).all():
            return settled, None, self.free
        found = self._decode_open(graph, np.zeros(graph.n_edges), np.zeros(n), None)
        x = found.vertex.dense(graph.n_edges + n)
        x, slack = x[: graph.n_edges], x[graph.n_edges :]
        edges, singles = varying(graph, x, self.capacity.astype(float), self.free, slack)
        settled[: graph.n_edges] = np.where(edges, 0.0, x)
        if self.free.any():
            settled[graph.n_edges :] = np.where(singles, 0.0, slack)
        whole = edges.all() and graph.degree.all() and not settled.any()
        return settled, None if whole else edges, singles

    @property
    def _plain_perfect(self) -> bool:
        return bool((self.capacity == 1).all() and not self.free.any())

    @cached_property
    def _open(self) -> tuple[SimpleGraph, Ints, Ints]:
        """The graph of edges that vary, its nodes and its edges."""
        if self.open_edges is None:
            return self.graph, np.arange(self.graph.n_nodes), np.arange(self.n_scored)
        return self.graph.subgraph(self.open_edges)

    @property
    def is_settled(self) -> bool:
        """Whether there is only one admissible matching."""
        return self._open[0].n_edges == 0

    @cached_property
    def _remaining(self) -> tuple[Floats, Bools]:
        """Capacity that is not settled at the open nodes, and which of them may leave some."""
        graph, nodes = self.graph, self._open[1]
        left = self.capacity.astype(np.float64)
        for end in (graph.row, graph.col):
            left -= np.bincount(end, self.settled[: self.n_scored], minlength=graph.n_nodes)
        if self.n_coordinates > self.n_scored:
            left -= self.settled[self.n_scored :]
        return left[nodes], self.open_singles[nodes]

    def _edges(self, values: Floats) -> Floats:
        """Values of the open edges, from those of all coordinates."""
        return values[: self.n_scored] if self.open_edges is None else values[self._open[2]]

    def _singles(self, values: Floats) -> Floats:
        """Values of the open nodes' unused capacity, 0 where there is none."""
        nodes = self._open[1]
        if self.n_coordinates == self.n_scored:
            return np.zeros(nodes.shape[0])
        return np.where(self.open_singles[nodes], values[self.n_scored + nodes], 0.0)

    def _coordinates(self, t: Floats, z: Floats) -> Floats:
        """Marginals of all coordinates, from those of open edges and open nodes."""
        if self.n_coordinates == t.shape[0]:
            return t
        tau = self.settled.copy()
        _, nodes, edges = self._open
        tau[edges] = t
        if self.n_coordinates > self.n_scored:
            single = self.open_singles[nodes]
            tau[self.n_scored + nodes[single]] = z[single]
        return tau

    # ------------------------------------------------------------------ entropy
    def _set_rho(self, rho: Floats) -> None:
        """Use `rho` for the edges' entropy; that of single nodes stays."""
        graph = self.graph
        self._edge_rho = rho
        a, c = np.zeros(self.n_coordinates), np.zeros(self.n_coordinates)
        open_edges = slice(None) if self.open_edges is None else self.open_edges
        a[: self.n_scored][open_edges] = 1.0
        c[: self.n_scored][open_edges] = (rho[graph.row] + rho[graph.col] - 1.0)[open_edges]
        if self.n_coordinates > self.n_scored:
            a[self.n_scored :] = np.where(self.open_singles, self.single_rho, 0.0)
        self._entropy = SeparableEntropy(a, c)
        self.__dict__.pop("_problem", None)
        self.__dict__.pop("_core", None)

    def entropy(self, tau: Floats) -> float:
        """H_rho(tau)."""
        return self._entropy(tau)

    def entropy_gradient(self, tau: Floats) -> Floats:
        """Gradient of H_rho; 0 at settled coordinates."""
        return self._entropy.add_gradient(tau, np.zeros_like(tau))[0]

    @property
    def stepping_entropy(self) -> SeparableEntropy:
        """The entropy as a sum over coordinates, for fast line searches."""
        return self._entropy

    # ------------------------------------------------------------------ decoding
    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A vertex of the polytope of the largest total score, with prices of the open nodes."""
        graph = self._open[0]
        found = self._decode_open(graph, self._edges(scores), self._singles(scores), warm)
        vertex = self._with_settled(found.vertex)
        return Decoding(vertex, vertex.dot(scores), found.prices)

    def _with_settled(self, vertex: Vertex) -> Vertex:
        """A vertex over open edges and open nodes as one over all coordinates."""
        if self.n_coordinates == self._open[0].n_edges:
            return vertex
        graph, nodes, edges = self._open
        is_edge = vertex.indices < graph.n_edges
        own = edges[vertex.indices[is_edge]]
        single = nodes[vertex.indices[~is_edge] - graph.n_edges] + self.n_scored
        known = np.flatnonzero(self.settled)
        return Vertex(
            np.concatenate([own, single, known]),
            np.concatenate([vertex.values[is_edge], vertex.values[~is_edge], self.settled[known]]),
        )

    def _decode_open(
        self, graph: SimpleGraph, scores: Floats, single: Floats, warm: Floats | None
    ) -> Decoding:
        """The best vertex over the edges of `graph`, then its nodes' unused capacity."""
        nodes = graph.n_nodes
        if graph is self.graph:
            capacity, free = self.capacity.astype(np.float64), self.free
        else:
            capacity, free = self._remaining
        if _is_matching(capacity, free):
            best = fractional_matching(
                nodes, graph.ptr, graph.col, scores,
                single=single if free.any() else None, warm=warm,
            )  # fmt: skip
            unused, amount = best.single_nodes, best.single_values
            chosen, values, prices, score = best.edges, best.values, best.prices, best.score
        else:
            flow = best_b_matching(
                nodes, graph.ptr, graph.col, scores, capacity, ~free, single=single, warm=warm
            )
            unused = np.flatnonzero(flow.slack)
            amount = flow.slack[unused]
            chosen, values, prices, score = flow.edges, flow.values, flow.prices, flow.score
        indices = np.concatenate([chosen, graph.n_edges + unused])
        return Decoding(Vertex(indices, np.concatenate([values, amount])), score, prices)

    def decode_integral(self, scores: Floats) -> Decoding:
        """A matching (or b-matching) of the largest total score, never a fractional one."""
        graph = self._open[0]
        w, single = self._edges(scores), self._singles(scores)
        capacity, free = self._remaining
        if _is_matching(capacity, free):
            best = best_matching(
                graph.n_nodes, graph.ptr, graph.col, w, single=single if free.any() else None
            )
            indices = np.concatenate([best.edges, graph.n_edges + best.single_nodes])
            vertex = Vertex(indices, np.ones(indices.shape[0]))
        else:
            flow = best_integral_b_matching(
                graph.n_nodes, graph.ptr, graph.col, w, capacity, ~free, single
            )
            unused = np.flatnonzero(flow.slack)
            vertex = Vertex(
                np.concatenate([flow.edges, graph.n_edges + unused]),
                np.concatenate([flow.values, flow.slack[unused]]),
            )
        vertex = self._with_settled(vertex)
        return Decoding(vertex, vertex.dot(scores))

    # ------------------------------------------------------------------ labels
    def encode(self, label: Any) -> Vertex:
        """The vertex of a label: partners (n_nodes,), -1 for single, or pairs (n_pairs, 2)."""
        pairs = as_pairs(label)
        edges = self.graph.edge_between(pairs[:, 0], pairs[:, 1])
        if (edges < 0).any():
            i, j = pairs[int(np.argmax(edges < 0))].tolist()
            raise ValueError(f"the label pairs {i} with {j}, not allowed here")
        used = np.bincount(pairs.ravel(), minlength=self.graph.n_nodes)
        slack = self.capacity - used
        wrong = (slack < 0) | ((slack > 0) & ~self.free)
        if wrong.any():
            i = int(np.argmax(wrong))
            need = "at most" if self.free[i] else "exactly"
            raise ValueError(
                f"node {i} has {used[i]} partners, it must have {need} {int(self.capacity[i])}"
            )
        unused = np.flatnonzero(slack > 0)
        indices = np.concatenate([edges, self.n_scored + unused])
        return Vertex(indices, np.concatenate([np.ones(edges.shape[0]), slack[unused]]))

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

    def table(self, tau: Floats) -> Floats:
        """Edge coordinates of tau as a symmetric matrix, 0 where not allowed."""
        return self.graph.dense(tau[: self.n_scored])

    # ------------------------------------------------------------------ marginals
    @property
    def _is_small(self) -> bool:
        """Whether the double cover is about as fast as anything else."""
        return self._open[0].n_nodes <= matching_oracle.SMALL_LIMIT

    @cached_property
    def _problem(self) -> edge_oracle.EdgeProblem:
        """The open part, for the edge dual."""
        graph, nodes, _ = self._open
        capacity, free = self._remaining
        return edge_oracle.EdgeProblem(
            graph.ptr, graph.col, graph.is_complete, self._edge_rho[nodes],
            np.asarray(capacity, dtype=np.float64), free, np.where(free, self.single_rho[nodes], 0),
        )  # fmt: skip

    @cached_property
    def _has_cover(self) -> bool:
        """Whether the open part is a plain matching, all of it perfect or all with singles."""
        capacity, free = self._remaining
        weights = self.single_rho[self._open[1]]
        return _is_matching(capacity, free) and bool(not free.any() or weights.all())

    @cached_property
    def _core(self) -> MatchingCore | None:
        """The open part as a bipartite problem on the double cover; None for b-matchings.

        All its sums are twice those of the graph itself.
        """
        if not self._has_cover:
            return None
        _, free = self._remaining
        graph, nodes, edges = self._open
        cover, edge = graph.double_cover()
        n = graph.n_nodes
        size = cover.n_edges
        layout = Layout(size, size + n, size + 2 * n)
        rho = self._edge_rho[nodes]
        core = build_core(cover, rho, rho, not free.any(), layout)
        if free.any():
            a = core.rows.a.copy()
            a[core.rows.col == n] = self.single_rho[nodes]
            core = replace(core, rows=core.rows._replace(a=a, rho_cols=self.single_rho[nodes]))
        own = np.concatenate([edges[edge], *[self.n_scored + nodes] * 2])
        return replace(
            core,
            source=own[core.source],
            col_source=own[core.col_source],
            settled=self.settled,
        )

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """tau maximising <scores, tau> + H_rho(tau), with certified bounds of log Z_rho.

        Prices of the nodes (`edge_oracle`) give it where no marginal comes near 1 or rho is small;
        otherwise the double cover does, as in the bipartite case.
        """
        constant = float(scores @ self.settled)
        if not np.isfinite(scores).all():
            raise ValueError("scores must be finite; forbid pairs by leaving them out of the graph")
        covered = isinstance(warm, matching_oracle.Solution)
        if not covered or not self._is_small:
            prices = warm.prices if isinstance(warm, edge_oracle.EdgeSolution) else None
            found = edge_oracle.solve(
                self._problem, self._edges(scores), self._singles(scores), prices, tol,
                tangents=0 if self._has_cover and self._is_small else edge_oracle.TANGENTS,
            )  # fmt: skip
            settled = found.upper_bound - found.value <= tol or self._entropy.c.max() <= 0.0
            if settled or not self._has_cover:
                tau, value = self._coordinates(found.t, found.z), found.value
                if found.failed:
                    return self._marginals_of_decoder(scores, found, constant, tol)
                return Marginals(
                    tau, value + constant, found.upper_bound + constant, found, found.iterations
                )
        return self._marginals_of_cover(scores, warm if covered else None, constant, tol)

    def _marginals_of_decoder(
        self, scores: Floats, found: edge_oracle.EdgeSolution, constant: float, tol: float
    ) -> Marginals:
        """Where the edge dual fails and there is no double cover: a vertex, or Frank-Wolfe."""
        tau = self.decode(scores).vertex.dense(self.n_coordinates)
        value = float(scores @ tau) + self.entropy(tau)
        upper, steps = found.upper_bound + constant, 0
        if upper - value > tol:
            point, other, bound, steps = frank_wolfe_marginals(
                self, scores, self.interior(), tol, MAX_STEPS
            )
            upper = min(upper, bound)
            if other > value:
                tau, value = point, other
        return Marginals(tau, value, upper, found, found.iterations + steps)

    def _marginals_of_cover(
        self, scores: Floats, warm: matching_oracle.Solution | None, constant: float, tol: float
    ) -> Marginals:
        core = self._core
        assert core is not None
        counts = np.diff(core.rows.ptr)
        start = np.repeat(1.0 / np.maximum(counts, 1), counts), np.where(core.free, 0.5, 1.0)
        found = matching_oracle.solve(
            core.rows, core.entries(scores), core.columns(scores), start, warm, 2.0 * tol
        )
        tau, value = self._folded(core, found), 0.5 * found.value
        if not np.isfinite(value):
            best = self.decode(scores)
            tau, value = best.vertex.dense(self.n_coordinates), best.score - constant
            found.t = np.maximum(core.entries(tau), 1e-200)
            found.z = np.where(core.free, np.maximum(core.columns(tau), 1e-200), 1.0)
        return Marginals(
            tau, value + constant, 0.5 * found.upper_bound + constant, found, found.iterations
        )

    def _folded(self, core: MatchingCore, found: matching_oracle.Solution) -> Floats:
        """Marginals from those of the double cover, the mean of both directions of an edge."""
        tau = self.settled.copy()
        tau += 0.5 * np.bincount(core.source, found.t, minlength=self.n_coordinates)
        tau[core.col_source[core.free]] += 0.5 * found.z[core.free]
        return tau

    def interior(self) -> Floats:
        """A point with every coordinate that is not settled strictly inside its range.

        Even shares on complete graphs; otherwise the maximum-entropy point at zero scores.
        """
        if self._interior is None:
            self._interior = self._find_interior()
        return self._interior.copy()

    def _find_interior(self) -> Floats:
        graph = self._open[0]
        n = graph.n_nodes
        capacity, free = self._remaining
        if graph.is_complete and _is_matching(capacity, free):
            share = 1.0 / (n - 1 + int(free.any()))
            return self._coordinates(np.full(graph.n_edges, share), np.full(n, share))
        return self._coordinates(*even_marginals(graph, capacity, free))

    def price_bound(self, scores: Floats, prices: Floats, tau: Floats) -> float:
        """A proven upper bound of log Z_rho at any prices of the open nodes, near tau."""
        found = edge_oracle.solve(
            self._problem, self._edges(scores), self._singles(scores), prices, 1e-7, POLISHING
        )
        bound = found.upper_bound
        core = self._core if found.failed and self._is_small else None
        if core is not None:
            bound_of_cover, _ = matching_oracle.polish(
                core.rows, core.entries(scores), core.columns(scores), np.append(prices, 0.0),
                core.entries(tau), 1e-7,
            )  # fmt: skip
            bound = min(bound, 0.5 * bound_of_cover)
        return bound + float(scores @ self.settled)

    def log_partition_floor(self, scores: Floats) -> float:
        """A proven lower bound of log Z itself (not of log Z_rho), from true matchings."""
        best = self.decode_integral(scores)
        if not self.is_simple:
            return best.score
        partner = self.label(best.vertex)
        w = scores[: self.n_scored]
        if not self.free.any():
            return swap_bound(partner, self.graph.dense(w, -np.inf))
        if not self.free.all():
            return best.score
        single = scores[self.n_scored :]
        w = w - single[self.graph.row] - single[self.graph.col]
        return float(single.sum()) + drop_bound(partner, self.graph.dense(w, -np.inf))

    # ------------------------------------------------------------------ curvature
    def rest(self, found: Marginals) -> Floats:
        """1 - tau of every coordinate, accurate where tau is near 1."""
        rest = 1.0 - found.tau
        if isinstance(found.warm, matching_oracle.Solution) and self._core is not None:
            rest[self._core.source] = matching_oracle.complements(self._core.rows, found.warm.t)
        return rest

    def softened(self, share: float = 1.0) -> SoftenedMatching | None:
        """A form with a safely concave entropy, None if this one is."""
        above = np.maximum(self._edge_rho - SAFE_RHO, 0.0)
        if not above.any():
            return None
        softer = copy.copy(self)
        softer._set_rho(self._edge_rho - share * above)
        return SoftenedMatching(self, softer)

    @property
    def has_feature_covariance(self) -> bool:
        """Whether `feature_covariance` is cheap enough to be worth it."""
        return self._is_small and self._has_cover

    def feature_covariance(self, found: Marginals, features: Floats) -> Floats:
        """Hessian of log Z_rho in theta; `features` of shape (n_scored, K)."""
        core = self._core
        assert core is not None
        solution = found.warm
        if not isinstance(solution, matching_oracle.Solution):
            t, z = core.entries(found.tau), np.where(core.free, core.columns(found.tau), 1.0)
            solution = matching_oracle.Solution(t, z, np.zeros(0), 0.0, 0.0, 0.0, 0)
        return 0.5 * matching_oracle.covariance_of_features(
            core.rows, solution, features, core.source
        )


def _is_matching(capacity: Floats, free: Bools) -> bool:
    """Whether all capacities are 1, and all nodes or none may stay single."""
    return bool((capacity == 1).all() and (free.all() or not free.any()))


def even_marginals(graph: SimpleGraph, capacity: Floats, free: Bools) -> tuple[Floats, Floats]:
    """Edges' and unused capacities' values of largest entropy (rho = 1/2), at zero scores."""
    n = graph.n_nodes
    rho = np.where(capacity > 1, 0.0, 0.5)
    problem = edge_oracle.EdgeProblem(
        graph.ptr, graph.col, graph.is_complete, rho,
        np.asarray(capacity, dtype=np.float64), free, np.where(free, rho, 0.0),
    )  # fmt: skip
    found = edge_oracle.solve(problem, np.zeros(graph.n_edges), np.zeros(n), None, 1e-10)
    return found.t, found.z


def node_rho(rho: ArrayLike, n_nodes: int) -> Floats:
    """Reweighting of every node from a scalar or an array."""
    values = np.asarray(rho, dtype=np.float64)
    if values.ndim and values.shape != (n_nodes,):
        raise ValueError(f"rho: expected a scalar or shape ({n_nodes},), got {values.shape}")
    if not (np.all(values >= 0.5) and np.all(values <= 1.0)):
        raise ValueError(f"rho must lie in [0.5, 1], found {values.min()} to {values.max()}")
    return np.broadcast_to(values, (n_nodes,)).astype(np.float64)


def node_capacity(capacity: ArrayLike, n_nodes: int) -> Ints:
    """Capacity of every node from a whole number or an array of them."""
    values = np.asarray(capacity)
    if values.ndim and values.shape != (n_nodes,):
        raise ValueError(
            f"capacity: expected a whole number or shape ({n_nodes},), got {values.shape}"
        )
    if values.dtype.kind not in "iu" and not (
        values.dtype.kind == "f" and np.array_equal(values, np.round(values))
    ):
        raise ValueError(f"capacity must hold whole numbers, got {capacity!r}")
    if (values < 0).any():
        raise ValueError(f"capacity must not be negative, found {values.min()}")
    return np.broadcast_to(values, (n_nodes,)).astype(np.int64)


def as_pairs(label: Any) -> Ints:
    """Pairs (n_pairs, 2) from partners (n_nodes,), each pair once, or from pairs."""
    values = np.asarray(label, dtype=np.int64)
    if values.ndim == 2:
        return values
    nodes = np.flatnonzero(values > np.arange(values.shape[0]))
    return np.stack([nodes, values[nodes]], axis=1)
