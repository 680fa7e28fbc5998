"""Edmonds' blossom algorithm, primal-dual, one alternating tree at a time.

Vertices are 0..n-1 with dual variables y (prices), blossoms (odd sets shrunk to one node) n..2n-1
with dual variables z >= 0. Edges have the slack y_i + y_j + (z of the blossoms around both) - score
>= 0. As the tree grows, at rate 1 in a `time`, y of outer nodes decreases and that of inner nodes
increases, z of outer blossoms increases and that of inner ones decreases. The next events (an edge
becomes tight, z of an inner blossom reaches 0) are kept in a heap by their time. Prices are updated
only when a node changes its label.

Matched edges are stored at nodes that are not inside a blossom: the pairs inside follow from the
vertex at which the blossom is matched, and are stored when it is opened.
"""

from heapq import heappop, heappush
from math import inf

import numpy as np

from ..._compile import kernel

FREE, OUTER, INNER = 0, 1, 2  # labels of nodes


# State of every node, vertices first, then blossoms: rows of s (whole numbers) and d (others).
(
    TOP,  # vertices: the outermost blossom around, or itself
    LABEL,
    MATE_IN,  # matched edge: the vertex in this node
    MATE_OUT,  # and the one outside, -1: exposed, equal to MATE_IN: single
    NEXT_LEAF,  # vertices
    FIRST_LEAF,  # the vertices inside a node, as a linked list
    LAST_LEAF,
    PARENT,  # the blossom just around, -1: none
    FIRST,  # blossoms: one of the children, -1: not in use
    FOLLOWING,  # the next child on the parent's cycle
    HERE,  # the edge to the next child: its vertex in this one
    THERE,  # and its vertex in the next
    LINK_OUT,  # tree edge of an inner node: the outer vertex
    LINK_IN,  # and the vertex in the inner node
    UNUSED,  # in entry 0: a blossom not in use; the others follow it
) = range(15)
(
    Y,  # vertices: the price as of SINCE
    SINCE,  # vertices
    BEST,  # when a free top node is reached
    Z,  # blossoms: the price as of Z_SINCE
    Z_SINCE,
) = range(5)


@kernel
def price(s, d, v, now):
    """The price of vertex v at time `now`."""
    role = s[s[v, TOP], LABEL]
    if role == OUTER:
        return d[v, Y] - (now - d[v, SINCE])
    if role == INNER:
        return d[v, Y] + (now - d[v, SINCE])
    return d[v, Y]


@kernel
def update_prices(s, d, b, now):
    """Set the prices in top node b to those at time `now`."""
    v = s[b, FIRST_LEAF]
    while True:
        d[v, Y] = price(s, d, v, now)
        d[v, SINCE] = now
        if v == s[b, LAST_LEAF]:
            break
        v = s[v, NEXT_LEAF]
    update_blossom_price(s, d, b, now)


@kernel
def update_blossom_price(s, d, b, now):
    """Set z of top node b to that at time `now`."""
    if b >= s.shape[0] // 2:
        if s[b, LABEL] == OUTER:
            d[b, Z] += 2.0 * (now - d[b, Z_SINCE])
        elif s[b, LABEL] == INNER:
            d[b, Z] -= 2.0 * (now - d[b, Z_SINCE])
    d[b, Z_SINCE] = now


@kernel
def list_leaves(s, d, b, now, out, count):
    """Append the vertices in node b, whose label is new, to `out`; returns the new count."""
    v = s[b, FIRST_LEAF]
    while True:
        d[v, SINCE] = now
        out[count] = v
        count += 1
        if v == s[b, LAST_LEAF]:
            return count
        v = s[v, NEXT_LEAF]


@kernel
def set_top(s, b, top):
    v = s[b, FIRST_LEAF]
    while True:
        s[v, TOP] = top
        if v == s[b, LAST_LEAF]:
            break
        v = s[v, NEXT_LEAF]


@kernel
def child_around(s, v, b):
    """The child of blossom b that contains vertex v."""
    while s[v, PARENT] != b:
        v = s[v, PARENT]
    return v


@kernel
def pair_children(s, b):
    """Store the matched edges of b's children, b being matched at vertex mate_in[b]."""
    entry = child_around(s, s[b, MATE_IN], b)
    s[entry, MATE_IN] = s[b, MATE_IN]
    s[entry, MATE_OUT] = s[b, MATE_OUT]
    one = s[entry, FOLLOWING]
    while one != entry:
        two = s[one, FOLLOWING]
        s[one, MATE_IN] = s[one, HERE]
        s[one, MATE_OUT] = s[one, THERE]
        s[two, MATE_IN] = s[one, THERE]
        s[two, MATE_OUT] = s[one, HERE]
        one = s[two, FOLLOWING]
    return entry


@kernel
def dissolve(s, b):
    """Open a top blossom outside of the tree: its children become free top nodes."""
    pair_children(s, b)
    child = s[b, FIRST]
    while True:
        s[child, PARENT] = -1
        s[child, LABEL] = FREE
        set_top(s, child, child)
        child = s[child, FOLLOWING]
        if child == s[b, FIRST]:
            break
    release(s, b)


@kernel
def release(s, b):
    s[b, FIRST] = -1
    s[b, FIRST_LEAF] = -1
    s[b, LABEL] = FREE
    s[b, FOLLOWING] = s[0, UNUSED]
    s[0, UNUSED] = b


@kernel
def above(s, a):
    """The outer node two steps up the tree from outer node a, -1 at the root."""
    if s[a, MATE_OUT] < 0:
        return -1
    return s[s[s[s[a, MATE_OUT], TOP], LINK_OUT], TOP]


@kernel
def attach(s, d, child, b, following, here, there, now, fresh, n_fresh):
    """Make top node `child` part of the new blossom b; inner vertices become (fresh) outer ones."""
    if s[child, LABEL] == INNER:
        update_prices(s, d, child, now)
        n_fresh = list_leaves(s, d, child, now, fresh, n_fresh)
    else:
        update_blossom_price(s, d, child, now)
    set_top(s, child, b)
    if s[b, FIRST_LEAF] < 0:
        s[b, FIRST_LEAF] = s[child, FIRST_LEAF]
    else:
        s[s[b, LAST_LEAF], NEXT_LEAF] = s[child, FIRST_LEAF]
    s[b, LAST_LEAF] = s[child, LAST_LEAF]
    s[child, PARENT] = b
    s[child, FOLLOWING] = following
    s[child, HERE] = here
    s[child, THERE] = there
    return n_fresh


@kernel
def shrink(s, d, u, v, now, seen, fresh):
    """Make a blossom of the cycle closed by the tight edge between outer vertices u and v.

    Returns how many vertices became outer; they are in `fresh`.
    """
    a = s[u, TOP]
    while a >= 0:
        seen[a] = True
        a = above(s, a)
    base = s[v, TOP]
    while not seen[base]:
        base = above(s, base)
    a = s[u, TOP]
    while a >= 0:
        seen[a] = False
        a = above(s, a)
    b = s[0, UNUSED]
    s[0, UNUSED] = s[b, FOLLOWING]
    n_fresh = 0
    # The cycle runs base -> ... -> top[u] -> top[v] -> ... -> base. Tops change as we go, so the
    # next node is always found before the present one is attached.
    a = s[v, TOP]
    in_u = s[u, TOP]
    after_u = a
    while a != base:  # from top[v] up
        inner = s[s[a, MATE_OUT], TOP]
        outer = s[s[inner, LINK_OUT], TOP]
        n_fresh = attach(s, d, a, b, inner, s[a, MATE_IN], s[a, MATE_OUT], now, fresh, n_fresh)
        n_fresh = attach(
            s, d, inner, b, outer, s[inner, LINK_IN], s[inner, LINK_OUT], now, fresh, n_fresh
        )
        a = outer
    following = after_u
    here = u
    there = v
    a = in_u
    while a != base:  # from top[u] up, the edges reversed
        inner = s[s[a, MATE_OUT], TOP]
        outer = s[s[inner, LINK_OUT], TOP]
        mate_in = s[a, MATE_IN]
        mate_out = s[a, MATE_OUT]
        n_fresh = attach(s, d, a, b, following, here, there, now, fresh, n_fresh)
        n_fresh = attach(s, d, inner, b, a, mate_out, mate_in, now, fresh, n_fresh)
        following = inner
        here = s[inner, LINK_OUT]
        there = s[inner, LINK_IN]
        a = outer
    n_fresh = attach(s, d, base, b, following, here, there, now, fresh, n_fresh)
    s[b, FIRST] = base
    s[b, PARENT] = -1
    s[b, MATE_IN] = s[base, MATE_IN]
    s[b, MATE_OUT] = s[base, MATE_OUT]
    s[b, LABEL] = OUTER
    d[b, Z] = 0.0
    d[b, Z_SINCE] = now
    return n_fresh


@kernel
def open_inner(s, d, b, now, fresh, freed):
    """Open an inner blossom of z = 0: part of its cycle stays in the tree, the others are free.

    Returns the numbers of vertices that became outer (in `fresh`) and free (in `freed`).
    """
    update_prices(s, d, b, now)
    link_out = s[b, LINK_OUT]
    link_in = s[b, LINK_IN]
    exit_ = pair_children(s, b)
    child = s[b, FIRST]
    while True:
        s[child, LABEL] = FREE
        d[child, Z_SINCE] = now
        child = s[child, FOLLOWING]
        if child == s[b, FIRST]:
            break
    # From the child the tree enters to the child that is matched outside, the way on which
    # matched edges come first. The child after an unpaired stretch is paired with its follower.
    enter = child_around(s, link_in, b)
    a = enter
    while True:
        s[a, LABEL] = INNER
        s[a, LINK_OUT] = link_out
        s[a, LINK_IN] = link_in
        if a == exit_:
            break
        forward = child_around(s, s[a, MATE_OUT], b) == s[a, FOLLOWING]
        if forward:
            a = s[a, FOLLOWING]
            s[a, LABEL] = OUTER
            link_out = s[a, HERE]
            link_in = s[a, THERE]
            a = s[a, FOLLOWING]
        else:
            partner = child_around(s, s[a, MATE_OUT], b)
            s[partner, LABEL] = OUTER
            a = partner
            before = s[a, FOLLOWING]
            while s[before, FOLLOWING] != a:
                before = s[before, FOLLOWING]
            link_out = s[before, THERE]
            link_in = s[before, HERE]
            a = before
    n_fresh = 0
    n_freed = 0
    child = s[b, FIRST]
    while True:
        s[child, PARENT] = -1
        set_top(s, child, child)
        if s[child, LABEL] == OUTER:
            n_fresh = list_leaves(s, d, child, now, fresh, n_fresh)
        elif s[child, LABEL] == FREE:
            n_freed = list_leaves(s, d, child, now, freed, n_freed)
        child = s[child, FOLLOWING]
        if child == s[b, FIRST]:
            break
    return n_fresh, n_freed


@kernel
def rematch(s, i, j):
    """Match outer vertex i with j and shift the matching along the path to the root."""
    while True:
        a = s[i, TOP]
        inner = s[a, MATE_OUT]
        s[a, MATE_IN] = i
        s[a, MATE_OUT] = j
        if inner < 0:
            return
        inner = s[inner, TOP]
        j = s[inner, LINK_IN]
        i = s[inner, LINK_OUT]
        s[inner, MATE_IN] = j
        s[inner, MATE_OUT] = i


@kernel
def search(s, d, root, brief, graph, single, eps, scratch):
    """Grow a tree from the exposed top node `root` until the matching can be enlarged.

    `graph` is (start, node, tail, weight): the neighbours of every vertex, and `tail` the vertex
    itself; `single` is empty where no vertex may stay single. Returns the number of tree members,
    in `scratch`, if the tree is stuck (then its labels stay, so that later trees leave it out),
    else 0. Events are slots of `node` (edges) and, after these, inner blossoms whose z reaches 0.
    If `brief`, only the prices change, half way to the first edge that leaves the tree.
    """
    start, node, tail, weight = graph
    fresh, freed, members, seen = scratch
    n = s.shape[0] // 2
    n_slots = node.shape[0]
    may_skip = single.shape[0] > 0
    heap = [(0.0, np.int64(0))]
    heap.clear()
    now = 0.0
    finish = inf
    stop = inf
    end_i = -1
    end_j = -1
    n_members = 1
    members[0] = root
    s[root, LABEL] = OUTER
    d[root, Z_SINCE] = 0.0
    n_fresh = list_leaves(s, d, root, 0.0, fresh, 0)
    found = False
    while True:
        for f in range(n_fresh):
            i = fresh[f]
            y_i = d[i, Y]  # outer since now
            if may_skip and now + y_i - single[i] < finish:
                finish = max(now + y_i - single[i], now)
                end_i = i
                end_j = i
            for p in range(start[i], start[i + 1]):
                j = node[p]
                b = s[j, TOP]
                role = s[b, LABEL]
                if role == INNER or b == s[i, TOP]:
                    continue
                if role == OUTER:
                    at = now + 0.5 * (y_i + d[j, Y] - (now - d[j, SINCE]) - weight[p])
                    if at < finish:
                        heappush(heap, (at, np.int64(p)))
                else:
                    at = now + y_i + d[j, Y] - weight[p]
                    if brief and at > eps:
                        stop = min(stop, max(0.5 * at, now))
                    if at >= finish:
                        continue
                    if s[b, MATE_OUT] < 0 or s[b, MATE_OUT] == s[b, MATE_IN]:
                        finish = max(at, now)
                        end_i = i
                        end_j = j
                    elif at < d[b, BEST]:
                        d[b, BEST] = at
                        heappush(heap, (at, np.int64(p)))
        n_fresh = 0
        if len(heap) == 0 or heap[0][0] >= min(finish, stop):
            found = finish < inf and finish <= stop
            break
        at, item = heappop(heap)
        now = max(now, at)
        if item >= n_slots:  # the z of an inner blossom reaches 0
            b = item - n_slots
            if s[b, FIRST] < 0 or s[b, PARENT] >= 0 or s[b, LABEL] != INNER:
                continue
            late = now + 0.5 * (d[b, Z] - 2.0 * (now - d[b, Z_SINCE]))
            if late > now + eps:
                if late < finish:
                    heappush(heap, (late, np.int64(item)))
                continue
            first = s[b, FIRST]
            n_fresh, n_freed = open_inner(s, d, b, now, fresh, freed)
            child = first
            while True:
                d[child, BEST] = inf
                if s[child, LABEL] != FREE:
                    members[n_members] = child
                    n_members += 1
                if s[child, LABEL] == INNER and child >= n and now + 0.5 * d[child, Z] < finish:
                    heappush(heap, (now + 0.5 * d[child, Z], np.int64(n_slots + child)))
                child = s[child, FOLLOWING]
                if child == first:
                    break
            release(s, b)
            for f in range(n_freed):
                j = freed[f]
                for p in range(start[j], start[j + 1]):
                    i = node[p]
                    if s[s[i, TOP], LABEL] == OUTER:
                        at = now + max(price(s, d, i, now) + d[j, Y] - weight[p], 0.0)
                        if at < d[s[j, TOP], BEST] and at < finish:
                            d[s[j, TOP], BEST] = at
                            heappush(heap, (at, np.int64(p)))
            continue
        i = tail[item]
        j = node[item]
        if s[s[i, TOP], LABEL] != OUTER:
            i, j = j, i
        b = s[j, TOP]
        if s[s[i, TOP], LABEL] != OUTER or b == s[i, TOP] or s[b, LABEL] == INNER:
            continue
        slack = price(s, d, i, now) + price(s, d, j, now) - weight[item]
        if s[b, LABEL] == OUTER:
            slack *= 0.5
        if slack > eps and now + slack > now:
            if now + slack < finish:
                heappush(heap, (now + slack, np.int64(item)))
            continue
        if s[b, LABEL] == OUTER:
            n_fresh = shrink(s, d, i, j, now, seen, fresh)
            members[n_members] = s[i, TOP]
            n_members += 1
        else:
            a = s[s[b, MATE_OUT], TOP]
            s[b, LABEL] = INNER
            s[b, LINK_OUT] = i
            s[b, LINK_IN] = j
            list_leaves(s, d, b, now, freed, 0)
            d[b, Z_SINCE] = now
            if b >= n and now + 0.5 * d[b, Z] < finish:
                heappush(heap, (now + 0.5 * d[b, Z], np.int64(n_slots + b)))
            s[a, LABEL] = OUTER
            d[a, Z_SINCE] = now
            n_fresh = list_leaves(s, d, a, now, fresh, 0)
            members[n_members] = b
            members[n_members + 1] = a
            n_members += 2
    for b in range(2 * n):
        d[b, BEST] = inf
    if not found and stop < inf:
        finish_tree(s, d, members, n_members, stop)
        clear_tree(s, d, members, n_members)
        return 0
    finish_tree(s, d, members, n_members, finish if found else now)
    if not found:
        return n_members
    if end_i == end_j:
        d[end_i, Y] = single[end_i]
    else:
        b = s[end_j, TOP]
        s[b, MATE_IN] = end_j
        s[b, MATE_OUT] = end_i
    rematch(s, end_i, end_j)
    clear_tree(s, d, members, n_members)
    return 0


@kernel
def clear_tree(s, d, members, n_members):
    """Remove the labels of the tree, and dissolve blossoms of z = 0."""
    n = s.shape[0] // 2
    for q in range(n_members):
        s[members[q], LABEL] = FREE
    for q in range(n_members):
        b = members[q]
        if b >= n and s[b, FIRST] >= 0 and s[b, PARENT] < 0 and d[b, Z] <= 0.0:
            dissolve(s, b)


@kernel
def finish_tree(s, d, members, n_members, now):
    """Set all prices in the tree to those at time `now`."""
    n = s.shape[0] // 2
    for q in range(n_members):
        b = members[q]
        if s[b, PARENT] < 0 and s[b, LABEL] != FREE and (b < n or s[b, FIRST] >= 0):
            update_prices(s, d, b, now)


def without_blossoms(y, mate):
    """The initial state without blossoms: prices y, under which the matched edges are tight."""
    n = y.shape[0]
    s, d = np.full((2 * n, 15), -1), np.zeros((2 * n, 5))
    s[:, LABEL] = FREE
    d[:n, Y] = y
    s[:n, MATE_OUT] = mate
    for field in (TOP, MATE_IN, FIRST_LEAF, LAST_LEAF):
        s[:n, field] = np.arange(n)
    d[:, BEST] = inf
    s[n:, FOLLOWING] = np.arange(n + 1, 2 * n + 1)
    s[0, UNUSED] = n
    return s, d


@kernel
def unfold(s, mate):
    """The matching of the vertices, all blossoms opened; y, z and parents stay unchanged."""
    n = s.shape[0] // 2
    stack = np.empty(2 * n, np.int64)
    size = 0
    for b in range(2 * n):
        if s[b, PARENT] < 0 and (b < n or s[b, FIRST] >= 0):
            stack[size] = b
            size += 1
    while size > 0:
        size -= 1
        b = stack[size]
        if b < n:
            mate[b] = s[b, MATE_OUT]
            continue
        pair_children(s, b)
        child = s[b, FIRST]
        while True:
            stack[size] = child
            size += 1
            child = s[child, FOLLOWING]
            if child == s[b, FIRST]:
                break


@kernel
def share_prices(s, d, i, shared):
    """shared[j]: the sum of z of the blossoms around both i and j, for all j in i's top node."""
    total = 0.0
    b = s[i, PARENT]
    while b >= 0:
        total += d[b, Z]
        b = s[b, PARENT]
    inside = i
    b = s[i, PARENT]
    while b >= 0:
        child = s[inside, FOLLOWING]
        while child != inside:
            v = s[child, FIRST_LEAF]
            while True:
                shared[v] = total
                if v == s[child, LAST_LEAF]:
                    break
                v = s[v, NEXT_LEAF]
            child = s[child, FOLLOWING]
        total -= d[b, Z]
        inside = b
        b = s[b, PARENT]


@kernel
def violated(ptr, col, scores, s, d, limit, out):
    """Which edges have y_i + y_j + (z of the blossoms around both) - score below `limit`."""
    shared = np.zeros(ptr.shape[0] - 1)
    for i in range(shared.shape[0]):
        ready = False
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            slack = d[i, Y] + d[j, Y] - scores[e]
            if slack < limit and s[i, TOP] == s[j, TOP]:
                if not ready:
                    share_prices(s, d, i, shared)
                    ready = True
                slack += shared[j]
            out[e] = slack < limit
