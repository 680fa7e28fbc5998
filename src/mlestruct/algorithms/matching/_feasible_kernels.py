"""Feasible marginals: node sums made 1 by scaling (Sinkhorn) or rounding, and the value there."""

from math import inf, log

import numpy as np

from ..._compile import kernel, merged_kernel
from .._logarithm_kernels import fast_log
from .row_problem import TINY


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


@merged_kernel
def feasibility_tolerance(size):
    """The error of the column sums, weighted by prices, up to which they count as exact.

    `size` is the sum of the objective's absolute terms; rounding grows with it.
    """
    return max(1e-9, 1e-11 * size)


@kernel
def logarithms(t, log_t, log_om):
    """log t and log(1 - t), the latter to absolute rounding error."""
    for k in range(t.shape[0]):
        log_t[k] = fast_log(t[k])
        log_om[k] = fast_log(max(1.0 - t[k], TINY))


@kernel
def evaluate(rows, w, w_cols, t, z, largest, log_t, log_om):
    """Objective at (t, z) and the sum of its absolute terms; fills largest, log t and log(1 - t).

    The largest entry of each row is set to 1 minus the others, so that row sums are exact; so is z
    of columns that are single with a probability above 1/2.
    """
    ptr, a, c = rows.ptr, rows.a, rows.c
    value = 0.0
    size = 0.0
    for i in range(ptr.shape[0] - 1):
        start, stop = ptr[i], ptr[i + 1]
        k = start
        for e in range(start + 1, stop):
            if t[e] > t[k]:
                k = e
        rest = 0.0
        for e in range(start, stop):
            if e != k:
                rest += t[e]
        t[k] = max(1.0 - rest, TINY)
        largest[i] = k
        logarithms(t[start:stop], log_t[start:stop], log_om[start:stop])
        log_om[k] = log(max(rest, TINY))
        value += c[k] * (rest - (1.0 - t[k])) * log_om[k]
        for e in range(start, stop):
            term = t[e] * (w[e] - a[e] * log_t[e]) + c[e] * (1.0 - t[e]) * log_om[e]
            value += term
            size += abs(term)
    n_cols = z.shape[0]
    filled = np.zeros(n_cols + 1)
    for e in range(t.shape[0]):
        filled[rows.col[e]] += t[e]
    for j in range(n_cols):
        if rows.rho_cols[j] > 0.0:
            if z[j] > 0.5 and filled[j] < 0.5:
                z[j] = 1.0 - filled[j]
            term = z[j] * (w_cols[j] - rows.rho_cols[j] * log(z[j]))
            value += term
            size += abs(term)
    return value, size


@kernel
def column_excess(rows, t, z, largest, excess):
    """Column sums minus 1, with the relative accuracy of the entries that are not near 1.

    A row's largest entry counts as 1 minus the rest of its row, and the ones cancel as whole
    numbers. Columns with z above 1/2 sum to 1 by `evaluate`.
    """
    ptr, col = rows.ptr, rows.col
    n_cols = rows.rho_cols.shape[0]
    ones = np.empty(n_cols + 1)
    for j in range(n_cols + 1):
        excess[j] = 0.0
        ones[j] = -1.0
    for i in range(ptr.shape[0] - 1):
        k = largest[i]
        rest = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            if e != k:
                rest += t[e]
                excess[col[e]] += t[e]
        excess[col[k]] -= rest
        ones[col[k]] += 1.0
    for j in range(n_cols):
        if rows.rho_cols[j] > 0.0:
            if z[j] > 0.5 and ones[j] == -1.0 and excess[j] < 0.5:
                excess[j] = 0.0
                continue
            excess[j] += z[j]
        excess[j] += ones[j]


@merged_kernel
def weighted_error(excess, prices):
    """The error of the column sums, weighted by prices."""
    total = 0.0
    for j in range(excess.shape[0] - 1):
        total += abs(excess[j]) * (1.0 + abs(prices[j]))
    return total


@kernel
def attained(rows, complete, w, w_cols, t, z, prices, largest, log_t, log_rest):
    """The value at (t, z), whose sums are made 1, minus what errors that remain may add to it.

    An error of a column sum is worth its price. The value is -inf where they add up to too much.
    """
    if round_sums(rows, t, z, complete) > 1e-13:
        balance(rows, t, z, 1e-13, 10)
    for e in range(t.shape[0]):  # others have underflowed
        t[e] = max(t[e], TINY)
    for j in range(z.shape[0]):
        z[j] = max(z[j], TINY)
    value, size = evaluate(rows, w, w_cols, t, z, largest, log_t, log_rest)
    excess = np.empty(rows.rho_cols.shape[0] + 1)
    column_excess(rows, t, z, largest, excess)
    residual = weighted_error(excess, prices)
    return value - residual if residual <= feasibility_tolerance(size) else -inf
