"""Orders of elimination: frontier orders and minimum-degree orders.

Nodes node[ptr[i]:ptr[i + 1]] are the neighbours of node i. In an order, the *front* is the set of
nodes that are not eliminated yet but have an eliminated neighbour.

Minimum degree works on cliques, at first the edges: eliminating a node joins its cliques into one.
So the list of cliques of a node never grows. Degrees are bounds, as in Amestoy, Davis and Duff
(1996): the size of the newest clique plus what other cliques have outside it. Loops stand in for
operations on slices, which take 2 s more to compile.
"""

import numpy as np

from .._compile import kernel


@kernel
def frontier_order(ptr, node, starts, size, limit, unit, order):
    """Write an order in which next comes the node that makes the front grow least.

    starts : all nodes; the first untouched one comes next if the front is empty
    size : logarithms (base 2, times `unit`) of the number of states of nodes

    Returns the sum over all steps of the number of states of the front with the node eliminated,
    or infinity once the logarithm of that number exceeds `limit`.
    """
    n = order.shape[0]
    touched = np.zeros(n, np.bool_)
    growth = np.zeros(n, np.int64)  # sizes of untouched neighbours
    for v in range(n):
        for k in range(ptr[v], ptr[v + 1]):
            growth[v] += size[node[k]]
    front = np.empty(n, np.int64)  # oldest first
    n_front, n_started, used, entries = 0, 0, 0, 0.0
    for step in range(n):
        v, least = -1, np.int64(0)
        for f in range(n_front):
            u = front[f]
            if v < 0 or growth[u] - size[u] < least:
                v, least = u, growth[u] - size[u]
        for f in range(n_front):
            for k in range(ptr[front[f]], ptr[front[f] + 1]):
                u = node[k]
                if not touched[u] and growth[u] < least:
                    v, least = u, growth[u]
        if v < 0:
            while touched[starts[n_started]]:
                n_started += 1
            v = starts[n_started]
        order[step] = v
        if touched[v]:
            kept = 0
            for f in range(n_front):
                if front[f] != v:
                    front[kept] = front[f]
                    kept += 1
            n_front = kept
        for k in range(ptr[v] - 1, ptr[v + 1]):  # the node itself, then its neighbours
            u = v if k < ptr[v] else node[k]
            if touched[u]:
                continue
            touched[u] = True
            used += size[u]
            if used > limit:
                return np.inf
            if u != v:
                front[n_front] = u
                n_front += 1
            for i in range(ptr[u], ptr[u + 1]):
                growth[node[i]] -= size[u]
        entries += 2.0 ** (used / unit)
        used -= size[v]
    return entries
