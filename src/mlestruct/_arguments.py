"""Reading arguments: numbers, arrays, samples, seeds, paths; and refusing sizes that cannot fit.

Errors name the argument, what was found and what would be right.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

MASKED = "found masked entries; fill them, or leave them out"


def check_unmasked(values: Any, name: str) -> None:
    """Raise if entries are masked: an array made of them would hold the values below the mask."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: {MASKED}")


def as_floats(values: Any, name: str = "") -> NDArray[np.float64]:
    """An array of doubles; raises a ValueError, with the name of the argument if it is given.

    NumPy would cut complex numbers to their real parts, count seconds of dates, read text and use
    what is below a mask: these are refused.
    """
    try:
        if np.ma.is_masked(values):
            raise ValueError(MASKED)
        if issparse(values):
            raise ValueError("got a sparse matrix; use .toarray()")
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise ValueError(f"expected real numbers, got dtype {array.dtype}")
        if array.dtype.kind not in "fiubO":
            raise ValueError(f"got dtype {array.dtype}")
        if array.dtype.kind == "O" and any(isinstance(entry, str) for entry in array.flat):
            raise ValueError("got text")
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        where = f"{name}: expected an array of numbers: " if name else ""
        raise ValueError(f"{where}{error}") from None


def as_numbers(values: Any, name: str = "") -> NDArray[Any]:
    """Like `as_floats`, but an array of real numbers keeps its type."""
    plain = isinstance(values, np.ndarray) and values.dtype.kind in "fiub"
    return np.asarray(values) if plain and not np.ma.is_masked(values) else as_floats(values, name)


def as_table(values: Any, name: str, *shape: int | str) -> NDArray[np.float64]:
    """Finite numbers in a shape; a word in place of a size stands for any."""
    array = as_floats(values, name)
    wanted = [n for n in enumerate(shape) if isinstance(n[1], int)]
    if array.ndim != len(shape) or any(array.shape[axis] != size for axis, size in wanted):
        expected = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
        raise ValueError(f"{name}: expected shape ({expected}), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: contains NaN or infinity")
    return array


def as_places(values: Any, name: str, least: int, most: int, *shape: int | str) -> NDArray[Any]:
    """Whole numbers from `least` to `most` in a shape."""
    found = as_table(values, name, *shape)
    wrong = found[(found < least) | (found > most) | (found != np.floor(found))]
    if wrong.size:
        raise ValueError(
            f"{name}: expected whole numbers from {least} to {most}, got {wrong.flat[0]:g}"
        )
    return found.astype(np.int64)


# ---------------------------------------------------------------------- single numbers
def as_number(value: Any, name: str, least: float = -inf, most: float = inf) -> float:
    """A finite number from `least` to `most`."""
    number = _real(value, name)
    if not (isfinite(number) and least <= number <= most):
        rule = f"of at least {least:g}" if most == inf else f"from {least:g} to {most:g}"
        rule = "that is finite" if least == -inf else rule
        raise ValueError(f"`{name}` must be a number {rule}; got {value!r}.")
    return number


def as_positive(value: Any, name: str) -> float:
    """A positive, finite number."""
    number = _real(value, name)
    if not (number > 0 and isfinite(number)):
        raise ValueError(f"`{name}` must be positive and finite; got {value!r}.")
    return number


def as_count(value: Any, name: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")
    return int(value)


def _real(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number; got {value!r}.")
    return float(value)


def count_threads(n_jobs: Any) -> int:
    """The number of threads of `n_jobs` as in scikit-learn: None is 1, -1 all cores."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(f"`n_jobs` must be None or a whole number other than 0; got {n_jobs!r}.")
    if int(n_jobs) >= 2**31:
        raise ValueError(f"`n_jobs`: no system has {n_jobs} threads. Pass -1 to use all cores.")
    return int(n_jobs) if int(n_jobs) > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def generator(random_state: Any) -> np.random.Generator:
    """The random number generator of a `random_state`, as NumPy or scikit-learn takes it.

    As in scikit-learn, None follows `np.random.seed`.
    """
    if random_state is None or isinstance(random_state, np.random.RandomState):
        source = np.random if random_state is None else random_state
        random_state = source.randint(np.iinfo(np.int32).max)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            "`random_state` must be None, a whole number of at least 0, a Generator or a "
            f"RandomState; got {random_state!r}."
        ) from None


def as_path(given: Any, name: str) -> Path:
    """The path of a file or folder."""
    if not isinstance(given, str | os.PathLike) or "\0" in str(given):
        raise ValueError(f"`{name}` must be the path of a file or folder; got {given!r}.")
    return Path(given)


# ---------------------------------------------------------------------- samples
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


def check_weights(sample_weight: Any, n_samples: int) -> NDArray[np.float64]:
    """Sample weights as an array that is not all zero; ones by default."""
    if sample_weight is None:
        return np.ones(n_samples)
    try:
        weights = as_floats(sample_weight)
    except ValueError as error:
        message = f"sample_weight: cannot be read as an array of numbers ({error})"
        raise ValueError(message) from None
    if weights.shape != (n_samples,):
        raise ValueError(f"sample_weight: expected shape ({n_samples},), got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("sample_weight must be finite, non-negative and not all zero")
    if weights.max() > 1e100:
        raise ValueError(f"sample_weight: as large as {weights.max():g}, so that squares overflow")
    return weights


# ---------------------------------------------------------------------- memory
def check_memory(n_numbers: float, what: str) -> None:
    """Raise MemoryError if arrays of so many doubles are larger than the machine's memory.

    Linux promises more memory than there is and ends the process that uses it.
    """
    needed, present = 8.0 * n_numbers, total_memory()
    if needed > present:
        raise MemoryError(
            f"{what}: needs {needed:,.0f} bytes ({needed / 2**30:,.1f} GiB), this machine has "
            f"{present / 2**30:,.1f} GiB"
        )


def total_memory() -> float:
    """Bytes of physical memory; infinite if the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
