"""Learning from outputs of which only a part was observed.

The likelihood of what was observed is

    P(theta) = sum_m w_m [ A_m(theta; observed) - A_m(theta) ] - R(theta),

A_m(.; observed) being log Z_rho over the outputs that agree with it. P is not concave. L-BFGS
starts from the fit to what was observed whole, every step increases the proven value of P, and the
end is a stationary point. No bound of the optimum is known; the gap of the result without an l1
penalty is

    R*(r) + R(theta) - <r, theta> = |grad P(theta)|^2 / (2 alpha)

and the gap of the oracles.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..structures.contract import Marginals
from .lbfgs import LBFGS, Start
from .problem import Expectation, Problem
from .solver import solve

Floats = NDArray[np.float64]


class PartialProblem(Problem):
    """What `expect` returns is the difference of all outputs and those that were observed."""

    def __init__(self, problem: Problem):
        vars(self).update(vars(problem))
        self._open = [m for m, block in enumerate(self.blocks) if block.partial is not None]
        weights = self.weights.copy()
        weights[self._open] = 0.0  # their share of the target follows theta
        self.target = weights @ self.observed_moments
        self.offset_score = float(weights @ [block.offset_score for block in self.blocks])

    def expect(self, theta: Floats, tol: float, states: Any = None) -> Expectation:
        before, warm = (None, [None] * len(self._open)) if states is None else states
        every = super().expect(theta, 0.5 * tol, before)
        share = 0.5 * tol / len(self._open)

        def one(k: int) -> tuple[Marginals, Floats]:
            block = self.blocks[self._open[k]]
            space: Any = block.partial
            found = space.marginals(block.scores(theta), warm[k], share / block.weight)
            return found, block.moments(found.tau)

        answers = list(self.each(one, range(len(self._open))))
        weights = self.weights[self._open]
        least, most = (
            weights @ [getattr(found, name) for found, _ in answers]
            for name in ("value", "upper_bound")
        )
        return Expectation(
            every.moments - weights @ np.array([moments for _, moments in answers]),
            every.lower - float(most),
            every.upper - float(least),
            every.size + float(weights @ [abs(found.value) for found, _ in answers]),
            (every.states, [found.warm for found, _ in answers]),
        )

    @property
    def n_calls(self) -> int:
        return len(self.blocks) + len(self._open)

    @property
    def has_bound(self) -> bool:
        return False


def whole_fit(problem: Problem, solver: LBFGS, tol: float) -> Start | None:
    """The fit to the outputs that were observed whole; None without any."""
    whole = [block for block in problem.blocks if block.partial is None]
    if not whole:
        return None
    penalty = problem.penalty
    alone = Problem(whole, penalty.alpha, penalty.l1_ratio, problem.n_jobs)
    return Start(solve(alone, replace(solver, checkpoint=None), tol).theta)
