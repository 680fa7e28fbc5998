"""Matchings in bipartite graphs: permutations, assignments, and matchings with single nodes.

Coordinates of tau: one per allowed pair (row-major), then, where they can stay single, one per
row and one per column. The entropy is

    H = sum_ij (rho_i + rho_j - 1)(1 - tau_ij) log(1 - tau_ij) - tau_ij log tau_ij
        - sum_i rho_i sigma_i log sigma_i        (single nodes),

rho = 1 being the Bethe entropy, whose log Z_B <= log Z, and rho = 1/2 a reweighted one with
log Z_RW >= log Z.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..decoders import assignment
from ..exceptions import InfeasibleError
from ..inference import matching_oracle
from ..inference._rows import Rows
from .base import Decoding, Marginals, Vertex
from .bipartite_graph import BipartiteGraph, Clamped, clamped_edges
from .entropy import SeparableEntropy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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

    def __init__(
        self,
        graph: BipartiteGraph | tuple[int, int],
        rho: ArrayLike | tuple[ArrayLike, ArrayLike] = 1.0,
        perfect: bool = True,
    ):
        if not isinstance(graph, BipartiteGraph):
            graph = BipartiteGraph.complete(*graph)
        self.graph = graph
        self.perfect = bool(perfect)
        self.rho_rows, self.rho_cols = node_rho(rho, graph.n_rows, graph.n_cols)
        n, m = graph.n_rows, graph.n_cols
        self.free_rows = not perfect or n > m
        self.free_cols = not perfect or m > n
        self.n_scored = graph.n_edges
        self._row_single = self.n_scored
        self._col_single = self.n_scored + (n if self.free_rows else 0)
        self.n_coordinates = self._col_single + (m if self.free_cols else 0)
        self._build_core()
        self._interior: Floats | None = None

    # ------------------------------------------------------------------ construction
    def _build_core(self) -> None:
        """Drop what is clamped, and put the side that must be covered in rows."""
        graph = self.graph
        n, m = graph.n_rows, graph.n_cols
        flipped = self.perfect and n > m
        edge_order = None
        if flipped:
            graph, edge_order = graph.transposed()
            rho_rows, rho_cols = self.rho_cols, self.rho_rows
            row_single, col_single = self._col_single, self._row_single
        else:
            rho_rows, rho_cols = self.rho_rows, self.rho_cols
            row_single, col_single = self._row_single, self._col_single
        self._flipped = flipped
        c_edge = rho_rows[graph.row] + rho_cols[graph.col] - 1.0
        settled = np.zeros(self.n_coordinates)
        source = np.arange(graph.n_edges) if edge_order is None else edge_order
        if self.perfect:
            clamped = _settled_edges(graph, flipped)
            if clamped.any:
                self._build_reduced(graph, clamped, rho_cols, c_edge, source, col_single, settled)
            else:
                tight = clamped.col_never_single
                self._set_core(
                    Rows(graph.ptr, graph.col, np.ones(graph.n_edges), c_edge,
                         np.where(tight, 0.0, rho_cols)),
                    source, col_single + np.arange(graph.n_cols), graph,
                )  # fmt: skip
        else:
            self._build_with_singles(graph, rho_rows, rho_cols, c_edge, row_single, col_single)
        self._settled = settled
        self._settled_ones = np.flatnonzero(settled)
        self._ones = np.ones(self._edges.n_rows)
        self._first_edge = np.arange(self._edges.n_rows) * self._edges.n_cols
        self._use_rows(self._rows)

    def _use_rows(self, rows: Rows) -> None:
        """Take the entropy's weights from `rows`."""
        self._rows = rows
        a = np.zeros(self.n_coordinates)
        c = np.zeros(self.n_coordinates)
        a[self._source], c[self._source] = rows.a, rows.c
        a[self._col_source[self._free]] = rows.rho_cols[self._free]
        self._entropy = SeparableEntropy(a, c)

    def _set_core(self, rows: Rows, source: Ints, col_source: Ints, edges: BipartiteGraph) -> None:
        self._rows = Rows(
            np.ascontiguousarray(rows.ptr),
            np.ascontiguousarray(rows.col),
            np.ascontiguousarray(rows.a),
            np.ascontiguousarray(rows.c),
            np.ascontiguousarray(rows.rho_cols),
        )
        self._source = source  # coordinate of every entry of the rows
        self._col_source = col_source  # coordinate of every column's single probability
        self._edges = edges  # the graph among the core's rows and columns
        self._free = self._rows.rho_cols > 0
        self._all_free = bool(self._free.any())
        self._plain = bool(
            not self._all_free
            and source.shape[0] == self.n_coordinates
            and np.array_equal(source, np.arange(self.n_coordinates))
        )
        has_single = rows.col == rows.rho_cols.shape[0]
        self._edge_source = source[~has_single]
        self._single_source = source[has_single]

    def _build_reduced(
        self,
        graph: BipartiteGraph,
        clamped: Clamped,
        rho_cols: Floats,
        c_edge: Floats,
        source: Ints,
        col_single: int,
        settled: Floats,
    ) -> None:
        """The core of a graph some of whose edges are in no or in every matching."""
        settled[source[clamped.edge_always]] = 1.0
        if self.free_cols or self.free_rows:
            settled[col_single + np.flatnonzero(clamped.col_always_single)] = 1.0
        keep = ~(clamped.edge_never | clamped.edge_always)
        row, col = graph.row[keep], graph.col[keep]
        rows_kept, new_row = np.unique(row, return_inverse=True)
        cols_kept, new_col = np.unique(col, return_inverse=True)
        counts = np.bincount(new_row, minlength=rows_kept.shape[0])
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        core = BipartiteGraph(rows_kept.shape[0], cols_kept.shape[0], ptr, new_col.astype(np.int64))
        rho = np.where(clamped.col_never_single, 0.0, rho_cols)[cols_kept]
        self._set_core(
            Rows(ptr, core.col, np.ones(core.n_edges), c_edge[keep], rho),
            source[keep], col_single + cols_kept, core,
        )  # fmt: skip

    def _build_with_singles(
        self,
        graph: BipartiteGraph,
        rho_rows: Floats,
        rho_cols: Floats,
        c_edge: Floats,
        row_single: int,
        col_single: int,
    ) -> None:
        """Every row gets one more entry, for staying single."""
        n, m = graph.n_rows, graph.n_cols
        at = graph.ptr[1:]
        self._set_core(
            Rows(
                graph.ptr + np.arange(n + 1),
                np.insert(graph.col, at, m),
                np.insert(np.ones(graph.n_edges), at, rho_rows),
                np.insert(c_edge, at, 0.0),
                rho_cols,
            ),
            np.insert(np.arange(graph.n_edges), at, row_single + np.arange(n)),
            col_single + np.arange(m),
            graph,
        )

    @property
    def is_settled(self) -> bool:
        """Whether there is only one admissible matching."""
        return self._edges.n_edges == 0

    # ------------------------------------------------------------------ entropy
    def entropy(self, tau: Floats) -> float:
        """H_rho(tau)."""
        return self._entropy(tau)

    def entropy_gradient(self, tau: Floats) -> Floats:
        """Gradient of H_rho; 0 at settled coordinates."""
        return self._entropy.add_gradient(tau, np.zeros_like(tau))[0]

    @property
    def separable_entropy(self) -> SeparableEntropy:
        """The entropy as a sum over coordinates, for fast line searches."""
        return self._entropy

    # ------------------------------------------------------------------ decoding
    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A matching of the largest total score.

        `prices=True` also returns the dual prices of the core's columns; `warm` are prices of an
        earlier call.
        """
        core = self._edges
        n, m = core.n_rows, core.n_cols
        edge_scores = scores if self._plain else scores[self._edge_source]
        row_single = None if self.perfect else scores[self._single_source]
        col_single = None
        if self._all_free or m > n:
            col_single = np.zeros(m)
            col_single[self._free] = scores[self._col_source[self._free]]
        found = None
        if core.is_complete and n and m:
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
            edge = self._first_edge + chosen
            if row_single is not None:
                edge[chosen < 0] = -1
        else:
            edge, found, _ = assignment.assign_edges(
                core.ptr, core.col, edge_scores, m,
                row_single=row_single, col_single=col_single, warm=warm,
            )  # fmt: skip
        vertex = self._vertex(edge)
        return Decoding(vertex, vertex.dot(scores), found)

    def _vertex(self, edge: Ints) -> Vertex:
        """The vertex of the core's chosen edges (-1: single row) and all that is settled."""
        if self._plain:
            return Vertex(edge, self._ones)
        matched = edge >= 0
        parts = [self._edge_source[edge[matched]]]
        if not self.perfect:
            parts.append(self._single_source[~matched])
        if self._all_free:
            single = self._free.copy()
            single[self._edges.col[edge[matched]]] = False
            parts.append(self._col_source[single])
        parts.append(self._settled_ones)
        indices = np.concatenate(parts)
        return Vertex(indices, np.ones(indices.shape[0]))

    # ------------------------------------------------------------------ labels
    def encode(self, label: Any) -> Vertex:
        """The vertex of `label`: partner column of every row, -1 for single rows."""
        partner = np.asarray(label, dtype=np.int64)
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

    def table(self, tau: Floats) -> Floats:
        """Edge coordinates of tau as a matrix of shape (n_rows, n_cols), 0 where not allowed."""
        if self.graph.is_complete:
            return tau[: self.n_scored].reshape(self.graph.n_rows, self.graph.n_cols).copy()
        out = np.zeros((self.graph.n_rows, self.graph.n_cols))
        out[self.graph.row, self.graph.col] = tau[: self.n_scored]
        return out

    # ------------------------------------------------------------------ marginals
    def interior(self) -> Floats:
        """A point with every coordinate that is not settled strictly inside (0, 1).

        Even shares on complete graphs; otherwise the maximum-entropy point at zero scores.
        """
        if self._interior is None:
            t, z = self._start()
            if not self._edges.is_complete and self._rows.c.size:
                even = self._rows._replace(c=np.zeros_like(self._rows.c))
                zeros = np.zeros_like(t), np.zeros_like(z)
                found = matching_oracle.solve(even, *zeros, (t, z), None, 1e-10)
                t, z = found.t, found.z
            self._interior = self._spread(t, z)
        return self._interior.copy()

    def _start(self) -> tuple[Floats, Floats]:
        """Positive (t, z) with exact row sums; exact column sums too on complete graphs."""
        core, rows = self._edges, self._rows
        n, m = core.n_rows, core.n_cols
        if core.is_complete and n and m:
            share = 1.0 / (max(n, m) + (0 if self.perfect else 1))
            t = np.full(rows.col.shape[0], share)
            if not self.perfect:
                t[rows.ptr[1:] - 1] = 1.0 - m * share
            z = np.where(self._free, 1.0 - n * share, 1.0)
            return t, np.maximum(z, 1e-3)
        counts = np.diff(rows.ptr)
        t = np.repeat(1.0 / np.maximum(counts, 1), counts)
        return t, np.where(self._free, 0.5, 1.0)

    def _spread(self, t: Floats, z: Floats) -> Floats:
        """Marginals in coordinates, from the core's (t, z)."""
        if self._plain:
            return t.copy()
        tau = self._settled.copy()
        tau[self._source] = t
        tau[self._col_source[self._free]] = z[self._free]
        return tau

    def _core_scores(self, scores: Floats) -> tuple[Floats, Floats]:
        w = scores if self._plain else scores[self._source]
        w_cols = np.zeros(self._edges.n_cols)
        if self._all_free:
            w_cols[self._free] = scores[self._col_source[self._free]]
        return w, w_cols

    def marginals(self, scores: Floats, warm: Any = None, tol: float = 1e-8) -> Marginals:
        """tau maximising <scores, tau> + H_rho(tau), with certified bounds of log Z_rho."""
        w, w_cols = self._core_scores(scores)
        constant = float(scores @ self._settled)
        found = matching_oracle.solve(self._rows, w, w_cols, self._start(), warm, tol)
        tau = self._spread(found.t, found.z)
        if not np.isfinite(found.value):
            # Nothing feasible came of it: the best matching is, and its score is a valid value.
            best = self.decode(scores)
            tau, found.value = best.vertex.dense(self.n_coordinates), best.score - constant
        return Marginals(
            tau,
            found.value + constant,
            found.upper_bound + constant,
            found,
            found.iterations,
        )

    def price_bound(self, scores: Floats, prices: Floats, tau: Floats) -> float:
        """A proven upper bound of log Z_rho at any column prices; tau is where to look."""
        w, w_cols = self._core_scores(scores)
        hint = tau if self._plain else tau[self._source]
        bound, _ = matching_oracle.polish(self._rows, w, w_cols, np.append(prices, 0.0), hint, 1e-7)
        return bound + float(scores @ self._settled)

    def softened(self, share: float = 1.0) -> Any:
        """A form with a safely concave entropy (`SoftenedMatching`), None if this one is.

        `share` is how much of what makes the entropy unsafe is taken out of it.
        """
        from .softened import SoftenedMatching

        if not self._rows.c.size or self._rows.c.max() <= matching_oracle.SAFE_C:
            return None
        return SoftenedMatching(self, share)

    @property
    def has_feature_covariance(self) -> bool:
        """Whether `feature_covariance` is cheap enough to be worth it."""
        return self._edges.n_cols <= matching_oracle.DIRECT_LIMIT

    def feature_covariance(self, found: Marginals, features: Floats) -> Floats:
        """Hessian of log Z_rho in theta; `features` of shape (n_scored, K)."""
        return matching_oracle.covariance_of_features(
            self._rows, found.warm, features, self._source
        )


def _settled_edges(graph: BipartiteGraph, flipped: bool) -> Clamped:
    """`clamped_edges`, with the sides named as the user sees them."""
    try:
        return clamped_edges(graph)
    except InfeasibleError as error:
        if not flipped:
            raise
        raise InfeasibleError(
            str(error).replace("rows", "columns"), error.rows, "columns"
        ) from None


def node_rho(
    rho: ArrayLike | tuple[ArrayLike, ArrayLike], n_rows: int, n_cols: int
) -> tuple[Floats, Floats]:
    """Reweighting of rows and of columns from a scalar, one array, or a pair of either."""
    if isinstance(rho, tuple):
        if len(rho) != 2:
            raise ValueError(f"rho: a tuple must hold (of rows, of columns), got {len(rho)} parts")
        parts = [np.asarray(part, dtype=np.float64) for part in rho]
    else:
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
