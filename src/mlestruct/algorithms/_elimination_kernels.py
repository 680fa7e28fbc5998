"""Orders of elimination: connected components, frontier orders and minimum-degree orders.

Nodes node[ptr[i]:ptr[i + 1]] are the neighbours of node i. In an order, the *front* is the set of
nodes that are not eliminated yet but have an eliminated neighbour.

Minimum degree works on cliques, at first the edges: eliminating a node joins its cliques into one.
So the list of cliques of a node never grows. Degrees are bounds, as in Amestoy, Davis and Duff
(1996): the size of the newest clique plus what other cliques have outside it. Loops stand in for
operations on slices, which take 2 s more to compile.
"""

import numpy as np

from .._compile import kernel, shared

SIZE_SCALE = 64  # sizes are logarithms to base 2, as integers in units of 1/64


@shared
@kernel
def find_components(ptr, node, component, side, is_bipartite):
    """Number the connected components of nodes with edges (others: -1) and two-colour them."""
    n = component.shape[0]
    queue = np.empty(n, np.int64)
    component[:] = -1
    n_components = 0
    for root in range(n):
        if component[root] >= 0 or ptr[root] == ptr[root + 1]:
            continue
        is_bipartite[n_components] = True
        component[root], side[root] = n_components, 0
        queue[0], done, filled = root, 0, 1
        while done < filled:
            v = queue[done]
            done += 1
            for k in range(ptr[v], ptr[v + 1]):
                u = node[k]
                if component[u] < 0:
                    component[u], side[u] = n_components, 1 - side[v]
                    queue[filled] = u
                    filled += 1
                elif side[u] == side[v]:
                    is_bipartite[n_components] = False
        n_components += 1
    return n_components


@shared
@kernel
def members_of_components(component, n_components):
    """(members, first): component c has the nodes members[first[c]:first[c + 1]], rising."""
    members = np.empty(component.shape[0], np.int64)
    first = np.zeros(n_components + 2, np.int64)
    for c in component:
        if c >= 0:
            first[c + 2] += 1
    for c in range(n_components):
        first[c + 2] += first[c + 1]
    for v in range(component.shape[0]):
        if component[v] >= 0:
            members[first[component[v] + 1]] = v
            first[component[v] + 1] += 1
    return members, first


@kernel
def farthest(ptr, node, start, queue, seen, mark):
    """The node that a breadth-first search from `start` reaches last."""
    queue[0], done, filled = start, 0, 1
    seen[start] = mark
    while done < filled:
        v = queue[done]
        done += 1
        for k in range(ptr[v], ptr[v + 1]):
            if seen[node[k]] != mark:
                seen[node[k]] = mark
                queue[filled] = node[k]
                filled += 1
    return queue[filled - 1]


@shared
@kernel
def starting_nodes(ptr, node, members, max_starts, seen, mark):
    """Nodes of a component to start from: evenly spaced ones, and two ends of a long component.

    `seen` has an entry per node of the graph; none is equal to 2 * mark or 2 * mark + 1.
    """
    size = members.shape[0]
    starts = np.empty(min(size, max_starts), np.int64)
    for s in range(starts.shape[0]):
        starts[s] = members[s * size // starts.shape[0]]
    if size > max_starts:
        queue = np.empty(size, np.int64)
        starts[0] = farthest(ptr, node, members[0], queue, seen, 2 * mark)
        starts[1] = farthest(ptr, node, starts[0], queue, seen, 2 * mark + 1)
    return starts


@shared
@kernel
def frontier_order_from(start, ptr, node, members, bits, max_bits, size, place, growth, order):
    """Order of a component from `start`: next comes the node that makes the front grow least.

    bits and size of a node are what it takes in a code of the front, and the logarithm of its
    number of states. Work space, an entry per node of the graph: place is 0 before a node is
    touched, 1 in the front, 2 afterwards; growth is the size of a node's untouched neighbours.

    Returns (bits, entries): the bits of the first front that needs more than max_bits, else 0, and
    the sum over all steps of the number of states of the front with the node eliminated.
    """
    for v in members:
        place[v] = growth[v] = 0
        for k in range(ptr[v], ptr[v + 1]):
            growth[v] += size[node[k]]
    front = np.empty(min(max_bits, members.shape[0]) + 1, np.int64)  # oldest first
    n_front, n_done, v = 0, 0, start
    used, states, entries = 0, 0, 0.0
    while True:
        order[n_done] = v
        n_done += 1
        if place[v] == 0:
            used += bits[v]
            states += size[v]
            for k in range(ptr[v], ptr[v + 1]):
                growth[node[k]] -= size[v]
        place[v] = 2
        for k in range(ptr[v], ptr[v + 1]):
            u = node[k]
            if place[u] != 0:
                continue
            place[u] = 1
            used += bits[u]
            states += size[u]
            if used > max_bits:
                return used, np.inf
            front[n_front] = u
            n_front += 1
            for i in range(ptr[u], ptr[u + 1]):
                growth[node[i]] -= size[u]
        if used > max_bits:
            return used, np.inf
        entries += 2.0 ** (states / SIZE_SCALE)
        used -= bits[v]
        states -= size[v]
        v, least = -1, np.int64(0)
        for f in range(n_front):
            u = front[f]
            if v < 0 or growth[u] - size[u] < least:
                v, least = u, growth[u] - size[u]
        for f in range(n_front):
            for k in range(ptr[front[f]], ptr[front[f] + 1]):
                u = node[k]
                if place[u] == 0 and growth[u] < least:
                    v, least = u, growth[u]
        if v < 0:
            return 0, entries
        if place[v] == 1:
            f = 0
            while front[f] != v:
                f += 1
            n_front -= 1
            for i in range(f, n_front):
                front[i] = front[i + 1]


@kernel
def frontier_order(ptr, node, bits, max_bits, size, max_starts, order):
    """Nodes without edges, then every component in its best order; whether all fit in max_bits."""
    n = order.shape[0]
    component, side = np.empty(n, np.int64), np.zeros(n, np.int64)
    n_components = find_components(ptr, node, component, side, np.empty(n, np.bool_))
    members, first = members_of_components(component, n_components)
    place, growth, seen = np.empty(n, np.int64), np.empty(n, np.int64), np.full(n, -1, np.int64)
    trial = np.empty(n, np.int64)
    filled = 0
    for v in range(n):
        if component[v] < 0:
            order[filled] = v
            filled += 1
    for c in range(n_components):
        inside = members[first[c] : first[c + 1]]
        least = np.inf
        for start in starting_nodes(ptr, node, inside, max_starts, seen, c):
            _, entries = frontier_order_from(
                start, ptr, node, inside, bits, max_bits, size, place, growth, trial
            )
            if entries < least:
                least = entries
                order[filled : filled + inside.shape[0]] = trial[: inside.shape[0]]
        if least == np.inf:
            return False
        filled += inside.shape[0]
    return True


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
