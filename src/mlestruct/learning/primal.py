"""Certified likelihood ascent on theta, for structures with a marginal oracle.

Every evaluation of P(theta) asks the oracle for the marginals of all blocks. They are feasible,
so they give a dual value L(tau) as well; the oracle's upper bounds give a proven lower bound of
P(theta). `Newton` uses the covariance of the features under the marginals, `LBFGS` does without.

Where P has kinks (rho near 1, weak regularisation) the ascent stalls; it then goes on through
smooth surrogates (`majorize`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features.base import dense_matrix
from ..structures.base import Marginals, MissingCapability, require
from .directions import Direction, lbfgs_directions, newton_directions
from .history import Monitor, Stopping
from .problem import DualProblem
from .result import Result, run

Floats = NDArray[np.float64]

STALL = 4  # iterations in which the gap has to halve
SHARPEST = 1e-8  # part of the usual oracle tolerance that is asked for at the most


@dataclass
class Evaluation:
    """P and everything that comes with it at one theta."""

    theta: Floats
    value: float  # P(theta) up to the oracle's gap (an upper bound of it)
    primal: float  # proven lower bound of P(theta)
    dual: float  # L at the oracle's marginals: proven upper bound of the optimum
    gradient: Floats  # of P
    oracle_gap: float
    marginals: list[Marginals]

    @property
    def gap(self) -> float:
        return self.dual - self.primal


class OutOfTimeError(Exception):
    """The time is up in the middle of an evaluation."""


@dataclass
class PrimalState:
    """What a warm start needs: theta and the oracle's last answers."""

    theta: Floats
    warm: list[Any]


class Evaluator:
    """Evaluates P with warm-started marginals, over threads if there is a pool."""

    def __init__(
        self,
        problem: DualProblem,
        warm: list[Any],
        pool: ThreadPoolExecutor | None,
        out_of_time: Callable[[], bool],
    ):
        self.problem = problem
        self.warm = warm
        self.pool = pool
        self.out_of_time = out_of_time
        self.calls = 0

    def __call__(self, theta: Floats, tol: float) -> Evaluation:
        """`tol` is the total oracle gap allowed."""
        problem = self.problem
        total = problem.weights.sum()

        def one(m: int) -> tuple[Marginals, Floats]:
            if self.calls and self.out_of_time():
                raise OutOfTimeError
            block = problem.blocks[m]
            found = block.structure.marginals(  # type: ignore[attr-defined]
                block.scores(theta), self.warm[m], tol / total
            )
            return found, block.moments(found.tau)

        indices = range(len(problem.blocks))
        answers = list(self.pool.map(one, indices) if self.pool else map(one, indices))
        self.calls += len(answers)
        marginals = [found for found, _ in answers]
        expected = problem.weights @ np.array([moments for _, moments in answers])
        lower = float(problem.weights @ [found.value for found in marginals])
        upper = float(problem.weights @ [found.upper_bound for found in marginals])
        r = problem.target - expected
        dual = r @ r / (2.0 * problem.alpha) + problem.offset_score - lower + theta @ expected
        return Evaluation(
            theta,
            problem.primal(theta, lower),
            problem.primal(theta, upper),
            float(dual),
            r - problem.alpha * theta,
            upper - lower,
            marginals,
        )

    def accept(self, at: Evaluation) -> None:
        """Start the next calls from the marginals of `at`."""
        self.warm = [found.warm for found in at.marginals]


def climb(
    at: Evaluation,
    evaluate: Evaluator,
    direction: Direction,
    oracle_tolerance: Callable[[float], float],
    out_of_time: Callable[[], bool],
) -> Iterator[Evaluation]:
    """Evaluations of rising P, until no step along the direction makes progress."""
    while True:
        step = direction(at)
        slope = float(at.gradient @ step)
        tol = oracle_tolerance(slope)
        following = _line_search(at, step, slope, evaluate, tol, out_of_time)
        if following is None:
            return
        at = following
        evaluate.accept(at)
        yield at


def _line_search(
    at: Evaluation,
    step: Floats,
    slope: float,
    evaluate: Evaluator,
    tol: float,
    out_of_time: Callable[[], bool],
) -> Evaluation | None:
    """Backtrack until P rises enough, up to what the oracle's gaps leave uncertain."""
    eta = 1.0
    for _ in range(25):
        trial = evaluate(at.theta + eta * step, tol)
        slack = trial.oracle_gap + at.oracle_gap + 1e-13 * (abs(at.value) + abs(at.dual))
        if trial.value >= at.value + 1e-4 * eta * slope - slack:
            return trial
        # Quadratic interpolation between the two values and the slope, safeguarded.
        bend = at.value + eta * slope - trial.value
        eta *= min(max(0.5 * eta * slope / bend if bend > 0 else 0.5, 0.1), 0.5)
        if out_of_time():
            return None
    return None


class PrimalSolver:
    """The common part of `Newton` and `LBFGS`."""

    name: str

    def check(self, problem: DualProblem) -> None:
        """Raise MissingCapability unless every block has a marginal oracle."""
        for block in problem.blocks:
            require(block.structure, "marginals", needed_by=f"solver={self.name!r}")

    def directions(self, problem: DualProblem) -> Direction:
        """A function from evaluations, in the order they are accepted, to ascent directions."""
        raise NotImplementedError

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: PrimalState | None = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Maximise P; `warm` is the state of an earlier result."""
        from .majorize import can_soften, majorize

        self.check(problem)
        monitor = Monitor(stopping, self.name)
        n_blocks = len(problem.blocks)
        if warm is None:
            warm = PrimalState(np.zeros(problem.n_features), [None] * n_blocks)
        current = PrimalState(warm.theta.copy(), list(warm.warm))
        n_threads = min(n_jobs or 1, n_blocks)
        pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

        def loop() -> PrimalState:
            evaluate = Evaluator(problem, current.warm, pool, monitor.out_of_time)
            try:
                stopped = self._ascend(problem, evaluate, monitor, current)
                if not stopped and can_soften(problem):
                    majorize(self, problem, monitor, current, pool)
            except OutOfTimeError:
                pass
            return current

        try:
            result = run(problem, monitor, loop, lambda: current.theta, n_jobs)
        finally:
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        result.state = current
        return result

    def _ascend(
        self, problem: DualProblem, evaluate: Evaluator, monitor: Monitor, current: PrimalState
    ) -> bool:
        """Climb until told to stop (True) or no longer getting anywhere (False)."""

        def record(iteration: int, at: Evaluation) -> bool:
            current.theta, current.warm = at.theta, [found.warm for found in at.marginals]
            monitor.oracle_calls = evaluate.calls
            return monitor.record(iteration, at.theta, dual=at.dual, primal=at.primal)

        at = evaluate(current.theta, 1e-2)
        evaluate.accept(at)
        iteration = 0
        if record(iteration, at):
            return True
        gaps = [monitor.gap]
        sharpness = [1.0]
        for _ in range(3):  # a failed line search gets another try at a sharper evaluation
            direction = self.directions(problem)
            steps = climb(
                at,
                evaluate,
                direction,
                lambda slope: sharpness[0] * oracle_tolerance(monitor, slope),
                monitor.out_of_time,
            )
            for at in steps:
                iteration += 1
                if record(iteration, at) or iteration >= monitor.stopping.max_iter:
                    return True
                gaps.append(monitor.gap)
                if gaps[-1] > 0.8 * gaps[-2]:
                    # The dual value sees errors of the marginals through |r|^2 / (2 alpha).
                    sharpness[0] = max(0.1 * sharpness[0], SHARPEST)
                if self._stalled(gaps, problem):
                    return False
            if monitor.out_of_time():
                return True
            at = evaluate(at.theta, 0.01 * monitor.tolerance)
            if record(iteration, at):
                return True
        return False

    def _stalled(self, gaps: list[float], problem: DualProblem) -> bool:
        """Whether kinks hold the ascent up, judged by how slowly the gap falls."""
        from .majorize import can_soften

        window = STALL * self.patience
        return len(gaps) > window and gaps[-1] > 0.5 * gaps[-1 - window] and can_soften(problem)

    patience = 1


def oracle_tolerance(monitor: Monitor, slope: float) -> float:
    """Total oracle gap to ask for: a small part of the progress still expected."""
    finest = 0.05 * monitor.tolerance
    return max(finest, 0.01 * min(monitor.gap, max(slope, 0.0)))


@dataclass(frozen=True)
class Newton(PrimalSolver):
    """Newton ascent; needs the features as matrices and few enough of them."""

    name = "newton"

    def check(self, problem: DualProblem) -> None:
        super().check(problem)
        for block in problem.blocks:
            require(block.structure, "feature_covariance", needed_by="solver='newton'")
            if dense_matrix(block.features) is None:
                raise MissingCapability(
                    "solver='newton' needs features held as a dense matrix, which "
                    f"{type(block.features).__name__} does not have. Use solver='lbfgs'."
                )

    def directions(self, problem: DualProblem) -> Direction:
        return newton_directions(problem)


@dataclass(frozen=True)
class LBFGS(PrimalSolver):
    """Limited-memory quasi-Newton ascent; any number of features, any feature map."""

    memory: int = 30

    name = "lbfgs"
    patience = 8  # its gap falls unevenly even where P is smooth

    def directions(self, problem: DualProblem) -> Direction:
        return lbfgs_directions(problem, self.memory)
