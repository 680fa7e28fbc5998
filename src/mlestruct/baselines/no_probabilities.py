"""Methods that an estimator does not have, and why."""

from __future__ import annotations

from typing import Any


class Unavailable:
    """In place of a method: looking it up raises an AttributeError that says why.

    `hasattr` is False, as for any method that is not there.
    """

    def __init__(self, why: str):
        self._why = why
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        raise AttributeError(f"{type(instance).__name__} has no {self._name}: {self._why}")


SCORES_ONLY = (
    "it learns scores, not probabilities; the conditional random fields of mlestruct have them"
)


class NoProbabilities:
    """Mixin of estimators that learn scores without a distribution, in front of their base."""

    predict_marginals: Any = Unavailable(SCORES_ONLY)
    sample: Any = Unavailable(SCORES_ONLY)
    calibration: Any = Unavailable(SCORES_ONLY)
    log_likelihood: Any = Unavailable(SCORES_ONLY)
    log_likelihood_bounds: Any = Unavailable(SCORES_ONLY)
    approximate_log_likelihood: Any = Unavailable(SCORES_ONLY)
