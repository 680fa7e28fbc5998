"""What a method leaves behind while it runs: weights and certificates, and when."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...learning import BlockFrankWolfe, DualProblem
from ...learning.averaging import WeightedAverage

Floats = NDArray[np.float64]

KEPT = 1.01  # weights are kept when this much time has passed, as a ratio


@dataclass(frozen=True)
class Weights:
    """A copy of the weights.

    cpu, wall : seconds since the method began
    iteration : how many the method had made
    """

    cpu: float
    wall: float
    iteration: int
    theta: Floats


@dataclass
class Trace:
    """Weights and certificates of a method, with CPU and wall seconds since it began.

    budget : CPU seconds after which the method is told to stop
    weights : in the order of time
    certificates : CPU seconds, wall seconds, upper and lower bound of the optimum
    values : CPU seconds, iteration and objective, of methods without bounds
    steps : iterations, if the method's own count is of something else
    """

    budget: float = np.inf
    weights: list[Weights] = field(default_factory=list)
    certificates: list[tuple[float, float, float, float]] = field(default_factory=list)
    values: list[tuple[float, int, float]] = field(default_factory=list)
    steps: int | None = None
    began: tuple[float, float] = field(
        default_factory=lambda: (time.process_time(), time.perf_counter())
    )

    @property
    def seconds(self) -> tuple[float, float]:
        return time.process_time() - self.began[0], time.perf_counter() - self.began[1]

    def keep(self, theta: Floats, iteration: int) -> Weights:
        kept = Weights(*self.seconds, iteration, theta.copy())
        self.weights.append(kept)
        return kept

    def keep_some(self, theta: Floats, iteration: int) -> None:
        """The same, unless there are weights about as old."""
        if not self.weights or self.seconds[0] >= KEPT * self.weights[-1].cpu:
            self.keep(theta, iteration)

    def __call__(self, progress: Any) -> bool:
        """The callback of a solver; True when the budget is used up.

        Weights of zero are where a method starts, not something that it has found. Truncated
        message passing has an objective, but no bounds.
        """
        iteration = progress.iteration if self.steps is None else self.steps
        now = self.seconds
        if progress.theta.any():
            kept = self.keep(progress.theta, iteration)
            now = kept.cpu, kept.wall
        bounds = [getattr(progress, name, np.nan) for name in ("dual", "primal")]
        if np.isfinite(bounds).all():
            self.certificates.append((*now, float(bounds[0]), float(bounds[1])))
        if hasattr(progress, "objective"):
            self.values.append((now[0], iteration, float(progress.objective)))
        return now[0] >= self.budget

    def ending_with(self, theta: Floats) -> Trace:
        """This trace, with the method's answer if it is not there yet."""
        if not self.weights or not np.array_equal(self.weights[-1].theta, theta):
            last = self.weights[-1].iteration if self.weights else 0
            self.keep(theta, last if self.steps is None else self.steps)
        return self

    def known_at(self, moment: float) -> Weights | None:
        """The last weights known at a moment (CPU seconds)."""
        known = [weights for weights in self.weights if weights.cpu <= moment]
        return known[-1] if known else None

    def at(self, moments: Iterable[float], iterations: Iterable[int] = ()) -> list[Weights]:
        """The last weights known at each of the moments, those of iterations, the last of all."""
        times = np.array([weights.cpu for weights in self.weights])
        known = np.searchsorted(times, np.asarray(list(moments), dtype=float), side="right") - 1
        chosen = {int(k) for k in known if k >= 0} | {len(times) - 1}
        wanted = set(iterations)
        chosen |= {k for k, weights in enumerate(self.weights) if weights.iteration in wanted}
        return [self.weights[k] for k in sorted(chosen)]


@dataclass(frozen=True)
class TracedBlockFrankWolfe(BlockFrankWolfe):
    """Block-coordinate Frank-Wolfe that shows its iterates between certificates."""

    iterates: Trace = field(default_factory=Trace)
    averages: Trace = field(default_factory=Trace)
    average: list[WeightedAverage] = field(default_factory=list)

    def _step(self, problem: DualProblem, state: Any, m: int, t: int, *rest: Any) -> float:
        gap = super()._step(problem, state, m, t, *rest)
        if not self.average:
            self.average.append(WeightedAverage(problem.n_features))
        theta = problem.theta(state.r)
        self.average[0].add(theta)
        self.iterates.steps = self.averages.steps = t
        self.iterates.keep_some(theta, t)
        self.averages.keep_some(self.average[0].value, t)
        return gap
