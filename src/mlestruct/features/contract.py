"""The feature-map contract: scores are linear in theta, moments are the adjoint.

A feature map stands for a matrix G with one row per scored coordinate of a structure (for
matchings: per allowed pair, row-major) and one column per feature. G need not exist as an array.

Every member that a caller uses is declared here. A map of one's own derives from `FeatureMap` and
defines `n_features`, `n_scored`, `scores` and `moments`; an object of any other class that has
these four is adapted once, by `as_feature_map`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .columns import Columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REQUIRED = ("n_features", "n_scored", "scores", "moments")


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
