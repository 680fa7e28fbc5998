"""Fractional matchings of a general graph: the assignment problem on its double cover, folded.

Node prices y (dual variables) give every edge a slack y_i + y_j - score >= 0; matched edges are
tight. An alternating tree grows from an exposed node (prices of outer nodes decrease, those of the
inner nodes between them increase) until it reaches another exposed node, a half cycle, a node that
may stay single, or itself: an odd cycle, whose edges then get one half each. In the double cover
this is the shortest augmenting path, for a node and its mirror image at once, and even cycles never
arise.

States of `mate[i]`: a partner, i itself (single), EXPOSED, or HALF (then cycle[i] follows i).
"""

from math import exp, inf

import numpy as np

from ..._compile import kernel, shared, summing_kernel

EXPOSED = -1  # in place of a partner: none yet
HALF = -2  # in place of a partner: on a cycle of halves


@summing_kernel
def node_sums(ptr, col, scores, sums):
    """Sums of the scores at every node, for the initial prices."""
    sums[:] = 0.0
    for i in range(sums.shape[0]):
        total = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            total += scores[e]
            sums[col[e]] += scores[e]
        sums[i] += total


@kernel
def least_slacks(ptr, col, scores, y, least):
    """The smallest slack at every node (inf without edges)."""
    least[:] = inf
    for i in range(y.shape[0]):
        lowest = least[i]
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            slack = y[i] + y[j] - scores[e]
            if slack < least[j]:
                least[j] = slack
            if slack < lowest:
                lowest = slack
        least[i] = lowest


@kernel
def soft_degrees(ptr, col, scores, y, width, degree):
    """degree[i]: the sum of exp(-slack / width) over the edges at node i."""
    degree[:] = 0.0
    reach = 30.0 * width
    for i in range(y.shape[0]):
        total = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            slack = y[i] + y[j] - scores[e]
            if slack < reach:
                weight = exp(min(-slack / width, 30.0))
                degree[j] += weight
                total += weight
        degree[i] += total


@kernel
def keep_smallest(keys, items, key, item):
    """Replace the largest of `keys`, a max-heap, by `key`; returns the new largest."""
    k = keys.shape[0]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= k:
            break
        if child + 1 < k and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= key:
            break
        keys[at] = keys[child]
        items[at] = items[child]
        at = child
    keys[at] = key
    items[at] = item
    return keys[0]


@kernel
def closest(ptr, col, scores, y, limit, jitter, items):
    """items[i]: the edges of smallest slack below `limit` at node i, -1 where there are fewer.

    `jitter` spreads ties over different edges: with equal scores all nodes would choose the same.
    """
    n, k = items.shape
    keys = np.full((n, k), limit)
    items[:] = -1
    ceiling = np.full(n, limit)
    for i in range(n):
        at_i = ceiling[i]
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            key = y[i] + y[j] - scores[e] + jitter * ((e * 2654435761) & 0xFFFFFFFF)
            if key < at_i:
                at_i = keep_smallest(keys[i], items[i], key, e)
            if key < ceiling[j]:
                ceiling[j] = keep_smallest(keys[j], items[j], key, e)
        ceiling[i] = at_i


@kernel
def escapes(ptr, col, scores, y, outer, inner, group, items):
    """items[i]: edges of small slack from outer node i of a stuck tree to nodes outside of it.

    These are its edges to nodes that are not `inner`, nor in the same shrunken `group`.
    """
    n, k = items.shape
    keys = np.full((n, k), inf)
    items[:] = -1
    for i in range(n):
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            if group[i] == group[j]:
                continue
            key = y[i] + y[j] - scores[e]
            if outer[i] and not inner[j] and key < keys[i, 0]:
                keep_smallest(keys[i], items[i], key, e)
            if outer[j] and not inner[i] and key < keys[j, 0]:
                keep_smallest(keys[j], items[j], key, e)


@kernel
def neighbours(n, ptr, col, scores, chosen):
    """The graph of the `chosen` edges (increasing), seen from both ends: start, node, weight."""
    tail = np.empty(chosen.shape[0], np.int64)
    start = np.zeros(n + 1, np.int64)
    i = 0
    for q in range(chosen.shape[0]):
        while ptr[i + 1] <= chosen[q]:
            i += 1
        tail[q] = i
        start[i + 1] += 1
        start[col[chosen[q]] + 1] += 1
    for i in range(n):
        start[i + 1] += start[i]
    fill = np.empty(n, np.int64)
    for i in range(n):
        fill[i] = start[i]
    node = np.empty(start[n], np.int64)
    weight = np.empty(start[n])
    for q in range(chosen.shape[0]):
        i = tail[q]
        j = col[chosen[q]]
        node[fill[i]] = j
        weight[fill[i]] = scores[chosen[q]]
        fill[i] += 1
        node[fill[j]] = i
        weight[fill[j]] = scores[chosen[q]]
        fill[j] += 1
    return start, node, weight


@shared
@kernel
def break_cycle(j, mate, cycle):
    """Match the nodes of j's half cycle along it, all but j."""
    a = cycle[j]
    while a != j:
        b = cycle[a]
        following = cycle[b]
        mate[a] = b
        mate[b] = a
        a = following
    mate[j] = EXPOSED


@kernel
def expose(i, mate, cycle):
    """Take node i out of the matching."""
    if mate[i] == HALF:
        break_cycle(i, mate, cycle)
    elif mate[i] >= 0:
        mate[mate[i]] = EXPOSED
        mate[i] = EXPOSED


@kernel
def repair(start, node, weight, may_skip, single, y, mate, cycle):
    """Raise prices until no slack is negative, exposing the nodes whose edges stop being tight."""
    for i in range(y.shape[0]):
        if may_skip and y[i] < single[i]:
            expose(i, mate, cycle)
            y[i] = single[i]
        for q in range(start[i], start[i + 1]):
            j = node[q]
            slack = y[i] + y[j] - weight[q]
            if slack < 0.0:
                raised = j if mate[j] == EXPOSED and mate[i] != EXPOSED else i
                expose(raised, mate, cycle)
                y[raised] -= slack


@kernel
def reduce_prices(start, node, weight, may_skip, single, y, mate, budget):
    """Match exposed nodes by local moves that keep the prices feasible.

    The price of an exposed node decreases until an edge is tight. If the other end is matched, the
    exposed node replaces its partner, its price decreases to the second best edge, and the price of
    the end increases as much; the former partner is next (augmenting row reduction, folded).
    """
    n = y.shape[0]
    queue = np.empty(n, np.int64)
    waiting = 0
    for i in range(n):
        if mate[i] == EXPOSED:
            queue[waiting] = i
            waiting += 1
    for _ in range(2):
        at = 0
        left = 0
        moves = budget
        while at < waiting:
            i = queue[at]
            at += 1
            if mate[i] != EXPOSED:
                continue
            first = inf
            second = inf
            j = -1
            other = -1
            if may_skip:
                first = y[i] - single[i]
                j = i
            for q in range(start[i], start[i + 1]):
                slack = y[i] + y[node[q]] - weight[q]
                if slack < second:
                    if slack < first:
                        second = first
                        other = j
                        first = slack
                        j = node[q]
                    else:
                        second = slack
                        other = node[q]
            if j < 0:
                continue
            if first == second and mate[j] != EXPOSED and mate[other] == EXPOSED:
                j = other
            if j == i:
                y[i] = single[i]
                mate[i] = i
                continue
            if mate[j] == EXPOSED:
                y[i] -= first
                mate[i] = j
                mate[j] = i
                continue
            if mate[j] == HALF:
                continue
            if second == inf:
                second = first
            y[i] -= second
            y[j] += second - first
            partner = mate[j]
            mate[i] = j
            mate[j] = i
            if partner != j:
                mate[partner] = EXPOSED
                moves -= 1
                if second > first and moves > 0:
                    at -= 1
                    queue[at] = partner
                else:
                    queue[left] = partner
                    left += 1
        waiting = left


@kernel
def rematch(i, root, mate, parent):
    """Shift the matching on the tree path from outer node i to the root; i becomes exposed."""
    inner = mate[i]
    while i != root:
        i = parent[inner]
        following = mate[i]
        mate[inner] = i
        mate[i] = inner
        inner = following


@kernel
def mark_path(i, root, mate, parent, on_path, mark):
    """Set on_path = mark at the outer nodes from i to the root."""
    on_path[i] = mark
    while i != root:
        i = parent[mate[i]]
        on_path[i] = mark


@kernel
def close_cycle(a, b, root, mate, cycle, parent, on_path):
    """Outer nodes a and b of the same tree meet: put one half on every edge of their cycle."""
    mark_path(a, root, mate, parent, on_path, True)
    top = b
    while not on_path[top]:
        top = parent[mate[top]]
    mark_path(a, root, mate, parent, on_path, False)
    cycle[b] = a
    i = a
    while i != top:
        inner = mate[i]
        cycle[i] = inner
        mate[i] = HALF
        i = parent[inner]
        cycle[inner] = i
        mate[inner] = HALF
    i = b
    while i != top:
        inner = mate[i]
        mate[i] = HALF
        cycle[inner] = i
        i = parent[inner]
        cycle[i] = inner
        mate[inner] = HALF
    rematch(top, root, mate, parent)
    mate[top] = HALF


@kernel
def push(keys, items, size, key, item):
    """Add to a binary heap held in two arrays."""
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if keys[up] <= key:
            break
        keys[at] = keys[up]
        items[at] = items[up]
        at = up
    keys[at] = key
    items[at] = item
    return size + 1


@kernel
def pop(keys, items, size):
    """Remove the smallest (read it first at index 0)."""
    size -= 1
    key = keys[size]
    item = items[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[at] = keys[child]
        items[at] = items[child]
        at = child
    keys[at] = key
    items[at] = item
    return size


@kernel
def augment(start, node, weight, may_skip, single, y, mate, cycle, outer, inner):
    """Cover every exposed node, one tree each.

    Returns the number of stuck trees; `outer` and `inner` mark their nodes with the number of the
    tree (from 1). Outer nodes of stuck trees have only inner ones as neighbours, so later trees
    leave them out.
    """
    n = y.shape[0]
    label = np.zeros(n, np.int8)  # 1 outer, 2 inner
    time = np.empty(n)  # when the node joined the tree
    parent = np.empty(n, np.int64)  # of an inner node: the outer node that reached it
    distance = np.empty(n)
    reached = np.empty(n, np.int64)
    members = np.empty(n + 1, np.int64)
    on_path = np.zeros(n, np.bool_)
    keys = np.empty(start[n] + 1)
    items = np.empty(start[n] + 1, np.int64)
    failed = 0
    for i in range(n):
        distance[i] = inf
        outer[i] = 0
        inner[i] = 0
    for root in range(n):
        if mate[root] != EXPOSED:
            continue
        size = 0
        n_reached = 0
        n_members = 0
        best = inf
        end_a = -1
        end_b = -1
        i = root
        now = 0.0
        while True:
            label[i] = 1
            time[i] = now
            members[n_members] = i
            n_members += 1
            base = now + y[i]
            if may_skip and base - single[i] < best:
                best = max(base - single[i], now)
                end_a = i
                end_b = i
            for q in range(start[i], start[i + 1]):
                j = node[q]
                if label[j] == 2 or inner[j] > 0:
                    continue
                reach = max(base + y[j] - weight[q], now)
                if label[j] == 1:
                    reach = max(0.5 * (reach + time[j]), now)
                    if reach < best:
                        best = reach
                        end_a = i
                        end_b = j
                elif reach < best:
                    if mate[j] < 0 or mate[j] == j:
                        best = reach
                        end_a = i
                        end_b = j
                    elif reach < distance[j]:
                        if distance[j] == inf:
                            reached[n_reached] = j
                            n_reached += 1
                        distance[j] = reach
                        parent[j] = i
                        size = push(keys, items, size, reach, j)
            j = -1
            while size > 0 and keys[0] < best:
                now = keys[0]
                j = items[0]
                size = pop(keys, items, size)
                if label[j] == 0 and now <= distance[j]:
                    break
                j = -1
            if j < 0:
                break
            label[j] = 2
            members[n_members] = j
            n_members += 1
            i = mate[j]
        if best == inf:
            failed += 1
        for q in range(n_members):
            i = members[q]
            if best == inf:
                if label[i] == 1:
                    outer[i] = failed
                else:
                    inner[i] = failed
            elif label[i] == 1:
                y[i] -= best - time[i]
            else:
                y[i] += best - distance[i]
        if best < inf:
            if end_a == end_b:
                rematch(end_a, root, mate, parent)
                mate[end_a] = end_a
                y[end_a] = single[end_a]
            elif label[end_b] == 1:
                close_cycle(end_a, end_b, root, mate, cycle, parent, on_path)
            else:
                if mate[end_b] == HALF:
                    break_cycle(end_b, mate, cycle)
                rematch(end_a, root, mate, parent)
                mate[end_a] = end_b
                mate[end_b] = end_a
        for q in range(n_members):
            label[members[q]] = 0
        for q in range(n_reached):
            distance[reached[q]] = inf
    return failed


@kernel
def find_edges(ptr, col, low, high, out):
    """Where the edges low-high are stored, by bisection in the row of the smaller end."""
    for k in range(low.shape[0]):
        first, last = ptr[low[k]], ptr[low[k] + 1]
        while first < last:
            middle = (first + last) // 2
            if col[middle] < high[k]:
                first = middle + 1
            else:
                last = middle
        out[k] = first
