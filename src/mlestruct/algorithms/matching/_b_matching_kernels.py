"""Kernels of b-matchings: candidate edges, first prices, maximum-score flows, rounding of halves.

An arc u -> v of score w has the reduced length price[u] - price[v] - w. Lengths of arcs with
capacity left (`residual`) are never negative, those of arcs that carry flow never positive: then
the flow is optimal among those with the same supplies. Residual arcs come in pairs, each the `twin`
of its reverse.
"""

from heapq import heappop, heappush
from math import inf

import numpy as np

from ..._compile import kernel
from ._fractional_kernels import keep_smallest


@kernel
def sides(ptr, col, side):
    """Colour the nodes 0 and 1 so that edges join different colours; False if that is impossible.

    Union-find in which each node stores whether its colour differs from its root's, so that a dense
    graph with odd cycles is rejected after a few edges.
    """
    n = ptr.shape[0] - 1
    root = np.arange(n)
    side[:] = 0
    for i in range(n):
        for e in range(ptr[i], ptr[i + 1]):
            a = _find(root, side, i)
            b = _find(root, side, col[e])
            alike = side[i] == side[col[e]]
            if a == b:
                if alike:
                    return False
            elif a < b:  # the smaller node stays the root: rows of a bipartite graph get colour 0
                root[b] = a
                side[b] = alike
            else:
                root[a] = b
                side[a] = alike
    for i in range(n):
        _find(root, side, i)
    return True


@kernel
def _find(root, side, i):
    """Root of i, with path compression; side[i] is then relative to the root."""
    top = i
    turned = np.int8(0)
    while root[top] != top:
        turned ^= side[top]
        top = root[top]
    while root[i] != top and i != top:
        above = root[i]
        following = turned ^ side[i]
        root[i] = top
        side[i] = turned
        turned = following
        i = above
    return top


@kernel
def count_edges(ptr, col, score, capacity, degree, total):
    """Number of edges between nodes of positive capacity at each node, and their total score."""
    degree[:] = 0
    total[:] = 0.0
    for i in range(ptr.shape[0] - 1):
        if capacity[i] == 0:
            continue
        for e in range(ptr[i], ptr[i + 1]):
            if capacity[col[e]] > 0:
                degree[i] += 1
                degree[col[e]] += 1
                total[i] += score[e]
                total[col[e]] += score[e]


@kernel
def best_edges(ptr, col, score, price, leaves, enters, taken, floor, jitter, first):
    """The edges of largest reduced score at each node i, at most first[i+1] - first[i] of them.

    Returns an array of shape (first[n],) with -1 in unused places. Edges are those not `taken` yet,
    with a reduced score above `floor`, from a node that `leaves` to one that `enters`. A number of
    at most `jitter` is added to each, so that ties are not broken in favour of the same few nodes.
    """
    keys = np.full(first[-1], inf)
    edge = np.full(first[-1], -1)
    for i in range(ptr.shape[0] - 1):
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            reduced = score[e] - price[i] - price[j]
            if reduced <= floor or taken[e]:
                continue
            if (leaves[i] and enters[j]) or (leaves[j] and enters[i]):
                # Multiples of the golden ratio are spread evenly modulo 1.
                key = -reduced - jitter * ((e * 0.6180339887498949) % 1.0)
                if key < keys[first[i]]:
                    keep_smallest(
                        keys[first[i] : first[i + 1]], edge[first[i] : first[i + 1]], key, e
                    )
                if key < keys[first[j]]:
                    keep_smallest(
                        keys[first[j] : first[j + 1]], edge[first[j] : first[j + 1]], key, e
                    )
    return edge


@kernel
def descend_prices(start, edge, end, score, need, exact, single, price, sweeps, precision):
    """Coordinate descent on the dual: each node in turn gets the price that just fills it.

    Where an interval of prices is optimal the node gets its midpoint.
    """
    n = price.shape[0]
    most = 0
    for v in range(n):
        most = max(most, start[v + 1] - start[v])
    gain = np.empty(most)
    for _ in range(sweeps):
        largest = 0.0
        for v in range(n):
            size = start[v + 1] - start[v]
            if need[v] == 0 or size == 0:
                continue
            for k in range(size):
                p = start[v] + k
                gain[k] = -(score[edge[p]] - price[end[p]])
            ranked = np.sort(gain[:size])
            last = -ranked[min(need[v], size) - 1]
            following = -ranked[min(need[v], size - 1)]
            if not exact[v]:
                last = max(last, single[v])
                following = max(following, single[v])
                if need[v] > size:
                    last = following = single[v]
            new = 0.5 * (last + following)
            largest = max(largest, abs(new - price[v]))
            price[v] = new
        if largest <= precision:
            break


@kernel
def fill(start, head, score, need, exact, single, price, load, flow, precision):
    """Every left node selects its best arcs at the right nodes' prices, as many as it needs.

    Ties prefer right nodes that are not full yet. Sets flow, the left prices, and the load of all
    nodes. Left nodes come first; `start` groups arcs by left node.
    """
    for i in range(start.shape[0] - 1):
        arcs = np.arange(start[i], start[i + 1])
        gain = np.empty(arcs.shape[0])
        for k in range(arcs.shape[0]):
            gain[k] = score[arcs[k]] + price[head[arcs[k]]]
        bar = np.sort(gain)[-need[i]] if need[i] <= gain.shape[0] else -inf
        if not exact[i]:
            bar = max(bar, single[i])
        price[i] = bar
        for choice in range(3):
            for k in range(arcs.shape[0]):
                a = arcs[k]
                j = head[a]
                if choice == 0:
                    wanted = gain[k] > bar + precision
                else:
                    wanted = load[i] < need[i] and flow[a] == 0 and gain[k] >= bar - precision
                    if choice == 1:
                        wanted = wanted and load[j] < need[j]
                    else:
                        wanted = wanted and (exact[i] or bar > single[i])
                if wanted:
                    flow[a] = 1
                    load[i] += 1
                    load[j] += 1


@kernel
def residual_arcs(n, tail, head, score, capacity, flow):
    """Both directions of every arc, grouped by the node they leave.

    Returns start (n + 1,), to, weight, twin, residual, and each arc's own place among them.
    """
    m = tail.shape[0]
    start = np.zeros(n + 1, np.int64)
    for a in range(m):
        start[tail[a] + 1] += 1
        start[head[a] + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    free = start[:-1].copy()
    to = np.empty(2 * m, np.int64)
    weight = np.empty(2 * m)
    twin = np.empty(2 * m, np.int64)
    residual = np.empty(2 * m, np.int64)
    place = np.empty(m, np.int64)
    for a in range(m):
        p = free[tail[a]]
        free[tail[a]] += 1
        q = free[head[a]]
        free[head[a]] += 1
        place[a] = p
        to[p], weight[p], twin[p], residual[p] = head[a], score[a], q, capacity[a] - flow[a]
        to[q], weight[q], twin[q], residual[q] = tail[a], -score[a], p, flow[a]
    return start, to, weight, twin, residual, place


@kernel
def send(start, to, weight, twin, residual, price, excess, reached):
    """Send all positive excess to negative excess at the smallest cost; changes residual and price.

    Each search stops at the nearest node of negative excess, and prices change only at the nodes it
    has passed. Returns False if some excess cannot reach such a node; `reached` marks the nodes
    that it reaches.
    """
    n = excess.shape[0]
    distance = np.full(n, inf)
    via = np.empty(n, np.int64)
    done = np.zeros(n, np.bool_)
    seen = np.empty(n, np.int64)
    for source in range(n):
        while excess[source] > 0:
            heap = [(0.0, np.int64(source))]
            distance[source] = 0.0
            seen[0] = source
            n_seen = 1
            target = -1
            reach = inf
            while len(heap) > 0:
                d, v = heappop(heap)
                if d >= reach:
                    break
                if done[v]:
                    continue
                done[v] = True
                for p in range(start[v], start[v + 1]):
                    if residual[p] == 0:
                        continue
                    w = to[p]
                    through = d + max(price[v] - price[w] - weight[p], 0.0)
                    if through < distance[w] and through < reach:
                        if distance[w] == inf:
                            seen[n_seen] = w
                            n_seen += 1
                        distance[w] = through
                        via[w] = p
                        if excess[w] < 0:
                            target = w
                            reach = through
                        else:
                            heappush(heap, (through, w))
            if target < 0:
                for q in range(n_seen):
                    reached[seen[q]] = True
                return False
            for q in range(n_seen):
                v = seen[q]
                if done[v]:
                    price[v] += min(distance[v] - reach, 0.0)
                distance[v] = inf
                done[v] = False
            amount = min(excess[source], -excess[target])
            v = target
            while v != source:
                amount = min(amount, residual[via[v]])
                v = to[twin[via[v]]]
            excess[source] -= amount
            excess[target] += amount
            v = target
            while v != source:
                residual[via[v]] -= amount
                residual[twin[via[v]]] += amount
                v = to[twin[via[v]]]
    return True


@kernel
def price_empty_nodes(ptr, col, score, capacity, price):
    """Raise the prices of nodes of capacity 0 until no edge has a positive reduced score."""
    for i in range(ptr.shape[0] - 1):
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            if capacity[j] == 0:
                price[j] = max(price[j], score[e] - price[i])
            elif capacity[i] == 0:
                price[i] = max(price[i], score[e] - price[j])


@kernel
def round_halves(start, edge, end, spare, sign):
    """Round edges of value 1/2 up (sign 1) or down (-1); only disjoint odd cycles keep sign 0.

    Edges in the incidence lists start, edge, end; all degrees are even except that of the last
    node, which stands for slack and need not be balanced. A closed walk of even length is rounded
    alternately. So is one of odd length if it passes a node with a whole unit of slack (`spare`) or
    meets another odd cycle.
    """
    n = start.shape[0] - 1
    free = start[:-1].copy()
    used = np.zeros(sign.shape[0], np.bool_)
    depth = np.full(n, -1)  # of nodes on the present walk
    walk = np.empty(n + 1, np.int64)
    step = np.empty(n + 1, np.int64)  # step[k]: edge from walk[k] to walk[k + 1]
    after = np.full(n, -1)  # on odd cycles found so far: the edge to the next node, and that node
    following = np.empty(n, np.int64)
    for origin in range(n):
        walk[0] = origin
        depth[origin] = 0
        top = 0
        while True:
            v = walk[top]
            while free[v] < start[v + 1] and used[edge[free[v]]]:
                free[v] += 1
            if free[v] == start[v + 1]:
                break  # only at the origin: elsewhere degrees are even
            used[edge[free[v]]] = True
            step[top] = edge[free[v]]
            w = end[free[v]]
            if depth[w] < 0:
                top += 1
                walk[top] = w
                depth[w] = top
                continue
            low = depth[w]
            size = top + 1 - low
            turn = low  # where the alternation starts
            if size % 2 == 1:
                turn = -1
                for k in range(low, top + 1):
                    u = walk[k]
                    if u == n - 1 or spare[u] > 0 or after[u] >= 0:
                        turn = k
                        break
            if turn < 0:
                for k in range(low, top + 1):
                    after[walk[k]] = step[k]
                    following[walk[k]] = walk[k + 1] if k < top else w
            else:
                for k in range(size):
                    sign[step[low + (turn - low + k) % size]] = 1 - 2 * (k % 2)
                u = walk[turn]
                if size % 2 == 1 and u < n - 1:
                    if after[u] >= 0:
                        down = -1
                        while after[u] >= 0:
                            sign[after[u]] = down
                            down = -down
                            after[u] = -1
                            u = following[u]
                    else:
                        spare[u] -= 1
            for k in range(low + 1, top + 1):
                depth[walk[k]] = -1
            top = low
        depth[origin] = -1
