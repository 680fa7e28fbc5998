"""Features under other weights: theta = T theta', so that a penalty acts on theta'."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._lazy import cached_property
from .contract import Columns, FeatureMap, FeatureStream

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class TransformedFeatures(FeatureMap):
    """The map G T, for a map G and a sparse matrix T.

    Learning theta' with it and keeping T theta' is learning from standardised features without
    making them: the columns of G T are those of G, divided by their scales and centred by the
    constant.
    """

    def __init__(self, inner: FeatureMap, transform: sparse.csr_array):
        self.inner, self.transform = inner, transform
        self.n_scored, self.n_features = inner.n_scored, transform.shape[1]
        self.feature_names, self.shape, self.graph = inner.feature_names, inner.shape, inner.graph
        self.edge_table_size = inner.edge_table_size

    def original(self, theta: Floats) -> Floats:
        """T theta."""
        return np.asarray(self.transform @ theta)

    def _back(self, moments: Floats) -> Floats:
        return np.asarray(self.transform.T @ moments)

    @cached_property
    def matrix(self) -> Floats | None:  # type: ignore[override]
        inner = self.inner.matrix
        return None if inner is None else np.ascontiguousarray((self.transform.T @ inner.T).T)

    def scores(self, theta: Floats) -> Floats:
        return self.inner.scores(self.original(theta))

    def moments(self, tau: Floats) -> Floats:
        return self._back(self.inner.moments(tau))

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        return self._back(self.inner.moments_at(indices, values))

    def score_range(self, theta: Floats) -> float:
        return self.inner.score_range(self.original(theta))

    def second_moments(self) -> list[tuple[Floats, Floats]] | None:
        inner = self.inner.second_moments()
        if inner is None:
            return None
        found, row, col = [], 0, 0
        for gram, scales in inner:
            # T is the Kronecker product of which rows of weights are the same and one part for each
            size, rows = gram.shape[0], slice(row, row + gram.shape[0] * scales.shape[0])
            last = int(self.transform[rows].indices.max(initial=-1)) + 1
            part = self.transform[row : row + size, col : col + size]
            if gram.ndim == 2:
                size_of_terms = abs(part).T @ (abs(part).T @ np.abs(gram)).T
                gram = np.asarray(part.T @ (part.T @ gram.T).T)
                # Centring takes away most of it where means are large: what rounding may have left
                # of a column counts as its curvature, so that steps are not too long.
                gram += np.diag(1e-15 * np.diag(size_of_terms))
            else:
                gram = gram * part.diagonal() ** 2
            same = self.transform[rows.start : rows.stop : size, col:last:size] != 0.0
            # The indicator of several states has no larger variance than 1/4 either.
            found.append((gram, np.minimum(same.T @ scales, max(scales.max(), 0.25))))
            row, col = rows.stop, last
        return found

    def shared_tables(self, theta: Floats) -> tuple[Floats, Floats, tuple[int, ...]] | None:
        return self.inner.shared_tables(self.original(theta))

    def shared_moments(self, nodes: Floats, tables: Floats) -> Floats:
        return self._back(self.inner.shared_moments(nodes, tables))

    def stream(self, theta: Floats) -> FeatureStream | None:
        inner = self.inner.stream(self.original(theta))
        return None if inner is None else _TransformedStream(inner, self)


class _TransformedStream:
    """A stream of the inner map, its moments transformed."""

    def __init__(self, inner: FeatureStream, features: TransformedFeatures):
        self._inner, self._features = inner, features

    def scores(self, nodes: slice, edges: slice) -> tuple[Floats, Floats]:
        return self._inner.scores(nodes, edges)

    def add(self, nodes: Floats, edges: Floats) -> Any:
        return self._inner.add(nodes, edges)

    def moments(self) -> Floats:
        return self._features._back(self._inner.moments())


def standardizing(columns: Columns, centred: bool) -> sparse.csr_array:
    """T with weights = T (weights of standardised columns); the last column is the constant.

    Columns are divided by their standard deviation. Where `centred` their mean is taken off, which
    changes the weight of the constant.
    """
    scale = columns.scale
    size = scale.shape[0]
    at, values = np.arange(size), 1.0 / scale
    row, col = at, at
    if centred:
        row = np.concatenate([row, np.full(size - 1, size - 1)])
        col = np.concatenate([col, at[:-1]])
        values = np.concatenate([values, (-columns.mean / scale)[:-1]])
    return sparse.csr_array((values, (row, col)), shape=(size, size))
