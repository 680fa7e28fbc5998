"""Arguments of metrics: numbers, one sample, or a list of samples."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sized
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._arrays import as_floats, check_unmasked
from .._deadline import in_time


def read_numbers(values: Any, name: str) -> NDArray[np.float64]:
    """An array of floats, or a ValueError that names the argument."""
    return as_floats(values, name, "fiubO").copy()


def each_sample(
    tables: Any, labels: Any, names: tuple[str, str], stacked: bool = False
) -> Iterator[tuple[str, Any, str, Any]]:
    """Name and table, name and label: of one sample, or of the samples of a list.

    `names` are those of the two arguments. With `stacked` an array of three or more dimensions is
    one table.
    """
    if isinstance(tables, np.ndarray) and tables.dtype != object:
        several = tables.ndim > 2 and not stacked
    else:
        try:
            several = not sp.issparse(tables) and all(np.ndim(item) >= 2 for item in tables)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{names[0]}: expected an array, or a list of arrays: {error}"
            ) from None
    if not several:
        yield names[0], as_array(tables, names[0]), names[1], labels
        return
    if not isinstance(tables, Collection):
        raise ValueError(f"{names[0]}: expected an array, or a list of arrays, got {tables!r}")
    if not len(tables):
        raise ValueError(f"{names[0]}: no events, as there is no sample")
    n_labels = len(labels) if isinstance(labels, Sized) and getattr(labels, "ndim", 1) > 0 else 0
    if len(tables) != n_labels:
        raise ValueError(
            f"{names[1]}: expected {len(tables)} samples like {names[0]}, got {n_labels}"
        )
    pairs = in_time(zip(tables, labels, strict=True), f"reading {names[0]}")
    for k, (table, label) in enumerate(pairs):
        name = f"{names[0]}[{k}]"
        yield name, as_array(table, name), f"{names[1]}[{k}]", label


def as_array(table: Any, name: str) -> Any:
    """A table as an array, or sparse as it is."""
    if sp.issparse(table):
        return table
    check_unmasked(table, name)
    try:
        return np.asarray(table)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name}: expected an array: {error}") from None
