"""Newton's linear system in the column prices of a large problem.

Conjugate gradients need many steps where marginals are correlated over long distances, as on rings
and bands. There the matrix is factored: a dense one of complete graphs, a sparse one where its
factor fills in little.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from ..elimination import minimum_degree_columns
from ._schur_kernels import (
    cholesky,
    cholesky_solve,
    conjugate_gradients,
    is_complete,
    schur,
)
from .row_problem import RowProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SPARSE_LIMIT = 1e9  # multiplications of a sparse factor, which take about a second


class PriceSystem:
    """Solves for the changes of the prices; `is_slow` once conjugate gradients took too long."""

    def __init__(self, rows: RowProblem):
        self.rows = rows
        self.is_slow = False
        self._work = np.empty((2, rows.col.shape[0]))

    def solve(
        self,
        h: Floats,
        spread: Floats,
        den: Floats,
        largest: Ints,
        z: Floats,
        rhs: Floats,
        rtol: float,
        change: Floats,
    ) -> None:
        """Write the solution of `schur` to `change`, of shape (n_cols + 1,) as `rhs`."""
        if self.is_slow and self._factor(h, spread, den, largest, z, rhs, change):
            return
        zero, image = self._work
        done = conjugate_gradients(
            self.rows, h, spread, den, largest, z, rhs, rtol, 300, zero, image, change
        )
        if not done and not self.is_slow:
            self.is_slow = True
            self._factor(h, spread, den, largest, z, rhs, change)

    def _factor(
        self,
        h: Floats,
        spread: Floats,
        den: Floats,
        largest: Ints,
        z: Floats,
        rhs: Floats,
        change: Floats,
    ) -> bool:
        """Solve by a factorisation; False where that takes too long."""
        n_cols = self.rows.rho_cols.shape[0]
        if self._is_complete:
            matrix, scale = np.empty((n_cols, n_cols)), np.empty(n_cols)
            schur(self.rows, h, spread, den, largest, z, matrix)
            cholesky(matrix, scale)
            cholesky_solve(matrix, scale, rhs, change)
            return True
        if self._order is None:
            return False
        matrix = self._sparse(h, spread, den, largest, z)
        diagonal = matrix.diagonal()
        known = diagonal > 1e-280
        scale = np.where(known, 1.0 / np.sqrt(np.where(known, diagonal, 1.0)), 0.0)
        jacobi = sparse.diags_array(scale)
        # Prices are determined only up to a constant: the shift makes the matrix regular.
        shift = sparse.diags_array(np.where(known, 1e-13, 1.0))
        order = self._order
        scaled = sparse.csc_array(jacobi @ matrix @ jacobi + shift)[order][:, order]
        factor = splu(
            sparse.csc_array(scaled),
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        change[order] = scale[order] * factor.solve((scale * rhs[:n_cols])[order])
        return True

    def _sparse(
        self, h: Floats, spread: Floats, den: Floats, largest: Ints, z: Floats
    ) -> sparse.csr_array:
        """The matrix of `schur`, both triangles."""
        rows = self.rows
        n, n_cols = spread.shape[0], rows.rho_cols.shape[0]
        shape = n_cols + 1, n_cols + 1  # the last is that of rows that stay single
        row = np.repeat(np.arange(n), np.diff(rows.ptr))
        taken = rows.col[largest]
        share = np.zeros(n)  # `rank_one`
        np.divide(den - 1.0, spread * den, out=share, where=spread > 0.0)
        by_row = sparse.csr_array((h, rows.col, rows.ptr), shape=(n, n_cols + 1))
        shared = by_row.T @ (sparse.diags_array(share) @ by_row)
        cross = sparse.csr_array((h / den[row], (rows.col, taken[row])), shape=shape)
        diagonal: Floats = np.bincount(rows.col, h, n_cols + 1).astype(np.float64)
        diagonal += np.bincount(taken, spread / den, n_cols + 1)
        free = np.flatnonzero(rows.rho_cols > 0)
        diagonal[free] += z[free] / rows.rho_cols[free]
        matrix = sparse.csr_array(sparse.diags_array(diagonal) - shared - cross - cross.T)
        return matrix[:n_cols, :n_cols]

    @cached_property
    def _is_complete(self) -> bool:
        # A dense factor of 2,500 columns has 50 MB and takes about a second.
        return bool(self.rows.rho_cols.shape[0] <= 2500 and is_complete(self.rows))

    @cached_property
    def _order(self) -> Ints | None:
        """The order of the columns in a sparse factor; None where it would take too long."""
        rows = self.rows
        counts, n_cols = np.diff(rows.ptr), rows.rho_cols.shape[0]
        if float(counts @ counts) > 0.01 * SPARSE_LIMIT:
            return None
        ones = np.ones(rows.col.shape[0], np.int32)
        by_row = sparse.csr_array((ones, rows.col, rows.ptr), shape=(counts.shape[0], n_cols + 1))
        pairs = sparse.coo_array(sparse.triu((by_row.T @ by_row)[:n_cols, :n_cols], 1))
        tail, head = (np.asarray(ends, dtype=np.int64) for ends in pairs.coords)
        found = minimum_degree_columns(n_cols, tail, head, SPARSE_LIMIT)
        return None if found is None else found[0]
