"""The feature-map contract: scores are linear in theta, moments are the adjoint.

A feature map stands for a matrix G with one row per scored coordinate of a structure (for
matchings: per allowed pair, row-major) and one column per feature. G need not exist as an array:
any object with the four members

    n_features, n_scored, scores(theta), moments(tau)

is one. The members of `FeatureMap` beyond these have defaults; `Rows` and the maps of labellings
define them, since they know more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Segments = list[tuple[Floats, Floats]]

REQUIRED = ("n_features", "n_scored", "scores", "moments")


class FeatureMap:
    """A linear map from theta to scores, and its adjoint.

    Attributes
    ----------
    n_features : int, the number of columns of G
    n_scored : int, the number of rows of G
    feature_names : a name for every column, or None
    """

    n_features: int
    n_scored: int
    feature_names: Sequence[str] | None = None

    def scores(self, theta: Floats) -> Floats:
        """G theta, shape (n_scored,), for theta of shape (n_features,)."""
        raise NotImplementedError

    def moments(self, tau: Floats) -> Floats:
        """G' tau, shape (n_features,), for tau of shape (n_scored,)."""
        raise NotImplementedError

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        """G' of the sparse vector with `values` at `indices`: the moments of vertices."""
        tau = np.zeros(self.n_scored)
        tau[indices] = values
        return self.moments(tau)

    def score_range(self, theta: Floats) -> float:
        """Largest minus smallest entry of G theta: the first length of a step."""
        found = self.scores(theta)
        return float(np.ptp(found)) if found.size else 0.0

    def second_moments(self) -> Segments | None:
        """An estimate of the Hessian of log Z, by segments of theta; None without one.

        Per segment a pair (gram, scales): the segment is an array of len(scales) rows of C
        weights, and row l has about the Hessian scales[l] * gram, with gram of shape (C, C) or,
        if only its diagonal is known, (C,). The preconditioner of L-BFGS uses it.
        """
        return None


class AdaptedFeatures(FeatureMap):
    """An object with the four members that does not derive from `FeatureMap`."""

    def __init__(self, given: Any):
        self.given = given
        self.n_features, self.n_scored = int(given.n_features), int(given.n_scored)
        self.scores, self.moments = given.scores, given.moments  # type: ignore[method-assign]
        self.feature_names = getattr(given, "feature_names", None)


def is_feature_map(given: Any) -> bool:
    """Whether `given` has everything that a feature map must have."""
    return isinstance(given, FeatureMap) or all(hasattr(given, name) for name in REQUIRED)


def as_feature_map(given: Any) -> FeatureMap:
    """`given` itself if it derives from `FeatureMap`, else an adapter of it."""
    if isinstance(given, FeatureMap):
        return given
    missing = [name for name in REQUIRED if not hasattr(given, name)]
    if missing:
        raise TypeError(
            f"`features` must be a matrix or have the members {', '.join(REQUIRED)}; "
            f"{type(given).__name__} lacks {', '.join(missing)}."
        )
    return AdaptedFeatures(given)
