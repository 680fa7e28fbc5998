"""Constants and scales of features: what `fit_intercept` and `standardize` learn from columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..features.columns import Columns

Floats = NDArray[np.float64]


def joined_columns(parts: Iterable[tuple[Columns, float]]) -> Columns:
    """Statistics of all parts, each with a weight."""
    listed = list(parts)
    weights = np.array([weight for _, weight in listed])
    found = [columns for columns, _ in listed]
    return Columns(
        weights @ [columns.count for columns in found],
        np.min([columns.low for columns in found], axis=0),
        np.max([columns.high for columns in found], axis=0),
        weights @ [columns.total for columns in found],
        weights @ [columns.squares for columns in found],
    )


def has_constant(columns: Columns) -> bool:
    """Whether some column is the same in all rows, and not 0."""
    return bool((columns.constant & (columns.low != 0.0) & (columns.count > 0)).any())


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
