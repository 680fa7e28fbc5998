"""Primal Newton for matching marginals: max <w, tau> + H_rho(tau) over feasible tau.

Rows are eliminated in closed form, so a step costs one linear system in the column prices
(`_schur_kernels`). Accuracy where marginals approach 0 or 1:
* 1 - t of a row's largest entry is computed as the sum of the others, never as a difference, and
  column sums minus 1 likewise (`column_excess`);
* entries below `SMALL` take a step in log t, so they can change by orders of magnitude at once;
* where (1-t) log(1-t) almost cancels the concavity (rho near 1) its curvature is damped; the
  damping shrinks as full steps succeed.
"""

from math import exp, inf, log

import numpy as np

from ..._compile import kernel, merged_kernel, shared
from ._schur_kernels import apply_rows, cholesky, cholesky_solve, factor_rows, rank_one, schur
from ._semidual_kernels import log_complement, semidual
from .row_problem import TINY

LEAST_DAMPING = 1e-5  # at c = 1 the undamped curvature of an entry of 1/2 is zero
SMALL = 1e-10  # entries below this follow their own stationarity condition, not the common step

LOG_T, LOG_REST, NEW_LOG_T, NEW_LOG_REST, H, G, STEP, NEW_T = range(8)  # rows of `entry`
SPREAD, DEN = range(2)  # rows of `row`
RHS, EXCESS, CHANGE, DZ, NEW_Z, SCALE, BEFORE = range(7)  # rows of `column`
VALUE, SIZE, BOUND, DECREMENT, DAMPING, RESIDUAL, BEST, UPPER = range(8)  # entries of `state`


@kernel
def feasibility_tolerance(size):
    """The error of the column sums, weighted by prices, up to which they count as exact.

    `size` is the sum of the objective's absolute terms; rounding grows with it.
    """
    return max(1e-9, 1e-11 * size)


@shared
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
        for e in range(start, stop):
            x = log(t[e])
            log_t[e] = x
            term = t[e] * (w[e] - a[e] * x)
            if c[e] != 0.0:
                if e == k:
                    y = log(max(rest, TINY))
                    term += c[e] * rest * y
                else:
                    y = log_complement(t[e])
                    term += c[e] * (1.0 - t[e]) * y
                log_om[e] = y
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


@shared
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


@kernel
def move(rows, g, prices, h, spread, den, largest, d, dz, step, t, z, new_t, new_z):
    """(new_t, new_z) = (t, z) + step * (d, dz), the small entries moving in log t instead."""
    ptr, col, a = rows.ptr, rows.col, rows.a
    for i in range(ptr.shape[0] - 1):
        start, stop = ptr[i], ptr[i + 1]
        k = largest[i]
        base = g[k] - prices[col[k]]
        pull = 0.0
        for e in range(start, stop):
            pull += h[e] * (g[e] - prices[col[e]] - base)
        pull *= rank_one(spread[i], den[i])
        for e in range(start, stop):
            if t[e] > SMALL:
                new_t[e] = max(t[e] + step * d[e], 0.01 * t[e])
            else:
                # The next step corrects the column excess that this causes.
                drift = (g[e] - prices[col[e]] - base - pull) / a[e]
                drift = min(max(drift, -60.0), 60.0)
                new_t[e] = min(max(t[e] * exp(step * drift), TINY), 4.0 * SMALL)
    for j in range(z.shape[0]):
        new_z[j] = max(z[j] + step * dz[j], 0.01 * z[j])


@kernel
def linear_gap(rows, w_cols, g, prices, t, z, excess):
    """An upper bound of log Z_rho minus the value at (t, z), by the concavity of each row.

    Row i's maximum at the given prices exceeds its present value by at most max(g - price) -
    mean(g - price); columns that may stay single contribute their Fenchel-Young gap. Valid at any
    prices.
    """
    ptr, col, rho_cols = rows.ptr, rows.col, rows.rho_cols
    total = 0.0
    for i in range(ptr.shape[0] - 1):
        largest = -inf
        mean = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            reduced = g[e] - prices[col[e]]
            largest = max(largest, reduced)
            mean += t[e] * reduced
        total += largest - mean
    for j in range(rho_cols.shape[0]):
        total -= prices[j] * excess[j]
        if rho_cols[j] > 0.0:
            pull = w_cols[j] - prices[j]
            total += rho_cols[j] * (exp(pull / rho_cols[j] - 1.0) + z[j] * log(z[j])) - z[j] * pull
    return total


@merged_kernel
def linearise(rows, w, w_cols, t, z, prices, entry, row, largest, column, state):
    """The gradient and the curvature of the rows at (t, z), and the right-hand side of the prices.

    The unknowns are the changes of the prices, so that prices which the marginals do not determine
    stay as they are.
    """
    col, a, c, rho_cols = rows.col, rows.a, rows.c, rows.rho_cols
    log_t, log_rest, g, d = entry[LOG_T], entry[LOG_REST], entry[G], entry[STEP]
    rhs, excess = column[RHS], column[EXCESS]
    for e in range(t.shape[0]):
        g[e] = w[e] - a[e] * (log_t[e] + 1.0) - c[e] * (log_rest[e] + 1.0)
    factor_rows(rows, t, largest[0], state[DAMPING], entry[H], row[SPREAD], row[DEN])
    apply_rows(rows, entry[H], row[SPREAD], row[DEN], largest[0], g, prices, d)
    column_excess(rows, t, z, largest[0], excess)
    for j in range(rhs.shape[0]):
        rhs[j] = excess[j]
    for e in range(t.shape[0]):
        rhs[col[e]] += d[e]
    for j in range(rho_cols.shape[0]):
        if rho_cols[j] > 0.0:
            pull = w_cols[j] - rho_cols[j] * (log(z[j]) + 1.0) - prices[j]
            rhs[j] += z[j] / rho_cols[j] * pull


@merged_kernel
def set_residual(excess, prices, state):
    """The error of the column sums, weighted by prices; whether it counts as none."""
    state[RESIDUAL] = 0.0
    for j in range(excess.shape[0] - 1):
        state[RESIDUAL] += abs(excess[j]) * (1.0 + abs(prices[j]))
    return state[RESIDUAL] <= feasibility_tolerance(state[SIZE])


@merged_kernel
def advance(rows, w, w_cols, t, z, prices, tol, stall, entry, row, largest, column, state):
    """Add the changes to the prices and step towards the marginals that follow; False at the end.

    That is where the linearised gap at the current prices is at most `tol`, where the Newton
    decrement (twice the predicted gain) is below `stall`, so that the semi-dual bound is needed, or
    where no step succeeds. `state` has the value at (t, z), the least upper bound of all iterates,
    the decrement and the damping.
    """
    col, rho_cols = rows.col, rows.rho_cols
    n_entries, n_cols = t.shape[0], rho_cols.shape[0]
    h, g, d, new_t = entry[H], entry[G], entry[STEP], entry[NEW_T]
    spread, den = row[SPREAD], row[DEN]
    excess, change, dz, new_z = column[EXCESS], column[CHANGE], column[DZ], column[NEW_Z, :n_cols]
    for j in range(n_cols):
        prices[j] += change[j]
    apply_rows(rows, h, spread, den, largest[0], g, prices, d)
    decrement = 0.0
    reach = inf
    for e in range(n_entries):
        decrement += d[e] * (g[e] - prices[col[e]])
        if d[e] < 0.0 and t[e] > SMALL:
            reach = min(reach, -t[e] / d[e])
    for j in range(n_cols):
        dz[j] = 0.0
        if rho_cols[j] > 0.0:
            pull = w_cols[j] - rho_cols[j] * (log(z[j]) + 1.0) - prices[j]
            dz[j] = z[j] / rho_cols[j] * pull
            decrement += dz[j] * pull
            if dz[j] < 0.0 and z[j] > SMALL:
                reach = min(reach, -z[j] / dz[j])
    state[DECREMENT] = decrement
    if not decrement < inf:
        return False
    value = state[VALUE]
    gap = linear_gap(rows, w_cols, g, prices, t, z, excess)
    state[BOUND] = min(state[BOUND], value + gap)
    feasible = set_residual(excess, prices, state)
    if feasible and (gap <= tol or decrement <= stall):
        return False
    step = min(1.0, 0.99 * reach)
    noise = 1e-13 * state[SIZE] + state[RESIDUAL]
    damping = state[DAMPING]
    for attempt in range(25):
        move(rows, g, prices, h, spread, den, largest[0], d, dz, step, t, z, new_t, new_z)
        new_value, new_size = evaluate(
            rows, w, w_cols, new_t, new_z, largest[1], entry[NEW_LOG_T], entry[NEW_LOG_REST]
        )
        if new_value >= value + 1e-4 * step * decrement - noise:
            if step >= 0.9 and damping > 0.0:
                state[DAMPING] = max(0.3 * damping, LEAST_DAMPING)
            elif attempt > 0:
                state[DAMPING] = min(0.3, 3.0 * damping)
            break
        step *= 0.4
    else:
        if damping < 0.1:
            state[DAMPING] = min(0.1, 10.0 * damping + 1e-3)
        return damping < 0.1
    for e in range(n_entries):
        t[e] = new_t[e]
        entry[LOG_T, e] = entry[NEW_LOG_T, e]
        entry[LOG_REST, e] = entry[NEW_LOG_REST, e]
    for j in range(n_cols):
        z[j] = new_z[j]
    for i in range(rows.ptr.shape[0] - 1):
        largest[0, i] = largest[1, i]
    state[VALUE] = new_value
    state[SIZE] = new_size
    return True


@merged_kernel
def close(rows, t, z, prices, largest, column, state):
    """The value minus what the column excess can add to it, so that it is a lower bound.

    Returns whether the columns sum to 1.
    """
    column_excess(rows, t, z, largest[0], column[EXCESS])
    feasible = set_residual(column[EXCESS], prices, state)
    state[VALUE] -= state[RESIDUAL]
    return feasible


@kernel
def copy_values(values, out):
    """Assignments of slices would compile their error messages, too."""
    for k in range(values.shape[0]):
        out[k] = values[k]


@merged_kernel
def keep_best(
    rows, w, w_cols, t, z, prices, tol, feasible, entry, column, state, best_t, best_z, best_prices
):  # fmt: skip
    """Keep the marginals of the largest value and the prices of the least upper bound so far.

    Where the linearised gap is above `tol`, the semi-dual bound is asked as well. Prices that are
    not finite become those before this round.
    """
    finite = True
    for j in range(prices.shape[0]):
        finite = finite and abs(prices[j]) < inf
    if not finite:
        copy_values(column[BEFORE], prices)
    if feasible and state[VALUE] > state[BEST]:
        state[BEST] = state[VALUE]
        copy_values(t, best_t)
        copy_values(z, best_z)
    bound = state[BOUND]
    if not bound - state[BEST] <= tol:
        other = semidual(rows, w, w_cols, prices, t, 0.1 * tol, entry[NEW_T])
        if -inf < other < bound:
            bound = other
    if bound < state[UPPER]:
        state[UPPER] = bound
        copy_values(prices, best_prices)


@merged_kernel
def newton(
    rows, w, w_cols, t, z, prices, tol, stall, max_iter, entry, row, largest, column, state, matrix,
    best_t, best_z, best_prices,
):  # fmt: skip
    """Maximise from the feasible (t, z), in place; prices of shape (n_cols + 1,) are updated too.

    The system in the prices is factored in `matrix`. Returns the number of iterations.
    """
    copy_values(prices, column[BEFORE])
    state[VALUE], state[SIZE] = evaluate(
        rows, w, w_cols, t, z, largest[0], entry[LOG_T], entry[LOG_REST]
    )
    it, moves = 0, True
    while moves and it < max_iter:
        it += 1
        linearise(rows, w, w_cols, t, z, prices, entry, row, largest, column, state)
        schur(rows, entry[H], row[SPREAD], row[DEN], largest[0], z, matrix)
        cholesky(matrix, column[SCALE])
        cholesky_solve(matrix, column[SCALE], column[RHS], column[CHANGE])
        moves = advance(
            rows, w, w_cols, t, z, prices, tol, stall, entry, row, largest, column, state
        )
    feasible = close(rows, t, z, prices, largest, column, state)
    keep_best(
        rows, w, w_cols, t, z, prices, tol, feasible, entry, column, state,
        best_t, best_z, best_prices,
    )  # fmt: skip
    return it


@kernel
def newton_each(
    rows, w, w_cols, t, z, prices, tol, stall, max_iter, entry, row, largest, column, states,
    matrix, best_t, best_z, best_prices, iterations,
):  # fmt: skip
    """`newton` for several scores of the same rows, one after the other in the same work space.

    Scores, points, tolerances, states and what is best have one row for each.
    """
    for m in range(w.shape[0]):
        iterations[m] += newton(
            rows, w[m], w_cols[m], t[m], z[m], prices[m], tol[m], stall[m], max_iter,
            entry, row, largest, column, states[m], matrix, best_t[m], best_z[m], best_prices[m],
        )  # fmt: skip
