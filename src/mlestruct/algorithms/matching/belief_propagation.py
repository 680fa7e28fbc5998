"""Reweighted belief propagation for matchings (Huang and Jebara 2009), on a `RowProblem`.

Its fixed points maximise <w, tau> + H_rho(tau) over the local polytope, so converged beliefs are
its marginals: `certified_marginals` proves bounds of log Z_rho, `belief_propagation` is the plain
algorithm, whose convergence is reported but not certified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..._deadline import is_over
from ..._threads import threaded_map
from . import _belief_propagation_kernels as kernels
from ._semidual_kernels import semidual_rows
from .newton import Solution
from .row_problem import RowProblem

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
    warm: Sequence[Solution | None],
    tols: Floats,
    max_sweeps: int,
    n_jobs: int = 1,
) -> list[Solution]:
    """Marginals by sweeps, to certified gaps of `tols`, of samples that share a graph.

    `w` and `w_cols` have a row for each sample, `warm` a solution of similar scores. Sweeps end
    early if at their rate of convergence `max_sweeps` would not be enough; the value is -inf if
    messages left the range of floats. Rows of large problems are certified on `n_jobs` threads.
    """
    count, size = w.shape
    n, n_cols = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    singles = 1 if n and rows.col[rows.ptr[1] - 1] == n_cols else 0
    t, z, prices = np.empty((count, size)), np.ones((count, n_cols)), np.zeros((count, n_cols + 1))
    for m, known in enumerate(warm):
        if known is not None:
            t[m], z[m], prices[m] = known.t, known.z, known.prices
    is_warm = np.array([known is not None for known in warm])
    bounds, sweeps = np.full((count, 3), np.inf), np.zeros(count)
    bounds[:, kernels.VALUE] = -np.inf
    # A certificate costs about ten sweeps: the first follows 16, or fewer if these converge.
    control = np.zeros(11)
    control[kernels.MAX_SWEEPS] = max_sweeps
    control[kernels.PACE] = max(10_000_000 // max(size, 1), 1)  # a fraction of a second
    work, new_t, new_prices = np.empty((2, size)), np.empty(size), np.zeros(n_cols + 1)
    space = (
        np.empty(n), np.empty(n_cols), np.empty((6, size)), np.empty((2, n)),
        np.empty((4, n_cols)), control, work, new_t, np.ones(n_cols), new_prices,
    )  # fmt: skip
    stage = kernels.CERTIFY
    while stage != kernels.DONE:
        stage = kernels.certified(
            stage, rows, singles, complete, w, w_cols, is_warm, tols, t, z, prices, bounds, sweeps,
            *space,
        )  # fmt: skip
        m = int(control[kernels.SAMPLE])
        if stage == kernels.ASKED:
            problem = rows, w[m], w_cols[m], new_prices, work[0], 0.1 * tols[m], new_t
            bounds[m, kernels.SEMIDUAL] = semidual_by_rows(*problem, n_jobs)
            if is_over():
                control[kernels.VERDICT] = kernels.LAST
        elif stage == kernels.PAUSED:
            stage = kernels.LAST if is_over() else kernels.GO_ON
    # The best of several bounds may cross the value by rounding.
    uppers = np.maximum(bounds[:, kernels.UPPER], bounds[:, kernels.VALUE]).tolist()
    each = zip(
        t, z, prices, bounds[:, kernels.VALUE].tolist(), uppers, sweeps.tolist(), strict=True
    )
    return [Solution(*found) for found in each]


def semidual_by_rows(
    rows: RowProblem,
    w: Floats,
    w_cols: Floats,
    prices: Floats,
    hint: Floats,
    tol: float,
    t: Floats,
    n_jobs: int,
) -> float:
    """`semidual` with its rows shared out among threads, whose number does not change the sum."""
    free = rows.rho_cols > 0.0
    rho, pull = rows.rho_cols[free], w_cols[free] - prices[:-1][free]
    of_columns = float(prices[:-1].sum() + rho @ np.exp(pull / rho - 1.0))
    n = rows.ptr.shape[0] - 1
    firsts = range(0, n, max(n // 32, 1))
    with threaded_map(n_jobs, len(firsts)) as each:
        of_rows = each(
            lambda first: semidual_rows(
                rows, first, min(first + firsts.step, n), w, prices, hint, tol, t
            ),
            firsts,
        )
        return of_columns + sum(of_rows)
