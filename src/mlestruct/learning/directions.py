"""Ascent directions on the likelihood: Newton and limited-memory BFGS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..features.base import dense_matrix
from .preconditioner import preconditioner
from .problem import DualProblem

Floats = NDArray[np.float64]
Direction = Callable[[Any], Floats]  # from an Evaluation


def newton_directions(problem: DualProblem) -> Direction:
    """(alpha I + sum_m w_m Cov_m)^-1 gradient, Cov_m of the features under block m's marginals."""

    def direction(at: Any) -> Floats:
        hessian = np.zeros((problem.n_features, problem.n_features))
        for block, found in zip(problem.blocks, at.marginals, strict=True):
            hessian += block.weight * block.structure.feature_covariance(  # type: ignore[attr-defined]
                found, dense_matrix(block.features)
            )
        if not np.isfinite(hessian).all():
            return at.gradient / (problem.alpha + _moment_scale(problem))
        # The covariance is positive semi-definite up to rounding.
        shift = problem.alpha + 1e-12 * float(np.trace(hessian)) / problem.n_features
        for _ in range(8):
            try:
                factor = cho_factor(hessian + shift * np.eye(problem.n_features))
                return np.asarray(cho_solve(factor, at.gradient))
            except LinAlgError:
                shift = 10.0 * shift + 1e-8 * float(np.abs(hessian).max())
        return at.gradient / shift

    return direction


def lbfgs_directions(problem: DualProblem, memory: int) -> Direction:
    """Two-loop recursion over the last `memory` accepted steps, preconditioned where it can be."""
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=memory)
    last: list[Any] = []
    precondition = preconditioner(problem)

    def direction(at: Any) -> Floats:
        if last:
            s = at.theta - last[0].theta
            y = last[0].gradient - at.gradient
            curvature = float(s @ y)
            if curvature > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
                pairs.append((s, y, 1.0 / curvature))
        last[:] = [at]
        q = at.gradient.copy()
        coefficients = []
        for s, y, inverse in reversed(pairs):
            coefficient = inverse * float(s @ q)
            coefficients.append(coefficient)
            q -= coefficient * y
        if precondition is not None:
            q = precondition(q)
        if pairs:
            s, y, inverse = pairs[-1]
            scaled = y if precondition is None else precondition(y)
            q /= inverse * float(y @ scaled)
        elif precondition is None:
            # First step: no longer than theta could reasonably move at this curvature.
            q /= problem.alpha + _moment_scale(problem)
        for (s, y, inverse), coefficient in zip(pairs, reversed(coefficients), strict=True):
            q += (coefficient - inverse * float(y @ q)) * s
        return q

    return direction


def _moment_scale(problem: DualProblem) -> float:
    """A rough bound of the likelihood's curvature from the observed moments."""
    return float(problem.weights @ (problem.observed_moments**2).sum(axis=1)) + 1.0
