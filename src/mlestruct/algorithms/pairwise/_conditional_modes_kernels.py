"""Iterated conditional modes: local search over labellings, one node at a time.

half[ptr[i]:ptr[i + 1]] are the edges at node i, plus n_edges where i is the head; nodes has the
shape (n_nodes, L) and edges (n_edges, L, L), the state of the tail first.
"""

import numpy as np

from ..._compile import kernel


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
            best = np.argmax(scores)
            if scores[best] > scores[states[i]]:
                states[i] = best
                changed = True
        if not changed:
            break
