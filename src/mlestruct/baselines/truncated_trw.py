"""`TruncatedTRW`: likelihood of labellings by a fixed number of message-passing sweeps.

After Domke (2013, "Learning graphical model parameters with approximate marginal inference"): for
every theta the messages of each image start anew from uniform ones and get n_sweeps sweeps of
tree-reweighted message passing. The pseudo-marginals tau that are then at hand stand in for the
maximisers,

    log Z_rho  ~  <scores, tau> + H_rho(tau),      gradient  ~  moments of (y - tau),

and L-BFGS does the rest. The messages of `GridCRF` are used (one sweep is a pass forwards and one
back), so a sweep costs the same on both sides.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..algorithms.pairwise import _grid_message_passing_kernels as kernels
from ..algorithms.pairwise.grid_message_passing import in_linear_range
from ..learning.path import check_alphas
from ..learning.problem import Block, DualProblem
from ..learning.threads import blas_threads
from ..models.base import RegularizationPath
from ..models.grid import GridCRF
from .base import check_count

Floats = NDArray[np.float64]

MEMORY = 20  # steps that L-BFGS remembers


@dataclass(frozen=True)
class TruncatedEvaluation:
    """What n_sweeps sweeps make of one theta.

    value : the surrogate of P(theta), regularised; an upper bound of P(theta)
    gradient : observed moments - moments of tau - alpha theta
    dual : L(tau), an upper bound of the best attainable P
    """

    theta: Floats
    value: float
    gradient: Floats
    dual: float


@dataclass(frozen=True)
class TruncatedProgress:
    """What a callback sees after each iteration of L-BFGS; returning True stops."""

    iteration: int
    seconds: float
    n_evaluations: int
    objective: float
    theta: Floats


class TruncatedTRW(GridCRF):
    """Grid CRF fitted with truncated message passing inside L-BFGS.

    Features, weights and objective are those of `GridCRF`, except that log Z_rho and its gradient
    come from `n_sweeps` sweeps that start from uniform messages at every evaluation.

    There is no certificate. For no finite number of sweeps is the result guaranteed to be the
    optimum: value and gradient belong to each other only where messages have converged, and
    L-BFGS stops where it can no longer improve the surrogate. Whether the sweeps were enough can
    be told by fitting again with more of them.

    Parameters
    ----------
    alpha : float
        Regularisation, on the summed log-likelihood.
    n_sweeps : int
        Sweeps of message passing over each image, per evaluation.
    rho, neighbours, per_direction, n_states, feature_names, n_jobs
        As for `GridCRF`. The fast sweeps are those of two states, 4 neighbours and rho = 1/2.
    tol : float
        L-BFGS stops when the surrogate changes by less than this, relative to its size.
    gradient_tol : float
        And when no component of the gradient is larger than this.
    max_iter : int
        Iterations of L-BFGS.
    max_time : float, optional
        Seconds after which to stop.
    callback : callable, optional
        Called with a `TruncatedProgress` at the start and after each iteration; returning True
        stops.

    Attributes
    ----------
    coef_, node_coef_, edge_coef_, classes_, n_features_in_, feature_names_in_
        As for `GridCRF`.
    objective_ : float, the surrogate of the regularised log-likelihood at `coef_`; neither the
        likelihood nor its optimum
    converged_ : bool, by the criteria of L-BFGS alone; False also where its line search finds no
        better point because value and gradient disagree
    n_iter_, n_evaluations_ : int
    seconds_ : float
    history_ : list of (seconds, objective), one per iteration

    Notes
    -----
    Predicted marginals are converged ones, as those of `GridCRF`.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines import TruncatedTRW
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.kron(rng.integers(2, size=(3, 3)), np.ones((4, 4), int)) for _ in range(10)]
    >>> X = [np.stack([np.ones((12, 12)), y + rng.normal(size=(12, 12))], axis=-1) for y in Y]
    >>> model = TruncatedTRW(alpha=1.0, n_sweeps=20).fit(X, Y)
    >>> model.converged_, model.score(X, Y) > 0.85
    (True, True)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        n_sweeps: int = 40,
        rho: Any = "auto",
        neighbours: int = 4,
        per_direction: bool = True,
        tol: float = 1e-9,
        gradient_tol: float = 1e-5,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_states: int | None = None,
        feature_names: Sequence[str] | None = None,
        callback: Callable[[TruncatedProgress], Any] | None = None,
        n_jobs: int | None = None,
    ):
        self.alpha = alpha
        self.n_sweeps = n_sweeps
        self.rho = rho
        self.neighbours = neighbours
        self.per_direction = per_direction
        self.tol = tol
        self.gradient_tol = gradient_tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_states = n_states
        self.feature_names = feature_names
        self.callback = callback  # type: ignore[assignment]
        self.n_jobs = n_jobs

    verbose = 0  # read by `stopping`; L-BFGS has no gap to show

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Any:
        """Learn `coef_` from images X and their labellings Y.

        Returns
        -------
        self
        """
        n_sweeps = check_count(self.n_sweeps, "n_sweeps")
        stopping = self.stopping()
        if not self.gradient_tol >= 0:
            raise ValueError(f"gradient_tol must not be negative, got {self.gradient_tol!r}")
        found = maximise_truncated(
            self.build_problem(X, Y, sample_weight),
            n_sweeps,
            tol=stopping.tol,
            gradient_tol=float(self.gradient_tol),
            max_iter=stopping.max_iter,
            max_time=stopping.max_time,
            callback=self.callback,  # type: ignore[arg-type]
            n_jobs=self.n_threads(),
        )
        self.coef_ = found.theta
        self.objective_ = found.objective
        self.converged_ = found.converged
        self.n_iter_ = found.iterations
        self.n_evaluations_ = found.evaluations
        self.seconds_ = found.seconds
        self.history_ = found.history  # type: ignore[assignment]
        if not found.converged:
            warnings.warn(
                f"TruncatedTRW: stopped after {found.seconds:.1f} s and {found.iterations} "
                f"iterations ({found.message}); the model is the best found so far.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def fit_path(
        self, X: Any, Y: Any, alphas: Sequence[float], sample_weight: Any = None
    ) -> RegularizationPath:
        """Fit one estimator per alpha, from strong to weak, each from scratch."""
        ordered = check_alphas(alphas)
        fitted = [clone(self).set_params(alpha=alpha).fit(X, Y, sample_weight) for alpha in ordered]
        return RegularizationPath(ordered, fitted)

    def save(self, path: str | Path) -> None:
        """Models without a certificate are not stored."""
        raise TypeError("TruncatedTRW: cannot be saved; keep coef_, or fit a GridCRF and save that")


# ---------------------------------------------------------------------- the surrogate
class TruncatedLikelihood:
    """The surrogate of P as a function of theta; nothing is kept between calls.

    Parameters
    ----------
    problem : DualProblem over pairwise structures
    n_sweeps : int
    pool : threads over the blocks
    check : called before each block; what it raises ends the evaluation
    """

    def __init__(
        self,
        problem: DualProblem,
        n_sweeps: int,
        pool: ThreadPoolExecutor | None = None,
        check: Callable[[], None] = lambda: None,
    ):
        self.problem, self.n_sweeps = problem, n_sweeps
        self._pool, self._check = pool, check

    def __call__(self, theta: Floats) -> TruncatedEvaluation:
        problem = self.problem
        total, expected = 0.0, np.zeros(problem.n_features)
        each = self._pool.map if self._pool is not None else map
        answers = each(lambda block: self._block(block, theta), problem.blocks)
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
        tau, value = truncated_marginals(block.structure, block.scores(theta), self.n_sweeps)
        return value, block.moments(tau)


def truncated_marginals(structure: Any, scores: Floats, n_sweeps: int) -> tuple[Floats, float]:
    """tau after n_sweeps sweeps from uniform messages, and <scores, tau> + H_rho(tau).

    tau is the point of the local polytope that the beliefs of the nodes lead to.
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
@dataclass
class TruncatedResult:
    """What L-BFGS found; `theta` has the best surrogate value of all iterates."""

    theta: Floats
    objective: float
    converged: bool
    message: str
    iterations: int
    evaluations: int
    seconds: float
    history: list[tuple[float, float]]


class _StoppedError(Exception):
    """The time is up, or the callback has had enough."""


def maximise_truncated(
    problem: DualProblem,
    n_sweeps: int,
    *,
    tol: float = 1e-9,
    gradient_tol: float = 1e-5,
    max_iter: int = 1000,
    max_time: float | None = None,
    callback: Callable[[TruncatedProgress], Any] | None = None,
    n_jobs: int = 1,
) -> TruncatedResult:
    """Climb the surrogate by L-BFGS from theta = 0 until its own criteria are met.

    Ctrl-C keeps the best theta so far.
    """
    start = time.perf_counter()
    best = TruncatedEvaluation(np.zeros(problem.n_features), -np.inf, np.zeros(0), np.inf)
    history: list[tuple[float, float]] = []
    evaluations = 0

    def check_time() -> None:
        if max_time is not None and history and time.perf_counter() - start >= max_time:
            raise _StoppedError("max_time")

    def report(theta: Floats, value: float) -> None:
        seconds = time.perf_counter() - start
        history.append((seconds, value))
        if callback is None:
            return
        progress = TruncatedProgress(len(history) - 1, seconds, evaluations, value, theta.copy())
        if callback(progress):
            raise _StoppedError("callback")

    def negative(theta: Floats) -> tuple[float, Floats]:
        nonlocal best, evaluations
        at = surrogate(theta.copy())
        evaluations += 1
        if at.value > best.value:
            best = at
        if not history:
            report(theta, at.value)
        return -at.value, -at.gradient

    def iterated(intermediate_result: OptimizeResult) -> None:
        report(intermediate_result.x, -float(intermediate_result.fun))

    n_threads = min(n_jobs, len(problem.blocks))
    pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
    surrogate = TruncatedLikelihood(problem, n_sweeps, pool, check_time)
    converged, message = False, ""
    try:
        with blas_threads(problem, n_jobs):
            found = minimize(
                negative,
                np.zeros(problem.n_features),
                jac=True,
                method="L-BFGS-B",
                callback=iterated,
                options={
                    "maxcor": MEMORY,
                    "ftol": tol,
                    "gtol": gradient_tol,
                    "maxiter": max_iter,
                    "maxfun": 20 * max_iter,
                },
            )
        converged, message = bool(found.success), str(found.message)
    except _StoppedError as stopped:
        message = f"stopped by {stopped}"
    except KeyboardInterrupt:
        message = "interrupted"
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
    return TruncatedResult(
        best.theta,
        best.value,
        converged,
        message,
        max(len(history) - 1, 0),
        evaluations,
        time.perf_counter() - start,
        history,
    )
