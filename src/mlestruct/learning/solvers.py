"""Choosing a solver by name, and the regularisation path: decreasing alpha, with warm starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._deadline import time_limit
from ..exceptions import OutOfTimeError
from ..structures.contract import Structure
from .block_frank_wolfe import BlockFrankWolfe
from .frank_wolfe import FrankWolfe
from .lbfgs import LBFGS
from .newton import Newton
from .problem import DualProblem
from .result import Result, Stopping, nothing_learned

Solver = FrankWolfe | BlockFrankWolfe | Newton | LBFGS

SOLVERS: dict[str, type] = {
    "fw": FrankWolfe,
    "bcfw": BlockFrankWolfe,
    "newton": Newton,
    "lbfgs": LBFGS,
}


def make_solver(solver: str | Solver, problem: DualProblem) -> Any:
    """The solver named by `solver`, checked against the capabilities of the problem's structures.

    "auto": where every block has a marginal oracle, Newton (few features, held densely) or
    L-BFGS; where only MAP decoding is known (or marginals are expensive), block-coordinate
    Frank-Wolfe with a working set of vertices.
    """
    if isinstance(solver, str):
        if solver == "auto":
            chosen = _automatic(problem)
        elif solver in SOLVERS:
            chosen = SOLVERS[solver]()
        else:
            raise ValueError(
                f"solver: expected 'auto', one of {sorted(SOLVERS)} or a solver object, "
                f"got {solver!r}"
            )
    elif isinstance(solver, tuple(SOLVERS.values())):
        chosen = solver
    else:
        raise TypeError(f"solver: expected a string or a solver object, got {solver!r}")
    chosen.check(problem)
    return chosen


def _has_good_marginals(structure: Structure) -> bool:
    return structure.offers("marginals") and not structure.prefers_decoding


def _automatic(problem: DualProblem) -> Solver:
    blocks = problem.blocks
    if not all(_has_good_marginals(b.structure) for b in blocks):
        return BlockFrankWolfe(working_set=100, batch=8)  # each vertex keeps its moments, too
    # With more features the Hessian costs more than the steps it saves.
    hessian = problem.n_features <= 300 and all(b.has_covariance for b in blocks)
    return Newton() if hessian else LBFGS()


def solve(
    problem: DualProblem,
    solver: Solver,
    stopping: Stopping,
    warm: Any = None,
    random_state: np.random.Generator | None = None,
    n_jobs: int | None = None,
) -> Result:
    """Run a solver; where it is ended before its first step the result is theta = 0."""
    try:
        return solver.solve(problem, stopping, warm, random_state, n_jobs)
    except (OutOfTimeError, KeyboardInterrupt) as error:
        return nothing_learned(problem, solver.name, isinstance(error, KeyboardInterrupt))


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
    warm, stopping = None, stopping or Stopping()
    for alpha in check_alphas(alphas):
        with time_limit(stopping.max_time):
            result = solve(problem.with_alpha(alpha), solver, stopping, warm, random_state, n_jobs)
        yield alpha, result
        if result.interrupted:
            return
        warm = result.state
