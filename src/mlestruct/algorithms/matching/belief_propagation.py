"""Reweighted belief propagation for matchings (Huang and Jebara 2009), on a `RowProblem`.

Its fixed points maximise <w, tau> + H_rho(tau) over the local polytope, so converged beliefs are
its marginals. Its iterates are prices of the columns, at which bounds of log Z_rho are proven.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..._deadline import is_over
from . import _belief_propagation_kernels as kernels
from .newton import Solution
from .row_problem import RowProblem

Floats = NDArray[np.float64]


def certified_marginals(
    rows: RowProblem,
    complete: bool,
    w: Floats,
    w_cols: Floats,
    warm: Sequence[Solution | None],
    tols: Floats,
    max_sweeps: int,
) -> list[Solution]:
    """Marginals by sweeps, to certified gaps of `tols`, of samples that share a graph.

    `w` and `w_cols` have a row for each sample, `warm` a solution of similar scores. Sweeps end
    early if at their rate of convergence `max_sweeps` would not be enough; the value is -inf if
    messages left the range of floats.
    """
    count, size = w.shape
    n, n_cols = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    singles = 1 if n and rows.col[rows.ptr[1] - 1] == n_cols else 0
    t, z, prices = np.empty((count, size)), np.ones((count, n_cols)), np.zeros((count, n_cols + 1))
    for m, known in enumerate(warm):
        if known is not None:
            t[m], z[m], prices[m] = known.t, known.z, known.prices
    is_warm = np.array([known is not None for known in warm])
    bounds = np.tile([-np.inf, np.inf], (count, 1))
    # A certificate costs about ten sweeps: the first follows 16, or fewer if these converge.
    control = np.tile([0.0, np.inf, np.inf, 0.0, 1.0, 16.0, 0.0, 0.0, 0.0], (count, 1))
    control[:, kernels.TOL], control[:, kernels.MAX_SWEEPS] = tols, max_sweeps
    control[:, kernels.PACE] = max(10_000_000 // max(size, 1), 1)  # a fraction of a second
    x, y = np.empty((count, n)), np.empty((count, n_cols))
    edge, row = np.empty((count, 6, size)), np.empty((count, 2, n))
    column, stage = np.empty((count, 4, n_cols)), np.full(count, kernels.GO_ON)
    while (stage != kernels.DONE).any():
        kernels.sweep_each(
            stage, rows, singles, complete, w, w_cols, is_warm, t, prices, x, y,
            edge, row, column, control,
        )  # fmt: skip
        stage[stage == kernels.PAUSED] = kernels.GO_ON
        if is_over():
            stage[stage != kernels.DONE] = kernels.LAST
        kernels.certify_each(
            stage, rows, complete, w, w_cols, t, z, prices, y, edge, row, column, control, bounds
        )
    # The best of several bounds may cross the value by rounding.
    uppers = np.maximum(bounds[:, kernels.UPPER], bounds[:, kernels.VALUE]).tolist()
    values = bounds[:, kernels.VALUE].tolist()
    sweeps = control[:, kernels.SWEEPS].astype(int).tolist()
    return [Solution(*found) for found in zip(t, z, prices, values, uppers, sweeps, strict=True)]
