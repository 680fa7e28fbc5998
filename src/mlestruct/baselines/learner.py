"""What the learners share: they train the model of a CRF estimator by an algorithm of their own.

The estimator validates samples and labels, builds their output spaces and decodes. Its parameters
also set the budget (`tol`, `max_iter`, `max_time`, `callback`), random numbers and threads. Its
`solver`, its `warm_start` and, where the algorithm needs no entropy, its `rho` have no effect.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from ..labels import States
from ..learning.problem import DualProblem
from ..learning.result import Result, Stopping
from ..learning.solvers import check_alphas, regularization_path
from ..models.base import CertifiedModel, RegularizationPath, StructuredEstimator
from ..models.failed_fits import unchanged_on_failure

if TYPE_CHECKING:
    from ..metrics import Events

Floats = NDArray[np.float64]


class Algorithm(Protocol):
    """What trains: a solver of the library, or one with the same method."""

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: Any = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Learn theta; `warm` is the state of an earlier result on the same blocks."""


class Learner(MetaEstimatorMixin, CertifiedModel):
    """Base of the learners. Subclasses name their algorithm.

    Attributes
    ----------
    estimator_ : a clone of `estimator` with the learned weights, which reads and decodes samples
    """

    estimator: StructuredEstimator
    estimator_: StructuredEstimator
    has_l1 = False  # whether it takes the estimator's l1_ratio

    @abstractmethod
    def _algorithm(self) -> Algorithm:
        """The algorithm, its parameters checked."""

    def _problem(
        self, reader: StructuredEstimator, X: Any, Y: Any, sample_weight: Any
    ) -> DualProblem:
        """What is to be learned, as `reader` reads it."""
        return reader.build_problem(X, Y, sample_weight, separate=True)

    def _stopping(self) -> Stopping:
        return self.estimator.stopping()

    def _reader(self) -> StructuredEstimator:
        """A clone of the estimator, without its callback, which may not allow a copy."""
        if not isinstance(self.estimator, StructuredEstimator):
            raise TypeError(
                f"estimator: expected a CRF estimator such as GridCRF(), got {self.estimator!r}"
            )
        if self.estimator.l1_ratio and not self.has_l1:
            raise ValueError(
                f"estimator: {type(self).__name__} has the penalty alpha/2 |w|^2 only; use "
                f"l1_ratio=0, got {self.estimator.l1_ratio!r}"
            )
        reader: StructuredEstimator = clone(copy.copy(self.estimator).set_params(callback=None))
        return reader

    # ------------------------------------------------------------------ fitting
    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Any:
        """Learn `coef_` from samples X and their observed outputs Y.

        Returns
        -------
        self
        """
        reader, algorithm, stopping = self._reader(), self._algorithm(), self._stopping()
        problem = self._problem(reader, X, Y, sample_weight)
        # The caller's own callback and random numbers, not copies of them.
        result = algorithm.solve(
            problem, stopping, None, self.estimator.generator(), self.estimator.n_threads()
        )
        with unchanged_on_failure(self):
            self.estimator_ = reader
            self._keep(result, stopping.tol)
        return self

    # ------------------------------------------------------------------ what was learned
    @property
    def coef_(self) -> Floats:
        """The learned weights, laid out as those of the estimator."""
        return self.estimator_.coef_

    @coef_.setter
    def coef_(self, value: Floats) -> None:
        self.estimator_.coef_ = value

    def _full_coef(self, theta: Floats) -> Floats:
        return self.estimator_._full_coef(theta)

    @property
    def n_features_in_(self) -> int:
        """As in the estimator."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """As in the estimator."""
        return self.estimator_.feature_names_in_

    @property
    def states_(self) -> States | None:
        """As in the estimator."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.states_

    def named_coef(self) -> dict[str, float]:
        """Learned weights by name, as in the estimator."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.named_coef()

    def predict(self, X: Any) -> list[Any]:
        """The best output of each sample, decoded by the estimator."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(X)

    def score(self, X: Any, Y: Any) -> float:
        """1 - mean Hamming loss per sample, as in the estimator."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.score(X, Y)

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        return self.estimator_._learned_names()

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        self.estimator_ = self._reader()
        self.estimator_._reload(coef, names, layout)


class RegularizedLearner(Learner):
    """Learners with a penalty alpha/2 |theta|^2, the alpha of their estimator."""

    def fit_path(
        self, X: Any, Y: Any, alphas: Sequence[float], sample_weight: Any = None
    ) -> RegularizationPath:
        """Fit one learner per alpha, from strong to weak, each starting from the last.

        This learner itself is left as it is.
        """
        check_alphas(alphas)
        reader, algorithm, stopping = self._reader(), self._algorithm(), self._stopping()
        problem = self._problem(reader, X, Y, sample_weight)
        path = RegularizationPath([], [])
        for alpha, result in regularization_path(
            problem, alphas, algorithm, stopping,
            self.estimator.generator(), self.estimator.n_threads(),
        ):  # fmt: skip
            fitted = clone(self).set_params(estimator__alpha=alpha)
            fitted.estimator_ = copy.copy(reader).set_params(alpha=alpha)
            fitted._keep(result, stopping.tol)
            path.alphas.append(alpha)
            path.estimators.append(fitted)
        return path


class ProbabilisticLearner(RegularizedLearner):
    """Learners of a distribution: probabilities are those of the estimator at `coef_`."""

    estimator_: Any
    marginals_method = "auto"  # of `predict_marginals`, unless another one is asked for

    def predict_marginals(
        self, X: Any, tol: float | None = None, method: str | None = None, **options: Any
    ) -> list[Any]:
        """Probabilities of the parts of each output; `tol` and `method` as in the estimator."""
        check_is_fitted(self, "estimator_")
        if tol is not None:
            options = {**options, "tol": tol}
        chosen = self.marginals_method if method is None else method
        if chosen != "auto":
            options = {**options, "method": chosen}
        found: list[Any] = self.estimator_.predict_marginals(X, **options)
        return found

    def sample(self, X: Any, n_samples: int = 1, **options: Any) -> list[Any]:
        """Outputs drawn from p(y | x; coef_), as the estimator draws them."""
        check_is_fitted(self, "estimator_")
        drawn: list[Any] = self.estimator_.sample(X, n_samples, **options)
        return drawn

    def events(self, X: Any, Y: Any, method: str | None = None, **options: Any) -> Events:
        """Events and their probabilities, as in the estimator."""
        check_is_fitted(self, "estimator_")
        chosen = self.marginals_method if method is None else method
        found: Events = self.estimator_.events(X, Y, method=chosen, **options)
        return found

    def log_likelihood(self, X: Any, Y: Any) -> Floats:
        """Exact log p(y | x; coef_) of each sample, shape (n_samples,); small samples only."""
        check_is_fitted(self, "estimator_")
        found: Floats = self.estimator_.log_likelihood(X, Y)
        return found

    def log_likelihood_bounds(self, X: Any, Y: Any) -> tuple[Floats, Floats]:
        """Proven bounds of `log_likelihood`, each of shape (n_samples,)."""
        check_is_fitted(self, "estimator_")
        bounds: tuple[Floats, Floats] = self.estimator_.log_likelihood_bounds(X, Y)
        return bounds
