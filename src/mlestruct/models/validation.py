"""Checks of what users pass to estimators; every error names the argument and the remedy."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

Ints = NDArray[np.int64]


def check_samples(X: Any, name: str = "X") -> Sequence[Any]:
    """X as a non-empty sequence of samples."""
    if X is None or isinstance(X, str | bytes | dict) or not hasattr(X, "__len__"):
        raise TypeError(f"{name}: expected a sequence of samples, got {type(X).__name__}")
    if issparse(X):
        raise TypeError(
            f"{name}: expected a sequence of samples, got one sparse matrix; for a single sample "
            f"pass [{name}]"
        )
    if len(X) == 0:
        raise ValueError(f"{name} is empty: need at least one sample")
    return list(X)  # the elements stay alive, so that equal ones can be told by identity


def check_same_length(X: Sequence[Any], Y: Any) -> Sequence[Any]:
    """Y as a sequence with one label per sample of X."""
    labels = check_samples(Y, "Y")
    if len(labels) != len(X):
        raise ValueError(f"X has {len(X)} samples but Y has {len(labels)} labels")
    return labels


def check_positive(value: Any, name: str) -> float:
    """`value` as a positive, finite float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not (number > 0 and np.isfinite(number)):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return number


def check_weights(sample_weight: Any, n_samples: int) -> NDArray[np.float64]:
    """Sample weights as a positive array; ones by default."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_samples,):
        raise ValueError(f"sample_weight: expected shape ({n_samples},), got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("sample_weight must be finite, non-negative and not all zero")
    return weights


def check_partners(label: Any, n_rows: int, n_cols: int, perfect: bool, where: str) -> Ints:
    """A matching as the partner column of each row, -1 for single rows."""
    values = np.asarray(label)
    if values.shape != (n_rows,):
        raise ValueError(
            f"{where}: expected shape ({n_rows},), the partner of each row, got {values.shape}"
        )
    if values.dtype.kind == "f" and np.array_equal(values, np.round(values)):
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{where}: partners must be integers, got dtype {values.dtype}")
    partner = values.astype(np.int64)
    outside = (partner < -1) | (partner >= n_cols)
    if outside.any():
        i = int(np.argmax(outside))
        raise ValueError(
            f"{where}: row {i} has partner {partner[i]}; expected 0 to {n_cols - 1}"
            + ("" if perfect and n_rows <= n_cols else ", or -1 for single")
        )
    matched = partner[partner >= 0]
    taken, counts = np.unique(matched, return_counts=True)
    if (counts > 1).any():
        j = int(taken[np.argmax(counts > 1)])
        rows = np.flatnonzero(partner == j).tolist()
        raise ValueError(
            f"{where}: column {j} is the partner of rows {rows}; a matching (permutation) uses "
            "each column at most once"
        )
    if perfect and matched.shape[0] < min(n_rows, n_cols):
        i = int(np.argmax(partner < 0))
        raise ValueError(
            f"{where}: row {i} is single (-1) but perfect=True needs {min(n_rows, n_cols)} pairs; "
            "use perfect=False to allow single nodes"
        )
    return partner
