"""Tables with a value for every pair: scores, or probabilities.

A table is an (n, n) array of one group, whose diagonal stands for no pair, an (n_rows, n_cols)
array where rows are paired with columns, or a SciPy sparse matrix of either kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .samples import as_array, each_sample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 1 << 21  # entries processed together, so that temporary copies stay small

REMEDY = "pass bipartite=True if rows and columns are different nodes"


class PairTable:
    """One table.

    Parameters
    ----------
    table : array or SciPy sparse matrix
    bipartite : bool, optional
        Whether rows are paired with columns; by default so unless the table is square.
    name : str, of the argument in error messages
    absent : float, the value of pairs that a sparse matrix does not store

    Attributes
    ----------
    matrix : ndarray, or CSR matrix with sorted indices
    is_sparse, is_group : bool
    shape : (n_rows, n_cols)
    sides : (n_rows, n_cols), or (n_nodes, None) for a group, as `mlestruct.labels` takes them
    """

    def __init__(self, table: Any, bipartite: bool | None, name: str, absent: float) -> None:
        self.name = name
        self.absent = absent
        self.is_sparse = bool(sp.issparse(table))
        if self.is_sparse:
            self.matrix: Any = sp.csr_array(table, copy=True)
            self.matrix.sum_duplicates()
        else:
            self.matrix = as_array(table, name)
        if self.matrix.ndim != 2 or self.matrix.dtype.kind not in "fiub":
            raise ValueError(
                f"{name}: expected a matrix of numbers, got {self.matrix.dtype} of shape "
                f"{self.matrix.shape}"
            )
        n, m = self.shape = self.matrix.shape
        if bipartite is not None and not bipartite and n != m:
            raise ValueError(
                f"{name}: expected a square matrix of one group, got {n} x {m}; {REMEDY}"
            )
        self.is_group = n == m and not bipartite
        self.sides = (n, None if self.is_group else m)

    def check_symmetric(self) -> None:
        """Raise if this is a table of a group in which the two entries of a pair differ."""
        if not self.is_group:
            return
        gap, i, j = self._asymmetry_stored() if self.is_sparse else self._asymmetry()
        if gap == 0.0:
            return
        largest = max(_largest(block) for _, block, _ in self.blocks())
        if gap > 1e-6 * largest:  # beyond the rounding of single precision
            raise ValueError(
                f"{self.name}: expected a symmetric matrix of one group, but entries ({i}, {j}) "
                f"and ({j}, {i}) differ by {gap:.3g}"
                + (" (one of them is not stored)" if self.is_sparse and gap == np.inf else "")
                + f". Symmetrise it, for instance 0.5 * (table + table.T), or {REMEDY}"
            )

    def _asymmetry(self) -> tuple[float, int, int]:
        """The largest difference between the two entries of a pair, and its place."""
        worst, where = 0.0, (0, 0)
        step = max(BLOCK // max(self.shape[1], 1), 1)
        for first in range(0, self.shape[0], step):
            block = self.matrix[first : first + step]
            mirrored = self.matrix[:, first : first + step].T
            differs = block != mirrored
            np.fill_diagonal(differs[:, first:], False)
            i, j = np.nonzero(differs)
            if i.size:
                gap = np.abs(np.subtract(block[i, j], mirrored[i, j], dtype=np.float64))
                k = int(gap.argmax())
                if gap[k] > worst:
                    worst, where = float(gap[k]), (first + int(i[k]), int(j[k]))
        return worst, *where

    def _asymmetry_stored(self) -> tuple[float, int, int]:
        """The same for sparse matrices."""
        matrix, rows = self.matrix, self._rows()
        other = sp.csr_array(matrix.T)
        other.sort_indices()
        same = np.array_equal(matrix.indptr, other.indptr)
        same = same and np.array_equal(matrix.indices, other.indices)
        mirrored = other.data if same else self.at(matrix.indices, rows)
        differs = np.flatnonzero((matrix.data != mirrored) & (rows != matrix.indices))
        if not differs.size:
            return 0.0, 0, 0
        gap = np.abs(matrix.data[differs] - mirrored[differs])
        k = int(differs[gap.argmax()])
        return float(gap.max()), int(rows[k]), int(matrix.indices[k])

    def blocks(self) -> Iterator[tuple[int, Floats, Ints]]:
        """Rows in blocks (first row, values, their columns).

        Rows of sparse matrices are padded with columns -1 and the value `absent`, which is also
        that of the diagonal of a group.
        """
        n, m = self.shape
        if not self.is_sparse:
            step = max(BLOCK // max(m, 1), 1)
            for first in range(0, n, step):
                block = self.matrix[first : first + step].astype(np.float64)
                size = block.shape[0]
                if self.is_group:
                    block[np.arange(size), first + np.arange(size)] = self.absent
                yield first, block, np.broadcast_to(np.arange(m), block.shape)
            return
        matrix, first = self.matrix, 0
        length = np.diff(matrix.indptr)
        while first < n:
            # As many rows as fit when padded to the longest of them.
            width = np.maximum.accumulate(length[first:])
            size = max(int((width * np.arange(1, width.size + 1) <= BLOCK).sum()), 1)
            rows = np.arange(first, first + size)
            here = np.arange(width[size - 1])
            inside = here < length[rows, None]
            at = np.where(inside, matrix.indptr[rows, None] + here, 0)
            columns = np.where(inside, matrix.indices[at], -1) if matrix.nnz else at
            block = np.where(inside, matrix.data[at], self.absent) if matrix.nnz else at * 1.0
            if self.is_group:
                block[columns == rows[:, None]] = self.absent
            yield first, block.astype(np.float64), columns.astype(np.int64)
            first += size

    def values(self) -> Floats:
        """Values of all pairs (of those stored in a sparse matrix), unordered pairs once."""
        matrix = self.matrix
        if self.is_sparse:
            found = sp.triu(matrix, 1).data if self.is_group else matrix.data
        elif self.is_group:
            found = matrix[np.triu(np.ones(self.shape, np.bool_), 1)]
        else:
            found = matrix
        return np.asarray(found, np.float64).ravel()

    def positive(self) -> tuple[Ints, Floats]:
        """Keys row * n_cols + column, rising, and values of the pairs with positive values."""
        m = self.shape[1]
        if self.is_sparse:
            rows = self._rows()
            chosen = self.matrix.data > 0
            if self.is_group:
                chosen &= rows < self.matrix.indices
            return (rows * m + self.matrix.indices)[chosen], self.matrix.data[chosen]
        chosen = np.triu(self.matrix > 0, 1) if self.is_group else self.matrix > 0
        return np.flatnonzero(chosen), self.matrix[chosen]

    def at(self, rows: Ints, cols: Ints) -> Floats:
        """Values of single pairs; `absent` for those not stored, and where the column is -1."""
        found = np.full(rows.shape, self.absent)
        real = cols >= 0
        rows, cols = rows[real], cols[real]
        if not self.is_sparse:
            found[real] = self.matrix[rows, cols]
        elif rows.size and self.matrix.nnz:
            m = self.shape[1]
            stored = self._rows() * m + self.matrix.indices
            at = np.minimum(np.searchsorted(stored, rows * m + cols), stored.size - 1)
            hit = stored[at] == rows * m + cols
            found[real] = np.where(hit, self.matrix.data[at], self.absent)
        return found

    def _rows(self) -> Ints:
        """The row of each stored entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.matrix.indptr))


def read_tables(
    tables: Any, labels: Any, names: tuple[str, str], bipartite: bool | None, absent: float
) -> list[tuple[PairTable, str, Any]]:
    """Table, name and label of each sample; one group by default if all tables are square."""
    samples = list(each_sample(tables, labels, names))
    if bipartite is None:
        shapes = [np.shape(table) for _, table, _, _ in samples]
        bipartite = any(len(shape) == 2 and shape[0] != shape[1] for shape in shapes)
    return [
        (PairTable(table, bipartite, name, absent), label_name, label)
        for name, table, label_name, label in samples
    ]


def _largest(values: NDArray[Any]) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
