"""What all solvers share: budget, stopping rule, history, result, paths of alpha.

A solver is any object with a method `solve(problem, tol, start)` that returns a `Result`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .._arguments import as_positive
from .._running import is_over, time_limit
from ..exceptions import OutOfTimeError
from .checkpoint import Checkpoint
from .problem import Problem

Floats = NDArray[np.float64]

COLUMNS = (
    "iteration", "seconds", "oracle_calls", "objective", "objective_bound", "gap", "fw_gap"
)  # fmt: skip
EPS = float(np.finfo(np.float64).eps)
PATIENCE = 50  # records without progress after which L-BFGS stops


class AnySolver(Protocol):
    """What `fit` needs of a solver."""

    def solve(self, problem: Problem, tol: float, start: Any = None) -> Result:
        """Maximise P until gap <= tol * max(1, |objective|), from the state of another result."""


@dataclass(frozen=True, kw_only=True)
class Solver:
    """Base of the solvers of this package: its parameters are the budget of a run.

    Parameters
    ----------
    max_iter : int, optional
    max_time : float, optional
        Seconds after which to stop; in `fit` they include the set-up.
    callback : callable, optional
        Called with a `Progress` at every certificate; returning True stops.
    verbose : int, optional
        1 shows a progress bar with the gap.
    random_state : int or Generator, optional
    checkpoint : Checkpoint, optional

    The estimator sets each parameter that is None; without an estimator `max_iter` is 1000.
    """

    max_iter: int | None = None
    max_time: float | None = None
    callback: Callable[[Progress], Any] | None = None
    verbose: int | None = None
    random_state: Any = None
    checkpoint: Checkpoint | None = None

    name: ClassVar[str] = ""
    one_block_per_sample: ClassVar[bool] = False  # whether samples may not be merged into blocks
    starts_from_weights: ClassVar[bool] = False  # whether `start` may be a `Start` with weights

    def check(self, problem: Problem) -> None:
        """Raise unless the output spaces of the problem offer what the solver needs."""

    def solve(self, problem: Problem, tol: float, start: Any = None) -> Result:
        """Maximise P until gap <= tol * max(1, |objective|), from the state of another result."""
        raise NotImplementedError


def with_budget(solver: Any, **budget: Any) -> Any:
    """The solver with those parts of a budget that it takes and leaves open."""
    if not is_dataclass(solver) or isinstance(solver, type):
        return solver
    open_ = {f.name for f in fields(solver) if f.init and getattr(solver, f.name) is None}
    return replace(solver, **{name: budget[name] for name in budget if name in open_})


@dataclass
class History:
    """One row per certificate.

    objective : the best proven value of P so far, a lower bound of the optimum
    objective_bound : the best proven upper bound of the optimum so far
    gap : their difference; without a bound (`objective_bound` is infinite) the distance from a
        stationary point
    fw_gap : the classical Frank-Wolfe gap at that moment (NaN for solvers that have none)
    """

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    oracle_calls: list[int] = field(default_factory=list)
    objective: list[float] = field(default_factory=list)
    objective_bound: list[float] = field(default_factory=list)
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
        return pandas.DataFrame(self.to_dict())

    def to_dict(self) -> dict[str, list[float]]:
        return {name: list(getattr(self, name)) for name in COLUMNS}

    def __str__(self) -> str:
        return self.table()

    def table(self, rows: int = 12) -> str:
        """A printable table of at most `rows` rows, first and last included."""
        picked = np.unique(np.linspace(0, len(self) - 1, min(rows, len(self))).astype(int))
        widths = (9, 9, 14, 14, 17, 11, 11)
        lines = ["".join(f"{name:>{w}}" for name, w in zip(COLUMNS, widths, strict=True))]
        for k in picked:
            lines.append(
                f"{self.iteration[k]:>9d}{self.seconds[k]:>9.2f}{self.oracle_calls[k]:>14d}"
                f"{self.objective[k]:>14.6g}{self.objective_bound[k]:>17.6g}{self.gap[k]:>11.2e}"
                + (f"{self.fw_gap[k]:>11.2e}" if np.isfinite(self.fw_gap[k]) else f"{'-':>11}")
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class Progress:
    """The argument of a callback, which stops the solver by returning True.

    objective, objective_bound, gap, fw_gap : as in `History`
    latest_bound : the dual value of this iterate; `objective_bound` is the smallest so far
    average : the weighted average of the iterates so far, from solvers that return it
    """

    iteration: int
    seconds: float
    oracle_calls: int
    objective: float
    objective_bound: float
    gap: float
    fw_gap: float
    theta: Floats
    latest_bound: float = np.nan
    average: Floats | None = None


def certified_gap(dual: float, primal: float) -> float:
    """The distance of two bounds, which rounding may exchange; infinite if they contradict."""
    gap = dual - primal
    if not np.isfinite(gap) or gap < -1e-6 * (1.0 + abs(dual)):
        return np.inf  # contradicting bounds are no certificate
    return max(abs(gap), EPS * max(abs(dual), abs(primal)))


@dataclass
class Result:
    """A learned theta with its certificate.

    objective : a proven lower bound of P(theta)
    objective_bound : the best dual value, an upper bound of the optimum; infinite without one
    gap : their difference: P(theta) is within `gap` of the optimum. Without a bound the distance
        from a stationary point; NaN from solvers without either, which have no tolerance to miss
    tolerance : the absolute gap to reach
    state : the argument `start` with which the same solver continues
    slack : the part of the gap that upper bounds of a decoder leave, in the last certificate
    proven : whether the bounds of all oracles are proven
    stalled : whether the solver stopped because the gap did not fall any more
    """

    theta: Floats
    objective: float
    objective_bound: float
    gap: float
    tolerance: float
    converged: bool
    interrupted: bool
    iterations: int
    oracle_calls: int
    seconds: float
    solver: str
    history: History
    state: Any = None
    slack: float = 0.0
    proven: bool = True
    stalled: bool = False

    def use(self, theta: Floats, objective: float) -> None:
        """Return `theta` instead, with its own lower bound of P."""
        self.theta, self.objective = theta, objective
        self.gap = certified_gap(self.objective_bound, objective)
        self.converged = self.gap <= self.tolerance


class Monitor:
    """Keeps the best bounds and the theta that attains the best primal value.

    Solvers call `record` with new bounds; it returns True when they should stop. If the dual values
    of a problem do not bound it (`has_bound` is False), the difference of the last two values only
    says how far theta is from a stationary point.
    """

    def __init__(self, solver: Solver, tol: float, has_bound: bool = True):
        self.solver, self.tol, self.has_bound = solver, tol, has_bound
        self.max_iter = 1000 if solver.max_iter is None else solver.max_iter
        self.history = History()
        self.dual = np.inf
        self.primal = -np.inf
        self.theta: Floats | None = None
        self.latest: tuple[Floats, float] | None = None  # the last theta and its primal bound
        self.converged = self.stopped = self.interrupted = False
        self.slack = 0.0
        self.stationarity = np.inf  # the last dual value minus the last primal one
        self.iterations = self.oracle_calls = 0
        self._start = time.perf_counter()
        self._before = 0.0  # seconds of the runs that this one continues
        self._bar = _Bar(solver.name) if solver.verbose else None

    @property
    def seconds(self) -> float:
        return self._before + time.perf_counter() - self._start

    @property
    def gap(self) -> float:
        if not self.has_bound:
            return max(self.stationarity, EPS * abs(self.primal))
        return certified_gap(self.dual, self.primal)

    @property
    def tolerance(self) -> float:
        """The absolute gap to reach."""
        bounds = [abs(b) for b in (self.dual, self.primal) if np.isfinite(b)]
        return self.tol * max(1.0, min(bounds, default=1.0))

    def record(
        self,
        iteration: int,
        theta: Floats,
        *,
        dual: float,
        primal: float = -np.inf,
        fw_gap: float = np.nan,
        average: Floats | None = None,
        rounding: float = 0.0,
    ) -> bool:
        """Take new bounds; `primal` belongs to `theta`. A Frank-Wolfe gap is a bound as well.

        `rounding` is what rounding may have added to either.
        """
        self.iterations = iteration
        lower = max(primal, dual - fw_gap) if np.isfinite(fw_gap) else primal
        lower, dual = lower - rounding, dual + rounding
        self.latest = theta.copy(), lower
        if self.theta is None or lower > self.primal or not self.has_bound:
            self.theta, self.primal = self.latest
        if self.has_bound:
            self.dual = min(self.dual, dual)
        self.stationarity = dual - lower
        row = self.oracle_calls, self.primal, self.dual, self.gap, fw_gap
        self.history.append(iteration, self.seconds, *row)
        self.converged = bool(self.gap <= self.tolerance)
        if self._bar is not None:
            self._bar.show(iteration, self.seconds, self.gap, self.tolerance)
        self.stopped = self.converged or is_over()
        if self.solver.callback is not None:
            progress = Progress(iteration, self.seconds, *row, theta, dual, average)
            self.stopped = bool(self.solver.callback(progress)) or self.stopped
        return self.stopped

    @property
    def stalled(self) -> bool:
        """Whether neither the gap nor the objective has changed much for `PATIENCE` records."""
        gaps, values = self.history.gap, self.history.objective
        if len(gaps) <= PATIENCE or self.converged:
            return False
        same = min(gaps[-PATIENCE:]) >= 0.99 * min(gaps[:-PATIENCE])
        return same and values[-1] - values[-PATIENCE - 1] <= 0.1 * self.tolerance

    def resume(self) -> dict[str, Any] | None:
        """The solver's state in the checkpoint, if there is one; bounds and history follow it."""
        checkpoint = self.solver.checkpoint
        if checkpoint is None or checkpoint.state is None:
            return None
        state = dict(checkpoint.state)
        known = state.pop("monitor")
        self.history, self._before = History(**known.pop("history")), known.pop("seconds")
        vars(self).update(known)
        return state

    def keep(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write a checkpoint, if there is one and it is time; `state` is the solver's own."""
        if self.solver.checkpoint is not None:
            self.solver.checkpoint.keep(lambda: {"monitor": self._state(), **state()})

    def _state(self) -> dict[str, Any]:
        names = ("dual", "primal", "theta", "latest", "iterations", "oracle_calls")
        own = {name: getattr(self, name) for name in names}
        return {"history": self.history.to_dict(), "seconds": self.seconds, **own}

    def result(self, theta: Floats, state: Any = None) -> Result:
        """What was found, with `theta` as the weights."""
        return Result(
            theta=theta,
            objective=self.primal,
            objective_bound=self.dual,
            gap=self.gap,
            tolerance=self.tolerance,
            converged=self.converged,
            interrupted=self.interrupted,
            iterations=self.iterations,
            oracle_calls=self.oracle_calls,
            seconds=self.seconds,
            solver=self.solver.name,
            history=self.history,
            state=state,
            slack=min(self.slack, self.gap),  # of the last certificate, whose gap may be larger
            stalled=self.stalled,
        )

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.close()


def run(
    problem: Problem, monitor: Monitor, loop: Callable[[], None], theta: Callable[[], Floats]
) -> Result:
    """Run a solver's loop and collect the result.

    At the end of the time and on KeyboardInterrupt the best theta so far is kept; `theta` returns
    the current one if the loop ended without a certificate.
    """
    with time_limit(monitor.solver.max_time) as deadline:
        try:
            with problem.running():
                loop()
        except OutOfTimeError:
            pass
        except KeyboardInterrupt:
            monitor.interrupted = True
        finally:
            deadline.cancel()  # of what still runs on other threads
            monitor.finish()
    result = monitor.result(theta() if monitor.theta is None else monitor.theta)
    result.proven = problem.has_bound
    return result


def solve(problem: Problem, solver: AnySolver, tol: float, start: Any = None) -> Result:
    """Run a solver; if it is ended before its first step the result is theta = 0."""
    try:
        return solver.solve(problem, tol, start)
    except (OutOfTimeError, KeyboardInterrupt) as error:
        monitor = Monitor(solver if isinstance(solver, Solver) else Solver(), tol)
        monitor.interrupted = isinstance(error, KeyboardInterrupt)
        return monitor.result(np.zeros(problem.n_features))


def check_alphas(alphas: Sequence[float]) -> list[float]:
    """The alphas from strong to weak; raises unless they are positive, finite numbers."""
    try:
        values = [as_positive(alpha, "alphas") for alpha in alphas]
    except TypeError:
        raise TypeError(
            f"`alphas` must be a sequence of positive numbers; got {alphas!r}. Pass a list."
        ) from None
    if not values:
        raise ValueError("`alphas` must hold at least one positive number; got none.")
    return sorted(values, reverse=True)


def regularization_path(
    problem: Problem, alphas: Sequence[float], solver: AnySolver, tol: float
) -> Iterator[tuple[float, Result]]:
    """Yield (alpha, result) from strong to weak regularisation, warm-started.

    Ends early when the user interrupts a solve.
    """
    start = None
    for alpha in check_alphas(alphas):
        with time_limit(getattr(solver, "max_time", None)):
            result = solve(problem.with_alpha(alpha), solver, tol, start)
        yield alpha, result
        if result.interrupted:
            return
        start = result.state


class _Bar:
    """A one-line progress bar: decrease of the gap in orders of magnitude, relative to the goal."""

    width = 24

    def __init__(self, name: str):
        self.name = name
        self.first: float | None = None
        self.shown = -1.0
        sys.stderr.write(f"\r{self.name}: starting ")
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
        filled = int(self.width * min(max(done, 0.0), 1.0)) if gap > tolerance else self.width
        bar = "#" * filled + "-" * (self.width - filled)
        sys.stderr.write(
            f"\r{self.name} [{bar}] gap {gap:.2e} / {tolerance:.1e}  "
            f"iteration {iteration}  {seconds:.1f} s "
        )
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")
        sys.stderr.flush()
