"""Validation of the arguments of estimators; every error names the argument and the remedy."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import utils

from .._arrays import as_floats
from ..features.contract import FeatureMap
from ..features.rows import Columns

LARGEST = 1e50  # features beyond this overflow when squared and summed
SMALL = 10_000  # numbers, of which BLAS takes the squares on the calling thread


def check_samples(X: Any, name: str = "X") -> Sequence[Any]:
    """X as a non-empty sequence of samples."""
    if issparse(X) or isinstance(X, str | bytes | dict) or not hasattr(X, "__len__"):
        found = "one sparse matrix" if issparse(X) else type(X).__name__
        raise TypeError(
            f"{name}: expected a sequence of samples, got {found}; for a single sample pass "
            f"[{name}]"
        )
    if len(X) == 0:
        raise ValueError(f"{name} is empty: need at least one sample")
    return list(X)  # the elements stay alive, so that equal ones can be told by identity


def check_same_length(
    X: Sequence[Any], Y: Any, name: str = "Y", entries: str = "labels"
) -> Sequence[Any]:
    """Y as a sequence with one label per sample of X; messages speak of `entries`."""
    labels = check_samples(Y, name)
    if len(labels) != len(X):
        raise ValueError(f"X has {len(X)} samples but {name} has {len(labels)} {entries}")
    return labels


def check_positive(value: Any, name: str) -> float:
    """`value` as a positive, finite float."""
    number = _number(value, name)
    if not (number > 0 and np.isfinite(number)):
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return number


def check_ratio(value: Any, name: str = "l1_ratio") -> float:
    """`value` as a number from 0 to less than 1."""
    if not 0.0 <= _number(value, name) < 1.0:
        raise ValueError(f"{name} must be at least 0 and less than 1 (like 0.99), got {value!r}")
    return float(value)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    return float(value)


def check_count(value: Any, name: str) -> int:
    """`value` as a positive int."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def check_random_state(random_state: Any) -> None:
    """Raise unless random numbers can be made of it, as scikit-learn or NumPy do."""
    if isinstance(random_state, np.random.Generator):
        return
    try:
        utils.check_random_state(random_state)
    except ValueError as error:
        raise ValueError(f"random_state: {error}") from None


def check_options(parameters: Mapping[str, Any]) -> None:
    """Raise if a parameter that all estimators share has a value of another kind."""
    for name in ("fit_intercept", "standardize"):
        if not isinstance(parameters.get(name, False), bool | np.bool_):
            raise TypeError(f"{name} must be True or False, got {parameters[name]!r}")
    if isinstance(parameters.get("rho"), bool | complex):
        raise TypeError(f"rho must be a number, got {parameters['rho']!r}")
    verbose = parameters.get("verbose", 0)
    if not isinstance(verbose, int | np.integer | np.bool_) or verbose < 0:
        raise ValueError(f"verbose must be an integer of at least 0, got {verbose!r}")


def check_weights(sample_weight: Any, n_samples: int) -> NDArray[np.float64]:
    """Sample weights as an array that is not all zero; ones by default."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = _numbers(sample_weight, "sample_weight")
    if weights.shape != (n_samples,):
        raise ValueError(f"sample_weight: expected shape ({n_samples},), got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("sample_weight must be finite, non-negative and not all zero")
    if weights.max() > 1e100:
        raise ValueError(f"sample_weight: as large as {weights.max():g}, so that squares overflow")
    return weights


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    try:
        return as_floats(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: cannot be read as an array of numbers ({error})") from None


def check_names(expected: list[str], found: list[str], where: str, of: str) -> None:
    """Raise unless features are the same, in the same order, as those of `of`."""
    if expected == found:
        return
    if len(expected) != len(found):
        raise ValueError(f"{where} has {len(found)} columns, {of} has {len(expected)}")
    k = next(k for k, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b)
    same = " (the same names, in another order)" if sorted(expected) == sorted(found) else ""
    raise ValueError(
        f"{where}: feature {k} is {found[k]!r}, in {of} it was {expected[k]!r}{same}; features "
        "must be the same, in the same order"
    )


def check_same_names(features: Sequence[FeatureMap]) -> None:
    """Raise if feature maps that name their features disagree."""
    named = [(m, list(f.feature_names)) for m, f in enumerate(features) if f.feature_names]
    for m, names in named[1:]:
        check_names(named[0][1], names, f"X[{m}]", f"X[{named[0][0]}]")


def column_names(tables: Sequence[Any], name: str = "X") -> list[str] | None:
    """The columns of data frames, the same in all; None if tables are not frames."""
    first: tuple[str, list[str]] | None = None
    for m, table in enumerate(tables):
        if hasattr(table, "columns") and not issparse(table):
            found = [str(k) for k in table.columns]
            first = first or (f"{name}[{m}]", found)
            check_names(first[1], found, f"{name}[{m}]", first[0])
    return first and first[1]


def check_columns(tables: Sequence[Any], fitted: Sequence[str], name: str = "X") -> None:
    """Raise if data frames have other columns than those of `fit`, unless these had no names."""
    found = column_names(tables, name)
    if found is not None and list(fitted) != [f"x{k}" for k in range(len(fitted))]:
        check_names(list(fitted), found, name, "fit")


def count_threads(n_jobs: int | None) -> int:
    """n_jobs as in scikit-learn: None is 1, -1 all cores."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None or a non-zero integer, got {n_jobs!r}")
    if n_jobs >= 2**31:
        raise ValueError(f"n_jobs: no system has {n_jobs} threads; -1 takes all cores")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def are_moderate(values: NDArray[Any]) -> bool:
    """Whether all values are finite and squares of them can be summed."""
    if values.dtype.kind in "biu" or not values.size:
        return True
    # A sum of squares takes one call, which counts for small arrays; the rest of the rule is exact.
    if values.size < SMALL and float(np.vdot(values, values)) <= LARGEST:
        return True
    # NaN and infinity survive minimum and maximum.
    return float(values.min()) >= -LARGEST and float(values.max()) <= LARGEST


def check_finite(
    values: NDArray[Any], where: str, pairs: tuple[NDArray[Any], ...] | None = None
) -> None:
    """Raise unless features are finite and moderate; of `pairs`, row k are those of pair k."""
    if are_moderate(values):
        return
    moderate = np.abs(values.astype(np.float64)) <= LARGEST
    at = tuple(int(k) for k in np.argwhere(~moderate)[0])
    if np.isfinite(values[at]):
        raise ValueError(f"{where}: has features beyond {LARGEST:g}; rescale them")
    place = at if pairs is None else (*(int(ends[at[0]]) for ends in pairs), *at[1:])
    hint = "" if pairs is None else " (a pair whose features are all -inf is forbidden)"
    raise ValueError(f"{where}: found {values[at]} at {place}; features must be finite{hint}")


def check_scales(
    columns: Sequence[Columns], names: Sequence[Sequence[str]], standardize: bool
) -> None:
    """Warn if a feature dominates all others of its kind of weights, or if all are constant."""
    if columns and all(part.constant.all() for part in columns):
        text = "X: every feature is constant, so it cannot tell nodes or pairs apart"
        warnings.warn(text, UserWarning, stacklevel=2)
    for part, own in zip(columns, names, strict=False):
        varying = np.flatnonzero(~part.constant)
        if varying.size < 2 or standardize:
            continue
        sizes = part.largest[varying]
        k = int(np.argmax(sizes))
        usual = float(np.median(np.delete(sizes, k)))
        # One alpha then penalises a weight 10,000 times as much, relative to its effect.
        if sizes[k] > 100.0 * usual:
            warnings.warn(
                f"X: feature {own[int(varying[k])]!r} is as large as {sizes[k]:.3g}, half of the "
                f"others are at most {usual:.3g}. One alpha penalises all weights, so scales "
                "matter: use standardize=True",
                UserWarning,
                stacklevel=2,
            )
