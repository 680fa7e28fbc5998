"""Sweeps over the independent nodes of a pairwise model, for a lower bound of log Z.

half[ptr[i]:ptr[i + 1]] are the edges at node i, plus n_edges where i is the head.
"""

from math import exp, log

import numpy as np

from ..._compile import kernel
from ._log_domain_kernels import log_sum_exp


@kernel
def ascend_independent(ptr, half, tail, head, nodes, pairs, q, tol, max_sweeps):
    """Set each node in turn to its best distribution given the others, until a sweep gains `tol`.

    With the others fixed the objective is constant - KL(q_i || best), so a step gains the KL.
    """
    (n, n_states), n_edges = nodes.shape, tail.shape[0]
    field = np.empty(n_states)
    for _ in range(max_sweeps):
        gain = 0.0
        for i in range(n):
            for x in range(n_states):
                field[x] = nodes[i, x]
            for h in half[ptr[i] : ptr[i + 1]]:
                for x in range(n_states):
                    for y in range(n_states):
                        if h < n_edges:
                            field[x] += pairs[h, x, y] * q[head[h], y]
                        else:
                            field[x] += pairs[h - n_edges, y, x] * q[tail[h - n_edges], y]
            constant = log_sum_exp(field)
            for x in range(n_states):
                if q[i, x] > 0.0:
                    gain += q[i, x] * (log(q[i, x]) - field[x] + constant)
                q[i, x] = exp(field[x] - constant)
        if gain <= tol:
            break
