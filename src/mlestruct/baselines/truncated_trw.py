"""`TruncatedTRW`: likelihood of labellings by a fixed number of message-passing sweeps.

After Domke (2013, "Learning graphical model parameters with approximate marginal inference"): for
every theta the messages of each image start anew from uniform ones and get n_sweeps sweeps of
tree-reweighted message passing. The resulting pseudo-marginals tau stand in for the maximisers,

    log Z_rho  ~  <scores, tau> + H_rho(tau),      gradient  ~  moments of (y - tau),

and L-BFGS maximises this surrogate of the likelihood. The messages of `GridCRF` are used (one sweep
is a pass forwards and one back), so a sweep costs the same on both sides.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult
from sklearn.exceptions import ConvergenceWarning

from .._threads import Each, threaded_map
from ..algorithms.pairwise import _grid_message_passing_kernels as kernels
from ..algorithms.pairwise.grid_message_passing import in_linear_range
from ..learning.problem import Block, DualProblem
from ..learning.result import Monitor, Result, Stopping, run
from ..models.base import StructuredEstimator
from ..models.validation import check_count, check_positive
from ..structures.labellings.space import PairwiseSpace
from .lbfgs import lbfgs
from .learner import ProbabilisticLearner

Floats = NDArray[np.float64]


class TruncatedTRW(ProbabilisticLearner):
    """Grid CRF fitted with truncated message passing inside L-BFGS.

    Features, weights and objective are those of `GridCRF`, except that log Z_rho and its gradient
    come from `n_sweeps` sweeps that start from uniform messages at every evaluation.

    There is no certificate. For no finite number of sweeps is the result guaranteed to be the
    optimum: value and gradient belong to each other only where messages have converged, and
    L-BFGS stops where it can no longer improve the surrogate. To see whether the sweeps were
    enough, fit again with more of them.

    Parameters
    ----------
    estimator : a GridCRF or GraphCRF, not fitted
        Its features, rho and decoder are used, and its `alpha`, `max_iter` (iterations of L-BFGS),
        `max_time`, `callback`, `n_jobs`. The fast sweeps are those of two states, 4 neighbours
        and rho = 1/2.
    n_sweeps : int
        Sweeps of message passing over each image, per evaluation.
    tol : float
        L-BFGS stops when the surrogate changes by less than this, relative to its size.
    gradient_tol : float
        And when no component of the gradient is larger than this.

    Attributes
    ----------
    estimator_ : a clone of the estimator with the learned weights
    coef_ : ndarray of shape (n_features,)
    objective_ : float, the surrogate of the regularised log-likelihood at `coef_`; neither the
        likelihood nor its optimum
    converged_ : bool, by the criteria of L-BFGS alone; False also where its line search finds no
        better point because value and gradient disagree
    history_ : History; `dual` is the surrogate at each iteration, and there is no other bound
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    Predicted marginals are converged ones, as those of the estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import GridCRF
    >>> from mlestruct.baselines import TruncatedTRW
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.kron(rng.integers(2, size=(3, 3)), np.ones((4, 4), int)) for _ in range(10)]
    >>> X = [np.stack([np.ones((12, 12)), y + rng.normal(size=(12, 12))], axis=-1) for y in Y]
    >>> model = TruncatedTRW(GridCRF(alpha=1.0), n_sweeps=20).fit(X, Y)
    >>> model.converged_, model.score(X, Y) > 0.85
    (True, True)
    """

    def __init__(
        self, estimator: Any, n_sweeps: int = 40, tol: float = 1e-9, gradient_tol: float = 1e-5
    ):
        self.estimator = estimator
        self.n_sweeps = n_sweeps
        self.tol = tol
        self.gradient_tol = gradient_tol

    def _algorithm(self) -> TruncatedLBFGS:
        if not self.gradient_tol >= 0:
            raise ValueError(f"gradient_tol must not be negative, got {self.gradient_tol!r}")
        return TruncatedLBFGS(
            check_count(self.n_sweeps, "n_sweeps"),
            check_positive(self.tol, "tol"),
            float(self.gradient_tol),
        )

    def _problem(
        self, reader: StructuredEstimator, X: Any, Y: Any, sample_weight: Any
    ) -> DualProblem:
        return reader.build_problem(X, Y, sample_weight)

    def _keep(self, result: Result, tol: float) -> None:
        converged, result.converged = result.converged, True
        super()._keep(result, tol)
        self.converged_ = converged
        if not converged:
            warnings.warn(
                f"TruncatedTRW: stopped after {result.seconds:.1f} s and {result.iterations} "
                f"iterations ({result.state}); the model is the best found so far.",
                ConvergenceWarning,
                stacklevel=3,
            )


# ---------------------------------------------------------------------- the surrogate
@dataclass(frozen=True)
class TruncatedEvaluation:
    """The surrogate at one theta.

    value : the surrogate of P(theta), regularised; an upper bound of P(theta)
    gradient : observed moments - moments of tau - alpha theta
    dual : L(tau), an upper bound of the best attainable P
    """

    theta: Floats
    value: float
    gradient: Floats
    dual: float


class TruncatedLikelihood:
    """The surrogate of P as a function of theta; nothing is kept between calls.

    Parameters
    ----------
    problem : DualProblem over pairwise structures
    n_sweeps : int
    each : `map`, or one over threads
    check : called before each block; what it raises ends the evaluation
    """

    def __init__(
        self,
        problem: DualProblem,
        n_sweeps: int,
        each: Each = map,
        check: Callable[[], None] = lambda: None,
    ):
        self.problem, self.n_sweeps = problem, n_sweeps
        self._each, self._check = each, check

    def __call__(self, theta: Floats) -> TruncatedEvaluation:
        problem = self.problem
        total, expected = 0.0, np.zeros(problem.n_features)
        answers = self._each(lambda block: self._block(block, theta), problem.blocks)
        for block, (value, moments) in zip(problem.blocks, answers, strict=True):
            total += block.weight * value
            expected += block.weight * moments
        r = problem.target - expected
        entropy = total - theta @ expected  # and what offsets add
        return TruncatedEvaluation(
            theta,
            problem.primal(theta, total),
            r - problem.alpha * theta,
            float(r @ r / (2.0 * problem.alpha) + problem.offset_score - entropy),
        )

    def _block(self, block: Block, theta: Floats) -> tuple[float, Floats]:
        self._check()
        space = block.structure
        assert isinstance(space, PairwiseSpace)
        tau, value = truncated_marginals(space, block.scores(theta), self.n_sweeps)
        return value, block.moments(tau)


def truncated_marginals(
    structure: PairwiseSpace, scores: Floats, n_sweeps: int
) -> tuple[Floats, float]:
    """tau after n_sweeps sweeps from uniform messages, and <scores, tau> + H_rho(tau).

    tau is the point of the local polytope with the nodes' beliefs and the edges' odds ratios.
    """
    shape = structure.graph.grid_shape
    if (
        structure.n_states != 2
        or shape is None
        or not structure.reweighting.rows_and_columns
        or not in_linear_range(shape, scores)
    ):
        found = structure.marginals(scores, None, 0.0, n_sweeps)
        return found.tau, found.value
    height, width = shape
    n, n_across = height * width, height * (width - 1)
    odds, strength = np.exp(scores[:n]), np.exp(2.0 * scores[n:])
    across, along = strength[:n_across], strength[n_across:]
    left, above, right, below = np.ones((4, n))
    belief, rest, tau = np.empty(n), np.empty(n), np.empty(scores.shape[0])
    for _ in range(n_sweeps):
        kernels.pass_messages(height, width, odds, across, along, left, above, right, below)
    upper = kernels.bound_and_beliefs(odds, left, above, right, below, belief)
    loss = kernels.feasible_point(height, width, strength, left, above, belief, rest, tau)
    return tau, float(upper - loss)


# ---------------------------------------------------------------------- L-BFGS
class _StoppedError(Exception):
    """The time is up, or the callback asked to stop."""


@dataclass(frozen=True)
class TruncatedLBFGS:
    """Maximises the surrogate from theta = 0 until the criteria of L-BFGS are met."""

    n_sweeps: int
    tol: float = 1e-9
    gradient_tol: float = 1e-5

    name = "truncated_trw"

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: Any = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """theta of the best surrogate value evaluated; `state` is the reason why the fit ended.

        Every fit starts from zero weights, so `warm` has no effect.
        """
        monitor = Monitor(stopping, self.name)
        best = TruncatedEvaluation(np.zeros(problem.n_features), -np.inf, np.zeros(0), np.inf)
        ended = "interrupted", False  # why, and whether it converged

        def check_time() -> None:
            if len(monitor.history) and monitor.out_of_time():
                raise _StoppedError("stopped by max_time")

        def report(theta: Floats, value: float) -> None:
            monitor.forget_bounds()
            iteration = len(monitor.history)
            if monitor.record(iteration, theta.copy(), dual=value):
                raise _StoppedError(
                    "stopped by max_time" if monitor.out_of_time() else "stopped by callback"
                )

        def negative(theta: Floats) -> tuple[float, Floats]:
            nonlocal best
            at = surrogate(theta.copy())
            monitor.oracle_calls += len(problem.blocks)
            if at.value > best.value:
                best = at
            if not len(monitor.history):
                report(theta, at.value)
            return -at.value, -at.gradient

        def iterated(intermediate_result: OptimizeResult) -> None:
            report(intermediate_result.x, -float(intermediate_result.fun))

        def loop() -> None:
            nonlocal ended
            start = np.zeros(problem.n_features)
            try:
                found = lbfgs(
                    negative, start, stopping.max_iter, iterated, self.tol, self.gradient_tol
                )
                ended = str(found.message), bool(found.success)
            except _StoppedError as stopped:
                ended = str(stopped), False

        with threaded_map(n_jobs, len(problem.blocks)) as each:
            surrogate = TruncatedLikelihood(problem, self.n_sweeps, each, check_time)
            result = run(problem, monitor, loop, lambda: best.theta, n_jobs)
        result.theta, result.objective = best.theta, best.value
        result.primal = result.gap = np.nan  # there are no bounds
        result.state, result.converged = ended
        return result
