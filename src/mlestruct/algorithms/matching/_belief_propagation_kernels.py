"""Kernels of belief propagation for bipartite matchings; messages are logarithms.

The sums of a node that may stay single ("free") contain exp(0) for that. Forbidden pairs have
a score of -inf. With W the scores, r the messages of rows and s those of columns,

    r_ij = -log sum_{k != j} exp(W_ik + rho s_ik - (1 - rho) r_ik)     (+ 1 inside if rows are free)

and the same with rows and columns exchanged. The log-odds of a belief are W + rho (r + s).
"""

from math import exp, inf, isfinite, log, log1p, sqrt

import numpy as np

from ..._compile import kernel

CHECK_EVERY = 4  # sweeps; comparing the beliefs costs about as much as a sweep


@kernel
def log_sum(q, free):
    """log of the sum of exp(q_k), plus 1 if free."""
    high = 0.0 if free else -inf
    for k in range(q.shape[0]):
        high = max(high, q[k])
    total = exp(-high) if free else 0.0
    for k in range(q.shape[0]):
        total += exp(q[k] - high)
    return high + log(total)


@kernel
def exclude_each(q, free, out):
    """out_j = log of the sum of exp(q_k) over k != j, plus 1 if free.

    The largest term is never subtracted from a sum that contains it.
    """
    n = q.shape[0]
    top = 0
    for j in range(1, n):
        if q[j] > q[top]:
            top = j
    high = q[top]
    if free and high < 0.0:
        total = 1.0
        for j in range(n):
            out[j] = exp(q[j])
            total += out[j]
        for j in range(n):
            out[j] = log(total - out[j])
        return
    others = exp(-high) if free else 0.0
    for j in range(n):
        if j != top:
            out[j] = exp(q[j] - high)
            others += out[j]
    for j in range(n):
        if j != top:
            out[j] = high + log(1.0 + (others - out[j]))
    if others > 1e-250:
        out[top] = high + log(others)
    else:
        q[top] = -inf
        out[top] = log_sum(q, free)
        q[top] = high


@kernel
def log_move(before, after):
    """The change of a belief with these log-odds."""
    return abs(1.0 / (1.0 + exp(-after)) - 1.0 / (1.0 + exp(-before)))


@kernel
def sweep_logs(scores, rho, free_rows, free_cols, r, s, damping, max_sweeps, tol):
    """Sweeps over rows and then columns, r and s in place; returns (sweeps, change, converged).

    Each message keeps `damping` of its old logarithm.
    """
    n_rows, n_cols = scores.shape
    row = np.empty(n_cols)
    row_without = np.empty(n_cols)
    col = np.empty(n_rows)
    col_without = np.empty(n_rows)
    change = inf
    for sweep in range(1, max_sweeps + 1):
        check = sweep % CHECK_EVERY == 0 or sweep == max_sweeps
        change = 0.0
        for i in range(n_rows):
            for j in range(n_cols):
                row[j] = scores[i, j] + rho * s[i, j] - (1.0 - rho) * r[i, j]
            exclude_each(row, free_rows[i], row_without)
            if check:
                for j in range(n_cols):
                    odds = scores[i, j] + rho * s[i, j]
                    change = max(
                        change, log_move(odds + rho * r[i, j], odds - rho * row_without[j])
                    )
            for j in range(n_cols):
                r[i, j] = damping * r[i, j] - (1.0 - damping) * row_without[j]
        for j in range(n_cols):
            for i in range(n_rows):
                col[i] = scores[i, j] + rho * r[i, j] - (1.0 - rho) * s[i, j]
            exclude_each(col, free_cols[j], col_without)
            if check:
                for i in range(n_rows):
                    odds = scores[i, j] + rho * r[i, j]
                    change = max(
                        change, log_move(odds + rho * s[i, j], odds - rho * col_without[i])
                    )
            for i in range(n_rows):
                s[i, j] = damping * s[i, j] - (1.0 - damping) * col_without[i]
        if check and change <= tol:
            return sweep, change, True
    return max_sweeps, change, False


@kernel
def update(terms, without, total, rho, series, message, feedback):
    """New exp(rho r) and exp(-(1 - rho) r) of one row, r = -log(without).

    without = total (1 - share), and most shares are small: their powers are a short series, which
    the compiler can vectorise, unlike `**`. For shares up to 0.1 its 13 terms are exact to 1e-13.
    """
    n = terms.shape[0]
    if rho == 0.5:
        for j in range(n):
            feedback[j] = sqrt(without[j])
            message[j] = 1.0 / feedback[j]
        return
    s1, s2, s3, s4, s5, s6 = series[1], series[2], series[3], series[4], series[5], series[6]
    s7, s8, s9, s10, s11, s12 = series[7], series[8], series[9], series[10], series[11], series[12]
    for j in range(n):
        x = terms[j] / total[j]
        p = s7 + x * (s8 + x * (s9 + x * (s10 + x * (s11 + x * s12))))
        p = 1.0 + x * (s1 + x * (s2 + x * (s3 + x * (s4 + x * (s5 + x * (s6 + x * p))))))
        message[j] = p * total[n + j]
    for j in range(n):
        if terms[j] > 0.1 * total[j]:
            message[j] = without[j] ** -rho
    for j in range(n):
        feedback[j] = message[j] * without[j]


@kernel
def largest_move(weights, other, before, after):
    """The largest change of the beliefs of one row; inf if a message left the range of floats."""
    largest = 0.0
    for j in range(weights.shape[0]):
        common = weights[j] * other[j]
        odds_before = common * before[j]
        odds_after = common * after[j]
        move = abs(odds_after - odds_before) / ((1.0 + odds_after) * (1.0 + odds_before))
        if not move < inf:
            return inf
        largest = max(largest, move)
    return largest


@kernel
def sweep_products(weights, rho, row_slack, col_slack, r, r_back, s, s_back, max_sweeps, tol):
    """`sweep_logs` on exponentials, without exp and log in the sweeps: several times faster.

    r and s hold exp(rho message), r_back and s_back exp(-(1 - rho) message). A sum is stored as its
    largest term and the rest, so that any term can be left out without cancellation. `row_slack`
    and `col_slack` are the terms of single nodes, 0 where all are matched. Returns
    (sweeps, change, converged, in_range); messages outside of the range of floats are meaningless.
    """
    n_rows, n_cols = weights.shape
    largest = np.empty(n_cols)
    rest = np.empty(n_cols)
    terms = np.empty(n_cols)
    without = np.empty(n_cols)
    old = np.empty(n_cols)
    total = np.empty(2 * n_cols)  # sums, and then their powers
    series = np.ones(13)  # of (1 - share)^-rho
    for k in range(1, 13):
        series[k] = series[k - 1] * (rho + k - 1.0) / k
    change = inf
    for sweep in range(1, max_sweeps + 1):
        check = sweep % CHECK_EVERY == 0 or sweep == max_sweeps
        change = 0.0
        for j in range(n_cols):
            largest[j] = 0.0
            rest[j] = col_slack[j]
        for i in range(n_rows):
            row_largest = 0.0
            row_rest = row_slack[i]
            for j in range(n_cols):
                terms[j] = weights[i, j] * s[i, j] * r_back[i, j]
            for j in range(n_cols):
                row_rest += min(terms[j], row_largest)
                row_largest = max(terms[j], row_largest)
            for j in range(n_cols):
                part = row_rest - terms[j] + row_largest
                without[j] = row_rest if terms[j] == row_largest else part
            total[:n_cols] = row_rest + row_largest
            total[n_cols:] = (row_rest + row_largest) ** -rho
            if check:
                old[:] = r[i]
            update(terms, without, total, rho, series, r[i], r_back[i])
            for j in range(n_cols):
                term = weights[i, j] * r[i, j] * s_back[i, j]
                rest[j] += min(term, largest[j])
                largest[j] = max(term, largest[j])
            if check:
                change = max(change, largest_move(weights[i], s[i], old, r[i]))
        for j in range(n_cols):
            total[j] = rest[j] + largest[j]
            total[n_cols + j] = total[j] ** -rho
        for i in range(n_rows):
            for j in range(n_cols):
                terms[j] = weights[i, j] * r[i, j] * s_back[i, j]
                part = rest[j] - terms[j] + largest[j]
                without[j] = rest[j] if terms[j] == largest[j] else part
            if check:
                old[:] = s[i]
            update(terms, without, total, rho, series, s[i], s_back[i])
            if check:
                change = max(change, largest_move(weights[i], r[i], old, s[i]))
        if check and not change < inf:
            return sweep, change, False, False
        if check and change <= tol:
            return sweep, change, True, True
    return max_sweeps, change, False, True


@kernel
def sweep_reciprocals(weights, row_slack, col_slack, r, s, max_sweeps, tol):
    """`sweep_products` for rho = 1, where a message is one over the sum of the other terms."""
    n_rows, n_cols = weights.shape
    largest = np.empty(n_cols)
    rest = np.empty(n_cols)
    terms = np.empty(n_cols)
    old = np.empty(n_cols)
    change = inf
    for sweep in range(1, max_sweeps + 1):
        check = sweep % CHECK_EVERY == 0 or sweep == max_sweeps
        change = 0.0
        for j in range(n_cols):
            largest[j] = 0.0
            rest[j] = col_slack[j]
        for i in range(n_rows):
            row_largest = 0.0
            row_rest = row_slack[i]
            for j in range(n_cols):
                terms[j] = weights[i, j] * s[i, j]
            for j in range(n_cols):
                row_rest += min(terms[j], row_largest)
                row_largest = max(terms[j], row_largest)
            for j in range(n_cols):
                part = row_rest - terms[j] + row_largest
                r[i, j] = 1.0 / (row_rest if terms[j] == row_largest else part)
                term = weights[i, j] * r[i, j]
                rest[j] += min(term, largest[j])
                largest[j] = max(term, largest[j])
        for i in range(n_rows):
            if check:
                old[:] = s[i]
            for j in range(n_cols):
                term = weights[i, j] * r[i, j]
                part = rest[j] - term + largest[j]
                s[i, j] = 1.0 / (rest[j] if term == largest[j] else part)
            if check:  # r is a function of s, so the change of s suffices
                change = max(change, largest_move(weights[i], r[i], old, s[i]))
        if check and not change < inf:
            return sweep, change, False, False
        if check and change <= tol:
            return sweep, change, True, True
    return max_sweeps, change, False, True


@kernel
def run_products(scores, rho, free_rows, free_cols, r, s, warm, max_sweeps, tol):
    """`sweep_products` on shifted scores, whose exponentials are in range; r and s are logarithms.

    Scores are shifted by row and column constants a and b, which messages absorb: r + a / rho and
    s + b / rho belong to W - a - b. The sums of free nodes contain 1, so these are not shifted. r
    and s are unchanged if in_range is False, and initially 0 unless `warm`.
    """
    limit = 300.0  # of initial log-messages, so that products of two stay in range
    n_rows, n_cols = scores.shape
    a = np.zeros(n_rows)
    b = np.zeros(n_cols)
    row_slack = np.zeros(n_rows)
    col_slack = np.zeros(n_cols)
    for i in range(n_rows):
        if free_rows[i]:
            row_slack[i] = 1.0
        else:
            a[i] = scores[i].max()
    highest = np.full(n_cols, -inf)
    for i in range(n_rows):
        for j in range(n_cols):
            highest[j] = max(highest[j], scores[i, j] - a[i])
    for j in range(n_cols):
        if free_cols[j]:
            col_slack[j] = 1.0
        else:
            b[j] = highest[j]
    weights = np.empty((n_rows, n_cols))
    for i in range(n_rows):
        for j in range(n_cols):
            shifted = scores[i, j] - a[i] - b[j]
            if shifted < -600.0 and scores[i, j] > -inf:
                return 0, inf, False, False
            weights[i, j] = exp(shifted)
    messages = np.empty((4, n_rows, n_cols))
    for i in range(n_rows):
        start = min(max(a[i] / rho, -limit), limit)
        messages[0, i] = exp(rho * start)
        messages[1, i] = exp((rho - 1.0) * start)
    for j in range(n_cols):
        start = min(max(b[j] / rho, -limit), limit)
        messages[2, :, j] = exp(rho * start)
        messages[3, :, j] = exp((rho - 1.0) * start)
    if warm:
        for i in range(n_rows):
            for j in range(n_cols):
                start = min(max(r[i, j] + a[i] / rho, -limit), limit)
                messages[0, i, j] = exp(rho * start)
                messages[1, i, j] = exp((rho - 1.0) * start)
                start = min(max(s[i, j] + b[j] / rho, -limit), limit)
                messages[2, i, j] = exp(rho * start)
                messages[3, i, j] = exp((rho - 1.0) * start)
    if rho == 1.0:
        sweeps, change, converged, in_range = sweep_reciprocals(
            weights, row_slack, col_slack, messages[0], messages[2], max_sweeps, tol
        )
    else:
        sweeps, change, converged, in_range = sweep_products(
            weights, rho, row_slack, col_slack,
            messages[0], messages[1], messages[2], messages[3], max_sweeps, tol,
        )  # fmt: skip
    if not in_range:
        return sweeps, change, False, False
    for i in range(n_rows):
        for j in range(n_cols):
            messages[0, i, j] = (log(messages[0, i, j]) - a[i]) / rho
            messages[2, i, j] = (log(messages[2, i, j]) - b[j]) / rho
            if not (isfinite(messages[0, i, j]) and isfinite(messages[2, i, j])):
                return sweeps, change, False, False
    r[:] = messages[0]
    s[:] = messages[2]
    return sweeps, change, converged, True


@kernel
def finish(scores, rho, free_rows, free_cols, r, s, beliefs):
    """Fill the beliefs; returns log Z_rho as a function of the messages.

    With R and C the sums of rows and columns it is
    sum rho log R + sum rho log C - (2 rho - 1) sum log(1 + odds of the belief).
    The fixed points of the messages are its stationary points, so messages that are off by d
    give a value that is off by d^2 only.
    """
    n_rows, n_cols = scores.shape
    row = np.empty(n_cols)
    col = np.empty(n_rows)
    value = 0.0
    for i in range(n_rows):
        for j in range(n_cols):
            row[j] = scores[i, j] + rho * s[i, j] - (1.0 - rho) * r[i, j]
            odds = scores[i, j] + rho * (r[i, j] + s[i, j])
            if odds > 0.0:
                small = exp(-odds)
                beliefs[i, j] = 1.0 / (1.0 + small)
                value -= (2.0 * rho - 1.0) * (odds + log1p(small))
            else:
                small = exp(odds)
                beliefs[i, j] = small / (1.0 + small)
                value -= (2.0 * rho - 1.0) * log1p(small)
        value += rho * log_sum(row, free_rows[i])
    for j in range(n_cols):
        for i in range(n_rows):
            col[i] = scores[i, j] + rho * r[i, j] - (1.0 - rho) * s[i, j]
        value += rho * log_sum(col, free_cols[j])
    return value


@kernel
def limit_odds(scores, rho, r, s):
    """Adapt the messages of earlier scores as a start for new ones, in place.

    Where a belief is near 1, messages grow with every sweep. If the new scores make it smaller, the
    messages would have to shrink again over many sweeps, at first without a change of any belief,
    which looks like convergence. So the log-odds of such pairs are lowered to 8 (a belief of 1 -
    3e-4), and the messages that they dominate are recomputed.
    """
    most = 8.0
    n_rows, n_cols = scores.shape
    certain = np.full(n_rows, -1)
    for i in range(n_rows):
        top = 0
        highest = -inf
        for j in range(n_cols):
            odds = scores[i, j] + rho * (r[i, j] + s[i, j])
            if odds > highest:
                top = j
                highest = odds
        if highest > most:
            certain[i] = top
            excess = (highest - most) / (2.0 * rho)
            r[i, top] -= excess
            s[i, top] -= excess
    for i in range(n_rows):
        top = certain[i]
        if top < 0:
            continue
        to_rivals = (1.0 - rho) * r[i, top] - scores[i, top] - rho * s[i, top]
        for j in range(n_cols):
            if j != top:
                r[i, j] = to_rivals
        to_rivals = (1.0 - rho) * s[i, top] - scores[i, top] - rho * r[i, top]
        for k in range(n_rows):
            if k != i and certain[k] != top:
                s[k, top] = to_rivals


@kernel
def propagate(scores, rho, free_rows, free_cols, messages, warm, damping, max_sweeps, tol, beliefs):
    """Belief propagation on one sample; `messages` (r, s) and `beliefs` are written in place.

    `warm` tells whether the messages come from an earlier call; otherwise they are 0.
    Returns (log_partition, sweeps, the last change of a belief, converged).
    """
    n_rows, n_cols = scores.shape
    if n_rows == 1 and n_cols == 1 and not free_rows[0] and not free_cols[0]:
        beliefs[0, 0] = 1.0  # one matching only, with infinite messages
        return scores[0, 0], 0, 0.0, True
    r = messages[0]
    s = messages[1]
    if warm:
        limit_odds(scores, rho, r, s)
    sweeps = 0
    change = inf
    converged = False
    in_range = False
    if damping == 0.0:
        sweeps, change, converged, in_range = run_products(
            scores, rho, free_rows, free_cols, r, s, warm, max_sweeps, tol
        )
    if not in_range:
        more, change, converged = sweep_logs(
            scores, rho, free_rows, free_cols, r, s, damping, max_sweeps, tol
        )
        sweeps += more
    value = finish(scores, rho, free_rows, free_cols, r, s, beliefs)
    return value, sweeps, change, converged
