"""The semi-dual bound of log Z_rho for matchings: rows solved exactly at given column prices.

Problems are `RowProblem`s; w[e] is the score of entry e and w_cols[j] that of column j being
single.
"""

from math import exp, inf, log, log1p, sqrt

import numpy as np

from ..._compile import kernel, summing_kernel
from .._logarithm_kernels import LOG_2, fast_log
from .row_problem import TINY


@kernel
def log_lower_branch(s, a, c):
    """log t for the root t <= a/(a+c) of  a log t + c log(1-t) = s  (a, c >= 0)."""
    if c == 0.0:
        return min(s / a, 0.0)
    if a == 1.0 and c == 1.0:
        q = exp(s)
        root = 1.0 - 4.0 * q
        t = 2.0 * q / (1.0 + sqrt(root)) if root > 0.0 else 0.5
        return s - log1p(-t) if root > 0.0 else log(0.5)
    x = s / a
    if x < -20.0:
        return x + c / a * exp(x)
    branch = a / (a + c)
    x_branch = log(branch)
    if s >= a * x_branch + c * log1p(-branch):
        return x_branch
    x = min(x, x_branch)
    for _ in range(40):
        # Concave in x and approached from the left: Newton overshoots only past the branch.
        t = exp(x)
        slope = a - c * t / (1.0 - t)
        step = (s - a * x - c * log1p(-t)) / max(slope, 1e-12)
        x = min(x + step, x_branch)
        if abs(step) < 1e-15 * (1.0 + abs(x)):
            break
    return x


@kernel
def log_complement(t):
    """log(1 - t) for t <= 1/2, to absolute rounding error."""
    if t < 1e-4:
        return -t * (1.0 + t * (0.5 + t * (1.0 / 3.0 + 0.25 * t)))
    return log(1.0 - t)


@summing_kernel
def bethe_masses(q, factor, t):
    """Roots t <= 1/2 of t (1-t) = factor q, for a = c = 1; sums of t, of h and of h - t.

    h = dt / d log q. Without branches, so that it compiles to vector instructions.
    """
    mass = spread = excess = 0.0
    for e in range(q.shape[0]):
        p = min(q[e] * factor, 0.25)
        te = 2.0 * p / (1.0 + sqrt(1.0 - 4.0 * p))
        h = te * (1.0 - te) / max(1.0 - 2.0 * te, 1e-12)
        t[e] = te
        mass += te
        spread += h
        excess += h - te
    return mass, spread, excess


@summing_kernel
def bethe_row(s, at, t, log_t):
    """Value, mean and largest gradient of the entries that `bethe_masses` has found at u = `at`."""
    value = mean = 0.0
    largest = -inf
    for e in range(s.shape[0]):
        te = t[e]
        y = fast_log(1.0 - te)
        x = s[e] - at - y if te < 0.5 else -LOG_2
        log_t[e] = x
        gradient = s[e] - x - y
        value += te * (s[e] + 2.0 - x) + (1.0 - te) * y
        mean += te * gradient
        largest = max(largest, gradient)
    return value, mean, largest


@kernel
def solve_row(rows, w, prices, start, stop, k, complement, tol, s, log_t, t):
    """Maximise one row's score plus entropy over its simplex, at given column prices.

    Entry `k` is eliminated (1 minus the others), so one scalar equation in the row multiplier u
    remains, monotone because the row's entropy is concave on the simplex. `complement` is a guess
    of 1 - t[k], and t holds guesses of the other entries (complement = 0: none); s is
    w - prices - a - c. Fills t, log_t; returns a proven upper bound of the maximum,
    value + (max gradient - mean gradient), which holds at any point of the simplex and is within
    about `tol` of the maximum here.
    """
    col, a, c = rows.col, rows.a, rows.c
    if stop - start == 1:
        t[k] = 1.0
        log_t[k] = 0.0
        return w[k] - prices[col[k]]
    shift = -inf
    bethe = True
    for e in range(start, stop):
        shift = max(shift, s[e])
        bethe &= (a[e] == 1.0) & (c[e] == 1.0)
    guessed = complement > 0.0 and complement < 1.0
    total = 0.0
    for e in range(start, stop):
        if bethe:
            log_t[e] = exp(s[e] - shift)  # saves an exp at every trial u
            total += log_t[e]
        elif guessed:
            log_t[e] = log(max(t[e], TINY))
        else:
            total += exp(s[e] - shift)
    if guessed:
        shifted = 0.0  # the change of u since the last solve for log_t
        u = s[k] - a[k] * log(1.0 - complement) - c[k] * log(complement)
    else:
        shifted = inf
        u = shift + log(total)
    if bethe:
        log_t[k] = 0.0
    low = -inf
    high = inf
    mass = 0.0
    at = u
    for _ in range(80):
        mass = 0.0
        spread = 0.0
        excess = 0.0
        at = u  # t belongs to this u
        if bethe:
            factor = exp(min(shift - u, 700.0))
            mass, spread, excess = bethe_masses(log_t[start:stop], factor, t[start:stop])
        for e in range(stop if bethe else start, stop):
            if e == k:
                continue
            if abs(shifted) > 0.5:
                x = log_lower_branch(s[e] - u, a[e], c[e])
                te = exp(x)
                slope = a[e] - c[e] * te / (1.0 - te)
            elif c[e] == 0.0:
                x = min((s[e] - u) / a[e], 0.0)
                te = exp(x)
                slope = a[e]
            else:
                # Follow the entry's curve, then correct by Newton steps.
                te = t[e]
                x = log_t[e]
                if shifted != 0.0:
                    slope = max(a[e] - c[e] * te / (1.0 - te), 1e-9)
                    x = min(x - shifted / slope, -1e-9)
                    te = exp(x)
                for _ in range(3):
                    slope = max(a[e] - c[e] * te / (1.0 - te), 1e-9)
                    step = (s[e] - u - a[e] * x - c[e] * log_complement(te)) / slope
                    if abs(step) > 1e-3:
                        x = log_lower_branch(s[e] - u, a[e], c[e])
                        te = exp(x)
                        break
                    x += step
                    te *= 1.0 + step * (1.0 + 0.5 * step)
                    if abs(step) <= 1e-8:
                        break
                slope = a[e] - c[e] * te / (1.0 - te)
            log_t[e] = x
            t[e] = te
            mass += te
            h = te / max(slope, 1e-12)
            spread += h
            excess += h - te
        if mass >= 1.0:
            low = u
            previous = u
            u = u + log(mass) + 0.1 if high == inf else 0.5 * (low + high)
            shifted = u - previous
            continue
        if mass <= TINY:
            mass = TINY
            spread = TINY
        residual = (
            s[k] - a[k] * log_complement(mass) if mass <= 0.5 else s[k] - a[k] * log(1.0 - mass)
        )
        residual -= c[k] * log(mass) + u
        slack = residual * mass if residual > 0.0 else -residual * (1.0 - mass)
        if slack <= tol or abs(residual) <= 4e-16 * abs(u):
            break
        if residual > 0.0:
            low = u
        else:
            high = u
        slope = 1.0 - c[k] + a[k] * spread / (1.0 - mass) - c[k] * excess / mass
        step = min(max(residual / max(slope, 1e-300), -50.0), 50.0)
        if spread > 1e3:  # near an entry's branch point the slope is no guide to the root
            step = min(max(residual, -0.3), 0.3)
        if not (low < u + step < high):
            if low == -inf:
                step = -2.0
            elif high == inf:
                step = 2.0
            else:
                step = 0.5 * (low + high) - u
        u += step
        shifted = step
        if high - low <= 1e-16 * (1.0 + abs(u)):
            break
    if mass >= 1.0:  # cannot happen at convergence; keeps the bound valid regardless
        return inf
    value = 0.0
    mean = 0.0
    largest = -inf
    if bethe:  # entry k counts as t = 0 here
        value, mean, largest = bethe_row(s[start:stop], at, t[start:stop], log_t[start:stop])
    for e in range(k if bethe else start, k + 1 if bethe else stop):
        score = w[e] - prices[col[e]]
        if e == k:
            te = 1.0 - mass
            x = log(te)
            y = log(mass)
            rest = mass
            t[e] = te
            log_t[e] = x
        else:
            te = t[e]
            y = log_complement(te) if c[e] != 0.0 else 0.0
            x = log_t[e]
            rest = 1.0 - te
        gradient = score - a[e] * (x + 1.0) - c[e] * (y + 1.0)
        value += te * (score - a[e] * x) + c[e] * rest * y
        mean += te * gradient
        largest = max(largest, gradient)
    return value + max(largest - mean, 0.0)


@kernel
def semidual(rows, w, w_cols, prices, hint, tol, t):
    """D(prices) >= log Z_rho for any prices of shape (n_cols + 1,), the last being 0.

    `hint` (row order) are marginals near the optimum, the start for the rows. On return `t` holds
    the rows' maximisers; D has gradient 1 - column sums of t. The rows' errors sum to at most
    `tol`.
    """
    rho_cols = rows.rho_cols
    bound = 0.0
    for j in range(rho_cols.shape[0]):
        bound += prices[j]
        if rho_cols[j] > 0.0:
            bound += rho_cols[j] * exp((w_cols[j] - prices[j]) / rho_cols[j] - 1.0)
    ptr = rows.ptr
    s = np.empty(t.shape[0])
    log_t = np.empty(t.shape[0])
    row_tol = max(tol / ptr.shape[0], 1e-15)
    for i in range(ptr.shape[0] - 1):
        start, stop = ptr[i], ptr[i + 1]
        k = start
        likely = start
        for e in range(start, stop):
            s[e] = w[e] - prices[rows.col[e]] - rows.a[e] - rows.c[e]
            if s[e] > s[k]:
                k = e
            if hint[e] > hint[likely]:
                likely = e
        rest = 0.0
        if likely == k:
            for e in range(start, stop):
                t[e] = hint[e]
                if e != k:
                    rest += hint[e]
        best = inf
        for _ in range(2):
            found = solve_row(rows, w, prices, start, stop, k, rest, row_tol, s, log_t, t)
            best = min(best, found)
            # With unequal entropies (staying single, unequal rho) another entry than k may be the
            # largest; it is then at its branch point or above entry k.
            other = -1
            for e in range(start, stop):
                if e != k and (other < 0 or t[e] > t[other]):
                    other = e
            if other < 0 or (t[other] <= 0.49 and t[other] <= t[k]):
                break
            k, rest = other, 0.0
        bound += best
    return bound
