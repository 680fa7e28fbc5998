"""Scores of a fitted estimator over all parts of all samples, larger is better.

For `scoring=` of scikit-learn's `cross_val_score` and `GridSearchCV`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import log_loss

from .calibration import reliability
from .events import Events

EPSILON = float(np.finfo(np.float64).eps)
NOT_KNOWN = "Y: no label is known, there is nothing to compare with"


def token_accuracy(estimator: Any, X: Any, Y: Any) -> float:
    """The share of correct labels among all tokens, pixels or nodes whose label is known."""
    found = estimator.predict(X)
    if not _n_states(estimator):
        kind = type(estimator).__name__
        raise TypeError(f"token_accuracy: is for labellings, {kind} has none; use its score")
    if len(Y) != len(found):
        raise ValueError(f"X has {len(found)} samples but Y has {len(Y)} labels")
    right = count = 0
    for m, (y, label) in enumerate(zip(found, Y, strict=True)):
        truth = np.asarray(label, dtype=object)
        if truth.shape != y.shape:
            raise ValueError(f"Y[{m}]: expected shape {y.shape}, got {truth.shape}")
        known = (truth != None) & (truth == truth)  # noqa: E711, NaN differs from itself
        right += int(((y == truth) & known).sum())
        count += int(known.sum())
    if not count:
        raise ValueError(NOT_KNOWN)
    return right / count


def neg_log_loss(estimator: Any, X: Any, Y: Any) -> float:
    """Minus the mean of -log(probability of what was observed), at most 36 each.

    Of labellings: the known label of every token, pixel or node; of matchings: whether each pair is
    one; else whether each label or coordinate is 1.
    """
    events, n_states = estimator.events(X, Y), _n_states(estimator)
    if not n_states:
        return -binary_log_loss(events)
    if not events.happened.size:
        raise ValueError(NOT_KNOWN)
    # Probability 0 for a label that did not occur in training.
    observed = (events.happened * events.probability).reshape(-1, n_states).max(axis=1)
    return float(np.mean(np.log(np.maximum(observed, EPSILON))))


def pair_f1(estimator: Any, X: Any, Y: Any) -> float:
    """F1 of predicted pairs: twice the correct pairs over the predicted plus the observed pairs."""
    correct, found, true = estimator._pair_counts(X, Y)
    return 2.0 * correct / (found + true) if found + true else 1.0


def neg_calibration_error(estimator: Any, X: Any, Y: Any) -> float:
    """Minus the expected calibration error of `reliability`, in ten bins."""
    return -reliability(*estimator.events(X, Y)).ece


def binary_log_loss(events: Events) -> float:
    """Mean of -log(probability of the outcome of an event)."""
    happened, p, weight = events
    return float(log_loss(happened, p, sample_weight=weight, labels=[False, True]))


def _n_states(estimator: Any) -> int:
    """The number of states of a node, each of which is an event; 0 unless outputs are labellings.

    Classifiers of scikit-learn have one output per label: `MultiLabelCRF`.
    """
    return 0 if is_classifier(estimator) else len(getattr(estimator, "classes_", ()))
