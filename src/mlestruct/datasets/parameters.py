"""Parameters of generated data, checked."""

from __future__ import annotations

import numbers
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import as_count, as_floats


def check_counts(least: int, **counts: Any) -> None:
    """Raise unless these are whole numbers of at least `least`."""
    for name, value in counts.items():
        as_count(value, name, least)


def check_range(least: float, most: float, **values: Any) -> None:
    """Raise unless these are finite numbers from `least` to `most`."""
    for name, value in values.items():
        number = isinstance(value, numbers.Real) and isfinite(value)
        if not number or not least <= value <= most:
            raise ValueError(f"{name}: expected a number from {least:g} to {most:g}, got {value!r}")


def read_points(points: Any, name: str, n_axes: int) -> NDArray[np.float64]:
    """At least two points as an array of shape (n, n_axes), all finite."""
    found = as_floats(points, name)
    if found.ndim != 2 or found.shape[1] != n_axes or len(found) < 2:
        raise ValueError(f"{name}: expected shape (n, {n_axes}) with n >= 2, got {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError(f"{name}: contains NaN or infinity")
    return found
