"""Kernels of the reweighted entropy of binary pairwise models in minimal coordinates.

tau holds q_n = P(x_n = 1) of all nodes, then P(x_i = x_j = 1) of all edges (i, j). The table of an
edge is  p11 = t, p10 = q_i - t, p01 = q_j - t, p00 = 1 - q_i - q_j + t.

H = - sum of w p log p over all entries p of all tables, w being the node's counting number or the
edge's rho. Loops over entries take few edges at a time, so that gathering, logarithms and
scattering are separate loops over buffers in the first cache, the middle one vectorised.
"""

import numpy as np

from ..._compile import inlined_kernel, kernel, summing_kernel
from ...algorithms._logarithm_kernels import fast_log

FLOOR = 1e-13  # smallest entry of an edge table; 1 - q and q_i - t carry no more digits
CHUNK = 256  # edges at a time


@kernel
def edge_tables(tau, n, tail, head, first, stop, tables):
    """Fill tables[:, k] with p11, p10, p01, p00 of edge first + k, at least FLOOR."""
    for e in range(first, stop):
        t = tau[n + e]
        a = tau[tail[e]]
        b = tau[head[e]]
        k = e - first
        tables[0, k] = max(t, FLOOR)
        tables[1, k] = max(a - t, FLOOR)
        tables[2, k] = max(b - t, FLOOR)
        tables[3, k] = max(1.0 - a - b + t, FLOOR)


@summing_kernel
def logarithms(values, out):
    for k in range(values.shape[0]):
        out[k] = fast_log(values[k])


@summing_kernel
def weighted_logs(values, logs, weights):
    """Sum of w p log p, 0 for entries at the floor."""
    total = 0.0
    for k in range(weights.shape[0]):
        total += weights[k] * (values[k] if values[k] > FLOOR else 0.0) * logs[k]
    return total


@kernel
def entropy(tau, tail, head, rho, counting):
    """H_rho(tau)."""
    n = counting.shape[0]
    ones = np.maximum(tau[:n], FLOOR)
    zeros = np.maximum(1.0 - tau[:n], FLOOR)
    node_logs = np.empty(n)
    logarithms(ones, node_logs)
    total = weighted_logs(ones, node_logs, counting)
    logarithms(zeros, node_logs)
    total += weighted_logs(zeros, node_logs, counting)
    tables = np.ones((4, CHUNK))
    logs = np.empty((4, CHUNK))
    for first in range(0, rho.shape[0], CHUNK):
        stop = min(first + CHUNK, rho.shape[0])
        edge_tables(tau, n, tail, head, first, stop, tables)
        logarithms(tables.ravel(), logs.ravel())
        for s in range(4):
            total += weighted_logs(tables[s], logs[s], rho[first:stop])
    return -total


@summing_kernel
def node_gradient(tau, counting, scores, out):
    """out = scores + gradient of the nodes' terms; returns their sums of w p log p and of w p."""
    weighted_log = mass = 0.0
    for k in range(counting.shape[0]):
        one = max(tau[k], FLOOR)
        zero = max(1.0 - tau[k], FLOOR)
        x = fast_log(one)
        y = fast_log(zero)
        out[k] = scores[k] - counting[k] * (x - y)
        weighted_log += counting[k] * (one * x + zero * y)
        mass += counting[k]
    return weighted_log, mass


@kernel
def add_entropy_gradient(tau, tail, head, rho, counting, scores, out, sums):
    """out = scores + gradient of H_rho at tau; sums = (sum of w p log p = -H, sum of w p)."""
    n = counting.shape[0]
    weighted_log, mass = node_gradient(tau, counting, scores, out)
    tables = np.ones((4, CHUNK))
    logs = np.empty((4, CHUNK))
    for first in range(0, rho.shape[0], CHUNK):
        stop = min(first + CHUNK, rho.shape[0])
        edge_tables(tau, n, tail, head, first, stop, tables)
        logarithms(tables.ravel(), logs.ravel())
        for e in range(first, stop):
            k = e - first
            tail_slope = logs[1, k] - logs[3, k]
            head_slope = logs[2, k] - logs[3, k]
            out[tail[e]] -= rho[e] * tail_slope
            out[head[e]] -= rho[e] * head_slope
            both_slope = logs[0, k] - logs[3, k] - tail_slope - head_slope
            out[n + e] = scores[n + e] - rho[e] * both_slope
            weighted_log += rho[e] * (
                tables[0, k] * logs[0, k]
                + tables[1, k] * logs[1, k]
                + tables[2, k] * logs[2, k]
                + tables[3, k] * logs[3, k]
            )
            mass += rho[e]
    sums[0], sums[1] = weighted_log, mass


@kernel
def line_search(
    tau, target, tail, head, rho, counting, sums, linear, quadratic, guess, max_step, rtol
):  # fmt: skip
    """Minimise linear*eta + quadratic*eta^2/2 - H_rho on [0, max_step], by safeguarded Newton.

    Entries p that the target makes 0 are (1-eta) p, so that their share of the slope follows from
    `sums` (of `add_entropy_gradient` at the same tau) less the other entries', which alone are
    visited at every trial: one per table where the target is integral. Stops when the slope has
    fallen to rtol times its value at 0.
    """
    visited = visited_entries(tau, target, tail, head, rho, counting)
    weighted_log, mass, slope_at_zero = sums_at_zero(visited, sums)
    rest = (weighted_log, mass)
    first = linear + slope_at_zero
    if first >= 0.0:
        return 0.0
    low = 0.0
    high = max_step
    eta = min(max(guess, 1e-10), 0.5 * max_step)
    previous = -first
    for trial in range(60):
        slope, curvature = slope_and_curvature(visited, rest, linear, quadratic, eta)
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
def visited_entries(tau, target, tail, head, rho, counting):
    """p, target - p and w of all entries of tables that the target does not make 0."""
    n = counting.shape[0]
    found = np.empty((3, 2 * n + 4 * rho.shape[0]))
    size = 0
    for k in range(n):
        size = visit(found, size, tau[k], target[k], counting[k])
        size = visit(found, size, 1.0 - tau[k], 1.0 - target[k], counting[k])
    for e in range(rho.shape[0]):
        i, j = tail[e], head[e]
        a, b, t = tau[i], tau[j], tau[n + e]
        to_a, to_b, to_t = target[i], target[j], target[n + e]
        size = visit(found, size, t, to_t, rho[e])
        size = visit(found, size, a - t, to_a - to_t, rho[e])
        size = visit(found, size, b - t, to_b - to_t, rho[e])
        size = visit(found, size, 1.0 - a - b + t, 1.0 - to_a - to_b + to_t, rho[e])
    return found[0][:size], found[1][:size], found[2][:size]


@inlined_kernel
def visit(found, size, p, goal, weight):
    """Append an entry unless its goal is 0; the number of entries then."""
    if goal <= FLOOR:
        return size
    p = max(p, FLOOR)
    found[0, size] = p
    found[1, size] = goal - p
    found[2, size] = weight
    return size + 1


@summing_kernel
def sums_at_zero(visited, sums):
    """Sums of w p log p and of w p over the entries that are not visited; the slope of -H."""
    weighted_log, mass = sums[0], sums[1]
    slope = 0.0
    start, direction, weight = visited
    for q in range(start.shape[0]):
        x = weight[q] * fast_log(start[q])
        weighted_log -= start[q] * x
        mass -= weight[q] * start[q]
        slope += direction[q] * x
    return weighted_log, mass, slope - weighted_log


@summing_kernel
def slope_and_curvature(visited, rest, linear, quadratic, eta):
    """Both of the line search's function at eta; sum of w (target - p) = 0 in every table."""
    keep = 1.0 - eta
    slope = linear + quadratic * eta - rest[0] - rest[1] * fast_log(keep)
    curvature = quadratic + rest[1] / keep
    start, direction, weight = visited
    for q in range(start.shape[0]):
        d = direction[q]
        p = max(start[q] + eta * d, FLOOR)
        slope += weight[q] * d * fast_log(p)
        curvature += weight[q] * d * d / p
    return slope, curvature


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
