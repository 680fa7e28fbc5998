"""Forward filtering and backward sampling over chains, with logarithms: scores of any size.

Chain c owns the nodes starts[c] .. starts[c+1]-1, so its edge t -> t+1 has the number t - c. Edge e
has the table tables[e * step]: step = 0 is one table for all edges, step = 1 one for each.
"""

from math import exp, log

import numpy as np

from ..._compile import kernel


@kernel
def filter_forward(first, last, first_edge, scores, tables, step, forward):
    """forward[t - first, k]: log of the sum over all states before t with state k at t.

    Every row is shifted so that its largest entry is 0. False if nothing is admissible.
    """
    n_states = scores.shape[1]
    highest = np.empty(n_states)
    total = np.empty(n_states)
    for t in range(first, last + 1):
        here = forward[t - first]
        here[:] = scores[t]
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
            return False
        here -= top
    return True


@kernel
def accumulate(logs, upto):
    """upto[k] = sum of exp(logs[i] - the largest) over i <= k."""
    top, total = logs.max(), 0.0
    for k in range(logs.shape[0]):
        total += exp(logs[k] - top)
        upto[k] = total


@kernel
def draw_state(upto, rng):
    """A state with probabilities in proportion to the steps of `upto`, never one of step 0."""
    u = rng.random() * upto[-1]
    k = 0
    while upto[k] <= u:
        k += 1
    return k


@kernel
def sample_backward(starts, scores, tables, step, rng, states):
    """Fill states (n_nodes, n_samples); the first chain with nothing admissible, or -1.

    At every node the distributions given the next state are made once, when first needed.
    """
    n_states, n_samples = scores.shape[1], states.shape[1]
    longest = 1
    for c in range(starts.shape[0] - 1):
        longest = max(longest, starts[c + 1] - starts[c])
    forward = np.empty((longest, n_states))
    upto = np.empty((n_states, n_states))
    made = np.empty(n_states, np.bool_)
    logs = np.empty(n_states)
    for c in range(starts.shape[0] - 1):
        first, last = starts[c], starts[c + 1] - 1
        if not filter_forward(first, last, first - c, scores, tables, step, forward):
            return c
        accumulate(forward[last - first], upto[0])
        for s in range(n_samples):
            states[last, s] = draw_state(upto[0], rng)
        for t in range(last - 1, first - 1, -1):
            table, before = tables[(t - c) * step], forward[t - first]
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
