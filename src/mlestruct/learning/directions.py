"""Ascent directions on the likelihood: Newton and limited-memory BFGS."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .preconditioner import preconditioner
from .problem import DualProblem

Floats = NDArray[np.float64]
Pairs = Sequence[tuple[Floats, Floats]]


class Direction(Protocol):
    """A function from evaluations, in the order they are accepted, to ascent directions."""

    pairs: Any  # accepted steps: (change of theta, decrease of the gradient)

    def __call__(self, at: Any) -> Floats: ...


class NewtonDirections:
    """(alpha I + sum_m w_m Cov_m)^-1 gradient, Cov_m of the features under block m's marginals."""

    pairs: Pairs = ()

    def __init__(self, problem: DualProblem):
        self._problem = problem

    def __call__(self, at: Any) -> Floats:
        problem = self._problem
        hessian = np.zeros((problem.n_features, problem.n_features))
        for block, found in zip(problem.blocks, at.marginals, strict=True):
            matrix = block.features.matrix
            assert matrix is not None  # Newton.check has asked for it
            hessian += block.weight * block.structure.feature_covariance(found, matrix)
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


class LBFGSDirections:
    """Two-loop recursion over the last `memory` accepted steps, preconditioned if possible.

    `pairs` are steps of an earlier run on the same or a smaller problem: (change of theta,
    decrease of the gradient).
    """

    def __init__(
        self, problem: DualProblem, memory: int, pairs: Iterable[tuple[Floats, Floats]] = ()
    ):
        self.pairs: deque[tuple[Floats, Floats]] = deque(pairs, maxlen=memory)
        self._last: Any = None
        self._precondition = preconditioner(problem)
        self._first_scale = problem.alpha + _moment_scale(problem)

    def __call__(self, at: Any) -> Floats:
        if self._last is not None:
            s = at.theta - self._last.theta
            y = self._last.gradient - at.gradient
            if float(s @ y) > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
                self.pairs.append((s, y))
        self._last = at
        q = at.gradient.copy()
        coefficients = []
        for s, y in reversed(self.pairs):
            coefficient = float(s @ q) / float(s @ y)
            coefficients.append(coefficient)
            q -= coefficient * y
        if self._precondition is not None:
            q = self._precondition(q)
        if self.pairs:
            s, y = self.pairs[-1]
            scaled = y if self._precondition is None else self._precondition(y)
            q *= float(s @ y) / float(y @ scaled)
        elif self._precondition is None:
            # First step: a gradient step scaled by a bound of the curvature.
            q /= self._first_scale
        for (s, y), coefficient in zip(self.pairs, reversed(coefficients), strict=True):
            q += (coefficient - float(y @ q) / float(s @ y)) * s
        return q


def _moment_scale(problem: DualProblem) -> float:
    """A rough bound of the likelihood's curvature from the observed moments."""
    return float(problem.weights @ (problem.observed_moments**2).sum(axis=1)) + 1.0
