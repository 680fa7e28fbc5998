"""Kernels of the edge dual: every edge's maximiser t at given node prices, and linear algebra.

Edge e = (i, j) carries the entropy -t log t + c (1-t) log(1-t), c = rho_i + rho_j - 1. Its
*response* to the reduced score s solves  t (1-t)^c = q,  q = exp(s - 1 - c), on the branch where
the entropy is concave, t < 1/(1+c). Then its value is (1+c) t + c log(1-t) and its slope dt/ds is
t (1-t) / (1 - (1+c) t): given q, small t need no exponential or logarithm, and nearly all edges of
a large graph have small t. For c > 0 the maximiser at large s is t = 1 instead. Prices enter q as
factors, so only the first evaluation at new scores takes exponentials.

ptr, col store every edge once, at its smaller end (CSR of the strict upper triangle).
"""

from math import exp, log, log1p, sqrt

import numpy as np

from ..._compile import kernel, summing_kernel
from ._semidual_kernels import log_lower_branch

SERIES_LIMIT = 2e-3  # q below which six terms of the series reach full precision
LARGEST_LOG = 50.0  # of a response during the iteration, against overflow


@kernel
def reduced_scores(ptr, col, w, prices, rho, out):
    """out = w - price_i - price_j - 1 - c, the exponent of q."""
    for i in range(ptr.shape[0] - 1):
        base = prices[i] + rho[i]
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            out[e] = w[e] - base - prices[j] - rho[j]


@kernel
def logistic_response(s, c):
    """t and log(1 - t) of  log t + c log(1 - t) = s  for -1 <= c < 0, by Newton in the log-odds."""
    if c == -1.0:
        x = s
    else:
        # Concave and increasing in x; s / -c and s bound the root on either side of 0.
        x = s if s < 0.0 else s / -c
        for _ in range(60):
            if x > 0.0:
                log_t = -log1p(exp(-x))
                rest = log_t - x
            else:
                rest = -log1p(exp(x))
                log_t = x + rest
            t = exp(log_t)
            step = (s - log_t - c * rest) / (1.0 - (1.0 + c) * t)
            x += step
            if abs(step) < 1e-13 * (1.0 + abs(x)):
                break
    if x > 0.0:
        log_t = -log1p(exp(-x))
        return exp(log_t), log_t - x
    rest = -log1p(exp(x))
    return exp(x + rest), rest


@kernel
def series_root(q, c):
    """The root of t (1 - t)^c = q as a power series in q, up to q^6."""
    c3 = c * (3.0 * c + 1.0) * 0.5
    c4 = c * (4.0 * c + 1.0) * (4.0 * c + 2.0) * (1.0 / 6.0)
    c5 = c * (5.0 * c + 1.0) * (5.0 * c + 2.0) * (5.0 * c + 3.0) * (1.0 / 24.0)
    c6 = c * (6.0 * c + 1.0) * (6.0 * c + 2.0) * (6.0 * c + 3.0) * (6.0 * c + 4.0) / 120.0
    return q * (1.0 + q * (c + q * (c3 + q * (c4 + q * (c5 + q * c6)))))


@kernel
def root_between(q, c):
    """The same for 0 < c <= 1 and larger q, up to the branch's end."""
    if c == 1.0:
        return 2.0 * q / (1.0 + sqrt(1.0 - 4.0 * q))
    x = log(q)
    t = series_root(q, c) if q < 0.1 else exp(log_lower_branch(x, 1.0, c))
    for _ in range(3):  # Newton in log t
        step = (x - log(t) - c * log1p(-t)) * (1.0 - t) / (1.0 - (1.0 + c) * t)
        t *= 1.0 + step
        if abs(step) < 1e-8:
            break
    return t


@summing_kernel
def series_roots(q, own, factor, rho, rhos, t):
    """t by the series of the root in q, exact below SERIES_LIMIT; returns the number of q above it.

    This loop and the next two are separate and without branches, so that they are vectorised.
    """
    n_large = 0.0
    for k in range(q.shape[0]):
        c = rho + rhos[k] - 1.0
        qk = q[k] * own * factor[k]
        n_large += 0.0 if qk < SERIES_LIMIT else 1.0
        t[k] = series_root(qk if qk < SERIES_LIMIT else SERIES_LIMIT, c)
    return n_large


@summing_kernel
def small_slopes(t, rho, rhos, h):
    """h of small t; the sums of t, of h, and of the edges' values."""
    sum_t, sum_h, value = 0.0, 0.0, 0.0
    for k in range(t.shape[0]):
        x = t[k]
        c = rho + rhos[k] - 1.0
        rest = -x * (1.0 + x * (0.5 + x * (1.0 / 3.0 + x * (0.25 + x * (0.2 + x * (1.0 / 6.0))))))
        y = x * (1.0 - x) / (1.0 - (1.0 + c) * x)
        value += (1.0 + c) * x + c * rest
        h[k] = y
        sum_t += x
        sum_h += y
    return sum_t, sum_h, value


@summing_kernel
def add_to(t, h, filled, spread):
    """Add t and h to the sums at the other ends."""
    for k in range(t.shape[0]):
        filled[k] += t[k]
        spread[k] += h[k]


@kernel
def large_response(q, exponent, c):
    """(t, h, value, missed, outside) of an edge whose q = exp(exponent) is not small.

    For c > 0 the branch has an end; beyond it the value continues linearly and `outside` is True.
    `missed` bounds the value of the maximiser minus that of the response.
    """
    if c < 0.0:
        t, rest = logistic_response(exponent, c)
        return t, t * exp(rest) / (1.0 - (1.0 + c) * t), (1.0 + c) * t + c * rest, 0.0, False
    if c == 0.0:
        # Only between nodes of capacity 1, whose sums imply t <= 1: no bound is needed here.
        t = exp(min(exponent, LARGEST_LOG))
        return t, t, t, 0.0, False
    end = 0.99 / (1.0 + c)  # at the very end of the branch the slope is infinite
    q_end = end * (1.0 - end) ** c if q > 0.1 else 1.0
    outside = q >= q_end
    t = end if outside else root_between(q, c)
    value = (1.0 + c) * t + c * log1p(-t)
    if outside:
        value += end * (exponent - log(q_end))
    missed = max(exponent + 1.0 + c - value, 0.0)
    if outside:  # the branch itself continues a little, with a slope of at most 1 / (1 + c)
        missed = max(missed, (exponent - log(q_end)) * (1.0 / (1.0 + c) - end))
    return t, t * (1.0 - t) / (1.0 - (1.0 + c) * t), value, missed, outside


@kernel
def edge_responses(ptr, col, complete, rho, s, q, change, factor, t, h, filled, spread):
    """Every edge's response at prices changed by `change` since `s` and q = exp(s) were computed.

    `factor` = exp(-change). Fills t, h = dt/ds, and their sums at every node (`filled`, `spread`).
    Returns the sum of the edges' values, a bound of the values of their maximisers minus that, and
    the number of edges outside of their branch, whose responses are meaningless.
    """
    n = ptr.shape[0] - 1
    filled[:] = 0.0
    spread[:] = 0.0
    total, missed = 0.0, 0.0
    n_outside = 0
    factors, rhos = np.empty(n), np.empty(n)
    for i in range(n):
        start, stop = ptr[i], ptr[i + 1]
        width = stop - start
        if width == 0:
            continue
        if complete:
            their_factor, their_rho = factor[i + 1 :], rho[i + 1 :]
        else:
            for k in range(width):
                factors[k] = factor[col[start + k]]
                rhos[k] = rho[col[start + k]]
            their_factor, their_rho = factors[:width], rhos[:width]
        own_t, own_h = t[start:stop], h[start:stop]
        n_large = series_roots(q[start:stop], factor[i], their_factor, rho[i], their_rho, own_t)
        sum_t, sum_h, value = small_slopes(own_t, rho[i], their_rho, own_h)
        if complete:
            add_to(own_t, own_h, filled[i + 1 :], spread[i + 1 :])
        else:
            for e in range(start, stop):
                filled[col[e]] += t[e]
                spread[col[e]] += h[e]
        if n_large > 0.0:
            for e in range(start, stop):
                j = col[e]
                qe = q[e] * factor[i] * factor[j]
                if qe < SERIES_LIMIT:
                    continue
                c = rho[i] + rho[j] - 1.0
                capped = (1.0 + c) * t[e] + c * log1p(-t[e])
                exponent = s[e] - change[i] - change[j]
                te, he, own, better, outside = large_response(qe, exponent, c)
                n_outside += outside
                missed += better
                value += own - capped
                sum_t += te - t[e]
                sum_h += he - h[e]
                filled[j] += te - t[e]
                spread[j] += he - h[e]
                t[e] = te
                h[e] = he
        filled[i] += sum_t
        spread[i] += sum_h
        total += value
    return total, missed, n_outside


@kernel
def singles(rho, w_single, prices, z, dz):
    """Probabilities z of staying single at given prices, their slopes, and their total value.

    `rho` weighs their entropy -rho z log z; it is 0 where unused capacity has no entropy, which is
    a bound on the price instead.
    """
    total = 0.0
    for i in range(prices.shape[0]):
        z[i] = 0.0
        dz[i] = 0.0
        if rho[i] > 0.0:
            z[i] = exp(min((w_single[i] - prices[i]) / rho[i] - 1.0, 200.0))
            dz[i] = z[i] / rho[i]
            total += rho[i] * z[i]
    return total


@summing_kernel
def add_row(values, x, own, out):
    """out += own * values, returning values @ x; one row of a symmetric product."""
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k] * x[k]
        out[k] += own * values[k]
    return total


@kernel
def multiply(ptr, col, complete, h, diagonal, x, out):
    """out = (diag(diagonal) + H) x, H the symmetric matrix of h."""
    n = ptr.shape[0] - 1
    for i in range(n):
        out[i] = diagonal[i] * x[i]
    for i in range(n):
        start, stop = ptr[i], ptr[i + 1]
        if complete:
            out[i] += add_row(h[start:stop], x[i + 1 :], x[i], out[i + 1 :])
        else:
            own, total = x[i], 0.0
            for e in range(start, stop):
                j = col[e]
                total += h[e] * x[j]
                out[j] += own * h[e]
            out[i] += total


@kernel
def price_step(ptr, col, complete, h, diagonal, fixed, rhs, rtol, max_iter, x):
    """Solve (diag(diagonal) + H) x = rhs by conjugate gradients, x = 0 where `fixed`.

    The matrix is the curvature of the dual, positive semi-definite; on bipartite components it is
    singular along "one side up, the other down", which the right-hand side does not contain.
    Returns the number of steps.
    """
    n = ptr.shape[0] - 1
    r = np.empty(n)
    p = np.empty(n)
    image = np.empty(n)
    inverse = np.empty(n)
    rz = 0.0
    for i in range(n):
        x[i] = 0.0
        inverse[i] = 0.0 if fixed[i] else 1.0 / max(diagonal[i], 1e-100)
        r[i] = 0.0 if fixed[i] else rhs[i]
        p[i] = r[i] * inverse[i]
        rz += r[i] * p[i]
    start = rz
    for step in range(max_iter):
        if rz <= rtol * rtol * start or rz <= 0.0:
            return step
        multiply(ptr, col, complete, h, diagonal, p, image)
        curvature, weight = 0.0, 0.0
        for i in range(n):
            if not fixed[i]:
                curvature += p[i] * image[i]
                weight += p[i] * p[i] * diagonal[i]
        if curvature <= 1e-13 * weight:
            return step
        move = rz / curvature
        new = 0.0
        for i in range(n):
            if not fixed[i]:
                x[i] += move * p[i]
                r[i] -= move * image[i]
                new += r[i] * r[i] * inverse[i]
        for i in range(n):
            p[i] = r[i] * inverse[i] + new / rz * p[i]
        rz = new
    return max_iter


@kernel
def scaling_round(ptr, col, q, factor, target, filled):
    """One round of symmetric scaling of t = q f_i f_j towards node sums `target`.

    The square root prevents the two ends of an edge from correcting the same error twice.
    """
    filled[:] = 0.0
    for i in range(ptr.shape[0] - 1):
        total = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            total += q[e] * factor[col[e]]
            filled[col[e]] += q[e] * factor[i]
        filled[i] += total
    worst = 0.0
    for i in range(factor.shape[0]):
        if filled[i] > 0.0:
            ratio = target[i] / (filled[i] * factor[i])
            worst = max(worst, abs(log(ratio)))
            factor[i] *= sqrt(ratio)
    return worst
