"""Scores of a fitted estimator over all parts of all samples, larger is better.

For `scoring=` of scikit-learn's `cross_val_score` and `GridSearchCV`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from ..labels import UNKNOWN, States
from .events import Events
from .reliability import reliability

EPSILON = float(np.finfo(np.float64).eps)
NOT_KNOWN = "Y: no label is known, there is nothing to compare with"


def token_accuracy(estimator: Any, X: Any, Y: Any) -> float:
    """The share of correct labels among all tokens, pixels or nodes whose label is known."""
    states = _states(estimator)
    if states is None:
        kind = type(estimator).__name__
        raise TypeError(f"token_accuracy: is for labellings, {kind} has none; use its score")
    found = [states.encode(y, "predict(X)") for y in estimator.predict(X)]
    if len(Y) != len(found):
        raise ValueError(f"X has {len(found)} samples but Y has {len(Y)} labels")
    correct = []
    for m, (y, label) in enumerate(zip(found, Y, strict=True)):
        truth = states.encode(label, f"Y[{m}]", y.shape, allow_others=True)
        correct += (y == truth)[truth != UNKNOWN].tolist()
    if not correct:
        raise ValueError(NOT_KNOWN)
    return float(np.mean(correct))


def neg_log_loss(estimator: Any, X: Any, Y: Any) -> float:
    """Minus the mean of -log(probability of what was observed), at most 36 each.

    Of labellings: the known label of every token, pixel or node; of matchings: whether each pair is
    one; else whether each label or coordinate is 1.
    """
    states, events = _states(estimator), estimator.events(X, Y)
    if states is None:
        return -binary_log_loss(events)
    if not events.happened.size:
        raise ValueError(NOT_KNOWN)
    # Probability 0 for a label that did not occur in training.
    observed = (events.happened * events.probability).reshape(-1, len(states)).max(axis=1)
    return float(np.mean(np.log(np.maximum(observed, EPSILON))))


def pair_f1(estimator: Any, X: Any, Y: Any) -> float:
    """F1 of predicted pairs: twice the correct pairs over the predicted plus the observed pairs."""
    correct, found, true = estimator.pair_counts(X, Y)
    return 2.0 * correct / (found + true) if found + true else 1.0


def neg_calibration_error(estimator: Any, X: Any, Y: Any) -> float:
    """Minus the expected calibration error of `reliability`, in ten bins."""
    return -reliability(*estimator.events(X, Y)).ece


def binary_log_loss(events: Events) -> float:
    """Mean of -log(probability of the outcome of an event)."""
    happened, p, weight = events
    return float(log_loss(happened, p, sample_weight=weight, labels=[False, True]))


def _states(estimator: Any) -> States | None:
    """`states_` of an estimator; None if it has none, as estimators of other libraries."""
    return estimator.states_ if hasattr(type(estimator), "states_") else None
