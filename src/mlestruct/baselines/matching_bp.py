"""`MatchingBP`: maximum likelihood by belief propagation inside a gradient loop.

Belief propagation for matchings (Huang and Jebara 2009), here for the reweighted entropy with
rho in [1/2, 1]: its fixed points maximise <scores, tau> + H_rho(tau) over the local polytope, so
beliefs are the gradient of log Z_rho.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..learning.history import Progress
from ..learning.result import Result
from ..models.matching_base import MatchingProbabilities
from ..models.matching_blocks import BipartiteBlocks, pair_table
from ..models.validation import check_positive
from .base import check_count
from .belief_solver import BeliefLBFGS
from .fitting import OwnAlgorithm


class MatchingBP(OwnAlgorithm, BipartiteBlocks, MatchingProbabilities):
    """Approximate maximum likelihood of matchings, with gradients from belief propagation.

    The objective is that of `BipartiteMatchingCRF`, and so are samples, labels and decoder. It has
    no certificate of its own: what it reports is right as far as messages have converged.

    Parameters
    ----------
    alpha : float
        Regularisation, on the summed log-likelihood.
    rho : float
        Reweighting of the entropy, 0.5 to 1, the same at all nodes; 1 is the Bethe approximation
        and has the fastest sweeps.
    max_sweeps : int
        Sweeps over all messages of a sample, per gradient. A few (such as 10) give the truncated
        algorithm, whose gradients are inexact.
    bp_tol : float
        A sample's messages have converged when no belief moves by more than this in a sweep.
    tol : float
        Stop when |gradient|^2 / (2 alpha), a bound of the suboptimality if messages converged, is
        at most tol * max(1, |objective|).
    max_iter : int
        Iterations of L-BFGS.
    max_time, perfect, feature_names, callback, n_jobs, verbose : as in `BipartiteMatchingCRF`

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    objective_ : float, an upper bound of the best attainable likelihood if messages converged
    duality_gap_ : float, |gradient|^2 / (2 alpha)
    converged_ : bool, of the outer loop, with all messages at coef_ converged
    n_sweeps_ : int, over all samples and evaluations
    n_unconverged_ : int, runs of belief propagation that used up `max_sweeps`
    history_, n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    Nodes have at most one partner: there is no `capacity`.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import MatchingBP
    >>> rng = np.random.default_rng(0)
    >>> left, noise = rng.normal(size=(20, 6, 2)), rng.normal(size=(20, 6, 2))
    >>> X = [-((a[:, None] - b[None]) ** 2) for a, b in zip(left, left + 0.3 * noise)]
    >>> model = MatchingBP(alpha=10.0, rho=0.9).fit(X, [np.arange(6)] * 20)
    >>> model.converged_, model.n_unconverged_
    (True, 0)
    """

    merges_samples = True
    random_state = None

    def __init__(
        self,
        alpha: float = 1.0,
        rho: float = 1.0,
        max_sweeps: int = 2000,
        bp_tol: float = 1e-8,
        tol: float = 1e-6,
        max_iter: int = 1000,
        max_time: float | None = None,
        perfect: bool | str = True,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.rho = rho
        self.max_sweeps = max_sweeps
        self.bp_tol = bp_tol
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.perfect = perfect
        self.feature_names = feature_names
        self.callback = callback
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _algorithm(self) -> BeliefLBFGS:
        if np.ndim(self.rho) or isinstance(self.rho, str):
            raise ValueError(f"rho: messages need one number for all nodes, got {self.rho!r}")
        return BeliefLBFGS(
            check_count(self.max_sweeps, "max_sweeps"), check_positive(self.bp_tol, "bp_tol")
        )

    def _keep(self, result: Result, tol: float) -> None:
        super()._keep(result, tol)
        blocks, open_runs = result.state.blocks, result.state.open_runs
        self.n_sweeps_ = sum(block.sweeps for block in blocks)
        self.n_unconverged_ = sum(block.unconverged for block in blocks)
        if open_runs:
            self.converged_ = False
            warnings.warn(
                f"MatchingBP: at coef_ the messages of {open_runs} samples did not converge in "
                f"{self.max_sweeps} sweeps ({self.n_unconverged_} runs in all), so the gradient is "
                "inexact. Raise max_sweeps or alpha, lower rho, or loosen bp_tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def predict_marginals(
        self, X: Any, tol: float | None = None, method: str = "bp", **options: Any
    ) -> list[Any]:
        """The beliefs, per sample of shape (n_rows, n_cols); a warning tells if some are not final.

        `tol` is by default `bp_tol`. Other methods, and what they return, are those of
        `BipartiteMatchingCRF`.
        """
        if method != "bp" or options:
            return super().predict_marginals(X, 1e-6 if tol is None else tol, method, **options)
        prepared = self._fitting(X, self.rho)
        algorithm = self._algorithm()
        if tol is not None:
            algorithm = replace(algorithm, bp_tol=check_positive(tol, "tol"))
        blocks = algorithm.messages([block for block, _ in prepared])
        found = self._each(lambda messages: messages.beliefs(self.coef_)[1], blocks)
        open_runs = sum(not messages.converged for messages in blocks)
        if open_runs:
            warnings.warn(
                f"predict_marginals: the messages of {open_runs} samples did not converge in "
                f"{self.max_sweeps} sweeps",
                ConvergenceWarning,
                stacklevel=2,
            )
        return [pair_table(sample, tau) for (_, sample), tau in zip(prepared, found, strict=True)]
