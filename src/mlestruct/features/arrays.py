"""Feature maps that hold their matrix: dense, SciPy sparse, and the identity."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .columns import Columns
from .contract import FeatureMap, PairGraph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def check_feature_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """A name for every feature, or None."""
    if names is None:
        return None
    if len(names) != n_features:
        raise ValueError(f"feature_names: expected {n_features} names, got {len(names)}")
    return list(names)


class DenseFeatures(FeatureMap):
    """G as an array of shape (n_scored, n_features), with names of the features if given."""

    matrix: Floats

    def __init__(self, matrix: ArrayLike, feature_names: Sequence[str] | None = None):
        self.matrix = np.ascontiguousarray(matrix, dtype=np.float64)
        if self.matrix.ndim != 2:
            raise ValueError(f"matrix: expected 2 dimensions, got shape {self.matrix.shape}")
        self.n_scored, self.n_features = self.matrix.shape
        self.feature_names = check_feature_names(feature_names, self.n_features)

    def scores(self, theta: Floats) -> Floats:
        out: Floats = self.matrix @ theta
        return out

    def moments(self, tau: Floats) -> Floats:
        out: Floats = tau @ self.matrix
        return out

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        out: Floats = values @ self.matrix[indices]
        return out

    def on_pairs(self, graph: PairGraph, *, one_group: bool) -> DenseFeatures:
        """Itself, if all features are finite."""
        if not np.isfinite(self.matrix).all():
            at = tuple(int(k) for k in np.argwhere(~np.isfinite(self.matrix))[0])
            raise ValueError(f"found {self.matrix[at]} at {at}; features must be finite")
        return self


class SparseFeatures(FeatureMap):
    """G as a SciPy sparse matrix of shape (n_scored, n_features); never made dense."""

    def __init__(
        self,
        matrix: sparse.sparray | sparse.spmatrix,
        feature_names: Sequence[str] | None = None,
    ):
        if not sparse.issparse(matrix):
            raise TypeError(f"matrix: expected a SciPy sparse matrix, got {type(matrix).__name__}")
        self._rows = sparse.csr_array(matrix, dtype=np.float64)
        self._columns = self._rows.T.tocsr()  # the adjoint as rows: both products stream
        self.n_scored, self.n_features = self._rows.shape
        self.feature_names = check_feature_names(feature_names, self.n_features)

    def scores(self, theta: Floats) -> Floats:
        out: Floats = self._rows @ theta
        return out

    def moments(self, tau: Floats) -> Floats:
        out: Floats = self._columns @ tau
        return out

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        out: Floats = self._rows[indices].T @ values
        return out

    def columns(self) -> Columns:
        return Columns.of_sparse(self._rows)


class IdentityFeatures(FeatureMap):
    """One weight per coordinate: theta is the score vector itself."""

    def __init__(self, n_scored: int):
        self.n_scored = self.n_features = int(n_scored)

    def scores(self, theta: Floats) -> Floats:
        return theta.copy()

    def moments(self, tau: Floats) -> Floats:
        return tau.copy()

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        out = np.zeros(self.n_features)
        np.add.at(out, indices, values)
        return out
