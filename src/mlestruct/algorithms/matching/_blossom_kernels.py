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

from math import inf

import numpy as np

from ..._compile import kernel
from ._fractional_kernels import keep_smallest, pop, push

FREE, OUTER, INNER = 0, 1, 2  # labels of nodes


# State of every node, vertices first, then blossoms.
NODE = np.dtype(
    [
        ("y", np.float64),  # vertices: the price as of `since`
        ("since", np.float64),  # vertices
        ("top", np.int64),  # vertices: the outermost blossom around, or itself
        ("label", np.int64),
        ("best", np.float64),  # when a free top node is reached
        ("mate_in", np.int64),  # matched edge: the vertex in this node
        ("mate_out", np.int64),  # and the one outside, -1: exposed, equal to mate_in: single
        ("next_leaf", np.int64),  # vertices
        ("first_leaf", np.int64),  # the vertices inside a node, as a linked list
        ("last_leaf", np.int64),
        ("z", np.float64),  # blossoms: the price as of `z_since`
        ("z_since", np.float64),
        ("parent", np.int64),  # the blossom just around, -1: none
        ("first", np.int64),  # blossoms: one of the children, -1: not in use
        ("following", np.int64),  # the next child on the parent's cycle
        ("here", np.int64),  # the edge to the next child: its vertex in this one
        ("there", np.int64),  # and its vertex in the next
        ("link_out", np.int64),  # tree edge of an inner node: the outer vertex
        ("link_in", np.int64),  # and the vertex in the inner node
        ("unused", np.int64),  # in entry 0: a blossom not in use; the others follow it
    ]
)


@kernel
def price(s, v, now):
    """The price of vertex v at time `now`."""
    role = s.label[s.top[v]]
    if role == OUTER:
        return s.y[v] - (now - s.since[v])
    if role == INNER:
        return s.y[v] + (now - s.since[v])
    return s.y[v]


@kernel
def update_prices(s, b, now):
    """Set the prices in top node b to those at time `now`."""
    v = s.first_leaf[b]
    while True:
        s.y[v] = price(s, v, now)
        s.since[v] = now
        if v == s.last_leaf[b]:
            break
        v = s.next_leaf[v]
    update_blossom_price(s, b, now)


@kernel
def update_blossom_price(s, b, now):
    """Set z of top node b to that at time `now`."""
    if b >= s.shape[0] // 2:
        if s.label[b] == OUTER:
            s.z[b] += 2.0 * (now - s.z_since[b])
        elif s.label[b] == INNER:
            s.z[b] -= 2.0 * (now - s.z_since[b])
    s.z_since[b] = now


@kernel
def list_leaves(s, b, now, out, count):
    """Append the vertices in node b, whose label is new, to `out`; returns the new count."""
    v = s.first_leaf[b]
    while True:
        s.since[v] = now
        out[count] = v
        count += 1
        if v == s.last_leaf[b]:
            return count
        v = s.next_leaf[v]


@kernel
def set_top(s, b, top):
    v = s.first_leaf[b]
    while True:
        s.top[v] = top
        if v == s.last_leaf[b]:
            break
        v = s.next_leaf[v]


@kernel
def child_around(s, v, b):
    """The child of blossom b that contains vertex v."""
    while s.parent[v] != b:
        v = s.parent[v]
    return v


@kernel
def pair_children(s, b):
    """Store the matched edges of b's children, b being matched at vertex mate_in[b]."""
    entry = child_around(s, s.mate_in[b], b)
    s.mate_in[entry] = s.mate_in[b]
    s.mate_out[entry] = s.mate_out[b]
    one = s.following[entry]
    while one != entry:
        two = s.following[one]
        s.mate_in[one] = s.here[one]
        s.mate_out[one] = s.there[one]
        s.mate_in[two] = s.there[one]
        s.mate_out[two] = s.here[one]
        one = s.following[two]
    return entry


@kernel
def dissolve(s, b):
    """Open a top blossom outside of the tree: its children become free top nodes."""
    pair_children(s, b)
    child = s.first[b]
    while True:
        s.parent[child] = -1
        s.label[child] = FREE
        set_top(s, child, child)
        child = s.following[child]
        if child == s.first[b]:
            break
    release(s, b)


@kernel
def release(s, b):
    s.first[b] = -1
    s.first_leaf[b] = -1
    s.label[b] = FREE
    s.following[b] = s.unused[0]
    s.unused[0] = b


@kernel
def above(s, a):
    """The outer node two steps up the tree from outer node a, -1 at the root."""
    if s.mate_out[a] < 0:
        return -1
    return s.top[s.link_out[s.top[s.mate_out[a]]]]


@kernel
def attach(s, child, b, following, here, there, now, fresh, n_fresh):
    """Make top node `child` part of the new blossom b; inner vertices become (fresh) outer ones."""
    if s.label[child] == INNER:
        update_prices(s, child, now)
        n_fresh = list_leaves(s, child, now, fresh, n_fresh)
    else:
        update_blossom_price(s, child, now)
    set_top(s, child, b)
    if s.first_leaf[b] < 0:
        s.first_leaf[b] = s.first_leaf[child]
    else:
        s.next_leaf[s.last_leaf[b]] = s.first_leaf[child]
    s.last_leaf[b] = s.last_leaf[child]
    s.parent[child] = b
    s.following[child] = following
    s.here[child] = here
    s.there[child] = there
    return n_fresh


@kernel
def shrink(s, u, v, now, seen, fresh):
    """Make a blossom of the cycle closed by the tight edge between outer vertices u and v.

    Returns how many vertices became outer; they are in `fresh`.
    """
    a = s.top[u]
    while a >= 0:
        seen[a] = True
        a = above(s, a)
    base = s.top[v]
    while not seen[base]:
        base = above(s, base)
    a = s.top[u]
    while a >= 0:
        seen[a] = False
        a = above(s, a)
    b = s.unused[0]
    s.unused[0] = s.following[b]
    n_fresh = 0
    # The cycle runs base -> ... -> top[u] -> top[v] -> ... -> base. Tops change as we go, so the
    # next node is always found before the present one is attached.
    a = s.top[v]
    in_u = s.top[u]
    after_u = a
    while a != base:  # from top[v] up
        inner = s.top[s.mate_out[a]]
        outer = s.top[s.link_out[inner]]
        n_fresh = attach(s, a, b, inner, s.mate_in[a], s.mate_out[a], now, fresh, n_fresh)
        n_fresh = attach(
            s, inner, b, outer, s.link_in[inner], s.link_out[inner], now, fresh, n_fresh
        )
        a = outer
    following = after_u
    here = u
    there = v
    a = in_u
    while a != base:  # from top[u] up, the edges reversed
        inner = s.top[s.mate_out[a]]
        outer = s.top[s.link_out[inner]]
        mate_in = s.mate_in[a]
        mate_out = s.mate_out[a]
        n_fresh = attach(s, a, b, following, here, there, now, fresh, n_fresh)
        n_fresh = attach(s, inner, b, a, mate_out, mate_in, now, fresh, n_fresh)
        following = inner
        here = s.link_out[inner]
        there = s.link_in[inner]
        a = outer
    n_fresh = attach(s, base, b, following, here, there, now, fresh, n_fresh)
    s.first[b] = base
    s.parent[b] = -1
    s.mate_in[b] = s.mate_in[base]
    s.mate_out[b] = s.mate_out[base]
    s.label[b] = OUTER
    s.z[b] = 0.0
    s.z_since[b] = now
    return n_fresh


@kernel
def open_inner(s, b, now, fresh, freed):
    """Open an inner blossom of z = 0: part of its cycle stays in the tree, the others are free.

    Returns the numbers of vertices that became outer (in `fresh`) and free (in `freed`).
    """
    update_prices(s, b, now)
    link_out = s.link_out[b]
    link_in = s.link_in[b]
    exit_ = pair_children(s, b)
    child = s.first[b]
    while True:
        s.label[child] = FREE
        s.z_since[child] = now
        child = s.following[child]
        if child == s.first[b]:
            break
    # From the child the tree enters to the child that is matched outside, the way on which
    # matched edges come first. The child after an unpaired stretch is paired with its follower.
    enter = child_around(s, link_in, b)
    a = enter
    while True:
        s.label[a] = INNER
        s.link_out[a] = link_out
        s.link_in[a] = link_in
        if a == exit_:
            break
        forward = child_around(s, s.mate_out[a], b) == s.following[a]
        if forward:
            a = s.following[a]
            s.label[a] = OUTER
            link_out = s.here[a]
            link_in = s.there[a]
            a = s.following[a]
        else:
            partner = child_around(s, s.mate_out[a], b)
            s.label[partner] = OUTER
            a = partner
            before = s.following[a]
            while s.following[before] != a:
                before = s.following[before]
            link_out = s.there[before]
            link_in = s.here[before]
            a = before
    n_fresh = 0
    n_freed = 0
    child = s.first[b]
    while True:
        s.parent[child] = -1
        set_top(s, child, child)
        if s.label[child] == OUTER:
            n_fresh = list_leaves(s, child, now, fresh, n_fresh)
        elif s.label[child] == FREE:
            n_freed = list_leaves(s, child, now, freed, n_freed)
        child = s.following[child]
        if child == s.first[b]:
            break
    return n_fresh, n_freed


@kernel
def rematch(s, i, j):
    """Match outer vertex i with j and shift the matching along the path to the root."""
    while True:
        a = s.top[i]
        inner = s.mate_out[a]
        s.mate_in[a] = i
        s.mate_out[a] = j
        if inner < 0:
            return
        inner = s.top[inner]
        j = s.link_in[inner]
        i = s.link_out[inner]
        s.mate_in[inner] = j
        s.mate_out[inner] = i


@kernel
def grow_heap(keys, items, needed):
    """The heap's arrays, enlarged if `needed` entries do not fit."""
    if needed <= keys.shape[0]:
        return keys, items
    more_keys = np.empty(2 * needed)
    more_items = np.empty(2 * needed, np.int64)
    more_keys[: keys.shape[0]] = keys
    more_items[: items.shape[0]] = items
    return more_keys, more_items


@kernel
def search(s, root, brief, graph, may_skip, single, eps, scratch, keys, items):
    """Grow a tree from the exposed top node `root` until the matching can be enlarged.

    Returns the number of tree members, in `scratch`, if the tree is stuck (then its labels stay),
    else 0. Events are slots of `node` (edges) and, after these, inner blossoms whose z reaches 0.
    If `brief`, only the prices change, half way to the first edge that leaves the tree.
    """
    start, node, tail, weight = graph
    fresh, freed, members, seen = scratch
    n = s.shape[0] // 2
    n_slots = node.shape[0]
    size = 0
    now = 0.0
    finish = inf
    stop = inf
    end_i = -1
    end_j = -1
    n_members = 1
    members[0] = root
    s.label[root] = OUTER
    s.z_since[root] = 0.0
    n_fresh = list_leaves(s, root, 0.0, fresh, 0)
    found = False
    while True:
        for f in range(n_fresh):
            i = fresh[f]
            y_i = s.y[i]  # outer since now
            if may_skip and now + y_i - single[i] < finish:
                finish = max(now + y_i - single[i], now)
                end_i = i
                end_j = i
            keys, items = grow_heap(keys, items, size + start[i + 1] - start[i])
            for p in range(start[i], start[i + 1]):
                j = node[p]
                b = s.top[j]
                role = s.label[b]
                if role == INNER or b == s.top[i]:
                    continue
                if role == OUTER:
                    at = now + 0.5 * (y_i + s.y[j] - (now - s.since[j]) - weight[p])
                    if at < finish:
                        size = push(keys, items, size, at, p)
                else:
                    at = now + y_i + s.y[j] - weight[p]
                    if brief and at > eps:
                        stop = min(stop, max(0.5 * at, now))
                    if at >= finish:
                        continue
                    if s.mate_out[b] < 0 or s.mate_out[b] == s.mate_in[b]:
                        finish = max(at, now)
                        end_i = i
                        end_j = j
                    elif at < s.best[b]:
                        s.best[b] = at
                        size = push(keys, items, size, at, p)
        n_fresh = 0
        if size == 0 or keys[0] >= min(finish, stop):
            found = finish < inf and finish <= stop
            break
        at = keys[0]
        item = items[0]
        size = pop(keys, items, size)
        now = max(now, at)
        if item >= n_slots:  # the z of an inner blossom reaches 0
            b = item - n_slots
            if s.first[b] < 0 or s.parent[b] >= 0 or s.label[b] != INNER:
                continue
            late = now + 0.5 * (s.z[b] - 2.0 * (now - s.z_since[b]))
            if late > now + eps:
                if late < finish:
                    size = push(keys, items, size, late, item)
                continue
            first = s.first[b]
            n_fresh, n_freed = open_inner(s, b, now, fresh, freed)
            child = first
            while True:
                s.best[child] = inf
                if s.label[child] != FREE:
                    members[n_members] = child
                    n_members += 1
                if s.label[child] == INNER and child >= n and now + 0.5 * s.z[child] < finish:
                    keys, items = grow_heap(keys, items, size + 1)
                    size = push(keys, items, size, now + 0.5 * s.z[child], n_slots + child)
                child = s.following[child]
                if child == first:
                    break
            release(s, b)
            for f in range(n_freed):
                j = freed[f]
                keys, items = grow_heap(keys, items, size + start[j + 1] - start[j])
                for p in range(start[j], start[j + 1]):
                    i = node[p]
                    if s.label[s.top[i]] == OUTER:
                        at = now + max(price(s, i, now) + s.y[j] - weight[p], 0.0)
                        if at < s.best[s.top[j]] and at < finish:
                            s.best[s.top[j]] = at
                            size = push(keys, items, size, at, p)
            continue
        i = tail[item]
        j = node[item]
        if s.label[s.top[i]] != OUTER:
            i, j = j, i
        b = s.top[j]
        if s.label[s.top[i]] != OUTER or b == s.top[i] or s.label[b] == INNER:
            continue
        slack = price(s, i, now) + price(s, j, now) - weight[item]
        if s.label[b] == OUTER:
            slack *= 0.5
        if slack > eps and now + slack > now:
            if now + slack < finish:
                size = push(keys, items, size, now + slack, item)
            continue
        if s.label[b] == OUTER:
            n_fresh = shrink(s, i, j, now, seen, fresh)
            members[n_members] = s.top[i]
            n_members += 1
        else:
            a = s.top[s.mate_out[b]]
            s.label[b] = INNER
            s.link_out[b] = i
            s.link_in[b] = j
            list_leaves(s, b, now, freed, 0)
            s.z_since[b] = now
            if b >= n and now + 0.5 * s.z[b] < finish:
                keys, items = grow_heap(keys, items, size + 1)
                size = push(keys, items, size, now + 0.5 * s.z[b], n_slots + b)
            s.label[a] = OUTER
            s.z_since[a] = now
            n_fresh = list_leaves(s, a, now, fresh, 0)
            members[n_members] = b
            members[n_members + 1] = a
            n_members += 2
    s.best[:] = inf
    if not found and stop < inf:
        finish_tree(s, members, n_members, stop)
        clear_tree(s, members, n_members)
        return 0
    finish_tree(s, members, n_members, finish if found else now)
    if not found:
        return n_members
    if end_i == end_j:
        s.y[end_i] = single[end_i]
    else:
        b = s.top[end_j]
        s.mate_in[b] = end_j
        s.mate_out[b] = end_i
    rematch(s, end_i, end_j)
    clear_tree(s, members, n_members)
    return 0


@kernel
def clear_tree(s, members, n_members):
    """Remove the labels of the tree, and dissolve blossoms of z = 0."""
    n = s.shape[0] // 2
    for q in range(n_members):
        s.label[members[q]] = FREE
    for q in range(n_members):
        b = members[q]
        if b >= n and s.first[b] >= 0 and s.parent[b] < 0 and s.z[b] <= 0.0:
            dissolve(s, b)


@kernel
def finish_tree(s, members, n_members, now):
    """Set all prices in the tree to those at time `now`."""
    n = s.shape[0] // 2
    for q in range(n_members):
        b = members[q]
        if s.parent[b] < 0 and s.label[b] != FREE and (b < n or s.first[b] >= 0):
            update_prices(s, b, now)


def without_blossoms(y, mate):
    """The initial state without blossoms: prices y, under which the matched edges are tight."""
    n = y.shape[0]
    nodes = np.zeros(2 * n, NODE)
    for name in NODE.names:
        if NODE[name] == np.int64 and name != "label":
            nodes[name] = -1
    vertices = nodes[:n]
    vertices["y"] = y
    vertices["mate_out"] = mate
    for name in ("top", "mate_in", "first_leaf", "last_leaf"):
        vertices[name] = np.arange(n)
    nodes["best"] = inf
    nodes["following"][n:] = np.arange(n + 1, 2 * n + 1)
    nodes["unused"][0] = n
    return nodes


@kernel
def match_exactly(start, node, weight, may_skip, single, s, outer, inner):
    """Cover every exposed vertex by an optimal matching; returns the number of stuck trees.

    `outer` and `inner` mark the vertices of stuck trees with the number of the tree (from 1); the
    blossoms of a stuck tree stay shrunk and labelled, so that later trees leave them out.
    """
    n = s.shape[0] // 2
    tail = np.empty(node.shape[0], np.int64)
    for i in range(n):
        tail[start[i] : start[i + 1]] = i
    eps = 0.0
    for i in range(n):
        eps = max(eps, abs(s.y[i]))
    eps *= 1e-15
    graph = (start, node, tail, weight)
    fresh = np.empty(n, np.int64)
    members = np.empty(8 * n + 8, np.int64)
    scratch = (fresh, np.empty(n, np.int64), members, np.zeros(2 * n, np.bool_))
    keys = np.empty(node.shape[0] + n)
    items = np.empty(keys.shape[0], np.int64)
    outer[:] = 0
    inner[:] = 0
    failed = 0
    for step in range(2 * n):  # all trees briefly, then one after the other to the end
        vertex = step % n
        root = s.top[vertex]
        if s.mate_out[root] != -1 or outer[vertex] > 0:
            continue
        brief = step < n
        count = search(s, root, brief, graph, may_skip, single, eps, scratch, keys, items)
        if count == 0:
            continue
        failed += 1
        for q in range(count):
            b = members[q]
            if s.parent[b] >= 0 or s.label[b] == FREE or (b >= n and s.first[b] < 0):
                continue
            size = list_leaves(s, b, 0.0, fresh, 0)
            for k in range(size):
                if s.label[b] == OUTER:
                    outer[fresh[k]] = failed
                else:
                    inner[fresh[k]] = failed
    return failed


@kernel
def unfold(s, mate):
    """The matching of the vertices, all blossoms opened; y, z and parents stay unchanged."""
    n = s.shape[0] // 2
    stack = np.empty(2 * n, np.int64)
    size = 0
    for b in range(2 * n):
        if s.parent[b] < 0 and (b < n or s.first[b] >= 0):
            stack[size] = b
            size += 1
    while size > 0:
        size -= 1
        b = stack[size]
        if b < n:
            mate[b] = s.mate_out[b]
            continue
        pair_children(s, b)
        child = s.first[b]
        while True:
            stack[size] = child
            size += 1
            child = s.following[child]
            if child == s.first[b]:
                break


@kernel
def nested_prices(s, around):
    """around[b]: the sum of z of blossom b and of all those around it."""
    n = s.shape[0] // 2
    around[:] = 0.0
    for b in range(n, 2 * n):
        if s.first[b] < 0:
            continue
        a = b
        while a >= 0:
            around[b] += s.z[a]
            a = s.parent[a]


@kernel
def share_prices(s, i, around, shared):
    """shared[j]: the sum of z of the blossoms around both i and j, for all j in i's top node."""
    inside = i
    b = s.parent[i]
    while b >= 0:
        child = s.following[inside]
        while child != inside:
            v = s.first_leaf[child]
            while True:
                shared[v] = around[b]
                if v == s.last_leaf[child]:
                    break
                v = s.next_leaf[v]
            child = s.following[child]
        inside = b
        b = s.parent[b]


@kernel
def violated(ptr, col, scores, s, y, top, around, limit, items):
    """items[i]: the edges at node i of smallest slack, blossoms included, if below `limit`."""
    n, k = items.shape
    keys = np.full((n, k), limit)
    shared = np.zeros(n)
    items[:] = -1
    for i in range(n):
        ready = False
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            key = y[i] + y[j] - scores[e]
            if key >= limit:
                continue
            if top[i] == top[j]:
                if key + around[top[i]] >= limit:
                    continue
                if not ready:
                    share_prices(s, i, around, shared)
                    ready = True
                key += shared[j]
            if key < keys[i, 0]:
                keep_smallest(keys[i], items[i], key, e)
            if key < keys[j, 0]:
                keep_smallest(keys[j], items[j], key, e)
