"""Limited-memory BFGS on the likelihood: solver, directions and preconditioner."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import get_blas_funcs

from .._threads import Each
from ..exceptions import OutOfTimeError
from .ascent import (
    Direction,
    Evaluation,
    Evaluator,
    Pair,
    PrimalState,
    aligned,
    moment_scale,
)
from .primal import PrimalSolver
from .problem import Block, DualProblem
from .result import Monitor, Stopping

Floats = NDArray[np.float64]
Vector = NDArray[np.floating]  # in single or double precision

LARGE_PROBLEM = 200_000  # coordinates of all blocks
PAIR_NUMBERS = 500_000  # of all kept steps, from which on they are in single precision


@dataclass(frozen=True)
class LBFGS(PrimalSolver):
    """Limited-memory quasi-Newton ascent; any number of features, any feature map."""

    memory: int = 40

    name = "lbfgs"
    patience = 8  # its gap decreases unevenly even where P is smooth

    def oracle_tolerance(self, monitor: Monitor, slope: float) -> float:
        """Looser than Newton's: the messages converge along with theta."""
        return max(0.05 * monitor.tolerance, 0.2 * monitor.gap)

    def directions(
        self, problem: DualProblem, pairs: Sequence[Pair] = (), each: Each = map
    ) -> Direction:
        return LBFGSDirections(problem, self.memory, pairs, each)

    def warm_up(
        self, problem: DualProblem, current: PrimalState, monitor: Monitor, each: Each
    ) -> None:
        """Solve a quarter of many large blocks first; start from its theta and curvature."""
        chosen = sample_of_blocks(problem)
        if not chosen:
            return
        share = float(problem.weights[chosen].sum() / problem.weights.sum())
        penalty = problem.penalty
        chosen_blocks = [problem.blocks[m] for m in chosen]
        part = DualProblem(chosen_blocks, share * penalty.alpha, penalty.l1_ratio)
        limit = monitor.stopping.max_time
        inner = Monitor(
            Stopping(
                max(0.005, monitor.stopping.tol),  # all blocks will move theta further than that
                monitor.stopping.max_iter,
                None if limit is None else 0.3 * limit,
            ),
            self.name,
        )
        state = PrimalState(current.theta, [current.warm[m] for m in chosen])
        evaluate = Evaluator(part, state.warm, each, inner.out_of_time)
        with contextlib.suppress(OutOfTimeError):
            self._ascend(part, evaluate, inner, state)
        monitor.oracle_calls += evaluate.calls
        current.theta = state.theta
        # All blocks have the curvature of the sample, divided by its share.
        current.pairs = [Pair(s, y / share, product / share) for s, y, product in state.pairs]
        for m, known in zip(chosen, state.warm, strict=True):
            current.warm[m] = known


def sample_of_blocks(problem: DualProblem) -> list[int]:
    """A quarter of the blocks, at least four; none where evaluating all blocks is cheap."""
    blocks = problem.blocks
    count = len(blocks) // 4
    size = sum(block.structure.n_coordinates for block in blocks)
    fused = all(block.structure.offers("expectation") for block in blocks)
    if not fused or size < LARGE_PROBLEM or count < 4:
        return []
    if any(block.is_remote for block in blocks):  # a part of them keeps only some workers busy
        return []
    return np.linspace(0, len(blocks) - 1, count).astype(int).tolist()


class LBFGSDirections:
    """Two-loop recursion over the last `memory` accepted steps, preconditioned if possible.

    With an l1 penalty orthant-wise (Andrew and Gao, 2007): from the pseudo-gradient, with the
    curvature of the smooth part, and without the coordinates that then have the wrong sign.

    `pairs` are steps of an earlier run on the same or a smaller problem. Vectors of forgotten
    steps hold the new ones, so that no iteration allocates memory that grows. Where steps are large
    they are kept in single precision, which suffices for a direction.
    """

    def __init__(
        self, problem: DualProblem, memory: int, pairs: Sequence[Pair] = (), each: Each = map
    ):
        self.pairs: deque[Pair] = deque(pairs, maxlen=memory)
        self.last: tuple[Floats, Floats] | None = None
        self._precondition = preconditioner(problem, each)
        self._penalty = problem.penalty
        self._first_scale = problem.penalty.l2 + moment_scale(problem)
        large = 2 * memory * problem.n_features > PAIR_NUMBERS
        self._kind: type[np.floating] = np.float32 if large else np.float64
        self._axpy = get_blas_funcs("axpy", dtype=self._kind)

    def __call__(self, at: Evaluation) -> Floats:
        if self.last is not None:
            self._remember(*self.last, at)
        self.last = at.theta, at.gradient
        q: Vector = at.ascent.astype(self._kind)
        coefficients = []
        for s, y, product in reversed(self.pairs):
            coefficient = float(s @ q) / product
            coefficients.append(coefficient)
            self._axpy(y, q, a=-coefficient)  # in place
        if self._precondition is not None:
            q = self._precondition(q)
        if self.pairs:
            y, product = self.pairs[-1].decrease, self.pairs[-1].product
            scaled = y if self._precondition is None else self._precondition(y)
            q *= product / float(y @ scaled)
        elif self._precondition is not None:
            q *= float(at.ascent @ q) / self._precondition.curvature(q)
        else:
            # First step: a gradient step scaled by a bound of the curvature.
            q /= self._first_scale
        for (s, y, product), coefficient in zip(self.pairs, reversed(coefficients), strict=True):
            self._axpy(s, q, a=coefficient - float(y @ q) / product)
        step = q.astype(np.float64, copy=False)
        return aligned(step, at.ascent / self._first_scale) if self._penalty.l1 else step

    def _remember(self, theta: Floats, gradient: Floats, at: Evaluation) -> None:
        """Take the step from `theta` to `at`, unless P is not concave along it."""
        if len(self.pairs) == self.pairs.maxlen:
            s, y, _ = self.pairs.popleft()
        else:
            s, y = np.empty((2, at.theta.size), dtype=self._kind)
        s[:] = at.theta - theta
        y[:] = gradient - at.gradient
        product = float(s @ y)
        if product > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            self.pairs.append(Pair(s, y, product))


class Segment(NamedTuple):
    """Rows of weights with the curvature  vectors' diag(row of values) vectors  each.

    values : ndarray of shape (n_rows, C), eigenvalues with alpha
    scaling : ndarray of shape (n_rows, C), their power -exponent
    vectors : ndarray of shape (C, C), or None for the identity
    """

    values: Floats
    scaling: Floats
    vectors: Floats | None


class Preconditioner:
    """(curvature + alpha I)^-exponent for a block-diagonal model of the curvature."""

    def __init__(self, segments: Sequence[Segment]):
        self._segments = segments

    def __call__(self, vector: Vector) -> Vector:
        out = np.empty_like(vector)
        for (_, scaling, vectors), part, solved in self._parts(vector, out):
            if vectors is None:
                np.multiply(part, scaling, out=solved)
            else:
                np.matmul((part @ vectors) * scaling, vectors.T, out=solved)
        return out

    def curvature(self, vector: Vector) -> float:
        """<vector, (curvature + alpha I) vector>."""
        total = 0.0
        for (values, _, vectors), part, _ in self._parts(vector, vector):
            rotated = part if vectors is None else part @ vectors
            total += float(np.vdot(rotated * rotated, values))
        return total

    def _parts(self, *vectors: Vector) -> Iterator[tuple[Segment, Vector, Vector]]:
        start = 0
        for segment in self._segments:
            shape = segment.values.shape
            here = slice(start, start + segment.values.size)
            one, other = (vector[here].reshape(shape) for vector in vectors)
            yield segment, one, other
            start = here.stop


def preconditioner(problem: DualProblem, each: Each = map) -> Preconditioner | None:
    """A model of the curvature to start L-BFGS from; None where some features have no moments.

    The curvature is modelled by second moments of the features. Where the weights form copies of
    one feature space (one weight vector per state), the Hessian of the negative log-likelihood is
    roughly block diagonal: copy l has  scale_l * (sum of x x').  L-BFGS that starts from its
    inverse needs a fraction of the evaluations. The segments are those of
    `FeatureMap.second_moments`.
    """
    found = joined_second_moments(problem.blocks, each)
    if found is None:
        return None
    # Of many sparse features only the diagonal is known. Frequent ones have far less curvature than
    # it says, as marginals are peaked: its fourth root is better than the inverse.
    exponent = 0.25 if any(gram.ndim == 1 for gram, _ in found) else 1.0
    segments = []
    for gram, mean in found:
        values, vectors = (gram, None) if gram.ndim == 1 else eigh(gram)
        modelled = np.outer(mean, np.maximum(values, 0.0)) + problem.penalty.l2
        segments.append(Segment(modelled, modelled**-exponent, vectors))
    return Preconditioner(segments)


def joined_second_moments(
    blocks: Sequence[Block], each: Each = map
) -> list[tuple[Floats, Floats]] | None:
    """`FeatureMap.second_moments` of all blocks: sums of grams, means of scales."""
    totals: list[list[Floats]] = []
    every = each(lambda block: block.features.second_moments(), blocks)
    for block, found in zip(blocks, every, strict=True):
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
    return [(gram, scales / max(float(sizes[0]), 1e-300)) for gram, scales, sizes in totals]
