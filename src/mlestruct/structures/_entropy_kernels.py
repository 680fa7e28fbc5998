"""Kernels of the separable entropy  H(tau) = sum_k -a_k t log t + c_k (1-t) log(1-t)."""

from math import log

import numpy as np

from .._compile import kernel, summing_kernel
from ..algorithms._logarithm_kernels import fast_log

FLOOR = 1e-300  # an underflowed entry; its gradient is large but finite
COMPLEMENT_FLOOR = 1e-16  # of 1 - t, which carries no more digits
N_POWERS = 8  # of t in the series of log(1 - t)
SERIES_LIMIT = 0.1  # below it, log(1-t) is summed as a power series to better than 1e-9


@summing_kernel
def entropy(tau, a, c):
    """H(tau)."""
    total = 0.0
    for k in range(tau.shape[0]):
        t = tau[k]
        total -= a[k] * t * fast_log(max(t, FLOOR))
        total += c[k] * (1.0 - t) * fast_log(max(1.0 - t, COMPLEMENT_FLOOR))
    return total


@summing_kernel
def add_entropy_gradient(tau, a, c, scores, out, sums):
    """out = scores + gradient of H at tau; entries with a = c = 0 are fixed and get their score.

    On the way, `sums` collects what a line search needs of the entries up to SERIES_LIMIT:
    sum of a t log t, of a t, of c t, and of c t^2, c t^3, ... (N_POWERS of them).
    """
    weighted_log = mass = 0.0
    s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = 0.0
    for k in range(tau.shape[0]):
        t = tau[k]
        x = fast_log(max(t, FLOOR))
        y = fast_log(max(1.0 - t, COMPLEMENT_FLOOR))
        out[k] = scores[k] - a[k] * (x + 1.0) - c[k] * (y + 1.0)
        t = t if t <= SERIES_LIMIT else 0.0
        weighted_log += a[k] * t * x
        mass += a[k] * t
        p = c[k] * t
        s1 += p
        p *= t
        s2 += p
        p *= t
        s3 += p
        p *= t
        s4 += p
        p *= t
        s5 += p
        p *= t
        s6 += p
        p *= t
        s7 += p
        p *= t
        s8 += p
        p *= t
        s9 += p
    sums[:] = (weighted_log, mass, s1, s2, s3, s4, s5, s6, s7, s8, s9)


@summing_kernel
def slope_along(tau, change, eta, a, c):
    """Derivative of H along `change` at tau + eta * change."""
    total = 0.0
    for k in range(tau.shape[0]):
        t = tau[k] + eta * change[k]
        x = fast_log(max(t, FLOOR))
        y = fast_log(max(1.0 - t, COMPLEMENT_FLOOR))
        total -= change[k] * (a[k] * (x + 1.0) + c[k] * (y + 1.0))
    return total


@kernel
def add_powers(sums, first, t):
    """Add first, first*t, first*t^2, ... to the power sums."""
    p = first
    for r in range(N_POWERS):
        sums[3 + r] += p
        p *= t


@kernel
def vertex_line_search(tau, a, c, indices, values, sums, linear, quadratic, guess, max_step, rtol):
    """Minimise  linear*eta + quadratic*eta^2/2 - H(tau + eta*(vertex - tau))  on [0, max_step].

    Away from the vertex's support an entry is (1-eta)*t, so its share of the slope is known from
    `sums` (of `add_entropy_gradient` at the same tau); only the support and the large entries
    are visited at every trial. Stops when the slope has fallen to rtol times its value at 0.
    """
    n = tau.shape[0]
    on = np.zeros(n)
    for q in range(indices.shape[0]):
        on[indices[q]] += values[q]
    rest = sums.copy()
    found = np.empty((4, n))  # t, vertex - t, a, c
    size = 0
    for k in range(n):
        if a[k] == 0.0 or (on[k] == 0.0 and tau[k] <= SERIES_LIMIT):
            continue
        t = tau[k]
        found[0, size] = t
        found[1, size] = on[k] - t
        found[2, size] = a[k]
        found[3, size] = c[k]
        size += 1
        if t <= SERIES_LIMIT:
            rest[0] -= a[k] * t * log(max(t, FLOOR))
            rest[1] -= a[k] * t
            rest[2] -= c[k] * t
            add_powers(rest, -c[k] * t * t, t)
    visited = (found[0][:size], found[1][:size], found[2][:size], found[3][:size])
    slope_at_zero = slope_and_curvature(visited, rest, linear, quadratic, 0.0)[0]
    if slope_at_zero >= 0.0:
        return 0.0
    low = 0.0
    high = max_step
    eta = min(max(guess, 1e-12), 0.5 * max_step)
    for _ in range(80):
        slope, curvature = slope_and_curvature(visited, rest, linear, quadratic, eta)
        if abs(slope) <= -rtol * slope_at_zero:
            break
        if slope > 0.0:
            high = eta
        else:
            low = eta
        step = eta - slope / curvature if curvature > 0.0 else -1.0
        if not (low < step < high):
            step = 0.5 * (low + high)
        if high - low <= 1e-15 * high:
            break
        eta = step
    return eta


@summing_kernel
def slope_and_curvature(visited, rest, linear, quadratic, eta):
    """Both of the line search's function at eta: `rest` in closed form, `visited` one by one."""
    keep = 1.0 - eta
    slope = linear + quadratic * eta - rest[0] - rest[1] * (log(keep) + 1.0) - rest[2]
    curvature = quadratic + rest[1] / keep
    p = 1.0
    for r in range(N_POWERS):
        curvature -= p * rest[3 + r]
        p *= keep
        slope += p * rest[3 + r] / (r + 1.0)
    start, direction, a, c = visited
    for q in range(start.shape[0]):
        d = direction[q]
        t = max(start[q] + eta * d, FLOOR)
        om = max(1.0 - t, COMPLEMENT_FLOOR)
        slope += d * (a[q] * (fast_log(t) + 1.0) + c[q] * (fast_log(om) + 1.0))
        curvature += d * d * (a[q] / t - c[q] / om)
    return slope, curvature


@kernel
def move_towards(tau, indices, values, eta):
    """tau <- (1 - eta) tau + eta vertex, in place."""
    keep = 1.0 - eta
    for k in range(tau.shape[0]):
        tau[k] *= keep
    for q in range(indices.shape[0]):
        tau[indices[q]] += eta * values[q]
