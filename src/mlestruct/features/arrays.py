"""Feature maps that hold their matrix: dense, SciPy sparse, and the identity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._arrays import as_count, as_floats
from .contract import Columns, FeatureMap, PairGraph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def check_feature_names(names: Sequence[str] | None, n_features: int) -> list[str] | None:
    """A name for every feature, or None."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"feature_names: expected a sequence of names, got {names!r}")
    listed = list(names)
    if len(listed) != n_features:
        raise ValueError(f"feature_names: expected {n_features} names, got {len(listed)}")
    return listed


class DenseFeatures(FeatureMap):
    """G as an array of shape (n_scored, n_features), with names of the features if given."""

    matrix: Floats

    def __init__(self, matrix: ArrayLike, feature_names: Sequence[str] | None = None):
        self.matrix = np.ascontiguousarray(as_floats(matrix, "matrix"))
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
        if matrix.dtype.kind == "c":
            raise ValueError(f"matrix: expected real numbers, got dtype {matrix.dtype}")
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
    """One weight per coordinate: theta is the score vector itself, as in generative models.

    Parameters
    ----------
    size : int, the number of scored coordinates; or (n_rows, n_cols) for the pairs of a matching.
        Estimators of matchings take the latter as a sample: theta holds the score of every pair,
        row by row, and within one group of n nodes that of every pair i < j, n (n - 1) / 2 weights.
        Samples with forbidden pairs (a mask) share the weights of the pairs that they allow.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import BipartiteMatchingCRF
    >>> from mlestruct.features import IdentityFeatures
    >>> Y = [[0, 1, 2], [0, 1, 2], [0, 2, 1]]  # matchings alone, without any features
    >>> model = BipartiteMatchingCRF().fit([IdentityFeatures((3, 3))] * 3, Y)
    >>> model.coef_.reshape(3, 3).argmax(axis=1).tolist()
    [0, 1, 2]
    """

    def __init__(self, size: int | tuple[int, int]):
        if not isinstance(size, tuple):
            self.n_scored = self.n_features = as_count(size, "size")
        else:
            if len(size) != 2:
                raise ValueError(f"size: expected (n_rows, n_cols), both positive, got {size}")
            self.shape = as_count(size[0], "size"), as_count(size[1], "size")
            self.n_scored = self.n_features = self.shape[0] * self.shape[1]
        self._places: Ints | None = None  # of the scored coordinates in theta; None: all in turn

    def on_pairs(self, graph: PairGraph, *, one_group: bool) -> IdentityFeatures:
        """The weights of the pairs of `graph`; of pairs within a group there is one each."""
        if self.shape is None:
            return self
        if self.shape != graph.shape:
            raise ValueError(f"size: found {self.shape}, the pairs are of {graph.shape}")
        found = IdentityFeatures(self.shape)
        n = self.shape[1]
        if one_group:
            found.n_features = n * (n - 1) // 2
            found._places = graph.row * n - graph.row * (graph.row + 1) // 2
            found._places += graph.col - graph.row - 1
        else:
            found._places = graph.row * n + graph.col
        found.n_scored = graph.n_edges
        if found.n_scored == found.n_features:
            found._places = None
        return found

    @property
    def matrix(self) -> Floats | None:  # type: ignore[override]
        """Where the identity is small, so that Newton's method can be used; else None."""
        if self.n_features > 300:  # solver="auto" uses Newton's method up to that many
            return None
        identity = np.eye(self.n_features)
        return identity if self._places is None else identity[self._places]

    def scores(self, theta: Floats) -> Floats:
        return theta.copy() if self._places is None else theta[self._places]

    def moments(self, tau: Floats) -> Floats:
        if self._places is None:
            return tau.copy()
        out = np.zeros(self.n_features)
        out[self._places] = tau
        return out

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        out = np.zeros(self.n_features)
        np.add.at(out, indices if self._places is None else self._places[indices], values)
        return out
