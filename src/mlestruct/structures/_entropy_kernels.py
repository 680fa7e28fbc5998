"""Kernels of the separable entropy  H(tau) = sum_k -a_k t log t + c_k (1-t) log(1-t)."""

from math import log, log1p

import numpy as np

from .._compile import kernel

FLOOR = 1e-300  # an underflowed entry; its gradient is large but finite
COMPLEMENT_FLOOR = 1e-16
N_POWERS = 8
SERIES_LIMIT = 0.1  # below it, log(1-t) is summed as a power series to better than 1e-9


@kernel
def entropy(tau, a, c):
    total = 0.0
    for k in range(tau.shape[0]):
        t = tau[k]
        if t > FLOOR:
            total -= a[k] * t * log(t)
        if c[k] != 0.0 and t < 1.0:
            total += c[k] * (1.0 - t) * log1p(-t)
    return total


@kernel
def add_entropy_gradient(tau, a, c, scores, out):
    """out = scores + gradient of H at tau; entries with a = 0 are settled and get 0."""
    for k in range(tau.shape[0]):
        if a[k] == 0.0:
            out[k] = scores[k]
            continue
        t = max(tau[k], FLOOR)
        value = scores[k] - a[k] * (log(t) + 1.0)
        if c[k] != 0.0:
            if t < 1e-4:
                value -= c[k] * (1.0 - t * (1.0 + 0.5 * t))
            else:
                value -= c[k] * (log(max(1.0 - t, COMPLEMENT_FLOOR)) + 1.0)
        out[k] = value


@kernel
def vertex_line_search(tau, a, c, indices, values, linear, quadratic, guess, max_step, rtol):
    """Minimise  linear*eta + quadratic*eta^2/2 - H(tau + eta*(vertex - tau))  on [0, max_step].

    Away from the vertex's support an entry is (1-eta)*t, so its share of the slope is a few
    sums taken once; only the support and the large entries are visited at every trial. Stops
    when the slope has fallen to rtol times its value at 0. Returns eta.
    """
    n = tau.shape[0]
    on = np.zeros(n)
    for q in range(indices.shape[0]):
        on[indices[q]] += values[q]
    listed = np.empty(n, np.int64)
    n_listed = 0
    mass = 0.0
    weighted_log = 0.0
    c_mass = 0.0
    powers = np.zeros(N_POWERS)
    slope_at_zero = linear
    for k in range(n):
        if a[k] == 0.0:
            continue
        t = tau[k]
        if on[k] > 0.0 or t > SERIES_LIMIT:
            listed[n_listed] = k
            n_listed += 1
            t = max(t, FLOOR)
            slope = a[k] * (log(t) + 1.0)
            if c[k] != 0.0:
                slope += c[k] * (log(max(1.0 - t, COMPLEMENT_FLOOR)) + 1.0)
            slope_at_zero += (on[k] - t) * slope
        elif t > FLOOR:
            mass += a[k] * t
            weighted_log += a[k] * t * log(t)
            if c[k] != 0.0:
                c_mass += c[k] * t
                p = c[k] * t * t
                for r in range(N_POWERS):
                    powers[r] += p
                    p *= t
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
                rest = max(1.0 - t, COMPLEMENT_FLOOR)
                slope += d * c[k] * (log(rest) + 1.0)
                curvature -= d * d * c[k] / rest
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
