"""Labels of matchings as numbers: the partner of every node, and how many partners it has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def check_partners(label: Any, n_rows: int, n_cols: int | None, known: Bools | None = None) -> Ints:
    """The pairs (n_pairs, 2) of a matching from the partner of every row, -1 for single ones.

    Parameters
    ----------
    n_cols : int, or None for one group of `n_rows` nodes; then partners must be mutual
    known : rows whose partner counts; default: all
    """
    node, n_partners = ("node", n_rows) if n_cols is None else ("row", n_cols)
    partner = whole_numbers(label, (n_rows,), f"the partner of each {node}")
    known = np.ones(n_rows, dtype=bool) if known is None else known
    outside = known & ((partner < -1) | (partner >= n_partners))
    if outside.any():
        i = int(np.argmax(outside))
        expected = f"expected 0 to {n_partners - 1}, or -1 for single"
        raise ValueError(f"{node} {i} has partner {partner[i]}; {expected}")
    rows = np.flatnonzero(known & (partner >= 0))
    if n_cols is None:
        _check_mutual(partner, rows, known)
        rows = rows[(rows < partner[rows]) | ~known[partner[rows]]]
    return np.stack([rows, partner[rows]], axis=1)


def _check_mutual(partner: Ints, nodes: Ints, known: Bools) -> None:
    """Raise unless the partner of each partner is the node itself."""
    mates = partner[nodes]
    wrong = (mates == nodes) | (known[mates] & (partner[mates] != nodes))
    if wrong.any():
        i = int(nodes[np.argmax(wrong)])
        j = int(partner[i])
        if i == j:
            raise ValueError(f"node {i} is its own partner; single nodes are -1")
        raise ValueError(
            f"node {i} has partner {j}, but node {j} has {partner[j]}; partners must be mutual"
        )


def whole_numbers(values: Any, shape: tuple[int, ...], what: str) -> Ints:
    """An array of integers in a shape; floats must be whole."""
    try:
        found = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"expected an array of whole numbers: {error}") from None
    if found.shape != shape:
        raise ValueError(f"expected shape {shape}, {what}, got {found.shape}")
    if found.dtype.kind == "f":
        broken = found[found != np.round(found)]
        if broken.size:
            raise ValueError(f"partners must be integers, found {broken[0]}")
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu":
        raise ValueError(f"partners must be integers, got dtype {found.dtype}")
    return found.astype(np.int64)


def check_counts(used: Ints, capacity: Ints, free: Bools, n_rows: int | None) -> None:
    """Raise unless each node has as many partners as its capacity, or fewer if it is free.

    `n_rows` is the number of rows if nodes are rows, then columns.
    """
    wrong = (used > capacity) | ((used < capacity) & ~free)
    if not wrong.any():
        return
    i = int(np.argmax(wrong))
    node = f"node {i}"
    if n_rows is not None:
        node = f"row {i}" if i < n_rows else f"column {i - n_rows}"
    need = "at most" if free[i] else "exactly"
    hint = "; perfect=False allows fewer" if used[i] < capacity[i] else ""
    raise ValueError(f"{node} has {used[i]} partners, it must have {need} {capacity[i]}{hint}")
