"""Kernels of the separable entropy  H(tau) = sum_k -a_k t log t + c_k (1-t) log(1-t)."""

from math import log

import numpy as np

from .._compile import kernel

FLOOR = 1e-300  # an underflowed entry; its gradient is large but finite
COMPLEMENT_FLOOR = 1e-16
N_POWERS = 8
SERIES_LIMIT = 0.1  # below it, log(1-t) is summed as a power series to better than 1e-9


@kernel
def entropy(tau, log_tau, a, c):
    """H(tau); log_tau is finite where tau is 0 (NumPy's log is faster than a compiled loop's)."""
    total = 0.0
    for k in range(tau.shape[0]):
        t = tau[k]
        total -= a[k] * t * log_tau[k]
        if c[k] != 0.0 and t < 1.0:
            if t < 1e-4:
                total -= c[k] * t * (1.0 - t * (0.5 + t * (1.0 / 6.0 + t / 12.0)))
            else:
                total += c[k] * (1.0 - t) * log(1.0 - t)
    return total


@kernel
def add_entropy_gradient(tau, log_tau, a, c, scores, out, sums):
    """out = scores + gradient of H at tau; entries with a = 0 are fixed and get their score.

    On the way, `sums` collects what a line search needs of the entries up to SERIES_LIMIT:
    sum of a t log t, of a t, of c t, and of c t^2, c t^3, ... (N_POWERS of them).
    """
    sums[:] = 0.0
    for k in range(tau.shape[0]):
        if a[k] == 0.0:
            out[k] = scores[k]
            continue
        t = tau[k]
        x = log_tau[k]
        value = scores[k] - a[k] * (x + 1.0)
        small = t <= SERIES_LIMIT
        if small:
            sums[0] += a[k] * t * x
            sums[1] += a[k] * t
        if c[k] != 0.0:
            if t < 1e-4:
                value -= c[k] * (1.0 - t * (1.0 + 0.5 * t))
            else:
                value -= c[k] * (log(max(1.0 - t, COMPLEMENT_FLOOR)) + 1.0)
            if small:
                sums[2] += c[k] * t
                add_powers(sums, c[k] * t * t, t)
        out[k] = value


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
    n_listed = 0
    for k in range(n):
        if tau[k] > SERIES_LIMIT and a[k] != 0.0:
            n_listed += 1
    listed = np.empty(n_listed + indices.shape[0], np.int64)
    n_listed = 0
    slope_at_zero = linear
    for k in range(n):
        if a[k] == 0.0 or (on[k] == 0.0 and tau[k] <= SERIES_LIMIT):
            continue
        listed[n_listed] = k
        n_listed += 1
        t = max(tau[k], FLOOR)
        slope = a[k] * (log(t) + 1.0)
        if c[k] != 0.0:
            slope += c[k] * (log(max(1.0 - t, COMPLEMENT_FLOOR)) + 1.0)
        slope_at_zero += (on[k] - t) * slope
        if t <= SERIES_LIMIT:
            rest[0] -= a[k] * t * log(t)
            rest[1] -= a[k] * t
            rest[2] -= c[k] * t
            add_powers(rest, -c[k] * t * t, t)
    weighted_log, mass, c_mass = rest[0], rest[1], rest[2]
    powers = rest[3:]
    slope_at_zero -= weighted_log + mass + c_mass
    for r in range(N_POWERS):
        slope_at_zero += powers[r] / (r + 1.0)
    if slope_at_zero >= 0.0:
        return 0.0
    low = 0.0
    high = max_step
    eta = min(max(guess, 1e-12), 0.5 * max_step)
    for _ in range(80):
        keep = 1.0 - eta
        slope = linear + quadratic * eta - weighted_log - mass * (log(keep) + 1.0) - c_mass
        curvature = quadratic + mass / keep
        p = keep
        for r in range(N_POWERS):
            slope += p * powers[r] / (r + 1.0)
            curvature -= p / keep * powers[r]
            p *= keep
        for q in range(n_listed):
            k = listed[q]
            d = on[k] - tau[k]
            t = max(tau[k] + eta * d, FLOOR)
            slope += d * a[k] * (log(t) + 1.0)
            curvature += d * d * a[k] / t
            if c[k] != 0.0:
                om = max(1.0 - t, COMPLEMENT_FLOOR)
                slope += d * c[k] * (log(om) + 1.0)
                curvature -= d * d * c[k] / om
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


@kernel
def move_towards(tau, indices, values, eta):
    """tau <- (1 - eta) tau + eta vertex, in place."""
    keep = 1.0 - eta
    for k in range(tau.shape[0]):
        tau[k] *= keep
    for q in range(indices.shape[0]):
        tau[indices[q]] += eta * values[q]
