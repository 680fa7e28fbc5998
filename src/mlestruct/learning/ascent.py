"""Evaluation of the likelihood with a marginal oracle, and ascent.

Every evaluation of P(theta) calls the oracle for the marginals of all blocks. They are feasible,
so they give a dual value L(tau) as well; the oracle's upper bounds give a proven lower bound of
P(theta).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .._deadline import check_time
from .._threads import Each
from ..exceptions import CheckpointError, OutOfTimeError
from ..structures.contract import Marginals
from .expectations import expect, total_expectation
from .problem import DualProblem

Floats = NDArray[np.float64]


class Pair(NamedTuple):
    """An accepted step: change of theta, decrease of the gradient, their inner product."""

    step: NDArray[np.floating]
    decrease: NDArray[np.floating]
    product: float


WIDEST = 150.0  # largest range of the change of scores in the first trial of a step
TRIALS = 25  # step lengths of a line search


@dataclass
class Evaluation:
    """P, its bounds and its gradient at one theta."""

    theta: Floats
    value: float  # P(theta) up to the oracle's gap (an upper bound of it)
    primal: float  # proven lower bound of P(theta)
    dual: float  # L at the oracle's marginals: proven upper bound of the optimum
    residual: Floats  # observed minus expected moments
    gradient: Floats  # of P, without the l1 penalty
    ascent: Floats  # the pseudo-gradient of P; `gradient` itself without an l1 penalty
    oracle_gap: float
    marginals: list[Marginals]

    @property
    def gap(self) -> float:
        return self.dual - self.primal

    @classmethod
    def restored(cls, problem: DualProblem, known: dict[str, Any]) -> Evaluation:
        """An evaluation from its attributes."""
        at = cls(**known)
        wanted = (len(problem.blocks), (problem.n_features,))
        if (len(at.marginals), at.theta.shape) != wanted:
            raise CheckpointError("checkpoint: an evaluation of another problem")
        return at


@dataclass
class PrimalState:
    """State of a warm start: theta, the oracle's last states, and the pairs of L-BFGS."""

    theta: Floats
    warm: list[Any]
    pairs: Sequence[Pair] = ()


class Evaluator:
    """Evaluates P with warm-started marginals; `each` maps over blocks, maybe on threads."""

    def __init__(
        self,
        problem: DualProblem,
        warm: list[Any],
        each: Each,
        out_of_time: Callable[[], bool],
    ):
        self.problem = problem
        sizes = np.array([block.size for block in problem.blocks])
        self.n_calls = sum(block.n_observations for block in problem.blocks)
        self.shares = sizes / (problem.weights @ sizes)
        self.warm = warm
        self.each = each
        self.out_of_time = out_of_time
        self.calls = 0

    def __call__(
        self, theta: Floats, tol: float, following: Evaluation | None = None
    ) -> Evaluation:
        """`tol` is the total oracle gap allowed, shared out by the size of the blocks.

        The oracle starts from the marginals of `following`, or of the last accepted evaluation.
        """
        problem = self.problem
        warm = self.warm if following is None else [found.warm for found in following.marginals]

        def check() -> None:
            if self.calls and self.out_of_time():
                raise OutOfTimeError("the time is up in the middle of an evaluation")
            check_time("the first evaluation of the likelihood")

        answers = expect(problem.blocks, theta, warm, tol * self.shares, self.each, check)
        self.calls += self.n_calls
        marginals = [found for found, _ in answers]
        expected, lower, upper = total_expectation(problem.weights, answers)
        r = problem.target - expected
        penalty = problem.penalty
        dual = penalty.conjugate(r) + problem.offset_score - lower + float(theta @ expected)
        value = problem.primal(theta, lower)
        gradient = np.multiply(theta, -penalty.l2, out=expected)
        gradient += r
        gap = upper - lower
        ascent = penalty.pseudo_gradient(theta, gradient)
        return Evaluation(theta, value, value - gap, dual, r, gradient, ascent, gap, marginals)

    def accept(self, at: Evaluation) -> None:
        """Start the next calls from the marginals of `at`."""
        self.warm = [found.warm for found in at.marginals]


class Direction(Protocol):
    """A function from evaluations, in the order they are accepted, to ascent directions.

    With an l1 penalty a direction has the signs of the pseudo-gradient `ascent`, or 0.
    """

    last: tuple[Floats, Floats] | None  # theta and gradient at the last call, if they are used

    @property
    def pairs(self) -> Sequence[Pair]:
        """The last accepted steps."""

    def __call__(self, at: Evaluation) -> Floats: ...


def climb(
    at: Evaluation,
    evaluate: Evaluator,
    direction: Direction,
    oracle_tolerance: Callable[[float], float],
    out_of_time: Callable[[], bool],
    trials: int = TRIALS,
) -> Iterator[Evaluation]:
    """Evaluations of increasing P, until no step along the direction makes progress."""
    while True:
        step = direction(at)
        slope = float(at.ascent @ step)
        tol = oracle_tolerance(slope)
        following = _line_search(at, step, slope, evaluate, tol, out_of_time, trials)
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
    trials: int,
) -> Evaluation | None:
    """Backtrack until the proven lower bound of P increases enough, up to the oracle gap.

    A trial is repeated with a few more oracle calls while its bounds do not decide.
    """
    eta = _first_length(at, step, evaluate)
    penalty = evaluate.problem.penalty
    for _ in range(trials):
        theta = penalty.within_orthant(at.theta, at.ascent, at.theta + eta * step)
        gain = eta * slope if penalty.l1 == 0.0 else float(at.ascent @ (theta - at.theta))
        trial = evaluate(theta, tol)
        for _ in range(5):
            slack = min(trial.oracle_gap, tol) + 1e-13 * (abs(at.primal) + abs(at.dual))
            required = at.primal + 1e-4 * gain - slack
            if trial.primal >= required:
                return trial
            if trial.value < required or out_of_time():
                break
            trial = evaluate(theta, tol, trial)
        # Quadratic interpolation between the two values and the slope, safeguarded.
        bend = at.primal + gain - trial.primal
        eta *= min(max(0.5 * gain / bend if bend > 0 else 0.5, 0.1), 0.5)
        if out_of_time():
            return None
    return None


def _first_length(at: Evaluation, step: Floats, evaluate: Evaluator) -> float:
    """The first length of a step.

    Where almost all marginals are 0 or 1 and the penalty is weak, the curvature is almost 0 and
    full steps are far too long; trials there are expensive and fail.
    """
    if float(step @ step) <= float(at.theta @ at.theta):
        return 1.0
    blocks = evaluate.problem.blocks
    widest = max(evaluate.each(lambda block: block.features.score_range(step), blocks))
    return min(1.0, WIDEST / widest) if widest > 0.0 else 1.0


def aligned(step: Floats, ascent: Floats) -> Floats:
    """A direction without the coordinates whose sign is not that of `ascent`; else `ascent`."""
    kept = np.where(step * ascent > 0.0, step, 0.0)
    return kept if kept.any() else ascent


def moment_scale(problem: DualProblem) -> float:
    """A rough bound of the likelihood's curvature from the observed moments."""
    known = zip(problem.blocks, problem.observed_moments, strict=True)
    return float(problem.weights @ [b.observed_square(moments) for b, moments in known]) + 1.0
