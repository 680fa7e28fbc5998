"""Maximum flow on the doubled graph of a quadratic function of 0/1 variables (roof duality).

The doubled graph has two literals per node, "node i is 0" and "node i is 1". Its flow is kept
symmetric: an arc u -> v and its mirror image, not v -> not u, share one residual capacity, and the
tree that grows towards the source from the sink is the mirror image of the source's tree. So one
tree is enough, a node is in it as at most one literal (its label), and a path from source to
sink is found where the tree meets the negation of a literal it contains. Memory and work are
those of the graph itself; without repulsive edges this is Boykov and Kolmogorov's algorithm, the
nodes of label 0 and 1 being its two trees.

Layout. Edge e has the residual capacities 2e and 2e + 1, each the reverse of the other.
arcs[p] = (2 * neighbour + flip, code) for the half-edges p of a node: leaving it in label s uses
capacity code ^ s and arrives in label s ^ flip.
link[i] = (parent, capacity of the arc from it, time of the depth, depth) for nodes in the tree.
"""

from heapq import heappop, heappush

import numpy as np

from ..._compile import kernel

ROOT = -1  # in place of a parent: linked to the source
ORPHAN = -2  # in place of a parent: the link was saturated
FREE = 2  # label of nodes outside the tree
FAR = 1 << 30  # depth of nodes without a path to a root: deeper than any tree
index = (
    np.uintp
)  # numba tests signed indices for being negative: a sixth of the time in these loops
ONE = np.uintp(1)


@kernel
def prepare(tail, head, slot, order, unary, coupling, grain, cap, excess, arcs):
    """Capacities and excess of the balanced form, after a first sweep of flow along the edges.

    score = constant - excess . x - sum_e cap_e [x_i != x_j, or x_i == x_j if coupling_e < 0].
    """
    n = excess.shape[0]
    m = tail.shape[0]
    for i in range(n):
        excess[i] = -unary[i]
    for e in range(m):
        half = 0.5 * coupling[order[e]]
        i = tail[e]
        j = head[e]
        excess[i] -= half
        excess[j] -= half
        cap[2 * e] = half
        flip = 1 if half < 0.0 else 0
        arcs[slot[e, 0], 0] = 2 * j + flip
        arcs[slot[e, 0], 1] = 2 * e
        arcs[slot[e, 1], 0] = 2 * i + flip
        arcs[slot[e, 1], 1] = 2 * e + 1 - flip
    # Equalising the excess of neighbours leaves little for the search where couplings are weak.
    # Adding and subtracting `grain` rounds to a grid coarse enough to keep integer scores exact.
    for e in range(m):
        i = tail[e]
        j = head[e]
        sign = -1.0 if cap[2 * e] < 0.0 else 1.0
        c = abs(cap[2 * e])
        a = excess[i]
        b = sign * excess[j]
        f = max(-c, min(c, (0.5 * (a - b) + grain) - grain))
        excess[i] = a - f
        excess[j] = sign * (b + f)
        cap[2 * e] = c - f
        cap[2 * e + 1] = c + f
    for e in range(m):  # paths source -> i -> j -> sink
        i = tail[e]
        j = head[e]
        sign = 1.0 - 2.0 * (arcs[slot[e, 0], 0] & 1)
        a = excess[i]
        b = sign * excess[j]
        f = max(0.0, min(a, -b, cap[2 * e])) - max(0.0, min(-a, b, cap[2 * e + 1]))
        excess[i] = a - f
        excess[j] = sign * (b + f)
        cap[2 * e] -= f
        cap[2 * e + 1] += f


@kernel
def init_search_trees(tail, head, slot, arcs, cap, excess, floor, label, link, ring, queued):
    """Make every node with excess a root; queue those that can grow; return how many."""
    for i in range(label.shape[0]):
        a = excess[i]
        excess[i] = abs(a)
        label[i] = FREE if abs(a) <= floor else (1 if a < 0.0 else 0)
        link[i, 0] = ROOT
        link[i, 2] = 0
        link[i, 3] = 1
        queued[i] = 0
    count = 0
    for e in range(tail.shape[0]):
        i = tail[e]
        j = head[e]
        a = label[i]
        b = label[j]
        flip = arcs[slot[e, 0], 0] & 1
        # Few edges can grow, so one test of everything predicts better than several.
        grows_i = (a != FREE) & (b != a ^ flip) & (cap[2 * e + (a & 1)] > floor)
        grows_j = (b != FREE) & (a != b ^ flip) & (cap[2 * e + ((b ^ flip ^ 1) & 1)] > floor)
        if grows_i | grows_j:
            if grows_i and not queued[i]:
                queued[i] = 1
                ring[count] = i
                count += 1
            if grows_j and not queued[j]:
                queued[j] = 1
                ring[count] = j
                count += 1
    return count


@kernel
def path_capacity(i, j, c, cap, excess, link, queued):
    """How much the path that joins tree nodes i and j by capacity c, and its mirror, can carry."""
    d = cap[c]
    u = index(i)
    while link[u, 0] != ROOT:
        d = min(d, cap[index(link[u, 1])])
        u = index(link[u, 0])
    d = min(d, excess[u])
    v = index(j)
    while link[v, 0] != ROOT:
        d = min(d, cap[index(link[v, 1])])
        v = index(link[v, 0])
    d = min(d, excess[v])
    if u != v:
        return d
    queued[i] |= 2  # both climb to one root: what they share is used twice
    u = index(i)
    while link[u, 0] != ROOT:
        u = index(link[u, 0])
        queued[u] |= 2
    v = index(j)
    while queued[v] < 2:
        v = index(link[v, 0])
    queued[i] &= 1
    u = index(i)
    while link[u, 0] != ROOT:
        u = index(link[u, 0])
        queued[u] &= 1
    while link[v, 0] != ROOT:
        d = min(d, 0.5 * cap[index(link[v, 1])])
        v = index(link[v, 0])
    return min(d, 0.5 * excess[v])


@kernel
def depth_of(v, time, link):
    """Depth of a tree node, or FAR below an orphan; nodes seen at `time` are not climbed again."""
    depth = 0
    u = index(v)
    while link[u, 2] != time:
        depth += 1
        up = link[u, 0]
        if up == ORPHAN:
            return FAR
        if up == ROOT:
            link[u, 2] = time
            link[u, 3] = 1
            depth -= 1
            break
        u = index(up)
    depth += link[u, 3]
    rest = depth
    while link[v, 2] != time:
        link[v, 2] = time
        link[v, 3] = rest
        rest -= 1
        v = index(link[v, 0])
    return depth


@kernel
def maximum_flow(
    ptr, arcs, cap, excess, floor, largest, patience, count, label, link, ring, orphans, queued
):
    """Grow, augment and repair until no path is left. Labels then are those of the minimum cut.

    Capacities up to `floor` count as zero. An augmentation empties an arc, whatever the rounding,
    but no bound on their number is known; after `patience` of them `floor` doubles repeatedly, so
    that every run ends.
    """
    n = label.shape[0]
    first = 0
    time = 0
    while count > 0:
        i = index(ring[index(first)])
        first = first + 1 if first + 1 < n else 0
        count -= 1
        queued[i] = 0
        s = label[i]
        if s == FREE:
            continue
        p = index(ptr[i])
        end = index(ptr[i + ONE])
        while p < end:
            c = index(arcs[p, 1] ^ s)
            j = index(arcs[p, 0] >> 1)
            t = s ^ (arcs[p, 0] & 1)
            if (cap[c] <= floor) | ((label[j] == t) & (link[j, 3] <= link[i, 3])):
                p += ONE
                continue
            if label[j] == FREE or (label[j] == t and link[j, 2] <= link[i, 2]):
                link[j, 0] = i
                link[j, 1] = c
                link[j, 2] = link[i, 2]
                link[j, 3] = link[i, 3] + 1
                if label[j] == FREE:
                    label[j] = t
                    if not queued[j]:
                        queued[j] = 1
                        k = first + count
                        ring[k if k < n else k - n] = j
                        count += 1
            if label[j] == t:
                p += ONE
                continue
            d = path_capacity(i, j, c, cap, excess, link, queued)
            cap[c] -= d
            cap[c ^ ONE] += d
            n_orphans = 0
            front = 0
            for side in range(2):
                u = index(i if side == 0 else j)
                limit = 0.0 if side == 0 else floor  # never cut what the second side still climbs
                while True:
                    up = link[u, 0]
                    if up == ROOT:
                        excess[u] -= d
                        left = excess[u]
                    else:
                        a = index(link[u, 1])
                        cap[a] -= d
                        cap[a ^ ONE] += d
                        left = cap[a]
                    if left <= limit:
                        link[u, 0] = ORPHAN
                        front = front - 1 if front > 0 else n - 1
                        orphans[front] = u
                        n_orphans += 1
                    if up == ROOT:
                        break
                    u = index(up)
            time += 1
            if time > patience:
                floor = max(2.0 * floor, 2.0**-52 * largest)
                patience += n
            while n_orphans > 0:
                o = index(orphans[index(front)])
                front = front + 1 if front + 1 < n else 0
                n_orphans -= 1
                s_o = label[o]
                best = FAR
                for q in range(index(ptr[o]), index(ptr[o + ONE])):
                    a = index(arcs[q, 1] ^ s_o ^ 1)
                    v = index(arcs[q, 0] >> 1)
                    if (cap[a] > floor) & (label[v] == s_o ^ (arcs[q, 0] & 1)):
                        depth = depth_of(v, time, link)
                        if depth < best:
                            best = depth
                            link[o, 1] = a
                            parent = v
                if best < FAR:
                    link[o, 0] = parent
                    link[o, 2] = time
                    link[o, 3] = best + 1
                    continue
                label[o] = FREE
                for q in range(index(ptr[o]), index(ptr[o + ONE])):
                    v = index(arcs[q, 0] >> 1)
                    if label[v] != s_o ^ (arcs[q, 0] & 1):
                        continue
                    if cap[arcs[q, 1] ^ s_o ^ 1] > floor and not queued[v]:
                        queued[v] = 1
                        k = first + count
                        ring[k if k < n else k - n] = v
                        count += 1
                    if link[v, 0] == o:
                        link[v, 0] = ORPHAN
                        k = front + n_orphans
                        orphans[k if k < n else k - n] = v
                        n_orphans += 1
            if label[i] != s:
                break


@kernel
def pair_values(tail, head, coupling, x, xi):
    """The best xi for given x."""
    for e in range(tail.shape[0]):
        a = x[tail[e]]
        b = x[head[e]]
        least = max(0.0, a + b - 1.0)
        most = min(a, b)
        xi[e] = least if coupling[e] < 0.0 else most


@kernel
def round_greedily(ptr, incident, unary, coupling, x, labels):
    """Labels from x: nodes at 1/2 one after the other, that of the largest |field| first.

    Undecided neighbours count as 1/2. Returns the nodes that were at 1/2.
    """
    n = x.shape[0]
    waiting = x == 0.5
    field = np.empty(n)
    heap = [(0.0, np.int64(0))]
    heap.clear()
    for i in range(n):
        labels[i] = 1 if x[i] == 1.0 else 0
        if waiting[i]:
            field[i] = unary[i]
            for p in range(ptr[i], ptr[i + 1]):
                field[i] += coupling[incident[p, 1]] * x[incident[p, 0]]
            heappush(heap, (-abs(field[i]), np.int64(i)))
    undecided = np.flatnonzero(waiting)
    while len(heap) > 0:
        key, i = heappop(heap)
        if not waiting[i] or key != -abs(field[i]):
            continue
        labels[i] = 1 if field[i] > 0.0 else 0
        waiting[i] = False
        for p in range(ptr[i], ptr[i + 1]):
            j = incident[p, 0]
            if waiting[j]:
                field[j] += coupling[incident[p, 1]] * (labels[i] - 0.5)
                heappush(heap, (-abs(field[j]), np.int64(j)))
    return undecided


@kernel
def conditional_modes(ptr, incident, unary, coupling, undecided, labels):
    """Change one undecided label at a time while that raises the score; return the score.

    The number of rounds is bounded: rounding errors could make two labellings alternate.
    """
    for _ in range(100):
        changed = False
        for i in undecided:
            field = unary[i]
            for p in range(ptr[i], ptr[i + 1]):
                field += coupling[incident[p, 1]] * labels[incident[p, 0]]
            if (field > 0.0 and labels[i] == 0) or (field < 0.0 and labels[i] == 1):
                labels[i] = 1 - labels[i]
                changed = True
        if not changed:
            break
    score = 0.0
    for i in range(labels.shape[0]):
        if labels[i] == 1:
            score += unary[i]
            for p in range(ptr[i], ptr[i + 1]):
                if incident[p, 0] < i and labels[incident[p, 0]] == 1:
                    score += coupling[incident[p, 1]]
    return score
