"""Feature vectors of many nodes or edges, a row each, used with several weight vectors at once.

What pairwise models need of them: `scores(weights)` with weights (n_features,) or (n_features, k),
its adjoint `moments(values)`, and `gram()`, the second moments. `Levels` is another such class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from . import _row_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 1024  # rows converted to double precision at a time
LARGEST_GRAM = 2000  # features; of more, only the diagonal is taken
GRAM_ROWS = 20_000  # second moments of more rows are estimated from a subset


class FeatureRows(ABC):
    """A matrix V of features, a row for each node or edge."""

    n_features: int

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

    @abstractmethod
    def take(self, indices: Ints) -> FeatureRows:
        """The rows at `indices`."""


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
        total = np.zeros((self.n_features, values.shape[1]))
        for start in range(0, len(self), CHUNK):
            part = slice(start, start + CHUNK)
            total += self.matrix[part].astype(np.float64).T @ values[part]
        return total

    def gram(self) -> Floats:
        step = max(1, len(self) // GRAM_ROWS)
        some = self.matrix[::step].astype(np.float64)
        if self.n_features > LARGEST_GRAM:
            return (some**2).sum(axis=0) * (len(self) / max(some.shape[0], 1))
        return (some.T @ some) * (len(self) / max(some.shape[0], 1))

    def take(self, indices: Ints) -> DenseRows:
        return DenseRows(self.matrix[indices])


class SparseRows(FeatureRows):
    """Rows of a SciPy sparse matrix; never made dense."""

    def __init__(self, matrix: Any):
        self.matrix = sparse.csr_array(matrix, dtype=np.float64)
        self.n_features = int(self.matrix.shape[1])

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def scores(self, weights: Floats) -> Floats:
        return np.asarray(self.matrix @ weights)

    def moments(self, values: Floats) -> Floats:
        return np.asarray(self.matrix.T @ values)

    def gram(self) -> Floats:
        if self.n_features > LARGEST_GRAM:
            return np.asarray(self.matrix.power(2).sum(axis=0)).ravel()
        return (self.matrix.T @ self.matrix).toarray()

    def take(self, indices: Ints) -> SparseRows:
        return SparseRows(self.matrix[indices])


class ConstantRows(FeatureRows):
    """n rows with the single feature 1."""

    n_features = 1

    def __init__(self, n: int):
        self._n = int(n)

    def __len__(self) -> int:
        return self._n

    def scores(self, weights: Floats) -> Floats:
        return np.broadcast_to(weights[0], (self._n, *weights.shape[1:])).astype(np.float64)

    def moments(self, values: Floats) -> Floats:
        return values.sum(axis=0, keepdims=True)

    def gram(self) -> Floats:
        return np.full((1, 1), float(self._n))

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

    def take(self, indices: Ints) -> RowGroups:
        """The rows at increasing `indices`."""
        ends = np.cumsum([0] + [len(group) for group in self.groups])
        cuts = np.searchsorted(indices, ends)
        parts = [
            group.take(indices[cuts[g] : cuts[g + 1]] - ends[g])
            for g, group in enumerate(self.groups)
        ]
        return RowGroups(parts, self.starts, self.n_features)
