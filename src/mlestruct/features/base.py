"""The feature-map contract: scores are linear in theta, moments are the adjoint.

A feature map G has one row per scored coordinate of a structure (for matchings: per allowed
pair, row-major). It never has to exist as a matrix.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@runtime_checkable
class FeatureMap(Protocol):
    """What a block needs of its features."""

    n_features: int
    n_scored: int

    def scores(self, theta: Floats) -> Floats:
        """G theta, shape (n_scored,)."""

    def moments(self, tau: Floats) -> Floats:
        """G' tau, shape (n_features,), for tau of shape (n_scored,)."""

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        """G' of the sparse vector with `values` at `indices`."""


def dense_matrix(features: FeatureMap) -> Floats | None:
    """G as an array of shape (n_scored, n_features) if the map holds one, else None."""
    matrix = getattr(features, "matrix", None)
    return matrix if isinstance(matrix, np.ndarray) else None
