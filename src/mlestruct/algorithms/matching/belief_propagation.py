"""Reweighted belief propagation for matchings (Huang and Jebara 2009), on a `RowProblem`.

Its fixed points maximise <w, tau> + H_rho(tau) over the local polytope, so converged beliefs are
its marginals: `certified_marginals` proves bounds of log Z_rho, `belief_propagation` is the plain
algorithm, whose convergence is reported but not certified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..._deadline import is_over
from . import _belief_propagation_kernels as kernels
from .row_problem import TINY, RowProblem

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Beliefs:
    """The result of message passing.

    Attributes
    ----------
    t : array of shape (n_entries,), beliefs; those of a row sum to 1
    z : array of shape (n_cols,), beliefs that columns stay single, 1 where they may not
    y : array of shape (n_cols,), log-sums of columns, for warm starts
    log_partition : log Z_rho, with an error quadratic in that of the messages; inf where messages
        left the range of floats
    sweeps : over all messages
    change : the largest change of a belief in the last four sweeps
    converged : whether that is at most `tol`
    """

    t: Floats
    z: Floats
    y: Floats
    log_partition: float
    sweeps: int
    change: float
    converged: bool


def belief_propagation(
    rows: RowProblem,
    complete: bool,
    w: Floats,
    w_cols: Floats,
    warm: Beliefs | None = None,
    *,
    damping: float = 0.0,
    max_sweeps: int = 2000,
    tol: float = 1e-8,
) -> Beliefs:
    """Beliefs at scores (w, w_cols) of entries and of columns staying single.

    Parameters
    ----------
    complete : whether all pairs are allowed
    warm : beliefs of similar scores. They are not changed.
    damping : weight of a column's old log-message in the new one, in [0, 1)
    tol : stop when no belief moves by more than this in four sweeps
    """
    if not 0.0 <= damping < 1.0:
        raise ValueError(f"damping must lie in [0, 1), got {damping!r}")
    if max_sweeps < 1:
        raise ValueError(f"max_sweeps must be a positive integer, got {max_sweeps!r}")
    z = np.empty_like(w_cols)
    t, y = (np.empty_like(w), np.empty_like(w_cols)) if warm is None else (warm.t + 0, warm.y + 0)
    log_partition, sweeps, change = kernels.propagate(
        rows, complete, w, w_cols, warm is not None, float(damping), int(max_sweeps), float(tol),
        t, z, y,
    )  # fmt: skip
    return Beliefs(t, z, y, log_partition, sweeps, change, change <= tol)


def certified_marginals(
    rows: RowProblem,
    complete: bool,
    w: Floats,
    w_cols: Floats,
    warm: bool,
    tol: float,
    max_sweeps: int,
    t: Floats,
    z: Floats,
    prices: Floats,
) -> tuple[float, float, int]:
    """Marginals by sweeps, to a certified gap of `tol`: returns (value, upper bound, sweeps).

    With `warm`, t and prices hold those of similar scores. Sweeps end early where at their rate of
    convergence `max_sweeps` would not be enough.
    """
    n, n_cols = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    plain = bool((rows.row_rho == 1.0).all() and (rows.col_rho == 1.0).all())
    singles = 1 if n and rows.col[rows.ptr[1] - 1] == n_cols else 0
    edge, row, column = np.empty((6, w.shape[0])), np.empty((2, n)), np.empty((4, n_cols))
    x, y = np.empty(n), prices[:-1] / rows.col_rho + 1.0
    kernels.start(rows, w, w_cols, warm, TINY, t, x, y, edge, row, column)
    # A certificate costs about ten sweeps: the first follows 16, or fewer if these converge.
    pace = max(10_000_000 // max(w.shape[0], 1), 1)  # a fraction of a second
    control = np.array([0.0, np.inf, np.inf, 0.0, 1.0, 16.0, tol, max_sweeps, pace])
    work, new_t = np.empty((2, w.shape[0])), np.empty_like(t)
    new_z, new_prices = np.ones(n_cols), np.zeros(n_cols + 1)
    best, bound = -np.inf, np.inf
    sweeps = kernels.plain_sweeps if plain else kernels.weighted_sweeps
    while True:
        verdict = sweeps(rows, singles, complete, edge, row, column, control)
        if verdict == kernels.FAILED:
            break
        if verdict == kernels.PAUSED and not is_over():
            continue
        value, upper = kernels.certify(
            rows, complete, w, w_cols, edge, row, column, y, tol, new_t, new_z, new_prices, work
        )
        if upper < bound:
            bound = upper
            prices[:] = new_prices
        if value > best:
            best = value
            t[:], z[:] = new_t, new_z
        done = bound - best <= tol or control[kernels.CHANGE] < 1e-28
        if done or verdict == kernels.LAST or is_over():
            break
        # Prices of nodes that are all but certain change longest and matter least.
        if value > -np.inf:
            control[kernels.FACTOR] = (upper - value) / max(control[kernels.LEFT], 1e-300)
        else:
            control[kernels.FACTOR] *= 10.0
    return best, bound, int(control[kernels.SWEEPS])
