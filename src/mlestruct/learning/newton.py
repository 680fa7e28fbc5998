"""Newton ascent on the likelihood, with the covariance of the features under the marginals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .._threads import Each
from .ascent import Direction, Evaluation, Pair, aligned, moment_scale
from .expectations import total_covariance
from .primal import PrimalSolver
from .problem import DualProblem

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Newton(PrimalSolver):
    """Newton ascent; needs the features as matrices and few enough of them."""

    name = "newton"

    def check(self, problem: DualProblem) -> None:
        super().check(problem)
        for block in problem.blocks:
            block.check_covariance()

    def directions(
        self, problem: DualProblem, pairs: Sequence[Pair] = (), each: Each = map
    ) -> Direction:
        return NewtonDirections(problem, each)


class NewtonDirections:
    """(alpha I + sum_m w_m Cov_m)^-1 gradient, Cov_m of the features under block m's marginals.

    With an l1 penalty only among coordinates that are not 0 or should not be, orthant-wise.
    """

    pairs: Sequence[Pair] = ()
    last: tuple[Floats, Floats] | None = None

    def __init__(self, problem: DualProblem, each: Each = map):
        self._problem, self._each = problem, each

    def __call__(self, at: Evaluation) -> Floats:
        problem = self._problem
        hessian = total_covariance(problem.blocks, problem.weights, at.marginals, self._each)
        if not np.isfinite(hessian).all():
            return at.ascent / (problem.penalty.l2 + moment_scale(problem))
        if problem.penalty.l1:
            free = np.flatnonzero((at.theta != 0.0) | (at.ascent != 0.0))
            step = np.zeros(problem.n_features)
            step[free] = self._solve(hessian[np.ix_(free, free)], at.ascent[free])
            return aligned(step, at.ascent / (problem.penalty.l2 + moment_scale(problem)))
        return self._solve(hessian, at.ascent)

    def _solve(self, hessian: Floats, gradient: Floats) -> Floats:
        # The covariance is positive semi-definite up to rounding.
        size = gradient.shape[0]
        shift = self._problem.penalty.l2 + 1e-12 * float(np.trace(hessian)) / max(size, 1)
        for _ in range(8):
            try:
                factor = cho_factor(hessian + shift * np.eye(size))
                return np.asarray(cho_solve(factor, gradient))
            except LinAlgError:
                shift = 10.0 * shift + 1e-8 * float(np.abs(hessian).max())
        return gradient / shift
