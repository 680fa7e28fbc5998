"""Reading arguments as arrays of numbers or as counts, and refusing sizes that cannot fit.

Errors name the argument.
"""

from __future__ import annotations

import numbers
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

KINDS = "fiubOUS"  # text, too, if it reads as numbers

MASKED = "found masked entries; fill them, or leave them out"


def check_unmasked(values: Any, name: str) -> None:
    """Raise where entries are masked: arrays made of them would hold what is below the mask."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: {MASKED}")


def as_floats(values: Any, name: str = "", kinds: str = KINDS) -> NDArray[np.float64]:
    """An array of doubles; raises a ValueError, with the name of the argument if it is given.

    NumPy would cut complex numbers to their real parts, count seconds of dates and use what is
    below a mask: these are refused.
    """
    try:
        if np.ma.is_masked(values):
            raise ValueError(MASKED)
        if issparse(values):
            raise ValueError("got a sparse matrix; use .toarray()")
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise ValueError(f"expected real numbers, got dtype {array.dtype}")
        if array.dtype.kind not in kinds:
            raise ValueError(f"got dtype {array.dtype}")
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        where = f"{name}: expected an array of numbers: " if name else ""
        raise ValueError(f"{where}{error}") from None


def as_numbers(values: Any, name: str = "") -> NDArray[Any]:
    """The same, but arrays of real numbers of any type stay as they are."""
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


def as_path(given: Any, name: str) -> Path:
    """The path of a file or folder."""
    if not isinstance(given, str | os.PathLike) or "\0" in str(given):
        raise ValueError(f"{name}: expected the path of a file or folder, got {given!r}")
    return Path(given)


def as_count(value: Any, name: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")
    return int(value)


def check_memory(n_numbers: float, what: str) -> None:
    """Raise MemoryError where arrays of so many doubles are larger than the machine's memory.

    Linux promises more memory than there is and ends the process that uses it.
    """
    needed, present = 8.0 * n_numbers, total_memory()
    if needed > present:
        raise MemoryError(
            f"{what}: needs {needed:,.0f} bytes ({needed / 2**30:,.1f} GiB), this machine has "
            f"{present / 2**30:,.1f} GiB"
        )


def total_memory() -> float:
    """Bytes of physical memory; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
