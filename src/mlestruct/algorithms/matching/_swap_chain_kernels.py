"""Heat-bath moves between perfect matchings, and between assignments of rows to columns.

A move selects two random pairs and redraws how their members are paired, with probabilities
proportional to exp(score). The selection does not depend on the scores, so every move satisfies
detailed balance.
"""

import numpy as np

from ..._compile import kernel


@kernel
def pair_score(scores, n, i, j):
    """The score of the pair {i, j} in the packed upper triangle."""
    if i > j:
        i, j = j, i
    return scores[i * (2 * n - i - 1) // 2 + j - i - 1]


@kernel
def move_pairs(scores, partner, rng, n_moves):
    """Redraw the pairing of the four nodes of two random pairs, n_moves times."""
    n = partner.shape[0]
    if n < 4:
        return
    for _ in range(n_moves):
        a = int(rng.random() * n)
        c = int(rng.random() * n)
        u = rng.random()
        b = partner[a]
        if c in (a, b):
            continue
        d = partner[c]
        kept = pair_score(scores, n, a, b) + pair_score(scores, n, c, d)
        across = pair_score(scores, n, a, c) + pair_score(scores, n, b, d)
        crossed = pair_score(scores, n, a, d) + pair_score(scores, n, b, c)
        top = max(kept, across, crossed)
        p_across = np.exp(across - top)
        p_crossed = np.exp(crossed - top)
        u *= np.exp(kept - top) + p_across + p_crossed
        if u < p_across:
            partner[a], partner[c] = c, a
            partner[b], partner[d] = d, b
        elif u < p_across + p_crossed:
            partner[a], partner[d] = d, a
            partner[b], partner[c] = c, b


@kernel
def sweep_pairs(scores, partner, weights, rng, trace):
    """A sweep of n/2 moves for each row of `trace`: the score, then sums of weights products."""
    n = partner.shape[0]
    for t in range(trace.shape[0]):
        move_pairs(scores, partner, rng, n // 2)
        trace[t] = 0.0
        for i in range(n):
            j = partner[i]
            if i < j:
                trace[t, 0] += pair_score(scores, n, i, j)
                for k in range(weights.shape[0]):
                    trace[t, k + 1] += weights[k, i] * weights[k, j]


@kernel
def best_free_partners(scores, order, partner):
    """Greedy matching: in the given order, each free node takes its best free partner."""
    n = partner.shape[0]
    partner[:] = -1
    for i in order:
        if partner[i] >= 0:
            continue
        best = -1
        for j in range(n):
            if (
                j != i
                and partner[j] < 0
                and (best < 0 or pair_score(scores, n, i, j) > pair_score(scores, n, i, best))
            ):
                best = j
        partner[i], partner[best] = best, i


@kernel
def move_rows(scores, column, rng, n_moves):
    """Swap columns between rows; rows beyond those of `scores` hold the unused columns."""
    n_rows, n_cols = scores.shape
    if n_cols < 2:
        return
    for _ in range(n_moves):
        a = int(rng.random() * n_rows)
        c = int(rng.random() * n_cols)
        u = rng.random()
        if c == a:
            continue
        b, d = column[a], column[c]
        gain = scores[a, d] - scores[a, b]
        if c < n_rows:
            gain += scores[c, b] - scores[c, d]
        if u * (1.0 + np.exp(-gain)) < 1.0:
            column[a], column[c] = d, b


@kernel
def sweep_rows(scores, column, weights, rng, trace):
    """A sweep of one move per row for each row of `trace`, as for pairs."""
    n_rows = scores.shape[0]
    for t in range(trace.shape[0]):
        move_rows(scores, column, rng, n_rows)
        trace[t] = 0.0
        for i in range(n_rows):
            trace[t, 0] += scores[i, column[i]]
            for k in range(weights.shape[0]):
                trace[t, k + 1] += weights[k, i] * weights[k, n_rows + column[i]]


@kernel
def best_free_columns(scores, order, column):
    """Greedy assignment: in the given order, each row takes its best free column."""
    n_rows, n_cols = scores.shape
    free = np.ones(n_cols, dtype=np.bool_)
    for i in order:
        best = -1
        for j in range(n_cols):
            if free[j] and (best < 0 or scores[i, j] > scores[i, best]):
                best = j
        column[i] = best
        free[best] = False
    column[n_rows:] = np.flatnonzero(free)
