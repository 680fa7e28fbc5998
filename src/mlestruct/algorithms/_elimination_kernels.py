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


@kernel
def minimum_degree(ptr, clique, members, component, left, limit):
    """Eliminate nodes by approximate minimum degree while that costs no more than `limit`.

    clique[ptr[i]:ptr[i + 1]] are the edges at node i, edge e joins members[2 * e] and
    members[2 * e + 1], component[i] has left[component[i]] nodes. These arrays are changed. The
    first node of a component is its last one in the order.

    Returns (cost, order, start, members): the sum of squared column sizes, the nodes in order, and
    the later neighbours members[start[k]:start[k + 1]] of the k-th. If cost > limit the order is
    incomplete and cost what it would take at least.
    """
    n, n_edges = component.shape[0], members.shape[0] // 2
    begin, end = np.empty(n_edges + n, np.int64), np.empty(n_edges + n, np.int64)
    alive = np.empty(n_edges + n, np.int64)
    outside = np.empty(n_edges + n, np.int64)  # members that are not in the newest clique
    counted = np.empty(n_edges + n, np.int64)  # the step of that clique
    for c in range(n_edges + n):
        begin[c], end[c], alive[c], counted[c] = 2 * c, 2 * c + 2, 1, -1
    n_cliques, degree, reached = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    bucket, after, before = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    order, start, root = np.empty(n, np.int64), np.empty(n + 1, np.int64), np.empty(n, np.int64)
    for v in range(n):
        n_cliques[v] = degree[v] = ptr[v + 1] - ptr[v]
        reached[v] = bucket[v] = root[v] = -1
    step, filled, lowest = 0, 2 * n_edges, 0
    spent, cost = 0.0, 0.0
    for v in range(n):
        if root[component[v]] < 0:
            root[component[v]] = v
            degree[v] = -1
        else:
            enqueue(v, degree[v], bucket, after, before)
        if n_cliques[v] == 0:
            order[step], start[step] = v, filled
            step += 1
    while step < n and cost <= limit:
        while bucket[lowest] < 0:
            lowest += 1
        v = bucket[lowest]
        dequeue(v, lowest, bucket, after, before)
        if filled + n > members.shape[0]:
            larger = np.empty(2 * filled + n, np.int64)
            for a in range(filled):
                larger[a] = members[a]
            members = larger
        new, first, reached[v] = n_edges + step, filled, step
        for a in range(ptr[v], ptr[v] + n_cliques[v]):
            c = clique[a]
            alive[c] = 0
            for b in range(begin[c], end[c]):
                u = members[b]
                if reached[u] != step:
                    reached[u] = step
                    members[filled] = u
                    filled += 1
        begin[new], end[new] = first, filled
        size = filled - first
        spent += size * float(size)
        cost = spent + size * (size - 1.0) * (2.0 * size - 1.0) / 6.0  # of the clique just made
        for a in range(first, filled):
            u = members[a]
            for b in range(ptr[u], ptr[u] + n_cliques[u]):
                c = clique[b]
                if counted[c] != step:
                    counted[c], outside[c] = step, end[c] - begin[c]
                outside[c] -= 1
        for a in range(first, filled):
            u = members[a]
            bound, kept = size - 1, ptr[u]
            for b in range(ptr[u], ptr[u] + n_cliques[u]):
                c = clique[b]
                if alive[c] == 1 and outside[c] > 0:
                    bound += outside[c]
                    clique[kept] = c
                    kept += 1
            clique[kept] = new
            n_cliques[u] = kept + 1 - ptr[u]
            if degree[u] >= 0:
                dequeue(u, degree[u], bucket, after, before)
                degree[u] = min(bound, n - 1)
                lowest = min(lowest, degree[u])
                enqueue(u, degree[u], bucket, after, before)
        order[step], start[step] = v, first
        step += 1
        left[component[v]] -= 1
        if left[component[v]] == 1:
            order[step], start[step] = root[component[v]], filled
            step += 1
    start[step] = filled
    return cost, order, start, members


@kernel
def enqueue(v, degree, bucket, after, before):
    """Put a node at the front of the list of its degree."""
    after[v], before[v] = bucket[degree], -1
    if bucket[degree] >= 0:
        before[bucket[degree]] = v
    bucket[degree] = v


@kernel
def dequeue(v, degree, bucket, after, before):
    """Remove a node from the list of its degree."""
    if before[v] >= 0:
        after[before[v]] = after[v]
    else:
        bucket[degree] = after[v]
    if after[v] >= 0:
        before[after[v]] = before[v]
