"""Feature vectors of nodes or edges, a row each: the matrices V that pairwise maps are made of.

Every class offers the products of `FeatureRows` with several weight vectors at once. `Levels` is
another such class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from . import _row_kernels as kernels
from .contract import CHUNK, Columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LARGEST_GRAM = 2000  # features; of more, only the diagonal is computed: the rest is 32 MB and more


def gram_step(n_rows: int, enough: int = 20_000) -> int:
    """Second moments are estimated from every k-th row; they decide no result, only steps."""
    return max(1, n_rows // enough)


class FeatureRows(ABC):
    """A matrix V of features, a row for each of n nodes or edges."""

    n_features: int
    all_equal = False  # whether all rows are the same, so that one product serves all of them
    is_sparse = False

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def scores(self, weights: Floats) -> Floats:
        """V weights, (n,) or (n, k), for weights (n_features,) or (n_features, k)."""

    @abstractmethod
    def moments(self, values: Floats) -> Floats:
        """V' values, (n_features,) or (n_features, k), for values (n,) or (n, k)."""

    @abstractmethod
    def gram(self) -> Floats:
        """V' V, shape (n_features, n_features), or its diagonal, shape (n_features,)."""

    def squares(self) -> Floats:
        """The diagonal of V' V, shape (n_features,)."""
        gram = self.gram()
        return gram if gram.ndim == 1 else np.diag(gram)

    @abstractmethod
    def columns(self) -> Columns:
        """Statistics of every column."""

    @abstractmethod
    def take(self, indices: Ints) -> FeatureRows:
        """The rows at `indices`."""

    def part(self, rows: slice) -> FeatureRows:
        """The rows of a slice, for a few products with them."""
        return self.take(np.arange(len(self))[rows])

    def add_moments(self, values: Floats, out: Floats) -> None:
        """out += V' values, for values of shape (n, k)."""
        out += self.moments(values)

    def moments_at(self, rows: Ints, columns: Ints, values: Floats, n_columns: int) -> Floats:
        """V' of the matrix (n, n_columns) with `values` at (rows, columns), zero elsewhere."""
        kept, place = np.unique(rows, return_inverse=True)
        dense = np.zeros((kept.size, n_columns))
        np.add.at(dense, (place, columns), values)
        return self.take(kept).moments(dense)


class DenseRows(FeatureRows):
    """Rows of an array (n, n_features) of float32 or float64; sums are kept in double precision."""

    def __init__(self, matrix: NDArray[Any]):
        kind = np.float32 if matrix.dtype == np.float32 else np.float64
        self.matrix = np.ascontiguousarray(matrix, dtype=kind)
        self.n_features = self.matrix.shape[1]

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def scores(self, weights: Floats) -> Floats:
        if weights.ndim == 1:
            out = np.empty(len(self))
            kernels.row_scores(self.matrix, np.ascontiguousarray(weights), out)
            return out
        if self.matrix.dtype == np.float64:
            return np.asarray(np.matmul(self.matrix, weights), dtype=np.float64)
        found = np.empty((len(self), weights.shape[1]))
        for start in range(0, len(self), CHUNK):
            part = slice(start, start + CHUNK)
            np.matmul(self.matrix[part].astype(np.float64), weights, out=found[part])
        return found

    def moments(self, values: Floats) -> Floats:
        if values.ndim == 1:
            out = np.zeros(self.n_features)
            kernels.row_moments(self.matrix, np.ascontiguousarray(values), out)
            return out
        total = np.zeros((values.shape[1], self.n_features))
        for start in range(0, len(self), CHUNK):
            part = slice(start, start + CHUNK)
            total += values[part].T @ self.matrix[part].astype(np.float64, copy=False)
        return total.T

    def moments_at(self, rows: Ints, columns: Ints, values: Floats, n_columns: int) -> Floats:
        out = np.zeros((n_columns, self.n_features))
        kernels.add_picked_rows(rows, columns, values, self.matrix, out)
        return out.T

    def gram(self) -> Floats:
        rows = self.matrix[:: gram_step(len(self))]
        size = self.n_features
        total = np.zeros(size if size > LARGEST_GRAM else (size, size))
        for start in range(0, rows.shape[0], CHUNK):
            some = rows[start : start + CHUNK].astype(np.float64)
            total += (some**2).sum(axis=0) if total.ndim == 1 else some.T @ some
        return total * (len(self) / max(rows.shape[0], 1))

    def columns(self) -> Columns:
        return Columns.of(self.matrix)

    def occurring(self, groups: Ints, n_groups: int) -> Bools:
        """Which features are not 0 in some row of a group, shape (n_groups, n_features)."""
        found = np.zeros((n_groups, self.n_features), dtype=bool)
        for group in np.unique(groups).tolist():
            found[group] = self.matrix[groups == group].any(axis=0)
        return found

    def take(self, indices: Ints) -> DenseRows:
        return DenseRows(self.matrix[indices])

    def add_moments(self, values: Floats, out: Floats) -> None:
        # BLAS is faster with the short axis first.
        out += (values.T @ self.matrix.astype(np.float64, copy=False)).T

    def part(self, rows: slice) -> DenseRows:
        return DenseRows(self.matrix[rows].astype(np.float64, copy=False))


class SparseRows(FeatureRows):
    """Rows of a SciPy sparse matrix; never made dense."""

    is_sparse = True

    def __init__(self, matrix: Any):
        ready = isinstance(matrix, sparse.csr_array) and matrix.dtype == np.float64
        self.matrix = matrix if ready else sparse.csr_array(matrix, dtype=np.float64)
        self.n_features = int(self.matrix.shape[1])

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def scores(self, weights: Floats) -> Floats:
        return np.asarray(self.matrix @ weights)

    def moments(self, values: Floats) -> Floats:
        return np.asarray(self.matrix.T @ values)

    def moments_at(self, rows: Ints, columns: Ints, values: Floats, n_columns: int) -> Floats:
        out = np.zeros((n_columns, self.n_features))
        matrix = self.matrix
        kernels.add_picked_sparse_rows(
            rows, columns, values, matrix.data, matrix.indices, matrix.indptr, out
        )
        return out.T

    def gram(self) -> Floats:
        if self.n_features > LARGEST_GRAM:
            return self.squares()
        return (self.matrix.T @ self.matrix).toarray()

    def squares(self) -> Floats:
        found = np.bincount(self.matrix.indices, self.matrix.data**2, self.n_features)
        return found.astype(np.float64)

    def columns(self) -> Columns:
        return Columns.of_sparse(self.matrix)

    def occurring(self, groups: Ints, n_groups: int) -> Bools:
        """Which features are stored in some row of a group, shape (n_groups, n_features)."""
        found = np.zeros((n_groups, self.n_features), dtype=bool)
        rows = np.repeat(groups, np.diff(self.matrix.indptr))
        found[rows, self.matrix.indices] = True
        return found

    def take(self, indices: Ints) -> SparseRows:
        return SparseRows(self.matrix[indices])

    def part(self, rows: slice) -> FeatureRows:
        first, stop, _ = rows.indices(len(self))
        return _SparsePart(self, first, stop)


class _SparsePart(FeatureRows):
    """Rows first .. stop-1 of `SparseRows`, which are not copied."""

    def __init__(self, whole: SparseRows, first: int, stop: int):
        self.n_features, self._whole, self._first, self._stop = whole.n_features, whole, first, stop

    def __len__(self) -> int:
        return self._stop - self._first

    def scores(self, weights: Floats) -> Floats:
        matrix = self._whole.matrix
        out = np.empty((len(self), weights.shape[1]))
        entries = matrix.data, matrix.indices, matrix.indptr, self._first
        if weights.flags.c_contiguous:
            kernels.sparse_scores(*entries, weights, out)
        else:
            kernels.sparse_scores_by_state(*entries, np.ascontiguousarray(weights.T), out)
        return out

    def add_moments(self, values: Floats, out: Floats) -> None:
        matrix = self._whole.matrix
        kernels.add_sparse_moments(
            matrix.data, matrix.indices, matrix.indptr, self._first, values, out
        )

    def moments(self, values: Floats) -> Floats:
        out = np.zeros((self.n_features, values.shape[1]))
        self.add_moments(values, out)
        return out

    def gram(self) -> Floats:
        return self.take(np.arange(len(self))).gram()

    def columns(self) -> Columns:
        return self.take(np.arange(len(self))).columns()

    def take(self, indices: Ints) -> SparseRows:
        return self._whole.take(self._first + indices)


class ConstantRows(FeatureRows):
    """n rows with the single feature 1."""

    n_features = 1
    all_equal = True

    def __init__(self, n: int):
        self._n = int(n)

    def __len__(self) -> int:
        return self._n

    def scores(self, weights: Floats) -> Floats:
        same = np.broadcast_to(weights[0], (self._n, *weights.shape[1:]))
        return same.astype(np.float64, order="C")

    def moments(self, values: Floats) -> Floats:
        return values.sum(axis=0, keepdims=True)

    def moments_at(self, rows: Ints, columns: Ints, values: Floats, n_columns: int) -> Floats:
        return np.bincount(columns, values, n_columns)[None].astype(np.float64)

    def gram(self) -> Floats:
        return np.full((1, 1), float(self._n))

    def columns(self) -> Columns:
        return Columns.of_indicators(np.array([float(self._n)]), self._n)

    def occurring(self, groups: Ints, n_groups: int) -> Bools:
        """Which groups have a row, shape (n_groups, 1)."""
        return np.bincount(groups, minlength=n_groups)[:, None] > 0

    def take(self, indices: Ints) -> ConstantRows:
        return ConstantRows(len(indices))


class RowGroups(FeatureRows):
    """Groups of rows below each other, each with its own columns of a wider feature space.

    Parameters
    ----------
    groups : sequence of FeatureRows
    starts : first column of each group; groups may share columns
    n_features : int
    """

    def __init__(self, groups: Sequence[FeatureRows], starts: Sequence[int], n_features: int):
        self.groups = list(groups)
        self.starts = [int(start) for start in starts]
        self.n_features = int(n_features)

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)

    def scores(self, weights: Floats) -> Floats:
        return np.concatenate(
            [
                group.scores(weights[start : start + group.n_features])
                for group, start in zip(self.groups, self.starts, strict=True)
            ]
        )

    def moments(self, values: Floats) -> Floats:
        total = np.zeros((self.n_features, *values.shape[1:]))
        first = 0
        for group, start in zip(self.groups, self.starts, strict=True):
            part = values[first : first + len(group)]
            total[start : start + group.n_features] += group.moments(part)
            first += len(group)
        return total

    def gram(self) -> Floats:
        total = np.zeros((self.n_features, self.n_features))
        for group, start in zip(self.groups, self.starts, strict=True):
            part = group.gram()
            columns = slice(start, start + group.n_features)
            total[columns, columns] += np.diag(part) if part.ndim == 1 else part
        return total

    def columns(self) -> Columns:
        found = Columns.empty(self.n_features)
        for group, start in zip(self.groups, self.starts, strict=True):
            found = found.joined(group.columns().placed(start, self.n_features))
        return found

    def take(self, indices: Ints) -> RowGroups:
        """The rows at increasing `indices`."""
        ends = np.cumsum([0] + [len(group) for group in self.groups])
        cuts = np.searchsorted(indices, ends)
        parts = [
            group.take(indices[cuts[g] : cuts[g + 1]] - ends[g])
            for g, group in enumerate(self.groups)
        ]
        return RowGroups(parts, self.starts, self.n_features)
