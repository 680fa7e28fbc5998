"""The regularisation path: the same data under decreasing alpha, with warm starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .history import Stopping
from .problem import DualProblem
from .result import Result


def check_alphas(alphas: Sequence[float]) -> list[float]:
    """The alphas from strong to weak; raises unless they are positive, finite numbers."""
    values = [float(alpha) for alpha in alphas]
    if not values:
        raise ValueError("alphas: need at least one value")
    for value in values:
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"alphas must be positive and finite, found {value}")
    return sorted(values, reverse=True)


def regularization_path(
    problem: DualProblem,
    alphas: Sequence[float],
    solver: Any,
    stopping: Stopping | None = None,
    random_state: np.random.Generator | None = None,
    n_jobs: int | None = None,
) -> Iterator[tuple[float, Result]]:
    """Yield (alpha, result) from strong to weak regularisation, warm-started.

    Ends early when the user interrupts a solve.
    """
    warm = None
    for alpha in check_alphas(alphas):
        result = solver.solve(
            problem.with_alpha(alpha),
            stopping or Stopping(),
            warm=warm,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        yield alpha, result
        if result.interrupted:
            return
        warm = result.state
