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
    y[:] = -inf
    for j in range(n_cols):
        if rows.rho_cols[j] > 0.0:
            y[j] = w_cols[j]
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
def messages_of(
    rows, t, terms, weights, row_factor, col_factor, row_other, col_other, x, row_single
):
    """Messages at a fixed point with marginals t: r = 1 / (T (1 - t)), s = 1 / (1 - t)."""
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
def sweep(
    rows, singles, plain, complete, weights, terms, row_factor, col_factor, row_single, col_single,
    row_other, col_other, row_sum, col_sum, largest, rest,
):  # fmt: skip
    """One sweep: all messages of rows, then all of columns.

    `singles` is 1 if the last entry of every row is that of staying single, else 0.
    On entry and on return terms = K s^rho_j. `row_factor` = r^(rho_i - 1) and `col_factor` =
    s^(rho_j - 1) are 1 and not used if `plain` (rho = 1). Returns the sum of the squares of the
    relative changes of all T and C.
    """
    ptr, col = rows.ptr, rows.col
    n_cols = col_sum.shape[0]
    change = 0.0
    for j in range(n_cols):
        largest[j] = col_single[j]
        rest[j] = 0.0
    for i in range(ptr.shape[0] - 1):
        start, stop = ptr[i], ptr[i + 1] - singles
        if not plain:
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
        if plain:
            for e in range(start, stop):
                other = others - terms[e] + top
                other = others if terms[e] == top else other
                terms[e] = weights[e] / max(other, LEAST)
        else:
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
    for j in range(n_cols):
        step = (largest[j] + rest[j]) / col_sum[j] - 1.0
        change += step * step
        col_sum[j] = largest[j] + rest[j]
    for i in range(ptr.shape[0] - 1):
        start, stop = ptr[i], ptr[i + 1] - singles
        if plain and complete:
            for j in range(n_cols):
                e = start + j
                other = rest[j] - terms[e] + largest[j]
                other = rest[j] if terms[e] == largest[j] else other
                terms[e] = weights[e] / max(other, LEAST)
            continue
        for e in range(start, stop):
            j = col[e]
            other = rest[j] if terms[e] == largest[j] else rest[j] - terms[e] + largest[j]
            other = max(other, LEAST)
            if plain:
                terms[e] = weights[e] / other
            else:
                p = 1.0 - rows.col_rho[j]
                col_factor[e] = power_near(other, p, col_other[e], col_factor[e])
                col_other[e] = other
                terms[e] = weights[e] * col_factor[e] / other
    return change


@kernel
def beliefs(rows, terms, row_factor, row_single, t):
    """The rows' beliefs t = q / T at the present messages."""
    ptr, n_cols = rows.ptr, rows.rho_cols.shape[0]
    for i in range(ptr.shape[0] - 1):
        total = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            t[e] = row_single[i] if rows.col[e] == n_cols else terms[e] * row_factor[e]
            total += t[e]
        for e in range(ptr[i], ptr[i + 1]):
            t[e] /= total


@kernel
def certify(rows, complete, w, w_cols, prices, hint, tol, t, z):
    """(value, upper bound) at given column prices.

    t and z become feasible: the rows' maximisers at these prices, with the columns' sums rounded.
    The value is -inf where that fails.
    """
    rho_cols = rows.rho_cols
    n_cols = rho_cols.shape[0]
    bound = semidual(rows, w, w_cols, prices, hint, 0.1 * tol, t)
    if not bound < inf:
        return -inf, inf
    for j in range(n_cols):
        if rho_cols[j] > 0.0:
            z[j] = exp(min((w_cols[j] - prices[j]) / rho_cols[j] - 1.0, 0.0))
    worst = round_sums(rows, t, z, complete)
    if worst > 1e-13:
        balance(rows, t, z, 1e-13, 10)
    largest = np.empty(rows.ptr.shape[0] - 1, np.int64)
    log_t = np.empty_like(t)
    log_rest = np.zeros_like(t)
    value, size = evaluate(rows, w, w_cols, t, z, largest, log_t, log_rest)
    excess = np.empty(n_cols + 1)
    column_excess(rows, t, z, largest, excess)
    residual = 0.0
    for j in range(n_cols):
        residual += abs(excess[j]) * (1.0 + abs(prices[j]))
    if not residual <= feasibility_tolerance(size):
        return -inf, bound
    value -= residual
    return value, max(bound, value)


@kernel
def propagate(rows, complete, w, w_cols, warm, tol, max_sweeps, t, z, prices):
    """Marginals by sweeps, to a certified gap of `tol`: returns (value, upper bound, sweeps).

    With `warm`, t and prices hold those of similar scores. Sweeps end early where at their rate of
    convergence `max_sweeps` would not be enough.
    """
    n, n_cols, n_entries = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0], w.shape[0]
    x = np.empty(n)
    y = np.empty(n_cols)
    row_single = np.zeros(n)
    col_single = np.zeros(n_cols)
    weights = np.empty(n_entries)
    singles = 1 if n and rows.col[rows.ptr[1] - 1] == n_cols else 0
    plain = True
    for i in range(n):
        plain = plain and rows.row_rho[i] == 1.0
    for j in range(n_cols):
        plain = plain and rows.col_rho[j] == 1.0
    row_factor = np.ones(n_entries)
    col_factor = np.ones(n_entries)
    row_other = np.ones(n_entries)  # the sums of which the factors are powers
    col_other = np.ones(n_entries)
    if warm:
        for j in range(n_cols):
            y[j] = prices[j] / rows.col_rho[j] + 1.0
        scale(rows, w, w_cols, x, y, weights, row_single, col_single)
        terms = np.zeros(n_entries)
        messages_of(
            rows, t, terms, weights, row_factor, col_factor, row_other, col_other, x, row_single
        )
    else:
        column_maxima(rows, w, w_cols, y)
        scale(rows, w, w_cols, x, y, weights, row_single, col_single)
        terms = weights.copy()
    row_sum = np.ones(n)
    col_sum = np.ones(n_cols)
    largest = np.empty(n_cols)
    rest = np.empty(n_cols)
    hint = np.empty(n_entries)
    new_t = np.empty(n_entries)
    new_z = np.ones(n_cols)
    new_prices = np.zeros(n_cols + 1)
    best = -inf
    bound = inf
    before = inf
    early = inf  # the change at half the present number of sweeps
    factor = 1.0  # of the expected gap, by the last certificate
    look = 16  # the sweep of the next certificate, whatever is expected; it costs about ten sweeps
    sweeps = 0
    while True:
        sweeps += 1
        change = sweep(
            rows, singles, plain, complete, weights, terms, row_factor, col_factor, row_single,
            col_single, row_other, col_other, row_sum, col_sum, largest, rest,
        )  # fmt: skip
        if not change < inf:
            return best, bound, sweeps
        # Errors shrink by the factor `rate` per sweep: what is left of a price is the sum of all
        # later changes, and the gap is about half the sum of their squares.
        rate = min(sqrt(change / before), 0.999) if before > 0.0 else 0.0
        before = change
        left = 0.5 * change * (rate / (1.0 - rate)) ** 2
        expected = factor * left
        last = sweeps >= max_sweeps
        if sweeps >= 16 and (sweeps & (sweeps - 1)) == 0:
            if sweeps >= 32 and expected > tol:
                gain = log(max(early / change, 1.0)) / (0.5 * sweeps)
                last = last or (max_sweeps - sweeps) * gain < log(expected / tol)
            early = change
        if sweeps == look or last or (sweeps > 1 and expected <= AIM * tol):
            look = 2 * sweeps if sweeps == look else look
            for j in range(n_cols):
                new_prices[j] = rows.col_rho[j] * (log(max(col_sum[j], LEAST)) + y[j] - 1.0)
            beliefs(rows, terms, row_factor, row_single, hint)
            value, upper = certify(rows, complete, w, w_cols, new_prices, hint, tol, new_t, new_z)
            if upper < bound:
                bound = upper
                prices[:] = new_prices
            if value > best:
                best = value
                t[:] = new_t
                z[:] = new_z
            if bound - best <= tol or last or change < 1e-28:
                break
            # Prices of nodes that are all but certain change longest and matter least.
            factor = (upper - value) / left if value > -inf else 10.0 * factor
    return best, bound, sweeps
