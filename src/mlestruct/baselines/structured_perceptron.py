"""Averaged structured perceptron for matchings within one group.

After each MAP call the weights move by the difference of observed and predicted moments; the mean
of all iterates is the result (Collins). No regularisation, no probabilities, no certificate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..learning.history import Monitor
from ..learning.result import run
from ..models.matching_base import MatchingEstimator
from ..models.matching_blocks import GroupBlocks

Floats = NDArray[np.float64]


class MatchingPerceptron(GroupBlocks, MatchingEstimator):
    """Structured perceptron with the API of the CRFs.

    Parameters
    ----------
    max_iter : int, passes over the samples
    rate : float, learning rate of the first pass
    decay : float, pass t (from 0) has the rate  rate / (1 + decay * t)
    polytope : "exact" or "local", over which the best matching is sought
    max_time, perfect, feature_names, random_state, verbose : as in `MatchingCRF`
    """

    rho = 1.0
    alpha = 1.0
    tol = 1e-12
    callback = None
    n_jobs = None
    warm_start = False

    def __init__(
        self,
        max_iter: int = 30,
        rate: float = 1.0,
        decay: float = 0.0,
        polytope: str = "exact",
        max_time: float | None = None,
        perfect: bool = True,
        feature_names: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.max_iter = max_iter
        self.rate = rate
        self.decay = decay
        self.polytope = polytope
        self.max_time = max_time
        self.perfect = perfect
        self.feature_names = feature_names
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> MatchingPerceptron:
        """Learn `coef_` from samples X and their observed matchings Y."""
        problem = self._problem(X, Y, sample_weight, merge=False)
        self._learn_names(problem)
        monitor = Monitor(self._stopping(), "perceptron")
        rng = self._generator()
        theta = np.zeros(problem.n_features)
        total, count = np.zeros(problem.n_features), 0

        def loop() -> None:
            nonlocal count
            for sweep in range(monitor.stopping.max_iter):
                rate, mistakes = self.rate / (1.0 + self.decay * sweep), 0.0
                for m in rng.permutation(len(problem.blocks)):
                    block = problem.blocks[m]
                    found = block.structure.decode(block.scores(theta))
                    change = problem.observed_moments[m] - block.moments_at(found.vertex)
                    theta[:] += rate * block.weight * change
                    mistakes += float(np.abs(change).sum())
                    monitor.oracle_calls += 1
                    total[:] += theta
                    count += 1
                # There is no objective: what remains wrong stands in for the gap.
                if monitor.record(sweep, total / count, dual=mistakes, primal=0.0):
                    return

        result = run(problem, monitor, loop, lambda: total / max(count, 1))
        result.theta = total / max(count, 1)
        result.converged = True  # it has made its passes; there is nothing to be certified
        self._keep(result, problem)
        return self
