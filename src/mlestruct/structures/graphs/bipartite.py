"""Allowed pairs of a bipartite matching: feasibility, and fixed edges.

An edge in no admissible matching has marginal 0 and one in every admissible matching has
marginal 1, whatever the scores. Both are found here, so that entropy and solvers
only see edges that vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

from ..._lazy import cached_property
from ..._memory import check_memory
from ...exceptions import InfeasibleError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
        """Index of the edge of each (row, col), -1 where the pair is not allowed."""
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

    Raises `InfeasibleError` with a violating set of rows (Hall's theorem) if there is none.
    """
    if graph.is_complete:
        return np.arange(graph.n_rows, dtype=np.int64)
    matched = maximum_bipartite_matching(graph.matrix(), perm_type="column").astype(np.int64)
    if (matched >= 0).all():
        return matched
    rows, cols = violating_rows(graph, matched)
    raise InfeasibleError(
        f"no matching covers all {graph.n_rows} rows: the {len(rows)} rows {_short(rows)} have "
        f"only {len(cols)} allowed partners {_short(cols)} between them",
        rows,
    )


def violating_rows(graph: BipartiteGraph, matched: Ints) -> tuple[list[int], list[int]]:
    """Rows with too few partners, and those partners: all that alternating paths reach."""
    owner = np.full(graph.n_cols, -1, dtype=np.int64)
    owner[matched[matched >= 0]] = np.flatnonzero(matched >= 0)
    rows = {int(np.argmax(matched < 0))}
    stack = list(rows)
    cols: set[int] = set()
    while stack:
        i = stack.pop()
        for j in graph.col[graph.ptr[i] : graph.ptr[i + 1]].tolist():
            if j not in cols:
                cols.add(j)
                k = int(owner[j])
                if k not in rows:
                    rows.add(k)
                    stack.append(k)
    return sorted(rows), sorted(cols)


def _short(items: list[int]) -> str:
    return str(items) if len(items) <= 12 else str(items[:12])[:-1] + ", ...]"


@dataclass(frozen=True)
class FixedEdges:
    """Edges (and columns) whose marginal is the same in every admissible matching."""

    edge_never: Bools
    edge_always: Bools
    col_never_single: Bools
    col_always_single: Bools

    @property
    def any(self) -> bool:
        return bool(self.edge_never.any() or self.edge_always.any() or self.col_always_single.any())


def fixed_edges(graph: BipartiteGraph) -> FixedEdges:
    """Fixed edges when every row must be covered and surplus columns stay single.

    Moving a row from its column to another frees the first and needs the second, so edges can
    change exactly within the strongly connected components of the residual digraph over columns
    ("the row matched to a could go to b"), with one further node for "a column is single".
    """
    n, m = graph.n_rows, graph.n_cols
    surplus = m > n
    if graph.is_complete and (n >= 2 or surplus):
        edges = np.zeros(graph.n_edges, dtype=bool)
        return FixedEdges(edges, edges, np.full(m, not surplus), np.zeros(m, dtype=bool))
    matched = covering_matching(graph)
    tail, head = matched[graph.row], graph.col
    if surplus:
        single = np.setdiff1d(np.arange(m), matched)
        tail = np.concatenate([tail, single, np.full(m, m)])
        head = np.concatenate([head, np.full(single.shape, m), np.arange(m)])
    size = m + int(surplus)
    arcs = sparse.csr_array((np.ones(len(tail)), (tail, head)), shape=(size, size))
    _, component = connected_components(arcs, directed=True, connection="strong")
    in_matching = matched[graph.row] == graph.col
    together = component[matched[graph.row]] == component[graph.col]
    never = ~together & ~in_matching
    moves = np.zeros(n, dtype=bool)
    np.logical_or.at(moves, graph.row, together & ~in_matching)
    if surplus:
        # A row can also leave its column for nothing else than another column, so it moves
        # exactly when one of its other edges is usable.
        can_be_single = component[:m] == component[m]
    else:
        can_be_single = np.zeros(m, dtype=bool)
    always = in_matching & ~moves[graph.row]
    usable = np.zeros(m, dtype=bool)
    usable[graph.col[~never]] = True
    return FixedEdges(never, always, ~can_be_single, ~usable)
