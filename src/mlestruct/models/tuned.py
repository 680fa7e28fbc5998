"""The base of models for files: alpha by cross-validation, held-out quality, standard errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..labels import States
from ..metrics import HeldOut, token_accuracy
from .base import CertifiedModel, StructuredEstimator
from .labelling import LabellingEstimator
from .matching_base import MatchingProbabilities
from .model_selection import ALPHAS, choose_alpha
from .uncertainty import standard_errors
from .validation import check_options, check_positive, check_random_state

Floats = NDArray[np.float64]
M = TypeVar("M", bound=MatchingProbabilities)


class TunedModel(CertifiedModel):
    """A model around an estimator, with a parameter `alpha` that may be "auto".

    Attributes
    ----------
    alpha_ : the penalty that was used
    held_out_ : `HeldOut`, from cross-validation; None if alpha was given
    coef_error_ : standard errors of `coef_`; None where they are not known
    """

    alpha: float | str
    random_state: Any

    def _estimator(self, alpha: float) -> StructuredEstimator:
        """The estimator, not fitted."""
        raise NotImplementedError

    def _fit_tuned(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        folds: tuple[Sequence[Any], Sequence[Any]] | None = None,
        alphas: Sequence[float] = ALPHAS,
    ) -> Any:
        """Choose alpha, fit the estimator and take over what it learned.

        `folds` are the samples of the cross-validation, by default X and Y; `alphas` those among
        which it chooses.
        """
        self.held_out_: HeldOut | None = None
        check_options(self.get_params(deep=False))
        check_random_state(self.random_state)
        estimator = self._estimator(1.0)
        if self.alpha == "auto":
            samples, outputs = folds or (X, Y)
            choice = choose_alpha(
                estimator, samples, outputs, alphas, random_state=self.random_state
            )
            self.alpha_, self.held_out_ = choice.alpha, choice.held_out
        elif isinstance(self.alpha, str):
            raise ValueError(f"alpha: expected a number or 'auto', got {self.alpha!r}")
        else:
            self.alpha_ = check_positive(self.alpha, "alpha")
        fitted = estimator.set_params(alpha=self.alpha_).fit(X, Y)
        self._adopt(fitted)
        self.coef_error_ = standard_errors(fitted, X)
        return fitted

    def _tuning(self) -> dict[str, Any]:
        """What the layout of a model file says of this class, in plain types."""
        return {
            "alpha": self.alpha_,
            "held_out": None if self.held_out_ is None else self.held_out_.to_dict(),
            "errors": None if self.coef_error_ is None else self.coef_error_.tolist(),
        }

    def _reload_tuning(self, stored: dict[str, Any]) -> None:
        held_out, errors = stored.get("held_out"), stored.get("errors")
        self.alpha_ = float(stored["alpha"])
        self.held_out_ = None if held_out is None else HeldOut(**held_out)
        self.coef_error_ = None if errors is None else np.array(errors, dtype=np.float64)


class TunedLabelling(TunedModel):
    """A model of labels: an estimator of labellings over features of its own making.

    Attributes
    ----------
    estimator_ : the fitted estimator
    """

    estimator_: LabellingEstimator
    _stored_as: ClassVar[str]  # name of the estimator's layout in model files

    def _features(self, samples: Sequence[Any]) -> list[Any]:
        """Samples as the estimator takes them."""
        raise NotImplementedError

    def predict(self, samples: Sequence[Any]) -> list[NDArray[Any]]:
        """The most probable labels of each sample, an array like it."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(self._features(samples))

    def predict_marginals(self, samples: Sequence[Any]) -> list[Floats]:
        """Probabilities of all labels, which are the last axis, in each part of a sample."""
        check_is_fitted(self, "estimator_")
        found: list[Floats] = self.estimator_.predict_marginals(self._features(samples))
        return found

    def score(self, samples: Sequence[Any], labels: Sequence[Any]) -> float:
        """The share of right labels among all that are known."""
        return token_accuracy(self, samples, labels)

    @property
    def states_(self) -> States:
        """As in the estimator."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.states_

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the last axis of `predict_marginals`."""
        return self.estimator_.classes_

    def named_coef(self) -> dict[str, float]:
        """Learned weights by name."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.named_coef()

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        names, layout = self.estimator_._learned_names()
        return names, {self._stored_as: layout, **self._tuning()}

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        stored = layout or {}
        self._reload_tuning(stored)
        self.estimator_ = cast(LabellingEstimator, self._estimator(self.alpha_))
        self.estimator_._reload(coef, names, stored[self._stored_as])
        self.coef_ = coef


class TunedMatching(TunedModel):
    """A model of pairs: an estimator of matchings over features of its own making.

    Attributes
    ----------
    coef_, feature_names_in_ : weights of the features of a pair
    """

    rho: float
    tol: float
    max_time: float | None
    n_jobs: int | None
    verbose: int

    def _feature_names(self) -> list[str]:
        raise NotImplementedError

    def _matching(self, kind: Callable[..., M], alpha: float, **options: Any) -> M:
        """An estimator of matchings with the parameters of this model."""
        return kind(
            alpha=alpha, rho=self.rho, tol=self.tol, max_time=self.max_time, n_jobs=self.n_jobs,
            verbose=self.verbose, feature_names=self._feature_names(), **options,
        )  # fmt: skip

    @property
    def _intercept(self) -> bool:
        """Where nodes may stay single, a constant of every pair is learned."""
        return self.coef_.size > self.feature_names_in_.size

    def _fitted(self) -> Any:
        """The estimator with the learned weights."""
        check_is_fitted(self, "coef_")
        found = self._estimator(self.alpha_)
        layout = {"intercept": True} if self._intercept else None
        found._reload(self.coef_, self.feature_names_in_.tolist(), layout)
        return found

    def named_coef(self) -> dict[str, float]:
        """Learned weights by feature name."""
        check_is_fitted(self, "coef_")
        names = [*self.feature_names_in_.tolist(), *["pair"] * self._intercept]
        return dict(zip(names, self.coef_.tolist(), strict=True))

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any]]:
        return self.feature_names_in_.tolist(), self._tuning()

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        self.coef_ = coef
        self.feature_names_in_ = np.array(self._feature_names(), dtype=object)
        self._reload_tuning(layout or {})
