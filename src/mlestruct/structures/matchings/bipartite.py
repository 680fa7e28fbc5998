"""Matchings in bipartite graphs: permutations, assignments, and matchings with single nodes.

Coordinates of tau: one per allowed pair (row-major), then, where they can stay single, one per
row and one per column. The entropy is

    H = sum_ij (rho_i + rho_j - 1)(1 - tau_ij) log(1 - tau_ij) - tau_ij log tau_ij
        - sum_i rho_i sigma_i log sigma_i        (single nodes),

rho = 1 being the Bethe entropy, whose log Z_B <= log Z, and rho = 1/2 a reweighted one with
log Z_RW >= log Z.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...algorithms.matching import assignment, certified_belief_propagation, newton
from ...labels import check_partners
from ..contract import Decoding, Marginals, Vertex
from ..entropy import SeparableEntropy
from ..graphs.bipartite import BipartiteGraph
from .belief_propagation import NOTHING, BeliefMarginals, core_beliefs
from .concave_surrogate import SoftenedMatching
from .presolve import Layout, MatchingCore, build_core
from .reduced_scores import calm_marginals, cap_bound, is_wide

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COVARIANCE_LIMIT = 1200  # columns of a complete graph


class BipartiteMatching:
    """Output space of matchings between `graph.n_rows` rows and `graph.n_cols` columns.

    Parameters
    ----------
    graph : BipartiteGraph, or (n_rows, n_cols) for all pairs
    rho : float, or array of shape (n_rows + n_cols,), or pair (of rows, of columns)
        Reweighting in [1/2, 1].
    perfect : bool
        True: as many pairs as possible, that is every node of the smaller side is matched.
        False: any matching, every node may stay single.
    """

    is_softened = False  # whether the entropy is another than that of rho

    is_simple = True  # nobody has more than one partner

    def __init__(
        self,
        graph: BipartiteGraph | tuple[int, int],
        rho: ArrayLike | tuple[ArrayLike, ArrayLike] = 1.0,
        perfect: bool = True,
    ):
        if not isinstance(graph, BipartiteGraph):
            if len(graph) != 2:
                raise ValueError(f"graph: expected a graph or (n_rows, n_cols), got {graph!r}")
            graph = BipartiteGraph.complete(*graph)
        if not isinstance(perfect, bool | np.bool_):
            raise ValueError(
                f"perfect: expected True (the smaller side is matched) or False, got {perfect!r}"
            )
        self.graph = graph
        parts = (graph.ptr.tobytes(), graph.col.tobytes(), bool(perfect), graph.n_cols)
        self.fingerprint = f"matching {hash(parts)}"
        self.perfect = bool(perfect)
        self.rho_rows, self.rho_cols = node_rho(rho, graph.n_rows, graph.n_cols)
        n, m = graph.n_rows, graph.n_cols
        self.free_rows = not perfect or n > m
        self.free_cols = not perfect or m > n
        self.n_scored = graph.n_edges
        self._row_single = self.n_scored
        self._col_single = self.n_scored + (n if self.free_rows else 0)
        self.n_coordinates = self._col_single + (m if self.free_cols else 0)
        layout = Layout(self._row_single, self._col_single, self.n_coordinates)
        self._set_core(build_core(graph, self.rho_rows, self.rho_cols, self.perfect, layout))
        self._interior: Floats | None = None

    def _set_core(self, core: MatchingCore) -> None:
        self._core = core
        self._entropy = SeparableEntropy(*core.entropy_weights())

    @property
    def is_settled(self) -> bool:
        """Whether there is only one admissible matching."""
        return self._core.edges.n_edges == 0

    @property
    def n_nodes(self) -> int:
        """Rows and columns."""
        return self.graph.n_rows + self.graph.n_cols

    def single_marginals(self, tau: Floats) -> Floats:
        """Probability of every row, then every column, to stay single."""
        n, m = self.graph.n_rows, self.graph.n_cols
        out = np.zeros(n + m)
        out[np.repeat([self.free_rows, self.free_cols], [n, m])] = tau[self.n_scored :]
        return out

    def with_rho(self, rho: Any) -> BipartiteMatching:
        """The same output space with another entropy."""
        return BipartiteMatching(self.graph, rho, self.perfect)

    def restricted(self, keep: NDArray[np.bool_]) -> tuple[BipartiteMatching, Ints]:
        """The same over some of the pairs only, and the place of its coordinates in this one."""
        smaller = BipartiteMatching(
            self.graph.with_edges(keep), (self.rho_rows, self.rho_cols), self.perfect
        )
        single = np.arange(self.n_scored, self.n_coordinates)
        return smaller, np.concatenate([np.flatnonzero(keep), single])

    # ------------------------------------------------------------------ entropy
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
        """A matching of the largest total score.

        `prices=True` also returns the dual prices of the core's columns; `warm` are prices of an
        earlier call.
        """
        core, graph = self._core, self._core.edges
        n, m = graph.n_rows, graph.n_cols
        edge_scores = scores if core.plain else scores[core.edge_source]
        row_single = None if self.perfect else scores[core.single_source]
        col_single = core.columns(scores) if core.any_free or m > n else None
        found = None
        if graph.is_complete and n and m:
            table = edge_scores.reshape(n, m)
            if not prices and row_single is None and n <= assignment.SCIPY_LIMIT:
                if col_single is not None:
                    table = table - col_single
                chosen = assignment.assign_scipy(table).row_to_col
            else:
                result = assignment.assign(
                    table, row_single=row_single, col_single=col_single, warm=warm
                )
                chosen, found = result.row_to_col, result.prices
            edge = core.first_edge + chosen
            if row_single is not None:
                edge[chosen < 0] = -1
        else:
            edge, found, _ = assignment.assign_edges(
                graph.ptr, graph.col, edge_scores, m,
                row_single=row_single, col_single=col_single, warm=warm,
            )  # fmt: skip
        vertex = core.vertex(edge)
        return Decoding(vertex, vertex.dot(scores), found)

    # ------------------------------------------------------------------ labels
    def encode(self, label: Any) -> Vertex:
        """The vertex of `label`: partner column of every row, -1 for single rows, or pairs."""
        partner = check_partners(label, self.graph.n_rows, self.graph.n_cols, self.perfect)
        rows = np.flatnonzero(partner >= 0)
        edges = self.graph.edge_between(rows, partner[rows])
        if (edges < 0).any():
            i = int(rows[np.argmax(edges < 0)])
            raise ValueError(f"the label pairs row {i} with column {partner[i]}, not allowed here")
        parts = [edges]
        if self.free_rows:
            parts.append(self._row_single + np.flatnonzero(partner < 0))
        if self.free_cols:
            single = np.ones(self.graph.n_cols, dtype=bool)
            single[partner[rows]] = False
            parts.append(self._col_single + np.flatnonzero(single))
        indices = np.concatenate(parts)
        return Vertex(indices, np.ones(indices.shape[0]))

    def label(self, vertex: Vertex) -> Ints:
        """Partner column of every row, -1 for single rows."""
        edges = vertex.indices[vertex.indices < self.n_scored]
        partner = np.full(self.graph.n_rows, -1, dtype=np.int64)
        partner[np.searchsorted(self.graph.ptr, edges, side="right") - 1] = self.graph.col[edges]
        return partner

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        """The share of rows matched otherwise than in `vertex`: constant + <scores, tau>."""
        scores = np.zeros(self.n_coordinates)
        rows = vertex.indices < self._col_single  # pairs and single rows
        scores[vertex.indices[rows]] = -vertex.values[rows] / self.graph.n_rows
        return 1.0, scores

    # ------------------------------------------------------------------ marginals
    def interior(self) -> Floats:
        """A point with every coordinate that is not settled strictly inside (0, 1).

        Even shares on complete graphs; otherwise the maximum-entropy point at zero scores.
        """
        if self._interior is None:
            t, z = self._start()
            rows = self._core.rows
            if not self._core.edges.is_complete and rows.c.size:
                even = rows._replace(c=np.zeros_like(rows.c))
                zeros = np.zeros_like(t), np.zeros_like(z)
                found = newton.solve(even, *zeros, (t, z), None, 1e-10)
                t, z = found.t, found.z
            self._interior = self._core.coordinates(t, z)
        return self._interior.copy()

    def _start(self) -> tuple[Floats, Floats]:
        """Positive (t, z) with exact row sums; exact column sums too on complete graphs."""
        graph, rows, free = self._core.edges, self._core.rows, self._core.free
        n, m = graph.n_rows, graph.n_cols
        if graph.is_complete and n and m:
            share = 1.0 / (max(n, m) + (0 if self.perfect else 1))
            t = np.full(rows.col.shape[0], share)
            if not self.perfect:
                t[rows.ptr[1:] - 1] = 1.0 - m * share
            return t, np.where(free, 1.0 - n * share, 1.0)
        counts = np.diff(rows.ptr)
        t = np.repeat(1.0 / np.maximum(counts, 1), counts)
        return t, np.where(free & (n > 0), 0.5, 1.0)

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """tau maximising <scores, tau> + H_rho(tau), with certified bounds of log Z_rho."""
        if is_wide(scores):
            calm = calm_marginals(self, scores, warm, tol)
            if calm is not None:
                return cap_bound(self, scores, calm)
        return cap_bound(self, scores, self.marginals_as_given(scores, warm, tol))

    def marginals_as_given(self, scores: Floats, warm: Any, tol: float) -> Marginals:
        """`marginals` of scores of any spread, without taking prices off them."""
        core = self._core
        constant = float(scores @ core.settled)
        if warm is None and core.is_bethe:
            found = certified_belief_propagation.solve(core.rows, scores, self._start, tol)
        else:
            found = newton.solve(
                core.rows, core.entries(scores), core.columns(scores), self._start(), warm, tol
            )
        tau = core.coordinates(found.t, found.z)
        if not np.isfinite(found.value):
            # Nothing feasible came of it: the best matching is, and its score is a valid value.
            best = self.decode(scores)
            tau, found.value = best.vertex.dense(self.n_coordinates), best.score - constant
            found.t = np.maximum(core.entries(tau), 1e-200)
            found.z = np.where(core.free, np.maximum(core.columns(tau), 1e-200), 1.0)
        return Marginals(
            tau,
            found.value + constant,
            found.upper_bound + constant,
            found,
            found.iterations,
        )

    def without_prices(self, scores: Floats) -> tuple[Floats | None, float, Floats | None]:
        """Scores minus the prices of the best matching, the sum of these, and those of columns."""
        core, rows = self._core, self._core.rows
        prices = self.decode(scores, prices=True).prices if core.source.size else None
        if prices is None:
            return None, 0.0, None
        taken = np.append(prices, 0.0)
        w = core.entries(scores) - taken[rows.col]
        of_row = np.maximum.reduceat(w, rows.ptr[:-1])
        calmed = np.zeros_like(scores)
        calmed[core.source] = w - np.repeat(of_row, np.diff(rows.ptr))
        calmed[core.col_source[core.free]] = (core.columns(scores) - prices)[core.free]
        return calmed, float(of_row.sum() + prices.sum() + scores @ core.settled), taken

    def repriced(self, warm: Any, prices: Floats | None) -> Any:
        """A solver's state for scores to which column prices are added."""
        if not isinstance(warm, newton.Solution) or prices is None:
            return None
        return replace(warm, prices=warm.prices + prices)

    def beliefs(
        self, scores: Floats, damping: float = 0.0, max_sweeps: int = 2000, tol: float = 1e-8
    ) -> BeliefMarginals:
        """The same marginals by belief propagation, without a certificate."""
        core = self._core
        constant = float(scores @ core.settled)
        if self.is_settled:
            tau = core.coordinates(np.ones(core.source.shape[0]), np.ones(core.free.shape[0]))
            return BeliefMarginals(tau, float(scores @ tau), NOTHING, 0.0)
        rho = np.concatenate([self.rho_rows, self.rho_cols])
        t, z, log_z, report, lacking = core_beliefs(core, scores, rho, damping, max_sweeps, tol)
        return BeliefMarginals(core.coordinates(t, z), log_z + constant, report, lacking)

    def price_bound(self, scores: Floats, prices: Floats, tau: Floats) -> float:
        """A proven upper bound of log Z_rho at any column prices; tau is where to look."""
        core = self._core
        bound, _ = newton.polish(
            core.rows, core.entries(scores), core.columns(scores), np.append(prices, 0.0),
            core.entries(tau), 1e-7,
        )  # fmt: skip
        return bound + float(scores @ core.settled)

    def rest(self, found: Marginals) -> Floats:
        """1 - tau of every coordinate, accurate where tau is near 1."""
        rest = 1.0 - found.tau
        t = self._core.solution(found).t
        rest[self._core.source] = newton.complements(self._core.rows, t)
        return rest

    def softened(self, share: float = 1.0) -> SoftenedMatching | None:
        """A form with a safely concave entropy, None if this one is.

        `share` is how much of what makes the entropy unsafe is taken out of it.
        """
        rows = self._core.rows
        excess = share * np.maximum(rows.c - newton.SAFE_C, 0.0)
        if not excess.any():
            return None
        softer = copy.copy(self)
        softer.is_softened = True
        softer._set_core(replace(self._core, rows=rows._replace(c=rows.c - excess)))
        return SoftenedMatching(self, softer)

    @property
    def has_feature_covariance(self) -> bool:
        """Whether `feature_covariance` is cheap enough to be worth it."""
        graph = self._core.edges
        limit = COVARIANCE_LIMIT if graph.is_complete else newton.SMALL_LIMIT
        return graph.n_cols <= limit

    def feature_covariance(self, found: Marginals, features: Floats) -> Floats:
        """Hessian of log Z_rho in theta; `features` of shape (n_scored, K)."""
        return newton.covariance_of_features(
            self._core.rows, self._core.solution(found), features, self._core.source
        )


def node_rho(
    rho: ArrayLike | tuple[ArrayLike, ArrayLike], n_rows: int, n_cols: int
) -> tuple[Floats, Floats]:
    """Reweighting of rows and of columns from a scalar, one array, or a pair of either."""
    if isinstance(rho, tuple):
        if len(rho) != 2:
            raise ValueError(f"rho: a tuple must hold (of rows, of columns), got {len(rho)} parts")
        parts = [np.asarray(part, dtype=np.float64) for part in rho]
    else:
        if isinstance(rho, str):
            raise ValueError(f"rho: expected a number or an array from 0.5 to 1, got {rho!r}")
        values = np.asarray(rho, dtype=np.float64)
        if values.ndim == 0:
            parts = [values, values]
        elif values.shape == (n_rows + n_cols,):
            parts = [values[:n_rows], values[n_rows:]]
        else:
            raise ValueError(
                f"rho: expected a scalar or shape ({n_rows + n_cols},) (rows, then columns), "
                f"got shape {values.shape}"
            )
    out = []
    for part, size, side in zip(parts, (n_rows, n_cols), ("rows", "columns"), strict=True):
        if part.ndim and part.shape != (size,):
            raise ValueError(f"rho of {side}: expected shape ({size},), got {part.shape}")
        if not (np.all(part >= 0.5) and np.all(part <= 1.0)):
            raise ValueError(f"rho must lie in [0.5, 1], found {part.min()} to {part.max()}")
        out.append(np.broadcast_to(part, (size,)).astype(np.float64))
    return out[0], out[1]
