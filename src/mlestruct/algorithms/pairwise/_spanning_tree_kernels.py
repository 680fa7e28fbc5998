"""Kernels of spanning trees: a greedy packing, and augmenting paths for the forest polytope."""

import numpy as np

from ..._compile import kernel

TINY = 1e-10  # less is rounding, and is left where it is: moving it takes whole graphs


@kernel
def pack_parts(stops, ends, tail, head, wanted, into_tail, into_head):
    """Shares of edges in spanning trees of the parts of a graph, side by side: part p has the edges
    up to stops[p] and the nodes up to ends[p], which are numbered from 0 in each part.
    """
    first, begin = 0, 0
    for p in range(stops.shape[0]):
        stop, n = stops[p], ends[p] - begin
        if stop > first:
            tails, heads = into_tail[first:stop], into_head[first:stop]
            count = pack_trees(n, tail[first:stop], head[first:stop], wanted, tails, heads)
            tails /= count
            heads /= count
        first, begin = stop, ends[p]


@kernel
def pack_trees(n, tail, head, wanted, into_tail, into_head):
    """Spanning trees of a connected graph, each of the edges that are in the fewest so far.

    Returns how many there are: `wanted`, more until every edge is in one, fewer where all edges are
    in equally many. Edges are taken in the order given where they are in equally many. Each tree is
    directed away from one of its nodes; into_tail and into_head count the edges by direction.
    """
    n_edges = tail.shape[0]
    order, count = np.empty(n_edges, np.int64), np.zeros(n_edges, np.int64)
    for e in range(n_edges):
        order[e] = e
    n_trees = 0
    while n_trees < wanted or count[order[0]] == 0:
        n_trees += 1
        above, degree, link = np.empty(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
        for v in range(n):
            above[v] = v
        missing = n - 1
        for e in order:
            a, b = find(above, tail[e]), find(above, head[e])
            if a != b:
                above[a] = b
                count[e] += 1
                for v in (tail[e], head[e]):
                    degree[v] += 1
                    link[v] ^= e  # of a node with one edge left: that edge
                missing -= 1
                if missing == 0:
                    break
        for leaf in range(n):
            v = leaf
            while degree[v] == 1:
                e = link[v]
                u = tail[e] if head[e] == v else head[e]
                if head[e] == v:
                    into_head[e] += 1.0
                else:
                    into_tail[e] += 1.0
                degree[v] = 0
                degree[u] -= 1
                link[u] ^= e
                v = u
        place = np.zeros(n_trees + 2, np.int64)  # in the order: of the next edge of each count
        for e in range(n_edges):
            place[count[e] + 1] += 1
        for k in range(n_trees + 1):
            place[k + 1] += place[k]
        for e in range(n_edges):
            order[place[count[e]]] = e
            place[count[e]] += 1
        if count[order[0]] == count[order[-1]]:
            break
    return n_trees


@kernel
def find(above, v):
    """The representative of a node's set; paths to it are halved."""
    while above[v] != v:
        above[v] = above[above[v]]
        v = above[v]
    return v


@kernel
def divide(ptr, node, mate, weight, load, order, tol):
    """Weights moved between the halves of edges so that no node has more than 1; none if a set S of
    nodes has rho(E(S)) > |S| - 1 + tol.

    Some set that contains r is such a set exactly if not all weight can be moved off r (Cunningham
    1985). Then r is removed, which frees capacity at its neighbours.
    """
    came, queue = np.full(load.shape[0], -1), np.empty(load.shape[0], np.int64)
    for v in order:
        if relieve(v, 1.0, ptr, node, mate, weight, load, came, queue) > tol:
            return weight[:0]
    divided = weight.copy()
    for r in order:
        if relieve(r, 0.0, ptr, node, mate, weight, load, came, queue) > tol:
            return weight[:0]
        for h in range(ptr[r], ptr[r + 1]):
            load[node[h]] -= weight[mate[h]]
            weight[h] = weight[mate[h]] = 0.0
    return divided


@kernel
def relieve(v, most, ptr, node, mate, weight, load, came, queue):
    """Move weight that points into v along paths to nodes with less than 1 until v has `most`.

    Returns what v has more than that.
    Half-edge h at a node leads to node[h], mate[h] is its other half, weight[h] points into its own
    node. came[u] is the half-edge by which a search has reached u, -1 if it has not.
    """
    moved = 1.0
    while moved > 0.0 and load[v] - most > TINY:
        moved, n_queue, q = 0.0, 1, 0
        queue[0], came[v] = v, -2
        while q < n_queue and load[v] - most > TINY:
            x = queue[q]
            q += 1
            for h in range(ptr[x], ptr[x + 1]):
                u = node[h]
                if weight[h] <= TINY or came[u] != -1:
                    continue
                came[u], queue[n_queue] = h, u
                n_queue += 1
                amount, y = min(load[v] - most, 1.0 - load[u]), u
                while y != v and amount > TINY:
                    amount = min(amount, weight[came[y]])
                    y = node[mate[came[y]]]
                if amount > TINY:
                    y = u
                    while y != v:
                        weight[came[y]] -= amount
                        weight[mate[came[y]]] += amount
                        y = node[mate[came[y]]]
                    load[v] -= amount
                    load[u] += amount
                    moved += amount
        came[queue[:n_queue]] = -1
    return load[v] - most
