"""Scores of a fitted estimator over all parts of all samples, larger is better.

For `scoring=` of scikit-learn's `cross_val_score` and `GridSearchCV`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..labels import UNKNOWN, States

EPSILON = float(np.finfo(np.float64).eps)


def token_accuracy(estimator: Any, X: Any, Y: Any) -> float:
    """The share of right labels among all tokens, pixels or nodes whose label is known."""
    states = _states(estimator)
    if states is None:
        kind = type(estimator).__name__
        raise TypeError(f"token_accuracy: is for labellings, {kind} has none; use its score")
    found = [states.encode(y, "predict(X)") for y in estimator.predict(X)]
    truth = _known_states(states, Y, [y.shape for y in found])
    right = [(y == t)[t != UNKNOWN] for y, t in zip(found, truth, strict=True)]
    return float(np.mean(np.concatenate(right)))


def neg_log_loss(estimator: Any, X: Any, Y: Any) -> float:
    """Minus the mean of -log(probability of what was observed), at most 36 each.

    Of labellings the label of every token, pixel or node that is known; of matchings whether each
    allowed pair is one; else whether each label or coordinate is 1.
    """
    states = _states(estimator)
    if states is None:
        return -float(estimator.calibration(X, Y).log_loss)
    tables = [np.asarray(table) for table in estimator.predict_marginals(X)]
    truth = _known_states(states, Y, [table.shape[:-1] for table in tables])
    found = []
    for table, t in zip(tables, truth, strict=True):
        flat, own = table.reshape(-1, table.shape[-1]), t.ravel()
        rows = np.flatnonzero(own != UNKNOWN)
        at = own[rows]
        seen = (at >= 0) & (at < flat.shape[1])  # a label that was not there in training: 0
        found.append(np.where(seen, flat[rows, np.where(seen, at, 0)], 0.0))
    return float(np.mean(np.log(np.maximum(np.concatenate(found), EPSILON))))


def pair_f1(estimator: Any, X: Any, Y: Any) -> float:
    """F1 of predicted pairs: twice the correct ones over predicted and observed ones together."""
    correct, found, true = estimator.pair_counts(X, Y)
    return 2.0 * correct / (found + true) if found + true else 1.0


def neg_calibration_error(estimator: Any, X: Any, Y: Any) -> float:
    """Minus the expected calibration error of `calibration`."""
    return -float(estimator.calibration(X, Y).ece)


def _states(estimator: Any) -> States | None:
    """`states_` of an estimator; None of those that have none, as in other libraries."""
    return estimator.states_ if hasattr(type(estimator), "states_") else None


def _known_states(states: States, Y: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
    """State numbers of observed labels; raises if there is none that is known."""
    if len(Y) != len(shapes):
        raise ValueError(f"X has {len(shapes)} samples but Y has {len(Y)} labels")
    truth = [
        states.encode(y, f"Y[{m}]", shape, allow_others=True)
        for m, (y, shape) in enumerate(zip(Y, shapes, strict=True))
    ]
    if all((t == UNKNOWN).all() for t in truth):
        raise ValueError("Y: no label is known, there is nothing to compare with")
    return truth
