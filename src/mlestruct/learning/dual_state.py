"""The state of the Frank-Wolfe solvers: marginals of all blocks, and where they start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._deadline import check_time
from .._memory import check_memory
from ..exceptions import CheckpointError
from .penalty import ElasticNet
from .problem import Problem

Floats = NDArray[np.float64]
Start = Literal["near", "uniform"]

# Parts of the interior point in starts near the observed outputs.
MIXTURES: list[float] = [*(10.0 ** np.arange(-8.0, -0.5, 0.5)).tolist(), 0.6, 0.9, 1.0]


@dataclass
class DualState:
    """State of the Frank-Wolfe solvers: each block's tau and moments, and r."""

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
    def restored(cls, problem: Problem, known: dict[str, Any]) -> DualState:
        """A state from its attributes."""
        state = cls(**known)
        sizes = [tau.shape for tau in state.tau]
        if sizes != [(block.structure.n_coordinates,) for block in problem.blocks]:
            raise CheckpointError("checkpoint: marginals of other output spaces")
        for block, tau in zip(problem.blocks, state.tau, strict=True):
            block.structure.entropy(
                tau
            )  # as a start does: threads of BLAS may change rho's rounding
        return state

    def refresh(self, problem: Problem) -> None:
        """Recompute r and all entropies, removing accumulated rounding."""
        self.r = problem.weights @ (problem.observed_moments - self.moments)
        self.refresh_entropies(problem)

    def refresh_entropies(self, problem: Problem) -> None:
        """Recompute all entropies."""
        for m, (block, tau) in enumerate(zip(problem.blocks, self.tau, strict=True)):
            self.entropies[m] = block.structure.entropy(tau) - block.offset_gap(tau)

    def dual(self, problem: Problem) -> float:
        """L(tau)."""
        return float(problem.penalty.conjugate(self.r) - problem.weights @ self.entropies)


def starting_state(
    problem: Problem,
    warm: DualState | None,
    where: Start = "near",
    known: dict[str, Any] | None = None,
) -> DualState:
    """From the marginals of an earlier state, near the observed outputs, or in the interior.

    `known` is the state of a checkpoint, which is continued as it is.

    Only the marginals are taken over: all else depends on the data, which may have changed.
    """
    if known is not None:
        return DualState.restored(problem, known["state"])
    if warm is not None:
        return DualState.at(problem, [tau.copy() for tau in warm.tau])
    size = sum(float(block.structure.n_coordinates) for block in problem.blocks)
    check_memory(3.0 * size, "marginals of all samples")  # observed, interior and current ones
    if where == "uniform":
        return DualState.at(problem, [b.structure.interior().copy() for b in problem.blocks])
    return start_near_observed(problem)


def start_near_observed(problem: Problem) -> DualState:
    """tau = (1 - eps) y + eps * interior with the eps of a coarse grid that minimises L.

    A uniform start is many times worse where marginals are peaked: |r|, and so theta, is very
    large there.
    """
    mixtures = Mixtures(problem)
    eps = best_mixture(problem.penalty, mixtures.residual, mixtures.terms)
    return mixtures.state(eps)


class Mixtures:
    """Points between the observed outputs and the interior points of all blocks."""

    def __init__(self, problem: Problem):
        self._problem, blocks = problem, problem.blocks
        self._interior = [b.structure.interior() for b in blocks]
        self._observed = [b.observed.dense(b.structure.n_coordinates) for b in blocks]

    @property
    def residual(self) -> Floats:
        """r at the interior points."""
        problem = self._problem
        inside = [b.moments(t) for b, t in zip(problem.blocks, self._interior, strict=True)]
        return problem.weights @ (problem.observed_moments - np.array(inside))

    def terms(self, eps: float) -> float:
        """L without R*."""
        check_time("the start near the observed outputs")
        total = 0.0
        for block, point in zip(self._problem.blocks, self.points(eps), strict=True):
            total += block.weight * (block.offset_gap(point) - block.structure.entropy(point))
        return total

    def points(self, eps: float) -> Iterator[Floats]:
        """One of each block."""
        for y, t in zip(self._observed, self._interior, strict=True):
            yield y + eps * (t - y)

    def state(self, eps: float) -> DualState:
        """The state at the points."""
        return DualState.at(self._problem, list(self.points(eps)))


def best_mixture(penalty: ElasticNet, residual: Floats, terms: Callable[[float], float]) -> float:
    """The eps of `MIXTURES` that minimises L, from `Mixtures.residual` and `Mixtures.terms`."""

    def objective(eps: float) -> float:
        return penalty.conjugate(eps * residual) + terms(eps)

    # L is convex along the segment: descend from the middle.
    at = int(np.searchsorted(MIXTURES, 1e-2))
    best = objective(MIXTURES[at])
    for direction in (-1, 1):
        while 0 <= at + direction < len(MIXTURES):
            following = objective(MIXTURES[at + direction])
            if following >= best:
                break
            best, at = following, at + direction
    return MIXTURES[at]
