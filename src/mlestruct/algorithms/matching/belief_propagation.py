"""Belief propagation for matchings (Huang and Jebara 2009), for the reweighted entropy.

Its fixed points maximise <scores, tau> + H_rho(tau) over the local polytope, so converged beliefs
are its marginals. Convergence is reported, but not certified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._belief_propagation_kernels import propagate

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Beliefs:
    """The result of message passing.

    Attributes
    ----------
    beliefs : array of shape (n_rows, n_cols)
    log_partition : log Z_rho; its error is quadratic in that of the messages
    sweeps : over all messages
    change : the largest change of a belief in the last sweep
    converged : whether that is at most `tol`
    messages : array of shape (2, n_rows, n_cols), log-messages of rows and of columns
    """

    beliefs: Floats
    log_partition: float
    sweeps: int
    change: float
    converged: bool
    messages: Floats


def belief_propagation(
    scores: ArrayLike,
    rho: float = 1.0,
    messages: Floats | None = None,
    max_sweeps: int = 2000,
    tol: float = 1e-8,
    *,
    damping: float = 0.0,
    free_rows: bool | Bools | None = None,
    free_cols: bool | Bools | None = None,
) -> Beliefs:
    """Beliefs of the pairs of rows and columns, by message passing.

    Parameters
    ----------
    scores : array of shape (n_rows, n_cols), -inf where a pair is not allowed
    rho : float
        Reweighting of the entropy, 0.5 to 1.
    messages : ndarray of shape (2, n_rows, n_cols), optional
        Initial messages, from an earlier call. They are not changed.
    max_sweeps : int
    tol : float
        Stop when no belief moves by more than this in a sweep.
    damping : float in [0, 1)
        Weight of the old log-message in the new one. Without damping, products of messages are
        used where their range allows it, which is several times faster.
    free_rows, free_cols : bool, or arrays of bool
        Nodes that may stay single, at a score of 0. By default those of the larger side.

    Examples
    --------
    >>> import numpy as np
    >>> found = belief_propagation(np.eye(3))
    >>> found.converged, found.beliefs.sum(axis=1).round(6)
    (True, array([1., 1., 1.]))
    """
    table = np.ascontiguousarray(scores, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"scores: expected shape (n_rows, n_cols), got {table.shape}")
    if np.isnan(table).any() or np.isposinf(table).any():
        raise ValueError("scores must be finite, or -inf for pairs that are not allowed")
    n_rows, n_cols = table.shape
    rows = _free(free_rows, n_rows, n_rows > n_cols)
    cols = _free(free_cols, n_cols, n_cols > n_rows)
    for axis, free, side in ((1, rows, "row"), (0, cols, "column")):
        lost = ~np.isfinite(table).any(axis=axis) & ~free
        if lost.any():
            raise ValueError(f"scores: {side} {int(np.argmax(lost))} has no allowed partner")
    if not 0.5 <= rho <= 1.0:
        raise ValueError(f"rho must lie in [0.5, 1], got {rho!r}")
    if not 0.0 <= damping < 1.0:
        raise ValueError(f"damping must lie in [0, 1), got {damping!r}")
    if max_sweeps < 1:
        raise ValueError(f"max_sweeps must be a positive integer, got {max_sweeps!r}")
    if messages is None:
        current = np.zeros((2, *table.shape))
    else:
        current = np.array(messages, dtype=np.float64, order="C")
        if current.shape != (2, *table.shape):
            raise ValueError(f"messages: expected shape {(2, *table.shape)}, got {current.shape}")
    beliefs = np.empty_like(table)
    log_partition, sweeps, change, converged = propagate(
        table, float(rho), rows, cols, current, messages is not None,
        float(damping), int(max_sweeps), float(tol), beliefs,
    )  # fmt: skip
    return Beliefs(
        beliefs, float(log_partition), int(sweeps), float(change), bool(converged), current
    )


def _free(given: bool | Bools | None, size: int, default: bool) -> Bools:
    return np.array(np.broadcast_to(default if given is None else given, (size,)), dtype=np.bool_)
