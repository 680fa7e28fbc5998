"""Structured support vector machine for matchings, by block-coordinate Frank-Wolfe.

Minimises  alpha/2 |theta|^2 + sum_m max over y of [ loss(y_m, y) - <theta, G_m'(y_m - y)> ], the
margin-rescaled hinge loss with the share of wrongly matched rows as the loss ("linear + learning"
for landmark matching). Only MAP decoding is needed; it gives an assignment but no probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ..learning.averaging import WeightedAverage
from ..learning.history import Monitor
from ..learning.path import check_alphas
from ..learning.problem import DualProblem
from ..learning.result import run
from ..models.base import RegularizationPath
from ..models.matching_base import MatchingEstimator
from ..models.matching_blocks import BipartiteBlocks, GroupBlocks

Floats = NDArray[np.float64]


class _HingeMachine(MatchingEstimator):
    """Training, whatever the matchings are over."""

    rho = 1.0
    solver = "bcfw"
    warm_start = False
    n_jobs = None
    averaging: bool

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Any:
        """Learn `coef_` from samples X and their observed matchings Y."""
        problem = self._problem(X, Y, sample_weight, merge=False)
        self._learn_names(problem)
        monitor = Monitor(self._stopping(), "ssvm")
        dual = _HingeDual(problem)
        average = WeightedAverage(problem.n_features)
        rng = self._generator()

        def loop() -> None:
            for sweep in range(monitor.stopping.max_iter + 1):
                gap = dual.gap()
                monitor.oracle_calls += len(problem.blocks)
                # The monitor minimises upper and maximises lower bounds; the hinge loss is to be
                # minimised, so both change sign.
                value = dual.value()
                theta = average.value if self.averaging and sweep else dual.theta
                stop = monitor.record(sweep, theta, dual=-value, primal=-(value + gap))
                if stop or sweep == monitor.stopping.max_iter:
                    return
                for m in rng.permutation(len(problem.blocks)):
                    dual.step(int(m))
                    average.add(dual.theta)
                monitor.oracle_calls += len(problem.blocks)

        result = run(problem, monitor, loop, lambda: dual.theta)
        if self.averaging and len(monitor.history):
            result.use(average.value, -dual.hinge(average.value))
        result.objective = -result.primal
        self._keep(result, problem)
        return self

    def fit_path(
        self, X: Any, Y: Any, alphas: Sequence[float], sample_weight: Any = None
    ) -> RegularizationPath:
        """Fit one machine per alpha, from strong to weak."""
        ordered = check_alphas(alphas)
        fitted = [clone(self).set_params(alpha=a).fit(X, Y, sample_weight) for a in ordered]
        return RegularizationPath(ordered, fitted)


class StructuredSVM(BipartiteBlocks, _HingeMachine):
    """Maximum-margin matching of two sides, with the API of the CRFs, without probabilities.

    Parameters
    ----------
    alpha : float, regularisation on the summed hinge loss
    averaging : return the weighted average of the iterates, which generalises better early on
    tol, max_iter, max_time, perfect, feature_names, callback, random_state, verbose :
        as in `BipartiteMatchingCRF`; max_iter counts passes over the samples
    """

    def __init__(
        self,
        alpha: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        averaging: bool = False,
        perfect: bool = True,
        feature_names: Any = None,
        callback: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.averaging = averaging
        self.perfect = perfect
        self.feature_names = feature_names
        self.callback = callback
        self.random_state = random_state
        self.verbose = verbose


class MatchingSVM(GroupBlocks, _HingeMachine):
    """Maximum-margin matching within one group.

    Parameters
    ----------
    alpha : float, regularisation on the summed hinge loss
    polytope : "exact" or "local", over which the most violating output is sought
    averaging : return the weighted average of the iterates
    tol, max_iter, max_time, perfect, feature_names, callback, random_state, verbose :
        as in `MatchingCRF`; max_iter counts passes over the samples
    """

    def __init__(
        self,
        alpha: float = 1.0,
        polytope: str = "exact",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        averaging: bool = False,
        perfect: bool = True,
        feature_names: Any = None,
        callback: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.polytope = polytope
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.averaging = averaging
        self.perfect = perfect
        self.feature_names = feature_names
        self.callback = callback
        self.random_state = random_state
        self.verbose = verbose


class _HingeDual:
    """Dual state: every block's share of theta and of the mean loss."""

    def __init__(self, problem: DualProblem):
        self.problem = problem
        n_blocks = len(problem.blocks)
        self.shares = np.zeros((n_blocks, problem.n_features))
        self.losses = np.zeros(n_blocks)
        self.theta = np.zeros(problem.n_features)
        self.losses_of = [block.structure.hamming_loss(block.observed) for block in problem.blocks]  # type: ignore[attr-defined]

    def value(self) -> float:
        """The dual value, a lower bound of the smallest hinge objective."""
        return float(self.losses.sum() - 0.5 * self.problem.alpha * (self.theta @ self.theta))

    def _violation(self, m: int, theta: Floats) -> tuple[Floats, float]:
        """The most violating output of block m at theta: its share of theta, and its loss.

        Known offsets of the scores count as part of the loss.
        """
        block = self.problem.blocks[m]
        constant, scores = self.losses_of[m]
        vertex = block.structure.decode(block.scores(theta) + scores).vertex
        moments = self.problem.observed_moments[m] - block.moments_at(vertex)
        loss = constant + vertex.dot(scores)
        if block.offset is not None:
            loss += vertex.dot(block.offset) - block.observed.dot(block.offset)
        return block.weight * moments / self.problem.alpha, block.weight * loss

    def hinge(self, theta: Floats) -> float:
        """The objective: alpha/2 |theta|^2 + summed hinge losses."""
        total = 0.5 * self.problem.alpha * float(theta @ theta)
        for m in range(len(self.problem.blocks)):
            share, loss = self._violation(m, theta)
            total += loss - self.problem.alpha * float(share @ theta)
        return total

    def _corner(self, m: int) -> tuple[Floats, float, float]:
        """The most violating output of block m at the current theta, and the block's gap."""
        share, loss = self._violation(m, self.theta)
        slope = self.problem.alpha * float((self.shares[m] - share) @ self.theta)
        return share, loss, slope - self.losses[m] + loss

    def gap(self) -> float:
        """Primal minus dual objective at the current theta."""
        return float(sum(self._corner(m)[2] for m in range(len(self.problem.blocks))))

    def step(self, m: int) -> None:
        """Move block m to the best point between where it is and its most violating output."""
        share, loss, gap = self._corner(m)
        change = share - self.shares[m]
        curvature = self.problem.alpha * float(change @ change)
        if gap <= 0.0:
            return
        eta = min(gap / curvature, 1.0) if curvature > 0.0 else 1.0
        self.shares[m] += eta * change
        self.losses[m] += eta * (loss - self.losses[m])
        self.theta += eta * change
