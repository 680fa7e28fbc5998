"""Estimators with an algorithm of their own behind the API of the CRFs."""

from __future__ import annotations

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
        problem = self._problem(X, Y, sample_weight, merge=self.merges_samples)
        self._learn_names(problem)
        result = algorithm.solve(
            problem, self._stopping(), None, self._generator(), self._threads()
        )
        self._keep(result, problem)
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
        problem = reader._problem(X, Y, sample_weight, merge=self.merges_samples)
        layout = getattr(reader, "_layout", None)
        rng, state = self._generator(), None
        path = RegularizationPath([], [])
        for alpha in ordered:
            result = algorithm.solve(
                problem.with_alpha(alpha), self._stopping(), state, rng, self._threads()
            )
            fitted: Any = clone(self).set_params(alpha=alpha)
            if layout is not None:
                fitted._restore(layout)
            fitted._learn_names(problem)
            fitted._keep(result, problem)
            path.alphas.append(alpha)
            path.estimators.append(fitted)
            if result.interrupted:
                break
            state = result.state
        return path
