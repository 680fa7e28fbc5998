"""`MatchingBP`: maximum likelihood by belief propagation inside a gradient loop.

Belief propagation for matchings (Huang and Jebara 2009), here for the reweighted entropy with
rho in [1/2, 1]: its fixed points maximise <scores, tau> + H_rho(tau) over the local polytope, so
beliefs are the gradient of log Z_rho. The classical double loop: messages to convergence, then one
step of the learner, starting the next messages from the last.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ..inference._belief_kernels import propagate
from ..inference.belief_propagation import belief_propagation
from ..models.validation import check_positive
from .base import Batch, MatchingBaseline, ScoreLoss, check_count

Floats = NDArray[np.float64]


class MatchingBP(MatchingBaseline):
    """Approximate maximum likelihood with gradients from belief propagation.

    Minimises  sum over samples of [log Z_rho - score of the observed matching]
    + alpha/2 |theta|^2, the same objective as `BipartiteMatchingCRF`.

    Parameters
    ----------
    alpha : float
        Regularisation, on the summed loss.
    rho : float
        Reweighting of the entropy, 0.5 to 1; 1 is the Bethe approximation and has the fastest
        sweeps.
    max_sweeps : int
        Sweeps over all messages of a sample, per gradient. A few (such as 10) give the truncated
        algorithm, whose gradients are inexact.
    bp_tol : float
        A sample's messages have converged when no belief moves by more than this in a sweep.
    max_iter : int
        Iterations of L-BFGS.
    tol : float
        Stop when |gradient|^2 / (2 alpha), a bound of the suboptimality if messages converged, is
        at most tol * max(1, |loss|).

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    objective_ : float, the minimised loss with its penalty
    n_iter_, n_evaluations_ : int
    n_sweeps_ : int, over all samples and evaluations
    n_unconverged_ : int, runs of belief propagation that used up `max_sweeps`
    seconds_ : float
    history_ : list of (seconds, loss), one per iteration
    converged_ : bool, of the outer loop, with all messages of the last evaluation converged

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines.matching_bp import MatchingBP
    >>> rng = np.random.default_rng(0)
    >>> left, noise = rng.normal(size=(20, 6, 2)), rng.normal(size=(20, 6, 2))
    >>> X = [-((a[:, None] - b[None]) ** 2) for a, b in zip(left, left + 0.3 * noise)]
    >>> model = MatchingBP(alpha=10.0, rho=0.9).fit(X, [np.arange(6)] * 20)
    >>> model.converged_, model.n_unconverged_
    (True, 0)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        rho: float = 1.0,
        max_sweeps: int = 2000,
        bp_tol: float = 1e-8,
        max_iter: int = 1000,
        tol: float = 1e-6,
    ):
        self.alpha = alpha
        self.rho = rho
        self.max_sweeps = max_sweeps
        self.bp_tol = bp_tol
        self.max_iter = max_iter
        self.tol = tol

    def _check_parameters(self) -> None:
        check_rho(self.rho)
        check_count(self.max_sweeps, "max_sweeps")
        check_positive(self.bp_tol, "bp_tol")
        super()._check_parameters()

    def _score_loss(self, batch: Batch) -> ScoreLoss:
        return _BatchLoss(batch, float(self.rho), int(self.max_sweeps), float(self.bp_tol))

    def _summarise(self, losses: Sequence[ScoreLoss]) -> None:
        runs = [loss for loss in losses if isinstance(loss, _BatchLoss)]
        self.n_sweeps_ = sum(loss.sweeps for loss in runs)
        self.n_unconverged_ = sum(loss.unconverged for loss in runs)
        open_runs = sum(loss.open_runs for loss in runs)
        if open_runs:
            self.converged_ = False
            warnings.warn(
                f"MatchingBP: at coef_ the messages of {open_runs} samples did not converge in "
                f"{self.max_sweeps} sweeps ({self.n_unconverged_} runs in all), so the gradient is "
                "inexact. Raise max_sweeps or alpha, lower rho, or loosen bp_tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _marginals(self, scores: Floats) -> Floats:
        """The beliefs. Those that did not converge are returned with a warning."""
        found = belief_propagation(scores, self.rho, max_sweeps=self.max_sweeps, tol=self.bp_tol)
        if not found.converged:
            warnings.warn(
                f"MatchingBP: messages did not converge in {self.max_sweeps} sweeps",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found.beliefs


class _BatchLoss:
    """Sum of log Z_rho - observed scores; every call starts from the messages of the last."""

    def __init__(self, batch: Batch, rho: float, max_sweeps: int, tol: float):
        n_samples, n_rows, n_cols = batch.shape
        self.rho, self.max_sweeps, self.tol = rho, max_sweeps, tol
        self.observed = batch.observed
        self.messages = np.zeros((n_samples, 2, n_rows, n_cols))
        self.warm = False
        self.sweeps = 0
        self.unconverged = 0  # runs, over all calls
        self.open_runs = 0  # in the last call

    def __call__(self, scores: Floats) -> tuple[float, Floats]:
        gradient = np.empty_like(scores)
        value = -float(scores.ravel()[self.observed].sum())
        self.open_runs = 0
        n_rows, n_cols = scores.shape[1:]
        free = np.full(n_rows, n_rows > n_cols), np.full(n_cols, n_cols > n_rows)
        for table, messages, beliefs in zip(scores, self.messages, gradient, strict=True):
            log_partition, sweeps, _, converged = propagate(
                table, self.rho, *free, messages, self.warm, 0.0, self.max_sweeps, self.tol, beliefs
            )
            value += log_partition
            self.sweeps += sweeps
            self.open_runs += not converged
        self.unconverged += self.open_runs
        self.warm = True
        gradient.ravel()[self.observed] -= 1.0
        return value, gradient


def check_rho(rho: Any) -> float:
    """`rho` as a float between 0.5 and 1."""
    value = check_positive(rho, "rho")
    if not 0.5 <= value <= 1.0:
        raise ValueError(f"rho must lie in [0.5, 1], got {rho!r}")
    return value
