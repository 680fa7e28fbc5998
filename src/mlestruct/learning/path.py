"""The default solver, and the regularisation path: decreasing alpha, with warm starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._deadline import time_limit
from ..exceptions import OutOfTimeError
from .fully_corrective import FullyCorrective
from .lbfgs import LBFGS
from .problem import Problem
from .solver import AnySolver, Monitor, Result, Solver


def default_solver(problem: Problem) -> Solver:
    """L-BFGS if every output space has marginals, else a solver that only decodes."""
    if problem.has_marginals:
        return LBFGS()
    return FullyCorrective()


def solve(problem: Problem, solver: AnySolver, tol: float, start: Any = None) -> Result:
    """Run a solver; if it is ended before its first step the result is theta = 0."""
    try:
        return solver.solve(problem, tol, start)
    except (OutOfTimeError, KeyboardInterrupt) as error:
        monitor = Monitor(solver if isinstance(solver, Solver) else LBFGS(), tol)
        monitor.interrupted = isinstance(error, KeyboardInterrupt)
        return monitor.result(np.zeros(problem.n_features))


def check_alphas(alphas: Sequence[float]) -> list[float]:
    """The alphas from strong to weak; raises unless they are positive, finite numbers."""
    try:
        values = [float(alpha) for alpha in alphas]
    except TypeError:
        raise TypeError(
            f"`alphas` must be a sequence of positive numbers; got {alphas!r}. Pass a list."
        ) from None
    if not values:
        raise ValueError("`alphas` must hold at least one positive number; got none.")
    for value in values:
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"`alphas` must be positive and finite; got {value}.")
    return sorted(values, reverse=True)


def regularization_path(
    problem: Problem, alphas: Sequence[float], solver: AnySolver, tol: float
) -> Iterator[tuple[float, Result]]:
    """Yield (alpha, result) from strong to weak regularisation, warm-started.

    Ends early when the user interrupts a solve.
    """
    start = None
    for alpha in check_alphas(alphas):
        with time_limit(getattr(solver, "max_time", None)):
            result = solve(problem.with_alpha(alpha), solver, tol, start)
        yield alpha, result
        if result.interrupted:
            return
        start = result.state
