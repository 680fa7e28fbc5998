"""Features with a constant 1 as their last column: the constants (intercepts) of a model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._lazy import cached_property
from .contract import Columns, FeatureMap
from .rows import FeatureRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class ConstantColumn(FeatureRows):
    """Rows of nodes or edges, and the constant 1 behind the columns of each."""

    def __init__(self, rows: FeatureRows):
        self.rows = rows
        self.n_features = rows.n_features + 1
        self.is_sparse = rows.is_sparse

    def __len__(self) -> int:
        return len(self.rows)

    def scores(self, weights: Floats) -> Floats:
        return self.rows.scores(np.ascontiguousarray(weights[:-1])) + weights[-1]

    def moments(self, values: Floats) -> Floats:
        return np.concatenate([self.rows.moments(values), values.sum(axis=0, keepdims=True)])

    def moments_at(self, rows: Ints, columns: Ints, values: Floats, n_columns: int) -> Floats:
        found = self.rows.moments_at(rows, columns, values, n_columns)
        return np.concatenate([found, np.bincount(columns, values, n_columns)[None]])

    def add_moments(self, values: Floats, out: Floats) -> None:
        self.rows.add_moments(values, out[:-1])
        out[-1] += values.sum(axis=0)

    def gram(self) -> Floats:
        gram, n = self.rows.gram(), float(len(self))
        if gram.ndim == 1:
            return np.append(gram, n)
        total = self.rows.moments(np.ones(len(self)))[:, None]
        return np.block([[gram, total], [total.T, np.full((1, 1), n)]])

    def squares(self) -> Floats:
        return np.append(self.rows.squares(), float(len(self)))

    def columns(self) -> Columns:
        n = float(len(self))
        inner = self.rows.columns().placed(0, self.n_features)
        own = Columns.of_indicators(np.array([n]), len(self))
        return inner.joined(own.placed(self.n_features - 1, self.n_features))

    def occurring(self, groups: Ints, n_groups: int) -> Bools:
        """Which features are not 0 in some row of a group, shape (n_groups, n_features)."""
        inner: Bools = self.rows.occurring(groups, n_groups)  # type: ignore[attr-defined]
        return np.column_stack([inner, np.bincount(groups, minlength=n_groups) > 0])

    def take(self, indices: Ints) -> ConstantColumn:
        return ConstantColumn(self.rows.take(indices))

    def part(self, rows: slice) -> ConstantColumn:
        return ConstantColumn(self.rows.part(rows))


class ConstantFeature(FeatureMap):
    """A feature map of pairs, and the constant 1 as its last feature."""

    def __init__(self, inner: FeatureMap):
        self.inner = inner
        self.n_features, self.n_scored = inner.n_features + 1, inner.n_scored
        if inner.feature_names is not None:
            self.feature_names = [*inner.feature_names, "intercept"]

    @cached_property
    def matrix(self) -> Floats | None:  # type: ignore[override]
        inner = self.inner.matrix
        return None if inner is None else np.column_stack([inner, np.ones(self.n_scored)])

    def scores(self, theta: Floats) -> Floats:
        return self.inner.scores(np.ascontiguousarray(theta[:-1])) + theta[-1]

    def moments(self, tau: Floats) -> Floats:
        return np.append(self.inner.moments(tau), tau.sum())

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        return np.append(self.inner.moments_at(indices, values), values.sum())

    def columns(self) -> Columns | None:
        inner = self.inner.columns()
        if inner is None:
            return None
        own = Columns.of_indicators(np.array([float(self.n_scored)]), self.n_scored)
        return inner.placed(0, self.n_features).joined(
            own.placed(self.n_features - 1, self.n_features)
        )
