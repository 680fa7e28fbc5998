"""Learning from outputs of which only a part was observed: the concave-convex procedure.

The likelihood of what was observed is

    P(theta) = sum_m w_m [ A_m(theta; observed) - A_m(theta) ] - R(theta),

A_m(.; observed) being log Z_rho over the outputs that agree with it. This term is convex in theta.
A round replaces it by its tangent at the current theta, whose slope are the marginals given what
was observed: P is then bounded from below by the objective of a fully observed problem that
agrees with it at theta, and solving that one (with a certificate) increases P.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..structures.contract import Vertex
from .problem import DualProblem
from .result import Result, Stopping

Floats = NDArray[np.float64]


def solve_partial(
    problem: DualProblem,
    solver: Any,
    stopping: Stopping,
    theta: Floats | None,
    random_state: np.random.Generator,
    n_jobs: int | None,
) -> tuple[Result, list[float]]:
    """Rounds from `theta` on until one gains no more than the tolerance of its certificate.

    Returns the result of the last round that gained, and P after every round. Without `theta` the
    start is the fit to the blocks that were observed whole, or 0.
    """
    if theta is None:
        theta = _whole_fit(problem, solver, stopping, random_state, n_jobs)
    found = _Completed.at(problem, theta, stopping.tol)
    best: Result | None = None
    started, state, values = time.perf_counter(), None, [-np.inf]
    tol = max(stopping.tol, 0.03)  # of the first round, whose outputs will change
    for _ in range(50):  # each is a fit
        complete = problem.with_observed(found.observed)
        spent = time.perf_counter() - started
        left = None if stopping.max_time is None else max(stopping.max_time - spent, 1e-3)
        budget = replace(stopping, tol=tol, max_time=left)
        result = solver.solve(complete, budget, state, random_state, n_jobs)
        following = _Completed.at(problem, result.theta, stopping.tol)
        # P at the new theta: the tangent gives way to the function itself.
        linear = complete.primal(result.theta, 0.0) - problem.with_observed(
            following.observed
        ).primal(result.theta, 0.0)
        value = result.primal - linear - following.entropy
        gained = (value - values[-1]) / max(1.0, abs(value))
        if gained > 0.0:
            kept = replace(result, objective=value, primal=value)
            best, found, state = kept, following, result.state
            values.append(value)
        late = stopping.max_time is not None and time.perf_counter() > started + stopping.max_time
        if result.interrupted or late or (gained <= stopping.tol and tol == stopping.tol):
            break
        # A round need not be more exact than what it gains.
        tol = max(stopping.tol, min(tol, 0.1 * max(gained, 0.0)))
    assert best is not None
    return best, values[1:]


class _Completed:
    """What was observed, completed by the marginals of the rest.

    entropy : sum over partial blocks of <scores, marginals> - A(theta; observed), at most 0
    """

    def __init__(self, observed: list[Vertex], entropy: float):
        self.observed, self.entropy = observed, entropy

    @classmethod
    def at(cls, problem: DualProblem, theta: Floats, tol: float) -> _Completed:
        observed, entropy = [], 0.0
        for block in problem.blocks:
            if block.partial is None:
                observed.append(block.observed)
                continue
            scores = block.scores(theta)
            marginals = block.partial.marginals(scores, None, 0.1 * tol * block.partial.n_nodes)
            indices = np.flatnonzero(marginals.tau)
            vertex = Vertex(indices, marginals.tau[indices])
            observed.append(vertex)
            entropy += block.weight * (vertex.dot(scores) - marginals.value)
        return cls(observed, entropy)


def _whole_fit(
    problem: DualProblem,
    solver: Any,
    stopping: Stopping,
    random_state: np.random.Generator,
    n_jobs: int | None,
) -> Floats:
    """theta of the blocks that were observed whole; 0 without any."""
    whole = [block for block in problem.blocks if block.partial is None]
    if not whole:
        return np.zeros(problem.n_features)
    alone = DualProblem(whole, problem.alpha, problem.penalty.l1_ratio)
    theta: Floats = solver.solve(alone, stopping, None, random_state, n_jobs).theta
    return theta
