"""What all solvers share: stopping rule, bounds and history of a run, and its result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from .._deadline import is_over, time_limit
from ..exceptions import OutOfTimeError
from .checkpoint import Checkpoint
from .problem import Block, DualProblem

Floats = NDArray[np.float64]

COLUMNS = ("iteration", "seconds", "oracle_calls", "dual", "primal", "gap", "fw_gap")


@dataclass
class History:
    """One row per certificate.

    dual, primal : best proven upper and lower bounds of the optimum so far; gap their difference.
    fw_gap : the classical Frank-Wolfe gap at that moment (NaN for solvers that have none).
    """

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    oracle_calls: list[int] = field(default_factory=list)
    dual: list[float] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    gap: list[float] = field(default_factory=list)
    fw_gap: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.seconds)

    def append(self, *row: float) -> None:
        for name, value in zip(COLUMNS, row, strict=True):
            getattr(self, name).append(value)

    def to_frame(self) -> Any:
        """The history as a pandas DataFrame (needs pandas)."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError(
                "History.to_frame needs pandas: pip install 'mlestruct[frame]'"
            ) from error
        return pandas.DataFrame({name: getattr(self, name) for name in COLUMNS})

    def to_dict(self) -> dict[str, list[float]]:
        return {name: list(getattr(self, name)) for name in COLUMNS}

    def __str__(self) -> str:
        return self.table()

    def table(self, rows: int = 12) -> str:
        """A printable table of at most `rows` rows, first and last included."""
        picked = np.unique(np.linspace(0, len(self) - 1, min(rows, len(self))).astype(int))
        widths = (9, 9, 14, 14, 14, 11, 11)
        lines = ["".join(f"{name:>{w}}" for name, w in zip(COLUMNS, widths, strict=True))]
        for k in picked:
            lines.append(
                f"{self.iteration[k]:>9d}{self.seconds[k]:>9.2f}{self.oracle_calls[k]:>14d}"
                f"{self.dual[k]:>14.6g}{self.primal[k]:>14.6g}{self.gap[k]:>11.2e}"
                + (f"{self.fw_gap[k]:>11.2e}" if np.isfinite(self.fw_gap[k]) else f"{'-':>11}")
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Progress:
    """The argument of a callback, which stops the solver by returning True.

    latest_dual : the dual value of this iterate; `dual` is the smallest so far
    average : the weighted average of the iterates so far, with solvers that return it
    """

    iteration: int
    seconds: float
    oracle_calls: int
    dual: float
    primal: float
    gap: float
    fw_gap: float
    theta: Floats
    latest_dual: float = np.nan
    average: Floats | None = None


Callback = Callable[[Progress], Any]


@dataclass(frozen=True)
class Stopping:
    """When to stop: gap <= tol * max(1, |objective|), or a budget is used up."""

    tol: float = 1e-3
    max_iter: int = 1000
    max_time: float | None = None
    callback: Callback | None = None
    verbose: int = 0
    checkpoint: Checkpoint | None = None


def certified_gap(dual: float, primal: float) -> float:
    """The distance of two bounds, at least what is known of their rounding.

    Where the lower one is above the upper one, rounding is at least their difference.
    """
    gap = dual - primal
    if not np.isfinite(gap) or gap < -1e-6 * (1.0 + abs(dual)):
        return np.inf  # contradicting bounds are no certificate
    return max(abs(gap), float(np.finfo(float).eps) * max(abs(dual), abs(primal)))


class Monitor:
    """Keeps the best bounds and the theta that attains the best primal value.

    Solvers call `record` with new bounds; it returns True when they should stop.
    """

    def __init__(self, stopping: Stopping, name: str):
        self.stopping = stopping
        self.name = name
        self.history = History()
        self.dual = np.inf
        self.primal = -np.inf
        self.theta: Floats | None = None
        self.latest: tuple[Floats, float] | None = None  # the last theta and its primal bound
        self.converged = False
        self.stopped = False
        self.interrupted = False
        self.slack = 0.0
        self.iterations = 0
        self.oracle_calls = 0
        self._start = time.perf_counter()
        self._before = 0.0  # seconds of the runs that this one continues
        self._bar = _Bar(name) if stopping.verbose else None

    @property
    def seconds(self) -> float:
        return self._before + time.perf_counter() - self._start

    @property
    def gap(self) -> float:
        return certified_gap(self.dual, self.primal)

    def forget_bounds(self) -> None:
        """Discard the bounds, for problems whose values do not bound each other."""
        self.dual, self.primal = np.inf, -np.inf

    @property
    def tolerance(self) -> float:
        """The absolute gap to reach."""
        bounds = [abs(b) for b in (self.dual, self.primal) if np.isfinite(b)]
        return self.stopping.tol * max(1.0, min(bounds, default=1.0))

    def out_of_time(self) -> bool:
        limit = self.stopping.max_time
        return is_over() or (limit is not None and self.seconds - self._before >= limit)

    def record(
        self,
        iteration: int,
        theta: Floats,
        *,
        dual: float,
        primal: float = -np.inf,
        fw_gap: float = np.nan,
        average: Floats | None = None,
    ) -> bool:
        """Take new bounds; `primal` belongs to `theta`. A Frank-Wolfe gap is a bound as well."""
        self.iterations = iteration
        self.dual = min(self.dual, dual)
        lower = primal
        if np.isfinite(fw_gap):
            lower = max(lower, dual - fw_gap)
        self.latest = theta.copy(), lower
        if self.theta is None or lower > self.primal:
            self.theta = self.latest[0]
        self.primal = max(self.primal, lower)
        self.history.append(
            iteration, self.seconds, self.oracle_calls, self.dual, self.primal, self.gap, fw_gap
        )
        self.converged = bool(self.gap <= self.tolerance)
        if self._bar is not None:
            self._bar.show(iteration, self.seconds, self.gap, self.tolerance)
        stop = self.converged or self.out_of_time()
        if self.stopping.callback is not None:
            progress = Progress(
                iteration, self.seconds, self.oracle_calls, self.dual, self.primal, self.gap,
                fw_gap, theta, dual, average,
            )  # fmt: skip
            stop = bool(self.stopping.callback(progress)) or stop
        self.stopped = stop
        return stop

    def resume(self) -> dict[str, Any] | None:
        """The solver's state in the checkpoint, if there is one; bounds and history follow it."""
        checkpoint = self.stopping.checkpoint
        if checkpoint is None or checkpoint.state is None:
            return None
        state = dict(checkpoint.state)
        known = state.pop("monitor")
        self.history, self._before = History(**known["history"]), known["seconds"]
        self.dual, self.primal, self.theta = known["dual"], known["primal"], known["theta"]
        self.latest = known["latest"]
        self.iterations, self.oracle_calls = known["iterations"], known["oracle_calls"]
        return state

    def keep(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write a checkpoint, if there is one and it is time; `state` is the solver's own."""
        if self.stopping.checkpoint is not None:
            self.stopping.checkpoint.keep(lambda: {"monitor": self._state(), **state()})

    def _state(self) -> dict[str, Any]:
        return {
            "history": self.history.to_dict(),
            "seconds": self.seconds,
            "dual": self.dual,
            "primal": self.primal,
            "theta": self.theta,
            "latest": self.latest,
            "iterations": self.iterations,
            "oracle_calls": self.oracle_calls,
        }

    def result(self, theta: Floats, state: Any) -> Result:
        """What has been found, with `theta` as the weights."""
        return Result(
            theta=theta,
            objective=self.dual,
            primal=self.primal,
            gap=self.gap,
            tolerance=self.tolerance,
            converged=self.converged,
            interrupted=self.interrupted,
            iterations=self.iterations,
            oracle_calls=self.oracle_calls,
            seconds=self.seconds,
            solver=self.name,
            history=self.history,
            state=state,
            slack=min(self.slack, self.gap),  # of the last certificate, whose gap may be larger
        )

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.close()


class _Bar:
    """A one-line progress bar: decrease of the gap in orders of magnitude, relative to the goal."""

    WIDTH = 24

    def __init__(self, name: str):
        self.name = name
        self.first: float | None = None
        self.shown = -1.0
        sys.stderr.write(f"\r{name}: starting ")
        sys.stderr.flush()

    def show(self, iteration: int, seconds: float, gap: float, tolerance: float) -> None:
        if seconds - self.shown < 0.1 and gap > tolerance:
            return
        self.shown = seconds
        if self.first is None and np.isfinite(gap):
            self.first = max(gap, tolerance)
        done = 0.0
        if self.first is not None and self.first > tolerance and gap > 0:
            done = np.log(self.first / gap) / np.log(self.first / tolerance)
        filled = int(self.WIDTH * min(max(done, 0.0), 1.0)) if gap > tolerance else self.WIDTH
        bar = "#" * filled + "-" * (self.WIDTH - filled)
        sys.stderr.write(
            f"\r{self.name} [{bar}] gap {gap:.2e} / {tolerance:.1e}  "
            f"iteration {iteration}  {seconds:.1f} s "
        )
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")
        sys.stderr.flush()


@dataclass
class Result:
    """A learned theta with its certificate.

    objective : the best dual value, an upper bound of the optimum
    primal : a proven lower bound of P(theta)
    gap : objective - primal; theta is within `gap` of the best attainable log-likelihood
    tolerance : the absolute gap to reach
    slack : the part of the gap that is left by upper bounds of a decoder, in the last certificate
    proven : whether all output spaces, those of partitions included, have proven bounds
    setup, setup_calls : seconds and calls of oracles before the solver, which does not count them
    state : the argument `warm` with which the same solver continues
    """

    theta: Floats
    objective: float
    primal: float
    gap: float
    tolerance: float
    converged: bool
    interrupted: bool
    iterations: int
    oracle_calls: int
    seconds: float
    solver: str
    history: History
    state: Any
    slack: float = 0.0
    proven: bool = True
    setup: float = 0.0
    setup_calls: int = 0

    def use(self, theta: Floats, primal: float) -> None:
        """Return `theta` instead, with its own lower bound of P."""
        self.theta, self.primal = theta, primal
        self.gap = certified_gap(self.objective, primal)
        self.converged = self.gap <= self.tolerance


def run(
    problem: DualProblem,
    monitor: Monitor,
    loop: Callable[[], Any],
    theta: Callable[[], Floats],
    n_jobs: int | None = None,
) -> Result:
    """Run a solver's loop, which returns its final state, and collect the result.

    At the end of the time and on KeyboardInterrupt the best theta so far is kept; `theta` gives the
    current one if the loop ended without a certificate.
    """
    state = None
    with time_limit(monitor.stopping.max_time) as deadline:
        try:
            with blas_threads(problem.blocks, n_jobs):
                state = loop()
        except OutOfTimeError:
            pass
        except KeyboardInterrupt:
            monitor.interrupted = True
        finally:
            deadline.cancel()  # of what still runs on other threads
            monitor.finish()
    result = monitor.result(theta() if monitor.theta is None else monitor.theta, state)
    result.proven = all(block.structure.has_bound for block in problem.blocks)
    return result


def nothing_learned(problem: DualProblem, solver: str, interrupted: bool) -> Result:
    """The result where the time was up, or Ctrl-C came, before the first step: theta = 0."""
    monitor = Monitor(Stopping(), solver)
    monitor.interrupted = interrupted
    return monitor.result(np.zeros(problem.n_features), None)


def blas_threads(blocks: Sequence[Block], n_jobs: int | None) -> AbstractContextManager[Any]:
    """One BLAS thread where blocks are small or run in parallel themselves.

    Products of small matrices gain nothing from threads and lose much when cores are shared.
    """
    matrices = [block.features.matrix for block in blocks]
    largest = max((matrix.size for matrix in matrices if matrix is not None), default=0)
    if largest >= 2_000_000 and (n_jobs or 1) == 1:
        return nullcontext()
    return one_blas_thread()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Products of a few hundred rows at a time gain nothing from threads and can lose a lot."""
    return _loaded_libraries().limit(limits=1, user_api="blas")


@cache
def _loaded_libraries() -> ThreadpoolController:
    """Looking for the libraries of a process takes longer than many a fit: it is done once."""
    return ThreadpoolController()
