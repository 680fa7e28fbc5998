"""The methods that are compared, each on one thread; a method gives one curve or more.

auto         the default solver (L-BFGS over marginals), until its certificate
unary        no edges, which is logistic regression on all training pixels, with the same penalty
bcfw         `BlockFrankWolfe.paper()`, Algorithm 1: fixed steps, and from the same run
bcfw-wavg    the weighted average of its iterates
bcfw-search  `BlockFrankWolfe.paper(line_search=True)`
trw10/20/40  L-BFGS on a likelihood truncated after 10, 20 or 40 sweeps of message passing
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ...baselines import TruncatedTRW
from ...learning import BlockFrankWolfe, DualProblem
from ...learning.frank_wolfe import WeightedAverage
from ...learning.result import Stopping
from ...models import GridCRF

Floats = NDArray[np.float64]
Masks = Sequence[NDArray[np.int64]]

METHODS = ("auto", "unary", "bcfw", "trw40", "trw10", "bcfw-search", "trw20")
CURVES = ("auto", "unary", "bcfw", "bcfw-wavg", "bcfw-search", "trw10", "trw20", "trw40")


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
        if method.startswith("bcfw"):
            problem = GridCRF(alpha=alpha, fit_intercept=False).build_problem(X, Y)
            solver = TracedBlockFrankWolfe.paper(line_search=method == "bcfw-search")
            average = solver.trace(problem, trace, tol)
            averages = {} if method == "bcfw-search" else {"bcfw-wavg": average}
            return {method: trace, **averages}, not trace.used_up
        if method == "auto":
            model = GridCRF(alpha=alpha, fit_intercept=False, tol=tol, callback=trace).fit(X, Y)
        else:
            sweeps = int(method.removeprefix("trw"))
            crf = GridCRF(alpha=alpha, fit_intercept=False, callback=trace)
            model = TruncatedTRW(crf, sweeps).fit(X, Y)
        return {method: trace.ending_with(model.coef_)}, model.converged_


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


class Clock:
    """CPU and wall seconds since it was made, without what is marked as uncounted."""

    def __init__(self) -> None:
        self._began = time.process_time(), time.perf_counter()

    @property
    def seconds(self) -> tuple[float, float]:
        return time.process_time() - self._began[0], time.perf_counter() - self._began[1]

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        before = self.seconds
        yield
        cpu, wall = (b - a for a, b in zip(before, self.seconds, strict=True))
        self._began = self._began[0] + cpu, self._began[1] + wall


@dataclass
class Trace:
    """Weights, objective values and certificates of a method, with the seconds since it began.

    budget : CPU seconds after which the method is told to stop
    weights : in the order of time
    values : CPU seconds, iteration and objective: L(tau) of the current iterate of Frank-Wolfe, the
        best L so far of auto, and of truncated message passing its own objective, which is no bound
    certificates : CPU seconds, wall seconds, upper and lower bound of the optimum
    """

    budget: float = np.inf
    clock: Clock = field(default_factory=Clock)
    weights: list[Weights] = field(default_factory=list)
    values: list[tuple[float, int, float]] = field(default_factory=list)
    certificates: list[tuple[float, float, float, float]] = field(default_factory=list)

    @property
    def used_up(self) -> bool:
        return self.clock.seconds[0] >= self.budget

    def keep(self, theta: Floats, iteration: int) -> Weights:
        kept = Weights(*self.clock.seconds, iteration, theta.copy())
        self.weights.append(kept)
        return kept

    def due(self, last: float, growth: float) -> bool:
        """Whether the time has grown by a factor since the last moment."""
        return self.clock.seconds[0] >= growth * last

    def __call__(self, progress: Any) -> bool:
        """The callback of a solver; True when the budget is used up.

        Weights of zero are where a method starts, not something that it has found.
        """
        now = self.clock.seconds
        if progress.theta.any():
            kept = self.keep(progress.theta, progress.iteration)
            now = kept.cpu, kept.wall
        self.values.append((now[0], progress.iteration, float(progress.dual)))
        self.certify(now, progress)
        return now[0] >= self.budget

    def certify(self, now: tuple[float, float], progress: Any) -> None:
        if np.isfinite([progress.dual, progress.primal]).all():
            self.certificates.append((*now, float(progress.dual), float(progress.primal)))

    def ending_with(self, theta: Floats) -> Trace:
        """This trace, with the method's answer if it is not there yet."""
        if not self.weights or not np.array_equal(self.weights[-1].theta, theta):
            self.keep(theta, self.weights[-1].iteration if self.weights else 0)
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


class _BudgetUsedError(Exception):
    """The CPU time is up."""


@dataclass(frozen=True)
class TracedBlockFrankWolfe(BlockFrankWolfe):
    """Block-coordinate Frank-Wolfe that leaves its iterates between certificates."""

    tracers: list[Any] = field(default_factory=list)

    def trace(self, problem: DualProblem, iterates: Trace, tol: float) -> Trace:
        """Solve until a gap of `tol` or the end of the budget; the trace of the averages.

        Weights are kept when the time has grown by 1 %, and L(tau), which takes a pass over all
        pixels and is not counted, when it has grown by 10 %.
        """
        averages, average = Trace(clock=iterates.clock), WeightedAverage(problem.n_features)

        def after(state: Any, step: int) -> None:
            theta, last = problem.theta(state.r), iterates.used_up
            average.add(theta)
            if last or not iterates.weights or iterates.due(iterates.weights[-1].cpu, 1.01):
                iterates.keep(theta, step)
                averages.keep(average.value, step)
            if last or not iterates.values or iterates.due(iterates.values[-1][0], 1.1):
                now = iterates.clock.seconds[0]
                with iterates.clock.uncounted():
                    state.refresh(problem)
                    iterates.values.append((now, step, state.dual(problem)))
            if last:
                raise _BudgetUsedError

        def certified(progress: Any) -> None:
            iterates.certify(iterates.clock.seconds, progress)

        self.tracers.append(after)
        stopping = Stopping(tol, max_iter=10**6, callback=certified)
        try:
            result = self.solve(problem, stopping, None, np.random.default_rng(0))
            iterates.ending_with(result.theta)
        except _BudgetUsedError:
            pass
        return averages

    def stepped(self, state: Any, t: int) -> None:
        self.tracers[-1](state, t)


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
