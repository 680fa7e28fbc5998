"""A matching problem presolved: fixed edges dropped, the covered side in rows.

`BipartiteMatching` has coordinates for allowed pairs row by row, then single rows, then single
columns. Kernels and decoders work on the presolved problem, in which every entry varies and, where
only one side must be covered, that side is the rows. A `PresolvedMatching` holds that problem and
the way back to coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...algorithms.matching.belief_propagation import Oracle
from ...algorithms.matching.row_problem import RowProblem
from ...exceptions import InfeasibleError
from ..contract import Vertex
from ..graphs.bipartite import BipartiteGraph, varying_edges

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Where the coordinates of single rows and single columns begin, and how many there are."""

    row_single: int
    col_single: int
    n_coordinates: int

    def flipped(self) -> Layout:
        return Layout(self.col_single, self.row_single, self.n_coordinates)


@dataclass(frozen=True)
class PresolvedMatching:
    """Rows for the kernels, and the coordinates they stand for.

    rows : the problem, row by row; a row that may stay single has one more entry for that
    edges : the graph among the remaining rows and columns
    source : coordinate of every entry of `rows`
    col_source : coordinate of every column's probability to stay single
    fixed : (n_coordinates,), 1 where every admissible matching has a 1, else 0
    """

    rows: RowProblem
    edges: BipartiteGraph
    source: Ints
    col_source: Ints
    fixed: Floats

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """Columns that may stay single."""
        found: NDArray[np.bool_] = self.rows.rho_cols > 0
        return found

    @cached_property
    def any_free(self) -> bool:
        return bool(self.free.any())

    @cached_property
    def plain(self) -> bool:
        """Whether entries are the coordinates, in the same order."""
        size = self.fixed.shape[0]
        same = self.source.shape[0] == size and np.array_equal(self.source, np.arange(size))
        return bool(same and not self.any_free and not self._is_single.any())

    @cached_property
    def oracle(self) -> Oracle:
        """The marginal oracle of `rows`."""
        return Oracle(self.rows)

    @cached_property
    def largest_entropy(self) -> float:
        """An upper bound of the entropy: rows with even shares, single columns at their peak."""
        of_rows = np.log(np.diff(self.rows.ptr)).sum()
        return float(of_rows + self.rows.rho_cols.sum() * np.exp(-1.0))

    @cached_property
    def _is_single(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.rows.col == self.rows.rho_cols.shape[0]
        return found

    @cached_property
    def edge_source(self) -> Ints:
        """Coordinates of the edges."""
        return self.source[~self._is_single]

    @cached_property
    def single_source(self) -> Ints:
        """Coordinates of rows staying single; empty if they may not."""
        return self.source[self._is_single]

    @cached_property
    def _ones(self) -> Floats:
        """Values of a plain vertex; a copy takes half the time of new ones."""
        return np.ones(self.edges.n_rows)

    @cached_property
    def fixed_ones(self) -> Ints:
        return np.flatnonzero(self.fixed)

    def fixed_score(self, scores: Floats) -> float:
        """Score of the pairs and single nodes of every admissible matching."""
        return float(scores[self.fixed_ones].sum()) if self.fixed_ones.size else 0.0

    @cached_property
    def first_edge(self) -> Ints:
        """Index of each row's first edge, on complete graphs."""
        return np.arange(self.edges.n_rows) * self.edges.n_cols

    def entropy_weights(self) -> tuple[Floats, Floats]:
        """a and c of every coordinate, 0 where it is fixed."""
        a = np.zeros(self.fixed.shape[0])
        c = np.zeros(self.fixed.shape[0])
        a[self.source], c[self.source] = self.rows.a, self.rows.c
        a[self.col_source[self.free]] = self.rows.rho_cols[self.free]
        return a, c

    def entries(self, values: Floats) -> Floats:
        """Values of the rows' entries, from values of the coordinates."""
        return values if self.plain else values[self.source]

    def columns(self, values: Floats) -> Floats:
        """Values of the columns staying single, 0 for those that may not."""
        out = np.zeros(self.edges.n_cols)
        if self.any_free:
            out[self.free] = values[self.col_source[self.free]]
        return out

    def coordinates(self, t: Floats, z: Floats) -> Floats:
        """Marginals of all coordinates, from those of entries and of single columns."""
        if self.plain:
            return t.copy()
        tau = self.fixed.copy()
        tau[self.source] = t
        tau[self.col_source[self.free]] = z[self.free]
        return tau

    def vertex(self, edge: Ints) -> Vertex:
        """The vertex of each row's chosen edge (-1: single), with all fixed coordinates."""
        if self.plain:
            return Vertex(edge, self._ones.copy())
        matched = edge >= 0
        single = self.free.copy()
        single[self.edges.col[edge[matched]]] = False
        indices = np.concatenate(
            [
                self.edge_source[edge[matched]],
                self.single_source[~matched] if self.single_source.size else self.single_source,
                self.col_source[single],
                self.fixed_ones,
            ]
        )
        return Vertex(indices, np.ones(indices.shape[0]))


def presolve(
    graph: BipartiteGraph, rho_rows: Floats, rho_cols: Floats, perfect: bool, layout: Layout
) -> PresolvedMatching:
    """Matchings in `graph`, presolved; `perfect` as in `BipartiteMatching`."""
    if not perfect:
        return _with_singles(graph, rho_rows, rho_cols, layout)
    if graph.n_rows <= graph.n_cols:
        order = np.arange(graph.n_edges)
        return _covering(graph, rho_rows, rho_cols, order, layout)
    flipped, order = graph.transposed()
    try:
        return _covering(flipped, rho_cols, rho_rows, order, layout.flipped())
    except InfeasibleError as error:
        message = str(error).replace("rows", "columns")
        raise InfeasibleError(message, error.rows, "columns") from None


def _covering(
    graph: BipartiteGraph, rho_rows: Floats, rho_cols: Floats, order: Ints, layout: Layout
) -> PresolvedMatching:
    """Every row is matched, surplus columns stay single; `order` gives the edges' coordinates."""
    varies, single_varies, chosen, single = varying_edges(graph)
    fixed = np.zeros(layout.n_coordinates)
    fixed[order[chosen & ~varies]] = 1.0
    fixed[layout.col_single + np.flatnonzero(single & ~single_varies)] = 1.0
    c = rho_rows[graph.row] + rho_cols[graph.col] - 1.0
    rho = np.where(single_varies, rho_cols, 0.0)
    kept_rows, kept = np.arange(graph.n_rows), np.arange(graph.n_cols)
    if not varies.all() or fixed.any():
        kept_rows, new_row = np.unique(graph.row[varies], return_inverse=True)
        kept, new_col = np.unique(graph.col[varies], return_inverse=True)
        counts = np.bincount(new_row, minlength=kept_rows.shape[0])
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        graph = BipartiteGraph(kept_rows.shape[0], kept.shape[0], ptr, new_col.astype(np.int64))
        c, order = c[varies], order[varies]
    rows = RowProblem(
        graph.ptr, graph.col, np.ones(graph.n_edges), np.ascontiguousarray(c), rho[kept],
        rho_rows[kept_rows], rho_cols[kept],
    )  # fmt: skip
    return PresolvedMatching(rows, graph, order, layout.col_single + kept, fixed)


def _with_singles(
    graph: BipartiteGraph, rho_rows: Floats, rho_cols: Floats, layout: Layout
) -> PresolvedMatching:
    """Every node may stay single; every row gets one more entry for it."""
    n, m = graph.n_rows, graph.n_cols
    at = graph.ptr[1:]
    c = rho_rows[graph.row] + rho_cols[graph.col] - 1.0
    rows = RowProblem(
        graph.ptr + np.arange(n + 1),
        np.insert(graph.col, at, m),
        np.insert(np.ones(graph.n_edges), at, rho_rows),
        np.insert(c, at, 0.0),
        rho_cols,
        rho_rows,
        rho_cols,
    )
    source = np.insert(np.arange(graph.n_edges), at, layout.row_single + np.arange(n))
    col_source = layout.col_single + np.arange(m)
    return PresolvedMatching(rows, graph, source, col_source, np.zeros(layout.n_coordinates))
