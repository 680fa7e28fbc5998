"""The result of every solver, and the function that runs one and handles Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .history import History, Monitor
from .problem import DualProblem
from .threads import blas_threads

Floats = NDArray[np.float64]


@dataclass
class Result:
    """A learned theta with its certificate.

    objective : the best dual value, an upper bound of the optimum
    primal : a proven lower bound of P(theta)
    gap : objective - primal; theta is within `gap` of the best attainable log-likelihood
    tolerance : the absolute gap to reach
    state : the argument `warm` with which the same solver continues
    """

    theta: Floats
    objective: float
    primal: float
    gap: float
    tolerance: float
    converged: bool
    interrupted: bool
    iterations: int
    oracle_calls: int
    seconds: float
    solver: str
    history: History
    state: Any

    def use(self, theta: Floats, primal: float) -> None:
        """Return `theta` instead, with its own lower bound of P."""
        self.theta, self.primal = theta, primal
        self.gap = max(self.objective - primal, 0.0)
        self.converged = self.gap <= self.tolerance


def run(
    problem: DualProblem,
    monitor: Monitor,
    loop: Callable[[], Any],
    theta: Callable[[], Floats],
    n_jobs: int | None = None,
) -> Result:
    """Run a solver's loop, which returns its final state, and collect the result.

    On KeyboardInterrupt the best theta so far is kept, if there is one; `theta` gives the current
    one if the loop ended without a certificate.
    """
    state = None
    try:
        with blas_threads(problem, n_jobs):
            state = loop()
    except KeyboardInterrupt:
        if monitor.theta is None:
            raise  # nothing has been learned yet
        monitor.interrupted = True
    finally:
        monitor.finish()
    best = monitor.theta if monitor.theta is not None else theta()
    return Result(
        theta=best,
        objective=monitor.dual,
        primal=monitor.primal,
        gap=monitor.gap,
        tolerance=monitor.tolerance,
        converged=monitor.converged,
        interrupted=monitor.interrupted,
        iterations=monitor.iterations,
        oracle_calls=monitor.oracle_calls,
        seconds=monitor.seconds,
        solver=monitor.name,
        history=monitor.history,
        state=state,
    )
