"""Reweighted belief propagation on a `RowProblem`, in the linear domain, with a certificate.

With weights K = exp(w), messages of rows r and columns s, and rho_i of a row and rho_j of a column,

    q_ij = K_ij s_ij^rho_j r_ij^(rho_i - 1),  T_i = single_i + sum_k q_ik,  r_ij = 1 / (T_i - q_ij),

and likewise for columns with sums C_j. At a fixed point t = q / T has exact row and column sums and
is stationary with the prices rho_i (log T_i - 1) of rows and rho_j (log C_j - 1) of columns.
Sums are kept as their largest term and the rest, so that any term can be left out without
cancellation. The certificate solves the rows at the prices of the columns (`semidual`): its error
is quadratic in that of the messages.
"""

from math import exp, inf, log, sqrt

import numpy as np

from ..._compile import kernel
from ._matrix_balancing_kernels import balance, round_sums
from ._newton_kernels import column_excess, evaluate, feasibility_tolerance
from ._semidual_kernels import semidual

AIM = 0.02  # errors of marginals go with the root of the gap: a few more sweeps cost little
LEAST = 1e-280  # of a sum without one term: its reciprocal and products with it are finite
SWEEPS, CHANGE, EARLY, LEFT, FACTOR, LOOK, TOL, MAX_SWEEPS, PACE = range(9)  # entries of `control`
GO_ON, CERTIFY, LAST, FAILED, PAUSED = range(5)


@kernel
def scale(rows, w, w_cols, x, y, weights, row_single, col_single):
    """Weights exp(w - rho_i x_i - rho_j y_j) for given y, x being set to each row's maximum."""
    ptr, col, n_cols = rows.ptr, rows.col, rows.rho_cols.shape[0]
    for i in range(ptr.shape[0] - 1):
        high = -inf
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            high = max(high, w[e] if j == n_cols else w[e] - rows.col_rho[j] * y[j])
        x[i] = high / rows.row_rho[i]
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            if j == n_cols:
                row_single[i] = exp(w[e] / rows.row_rho[i] - x[i])
                weights[e] = 0.0
            else:
                weights[e] = exp(w[e] - rows.col_rho[j] * y[j] - high)
    for j in range(n_cols):
        if rows.rho_cols[j] > 0.0:
            col_single[j] = exp(min(w_cols[j] / rows.col_rho[j] - y[j], 600.0))


@kernel
def column_maxima(rows, w, w_cols, y):
    """y such that, after the rows' maxima are taken out, the largest weight of a column is 1."""
    ptr, col, n_cols = rows.ptr, rows.col, rows.rho_cols.shape[0]
    for j in range(n_cols):
        y[j] = w_cols[j] if rows.rho_cols[j] > 0.0 else -inf
    for i in range(ptr.shape[0] - 1):
        high = -inf
        for e in range(ptr[i], ptr[i + 1]):
            high = max(high, w[e])
        for e in range(ptr[i], ptr[i + 1]):
            if col[e] < n_cols:
                y[col[e]] = max(y[col[e]], w[e] - high)
    for j in range(n_cols):
        y[j] = y[j] / rows.col_rho[j] if y[j] > -inf else 0.0


@kernel
def power(x, p):
    """x ** p for 0 <= p <= 1/2."""
    if p == 0.0:
        return 1.0
    return sqrt(x) if p == 0.5 else exp(p * log(x))


@kernel
def power_near(x, p, known_x, known_power):
    """x ** p, by a series where x is close to `known_x`, of which the power is known."""
    d = x / known_x - 1.0
    if abs(d) > 0.02 or p == 0.5:
        return power(x, p)
    series = 1.0 + 0.2 * (p - 4.0) * d  # the next term is below 1e-12
    series = 1.0 + 0.25 * (p - 3.0) * d * series
    series = 1.0 + (p - 2.0) * d / 3.0 * series
    series = 1.0 + 0.5 * (p - 1.0) * d * series
    return known_power * (1.0 + p * d * series)


@kernel
def messages_of(rows, t, edge, x, row_single):
    """Messages at a fixed point with marginals t: r = 1 / (T (1 - t)), s = 1 / (1 - t).

    `edge` is that of `weighted_sweeps`.
    """
    weights, terms, row_factor, col_factor = edge[0], edge[1], edge[2], edge[3]
    row_other, col_other = edge[4], edge[5]
    ptr, col, n_cols = rows.ptr, rows.col, rows.rho_cols.shape[0]
    for i in range(ptr.shape[0] - 1):
        start, stop = ptr[i], ptr[i + 1]
        k = start
        for e in range(start, stop):
            if t[e] > t[k]:
                k = e
        rest = 0.0
        for e in range(start, stop):
            if e != k:
                rest += t[e]
        total = row_single[i]
        for e in range(start, stop):
            j = col[e]
            if j == n_cols:
                continue
            other = max(rest if e == k else 1.0 - t[e], LEAST)
            row_other[e] = other
            col_other[e] = other
            row_factor[e] = power(other, 1.0 - rows.row_rho[i])
            col_factor[e] = power(other, 1.0 - rows.col_rho[j])
            terms[e] = weights[e] * col_factor[e] / other
            total += terms[e] * row_factor[e]
        # The row's maximum in x is replaced by its sum, so that T is about 1.
        x[i] += log(total)
        row_single[i] /= total
        shrink = exp(-rows.row_rho[i] * log(total))
        for e in range(start, stop):
            weights[e] *= shrink
            terms[e] *= shrink


@kernel
def verdict(change, control):
    """What to do after a sweep that changed all sums T and C by `change`, relative and squared.

    `control` holds the number of sweeps, the last change and that at half the present number of
    sweeps; the gap that the changes suggest and what the last certificate multiplies it by; the
    sweep of the next certificate, whatever is expected; the tolerance, the largest number of
    sweeps, and that between two pauses. A sweep is the LAST where at this rate of convergence the
    largest number would not be enough.
    """
    if not change < inf:
        return FAILED
    control[SWEEPS] += 1.0
    sweeps, most, tol = int(control[SWEEPS]), control[MAX_SWEEPS], control[TOL]
    # Errors shrink by the factor `rate` per sweep: what is left of a price is the sum of all later
    # changes, and the gap is about half the sum of their squares.
    before = control[CHANGE]
    rate = min(sqrt(change / before), 0.999) if before > 0.0 else 0.0
    control[CHANGE] = change
    control[LEFT] = 0.5 * change * (rate / (1.0 - rate)) ** 2
    expected = control[FACTOR] * control[LEFT]
    last = sweeps >= most
    if sweeps >= 16 and (sweeps & (sweeps - 1)) == 0:
        if sweeps >= 32 and expected > tol:
            gain = log(max(control[EARLY] / change, 1.0)) / (0.5 * sweeps)
            last = last or (most - sweeps) * gain < log(expected / tol)
        control[EARLY] = change
    if sweeps == control[LOOK]:
        control[LOOK] *= 2.0
    elif not last and (sweeps == 1 or expected > AIM * tol):
        return PAUSED if sweeps % int(control[PACE]) == 0 else GO_ON
    return LAST if last else CERTIFY


@kernel
def column_change(column):
    """New sums C = largest + rest; the sum of the squares of their relative changes."""
    col_sum, largest, rest = column[1], column[2], column[3]
    change = 0.0
    for j in range(col_sum.shape[0]):
        step = (largest[j] + rest[j]) / col_sum[j] - 1.0
        change += step * step
        col_sum[j] = largest[j] + rest[j]
    return change


@kernel
def plain_sweeps(rows, singles, complete, edge, row, column, control):
    """Sweeps at rho = 1, each all messages of rows, then all of columns, until the `verdict`.

    `singles` is 1 if the last entry of every row is that of staying single, else 0. `edge` holds
    the weights K and, on entry and on return, the terms K s; `row` the weights of single rows and
    the sums T; `column` those of columns, the sums C, and their largest terms and rests.
    """
    ptr, col = rows.ptr, rows.col
    weights, terms = edge[0], edge[1]
    row_single, row_sum = row[0], row[1]
    col_single, largest, rest = column[0], column[2], column[3]
    n_cols = largest.shape[0]
    while True:
        change = 0.0
        for j in range(n_cols):
            largest[j] = col_single[j]
            rest[j] = 0.0
        for i in range(ptr.shape[0] - 1):
            start, stop = ptr[i], ptr[i + 1] - singles
            top = row_single[i]
            others = 0.0
            for e in range(start, stop):
                others += min(terms[e], top)
                top = max(terms[e], top)
            step = (top + others) / row_sum[i] - 1.0
            change += step * step
            row_sum[i] = top + others
            for e in range(start, stop):
                other = others - terms[e] + top
                other = others if terms[e] == top else other
                terms[e] = weights[e] / max(other, LEAST)
            if complete:
                for j in range(n_cols):
                    rest[j] += min(terms[start + j], largest[j])
                    largest[j] = max(terms[start + j], largest[j])
            else:
                for e in range(start, stop):
                    j = col[e]
                    rest[j] += min(terms[e], largest[j])
                    largest[j] = max(terms[e], largest[j])
        change += column_change(column)
        for i in range(ptr.shape[0] - 1):
            start, stop = ptr[i], ptr[i + 1] - singles
            if complete:
                for j in range(n_cols):
                    e = start + j
                    other = rest[j] - terms[e] + largest[j]
                    other = rest[j] if terms[e] == largest[j] else other
                    terms[e] = weights[e] / max(other, LEAST)
            else:
                for e in range(start, stop):
                    j = col[e]
                    other = rest[j] if terms[e] == largest[j] else rest[j] - terms[e] + largest[j]
                    terms[e] = weights[e] / max(other, LEAST)
        found = verdict(change, control)
        if found != GO_ON:
            return found


@kernel
def weighted_sweeps(rows, singles, complete, edge, row, column, control):
    """`plain_sweeps` for any rho, terms being K s^rho_j.

    `edge` also holds the factors r^(rho_i - 1) and s^(rho_j - 1), and the sums without the entry,
    of which they are powers.
    """
    ptr, col = rows.ptr, rows.col
    weights, terms, row_factor, col_factor = edge[0], edge[1], edge[2], edge[3]
    row_other, col_other = edge[4], edge[5]
    row_single, row_sum = row[0], row[1]
    col_single, largest, rest = column[0], column[2], column[3]
    n_cols = largest.shape[0]
    while True:
        change = 0.0
        for j in range(n_cols):
            largest[j] = col_single[j]
            rest[j] = 0.0
        for i in range(ptr.shape[0] - 1):
            start, stop = ptr[i], ptr[i + 1] - singles
            for e in range(start, stop):
                terms[e] *= row_factor[e]
            top = row_single[i]
            others = 0.0
            for e in range(start, stop):
                others += min(terms[e], top)
                top = max(terms[e], top)
            step = (top + others) / row_sum[i] - 1.0
            change += step * step
            row_sum[i] = top + others
            p = 1.0 - rows.row_rho[i]
            for e in range(start, stop):
                other = others if terms[e] == top else others - terms[e] + top
                other = max(other, LEAST)
                row_factor[e] = power_near(other, p, row_other[e], row_factor[e])
                row_other[e] = other
                terms[e] = weights[e] * row_factor[e] / other * col_factor[e]
            if complete:
                for j in range(n_cols):
                    rest[j] += min(terms[start + j], largest[j])
                    largest[j] = max(terms[start + j], largest[j])
            else:
                for e in range(start, stop):
                    j = col[e]
                    rest[j] += min(terms[e], largest[j])
                    largest[j] = max(terms[e], largest[j])
        change += column_change(column)
        for i in range(ptr.shape[0] - 1):
            for e in range(ptr[i], ptr[i + 1] - singles):
                j = col[e]
                other = rest[j] if terms[e] == largest[j] else rest[j] - terms[e] + largest[j]
                other = max(other, LEAST)
                p = 1.0 - rows.col_rho[j]
                col_factor[e] = power_near(other, p, col_other[e], col_factor[e])
                col_other[e] = other
                terms[e] = weights[e] * col_factor[e] / other
        found = verdict(change, control)
        if found != GO_ON:
            return found


@kernel
def beliefs(rows, edge, row_single, t):
    """The rows' beliefs t = q / T at the present messages."""
    ptr, n_cols = rows.ptr, rows.rho_cols.shape[0]
    for i in range(ptr.shape[0] - 1):
        total = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            t[e] = row_single[i] if rows.col[e] == n_cols else edge[1, e] * edge[2, e]
            total += t[e]
        for e in range(ptr[i], ptr[i + 1]):
            t[e] /= total


@kernel
def certify(rows, complete, w, w_cols, edge, row, column, y, tol, t, z, prices, work):
    """(value, upper bound) at the prices of the columns that follow from their sums.

    t and z become feasible: the rows' maximisers at these prices, with the columns' sums rounded.
    The value is -inf where that fails. `work` has shape (2, n_entries).
    """
    rho_cols, col_rho, col_sum = rows.rho_cols, rows.col_rho, column[1]
    n_cols = rho_cols.shape[0]
    for j in range(n_cols):
        prices[j] = col_rho[j] * (log(max(col_sum[j], LEAST)) + y[j] - 1.0)
    beliefs(rows, edge, row[0], work[0])
    bound = semidual(rows, w, w_cols, prices, work[0], 0.1 * tol, t)
    if not bound < inf:
        return -inf, inf
    for j in range(n_cols):
        if rho_cols[j] > 0.0:
            z[j] = exp(min((w_cols[j] - prices[j]) / rho_cols[j] - 1.0, 0.0))
    worst = round_sums(rows, t, z, complete)
    if worst > 1e-13:
        balance(rows, t, z, 1e-13, 10)
    largest = np.empty(rows.ptr.shape[0] - 1, np.int64)
    value, size = evaluate(rows, w, w_cols, t, z, largest, work[0], work[1])
    excess = np.empty(n_cols + 1)
    column_excess(rows, t, z, largest, excess)
    residual = 0.0
    for j in range(n_cols):
        residual += abs(excess[j]) * (1.0 + abs(prices[j]))
    if not residual <= feasibility_tolerance(size):
        return -inf, bound
    value -= residual
    return value, max(bound, value)
