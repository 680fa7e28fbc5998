"""Sweeps over the nodes of a pairwise model, for lower bounds of log Z.

Edges of node i are edge[ptr[i]:ptr[i+1]].
"""

from math import exp, log, log1p

import numpy as np

from ..._compile import kernel
from ._log_domain_kernels import log_sum_exp


@kernel
def ascend_independent(ptr, edge, tail, head, nodes, pairs, q, tol, max_sweeps):
    """Set each node in turn to its best distribution given the others; the number of sweeps.

    With the others fixed the objective is constant - KL(q_i || best), so a step gains the KL.
    """
    n, n_states = nodes.shape
    field = np.empty(n_states)
    for sweep in range(max_sweeps):
        gain = 0.0
        for i in range(n):
            for x in range(n_states):
                field[x] = nodes[i, x]
            for a in range(ptr[i], ptr[i + 1]):
                e = edge[a]
                if tail[e] == i:
                    j = head[e]
                    for x in range(n_states):
                        for y in range(n_states):
                            field[x] += pairs[e, x, y] * q[j, y]
                else:
                    j = tail[e]
                    for y in range(n_states):
                        for x in range(n_states):
                            field[x] += pairs[e, y, x] * q[j, y]
            constant = log_sum_exp(field)
            for x in range(n_states):
                if q[i, x] > 0.0:
                    gain += q[i, x] * (log(q[i, x]) - field[x] + constant)
                q[i, x] = exp(field[x] - constant)
        if gain <= tol:
            return sweep + 1
    return max_sweeps


@kernel
def softplus(x):
    """log (1 + exp(x))"""
    return max(x, 0.0) + log1p(exp(-abs(x)))


@kernel
def propagate(ptr, edge, tail, head, score, coupling, to_tail, to_head, logits, n_sweeps):
    """Belief propagation of a binary model, each sweep forwards and back; fills beliefs' logits.

    The message from j to i is log (1 + exp(cavity + coupling)) - log (1 + exp(cavity)), where the
    cavity is the logit of j without the message from i.
    """
    n = score.shape[0]
    for sweep in range(2 * n_sweeps):
        for step in range(n):
            i = step if sweep % 2 == 0 else n - 1 - step
            total = score[i]
            for k in range(ptr[i], ptr[i + 1]):
                e = edge[k]
                total += to_tail[e] if tail[e] == i else to_head[e]
            for k in range(ptr[i], ptr[i + 1]):
                e = edge[k]
                if tail[e] == i:
                    cavity = total - to_tail[e]
                    to_head[e] = softplus(cavity + coupling[e]) - softplus(cavity)
                else:
                    cavity = total - to_head[e]
                    to_tail[e] = softplus(cavity + coupling[e]) - softplus(cavity)
    for i in range(n):
        logits[i] = score[i]
    for e in range(tail.shape[0]):
        logits[tail[e]] += to_tail[e]
        logits[head[e]] += to_head[e]
