"""Kernels of the reweighted entropy of binary pairwise models in minimal coordinates.

tau holds q_n = P(x_n = 1) of all nodes, then P(x_i = x_j = 1) of all edges (i, j). The table of an
edge is  p11 = t, p10 = q_i - t, p01 = q_j - t, p00 = 1 - q_i - q_j + t.
"""

from math import log

from ..._compile import kernel

FLOOR = 1e-13  # smallest entry of an edge table; 1 - q and q_i - t carry no more digits


@kernel
def entropy(tau, tail, head, rho, counting):
    """H_rho(tau)."""
    n = counting.shape[0]
    total = 0.0
    for k in range(n):
        q = tau[k]
        if counting[k] != 0.0:
            total -= counting[k] * (xlogx(q) + xlogx(1.0 - q))
    for e in range(rho.shape[0]):
        t = tau[n + e]
        a = tau[tail[e]]
        b = tau[head[e]]
        total -= rho[e] * (xlogx(t) + xlogx(a - t) + xlogx(b - t) + xlogx(1.0 - a - b + t))
    return total


@kernel
def xlogx(x):
    return x * log(x) if x > 0.0 else 0.0


@kernel
def add_entropy_gradient(tau, tail, head, rho, counting, scores, out):
    """out = scores + gradient of H_rho at tau."""
    n = counting.shape[0]
    for k in range(n):
        q = tau[k]
        out[k] = scores[k] - counting[k] * log(max(q, FLOOR) / max(1.0 - q, FLOOR))
    for e in range(rho.shape[0]):
        i = tail[e]
        j = head[e]
        t = tau[n + e]
        p10 = max(tau[i] - t, FLOOR)
        p01 = max(tau[j] - t, FLOOR)
        p00 = max(1.0 - tau[i] - tau[j] + t, FLOOR)
        tail_slope = log(p10 / p00)
        head_slope = log(p01 / p00)
        out[i] -= rho[e] * tail_slope
        out[j] -= rho[e] * head_slope
        out[n + e] = scores[n + e] - rho[e] * (log(max(t, FLOOR) / p00) - tail_slope - head_slope)


@kernel
def slope_and_curvature(tau, target, eta, tail, head, rho, counting):
    """First and second derivative of -H_rho along target - tau at tau + eta (target - tau)."""
    n = counting.shape[0]
    slope = 0.0
    curvature = 0.0
    for k in range(n):
        c = counting[k]
        if c != 0.0:
            d = target[k] - tau[k]
            q = tau[k] + eta * d
            one = max(q, FLOOR)
            zero = max(1.0 - q, FLOOR)
            slope += c * d * log(one / zero)
            curvature += c * d * d * (1.0 / one + 1.0 / zero)
    for e in range(rho.shape[0]):
        i = tail[e]
        j = head[e]
        d = target[n + e] - tau[n + e]
        di = target[i] - tau[i]
        dj = target[j] - tau[j]
        t = tau[n + e] + eta * d
        a = tau[i] + eta * di
        b = tau[j] + eta * dj
        p11 = max(t, FLOOR)
        p10 = max(a - t, FLOOR)
        p01 = max(b - t, FLOOR)
        p00 = max(1.0 - a - b + t, FLOOR)
        d10 = di - d
        d01 = dj - d
        d00 = d - di - dj
        slope += rho[e] * (d * log(p11 / p00) + d10 * log(p10 / p00) + d01 * log(p01 / p00))
        curvature += rho[e] * (d * d / p11 + d10 * d10 / p10 + d01 * d01 / p01 + d00 * d00 / p00)
    return slope, curvature


@kernel
def line_search(
    tau, target, tail, head, rho, counting, linear, quadratic, guess, max_step, rtol
):  # fmt: skip
    """Minimise linear*eta + quadratic*eta^2/2 - H_rho on [0, max_step], by safeguarded Newton.

    Stops when the slope has fallen to rtol times its value at 0.
    """
    slope, curvature = slope_and_curvature(tau, target, 0.0, tail, head, rho, counting)
    first = slope + linear
    if first >= 0.0:
        return 0.0
    low = 0.0
    high = max_step
    eta = min(max(guess, 1e-10), 0.5 * max_step)
    previous = -first
    for trial in range(60):
        slope, curvature = slope_and_curvature(tau, target, eta, tail, head, rho, counting)
        slope += linear + quadratic * eta
        curvature += quadratic
        if abs(slope) <= -rtol * first:
            break
        if slope > 0.0:
            high = eta
        else:
            low = eta
        if high - low <= 1e-12 * high:
            break
        step = eta - slope / curvature if curvature > 0.0 else -1.0
        if not (low < step < high) or (trial > 1 and abs(slope) > 0.5 * previous):
            step = 0.5 * (low + high) if low > 0.0 else 0.1 * high
        previous = abs(slope)
        eta = step
    return eta


@kernel
def move_towards(tau, target, eta, tail, head, n_nodes):
    """tau <- (1 - eta) tau + eta target in place, keeping every table entry at least FLOOR."""
    keep = 1.0 - eta
    for k in range(tau.shape[0]):
        tau[k] = keep * tau[k] + eta * target[k]
    for k in range(n_nodes):
        tau[k] = min(max(tau[k], 4.0 * FLOOR), 1.0 - 4.0 * FLOOR)
    for e in range(tail.shape[0]):
        a = tau[tail[e]]
        b = tau[head[e]]
        low = max(0.0, a + b - 1.0) + FLOOR
        high = min(a, b) - FLOOR
        tau[n_nodes + e] = min(max(tau[n_nodes + e], low), high)
