"""Estimators with an algorithm of their own behind the API of the CRFs."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from ..learning.path import check_alphas
from ..models.base import RegularizationPath, StructuredEstimator


class OwnAlgorithm(StructuredEstimator):
    """`fit` and `fit_path` by an algorithm that is not one of the library's solvers.

    A mixin: it comes before the class that reads samples.
    """

    merges_samples = False  # whether samples that share one X may become one weighted block
    warm_start = False

    @abstractmethod
    def _algorithm(self) -> Any:
        """Something with `solve(problem, stopping, warm, random_state, n_jobs)`."""

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Any:
        """Learn `coef_` from samples X and their observed outputs Y.

        Returns
        -------
        self
        """
        algorithm = self._algorithm()
        problem = self.build_problem(X, Y, sample_weight, separate=not self.merges_samples)
        result = algorithm.solve(problem, self.stopping(), None, self.generator(), self.n_threads())
        self._keep(result, self.tol)
        return self

    def fit_path(
        self, X: Any, Y: Any, alphas: Sequence[float], sample_weight: Any = None
    ) -> RegularizationPath:
        """Fit one estimator per alpha, from strong to weak, each starting from the last.

        This estimator itself is left as it is.
        """
        ordered = check_alphas(alphas)
        reader = clone(self)
        algorithm = reader._algorithm()
        problem = reader.build_problem(X, Y, sample_weight, separate=not self.merges_samples)
        rng, state = self.generator(), None
        path = RegularizationPath([], [])
        for alpha in ordered:
            result = algorithm.solve(
                problem.with_alpha(alpha), self.stopping(), state, rng, self.n_threads()
            )
            fitted: Any = copy.copy(reader).set_params(alpha=alpha)
            fitted._keep(result, self.tol)
            path.alphas.append(alpha)
            path.estimators.append(fitted)
            if result.interrupted:
                break
            state = result.state
        return path
