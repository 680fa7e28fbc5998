"""Statistics of the columns of features: what standardising needs and what tells bad scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """Of every column: how many rows, the smallest and largest entry, sum and sum of squares."""

    count: Floats
    low: Floats
    high: Floats
    total: Floats
    squares: Floats

    @classmethod
    def empty(cls, n_features: int) -> Columns:
        """Those of no rows."""
        zeros = np.zeros(n_features)
        return cls(zeros, np.full(n_features, np.inf), np.full(n_features, -np.inf), zeros, zeros)

    @classmethod
    def of(cls, matrix: NDArray, chunk: int = 4096) -> Columns:
        """Those of an array (n, n_features), some rows at a time in double precision."""
        found = None
        for start in range(0, matrix.shape[0], chunk):
            # Along contiguous columns NumPy is several times faster than across short rows.
            columns = np.array(matrix[start : start + chunk].T, dtype=np.float64, order="C")
            count = np.full(columns.shape[0], float(columns.shape[1]))
            ends = columns.min(axis=1), columns.max(axis=1)
            squares = np.einsum("ij,ij->i", columns, columns)
            part = cls(count, *ends, columns.sum(axis=1), squares)
            found = part if found is None else found.joined(part)
        return cls.empty(matrix.shape[1]) if found is None else found

    @classmethod
    def of_sparse(cls, matrix: sparse.csr_array) -> Columns:
        """Those of a SciPy sparse matrix."""
        n_rows, n_features = matrix.shape
        if n_rows == 0:
            return cls.empty(n_features)
        ends = [np.asarray(f(axis=0).todense()).ravel() for f in (matrix.min, matrix.max)]
        sums = [np.asarray(m.sum(axis=0)).ravel() for m in (matrix, matrix.power(2))]
        return cls(np.full(n_features, float(n_rows)), *ends, *sums)

    @classmethod
    def of_indicators(cls, total: Floats, n_rows: int) -> Columns:
        """Those of columns of zeros and ones, from their sums."""
        count = np.full(total.shape, float(n_rows))
        if n_rows == 0:
            return cls.empty(total.shape[0])
        ends = (total == n_rows).astype(np.float64), (total > 0).astype(np.float64)
        return cls(count, *ends, total, total)

    def joined(self, other: Columns, weight: float = 1.0) -> Columns:
        """Those of the rows of both, the other's counted `weight` times."""
        return Columns(
            self.count + weight * other.count,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.total + weight * other.total,
            self.squares + weight * other.squares,
        )

    def placed(self, start: int, n_features: int) -> Columns:
        """The same columns, from `start` on, among `n_features`; the others are empty."""
        whole = Columns.empty(n_features)
        here = slice(start, start + self.total.shape[0])
        parts = []
        for name in ("count", "low", "high", "total", "squares"):
            values = getattr(whole, name).copy()
            values[here] = getattr(self, name)
            parts.append(values)
        return Columns(*parts)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns have no two different entries."""
        return self.low >= self.high

    @property
    def largest(self) -> Floats:
        """The largest absolute entry."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def mean(self) -> Floats:
        """Means; 0 for columns that are constant, which stay as they are."""
        return np.where(self.constant, 0.0, self.total / np.maximum(self.count, 1e-300))

    @property
    def scale(self) -> Floats:
        """Standard deviations; 1 for columns that are constant."""
        count = np.maximum(self.count, 1e-300)
        variance = self.squares / count - (self.total / count) ** 2
        # Rounding leaves a tiny or negative variance where a column is nearly constant.
        rounding = 1e-12 * self.largest**2
        return np.where(self.constant, 1.0, np.sqrt(np.maximum(variance, rounding)))
