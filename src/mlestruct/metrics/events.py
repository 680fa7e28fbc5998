"""Events and their probabilities, in the order of scikit-learn.

An event is "row i is paired with column j" or "node n has state s". scikit-learn's `roc_auc_score`,
`log_loss`, `brier_score_loss` and `precision_recall_curve` take `happened`, `probability` and
`sample_weight=weight`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arguments import as_floats

Floats = NDArray[np.float64]

ROUNDING = 1e-9  # how far outside of [0, 1] a probability may be before it is an error


class Events(NamedTuple):
    """Flat arrays of equal length: whether events happened, their probabilities, their weights."""

    happened: NDArray[np.bool_]
    probability: Floats
    weight: Floats


def as_events(happened: ArrayLike, probability: ArrayLike, weight: Any = None) -> Events:
    """Events from arrays of one shape: 0 and 1 or booleans, probabilities, and weights if any.

    Examples
    --------
    >>> as_events([[1, 0]], [[0.9, 0.1]]).probability
    array([0.9, 0.1])
    """
    p = as_floats(probability, "probability")
    y = as_floats(happened, "happened")
    w = np.ones(p.shape) if weight is None else as_floats(weight, "weight")
    for name, array in (("happened", y), ("weight", w)):
        if array.shape != p.shape:
            raise ValueError(
                f"{name}: expected shape {p.shape} like probability, got {array.shape}"
            )
    wrong = ~((p >= -ROUNDING) & (p <= 1.0 + ROUNDING))
    if wrong.any():
        raise ValueError(f"`probability` must be from 0 to 1; got {p[wrong][0]}.")
    if not ((y == 0) | (y == 1)).all():
        raise ValueError("happened: expected 0 and 1 or booleans only")
    if not ((w >= 0) & np.isfinite(w)).all():
        raise ValueError("weight: expected finite numbers of at least 0")
    return Events(y.ravel() == 1, np.clip(p, 0.0, 1.0).ravel(), w.ravel())


def join_events(parts: Iterable[Events]) -> Events:
    """The events of all parts, one after the other."""
    empty = Events(np.zeros(0, dtype=np.bool_), np.zeros(0), np.zeros(0))
    return Events(*map(np.concatenate, zip(empty, *parts, strict=True)))
