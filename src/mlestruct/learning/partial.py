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
from .problem import Problem
from .solver import AnySolver, Result

Floats = NDArray[np.float64]

ROUNDS = 50  # at most; each is a fit
FIRST_TOL = 0.03  # of the first round, whose outputs will change


def solve_partial(
    problem: Problem, solver: AnySolver, tol: float, theta: Floats | None
) -> tuple[Result, list[float]]:
    """Rounds from `theta` on until one gains no more than the tolerance of its certificate.

    Returns the result of the last round that gained, and P after every round. Without `theta` the
    start is the fit to the blocks that were observed whole, or 0.
    """
    if theta is None:
        theta = _whole_fit(problem, solver, tol)
    max_time = getattr(solver, "max_time", None)
    completed, entropy = _completed(problem, theta, tol)
    best: Result | None = None
    started, state, values = time.perf_counter(), None, [-np.inf]
    own_tol = max(tol, FIRST_TOL)
    for _ in range(ROUNDS):
        left = None if max_time is None else max_time - (time.perf_counter() - started)
        limited: Any = solver if left is None else replace(solver, max_time=max(left, 1e-3))  # type: ignore[type-var]
        result = limited.solve(completed, own_tol, state)
        following, entropy = _completed(problem, result.theta, tol)
        # P at the new theta: the tangent gives way to the function itself.
        linear = completed.primal(result.theta, 0.0) - following.primal(result.theta, 0.0)
        value = result.primal - linear - entropy
        gained = (value - values[-1]) / max(1.0, abs(value))
        if gained > 0.0:
            best = replace(result, objective=value, primal=value)
            completed, state = following, result.state
            values.append(value)
        late = left is not None and left <= 0.0
        if result.interrupted or late or (gained <= tol and own_tol == tol):
            break
        # A round need not be more exact than what it gains.
        own_tol = max(tol, min(own_tol, 0.1 * max(gained, 0.0)))
    assert best is not None
    return best, values[1:]


def _completed(problem: Problem, theta: Floats, tol: float) -> tuple[Problem, float]:
    """What was observed, completed by the marginals of the rest at theta.

    The number is the sum over partial blocks of <scores, marginals> - A(theta; observed).
    """
    blocks, entropy = [], 0.0
    for block in problem.blocks:
        if block.partial is not None:
            scores = block.scores(theta)
            found = block.partial.marginals(scores, None, 0.1 * tol * block.partial.n_nodes)
            vertex = Vertex.of(found.tau)
            entropy += block.weight * (vertex.dot(scores) - found.value)
            block = replace(block, observed=vertex)
        blocks.append(block)
    return problem.with_blocks(blocks), entropy


def _whole_fit(problem: Problem, solver: AnySolver, tol: float) -> Floats:
    """theta of the blocks that were observed whole; 0 without any."""
    whole = [block for block in problem.blocks if block.partial is None]
    if not whole:
        return np.zeros(problem.n_features)
    alone = Problem(whole, problem.alpha, problem.penalty.l1_ratio, problem.n_jobs)
    return solver.solve(alone, tol).theta
