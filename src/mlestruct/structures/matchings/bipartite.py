"""Matchings in bipartite graphs: permutations, assignments, and matchings with single nodes.

Coordinates of tau: one per allowed pair (row-major), then, where they can stay single, one per
row and one per column. The entropy is

    H = sum_ij (rho_i + rho_j - 1)(1 - tau_ij) log(1 - tau_ij) - tau_ij log tau_ij
        - sum_i rho_i sigma_i log sigma_i        (single nodes),

rho = 1 being the Bethe entropy, whose log Z_B <= log Z, and rho = 1/2 a reweighted one with
log Z_RW >= log Z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._arguments import as_floats
from ..._running import wait_for
from ...algorithms.gumbel import GumbelNoise
from ...algorithms.matching import assignment, newton
from ...algorithms.matching.row_problem import Solution
from ..contract import Bounds, Decoding, Marginals, Vertex
from ..entropy import SeparableEntropy
from ..graphs.bipartite import BipartiteGraph
from .presolve import Layout, presolve
from .space import MatchingSpace, check_partners, check_rho

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


WIDE = 150.0  # a wider range of scores is reduced first: the best matching's scores become 0


class BipartiteMatching(MatchingSpace):
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

    is_simple = True

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
        self.rho_rows, self.rho_cols = side_rho(rho, graph.n_rows, graph.n_cols)
        n, m = graph.n_rows, graph.n_cols
        self.free_rows = not perfect or n > m
        self.free_cols = not perfect or m > n
        self.n_scored = graph.n_edges
        self._col_single = self.n_scored + (n if self.free_rows else 0)
        self.n_coordinates = self._col_single + (m if self.free_cols else 0)
        self.capacity = np.ones(n + m, dtype=np.int64)
        self.free = np.repeat([self.free_rows, self.free_cols], [n, m])
        self.single_at = np.full(n + m, -1)
        self.single_at[self.free] = np.arange(self.n_scored, self.n_coordinates)
        layout = Layout(self.n_scored, self._col_single, self.n_coordinates)
        self._presolved = presolve(graph, self.rho_rows, self.rho_cols, self.perfect, layout)
        self._interior: Floats | None = None

    def _make_entropy(self) -> SeparableEntropy:
        return SeparableEntropy(*self._presolved.entropy_weights())

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one admissible matching."""
        return self._presolved.edges.n_edges == 0

    @cached_property
    def ends(self) -> tuple[Ints, Ints]:
        """Row and column of every pair; columns are numbered after the rows."""
        return self.graph.row, self.graph.col + self.graph.n_rows

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

    def _part(
        self, keep: NDArray[np.bool_], nodes: Ints, capacity: Ints
    ) -> tuple[BipartiteMatching | None, Ints]:
        graph, n = self.graph, self.graph.n_rows
        rows, cols = nodes[nodes < n], nodes[nodes >= n] - n
        if not keep.any():
            return None, nodes
        number = np.full(graph.n_cols, -1, dtype=np.int64)
        number[cols] = np.arange(cols.size)
        counts = np.bincount(graph.row[keep], minlength=n)[rows]
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        smaller = BipartiteGraph(rows.size, cols.size, ptr, number[graph.col[keep]])
        part = BipartiteMatching(smaller, (self.rho_rows[rows], self.rho_cols[cols]), self.perfect)
        return part, nodes[self.free[nodes]]

    # ------------------------------------------------------------------ decoding
    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A matching of the largest total score, and the dual prices of the core's columns.

        `warm` are prices of an earlier call.
        """
        core, graph = self._presolved, self._presolved.edges
        n, m = graph.n_rows, graph.n_cols
        edge_scores = scores if core.plain else scores[core.edge_source]
        row_single = None if self.perfect else scores[core.single_source]
        col_single = core.columns(scores) if core.any_free or m > n else None
        if graph.is_complete and n and m:
            table = edge_scores.reshape(n, m)
            chosen, found = assignment.assign(
                table, row_single=row_single, col_single=col_single, warm=warm
            )
            edge = core.first_edge + chosen
            if row_single is not None:
                edge[chosen < 0] = -1
        else:
            edge, found = assignment.assign_edges(
                graph.ptr, graph.col, edge_scores, m,
                row_single=row_single, col_single=col_single, warm=warm,
            )  # fmt: skip
        vertex = core.vertex(edge)
        return Decoding(vertex, vertex.dot(scores), found)

    # ------------------------------------------------------------------ labels
    def encode(self, label: Any) -> Vertex:
        """The vertex of `label`: partner column of every row, -1 for single rows."""
        pairs = check_partners(label, self.graph.n_rows, self.graph.n_cols)
        return self.vertex_of_pairs(pairs, self.graph.n_rows)

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
        """A point with every coordinate that is not fixed strictly inside (0, 1).

        Even shares on complete graphs; otherwise the maximum-entropy point at zero scores.
        """
        if self._interior is None:
            t, z = self._start()
            rows = self._presolved.rows
            if not self._presolved.edges.is_complete and rows.c.size:
                even = rows._replace(c=np.zeros_like(rows.c))
                zeros = np.zeros_like(t), np.zeros_like(z)
                found = newton.solve(even, *zeros, self._start, None, 1e-10)
                t, z = found.t, found.z
            self._interior = self._presolved.coordinates(t, z)
        return self._interior.copy()

    def _start(self) -> tuple[Floats, Floats]:
        """Positive (t, z) with exact row sums; exact column sums too on complete graphs."""
        graph, rows, free = self._presolved.edges, self._presolved.rows, self._presolved.free
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
        return self.marginals_each(scores[None], [warm], np.array([tol]))[0]

    def marginals_each(self, scores: Floats, warm: Sequence[Any], tols: Floats) -> list[Marginals]:
        """`marginals` of each row of scores, small ones in one compiled call."""
        # A bound takes .3 s for a million pairs, marginals take several of them.
        found: list[Marginals] = wait_for(
            "matching marginals",
            self._marginals_each,
            scores,
            warm,
            tols,
            seconds=1e-6 * scores.size,
        )
        return found

    def _marginals_each(self, scores: Floats, warm: Sequence[Any], tols: Floats) -> list[Marginals]:
        core, warm, taken = self._presolved, list(warm), {}
        entries = scores if core.plain else scores[:, core.source]
        columns = np.zeros((scores.shape[0], core.edges.n_cols))
        if core.any_free:
            columns[:, core.free] = scores[:, core.col_source[core.free]]
        wide = np.flatnonzero(np.ptp(scores, axis=1) > WIDE) if core.source.size else ()
        for m in wide:
            prices = self.decode(scores[m], prices=True).prices
            if prices is not None:
                if entries is scores:
                    entries = scores.copy()
                prices = np.append(prices, 0.0)
                problem = core.rows, entries[m], columns[m], prices
                entries[m], columns[m], shift = newton.reduce_scores(*problem)
                taken[m] = prices, shift
                if warm[m] is not None:
                    warm[m] = replace(warm[m], prices=warm[m].prices - prices)
        found = core.oracle.each(entries, columns, self._start, warm, tols, self.n_jobs)
        for m, (prices, shift) in taken.items():
            found[m] = newton.restore(found[m], prices, shift)
        answers = zip(scores, found, tols.tolist(), strict=True)
        return [self._answer(*answer) for answer in answers]

    def _answer(self, scores: Floats, found: Solution, tol: float) -> Marginals:
        """The oracle's solution in the coordinates of this space."""
        core = self._presolved
        constant = core.fixed_score(scores)
        tau = core.coordinates(found.t, found.z)
        if not found.upper_bound - found.value <= tol:
            # The best matching has entropy 0: its score is a lower bound of log Z_rho, and with
            # the largest entropy an upper bound.
            best = self.decode(scores)
            score = best.score - constant
            if score > found.value:
                tau, found.value = best.vertex.dense(self.n_coordinates), score
                found.t = np.maximum(core.entries(tau), 1e-200)
                found.z = np.where(core.free, np.maximum(core.columns(tau), 1e-200), 1.0)
            found.upper_bound = min(found.upper_bound, score + core.largest_entropy)
        return Marginals(
            tau,
            found.value + constant,
            found.upper_bound + constant,
            found,
            found.iterations,
        )

    def price_bound(self, scores: Floats, prices: Floats, tau: Floats) -> float:
        """A proven upper bound of log Z_rho at any column prices; tau is where to look."""
        bound = newton.price_bound(*self._semidual(scores, prices, tau))
        return bound + self._presolved.fixed_score(scores)

    def improved_prices(self, scores: Floats, prices: Floats, tau: Floats) -> Floats:
        """Column prices after a Newton step on the bound."""
        return newton.improved_prices(*self._semidual(scores, prices, tau))[:-1]

    def _semidual(self, scores: Floats, prices: Floats, tau: Floats) -> tuple[Any, ...]:
        """Arguments of the semi-dual's functions, whose rows are solved to within 1e-7."""
        core = self._presolved
        entries, columns = core.entries(scores), core.columns(scores)
        return core.rows, entries, columns, np.append(prices, 0.0), core.entries(tau), 1e-7

    # ------------------------------------------------------------------ questions
    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """The Bethe value bounds log Z from below, rho = 1/2 from above."""
        return Bounds(
            self.with_rho(1.0).marginals(scores, None, tol).value,
            self.with_rho(0.5).marginals(scores, None, tol).upper_bound,
            "Bethe value (rho = 1) of a bipartite graph",
            "reweighted value (rho = 1/2)",
        )

    def gumbel_noise(self) -> GumbelNoise:
        """Every node of the smaller side chooses a partner, or to stay single."""
        n, n_edges = self.graph.n_rows, self.n_scored
        side = slice(None, n) if n <= self.graph.n_cols else slice(n, None)
        variable = self.graph.row if n <= self.graph.n_cols else self.graph.col
        single = self.single_at[side]
        free = np.flatnonzero(single >= 0)
        return GumbelNoise(
            self.n_coordinates,
            np.concatenate([np.arange(n_edges), single[free]]),
            np.concatenate([variable, free]),
        )

    def _label_of_partners(self, partner: Ints) -> Ints:
        rows = partner[..., : self.graph.n_rows]
        return np.where(rows < 0, -1, rows - self.graph.n_rows)

    def _partners_of_label(self, label: Any) -> Ints:
        n, m = self.graph.n_rows, self.graph.n_cols
        given = np.asarray(label)
        found = np.atleast_2d(given)
        if found.ndim != 2 or found.shape[1] != n or found.dtype.kind not in "iu":
            raise ValueError(
                f"start: expected columns of {n} rows, got {given.dtype} of shape {given.shape}"
            )
        if found.min() < -1 or found.max() >= m:
            raise ValueError(
                f"start: columns are 0 to {m - 1}, or -1; found {found.min()} to {found.max()}"
            )
        partner = np.full((found.shape[0], n + m), -1, dtype=np.int64)
        which, row = np.nonzero(found >= 0)
        column = found[which, row] + n
        partner[which, row] = column
        partner[which, column] = row
        return partner


def side_rho(
    rho: ArrayLike | tuple[ArrayLike, ArrayLike], n_rows: int, n_cols: int
) -> tuple[Floats, Floats]:
    """Reweighting of rows and of columns from a scalar, one array, or a pair of either."""
    if isinstance(rho, tuple):
        if len(rho) != 2:
            raise ValueError(f"rho: a tuple must hold (of rows, of columns), got {len(rho)} parts")
        parts = [as_floats(part, "rho") for part in rho]
    else:
        if isinstance(rho, str):
            raise ValueError(f"rho: expected a number or an array from 0.5 to 1, got {rho!r}")
        values = as_floats(rho, "rho")
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
        check_rho(part)
        out.append(np.broadcast_to(part, (size,)).astype(np.float64))
    return out[0], out[1]
