"""Sequential max-sum message passing (TRW-S): a bound of the best score, and labellings.

The score is split among chains that run through the nodes in increasing order. A node with belief
b(x) = score(x) + sum of its messages gives each chain the same share of it. With the cavity
c(x) = share * b(x) - message(x), the message received over an edge, the edge carries

    message(y) = max_x [c(x) + score_e(x, y)] - max_x c(x).

After the way back the maxima that were subtracted, and the share of b that belongs to chains which
begin at a node, add up to the sum of the chains' maxima: an upper bound of the score of any
labelling, which no pass raises. On grids (layout of `_grid_trw_kernels`) chains
are rows and columns.
"""

import numpy as np

from ..._compile import kernel


@kernel
def pass_on_grid(links, starts, scores, across, along, messages, beliefs, cavity, top):
    """One pass over the diagonals of a grid and one back; beliefs receive share * b."""
    n_diagonals = starts.shape[0] - 1
    n_states = scores.shape[0]
    for step in range(2 * n_diagonals - 1):
        backwards = step >= n_diagonals - 1
        d = 2 * (n_diagonals - 1) - step if backwards else step
        first = starts[d]
        last = starts[d + 1]
        for x in range(n_states):
            left = messages[0, x, first:last]
            above = messages[1, x, first:last]
            right = messages[2, x, first:last]
            below = messages[3, x, first:last]
            own = scores[x, first:last]
            belief = beliefs[x, first:last]
            for p in range(last - first):
                belief[p] = 0.5 * (own[p] + ((left[p] + right[p]) + (above[p] + below[p])))
        for axis in range(2 if d > 0 or not backwards else 0):
            link = links[axis, d - 1 if backwards else d]
            count = link[2]
            source = link[1] if backwards else link[0]
            target = link[0] if backwards else link[1]
            tables = across if axis == 0 else along
            for x in range(n_states):
                belief = beliefs[x, source : source + count]
                received = messages[axis if backwards else axis + 2, x, source : source + count]
                hollow = cavity[x]
                for p in range(count):
                    value = belief[p] - received[p]
                    hollow[p] = value
                    top[p] = value if x == 0 or value > top[p] else top[p]
            for y in range(n_states):
                sent = messages[axis + 2 if backwards else axis, y, target : target + count]
                for x in range(n_states):
                    table = tables[y, x] if backwards else tables[x, y]
                    hollow = cavity[x]
                    if tables.shape[2] == 1:
                        score = table[0]
                        for p in range(count):
                            value = score + hollow[p]
                            sent[p] = value if x == 0 or value > sent[p] else sent[p]
                    else:
                        own = table[link[3] : link[3] + count]
                        for p in range(count):
                            value = own[p] + hollow[p]
                            sent[p] = value if x == 0 or value > sent[p] else sent[p]
                for p in range(count):
                    sent[p] -= top[p]


@kernel
def bound_on_grid(beliefs, messages):
    """The sum of the maxima of rows and columns, after a pass."""
    total = 0.0
    for axis in range(2):
        for p in range(beliefs.shape[1]):
            best = beliefs[0, p] - messages[axis, 0, p]
            for x in range(1, beliefs.shape[0]):
                best = max(best, beliefs[x, p] - messages[axis, x, p])
            total += best
    return total


@kernel
def decode_on_grid(links, starts, scores, across, along, messages, beliefs, labels):
    """Pixels in turn take the best state given those before and the messages from those behind."""
    n_states = scores.shape[0]
    for d in range(starts.shape[0] - 1):
        for p in range(starts[d], starts[d + 1]):
            for x in range(n_states):
                beliefs[x, p] = scores[x, p] + messages[2, x, p] + messages[3, x, p]
        for axis in range(2):
            if d == 0:
                break
            tables = across if axis == 0 else along
            link = links[axis, d - 1]
            for k in range(link[2]):
                e = 0 if tables.shape[2] == 1 else link[3] + k
                chosen = labels[link[0] + k]
                for x in range(n_states):
                    beliefs[x, link[1] + k] += tables[chosen, x, e]
        for p in range(starts[d], starts[d + 1]):
            best = 0
            for x in range(1, n_states):
                if beliefs[x, p] > beliefs[best, p]:
                    best = x
            labels[p] = best


@kernel
def pass_on_graph(ptr, later, mate, half, share, nodes, pairs, messages):
    """One pass in the order of the nodes of a graph, and one back; returns the bound.

    Half-edges are those of `_trw_kernels`, messages[p] goes into its node.
    """
    n, n_states = nodes.shape
    n_edges = pairs.shape[0]
    belief, cavity, sent = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    bound = 0.0
    for step in range(2 * n):
        backwards = step >= n
        i = 2 * n - 1 - step if backwards else step
        first = ptr[i] if backwards else later[i]
        stop = later[i] if backwards else ptr[i + 1]
        if first == stop and not backwards:
            continue
        for x in range(n_states):
            belief[x] = nodes[i, x]
        for p in range(ptr[i], ptr[i + 1]):
            for x in range(n_states):
                belief[x] += messages[p, x]
        most = belief[0]
        for x in range(n_states):
            most = max(most, belief[x])
            belief[x] *= share[i]
        if backwards:
            bound += max(1.0 - share[i] * (stop - first), 0.0) * most
        for p in range(first, stop):
            top = belief[0] - messages[p, 0]
            for x in range(n_states):
                cavity[x] = belief[x] - messages[p, x]
                top = max(top, cavity[x])
            if half[p] < n_edges:
                for y in range(n_states):
                    sent[y] = -np.inf
                for x in range(n_states):
                    for y in range(n_states):
                        sent[y] = max(sent[y], pairs[half[p], x, y] + cavity[x])
            else:
                for y in range(n_states):
                    best = -np.inf
                    for x in range(n_states):
                        best = max(best, pairs[half[p] - n_edges, y, x] + cavity[x])
                    sent[y] = best
            q = mate[p]
            for y in range(n_states):
                messages[q, y] = sent[y] - top
            bound += top if backwards else 0.0
    return bound


@kernel
def decode_on_graph(ptr, later, node, half, nodes, pairs, messages, labels):
    """Nodes in turn take the best state given those before and the messages from those behind."""
    n, n_states = nodes.shape
    n_edges = pairs.shape[0]
    belief = np.empty(n_states)
    for i in range(n):
        for x in range(n_states):
            belief[x] = nodes[i, x]
        for p in range(ptr[i], later[i]):
            chosen = labels[node[p]]
            for x in range(n_states):
                if half[p] < n_edges:
                    belief[x] += pairs[half[p], x, chosen]
                else:
                    belief[x] += pairs[half[p] - n_edges, chosen, x]
        for p in range(later[i], ptr[i + 1]):
            for x in range(n_states):
                belief[x] += messages[p, x]
        best = 0
        for x in range(1, n_states):
            if belief[x] > belief[best]:
                best = x
        labels[i] = best
