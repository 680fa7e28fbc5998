"""Forward-backward, Viterbi and backward sampling over sequences.

Sequence m owns the nodes starts[m] .. starts[m+1]-1, so its edge t -> t+1 has the number t - m.
Edge e has the table tables[e * step]: step = 0 is one table for all edges, step = 1 one for each.
Rows are copied by loops: numba's assignment of arrays brings its library of strings, for an error
message, and with it seconds of compilation.
"""

from math import exp, log

import numpy as np

from ..._compile import kernel, summing_kernel
from ._log_domain_kernels import accumulate, draw_state, log_sum_exp

SMALLEST = 1e-200  # a sum above it loses nothing: a term that underflows is below 1e-308


@summing_kernel
def row_times_table(row, table, out):
    """out = row @ table, four rows of the table at a time."""
    n = out.shape[0]
    whole = n - n % 4
    out[:] = 0.0
    for i in range(0, whole, 4):
        a, b, c, d = row[i], row[i + 1], row[i + 2], row[i + 3]
        first, second, third, fourth = table[i], table[i + 1], table[i + 2], table[i + 3]
        for k in range(n):
            out[k] += (a * first[k] + b * second[k]) + (c * third[k] + d * fourth[k])
    for i in range(whole, n):
        a, first = row[i], table[i]
        for k in range(n):
            out[k] += a * first[k]


@summing_kernel
def table_times_column(table, column, out):
    """out = table @ column, four rows of the table at a time."""
    n = out.shape[0]
    whole = n - n % 4
    for i in range(0, whole, 4):
        first, second, third, fourth = table[i], table[i + 1], table[i + 2], table[i + 3]
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for k in range(n):
            x = column[k]
            a += first[k] * x
            b += second[k] * x
            c += third[k] * x
            d += fourth[k] * x
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, d
    for i in range(whole, n):
        first, a = table[i], 0.0
        for k in range(n):
            a += first[k] * column[k]
        out[i] = a


@kernel
def shift_rows(scores, tops, out):
    """out = scores minus the largest of their row, which goes to `tops`."""
    n_states = scores.shape[1]
    for t in range(scores.shape[0]):
        row, target = scores[t], out[t]
        top = row[0]
        for k in range(1, n_states):
            top = max(top, row[k])
        for k in range(n_states):
            target[k] = row[k] - top
        tops[t] = top


@summing_kernel
def forward_backward(starts, tables, shifts, step, left, right, marginals, log_z):
    """Marginals and log Z of every sequence, in the linear domain.

    `right` holds exp(node scores - their shifts), `tables` exp(edge scores - shift), log_z the sum
    of the shifts of nodes. The marginal of edge e = t - m is left in factors:
    tables[e * step] * outer(left[t], right[t + 1]). Rows of `left` at ends of sequences are 0.
    A sequence whose sums come too close to underflow gets log_z NaN and left = right = 0.
    """
    n_states = right.shape[1]
    message = np.empty(n_states)
    for m in range(starts.shape[0] - 1):
        first, last = starts[m], starts[m + 1] - 1
        total = log_z[m]
        safe = True
        message[:] = 1.0
        for t in range(first, last + 1):
            if t > first:
                row_times_table(left[t - 1], tables[(t - 1 - m) * step], message)
                total += shifts[(t - 1 - m) * step]
            size = 0.0
            for k in range(n_states):
                message[k] *= right[t, k]
                size += message[k]
            safe = safe and size > SMALLEST
            total += log(size)
            for k in range(n_states):
                left[t, k] = message[k] / size
        for k in range(n_states):
            marginals[last, k] = left[last, k]
            left[last, k] = 0.0
            message[k] = 1.0
        for t in range(last - 1, first - 1, -1):
            for k in range(n_states):
                right[t + 1, k] *= message[k]
            table_times_column(tables[(t - m) * step], right[t + 1], message)
            size, overlap = 0.0, 0.0
            for k in range(n_states):
                size += message[k]
                overlap += left[t, k] * message[k]
            safe = safe and overlap > SMALLEST * size and size > SMALLEST
            for k in range(n_states):
                left[t, k] /= overlap
                marginals[t, k] = left[t, k] * message[k]
                message[k] /= size
        if not safe:
            total = np.nan
            for t in range(first, last + 1):
                for k in range(n_states):
                    left[t, k] = 0.0
                    right[t, k] = 0.0
        log_z[m] = total


@kernel
def join_factors(starts, left, right, tables):
    """Turn tables, one per edge, into edge marginals, in place."""
    n_states = left.shape[1]
    for m in range(starts.shape[0] - 1):
        for t in range(starts[m], starts[m + 1] - 1):
            table, column = tables[t - m], right[t + 1]
            for i in range(n_states):
                p, row = left[t, i], table[i]
                for k in range(n_states):
                    row[k] *= p * column[k]


@kernel
def log_forward(first, last, first_edge, scores, tables, step, forward):
    """forward[t - first, k]: log of the sum over all states before t with state k at t.

    Every row is shifted so that its largest entry is 0. Returns the sum of the shifts, -inf if
    every labelling has a score of -inf.
    """
    n_states = scores.shape[1]
    highest = np.empty(n_states)
    total = np.empty(n_states)
    shifts = 0.0
    for t in range(first, last + 1):
        here = forward[t - first]
        for k in range(n_states):
            here[k] = scores[t, k]
        if t > first:
            table = tables[(first_edge + t - 1 - first) * step]
            before = forward[t - 1 - first]
            highest[:] = -np.inf
            for i in range(n_states):
                for k in range(n_states):
                    highest[k] = max(highest[k], before[i] + table[i, k])
            total[:] = 0.0
            for i in range(n_states):
                if before[i] == -np.inf:
                    continue
                for k in range(n_states):
                    if highest[k] > -np.inf:
                        total[k] += exp(before[i] + table[i, k] - highest[k])
            for k in range(n_states):
                if highest[k] > -np.inf:
                    here[k] += highest[k] + log(total[k])
                else:
                    here[k] = -np.inf
        top = here.max()
        if top == -np.inf:
            return top
        here -= top
        shifts += top
    return shifts


@kernel
def log_forward_backward(starts, scores, tables, step, marginals, edges, log_z):
    """The same for scores of any size: sequences whose log_z is NaN, with tables of scores.

    Edge marginals are added to edges[e * step].
    """
    n_states = scores.shape[1]
    terms = np.empty(n_states)
    column = np.empty(n_states)
    for m in range(starts.shape[0] - 1):
        if not np.isnan(log_z[m]):
            continue
        first, last = starts[m], starts[m + 1] - 1
        left = np.empty((last - first + 1, n_states))
        total = log_forward(first, last, first - m, scores, tables, step, left)
        size = log_sum_exp(left[last - first])
        log_z[m] = total + size
        marginals[last] = np.exp(left[last - first] - size)
        backward = np.zeros(n_states)
        for t in range(last - 1, first - 1, -1):
            table, before = tables[(t - m) * step], left[t - first]
            column[:] = backward + scores[t + 1]
            for i in range(n_states):
                terms[:] = table[i] + column
                backward[i] = log_sum_exp(terms)
            terms[:] = before + backward
            size = log_sum_exp(terms)
            for i in range(n_states):
                marginals[t, i] = exp(terms[i] - size)
                for k in range(n_states):
                    edges[(t - m) * step, i, k] += exp(before[i] + table[i, k] + column[k] - size)
            backward -= backward.max()


@kernel
def viterbi(starts, scores, tables, step, states):
    """The best states of every sequence; ties go to the first state."""
    n_states = scores.shape[1]
    best = np.empty(n_states)
    following = np.empty(n_states)
    came_from = np.empty(scores.shape, np.int32)
    for m in range(starts.shape[0] - 1):
        first, last = starts[m], starts[m + 1] - 1
        for k in range(n_states):
            best[k] = scores[first, k]
        for t in range(first + 1, last + 1):
            table, origin = tables[(t - 1 - m) * step], came_from[t]
            for k in range(n_states):
                following[k] = best[0] + table[0, k]
                origin[k] = 0
            for i in range(1, n_states):
                for k in range(n_states):
                    value = best[i] + table[i, k]
                    if value > following[k]:
                        following[k] = value
                        origin[k] = i
            for k in range(n_states):
                best[k] = following[k] + scores[t, k]
        state = 0
        for k in range(1, n_states):
            if best[k] > best[state]:
                state = k
        for t in range(last, first - 1, -1):
            states[t] = state
            if t > first:
                state = came_from[t, state]


@kernel
def sample_backward(starts, scores, tables, step, rng, states):
    """Fill states (n_nodes, n_samples); the first sequence with nothing admissible, or -1.

    The distribution of a node given the next state is computed when it is first needed.
    """
    n_states, n_samples = scores.shape[1], states.shape[1]
    longest = 1
    for m in range(starts.shape[0] - 1):
        longest = max(longest, starts[m + 1] - starts[m])
    forward = np.empty((longest, n_states))
    upto = np.empty((n_states, n_states))
    made = np.empty(n_states, np.bool_)
    logs = np.empty(n_states)
    for m in range(starts.shape[0] - 1):
        first, last = starts[m], starts[m + 1] - 1
        if log_forward(first, last, first - m, scores, tables, step, forward) == -np.inf:
            return m
        accumulate(forward[last - first], upto[0])
        for s in range(n_samples):
            states[last, s] = draw_state(upto[0], rng)
        for t in range(last - 1, first - 1, -1):
            table, before = tables[(t - m) * step], forward[t - first]
            made[:] = False
            for s in range(n_samples):
                following = states[t + 1, s]
                if not made[following]:
                    for i in range(n_states):
                        logs[i] = before[i] + table[i, following]
                    accumulate(logs, upto[following])
                    made[following] = True
                states[t, s] = draw_state(upto[following], rng)
    return -1
