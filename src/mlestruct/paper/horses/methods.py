"""The methods that are compared, each on one thread; a method gives one curve or more.

auto       the default solver, until its certificate
unary      no edges, which is logistic regression on all training pixels, with the same penalty
bcfw       the paper's algorithm, fixed steps, and from the same run
bcfw-wavg  the weighted average of its iterates
trw10/40   L-BFGS on a likelihood truncated after 10 or 40 sweeps of message passing
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ...baselines import TruncatedTRW
from ...learning import BlockFrankWolfe, DualProblem
from ...learning.frank_wolfe import WeightedAverage
from ...models import GridCRF

Floats = NDArray[np.float64]
Masks = Sequence[NDArray[np.int64]]

METHODS = ("auto", "unary", "bcfw", "trw10", "trw40")
CURVES = ("auto", "unary", "bcfw", "bcfw-wavg", "trw10", "trw40")


def run(
    method: str, X: Sequence[Any], Y: Masks, alpha: float, tol: float, budget: float
) -> tuple[dict[str, Trace], bool]:
    """Fit by one of `METHODS`, for at most about `budget` CPU seconds.

    Returns
    -------
    the curves of the method, and whether it ended by its own criterion
    """
    trace = Trace(np.inf if method == "unary" else budget)
    with warnings.catch_warnings(), threadpool_limits(limits=1, user_api="blas"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is returned
        if method == "unary":
            trace.keep(unary_weights(X, Y, alpha), 1)
            return {method: trace}, True
        if method == "bcfw":
            solver = TracedBlockFrankWolfe(step="fixed", iterates=trace)
            model = GridCRF(
                alpha=alpha,
                fit_intercept=False,
                solver=solver,
                tol=tol,
                max_iter=10**6,
                callback=trace,
                random_state=0,
            ).fit(X, Y)
            average = solver.average[0].value if solver.average else model.coef_
            averages = solver.averages.ending_with(average)
            return {"bcfw": trace, "bcfw-wavg": averages}, model.converged_
        if method == "auto":
            model = GridCRF(alpha=alpha, fit_intercept=False, tol=tol, callback=trace).fit(X, Y)
        else:
            sweeps = int(method.removeprefix("trw"))
            crf = GridCRF(alpha=alpha, fit_intercept=False, callback=trace.value)
            model = TruncatedTRW(crf, sweeps).fit(X, Y)
        return {method: trace.ending_with(model.coef_)}, model.converged_


# ---------------------------------------------------------------------- traces
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
        """The same, unless there are weights about as old (to 1 %)."""
        if not self.weights or self.seconds[0] >= 1.01 * self.weights[-1].cpu:
            self.keep(theta, iteration)

    def __call__(self, progress: Any) -> bool:
        """The callback of a solver; True when the budget is used up.

        Weights of zero are where a method starts, not something that it has found.
        """
        iteration = progress.iteration if self.steps is None else self.steps
        now = self.seconds
        if progress.theta.any():
            kept = self.keep(progress.theta, iteration)
            now = kept.cpu, kept.wall
        if np.isfinite([progress.dual, progress.primal]).all():
            self.certificates.append((*now, float(progress.dual), float(progress.primal)))
        return now[0] >= self.budget

    def value(self, progress: Any) -> bool:
        """The same for truncated message passing, whose `dual` is an objective without bounds."""
        self.values.append((self.seconds[0], progress.iteration, float(progress.dual)))
        return self(progress)

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
        known = {id(self.known_at(moment)) for moment in (*moments, np.inf)}
        wanted = set(iterations)
        return [w for w in self.weights if id(w) in known or w.iteration in wanted]


@dataclass(frozen=True)
class TracedBlockFrankWolfe(BlockFrankWolfe):
    """Block-coordinate Frank-Wolfe that shows its iterates between certificates."""

    iterates: Trace = field(default_factory=Trace)
    averages: Trace = field(default_factory=Trace)
    average: list[WeightedAverage] = field(default_factory=list)

    def _step(self, problem: DualProblem, state: Any, m: int, t: int, *rest: Any) -> None:
        super()._step(problem, state, m, t, *rest)
        if not self.average:
            self.average.append(WeightedAverage(problem.n_features))
        theta = problem.theta(state.r)
        self.average[0].add(theta)
        self.iterates.steps = self.averages.steps = t
        self.iterates.keep_some(theta, t)
        self.averages.keep_some(self.average[0].value, t)


# ---------------------------------------------------------------------- without edges
def unary_weights(X: Sequence[Any], Y: Masks, alpha: float) -> Floats:
    """The weights of a CRF without edges."""
    alone = []
    for nodes, _ in X:
        height, width, n_features = nodes.shape
        edges = np.zeros((height, width - 1, 1)), np.zeros((height - 1, width, 1))
        alone.append((nodes, edges))
    coef = GridCRF(alpha=alpha, fit_intercept=False, tol=1e-8).fit(alone, Y).coef_
    n_edge_features = sum(part.n_features for part in X[0][1])
    return np.concatenate([coef[: 2 * n_features], np.zeros(4 * n_edge_features)])
