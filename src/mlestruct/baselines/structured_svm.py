"""Structured support vector machine for matchings, by block-coordinate Frank-Wolfe.

Minimises  alpha/2 |theta|^2 + sum_m max over y of [ loss(y_m, y) - <theta, G_m'(y_m - y)> ], the
margin-rescaled hinge loss with the share of wrongly matched rows as the loss ("linear + learning"
for landmark matching). Only MAP decoding is needed; it gives an assignment but no probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..learning.averaging import WeightedAverage
from ..learning.history import Monitor
from ..learning.problem import Block, DualProblem
from ..learning.result import run
from ..models.base import StructuredEstimator
from ..models.matching_blocks import MatchingBlocks

Floats = NDArray[np.float64]


class StructuredSVM(MatchingBlocks, StructuredEstimator):
    """Maximum-margin matching with the API of the CRF estimators, without probabilities.

    Parameters
    ----------
    alpha : float, regularisation on the summed hinge loss
    averaging : return the weighted average of the iterates, which generalises better early on
    tol, max_iter, max_time, perfect, feature_names, callback, random_state, verbose :
        as in `BipartiteMatchingCRF`; max_iter counts passes over the samples
    """

    rho = 1.0
    solver = "bcfw"
    warm_start = False
    n_jobs = None

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

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> StructuredSVM:
        """Learn `coef_` from samples X and their observed matchings Y."""
        problem = self._problem(X, Y, sample_weight)
        monitor = Monitor(self._stopping(), problem.alpha, "ssvm")
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
        if self.averaging:
            result.theta = average.value
        result.objective = -result.primal
        self._keep(result, problem)
        return self


class _HingeDual:
    """Dual state: every block's share of theta and of the mean loss."""

    def __init__(self, problem: DualProblem):
        self.problem = problem
        n_blocks = len(problem.blocks)
        self.shares = np.zeros((n_blocks, problem.n_features))
        self.losses = np.zeros(n_blocks)
        self.theta = np.zeros(problem.n_features)
        self.bonus = [_loss_scores(block) for block in problem.blocks]

    def value(self) -> float:
        """The dual value, a lower bound of the smallest hinge objective."""
        return float(self.losses.sum() - 0.5 * self.problem.alpha * (self.theta @ self.theta))

    def _corner(self, m: int) -> tuple[Floats, float, float]:
        """The most violating output of block m: its share of theta, its loss, and the gap."""
        block = self.problem.blocks[m]
        constant, scores = self.bonus[m]
        found = block.structure.decode(block.scores(self.theta) + scores)
        moments = self.problem.observed_moments[m] - block.moments_at(found.vertex)
        share = block.weight * moments / self.problem.alpha
        loss = block.weight * (constant + found.vertex.dot(scores))
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


def _loss_scores(block: Block) -> tuple[float, Floats]:
    """The share of wrongly matched rows as a linear function: constant + <scores, vertex>."""
    scores = np.zeros(block.structure.n_coordinates)
    observed = block.observed
    pairs = observed.indices < block.structure.n_scored
    count = max(float(observed.values[pairs].sum()), 1.0)
    scores[observed.indices[pairs]] = -observed.values[pairs] / count
    return 1.0, scores
