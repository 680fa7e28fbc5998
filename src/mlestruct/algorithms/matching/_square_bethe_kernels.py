"""Belief propagation at rho = 1 with a certificate: n rows matched to n columns, all pairs allowed.

With weights K = exp(w), a message of a row is r_ij = 1 / (R_i - K_ij s_ij), one over the sum
R_i = sum_k K_ik s_ik without the term itself, and so for columns. At a fixed point t = K s / R has
exact row and column sums and t (1 - t) = K / (R_i C_j): log R and log C are the dual variables of
rows and columns. Off the fixed point t is rounded to exact sums, and with
q_ij = K_ij / (t (1 - t) R_i C_j)

    value = P + sum t log q,   upper bound = P + sum_i max_j log q_ij,
    P = sum log R + sum log C + sum log(1 - t),

the bound because the entropy is concave and log R, log C are feasible in the dual of the linear
program that is its tangent. log q >= 1 - 1/q replaces the logarithms in the value, which makes it a
little smaller.
"""

from math import exp, inf, log, sqrt

import numpy as np

from ..._compile import kernel
from ._belief_propagation_kernels import (
    CHANGE,
    FAILED,
    MAX_SWEEPS,
    SWEEPS,
    plain_sweeps,
)
from .row_problem import TINY

FAR = 1.5  # value of 1 / q beyond which 1 - 1/q is too weak a bound of log q


@kernel
def shifted_weights(w, n, rows, cols):
    """exp(w - rows - cols) with shifts that make the largest weight of each row and column 1.

    weights[0, 0] is 0 if the range of the scores is too wide for products of exponentials.
    """
    weights = np.empty((n, n))
    for i in range(n):
        high = -inf
        for j in range(n):
            high = max(high, w[i * n + j])
        rows[i] = high
    cols[:] = -inf
    for i in range(n):
        for j in range(n):
            cols[j] = max(cols[j], w[i * n + j] - rows[i])
    lowest = 0.0
    for i in range(n):
        for j in range(n):
            weights[i, j] = w[i * n + j] - rows[i] - cols[j]
            lowest = min(lowest, weights[i, j])
    if not lowest >= -200.0:  # products of three weights stay above the smallest float
        weights[0, 0] = 0.0
        return weights
    for i in range(n):
        for j in range(n):
            weights[i, j] = exp(weights[i, j])
    return weights


@kernel
def certify(weights, products, col_sums, t, terms):
    """(value, upper bound) at t = K s / R rounded to exact sums, from the products K s.

    Both are without the shifts of the weights. Where every row has a marginal above 1/2, these form
    a matching; at rho = 1 it can be the optimum, so its score is a candidate for the value.
    """
    n = weights.shape[0]
    row_sums = np.empty(n)
    filled = np.zeros(n)
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += products[i, j]
        row_sums[i] = total
        for j in range(n):
            terms[i, j] = products[i, j] / total
        for j in range(n):
            filled[j] += terms[i, j]
    # Column sums above 1 are scaled down to 1; then a rank-one term adds what the sums lack.
    for j in range(n):
        filled[j] = 1.0 / max(filled[j], 1.0)
    row_lacks = np.empty(n)
    col_lacks = np.ones(n)
    total_lack = 0.0
    for i in range(n):
        kept = 0.0
        for j in range(n):
            terms[i, j] *= filled[j]
            kept += terms[i, j]
        for j in range(n):
            col_lacks[j] -= terms[i, j]
        row_lacks[i] = max(1.0 - kept, 0.0)
        total_lack += row_lacks[i]
    for j in range(n):
        col_lacks[j] = max(col_lacks[j], 0.0) / max(total_lack, 1e-300)
    prices = 0.0
    mean = 0.0
    most = 0.0
    vertex = 0.0
    for i in range(n):
        largest = 0.0
        best = 0
        for j in range(n):
            terms[i, j] += row_lacks[i] * col_lacks[j]
            if terms[i, j] > largest:
                largest = terms[i, j]
                best = j
        rest = 1.0 - largest
        if largest > 0.5:
            rest = 0.0
            for j in range(n):
                if j != best:
                    rest += terms[i, j]
            rest = max(rest, TINY)
            vertex += log(weights[i, best])
        else:
            vertex = -inf
        product = 1.0
        top = 0.0
        odd = 0.0
        row_mean = 0.0
        for j in range(n):
            x = terms[i, j]
            t[i * n + j] = x
            others = rest if j == best else 1.0 - x
            product *= 1.0 if j == best else others  # never below 1/4
            inverse = x * others * row_sums[i] * col_sums[j] / weights[i, j]  # 1 / q
            top = max(top, 1.0 / inverse)
            row_mean += x * (1.0 - inverse)
            odd = max(odd, inverse)
        if odd > FAR:
            row_mean = sharper_mean(weights[i], terms[i], best, rest, row_sums[i], col_sums)
        mean += row_mean
        prices += log(product) + log(rest) + log(row_sums[i]) + log(col_sums[i])
        most += log(top)
    value = prices + mean
    if vertex > value:
        for i in range(n):
            for j in range(n):
                t[i * n + j] = 1.0 if terms[i, j] > 0.5 else TINY
        value = vertex
    return value, max(prices + most, value)


@kernel
def sharper_mean(weights, t, best, rest, row_sum, col_sums):
    """A lower bound of a row's sum of t log q, with logarithms where q is far below 1."""
    mean = 0.0
    for j in range(t.shape[0]):
        others = rest if j == best else 1.0 - t[j]
        inverse = t[j] * others * row_sum * col_sums[j] / weights[j]
        mean += t[j] * (-log(inverse) if inverse > FAR else 1.0 - inverse)
    return mean


@kernel
def bethe_marginals(rows, w, tol, max_sweeps, t, prices):
    """Marginals at rho = 1 of n rows and n >= 2 columns, by sweeps and to a gap of `tol`.

    Writes t of shape (n * n,) and the columns' prices (n + 1,). Returns (value, upper bound,
    sweeps). Where messages leave the range of floats the value is -inf, and t and prices are
    meaningless. Sweeps end early if their rate of convergence will not reach `tol` in time.
    """
    n = rows.rho_cols.shape[0]
    x, y = np.empty(n), np.empty(n)
    edge, row, column = np.empty((2, n * n)), np.ones((2, n)), np.ones((4, n))
    weights = shifted_weights(w, n, x, y)
    if weights[0, 0] == 0.0:
        return -inf, inf, 0
    edge[0] = weights.ravel()
    edge[1] = edge[0]
    row[0] = 0.0
    column[0] = 0.0
    control = np.array([0.0, inf, inf, 0.0, 1.0, inf, 0.0, 1.0, 5.0])
    products, terms = edge[1].reshape((n, n)), np.empty((n, n))
    wanted = tol
    look = 4  # the sweep of the next certificate, which costs as much as two or three sweeps
    before = inf
    sweeps = 0
    while True:
        control[SWEEPS] = 0.0
        control[MAX_SWEEPS] = min(1 if sweeps < 4 else 4, max_sweeps - sweeps)
        if plain_sweeps(rows, 0, True, edge, row, column, control) == FAILED:
            return -inf, inf, sweeps
        sweeps += int(control[SWEEPS])
        change = sqrt(2.0 * n * control[CHANGE])  # about the sum of all changes, as the gap is
        last = sweeps >= max_sweeps
        if sweeps == look:
            if sweeps >= 32 and change > wanted:  # before, the rate is not asymptotic
                rate = 2.0 * log(max(before / change, 1.0)) / sweeps  # over the second half
                last = last or (max_sweeps - sweeps) * rate < log(change / wanted)
            before = change
        if change <= wanted or sweeps == look or last:
            look = 2 * sweeps if sweeps == look else look
            value, bound = certify(weights, products, column[1], t, terms)
            if bound - value <= tol or last or change < 1e-14:
                break
            if change <= wanted:
                wanted *= 0.1
    shift = x.sum() + y.sum()
    for j in range(n):
        prices[j] = log(column[1, j]) + y[j]
    return value + shift, bound + shift, sweeps
