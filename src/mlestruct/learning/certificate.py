"""Certificates from MAP calls alone, for the Frank-Wolfe solvers.

* The classical Frank-Wolfe gap: sum_m w_m <-grad_m L, s_m - tau_m> >= L(tau) - optimum.
* The price bound, where the structure has one: the decoder's dual prices, inserted into the
  semi-dual of log Z_rho, bound A_m from above and so P(theta) from below. Usually far tighter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..structures.contract import Vertex
from .problem import DualProblem, DualState

Floats = NDArray[np.float64]


@dataclass
class LinearStep:
    """The Frank-Wolfe subproblem of one block: its vertex, gap and prices."""

    vertex: Vertex
    gap: float
    scores: Floats
    prices: Floats | None
    sums: Any  # of the entropy, reused by the line search


def linear_step(
    problem: DualProblem,
    state: DualState,
    m: int,
    theta: Floats,
    warm: Floats | None,
    want_prices: bool,
) -> LinearStep:
    """Maximise <G theta + o + grad H(tau_m), s> over the polytope of block m: one MAP call."""
    block = problem.blocks[m]
    structure, tau = block.structure, state.tau[m]
    scores = block.scores(theta)
    direction, sums = structure.stepping_entropy.add_gradient(tau, scores)
    if structure.offers("price_bound"):
        found = structure.decode(direction, warm, prices=want_prices)
    else:
        found = structure.decode(direction)
    gap = found.score - float(direction @ tau)
    return LinearStep(found.vertex, gap, scores, found.prices, sums)


def certify_theta(
    problem: DualProblem, state: DualState, prices: list[Floats | None], theta: Floats
) -> float:
    """A lower bound of P at any theta from prices found elsewhere; -inf if there is none."""
    log_partition = 0.0
    for block, tau, known in zip(problem.blocks, state.tau, prices, strict=True):
        if known is None or not block.structure.offers("price_bound"):
            return -np.inf
        bound = block.structure.price_bound(block.scores(theta), known, tau)
        log_partition += block.weight * bound
    return problem.primal(theta, log_partition)


@dataclass
class Certificate:
    """Bounds at one state: L(tau), a lower bound of P(theta(tau)), and the Frank-Wolfe gap."""

    dual: float
    primal: float
    fw_gap: float
    block_gaps: Floats


def certify(
    problem: DualProblem, state: DualState, prices: list[Floats | None]
) -> tuple[Certificate, list[LinearStep]]:
    """One MAP call per block at theta(tau); `prices` are warm starts, updated in place."""
    theta = problem.theta(state.r)
    steps = []
    log_partition = 0.0
    for m, block in enumerate(problem.blocks):
        step = linear_step(problem, state, m, theta, prices[m], True)
        steps.append(step)
        if step.prices is None:
            log_partition = np.inf
        else:
            prices[m] = step.prices
            tau = state.tau[m]
            bound = block.structure.price_bound(step.scores, step.prices, tau)
            # By concavity, A is also at most the value at tau plus the Frank-Wolfe gap.
            attained = float(step.scores @ tau) + state.entropies[m] + block.offset_gap(tau)
            log_partition += block.weight * min(bound, attained + max(step.gap, 0.0))
    gaps = np.array([step.gap for step in steps])
    primal = problem.primal(theta, log_partition) if np.isfinite(log_partition) else -np.inf
    return Certificate(state.dual(problem), primal, float(problem.weights @ gaps), gaps), steps
