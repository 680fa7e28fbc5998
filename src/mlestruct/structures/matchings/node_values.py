"""Values that belong to nodes, from what a user may give: a number, or one per node."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def node_rho(rho: ArrayLike, n_nodes: int) -> Floats:
    """Reweighting of every node from a scalar or an array."""
    values = np.asarray(rho, dtype=np.float64)
    if values.ndim and values.shape != (n_nodes,):
        raise ValueError(f"rho: expected a scalar or shape ({n_nodes},), got {values.shape}")
    check_rho(values)
    return np.broadcast_to(values, (n_nodes,)).astype(np.float64)


def check_rho(values: Floats) -> None:
    """Raise unless all values lie between 1/2 and 1."""
    if not (np.all(values >= 0.5) and np.all(values <= 1.0)):
        raise ValueError(
            f"rho must lie in [0.5, 1], found {values.min()} to {values.max()}. Below 1/2 the "
            "entropy is concave, too, but log Z_rho only grows: at 1/2 it already bounds log Z "
            "from above"
        )


def node_capacity(capacity: ArrayLike, n_nodes: int) -> Ints:
    """Capacity of every node from a whole number or an array of them."""
    values = np.asarray(capacity)
    if values.ndim and values.shape != (n_nodes,):
        raise ValueError(
            f"capacity: expected a whole number or shape ({n_nodes},), got {values.shape}"
        )
    if values.dtype.kind not in "iu" and not (
        values.dtype.kind == "f" and np.array_equal(values, np.round(values))
    ):
        raise ValueError(f"capacity must hold whole numbers, got {capacity!r}")
    if (values < 0).any():
        raise ValueError(f"capacity must not be negative, found {values.min()}")
    return np.broadcast_to(values, (n_nodes,)).astype(np.int64)
