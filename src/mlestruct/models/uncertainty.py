"""Standard errors of learned weights, from the curvature of the penalised likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from .base import StructuredEstimator

Floats = NDArray[np.float64]


def standard_errors(estimator: StructuredEstimator, X: Any) -> Floats | None:
    """Square roots of the diagonal of (alpha I + sum of covariances of the features)^-1.

    The covariance of a sample's features under the model is the Hessian of its log-partition
    function, so this is the inverse curvature at the learned weights: Laplace's approximation of
    their distribution given the data, with the penalty as prior.

    Parameters
    ----------
    estimator : fitted, with a quadratic penalty of weights that are not standardised
    X : the samples that it was fitted to, each with weight 1

    Returns
    -------
    ndarray of shape (n_features,), or None where the output space has no covariance of features, or
    they are too many for a matrix
    """
    if estimator.l1_ratio or estimator.standardize:
        return None
    curvature: Floats | None = None
    for x in X:  # one after the other: where the first has no covariance, no others are made
        (block,) = estimator._prepare([x])
        matrix = block.features.matrix
        if matrix is None or not block.structure.offers("feature_covariance"):
            return None
        found = block.structure.marginals(block.scores(estimator.coef_))
        if curvature is None:
            curvature = estimator.alpha * np.eye(estimator.coef_.size)
        curvature += block.structure.feature_covariance(found, matrix)
    inverse = cho_solve(cho_factor(curvature), np.eye(estimator.coef_.size))
    return np.sqrt(np.diag(inverse))
