"""The feature-map contract: scores are linear in theta, moments are the adjoint.

A feature map stands for a matrix G with one row per scored coordinate of a structure (for
matchings: per allowed pair, row-major) and one column per feature. G need not exist as an array.

Every member that a caller uses is declared here. A map of one's own derives from `FeatureMap` and
defines `n_features`, `n_scored`, `scores` and `moments`; an object of any other class that has
these four is adapted once, by `as_feature_map`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REQUIRED = ("n_features", "n_scored", "scores", "moments")
CHUNK = 1024  # rows worked on at a time: what they need stays in the processor's cache
TINY = np.finfo(np.float64).tiny  # in place of 0 where 0 is divided by it


class PairGraph(Protocol):
    """Allowed pairs (row, col) of a matching in row-major order; edges ptr[i]:ptr[i+1] of row i."""

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_cols); (n_nodes, n_nodes) for pairs row < col within one group."""

    @property
    def n_edges(self) -> int: ...
    @property
    def is_complete(self) -> bool: ...
    @property
    def ptr(self) -> Ints: ...
    @property
    def row(self) -> Ints: ...
    @property
    def col(self) -> Ints: ...


class FeatureStream(Protocol):
    """Scores at a fixed theta, some nodes and edges at a time, and moments of what follows."""

    def scores(self, nodes: slice, edges: slice) -> tuple[Floats, Floats]:
        """Scores of nodes (n, L) and of edges (m, L, L), or (1, L, L) if all are the same."""

    def add(self, nodes: Floats, edges: Floats) -> None:
        """Add marginals, shaped as the last `scores`, of the nodes and edges of that call."""

    def moments(self) -> Floats:
        """G' of all marginals added, shape (n_features,)."""


class FeatureMap:
    """A linear map from theta to scores, and its adjoint.

    Attributes
    ----------
    n_features : int, the number of columns of G
    n_scored : int, the number of rows of G
    matrix : ndarray of shape (n_scored, n_features) if G is held or small enough to be made, else
        None. Newton's method needs it; baselines and the choice of threads use it.
    feature_names : a name for every column, or None. Estimators check them and keep them.
    shape : (n_rows, n_cols) of a map over the pairs of a matching, or None. Estimators read it.
    graph : the allowed pairs of such a map, or None if these come with the sample.
    edge_table_size : numbers per edge that `stream` makes
    """

    n_features: int
    n_scored: int
    matrix: Floats | None = None
    feature_names: Sequence[str] | None = None
    shape: tuple[int, int] | None = None
    graph: Any = None
    edge_table_size: int = 1

    def scores(self, theta: Floats) -> Floats:
        """G theta, shape (n_scored,), for theta of shape (n_features,)."""
        raise NotImplementedError

    def moments(self, tau: Floats) -> Floats:
        """G' tau, shape (n_features,), for tau of shape (n_scored,)."""
        raise NotImplementedError

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        """G' of the sparse vector with `values` at `indices`. The moments of vertices."""
        tau = np.zeros(self.n_scored)
        tau[indices] = values
        return self.moments(tau)

    def score_range(self, theta: Floats) -> float:
        """Largest minus smallest entry of G theta. The first length of a step."""
        found = self.scores(theta)
        return float(np.ptp(found)) if found.size else 0.0

    def second_moments(self) -> list[tuple[Floats, Floats]] | None:
        """An estimate of the Hessian of log Z, by segments of theta; None without one.

        Per segment a pair (gram, scales): the segment is an array of len(scales) rows of C
        weights, and row l has about the Hessian scales[l] * gram, with gram of shape (C, C) or,
        if only its diagonal is known, (C,). The preconditioner of L-BFGS uses it.
        """
        return None

    def columns(self) -> Columns | None:
        """Statistics of the columns of G; None where they take more than a pass over an array.

        Estimators of matchings standardise by them.
        """
        return None if self.matrix is None else Columns.of(self.matrix)

    def on_pairs(self, graph: PairGraph, *, one_group: bool) -> FeatureMap:
        """The map with one row for each pair of `graph`, for estimators of matchings.

        With `one_group` pairs have no direction; ValueError if the features of (i, j) and (j, i)
        differ. A map that has the pairs of the graph already returns itself.
        """
        return self

    def shared_tables(self, theta: Floats) -> tuple[Floats, Floats, tuple[int, ...]] | None:
        """Scores of nodes (n, L) and one table (L, L) for each group of consecutive edges, with the
        sizes of the groups; None where edges have features of their own (marginals of grids).
        """
        return None

    def shared_moments(self, nodes: Floats, tables: Floats) -> Floats:
        """G' of marginals of nodes and of sums of edge tables, shaped as `shared_tables`."""
        raise NotImplementedError

    def stream(self, theta: Floats) -> FeatureStream | None:
        """Scores and moments part by part, for sequences; None if the map has only whole ones."""
        return None


class AdaptedFeatures(FeatureMap):
    """An object that has the required members but does not derive from `FeatureMap`.

    Two adapters of the same object are equal.
    """

    def __init__(self, given: Any):
        self.given = given
        self.n_features, self.n_scored = int(given.n_features), int(given.n_scored)
        self.scores, self.moments = given.scores, given.moments  # type: ignore[method-assign]
        for name in ("moments_at", "second_moments", "on_pairs", "stream"):
            if callable(getattr(given, name, None)):
                setattr(self, name, getattr(given, name))
        for name in ("feature_names", "shape", "graph", "edge_table_size"):
            setattr(self, name, getattr(given, name, getattr(self, name)))

    @property
    def matrix(self) -> Floats | None:  # type: ignore[override]
        """That of the adapted object, made when asked for."""
        found = getattr(self.given, "matrix", None)
        return found if isinstance(found, np.ndarray) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AdaptedFeatures) and other.given is self.given

    def __hash__(self) -> int:
        return id(self.given)


def is_feature_map(given: Any) -> bool:
    """Whether `given` has everything that a feature map must have."""
    return isinstance(given, FeatureMap) or all(hasattr(given, name) for name in REQUIRED)


def as_feature_map(given: Any) -> FeatureMap:
    """`given` itself if it derives from `FeatureMap`, else an adapter of it."""
    if isinstance(given, FeatureMap):
        return given
    if not is_feature_map(given):
        missing = [name for name in REQUIRED if not hasattr(given, name)]
        raise TypeError(f"features: {type(given).__name__} is no feature map: it lacks {missing}")
    return AdaptedFeatures(given)


@dataclass(frozen=True)
class Columns:
    """Of every column: how many rows, the smallest and largest entry, the sum, and the sum of
    squared deviations from the mean.
    """

    count: Floats
    low: Floats
    high: Floats
    total: Floats
    deviations: Floats

    @classmethod
    def empty(cls, n_features: int) -> Columns:
        """Those of no rows."""
        zeros = np.zeros(n_features)
        return cls(zeros, np.full(n_features, np.inf), np.full(n_features, -np.inf), zeros, zeros)

    @classmethod
    def of(cls, matrix: NDArray, chunk: int = CHUNK) -> Columns:
        """Those of an array (n, n_features), some rows at a time in double precision."""
        parts = [cls.empty(matrix.shape[1])]
        for start in range(0, matrix.shape[0], chunk):
            # Along contiguous columns NumPy is several times faster than across short rows.
            columns = np.array(matrix[start : start + chunk].T, dtype=np.float64, order="C")
            size, total = columns.shape[1], columns.sum(axis=1)
            ends = columns.min(axis=1), columns.max(axis=1)
            columns -= total[:, None] / size
            deviations = np.einsum("ij,ij->i", columns, columns)
            parts.append(cls(np.full(total.shape, float(size)), *ends, total, deviations))
        return parts[1] if len(parts) == 2 else cls.weighted((part, 1.0) for part in parts)

    @classmethod
    def of_sparse(cls, matrix: sparse.csr_array) -> Columns:
        """Those of a SciPy sparse matrix."""
        n_rows, n_features = matrix.shape
        if n_rows == 0:
            return cls.empty(n_features)
        stored = matrix.tocsc()  # a copy
        stored.sum_duplicates()
        low, high = (np.asarray(f(axis=0).todense()).ravel() for f in (stored.min, stored.max))
        total, sizes = np.asarray(stored.sum(axis=0)).ravel(), np.diff(stored.indptr)
        mean = total / n_rows
        stored.data = (stored.data - np.repeat(mean, sizes)) ** 2
        deviations = np.asarray(stored.sum(axis=0)).ravel() + (n_rows - sizes) * mean**2
        return cls(np.full(n_features, float(n_rows)), low, high, total, deviations)

    @classmethod
    def of_indicators(cls, total: Floats, n_rows: int) -> Columns:
        """Those of columns of zeros and ones, from their sums."""
        count = np.full(total.shape, float(n_rows))
        if n_rows == 0:
            return cls.empty(total.shape[0])
        ends = (total == n_rows).astype(np.float64), (total > 0).astype(np.float64)
        return cls(count, *ends, total, total * (1.0 - total / n_rows))

    @classmethod
    def weighted(cls, parts: Iterable[tuple[Columns, float]]) -> Columns:
        """Those of the rows of all parts, which count with a weight each."""
        listed = list(parts)
        weights = np.array([weight for _, weight in listed])
        found = [columns for columns, _ in listed]
        counts = np.array([columns.count for columns in found])
        totals = np.array([columns.total for columns in found])
        count, total = weights @ counts, weights @ totals
        apart = totals / np.maximum(counts, TINY) - total / np.maximum(count, TINY)
        inside = np.array([columns.deviations for columns in found])
        return cls(
            count,
            np.min([columns.low for columns in found], axis=0),
            np.max([columns.high for columns in found], axis=0),
            total,
            weights @ (inside + counts * apart**2),
        )

    def joined(self, other: Columns) -> Columns:
        """Those of the rows of both."""
        return Columns.weighted([(self, 1.0), (other, 1.0)])

    def placed(self, start: int, n_features: int) -> Columns:
        """The same columns, from `start` on, among `n_features`; the others are empty."""
        whole = Columns.empty(n_features)
        here = slice(start, start + self.total.shape[0])
        parts = []
        for name in ("count", "low", "high", "total", "deviations"):
            values = getattr(whole, name).copy()
            values[here] = getattr(self, name)
            parts.append(values)
        return Columns(*parts)

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Which columns have no two different entries."""
        return self.low >= self.high

    @property
    def has_constant(self) -> bool:
        """Whether some column is the same in all rows, and not 0."""
        return bool((self.constant & (self.low != 0.0) & (self.count > 0)).any())

    @property
    def largest(self) -> Floats:
        """The largest absolute entry."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def mean(self) -> Floats:
        """Means; 0 for columns that are constant, which stay as they are."""
        return np.where(self.constant, 0.0, self.total / np.maximum(self.count, TINY))

    @property
    def scale(self) -> Floats:
        """Standard deviations; 1 for columns that are constant."""
        variance = self.deviations / np.maximum(self.count, TINY)
        # Entries of a constant column that come from different computations differ by rounding.
        rounding = (1e-12 * self.largest) ** 2
        return np.where(self.constant, 1.0, np.sqrt(np.maximum(variance, rounding)))
