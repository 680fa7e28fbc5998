"""Belief propagation for matchings (Huang and Jebara 2009), the plain algorithm: a rival.

The sweeps are the library's own (`mlestruct/algorithms/matching/belief_propagation.py`), compiled.
They end when beliefs stand still, or after a number of sweeps; nothing is certified.
"""

from dataclasses import dataclass
from math import inf, log

import numpy as np

from mlestruct._compile import kernel
from mlestruct.algorithms.matching._belief_propagation_kernels import (
    DONE,
    MAX_SWEEPS,
    SWEEPS,
    beliefs,
    power_near,
    start,
    sweeps,
)
from mlestruct.algorithms.matching.row_problem import TINY


@dataclass(frozen=True)
class Beliefs:
    """Where message passing ended.

    Attributes
    ----------
    tau : beliefs in the coordinates of the structure; their sums are exact at fixed points only
    log_partition : log Z_rho, with an error quadratic in that of the messages; inf where messages
        left the range of floats
    sweeps : over all messages
    change : the largest change of a belief in the last four sweeps
    converged : whether that is at most `tol`
    warm : a start for similar scores, the beliefs and the log-sums of columns
    """

    tau: np.ndarray
    log_partition: float
    sweeps: int
    change: float
    converged: bool
    warm: tuple[np.ndarray, np.ndarray] | None


def belief_propagation(structure, scores, damping=0.0, max_sweeps=2000, tol=1e-8, warm=None):
    """Beliefs of a `BipartiteMatching` at scores of all coordinates.

    Parameters
    ----------
    damping : weight of a column's old log-message in the new one, in [0, 1)
    tol : stop when no belief moves by more than this in four sweeps
    warm : of beliefs of similar scores. It is not changed.
    """
    core = structure._presolved
    w, w_cols = core.entries(scores), core.columns(scores)
    z = np.ones_like(w_cols)
    t, y = (np.ones_like(w), np.empty_like(w_cols)) if warm is None else (warm[0] + 0, warm[1] + 0)
    if structure.is_fixed:
        return Beliefs(core.coordinates(t, z), core.fixed_score(scores), 0, 0.0, True, None)
    log_partition, count, change = propagate(
        core.rows, core.edges.is_complete, w, w_cols, warm is not None, damping, max_sweeps, tol,
        t, z, y,
    )  # fmt: skip
    log_partition += core.fixed_score(scores)
    tau = core.coordinates(t, z)
    return Beliefs(tau, log_partition, count, change, change <= tol, (t, y))


@kernel
def bethe_value(rows, singles, edge, row_single, col_single, x, y):
    """log Z_rho as a function of the messages, those of rows being computed anew.

    It is sum rho_i log T_i + sum rho_j log C_j - sum c log(1 + odds of the belief). Fixed points
    are its stationary points, so messages that are off by d give a value that is off by d^2 only.
    """
    ptr, col, n_cols = rows.ptr, rows.col, rows.rho_cols.shape[0]
    weights, terms, row_factor, col_factor, row_other = edge[0], edge[1], edge[2], edge[3], edge[4]
    col_sum = col_single.copy()
    value = 0.0
    for i in range(ptr.shape[0] - 1):
        start, stop = ptr[i], ptr[i + 1] - singles
        top = row_single[i]
        others = 0.0
        for e in range(start, stop):
            q = terms[e] * row_factor[e]
            others += min(q, top)
            top = max(q, top)
        row_sum = row_single[i]
        p = 1.0 - rows.row_rho[i]
        product = 1.0  # of 1 + odds, whose logarithm is taken once for many entries
        for e in range(start, stop):
            q = terms[e] * row_factor[e]
            other = max(others if q == top else others - q + top, TINY)
            factor = power_near(other, p, row_other[e], row_factor[e]) if p > 0.0 else 1.0
            pair = terms[e] * factor
            row_sum += pair
            col_sum[col[e]] += weights[e] * factor / other * col_factor[e]
            if pair > 1e200 * other:
                value -= rows.c[e] * (log(pair) - log(other))
            else:
                product *= (pair + other) / other
            if product > 1e100 or e + 1 == stop or rows.c[e + 1] != rows.c[e]:
                value -= rows.c[e] * log(product)
                product = 1.0
        value += rows.row_rho[i] * (log(row_sum) + x[i])
    for j in range(n_cols):
        value += rows.col_rho[j] * (log(col_sum[j]) + y[j])
    return value


@kernel
def is_fixed_point(rows, w, t, z, weights, row_sum, col_sum, x, y):
    """Whether messages that stopped changing are solutions, which weights of 0 can prevent.

    The columns' beliefs sum to 1, and entries whose weight underflowed have none.
    """
    n_cols = rows.rho_cols.shape[0]
    filled = np.zeros(n_cols + 1)
    for i in range(rows.ptr.shape[0] - 1):
        for e in range(rows.ptr[i], rows.ptr[i + 1]):
            j = rows.col[e]
            filled[j] += t[e]
            if weights[e] == 0.0 and j < n_cols:
                of_row = rows.row_rho[i] * (x[i] + log(max(row_sum[i], TINY)))
                of_column = rows.col_rho[j] * (y[j] + log(max(col_sum[j], TINY)))
                if w[e] - of_row - of_column > -40.0:  # exp(-40) is less than rounding
                    return False
    for j in range(n_cols):
        total = filled[j] + z[j] if rows.rho_cols[j] > 0.0 else filled[j]
        if not abs(total - 1.0) < 0.01:
            return False
    return True


@kernel
def propagate(rows, complete, w, w_cols, warm, damping, max_sweeps, tol, t, z, y):
    """Sweeps until no belief moves by more than `tol` in four of them, without a certificate.

    Writes the beliefs t and z of entries and single columns, and the log-sums y of columns; with
    `warm`, t and y are those of similar scores. Every message of a column keeps `damping` of its
    old logarithm. Returns (log_partition, sweeps, last change); log_partition is inf where weights
    or messages left the range of floats.
    """
    n, n_cols = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    singles = 1 if n and rows.col[rows.ptr[1] - 1] == n_cols else 0
    edge, row, column = np.empty((6, w.shape[0])), np.empty((2, n)), np.empty((4, n_cols))
    x = np.empty(n)
    # Messages grow with every sweep where a belief is near 1. If the new scores make it smaller,
    # they shrink over many sweeps, at first without a change of any belief: hence the limit.
    start(rows, w, w_cols, warm, 3e-4, t, x, y, edge, row, column)
    before = edge[1:].copy() if damping > 0.0 else edge[1:1]
    control = np.array([0.0, inf, inf, 0.0, 1.0, inf, 0.0, 0.0, 5.0])
    beliefs(rows, edge, row[0], t)
    moved = np.empty_like(t)
    done = 0
    change = inf
    reached = False  # beliefs of pairs may stand still while those of single columns still move
    while done < max_sweeps and not reached:
        change = 0.0
        for _ in range(4 if damping > 0.0 else 1):
            if damping > 0.0:
                before[:] = edge[1:]
            control[SWEEPS] = 0.0
            control[MAX_SWEEPS] = min(1 if damping > 0.0 else 4, max_sweeps - done)
            if control[MAX_SWEEPS] == 0.0:
                break
            if sweeps(rows, singles, complete, edge, row, column, control) == DONE:
                z[:] = 1.0
                return inf, done, inf
            done += int(control[SWEEPS])
            if damping > 0.0:
                edge[1:] = before**damping * edge[1:] ** (1.0 - damping)
        beliefs(rows, edge, row[0], moved)
        for e in range(t.shape[0]):
            change = max(change, abs(moved[e] - t[e]))
        t[:] = moved
        for j in range(n_cols):
            z[j] = column[0, j] / column[1, j] if rows.rho_cols[j] > 0.0 else 1.0
        if change <= tol:
            reached = is_fixed_point(rows, w, t, z, edge[0], row[1], column[1], x, y)
    value = bethe_value(rows, singles, edge, row[0], column[0], x, y)
    if change <= tol and not reached:
        value = change = inf
    for j in range(n_cols):
        y[j] += log(max(column[1, j], TINY))
    return value, done, change
