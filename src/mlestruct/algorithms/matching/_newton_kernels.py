"""Primal Newton for matching marginals: max <w, tau> + H_rho(tau) over feasible tau.

Rows are eliminated in closed form, so a step costs one linear system in the column prices. The
entropy's Hessian on row i's simplex has the inverse diag(h) - f h h' on the entries but the largest
(entry k, which moves by minus the sum of the others). `h`, `spread` = sum of h and
`den` = 1 + (curvature of k) * spread describe it; f = (den - 1) / (spread * den).

Accuracy where marginals approach 0 or 1:
* 1 - t of a row's largest entry is computed as the sum of the others, never as a difference, and
  column sums minus 1 likewise (`column_excess`);
* entries below `SMALL` take a step in log t, so they can change by orders of magnitude at once;
* where (1-t) log(1-t) almost cancels the concavity (rho near 1) its curvature is damped; the
  damping shrinks as full steps succeed.
"""

from math import exp, inf, log

import numpy as np

from ..._compile import kernel
from ._feasible_kernels import (
    attained,
    column_excess,
    evaluate,
    feasibility_tolerance,
    weighted_error,
)
from ._semidual_kernels import semidual
from .row_problem import TINY

LEAST_DAMPING = 1e-5  # at c = 1 the undamped curvature of an entry of 1/2 is zero
SMALL = 1e-10  # entries below this follow their own stationarity condition, not the common step

LOG_T, LOG_REST, NEW_LOG_T, NEW_LOG_REST, H, G, STEP, NEW_T = range(8)  # rows of `entry`
SPREAD, DEN = range(2)  # rows of `row`
RHS, EXCESS, CHANGE, DZ, NEW_Z, BEFORE = range(6)  # rows of `column`
VALUE, SIZE, BOUND, DECREMENT, DAMPING, BEST, UPPER = range(7)  # entries of `state`


@kernel
def factor_rows(rows, t, largest, damping, h, spread, den):
    """Fill h, spread and den at the marginals t.

    `damping` shrinks the convex part c (1-t) log(1-t) of the curvature, which gives a majoriser.
    """
    ptr, a, c = rows.ptr, rows.a, rows.c
    for i in range(ptr.shape[0] - 1):
        k = largest[i]
        rest = 0.0
        total = 0.0
        excess = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            if e == k:
                h[e] = 0.0
                continue
            te = t[e]
            ratio = (1.0 - damping) * c[e] * te / (1.0 - te)
            he = te / max(a[e] - ratio, 1e-9)
            h[e] = he
            rest += te
            total += he
            excess += he * (1.0 - a[e] + ratio)
        ck = (1.0 - damping) * c[k]
        spread[i] = total
        if rest <= TINY or total <= TINY:
            den[i] = 1.0
            spread[i] = 0.0
            continue
        # 1 + (a/t_k - c/rest) * total, written without cancellation.
        d = 1.0 - ck + a[k] * total / t[k] - ck * excess / rest
        den[i] = max(d, 1e-3 * rest, 1e-90)


@kernel
def rank_one(spread, den):
    """The factor f of a row's inverse Hessian diag(h) - f h h'."""
    return (den - 1.0) / (spread * den) if spread > 0.0 else 0.0


@kernel
def apply_rows(rows, h, spread, den, largest, g, prices, out):
    """out = C (g - prices), C the inverse Hessian of all rows on their simplices."""
    ptr, col = rows.ptr, rows.col
    for i in range(ptr.shape[0] - 1):
        start, stop = ptr[i], ptr[i + 1]
        k = largest[i]
        base = g[k] - prices[col[k]]
        pull = 0.0
        for e in range(start, stop):
            out[e] = g[e] - prices[col[e]] - base
            pull += h[e] * out[e]
        pull *= rank_one(spread[i], den[i])
        moved = 0.0
        for e in range(start, stop):
            out[e] = h[e] * (out[e] - pull)
            moved += out[e]
        out[k] = -moved


@kernel
def curvature(rows, t, z, largest, h, spread, den, excess):
    """`factor_rows` at the rows' maximisers t, damped, and the excess of the columns.

    Rows that are nearly vertices are left out: their curvature is below the rounding error.
    """
    ptr = rows.ptr
    for i in range(ptr.shape[0] - 1):
        largest[i] = ptr[i]
        for e in range(ptr[i], ptr[i + 1]):
            if t[e] > t[largest[i]]:
                largest[i] = e
    factor_rows(rows, t, largest, 0.05, h, spread, den)
    for i in range(ptr.shape[0] - 1):
        if spread[i] < 1e-7:
            for e in range(ptr[i], ptr[i + 1]):
                h[e] = 0.0
            spread[i] = 0.0
            den[i] = 1.0
    column_excess(rows, t, z, largest, excess)


@kernel
def conjugate_gradients(rows, h, spread, den, largest, z, rhs, rtol, max_iter, zero, image, x):
    """Solve for the changes x of the prices (Jacobi preconditioner).

    The matrix E C E' + diag(z / rho), C the inverse Hessians of the rows and E the incidence of
    entries and columns, is the curvature of the semi-dual in the prices. It is not formed. `zero`
    and `image` are work space of a number per entry. Returns whether `max_iter` was enough.
    """
    ptr, col = rows.ptr, rows.col
    m = rows.rho_cols.shape[0]
    diagonal = np.zeros(m + 1)
    for i in range(ptr.shape[0] - 1):
        if spread[i] == 0.0:
            continue
        f = rank_one(spread[i], den[i])
        for e in range(ptr[i], ptr[i + 1]):
            diagonal[col[e]] += h[e] - f * h[e] * h[e]
        diagonal[col[largest[i]]] += spread[i] / den[i]
    n_entries = ptr[ptr.shape[0] - 1]
    for e in range(n_entries):
        zero[e] = 0.0
    r = np.empty(m)
    p = np.zeros(m + 1)
    ap = np.empty(m + 1)
    scale = 0.0
    for j in range(m):
        if rows.rho_cols[j] > 0.0:
            diagonal[j] += z[j] / rows.rho_cols[j]
        diagonal[j] = max(diagonal[j], 1e-280)
        x[j] = 0.0
        r[j] = rhs[j]
        p[j] = r[j] / diagonal[j]
        scale += r[j] * p[j]
    rz = scale
    for _ in range(max_iter):
        if rz <= rtol * rtol * scale or rz <= 0.0:
            return True
        apply_rows(rows, h, spread, den, largest, zero, p, image)
        ap[:] = 0.0
        for e in range(n_entries):
            ap[col[e]] -= image[e]
        curvature = 0.0
        for j in range(m):
            if rows.rho_cols[j] > 0.0:
                ap[j] += z[j] / rows.rho_cols[j] * p[j]
            curvature += p[j] * ap[j]
        weight = 0.0
        for j in range(m):
            weight += p[j] * p[j] * diagonal[j]
        if curvature <= 1e-12 * weight:  # along the constants, which the system does not determine
            return True
        step = rz / curvature
        new = 0.0
        for j in range(m):
            x[j] += step * p[j]
            r[j] -= step * ap[j]
            new += r[j] * r[j] / diagonal[j]
        for j in range(m):
            p[j] = r[j] / diagonal[j] + new / rz * p[j]
        rz = new
    return False


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


@kernel
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


@kernel
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
    residual = weighted_error(excess, prices)
    feasible = residual <= feasibility_tolerance(state[SIZE])
    if feasible and (gap <= tol or decrement <= stall):
        return False
    step = min(1.0, 0.99 * reach)
    noise = 1e-13 * state[SIZE] + residual
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


@kernel
def copy_values(values, out):
    """Assignments of slices would compile their error messages, too."""
    for k in range(values.shape[0]):
        out[k] = values[k]


@kernel
def keep_best(
    rows, complete, w, w_cols, t, z, prices, tol, entry, largest, column, state,
    best_t, best_z, best_prices,
):  # fmt: skip
    """Keep the marginals of the largest value and the prices of the least upper bound so far.

    Sums are made exact in a copy: rounding changes marginals that are far below it. Where the
    linearised gap is above `tol`, the semi-dual bound is asked as well. Prices that are not finite
    become those before this round.
    """
    finite = True
    for j in range(prices.shape[0]):
        finite = finite and abs(prices[j]) < inf
    if not finite:
        copy_values(column[BEFORE], prices)
    new_t, new_z = entry[NEW_T], column[NEW_Z, : z.shape[0]]
    copy_values(t, new_t)
    copy_values(z, new_z)
    value = attained(
        rows, complete, w, w_cols, new_t, new_z, prices, largest[1],
        entry[NEW_LOG_T], entry[NEW_LOG_REST],
    )  # fmt: skip
    if value > state[BEST]:
        state[BEST] = value
        copy_values(new_t, best_t)
        copy_values(new_z, best_z)
    bound = state[BOUND]
    if not bound - state[BEST] <= tol:
        other = semidual(rows, w, w_cols, prices, t, 0.1 * tol, entry[NEW_T])
        if -inf < other < bound:
            bound = other
    if bound < state[UPPER]:
        state[UPPER] = bound
        copy_values(prices, best_prices)
