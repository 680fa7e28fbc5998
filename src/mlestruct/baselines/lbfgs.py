"""L-BFGS on a smooth loss of the weights plus alpha/2 |theta|^2, with the library's history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from ..learning.problem import DualProblem
from ..learning.result import Monitor, Result, Stopping, run

Floats = NDArray[np.float64]

Loss = Callable[[Floats], tuple[float, Floats]]
"""From theta to a value and its gradient."""


def lbfgs(
    loss: Loss,
    start: Floats,
    max_iter: int,
    callback: Callable[[optimize.OptimizeResult], None],
    ftol: float = 0.0,
    gtol: float = 0.0,
) -> optimize.OptimizeResult:
    """SciPy's L-BFGS. By default only `callback` (by StopIteration) and max_iter end it.

    It also ends where a line search can not improve the loss in floating point.
    """
    return optimize.minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={
            "maxiter": max_iter,
            "maxfun": 20 * max_iter,
            "maxcor": 20,
            "ftol": ftol,
            "gtol": gtol,
        },
    )


class PenalisedLoss:
    """loss(theta) + alpha/2 |theta|^2 and its gradient; keeps the last evaluation.

    Attributes
    ----------
    slack : float, |gradient|^2 / (2 alpha), a bound of the suboptimality where the loss is convex
    evaluations : int
    """

    def __init__(self, loss: Loss, alpha: float):
        self._loss, self.alpha = loss, alpha
        self.theta = self.gradient = np.zeros(0)
        self.value = np.inf
        self.evaluations = 0

    @property
    def slack(self) -> float:
        return float(self.gradient @ self.gradient) / (2.0 * self.alpha)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        if not np.array_equal(theta, self.theta):
            value, gradient = self._loss(theta)
            self.value = value + 0.5 * self.alpha * float(theta @ theta)
            self.gradient = gradient + self.alpha * theta
            self.theta = theta.copy()
            self.evaluations += 1
        return self.value, self.gradient.copy()


def minimise(
    problem: DualProblem,
    loss: Loss,
    stopping: Stopping,
    name: str,
    start: Floats | None = None,
    n_jobs: int | None = None,
) -> Result:
    """The theta that minimises `loss` with the penalty of `problem`, from `start` (0 by default).

    Signs are those of a maximisation: `primal` is minus the penalised loss at theta, `dual` adds
    the slack. Both are those of the current theta, since the loss may not be convex.
    """
    monitor = Monitor(stopping, name)
    penalised = PenalisedLoss(loss, problem.alpha)
    first = np.zeros(problem.n_features) if start is None else start

    def record(iteration: int) -> bool:
        monitor.oracle_calls = penalised.evaluations * len(problem.blocks)
        monitor.forget_bounds()
        primal = -penalised.value
        return monitor.record(
            iteration, penalised.theta, dual=primal + penalised.slack, primal=primal
        )

    def callback(intermediate_result: optimize.OptimizeResult) -> None:
        # The step just accepted is the one evaluated last.
        if record(monitor.iterations + 1):
            raise StopIteration

    def loop() -> Any:
        penalised(first)
        if record(0):
            return
        found = lbfgs(penalised, first, stopping.max_iter, callback)
        if not np.array_equal(found.x, penalised.theta):
            penalised(found.x)
            record(monitor.iterations)

    return run(problem, monitor, loop, lambda: penalised.theta, n_jobs)
