"""Marginals of all blocks, what follows from them, and the MAP calls at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import check_memory
from .._deadline import check_time
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
