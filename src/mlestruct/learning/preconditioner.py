"""A cheap model of the likelihood's curvature, from second moments of the features.

Where the weights form copies of one feature space (one weight vector per state), the Hessian of
the negative log-likelihood is roughly block diagonal: copy l has  scale_l * (sum of x x').
L-BFGS that starts from its inverse needs a fraction of the evaluations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from .problem import DualProblem

Floats = NDArray[np.float64]
Preconditioner = Callable[[Floats], Floats]


def preconditioner(problem: DualProblem) -> Preconditioner | None:
    """(curvature + alpha I)^-1 as a function, or None where some features have no moments.

    The segments are those of `FeatureMap.second_moments`.
    """
    totals: list[list[Floats]] = []
    for block in problem.blocks:
        found = block.features.second_moments()
        if found is None:
            return None
        for k, (gram, scales) in enumerate(found):
            size = float(gram.sum() if gram.ndim == 1 else np.trace(gram))
            if k == len(totals):
                totals.append([np.zeros_like(gram), np.zeros_like(scales), np.zeros(1)])
            elif gram.ndim != totals[k][0].ndim:  # some blocks have only the diagonal
                gram = gram if gram.ndim == 1 else np.diag(gram)
                known = totals[k][0]
                totals[k][0] = known if known.ndim == 1 else np.diag(known).copy()
            totals[k][0] += block.weight * gram
            totals[k][1] += block.weight * size * scales
            totals[k][2] += block.weight * size
    segments = []
    for gram, scales, sizes in totals:
        mean = scales / max(float(sizes[0]), 1e-300)
        values, vectors = (gram, None) if gram.ndim == 1 else eigh(gram)
        inverse = 1.0 / (np.outer(mean, np.maximum(values, 0.0)) + problem.alpha)
        segments.append((inverse, vectors))

    def apply(vector: Floats) -> Floats:
        out = np.empty_like(vector)
        start = 0
        for inverse, vectors in segments:
            part = vector[start : start + inverse.size].reshape(inverse.shape)
            if vectors is None:
                solved = part * inverse
            else:
                solved = ((part @ vectors) * inverse) @ vectors.T
            out[start : start + inverse.size] = solved.ravel()
            start += inverse.size
        return out

    return apply
