"""Moves of one node of a labelling, given its neighbours: to a drawn state (heat bath), or to the
best one (iterated conditional modes).

half[ptr[i]:ptr[i + 1]] are the edges at node i, plus n_edges where i is the head; nodes has the
shape (n_nodes, L) and edges (n_edges, L, L), the state of the tail first.
"""

import numpy as np

from ..._compile import kernel
from ._log_domain_kernels import accumulate, draw_state


@kernel
def own_scores(ptr, half, tail, head, nodes, edges, states, i, out):
    """The score of every state of node i, given its neighbours."""
    n_edges, n_states = tail.shape[0], nodes.shape[1]
    for k in range(n_states):
        out[k] = nodes[i, k]
    for h in range(ptr[i], ptr[i + 1]):
        e = half[h]
        if e < n_edges:
            other = states[head[e]]
            for k in range(n_states):
                out[k] += edges[e, k, other]
        else:
            e -= n_edges
            other = states[tail[e]]
            for k in range(n_states):
                out[k] += edges[e, other, k]


@kernel
def conditional_modes(ptr, half, tail, head, nodes, edges, order, states):
    """Every node in turn takes its best state given its neighbours, until none changes.

    The number of rounds is bounded: rounding errors could make two labellings alternate.
    """
    scores = np.empty(nodes.shape[1])
    for _ in range(100):
        changed = False
        for i in order:
            own_scores(ptr, half, tail, head, nodes, edges, states, i, scores)
            best = 0
            for k in range(1, scores.shape[0]):
                best = k if scores[k] > scores[best] else best
            if scores[best] > scores[states[i]]:
                states[i] = best
                changed = True
        if not changed:
            break


@kernel
def sweep_nodes(ptr, half, tail, head, nodes, edges, weights, states, rng, trace):
    """One sweep for each row of `trace`: a draw of every node in turn, then the statistics.

    These are the total score, then sums of weights[i, state of i].
    """
    n_nodes, n_states = nodes.shape
    scores = np.empty(n_states)
    for t in range(trace.shape[0]):
        for i in range(n_nodes):
            own_scores(ptr, half, tail, head, nodes, edges, states, i, scores)
            accumulate(scores, scores)
            states[i] = draw_state(scores, rng)
        trace[t] = 0.0
        for i in range(n_nodes):
            trace[t, 0] += nodes[i, states[i]]
            for f in range(weights.shape[2]):
                trace[t, f + 1] += weights[i, states[i], f]
        for e in range(tail.shape[0]):
            trace[t, 0] += edges[e, states[tail[e]], states[head[e]]]
