"""Certified likelihood ascent on theta, for structures with a marginal oracle.

Every evaluation of P(theta) asks the oracle for the marginals of all blocks. They are feasible,
so they give a dual value L(tau) as well; the oracle's upper bounds give a proven lower bound of
P(theta). Newton uses the covariance of the features under the marginals, L-BFGS does without.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..features.base import dense_matrix
from ..structures.base import Marginals, MissingCapability, require
from .history import Monitor, Stopping
from .problem import DualProblem, DualState
from .result import Result, run

Floats = NDArray[np.float64]


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


@dataclass
class PrimalState:
    """What a warm start needs: theta and the oracle's last answers."""

    theta: Floats
    warm: list[Any]


class _Oracle:
    """Evaluates P with warm-started marginals, over threads if asked to."""

    def __init__(self, problem: DualProblem, warm: list[Any], pool: ThreadPoolExecutor | None):
        self.problem = problem
        self.warm = warm
        self.pool = pool

    def __call__(self, theta: Floats, tol: float) -> Evaluation:
        problem = self.problem
        total = problem.weights.sum()

        def one(m: int) -> tuple[Marginals, Floats]:
            block = problem.blocks[m]
            found = block.structure.marginals(block.scores(theta), self.warm[m], tol / total)  # type: ignore[attr-defined]
            return found, block.moments(found.tau)

        indices = range(len(problem.blocks))
        answers = list(self.pool.map(one, indices) if self.pool else map(one, indices))
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


class _Primal:
    """The common loop: direction, line search, certificate."""

    name: str

    def check(self, problem: DualProblem) -> None:
        """Raise MissingCapability unless every block has a marginal oracle."""
        for block in problem.blocks:
            require(block.structure, "marginals", needed_by=f"solver={self.name!r}")

    def directions(self, problem: DualProblem) -> Callable[[Evaluation], Floats]:
        """A function from evaluations (in the order they are accepted) to ascent directions."""
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
        self.check(problem)
        monitor = Monitor(stopping, problem.alpha, self.name)
        n_blocks = len(problem.blocks)
        if warm is None:
            warm = PrimalState(np.zeros(problem.n_features), [None] * n_blocks)
        current = PrimalState(warm.theta.copy(), list(warm.warm))
        n_threads = min(n_jobs or 1, n_blocks)
        pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

        def loop() -> PrimalState:
            oracle = _Oracle(problem, current.warm, pool)
            direct = self.directions(problem)

            def evaluate(theta: Floats, tol: float) -> Evaluation:
                monitor.oracle_calls += n_blocks
                return oracle(theta, tol)

            at = evaluate(current.theta, 1e-2)
            for t in range(stopping.max_iter + 1):
                current.theta = at.theta
                oracle.warm = current.warm = [found.warm for found in at.marginals]
                stop = monitor.record(t, at.theta, dual=at.dual, primal=at.primal)
                if stop or t == stopping.max_iter:
                    break
                step = direct(at)
                slope = float(at.gradient @ step)
                tol = _oracle_tolerance(monitor, slope)
                following = _line_search(at, step, slope, evaluate, tol, monitor.out_of_time)
                if following is None:
                    finest = 0.01 * monitor.tolerance
                    if at.oracle_gap <= 2.0 * finest and float(
                        np.abs(step).max()
                    ) < 1e-15 * (1.0 + np.abs(at.theta).max()):
                        break
                    step = at.gradient / (problem.alpha + _norm_bound(at))
                    sharper = evaluate(at.theta, finest)
                    following = _line_search(
                        sharper, step, float(sharper.gradient @ step), evaluate, finest,
                        monitor.out_of_time,
                    )  # fmt: skip
                    if following is None:
                        monitor.record(t + 1, sharper.theta, dual=sharper.dual,
                                       primal=sharper.primal)  # fmt: skip
                        break
                at = following
            return current

        try:
            result = run(monitor, loop, lambda: current.theta)
        finally:
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        result.state = current
        return result


def _norm_bound(at: Evaluation) -> float:
    return float(np.linalg.norm(at.gradient)) + 1.0


def _oracle_tolerance(monitor: Monitor, slope: float) -> float:
    """Total oracle gap to ask for: a small part of the progress still expected."""
    finest = 0.05 * monitor.tolerance
    return max(finest, 0.01 * min(monitor.gap, max(slope, 0.0)))


def _line_search(
    at: Evaluation,
    step: Floats,
    slope: float,
    evaluate: Callable[[Floats, float], Evaluation],
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


@dataclass(frozen=True)
class Newton(_Primal):
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

    def directions(self, problem: DualProblem) -> Callable[[Evaluation], Floats]:
        def direction(at: Evaluation) -> Floats:
            hessian = np.zeros((problem.n_features, problem.n_features))
            for block, found in zip(problem.blocks, at.marginals, strict=True):
                hessian += block.weight * block.structure.feature_covariance(  # type: ignore[attr-defined]
                    found, dense_matrix(block.features)
                )
            # The covariance is positive semi-definite up to rounding.
            shift = problem.alpha + 1e-12 * float(np.trace(hessian)) / problem.n_features
            for _ in range(8):
                try:
                    factor = cho_factor(hessian + shift * np.eye(problem.n_features))
                    return np.asarray(cho_solve(factor, at.gradient))
                except LinAlgError:
                    shift = 10.0 * shift + 1e-8 * float(np.abs(hessian).max())
            return at.gradient / shift

        return direction


@dataclass(frozen=True)
class LBFGS(_Primal):
    """Limited-memory quasi-Newton ascent; any number of features, any feature map."""

    memory: int = 30

    name = "lbfgs"

    def directions(self, problem: DualProblem) -> Callable[[Evaluation], Floats]:
        pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=self.memory)
        last: list[Evaluation] = []

        def direction(at: Evaluation) -> Floats:
            if last:
                s = at.theta - last[0].theta
                y = last[0].gradient - at.gradient
                curvature = float(s @ y)
                if curvature > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
                    pairs.append((s, y, 1.0 / curvature))
            last[:] = [at]
            q = at.gradient.copy()
            coefficients = []
            for s, y, inverse in reversed(pairs):
                coefficient = inverse * float(s @ q)
                coefficients.append(coefficient)
                q -= coefficient * y
            if pairs:
                s, y, inverse = pairs[-1]
                q /= inverse * float(y @ y)
            else:
                # First step: no longer than theta could reasonably move at this curvature.
                q /= problem.alpha + _moment_scale(problem)
            for (s, y, inverse), coefficient in zip(pairs, reversed(coefficients), strict=True):
                q += (coefficient - inverse * float(y @ q)) * s
            return q

        return direction


def _moment_scale(problem: DualProblem) -> float:
    """A rough bound of the likelihood's curvature from the observed moments."""
    return float(problem.weights @ (problem.observed_moments**2).sum(axis=1)) + 1.0


def state_from_dual(problem: DualProblem, state: DualState) -> PrimalState:
    """A primal warm start from a Frank-Wolfe state."""
    return PrimalState(problem.theta(state.r), [None] * len(problem.blocks))
