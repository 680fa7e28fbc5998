"""Reweighted belief propagation on a `RowProblem`, in the linear domain.

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

from ..._compile import kernel, merged_kernel
from ._feasible_kernels import attained
from ._semidual_kernels import semidual
from .row_problem import TINY

# Entries of `control`, in this order:
#   SWEEPS      number of sweeps so far
#   CHANGE      change of the last sweep, relative and squared
#   EARLY       the change at the last power of two
#   LEFT        the gap that the changes suggest
#   FACTOR      certified gap / LEFT at the last certificate
#   LOOK        number of sweeps at which the next certificate is due at the latest
#   TOL         the gap to reach
#   MAX_SWEEPS  the largest number of sweeps
#   PACE        number of sweeps between two pauses
SWEEPS, CHANGE, EARLY, LEFT, FACTOR, LOOK, TOL, MAX_SWEEPS, PACE = range(9)
# Stages of a sample: sweep; certify, then sweep or end; certify and end; look at the clock, then
# sweep; end.
GO_ON, CERTIFY, LAST, PAUSED, DONE = range(5)
VALUE, UPPER = range(2)  # entries of `bounds`


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
    if p == 0.0:
        return 1.0
    d = x / known_x - 1.0
    if abs(d) > 0.02 or p == 0.5:
        return power(x, p)
    series = 1.0 + 0.2 * (p - 4.0) * d  # the next term is below 1e-12
    series = 1.0 + 0.25 * (p - 3.0) * d * series
    series = 1.0 + (p - 2.0) * d / 3.0 * series
    series = 1.0 + 0.5 * (p - 1.0) * d * series
    return known_power * (1.0 + p * d * series)


@kernel
def set_series(p, series):
    """Coefficients of the powers of x in (1 - x) ** p; 13 of them are exact to 1e-13 up to 0.1."""
    series[0] = 1.0
    for k in range(1, series.shape[0]):
        series[k] = series[k - 1] * (k - 1.0 - p) / k


@kernel
def powers(share, base, without, p, series, out, start, stop):
    """out = without ** p, which is base (1 - share) ** p, at entries from `start` to `stop`.

    Powers of small shares are a series, which the compiler can vectorise, unlike exp and log.
    """
    if p == 0.5:
        for e in range(start, stop):
            out[e] = sqrt(without[e])
        return
    s1, s2, s3, s4, s5, s6 = series[1], series[2], series[3], series[4], series[5], series[6]
    s7, s8, s9, s10, s11, s12 = series[7], series[8], series[9], series[10], series[11], series[12]
    for e in range(start, stop):
        x = share[e - start]
        high = s7 + x * (s8 + x * (s9 + x * (s10 + x * (s11 + x * s12))))
        high = s1 + x * (s2 + x * (s3 + x * (s4 + x * (s5 + x * (s6 + x * high)))))
        out[e] = base[e - start] * (1.0 + x * high)
    for e in range(start, stop):
        if share[e - start] > 0.1:
            out[e] = power(without[e], p)


@kernel
def messages_of(rows, t, least, edge, x, row_single):
    """Messages at a fixed point with marginals t: r = 1 / (T (1 - t)), s = 1 / (1 - t).

    1 - t is taken to be at least `least`. `sweeps` explains `edge`.
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
            other = max(rest if e == k else 1.0 - t[e], least)
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


@merged_kernel
def start(rows, w, w_cols, warm, least, t, x, y, edge, row, column):
    """Weights and the first messages; if `warm`, from marginals t and log-sums y of columns.

    `sweeps` explains `edge`, `row` and `column`.
    """
    edge[:] = 1.0
    row[0], row[1] = 0.0, 1.0
    column[0], column[1] = 0.0, 1.0
    if warm:
        scale(rows, w, w_cols, x, y, edge[0], row[0], column[0])
        messages_of(rows, t, least, edge, x, row[0])
    else:
        column_maxima(rows, w, w_cols, y)
        scale(rows, w, w_cols, x, y, edge[0], row[0], column[0])
        for e in range(w.shape[0]):
            edge[1, e] = edge[0, e]


@kernel
def verdict(change, control):
    """The stage after a sweep that changed all sums T and C by `change`, relative and squared.

    A sweep is the LAST if at this rate of convergence the largest number would not be enough.
    """
    if not change < inf:
        return DONE
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
    # Errors of marginals go with the root of the gap: a few more sweeps than for it cost little.
    elif not last and (sweeps == 1 or expected > 0.02 * tol):
        return PAUSED if sweeps % int(control[PACE]) == 0 else GO_ON
    return LAST if last else CERTIFY


@kernel
def squared_change(before, after):
    """The square of a relative change, finite unless one of the two is not."""
    step = after / before - 1.0
    return min(step * step, 1e250)


@merged_kernel
def column_change(column):
    """New sums C = largest + rest; the sum of the squares of their relative changes."""
    col_sum, largest, rest = column[1], column[2], column[3]
    change = 0.0
    for j in range(col_sum.shape[0]):
        change += squared_change(col_sum[j], largest[j] + rest[j])
        col_sum[j] = largest[j] + rest[j]
    return change


@merged_kernel
def row_total(terms, start, stop, single):
    """The sum of a row, `single` included, as its largest term and the rest."""
    top = single
    others = 0.0
    for e in range(start, stop):
        others += min(terms[e], top)
        top = max(terms[e], top)
    return top, others


@kernel
def sweeps(rows, singles, complete, edge, row, column, control):
    """Sweeps, each all messages of rows, then all of columns, until the `verdict`.

    `singles` is 1 if the last entry of every row is that of staying single, else 0. `edge` holds
    the weights K; on entry and on return, the terms K s^rho_j; the factors r^(rho_i - 1) and
    s^(rho_j - 1), and the sums without the entry, of which they are powers. `row` holds the weights
    of single rows and the sums T; `column` those of columns, the sums C, and their largest terms
    and rests. Indices are unsigned, which the compiler needs for vector instructions.

    Where all pairs of at least 16 columns are allowed, most terms are a small part of their sum,
    and powers are series in that part. At rho = 1 the factors are and stay 1.
    """
    ptr, col, row_rho, col_rho = rows.ptr, rows.col, rows.row_rho, rows.col_rho
    weights, terms, row_factor, col_factor = edge[0], edge[1], edge[2], edge[3]
    row_other, col_other = edge[4], edge[5]
    row_single, row_sum = row[0], row[1]
    col_single, col_sum, largest, rest = column[0], column[1], column[2], column[3]
    n, n_cols = ptr.shape[0] - 1, largest.shape[0]
    in_series = complete and n_cols >= 16
    for j in range(n_cols):
        in_series = in_series and col_rho[j] == col_rho[0]
    share, base = np.empty(n_cols), np.empty(n_cols)
    col_power, row_series, col_series = np.empty(n_cols), np.empty(13), np.empty(13)
    set_series(1.0 - col_rho[0], col_series)
    while True:
        change = 0.0
        for j in range(n_cols):
            largest[j] = col_single[j]
            rest[j] = 0.0
        for i in range(n):
            start, stop = np.uint64(ptr[i]), np.uint64(ptr[i + 1] - singles)
            for e in range(start, stop):
                terms[e] *= row_factor[e]
            top, others = row_total(terms, start, stop, row_single[i])
            total = top + others
            change += squared_change(row_sum[i], total)
            row_sum[i] = total
            p = 1.0 - row_rho[i]
            if in_series:
                for e in range(start, stop):
                    other = others - terms[e] + top
                    row_other[e] = max(others if terms[e] == top else other, TINY)
                if p > 0.0:
                    for e in range(start, stop):
                        share[e - start] = terms[e] / total
                    if i == 0 or row_rho[i] != row_rho[i - 1]:
                        set_series(p, row_series)
                    of_row = power(total, p)
                    for j in range(n_cols):
                        base[j] = of_row
                    powers(share, base, row_other, p, row_series, row_factor, start, stop)
                for e in range(start, stop):
                    terms[e] = weights[e] * row_factor[e] / row_other[e] * col_factor[e]
                    rest[e - start] += min(terms[e], largest[e - start])
                    largest[e - start] = max(terms[e], largest[e - start])
            else:
                for e in range(start, stop):
                    other = max(others if terms[e] == top else others - terms[e] + top, TINY)
                    row_factor[e] = power_near(other, p, row_other[e], row_factor[e])
                    row_other[e] = other
                    terms[e] = weights[e] * row_factor[e] / other * col_factor[e]
                    j = col[e]
                    rest[j] += min(terms[e], largest[j])
                    largest[j] = max(terms[e], largest[j])
        change += column_change(column)
        if in_series:
            for j in range(n_cols):
                col_power[j] = power(col_sum[j], 1.0 - col_rho[0])
        for i in range(n):
            start, stop = np.uint64(ptr[i]), np.uint64(ptr[i + 1] - singles)
            if in_series:
                for e in range(start, stop):
                    other = rest[e - start] - terms[e] + largest[e - start]
                    other = rest[e - start] if terms[e] == largest[e - start] else other
                    col_other[e] = max(other, TINY)
                p = 1.0 - col_rho[0]
                if p > 0.0:
                    for e in range(start, stop):
                        share[e - start] = terms[e] / col_sum[e - start]
                    powers(share, col_power, col_other, p, col_series, col_factor, start, stop)
                for e in range(start, stop):
                    terms[e] = weights[e] * col_factor[e] / col_other[e]
            else:
                for e in range(start, stop):
                    j = col[e]
                    other = rest[j] if terms[e] == largest[j] else rest[j] - terms[e] + largest[j]
                    other = max(other, TINY)
                    p = 1.0 - col_rho[j]
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
        start, stop = ptr[i], ptr[i + 1]
        terms, factor, found = edge[1, start:stop], edge[2, start:stop], t[start:stop]
        total = 0.0
        for k in range(found.shape[0]):
            found[k] = terms[k] * factor[k]
        if stop > start and rows.col[stop - 1] == n_cols:
            found[-1] = row_single[i]
        for k in range(found.shape[0]):
            total += found[k]
        for k in range(found.shape[0]):
            found[k] /= total


@kernel
def sweep_each(
    stage, rows, singles, complete, w, w_cols, warm, t, prices, x, y, edge, row, column, control
):  # fmt: skip
    """Sweeps of every sample whose stage is GO_ON, until its verdict, which is its new stage.

    Samples share a graph; each has a row of every other array. A sample without sweeps starts, with
    `warm` from the marginals t and the prices of similar scores.
    """
    for m in range(w.shape[0]):
        if stage[m] != GO_ON:
            continue
        if control[m, SWEEPS] == 0.0:
            for j in range(y.shape[1]):
                y[m, j] = prices[m, j] / rows.col_rho[j] + 1.0
            start(
                rows, w[m], w_cols[m], warm[m], TINY, t[m], x[m], y[m], edge[m], row[m], column[m]
            )
        stage[m] = sweeps(rows, singles, complete, edge[m], row[m], column[m], control[m])


@kernel
def certify_each(
    stage, rows, complete, w, w_cols, t, z, prices, y, edge, row, column, control, bounds
):  # fmt: skip
    """A certificate for every sample whose stage is CERTIFY or LAST; DONE if it is exact enough.

    Prices of the columns follow from their sums. The rows' maximisers at these prices become
    feasible (`attained`), the semi-dual is the upper bound. t, z, prices and `bounds` of a sample
    are the best so far.
    """
    n_cols = rows.rho_cols.shape[0]
    new_t, log_t, log_rest = np.empty(w.shape[1]), np.empty(w.shape[1]), np.empty(w.shape[1])
    new_z, new_prices = np.empty(n_cols), np.empty(n_cols + 1)
    largest = np.empty(rows.ptr.shape[0] - 1, np.int64)
    new_z[:], new_prices[n_cols] = 1.0, 0.0
    for m in range(w.shape[0]):
        if stage[m] != CERTIFY and stage[m] != LAST:
            continue
        tol = control[m, TOL]
        for j in range(n_cols):
            log_sum = log(max(column[m, 1, j], TINY)) + y[m, j]
            new_prices[j] = rows.col_rho[j] * (log_sum - 1.0)
        beliefs(rows, edge[m], row[m, 0], log_t)  # not logarithms yet: the hint of `semidual`
        upper = semidual(rows, w[m], w_cols[m], new_prices, log_t, 0.1 * tol, new_t)
        value = -inf
        if upper < inf:
            for j in range(n_cols):
                rho = rows.rho_cols[j]
                if rho > 0.0:
                    new_z[j] = exp(min((w_cols[m, j] - new_prices[j]) / rho - 1.0, 0.0))
            value = attained(
                rows, complete, w[m], w_cols[m], new_t, new_z, new_prices, largest, log_t, log_rest
            )
            upper = max(upper, value)
        if upper < bounds[m, UPPER]:
            bounds[m, UPPER] = upper
            for j in range(n_cols):
                prices[m, j] = new_prices[j]
        if value > bounds[m, VALUE]:
            bounds[m, VALUE] = value
            for e in range(new_t.shape[0]):
                t[m, e] = new_t[e]
            for j in range(n_cols):
                z[m, j] = new_z[j]
        gap = bounds[m, UPPER] - bounds[m, VALUE]
        if gap <= tol or control[m, CHANGE] < 1e-28 or stage[m] == LAST:
            stage[m] = DONE
            continue
        # Prices of nodes that are all but certain change longest and matter least.
        if value > -inf:
            control[m, FACTOR] = (upper - value) / max(control[m, LEFT], 1e-300)
        else:
            control[m, FACTOR] *= 10.0
        stage[m] = GO_ON
