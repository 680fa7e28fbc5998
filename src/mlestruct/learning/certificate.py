"""Marginals of all blocks, the MAP calls at them, and what these prove: for solvers that decode.

One MAP call per block (`certify`) gives two bounds of the optimum:

* The Frank-Wolfe gap: sum_m w_m <-grad_m L, s_m - tau_m> >= L(tau) - optimum.
* The price bound, if the structure has one: the decoder's dual prices, inserted into the semi-dual
  of log Z_rho, bound A_m from above and so P(theta) from below. Usually far tighter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arguments import check_memory
from .._running import check_time
from ..algorithms.frank_wolfe import checked_gap
from ..exceptions import CheckpointError
from ..structures.contract import Vertex
from .problem import Block, Problem

Floats = NDArray[np.float64]


@dataclass
class DualState:
    """Each block's tau with its moments and entropy, and r."""

    tau: list[Floats]
    moments: Floats  # (n_blocks, n_features)
    entropies: Floats  # H_m(tau_m) + <o_m, tau_m - y_m>, (n_blocks,)
    r: Floats

    @classmethod
    def at(cls, problem: Problem, tau: list[Floats]) -> DualState:
        """The state of given marginals; everything else follows from them."""
        moments = np.array([b.moments(t) for b, t in zip(problem.blocks, tau, strict=True)])
        state = cls(tau, moments, np.zeros(len(tau)), np.zeros(problem.n_features))
        state.refresh(problem)
        return state

    @classmethod
    def first(cls, problem: Problem, warm: DualState | None) -> DualState:
        """The interior point of every block, or the marginals of an earlier state.

        Only the marginals are taken over: the data may have changed.
        """
        size = sum(float(block.structure.n_coordinates) for block in problem.blocks)
        check_memory(2.0 * size, "marginals of all samples")
        if warm is None:
            return cls.at(problem, [block.structure.interior().copy() for block in problem.blocks])
        return cls.at(problem, [tau.copy() for tau in warm.tau])

    @classmethod
    def restored(cls, problem: Problem, known: dict[str, Any]) -> DualState:
        """A state from its attributes in a checkpoint."""
        state = cls(**known)
        sizes = [tau.shape for tau in state.tau]
        if sizes != [(block.structure.n_coordinates,) for block in problem.blocks]:
            raise CheckpointError("checkpoint: marginals of other output spaces")
        for block, tau in zip(problem.blocks, state.tau, strict=True):
            block.structure.entropy(tau)  # as a start does: BLAS threads may change rho's rounding
        return state

    def refresh(self, problem: Problem) -> None:
        """Recompute r and all entropies, removing accumulated rounding."""
        self.r = problem.weights @ (problem.observed_moments - self.moments)
        for m, (block, tau) in enumerate(zip(problem.blocks, self.tau, strict=True)):
            self.entropies[m] = block.structure.entropy(tau) - block.offset_gap(tau)

    def dual(self, problem: Problem) -> float:
        """L(tau)."""
        return float(problem.penalty.conjugate(self.r) - problem.weights @ self.entropies)


@dataclass(slots=True)
class LinearStep:
    """The answer to the linear subproblem of a block.

    gap : the block's Frank-Wolfe gap, by the decoder's upper bound
    slack : the part of the gap between the vertex and that bound
    sums : of the entropy, reused by the line search
    """

    vertex: Vertex
    gap: float
    slack: float
    scores: Floats
    prices: Floats | None
    sums: Any


def linear_step(
    block: Block, tau: Floats, theta: Floats, warm: Floats | None = None, prices: bool = False
) -> LinearStep:
    """Maximise <G theta + o + grad H(tau), s> over the polytope of a block: one MAP call."""
    check_time("a pass of MAP calls")
    scores = block.scores(theta)
    direction, sums = block.structure.stepping_entropy.add_gradient(tau, scores)
    found = block.decode(direction, warm, prices)
    gap = checked_gap(
        block.structure, direction, tau, found, block.name, block.observed.dense(tau.shape[0])
    )
    return LinearStep(found.vertex, gap, min(found.gap, gap), scores, found.prices, sums)


@dataclass(frozen=True)
class Certificate:
    """What one MAP call per block proves.

    log_partition : an upper bound of sum_m w_m A_m
    fw_gap : the Frank-Wolfe gap
    slack : the part of the gap between a decoder's outputs and its upper bounds
    """

    log_partition: float
    fw_gap: float
    slack: float


def certify(
    problem: Problem, state: DualState, theta: Floats, prices: list[Floats | None]
) -> tuple[Certificate, list[LinearStep]]:
    """One MAP call per block at theta; `prices` are warm starts, updated in place.

    A of a block is at most the value at tau plus the gap, by concavity, and the price bound.
    """

    def step(m: int) -> tuple[LinearStep, float]:
        block, tau = problem.blocks[m], state.tau[m]
        found = linear_step(block, tau, theta, prices[m], True)
        upper = float(found.scores @ tau) + block.structure.entropy(tau) + found.gap
        if found.prices is not None:
            upper = min(upper, block.structure.price_bound(found.scores, found.prices, tau))
        return found, upper

    steps, uppers = zip(*problem.each(step, range(len(problem.blocks))), strict=True)
    prices[:] = [step.prices for step in steps]
    gap, slack = ([getattr(step, name) for step in steps] for name in ("gap", "slack"))
    weights = problem.weights
    found = Certificate(float(weights @ uppers), float(weights @ gap), float(weights @ slack))
    return found, list(steps)
