"""Limited-memory BFGS on the likelihood: solver, directions and preconditioner."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from .ascent import (
    Direction,
    Evaluation,
    Evaluator,
    OutOfTimeError,
    Pairs,
    PrimalState,
    moment_scale,
)
from .primal import PrimalSolver
from .problem import DualProblem
from .result import Monitor, Stopping

Floats = NDArray[np.float64]
Preconditioner = Callable[[Floats], Floats]

LARGE_PROBLEM = 200_000  # coordinates of all blocks
SAMPLE_PART = 4
SMALLEST_SAMPLE = 4
SAMPLE_TOL = 0.005


@dataclass(frozen=True)
class LBFGS(PrimalSolver):
    """Limited-memory quasi-Newton ascent; any number of features, any feature map."""

    memory: int = 30

    name = "lbfgs"
    patience = 8  # its gap decreases unevenly even where P is smooth

    def oracle_tolerance(self, monitor: Monitor, slope: float) -> float:
        """Looser than Newton's: the messages converge along with theta."""
        return max(0.05 * monitor.tolerance, 0.2 * monitor.gap)

    def directions(self, problem: DualProblem, pairs: Pairs = ()) -> Direction:
        return LBFGSDirections(problem, self.memory, pairs)

    def warm_up(self, problem: DualProblem, current: PrimalState, monitor: Monitor) -> None:
        """Solve a quarter of many large blocks first; start from its theta and curvature."""
        chosen = sample_of_blocks(problem)
        if not chosen:
            return
        share = float(problem.weights[chosen].sum() / problem.weights.sum())
        part = DualProblem([problem.blocks[m] for m in chosen], share * problem.alpha)
        limit = monitor.stopping.max_time
        inner = Monitor(
            Stopping(
                max(SAMPLE_TOL, monitor.stopping.tol),
                monitor.stopping.max_iter,
                None if limit is None else 0.3 * limit,
            ),
            self.name,
        )
        state = PrimalState(current.theta, [current.warm[m] for m in chosen])
        evaluate = Evaluator(part, state.warm, map, inner.out_of_time)
        with contextlib.suppress(OutOfTimeError):
            self._ascend(part, evaluate, inner, state)
        monitor.oracle_calls += evaluate.calls
        current.theta = state.theta
        # All blocks have the curvature of the sample, divided by its share.
        current.pairs = [(s, y / share) for s, y in state.pairs]
        for m, known in zip(chosen, state.warm, strict=True):
            current.warm[m] = known


def sample_of_blocks(problem: DualProblem) -> list[int]:
    """Blocks of the initial sample; none where evaluating all blocks is cheap."""
    blocks = problem.blocks
    count = len(blocks) // SAMPLE_PART
    size = sum(block.structure.n_coordinates for block in blocks)
    fused = all(block.structure.offers("expectation") for block in blocks)
    if not fused or size < LARGE_PROBLEM or count < SMALLEST_SAMPLE:
        return []
    return np.linspace(0, len(blocks) - 1, count).astype(int).tolist()


class LBFGSDirections:
    """Two-loop recursion over the last `memory` accepted steps, preconditioned if possible.

    `pairs` are steps of an earlier run on the same or a smaller problem: (change of theta,
    decrease of the gradient).
    """

    def __init__(self, problem: DualProblem, memory: int, pairs: Pairs = ()):
        self.pairs: deque[tuple[Floats, Floats]] = deque(pairs, maxlen=memory)
        self._last: Evaluation | None = None
        self._precondition = preconditioner(problem)
        self._first_scale = problem.alpha + moment_scale(problem)

    def __call__(self, at: Evaluation) -> Floats:
        if self._last is not None:
            s = at.theta - self._last.theta
            y = self._last.gradient - at.gradient
            if float(s @ y) > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
                self.pairs.append((s, y))
        self._last = at
        q = at.gradient.copy()
        coefficients = []
        for s, y in reversed(self.pairs):
            coefficient = float(s @ q) / float(s @ y)
            coefficients.append(coefficient)
            q -= coefficient * y
        if self._precondition is not None:
            q = self._precondition(q)
        if self.pairs:
            s, y = self.pairs[-1]
            scaled = y if self._precondition is None else self._precondition(y)
            q *= float(s @ y) / float(y @ scaled)
        elif self._precondition is None:
            # First step: a gradient step scaled by a bound of the curvature.
            q /= self._first_scale
        for (s, y), coefficient in zip(self.pairs, reversed(coefficients), strict=True):
            q += (coefficient - float(y @ q) / float(s @ y)) * s
        return q


def preconditioner(problem: DualProblem) -> Preconditioner | None:
    """(curvature + alpha I)^-1 as a function, or None where some features have no moments.

    The curvature is modelled by second moments of the features. Where the weights form copies of
    one feature space (one weight vector per state), the Hessian of the negative log-likelihood is
    roughly block diagonal: copy l has  scale_l * (sum of x x').  L-BFGS that starts from its
    inverse needs a fraction of the evaluations. The segments are those of
    `FeatureMap.second_moments`.
    """
    totals: list[list[Floats]] = []
    for block in problem.blocks:
        found = block.features.second_moments()
        if found is None:
            return None
        for k, (gram, scales) in enumerate(found):
            size = float(gram.sum() if gram.ndim == 1 else np.trace(gram))
            if k == len(totals):
                totals.append([np.zeros_like(gram), np.zeros_like(scales), np.zeros(1)])
            elif gram.ndim != totals[k][0].ndim:  # some blocks have only the diagonal
                gram = gram if gram.ndim == 1 else np.diag(gram)
                known = totals[k][0]
                totals[k][0] = known if known.ndim == 1 else np.diag(known).copy()
            totals[k][0] += block.weight * gram
            totals[k][1] += block.weight * size * scales
            totals[k][2] += block.weight * size
    segments = []
    for gram, scales, sizes in totals:
        mean = scales / max(float(sizes[0]), 1e-300)
        values, vectors = (gram, None) if gram.ndim == 1 else eigh(gram)
        inverse = 1.0 / (np.outer(mean, np.maximum(values, 0.0)) + problem.alpha)
        segments.append((inverse, vectors))

    def apply(vector: Floats) -> Floats:
        out = np.empty_like(vector)
        start = 0
        for inverse, vectors in segments:
            part = vector[start : start + inverse.size].reshape(inverse.shape)
            if vectors is None:
                solved = part * inverse
            else:
                solved = ((part @ vectors) * inverse) @ vectors.T
            out[start : start + inverse.size] = solved.ravel()
            start += inverse.size
        return out

    return apply
