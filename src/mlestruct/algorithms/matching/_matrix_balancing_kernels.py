"""Row and column sums of a matching problem made 1: by scaling (Sinkhorn), and by rounding."""

import numpy as np

from ..._compile import kernel, shared
from .row_problem import TINY


@shared
@kernel
def balance(rows, t, z, tol, max_sweeps):
    """Scale t and z in place (Sinkhorn); returns the largest error of a column sum.

    Row sums are exact.
    """
    ptr, col = rows.ptr, rows.col
    n_cols = rows.rho_cols.shape[0]
    factor, total_of = np.empty(n_cols + 1), np.empty(n_cols + 1)
    for j in range(n_cols + 1):
        factor[j] = 1.0
    for _ in range(max_sweeps):
        for i in range(ptr.shape[0] - 1):
            total = 0.0
            for e in range(ptr[i], ptr[i + 1]):
                t[e] *= factor[col[e]]
                total += t[e]
            for e in range(ptr[i], ptr[i + 1]):
                t[e] /= total
        for j in range(n_cols + 1):
            total_of[j] = 0.0
        for e in range(t.shape[0]):
            total_of[col[e]] += t[e]
        worst = 0.0
        for j in range(n_cols):
            if rows.rho_cols[j] > 0.0:
                z[j] *= factor[j]
                total_of[j] += z[j]
            worst = max(worst, abs(total_of[j] - 1.0))
            factor[j] = 1.0 / total_of[j]
        if not worst > tol:
            return worst
    return worst


@shared
@kernel
def round_sums(rows, t, z, is_complete):
    """Round nearly exact sums to exact ones; returns the largest error that remains.

    Column sums above 1 are scaled down. What rows and columns then lack is added to their
    probability to stay single or, if all pairs are allowed, to pairs in which both lack something.
    """
    ptr, col = rows.ptr, rows.col
    n_rows, n_cols = ptr.shape[0] - 1, rows.rho_cols.shape[0]
    filled = np.zeros(n_cols + 1)
    scale = np.empty(n_cols + 1)
    lack = np.empty(n_cols + 1)
    row_lack = np.empty(n_rows)
    for e in range(t.shape[0]):
        filled[col[e]] += t[e]
    scale[n_cols] = 1.0
    lack[n_cols] = 0.0
    for j in range(n_cols):
        total = filled[j] + z[j] if rows.rho_cols[j] > 0.0 else filled[j]
        scale[j] = 1.0 / max(total, 1.0)
        z[j] *= scale[j]
        filled[j] = 0.0
    needed = 0.0
    for i in range(n_rows):
        total = 0.0
        single = -1
        for e in range(ptr[i], ptr[i + 1]):
            t[e] *= scale[col[e]]
            total += t[e]
            filled[col[e]] += t[e]
            if col[e] == n_cols:
                single = e
        row_lack[i] = max(1.0 - total, 0.0)
        if single >= 0:
            t[single] += row_lack[i]
            row_lack[i] = 0.0
        needed += row_lack[i]
    col_lack = 0.0
    for j in range(n_cols):
        total = filled[j] + z[j] if rows.rho_cols[j] > 0.0 else filled[j]
        lack[j] = max(1.0 - total, 0.0)
        col_lack += lack[j]
    if needed > col_lack:  # columns give up their probability to stay single
        for j in range(n_cols):
            if rows.rho_cols[j] > 0.0:
                lack[j] += z[j]
                col_lack += z[j]
                z[j] = 0.0
    row_rest = col_rest = 1.0  # parts that remain
    if is_complete and needed > 0.0 and col_lack > 0.0:
        for i in range(n_rows):
            for e in range(ptr[i], ptr[i + 1]):
                t[e] += row_lack[i] * lack[col[e]] / col_lack
        row_rest -= min(col_lack / needed, 1.0)
        col_rest -= min(needed / col_lack, 1.0)
    worst = 0.0
    for i in range(n_rows):
        worst = max(worst, row_lack[i] * row_rest)
    for j in range(n_cols):
        lack[j] *= col_rest
        if rows.rho_cols[j] > 0.0:
            z[j] = max(z[j] + lack[j], TINY)
        else:
            worst = max(worst, lack[j])
    return worst
