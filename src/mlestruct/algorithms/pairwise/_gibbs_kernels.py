"""Heat-bath moves between labellings of a graph.

A move draws a new state of one node given those of its neighbours. half[ptr[i]:ptr[i + 1]] are
the edges at node i, plus n_edges where i is the head; edges[e] has the state of the tail first.
"""

import numpy as np

from ..._compile import kernel
from ._conditional_modes_kernels import own_scores
from ._log_domain_kernels import accumulate, draw_state


@kernel
def sweep_nodes(ptr, half, tail, head, nodes, edges, weights, states, rng, trace):
    """One sweep for each row of `trace`: a draw of every node in turn, then the statistics.

    These are the total score, then sums of weights[i, state of i].
    """
    n_nodes, n_states = nodes.shape
    n_functions = weights.shape[2]
    scores = np.empty(n_states)
    for t in range(trace.shape[0]):
        for i in range(n_nodes):
            own_scores(ptr, half, tail, head, nodes, edges, states, i, scores)
            accumulate(scores, scores)
            states[i] = draw_state(scores, rng)
        trace[t] = 0.0
        for i in range(n_nodes):
            trace[t, 0] += nodes[i, states[i]]
            for f in range(n_functions):
                trace[t, f + 1] += weights[i, states[i], f]
        for e in range(tail.shape[0]):
            trace[t, 0] += edges[e, states[tail[e]], states[head[e]]]
