"""Kernels of spanning trees: greedy packings, resistances by elimination, flows for the polytope.

Elimination works on the columns of a sparse factor: rows row[ptr[j]:ptr[j+1]] of column j, all
larger than j and increasing. Eliminating j joins them pairwise, so each of those rows k has all
the later ones in its own column: both passes below find the pairs by scanning column k.

Flows work on half-edges: those at node v are ptr[v]:ptr[v+1], half-edge h leads to node[h], mate[h]
is its other half and weight[h] the part of rho that points into v, which may be moved to mate[h].
"""

from collections import namedtuple

import numpy as np

from ..._compile import kernel

TINY = 1e-15  # smaller weights are not moved
ROUNDING = 1e-12  # by which a load or a sum of weights may exceed 1

Flow = namedtuple(
    "Flow",
    [
        "ptr", "node", "mate",
        "weight",
        "load",  # of each node: the weights that point into it
        "degree",  # of each node: the weight of its remaining edges
        "alive",  # whether a node remains
        "capacity", "level", "arc", "queue", "path",  # work space, one entry per node
    ],
)  # fmt: skip


@kernel
def even_forests(n, tail, head, wanted, into_tail, into_head):
    """Spanning forests, each of the edges that are in the fewest so far; how many there are.

    At least `wanted`, and more until every edge is in one. Edges are taken in the order given where
    they are in equally many. Each forest is directed away from the first nodes of its trees;
    into_tail and into_head count the edges by direction.
    """
    n_edges = tail.shape[0]
    order, by_count = np.empty(n_edges, np.int64), np.empty(n_edges, np.int64)
    count = np.empty(n_edges, np.int64)
    for e in range(n_edges):
        order[e], count[e] = e, 0
    above, first, following = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(2 * n, np.int64),
    )
    chosen, stack = np.empty(n, np.int64), np.empty(n, np.int64)
    size, n_forests, n_missed = n - 1, 0, n_edges
    while n_forests < wanted or n_missed > 0:
        n_forests += 1
        for v in range(n):
            above[v], first[v] = v, -1
        n_chosen = 0
        for k in range(n_edges):
            e = order[k]
            a, b = find(above, tail[e]), find(above, head[e])
            if a != b:
                above[a] = b
                chosen[n_chosen] = e
                n_chosen += 1
                if n_chosen == size:
                    break
        size = n_chosen
        for k in range(size):
            e = chosen[k]
            count[e] += 1
            following[2 * k], first[tail[e]] = first[tail[e]], 2 * k
            following[2 * k + 1], first[head[e]] = first[head[e]], 2 * k + 1
        for root in range(n):  # first[v] is -2 once v is reached
            stack[0], n_stack = root, 1 if first[root] > -2 else 0
            while n_stack > 0:
                n_stack -= 1
                v = stack[n_stack]
                h, first[v] = first[v], -2
                while h >= 0:
                    e = chosen[h // 2]
                    u = tail[e] if h % 2 else head[e]
                    if first[u] > -2:
                        if h % 2:
                            into_tail[e] += 1.0
                        else:
                            into_head[e] += 1.0
                        stack[n_stack] = u
                        n_stack += 1
                    h = following[h]
        at = np.empty(n_forests + 2, np.int64)
        for c in range(n_forests + 2):
            at[c] = 0
        for e in range(n_edges):
            at[count[e] + 1] += 1
        n_missed = at[1]
        for c in range(n_forests):
            at[c + 1] += at[c]
        for e in range(n_edges):
            by_count[at[count[e]]] = e
            at[count[e]] += 1
        order, by_count = by_count, order
    return n_forests


@kernel
def find(above, v):
    """The representative of a node's set; paths to it are halved."""
    while above[v] != v:
        above[v] = above[above[v]]
        v = above[v]
    return v


@kernel
def eliminate(ptr, row, weight, stop, total):
    """Remove nodes 0..stop-1 of a network by star-mesh transforms, in place.

    Conductances `weight` of the removed nodes become shares of their sum, kept in `total`. Only
    positive numbers are added, so nothing cancels.
    """
    slot = np.full(total.shape[0], -1)
    for j in range(stop):
        first, last = ptr[j], ptr[j + 1]
        total[j] = 0.0
        for a in range(first, last):
            total[j] += weight[a]
            slot[row[a]] = a
        for a in range(first, last):
            k = row[a]
            share = weight[a] / total[j]
            for b in range(ptr[k], ptr[k + 1]):
                if slot[row[b]] >= 0:
                    weight[b] += share * weight[slot[row[b]]]
        for a in range(first, last):
            weight[a] /= total[j]
            slot[row[a]] = -1


@kernel
def resistances(ptr, row, share, stop, total, resistance, to_root):
    """Effective resistance of every entry of the factor, last column to first, in place.

    Node j sees the later ones through shares p of its conductance c, whence
    R_jk = 1/c + sum_l p_l R_lk - 1/2 sum_lm p_l p_m R_lm  for every later node k. The last node
    of a component, which sees none, is its root; `to_root` collects the resistances to it.
    """
    slot = np.full(total.shape[0], -1)
    for j in range(stop - 1, -1, -1):
        first, last = ptr[j], ptr[j + 1]
        if first == last:
            to_root[j] = 0.0
            continue
        for a in range(first, last):
            slot[row[a]] = a
            resistance[a] = 0.0
        for a in range(first, last):
            k = row[a]
            mean = 0.0
            for b in range(ptr[k], ptr[k + 1]):
                other = slot[row[b]]
                if other >= 0:
                    mean += share[other] * resistance[b]
                    resistance[other] += share[a] * resistance[b]
            resistance[a] += mean
        constant = 1.0 / total[j]
        for a in range(first, last):
            constant -= 0.5 * share[a] * resistance[a]
        to_root[j] = constant
        for a in range(first, last):
            resistance[a] += constant
            to_root[j] += share[a] * to_root[row[a]]
            slot[row[a]] = -1


@kernel
def orient(flow, order):
    """Point whole edges while nodes can be peeled off, then fill the others and move weight.

    Returns the nodes of a set S with rho(E(S)) > |S|, none if there is an orientation.
    """
    n = flow.load.shape[0]
    stack = np.empty(n, np.int64)
    n_stack = 0
    for v in range(n):
        if flow.degree[v] <= 1.0 + ROUNDING:
            stack[n_stack] = v
            n_stack += 1
    prune_light_nodes(flow, stack, n_stack)
    fill_in_order(flow, order)
    sources = np.flatnonzero(flow.alive)
    n_reached = drain(flow, sources)
    for v in sources:
        if flow.load[v] > 1.0 + ROUNDING:
            return flow.queue[:n_reached].copy()
    return flow.queue[:0].copy()


@kernel
def fill_in_order(flow, order):
    """Load every node in turn up to 1 from the edges to later nodes, which get the rest.

    The weight that remains to be moved then mostly lies near the end of the order, close to nodes
    below their capacity.
    """
    weight, mate, load = flow.weight, flow.mate, flow.load
    waiting = flow.alive.copy()
    load[:] = 0.0
    for v in order:
        if not waiting[v]:
            continue
        waiting[v] = False
        total = 0.0
        for h in range(flow.ptr[v], flow.ptr[v + 1]):
            if waiting[flow.node[h]]:
                total += weight[h] + weight[mate[h]]
        if total == 0.0:
            continue
        taken = min(max(1.0 - load[v], 0.0), total)
        load[v] += taken
        for h in range(flow.ptr[v], flow.ptr[v + 1]):
            u = flow.node[h]
            if waiting[u]:
                rho = weight[h] + weight[mate[h]]
                weight[h] = rho * (taken / total)
                weight[mate[h]] = rho - weight[h]
                load[u] += weight[mate[h]]


@kernel
def overfull_set(flow, order, tolerance):
    """Nodes of a set S with rho(E(S)) > |S| - 1 + tolerance, none if there is no such set.

    Some such set contains r exactly when an oriented flow cannot move all load off r. Otherwise r
    is removed, which frees capacity at its neighbours. Nodes whose edges weigh at most 1 are pruned
    without a search: removing them from a set does not reduce its violation.
    """
    stack = np.empty(flow.load.shape[0], np.int64)
    for r in order:
        if not flow.alive[r]:
            continue
        flow.capacity[r] = 0.0
        n_reached = drain(flow, np.array([r]))
        if flow.load[r] > tolerance:
            return flow.queue[:n_reached].copy()
        prune_light_nodes(flow, stack, remove(flow, r, stack, 0))
    return flow.queue[:0].copy()


@kernel
def prune_light_nodes(flow, stack, n_stack):
    """Remove the stacked nodes and those whose remaining edges weigh at most 1 after that."""
    while n_stack > 0:
        v = stack[n_stack - 1]
        n_stack = remove(flow, v, stack, n_stack - 1)


@kernel
def remove(flow, v, stack, n_stack):
    """Point the remaining edges of v into it, drop them, and stack neighbours that may follow."""
    weight, mate, degree = flow.weight, flow.mate, flow.degree
    flow.alive[v] = False
    for h in range(flow.ptr[v], flow.ptr[v + 1]):
        u = flow.node[h]
        if flow.alive[u]:
            before = degree[u]
            flow.load[u] -= weight[mate[h]]
            weight[h] += weight[mate[h]]
            weight[mate[h]] = 0.0
            degree[u] -= weight[h]
            if degree[u] <= 1.0 + ROUNDING < before:
                stack[n_stack] = u
                n_stack += 1
    return n_stack


@kernel
def drain(flow, sources):
    """Move load off sources above their capacity to nodes below theirs (Dinic's algorithm).

    At the end flow.queue starts with the nodes that sources still above it reach; their number
    is returned.
    """
    ptr, node, weight, level, queue = flow.ptr, flow.node, flow.weight, flow.level, flow.queue
    while True:
        n_queue = 0
        for v in sources:
            if flow.load[v] - flow.capacity[v] > TINY:
                level[v] = 0
                queue[n_queue] = v
                n_queue += 1
        n_sources = n_queue
        target = -1  # level of the nearest nodes below their capacity
        q = 0
        while q < n_queue and level[queue[q]] != target:
            v = queue[q]
            q += 1
            for h in range(ptr[v], ptr[v + 1]):
                u = node[h]
                if weight[h] > TINY and level[u] < 0:
                    level[u] = level[v] + 1
                    queue[n_queue] = u
                    n_queue += 1
                    if flow.capacity[u] - flow.load[u] > TINY:
                        target = level[u]
        if target > 0:
            for q in range(n_queue):
                flow.arc[queue[q]] = ptr[queue[q]]
            for q in range(n_sources):
                saturate(flow, queue[q], target)
        for q in range(n_queue):
            level[queue[q]] = -1
        if target < 0:
            return n_queue


@kernel
def saturate(flow, source, target):
    """Move load off one source along paths of `target` steps, until there are none."""
    weight, mate, node, level = flow.weight, flow.mate, flow.node, flow.level
    load, capacity, arc, path = flow.load, flow.capacity, flow.arc, flow.path
    v = source
    depth = 0
    while load[source] - capacity[source] > TINY:
        if depth == target and capacity[v] - load[v] > TINY:
            amount = min(load[source] - capacity[source], capacity[v] - load[v])
            for d in range(depth):
                amount = min(amount, weight[path[d]])
            load[source] -= amount
            load[v] += amount
            for d in range(target - 1, -1, -1):
                weight[path[d]] -= amount
                weight[mate[path[d]]] += amount
                if weight[path[d]] <= TINY:  # go on from where the path is cut
                    depth = d
                    v = node[mate[path[d]]]
            continue
        if depth < target:
            end = flow.ptr[v + 1]
            while arc[v] < end and (weight[arc[v]] <= TINY or level[node[arc[v]]] != level[v] + 1):
                arc[v] += 1
            if arc[v] < end:
                path[depth] = arc[v]
                v = node[arc[v]]
                depth += 1
                continue
        if depth == 0:
            return
        depth -= 1
        v = node[mate[path[depth]]]
        arc[v] += 1
