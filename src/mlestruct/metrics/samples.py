"""Arguments of metrics: one sample, or a list of samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp


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
        several = not sp.issparse(tables) and all(np.ndim(item) >= 2 for item in tables)
    if not several:
        yield names[0], tables, names[1], labels
        return
    if len(tables) != len(labels):
        raise ValueError(
            f"{names[1]}: expected {len(tables)} samples like {names[0]}, got {len(labels)}"
        )
    for k, (table, label) in enumerate(zip(tables, labels, strict=True)):
        yield f"{names[0]}[{k}]", table, f"{names[1]}[{k}]", label
