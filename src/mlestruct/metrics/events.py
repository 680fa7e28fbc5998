"""Events, which happen or do not, from tables of probabilities and observed labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Events = tuple[Floats, Bools, Floats]  # probabilities, whether they happened, how often counted

ROUNDING = 1e-9  # how far outside of [0, 1] a probability may be before it is an error


def check_probabilities(values: Any, name: str) -> Floats:
    """Values as floats within [0, 1], rounding removed."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name}: expected an array of numbers, got dtype {array.dtype}")
    array = array.astype(np.float64)
    wrong = ~((array >= -ROUNDING) & (array <= 1.0 + ROUNDING))
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise ValueError(
            f"{name}: expected probabilities from 0 to 1, got {array[at]} at position {at}"
        )
    return np.clip(array, 0.0, 1.0, out=array)


def each_sample(
    tables: Any, labels: Any, stacked: bool = False
) -> Iterator[tuple[str, Any, Any, str]]:
    """Name, table, label and its name: of one sample, or of the samples of a list.

    With `stacked` an array of three or more dimensions is one table.
    """
    if isinstance(tables, np.ndarray) and tables.dtype != object:
        several = tables.ndim > 2 and not stacked
    else:
        several = not sp.issparse(tables) and all(np.ndim(item) >= 2 for item in tables)
    if not several:
        yield "tables", tables, labels, "labels"
        return
    if len(tables) != len(labels):
        raise ValueError(f"labels: expected {len(tables)} samples like tables, got {len(labels)}")
    for k, (table, label) in enumerate(zip(tables, labels, strict=True)):
        yield f"tables[{k}]", table, label, f"labels[{k}]"


def join_events(found: list[Events]) -> Events:
    if not found:
        return np.zeros(0), np.zeros(0, dtype=np.bool_), np.zeros(0)
    values, happened, weight = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return values, happened, weight
