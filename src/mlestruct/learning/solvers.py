"""Choosing a solver by name."""

from __future__ import annotations

from typing import Any

from ..structures.contract import Structure
from .block_frank_wolfe import BlockFrankWolfe, BlockMarginals
from .frank_wolfe import FrankWolfe
from .primal import LBFGS, Newton
from .problem import DualProblem

Solver = FrankWolfe | BlockFrankWolfe | BlockMarginals | Newton | LBFGS

SOLVERS: dict[str, type] = {
    "fw": FrankWolfe,
    "bcfw": BlockFrankWolfe,
    "block_marginals": BlockMarginals,
    "newton": Newton,
    "lbfgs": LBFGS,
}

NEWTON_LIMIT = 300  # features; with more, the Hessian costs more than the steps it saves


def make_solver(solver: str | Solver, problem: DualProblem) -> Any:
    """The solver named by `solver`, checked against the capabilities of the problem's structures.

    "auto": where every block has a marginal oracle, Newton (few features, held densely) or
    L-BFGS; where only MAP decoding is known (or marginals are expensive), block-coordinate
    Frank-Wolfe, or the batch algorithm for a single block.
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
        return FrankWolfe() if len(blocks) == 1 else BlockFrankWolfe()
    hessian = problem.n_features <= NEWTON_LIMIT and all(
        b.structure.has_feature_covariance and b.features.matrix is not None for b in blocks
    )
    return Newton() if hessian else LBFGS()
