"""Reweighted belief propagation on a `RowProblem` with certified bounds of log Z_rho."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..._deadline import is_over
from . import _certified_belief_propagation_kernels as kernels
from .row_problem import RowProblem

Floats = NDArray[np.float64]


def propagate(
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
    edge, row, column = np.ones((6, w.shape[0])), np.ones((2, n)), np.ones((4, n_cols))
    row[0] = column[0] = 0.0
    x, y = np.empty(n), np.empty(n_cols)
    if warm:
        y[:] = prices[:-1] / rows.col_rho + 1.0
        kernels.scale(rows, w, w_cols, x, y, edge[0], row[0], column[0])
        kernels.messages_of(rows, t, edge, x, row[0])
    else:
        kernels.column_maxima(rows, w, w_cols, y)
        kernels.scale(rows, w, w_cols, x, y, edge[0], row[0], column[0])
        edge[1] = edge[0]
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
