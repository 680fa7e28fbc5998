"""Constants and scales of features: what `fit_intercept` and `standardize` learn from columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..features.contract import Columns

Floats = NDArray[np.float64]


def standardizing(columns: Columns, centred: bool) -> sparse.csr_array:
    """T with weights = T (weights of standardised columns); the last column is the constant.

    Columns are divided by their standard deviation. Where `centred` their mean is taken off, which
    changes the weight of the constant.
    """
    scale = columns.scale
    size = scale.shape[0]
    at, values = np.arange(size), 1.0 / scale
    row, col = at, at
    if centred:
        row = np.concatenate([row, np.full(size - 1, size - 1)])
        col = np.concatenate([col, at[:-1]])
        values = np.concatenate([values, (-columns.mean / scale)[:-1]])
    return sparse.csr_array((values, (row, col)), shape=(size, size))


def check_scales(columns: Columns, names: Sequence[str], standardize: bool) -> bool:
    """Warn if a feature dominates all others; False if every feature is constant."""
    varying = np.flatnonzero(~columns.constant)
    if varying.size > 1 and not standardize:
        sizes = columns.largest[varying]
        k = int(np.argmax(sizes))
        usual = float(np.median(np.delete(sizes, k)))
        # One alpha then penalises a weight 10,000 times as much, relative to its effect.
        if sizes[k] > 100.0 * usual:
            warnings.warn(
                f"X: feature {names[int(varying[k])]!r} is as large as {sizes[k]:.3g}, half of the "
                f"others are at most {usual:.3g}. One alpha penalises all weights, so scales "
                "matter: use standardize=True",
                UserWarning,
                stacklevel=6,
            )
    return varying.size > 0


def warn_constant() -> None:
    """Warn that there is nothing to tell outputs apart by."""
    warnings.warn(
        "X: every feature is constant, so it cannot tell nodes or pairs apart",
        UserWarning,
        stacklevel=5,
    )
