"""Allowed pairs of a bipartite matching: feasibility, and fixed edges.

An edge in no admissible matching has marginal 0 and one in every admissible matching has
marginal 1, whatever the scores. Both are found here, so that entropy and solvers
only see edges that vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import (
    breadth_first_order,
    connected_components,
    maximum_bipartite_matching,
)

from ..._arguments import check_memory
from ...exceptions import InfeasibleError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BipartiteGraph:
    """Edges in row-major order: edges ptr[i]:ptr[i+1] of row i lead to columns col[...]."""

    n_rows: int
    n_cols: int
    ptr: Ints
    col: Ints

    @classmethod
    def complete(cls, n_rows: int, n_cols: int) -> BipartiteGraph:
        """Every pair allowed; many small samples of one shape share their graph."""
        small = n_rows * n_cols <= 2**14
        return _shared_complete(n_rows, n_cols) if small else cls._complete(n_rows, n_cols)

    @classmethod
    def _complete(cls, n_rows: int, n_cols: int) -> BipartiteGraph:
        check_memory(float(n_rows) * n_cols, f"all {n_rows} x {n_cols} pairs")
        ptr = np.arange(n_rows + 1, dtype=np.int64) * n_cols
        return cls(n_rows, n_cols, ptr, np.tile(np.arange(n_cols, dtype=np.int64), n_rows))

    @classmethod
    def from_mask(cls, mask: Bools | sparse.sparray) -> BipartiteGraph:
        """Pairs where a dense boolean or any SciPy sparse matrix is nonzero."""
        if not sparse.issparse(mask) and np.all(mask):
            return cls.complete(*np.shape(mask))
        csr = sparse.csr_array(mask)
        csr.eliminate_zeros()
        csr.sort_indices()
        n_rows, n_cols = csr.shape
        return cls(n_rows, n_cols, csr.indptr.astype(np.int64), csr.indices.astype(np.int64))

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_cols

    @property
    def n_edges(self) -> int:
        return int(self.col.shape[0])

    @cached_property
    def is_complete(self) -> bool:
        return self.n_edges == self.n_rows * self.n_cols

    @property
    def row(self) -> Ints:
        """Row of every edge."""
        return np.repeat(np.arange(self.n_rows, dtype=np.int64), np.diff(self.ptr))

    def with_edges(self, keep: Bools) -> BipartiteGraph:
        """The same rows and columns with only the edges where `keep` is True."""
        counts = np.bincount(self.row[keep], minlength=self.n_rows)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return BipartiteGraph(self.n_rows, self.n_cols, ptr, self.col[keep])

    def transposed(self) -> tuple[BipartiteGraph, Ints]:
        """The graph with sides exchanged, and the order of its edges in this graph."""
        order = np.lexsort((self.row, self.col)).astype(np.int64)
        counts = np.bincount(self.col, minlength=self.n_cols)
        ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return BipartiteGraph(self.n_cols, self.n_rows, ptr, self.row[order]), order

    def dense(self, values: NDArray[np.float64], fill: float = 0.0) -> NDArray[np.float64]:
        """The (n_rows, n_cols) matrix of values of the edges, `fill` elsewhere."""
        if self.is_complete:
            return values.reshape(self.n_rows, self.n_cols).copy()
        out = np.full((self.n_rows, self.n_cols), fill)
        out[self.row, self.col] = values
        return out

    @property
    def table_form(self) -> str:
        """The form of a table of pairs, for messages."""
        return f"table ({self.n_rows}, {self.n_cols})"

    def values_of(self, table: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        """Values of the edges from a table of pairs; inverse of `dense`."""
        shape = (self.n_rows, self.n_cols)
        if table.shape != shape:
            raise ValueError(f"{name}: expected a table of shape {shape}, got {table.shape}")
        values: NDArray[np.float64] = table[self.row, self.col]
        return values

    def matrix(self) -> sparse.csr_array:
        data = np.ones(self.n_edges, dtype=np.int8)
        return sparse.csr_array((data, self.col, self.ptr), shape=(self.n_rows, self.n_cols))

    def edge_between(self, rows: Ints, cols: Ints) -> Ints:
        """Index of the edge of each (row, col), -1 if the pair is not allowed."""
        if self.is_complete:
            return rows * self.n_cols + cols
        keys = self.row * self.n_cols + self.col
        wanted = rows * self.n_cols + cols
        found = np.minimum(np.searchsorted(keys, wanted), max(self.n_edges - 1, 0))
        if self.n_edges == 0:
            return np.full(rows.shape, -1, dtype=np.int64)
        return np.where(keys[found] == wanted, found, -1)


_shared_complete = lru_cache(maxsize=64)(BipartiteGraph._complete)


def covering_matching(graph: BipartiteGraph) -> Ints:
    """A matching that covers every row (n_rows <= n_cols): column of each row.

    Raises `InfeasibleError` with a violating set of rows (Hall's theorem) if there is none: the
    rows that alternating paths reach from one that is left over.
    """
    if graph.is_complete:
        return np.arange(graph.n_rows, dtype=np.int64)
    matched = maximum_bipartite_matching(graph.matrix(), perm_type="column").astype(np.int64)
    left_over = np.flatnonzero(matched < 0)
    if left_over.size == 0:
        return matched
    n, covered = graph.n_rows, np.flatnonzero(matched >= 0)
    arcs = _digraph(
        np.concatenate([graph.row, n + matched[covered]]),
        np.concatenate([n + graph.col, covered]),
        n + graph.n_cols,
    )
    reached = np.sort(breadth_first_order(arcs, left_over[0], return_predecessors=False))
    rows, cols = reached[reached < n].tolist(), (reached[reached >= n] - n).tolist()
    raise InfeasibleError(
        f"no matching covers all {n} rows: the {len(rows)} rows {_short(rows)} have "
        f"only {len(cols)} allowed partners {_short(cols)} between them",
        rows,
    )


def _short(items: list[int]) -> str:
    return str(items) if len(items) <= 12 else str(items[:12])[:-1] + ", ...]"


def _digraph(tail: Ints, head: Ints, size: int) -> sparse.csr_array:
    ones = np.ones(tail.shape[0], dtype=np.int8)
    return sparse.csr_array((ones, (tail, head)), shape=(size, size))


def varying(
    row: Ints, col: Ints, x: Floats, grows: Bools, shrinks: Bools, n_rows: int
) -> tuple[Bools, Bools]:
    """Edges, and unused capacities of rows and columns, not the same in all fractional matchings.

    From one of them, `x`, others are reached by moving along cycles of a residual digraph: an edge
    that is not full can be filled, one that is not empty emptied, and unused capacity that `grows`
    or `shrinks` leads through one further node. So an edge varies exactly if its two ends lie in
    one strongly connected component.
    """
    ground, nodes = grows.shape[0], np.arange(grows.shape[0])
    out = np.where(nodes < n_rows, grows, shrinks)
    back = np.where(nodes < n_rows, shrinks, grows)
    right, full, empty = n_rows + col, x >= 1, x <= 0
    tail = [row[~full], right[~empty], nodes[out], np.full(back.sum(), ground)]
    head = [right[~full], row[~empty], np.full(out.sum(), ground), nodes[back]]
    arcs = _digraph(np.concatenate(tail), np.concatenate(head), ground + 1)
    _, component = connected_components(arcs, directed=True, connection="strong")
    edges = component[row] == component[right]
    touched = np.zeros(ground, dtype=bool)
    touched[row[edges]] = touched[right[edges]] = True
    return edges, touched & (grows | shrinks) & (component[:-1] == component[ground])


def varying_edges(graph: BipartiteGraph) -> tuple[Bools, Bools, Bools, Bools]:
    """Compare all matchings that cover every row.

    Returns
    -------
    edges that some matchings have and others do not have
    columns that some matchings leave single and others do not
    edges of one matching
    columns that this matching leaves single
    """
    surplus = graph.n_cols > graph.n_rows
    matched = covering_matching(graph)
    x = matched[graph.row] == graph.col
    single = np.ones(graph.n_cols, dtype=bool)
    single[matched] = False
    if graph.is_complete and (graph.n_rows >= 2 or surplus):
        return np.ones_like(x), np.full_like(single, surplus), x, single
    rows = np.zeros(graph.n_rows, dtype=bool)
    grows = np.concatenate([rows, ~single & surplus])
    shrinks = np.concatenate([rows, single])
    edges, singles = varying(graph.row, graph.col, x, grows, shrinks, graph.n_rows)
    return edges, singles[graph.n_rows :], x, single
