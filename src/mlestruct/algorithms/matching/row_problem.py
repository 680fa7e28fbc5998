"""The row-ordered form of a bipartite matching problem, the input of the marginal kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

TINY = 1e-290  # smallest marginal kept: its logarithm and its reciprocal are finite


class RowProblem(NamedTuple):
    """A bipartite matching problem in row order (CSR).

    Entries ptr[i]:ptr[i+1] belong to row i. Entry e lies in column col[e] and carries the entropy
    -a[e] t log t + c[e] (1-t) log(1-t). The column n_cols = len(rho_cols) has no constraint and
    stands for "row i stays single". Column j may stay single iff rho_cols[j] > 0; its probability
    z_j to stay single carries the entropy -rho_cols[j] z log z. Either all rows may stay single, by
    their last entry, or none.

    row_rho and col_rho are the reweighting of the nodes, for messages.
    """

    ptr: NDArray[np.int64]  # (n_rows + 1,)
    col: NDArray[np.int64]  # (n_entries,)
    a: NDArray[np.float64]  # (n_entries,)
    c: NDArray[np.float64]  # (n_entries,)
    rho_cols: NDArray[np.float64]  # (n_cols,)
    row_rho: NDArray[np.float64]  # (n_rows,)
    col_rho: NDArray[np.float64]  # (n_cols,)


class Part(NamedTuple):
    """Rows and columns that no entry connects with others: a problem of its own."""

    rows: RowProblem
    is_complete: bool
    entries: NDArray[np.int64]  # of the whole problem
    cols: NDArray[np.int64]


def split(rows: RowProblem, smallest: int) -> list[Part]:
    """Connected components as parts; components of fewer rows than `smallest` share parts."""
    n, m = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    pairs = rows.col < m
    complete = np.count_nonzero(pairs) == n * m
    if complete or n < smallest:
        return [Part(rows, complete, np.arange(rows.col.size), np.arange(m))]
    counts = np.diff(rows.ptr)
    row = np.repeat(np.arange(n), counts)
    ends = row[pairs], rows.col[pairs] + n
    graph = sparse.csr_array((np.ones(ends[0].size, np.int8), ends), shape=(n + m, n + m))
    n_components, component = connected_components(graph, directed=False)
    size = np.bincount(component[:n], minlength=n_components)
    # Small components fill parts one after the other, in their order; large ones have their own.
    large = size >= smallest
    small = np.cumsum(np.where(large, 0, size)) // smallest
    label = np.where(large, small[-1] + 1 + np.cumsum(large), small) if n_components else small
    _, part = np.unique(label, return_inverse=True)
    n_parts = int(part.max(initial=-1)) + 1
    if n_parts == 1:
        return [Part(rows, False, np.arange(row.size), np.arange(m))]
    of_row, of_col = part[component[:n]], part[component[n:]]
    row_order, col_order = np.argsort(of_row, kind="stable"), np.argsort(of_col, kind="stable")
    entry_order = np.argsort(of_row[row], kind="stable")
    row_at = np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=n_parts))])
    col_at = np.concatenate([[0], np.cumsum(np.bincount(of_col, minlength=n_parts))])
    entry_at = np.concatenate([[0], np.cumsum(np.bincount(of_row[row], minlength=n_parts))])
    place = np.empty(m + 1, dtype=np.int64)  # of a column within its part
    place[col_order] = np.arange(m) - np.repeat(col_at[:-1], np.diff(col_at))
    parts = []
    for k in range(n_parts):
        own_rows = row_order[row_at[k] : row_at[k + 1]]
        cols = col_order[col_at[k] : col_at[k + 1]]
        entries = entry_order[entry_at[k] : entry_at[k + 1]]
        place[m] = cols.size
        sub = RowProblem(
            np.concatenate([[0], np.cumsum(counts[own_rows])]), place[rows.col[entries]],
            rows.a[entries], rows.c[entries], rows.rho_cols[cols],
            rows.row_rho[own_rows], rows.col_rho[cols],
        )  # fmt: skip
        complete = int((sub.col < cols.size).sum()) == own_rows.size * cols.size
        parts.append(Part(sub, complete, entries, cols))
    return parts
