"""`MatchingBP`: maximum likelihood by belief propagation inside a gradient loop.

Converged beliefs (`algorithms/matching/belief_propagation.py`) are the gradient of log Z_rho. The
classical double loop: messages to convergence, then one step of L-BFGS, starting the next messages
from the last.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._threads import Each, threaded_map
from ..learning.problem import Block, DualProblem
from ..learning.result import Result, Stopping
from ..models.base import StructuredEstimator
from ..models.matching_blocks import pair_table
from ..models.validation import check_count, check_positive
from .lbfgs import minimise
from .learner import ProbabilisticLearner
from .pair_batches import plain_matching

Floats = NDArray[np.float64]


class MatchingBP(ProbabilisticLearner):
    """Approximate maximum likelihood of matchings, with gradients from belief propagation.

    The objective is that of `BipartiteMatchingCRF`, and so are samples, labels and decoder. It has
    no certificate of its own: what it reports is right as far as messages have converged.

    Parameters
    ----------
    estimator : a BipartiteMatchingCRF, not fitted
        Its output space and features are used, and its `alpha`, `rho` (1 has the fastest sweeps),
        `tol` (stop when |gradient|^2 / (2 alpha), a bound of the suboptimality if messages
        converged, is at most tol * max(1, |objective|)), `max_iter` (iterations of L-BFGS),
        `max_time`, `callback`, `n_jobs`, `verbose`. Nodes have at most one partner.
    max_sweeps : int
        Sweeps over all messages of a sample, per gradient. A few (such as 10) give the truncated
        algorithm, whose gradients are inexact.
    bp_tol : float
        A sample's messages have converged when no belief moves by more than this in four sweeps.

    Attributes
    ----------
    estimator_ : a clone of the estimator with the learned weights
    coef_ : ndarray of shape (n_features,)
    objective_ : float, an upper bound of the best attainable likelihood if messages converged
    duality_gap_ : float, |gradient|^2 / (2 alpha)
    converged_ : bool, of the outer loop, with all messages at coef_ converged
    n_sweeps_ : int, over all samples and evaluations
    n_unconverged_ : int, runs of belief propagation that used up `max_sweeps`
    history_, n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import BipartiteMatchingCRF
    >>> from mlestruct.baselines import MatchingBP
    >>> rng = np.random.default_rng(0)
    >>> left, noise = rng.normal(size=(20, 6, 2)), rng.normal(size=(20, 6, 2))
    >>> X = [-((a[:, None] - b[None]) ** 2) for a, b in zip(left, left + 0.3 * noise)]
    >>> model = MatchingBP(BipartiteMatchingCRF(alpha=10.0, rho=0.9)).fit(X, [np.arange(6)] * 20)
    >>> model.converged_, model.n_unconverged_
    (True, 0)
    """

    def __init__(self, estimator: Any, max_sweeps: int = 2000, bp_tol: float = 1e-8):
        self.estimator = estimator
        self.max_sweeps = max_sweeps
        self.bp_tol = bp_tol

    def _algorithm(self) -> BeliefLBFGS:
        return BeliefLBFGS(
            check_count(self.max_sweeps, "max_sweeps"), check_positive(self.bp_tol, "bp_tol")
        )

    def _problem(
        self, reader: StructuredEstimator, X: Any, Y: Any, sample_weight: Any
    ) -> DualProblem:
        return reader.build_problem(X, Y, sample_weight)

    def _keep(self, result: Result, tol: float) -> None:
        super()._keep(result, tol)
        blocks = result.state.blocks
        n_open = sum(not block.converged for block in blocks)
        self.n_sweeps_ = sum(block.sweeps for block in blocks)
        self.n_unconverged_ = sum(block.unconverged for block in blocks)
        if n_open:
            self.converged_ = False
            warnings.warn(
                f"MatchingBP: at coef_ the messages of {n_open} samples did not converge in "
                f"{self.max_sweeps} sweeps ({self.n_unconverged_} runs in all), so the gradient is "
                "inexact. Raise max_sweeps or alpha, lower rho, or loosen bp_tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def predict_marginals(
        self, X: Any, tol: float | None = None, method: str | None = None, **options: Any
    ) -> list[Any]:
        """The beliefs, per sample of shape (n_rows, n_cols); warns if messages do not converge.

        `tol` is by default `bp_tol`. Other methods, and what they return, are those of
        `BipartiteMatchingCRF`.
        """
        if method is not None:
            return super().predict_marginals(X, tol, method, **options)
        check_is_fitted(self, "estimator_")
        prepared = self.estimator_._fitting(X, self.estimator_.rho)
        algorithm = self._algorithm()
        if tol is not None:
            algorithm = replace(algorithm, bp_tol=check_positive(tol, "tol"))
        blocks = algorithm.messages([block for block, _ in prepared])
        with threaded_map(self.estimator_.n_threads(), len(blocks)) as each:
            found = list(each(lambda messages: messages.beliefs(self.coef_)[1], blocks))
        n_open = sum(not messages.converged for messages in blocks)
        if n_open:
            warnings.warn(
                f"predict_marginals: the messages of {n_open} samples did not converge in "
                f"{self.max_sweeps} sweeps",
                ConvergenceWarning,
                stacklevel=2,
            )
        return [pair_table(sample, tau) for (_, sample), tau in zip(prepared, found, strict=True)]


class BlockMessages:
    """log Z_rho and beliefs of one block by message passing, each time from the last messages.

    Attributes
    ----------
    warm : where the last call ended, None before the first
    sweeps : int, over all calls
    unconverged : int, calls that used up `max_sweeps`
    converged : bool, of the last call
    """

    def __init__(self, block: Block, max_sweeps: int, tol: float):
        self.block, self.max_sweeps, self.tol = block, max_sweeps, tol
        self.warm: Any = None
        self.sweeps = self.unconverged = 0
        self.converged = True

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """log Z_rho and the expected moments at theta."""
        log_z, tau = self.beliefs(theta)
        return log_z, self.block.features.moments(tau)

    def beliefs(self, theta: Floats) -> tuple[float, Floats]:
        """log Z_rho and the probability of every pair at theta."""
        found = self.block.structure.belief_propagation(
            self.block.scores(theta), 0.0, self.max_sweeps, self.tol, self.warm
        )
        self.warm, self.converged = found.warm, found.converged
        self.sweeps += found.sweeps
        self.unconverged += not found.converged
        return found.log_partition, found.tau[: self.block.features.n_scored]


@dataclass
class BeliefState:
    """Where a fit ended."""

    theta: Floats
    blocks: list[BlockMessages]


@dataclass(frozen=True)
class BeliefLBFGS:
    """Maximises the likelihood of matchings of two sides.

    max_sweeps : int, over the messages of a block at every theta
    bp_tol : float, messages have converged when no belief moves by more than this in four sweeps
    """

    max_sweeps: int
    bp_tol: float

    name = "belief_propagation"

    def messages(self, blocks: Sequence[Block]) -> list[BlockMessages]:
        """Fresh messages of every block; raises where there can be none."""
        for m, block in enumerate(blocks):
            plain_matching(block, m)
        return [BlockMessages(block, self.max_sweeps, self.bp_tol) for block in blocks]

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: BeliefState | None = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Maximise P; `warm` is the state of an earlier result on the same blocks.

        Bounds are those of exact marginals: they hold as far as messages have converged.
        """
        blocks = self.messages(problem.blocks)
        start = None
        if warm is not None:
            start = warm.theta.copy()
            for block, earlier in zip(blocks, warm.blocks, strict=True):
                block.warm = earlier.warm
        with threaded_map(n_jobs, len(blocks)) as each:
            loss = NegativeLogLikelihood(problem, blocks, each)
            result = minimise(problem, loss, stopping, self.name, start, n_jobs)
        result.state = BeliefState(result.theta, blocks)
        return result


class NegativeLogLikelihood:
    """Minus the likelihood of all blocks, without penalty, and its gradient."""

    def __init__(self, problem: DualProblem, blocks: Sequence[BlockMessages], each: Each = map):
        self.problem, self.blocks, self._each = problem, blocks, each

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        problem = self.problem
        answers = list(self._each(lambda block: block(theta), self.blocks))
        expected = problem.weights @ np.array([moments for _, moments in answers])
        log_partition = float(problem.weights @ np.array([log_z for log_z, _ in answers]))
        fit = float(theta @ problem.target) + problem.offset_score
        return log_partition - fit, expected - problem.target
