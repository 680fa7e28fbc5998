"""Worm updates and local moves of matchings; `worm_chain` derives them.

A state is `slot` of shape (n_nodes,): the entry of a node's partner in its neighbour list, or
SINGLE.
"""

import numpy as np

from ..._compile import kernel

SINGLE = -1  # in place of the edge of a node that stays single
OUTSIDE = -1  # head of the worm after the hole has left the graph by a node that stays single


@kernel
def balance_prices(ptr, col, score, free, single, prices, rounds):
    """Damped symmetric Sinkhorn steps: the weights of every node's options approach a sum of 1.

    An option's weight is exp(score - price - price of the partner). Prices of free nodes stay at or
    above their single scores.
    """
    n = prices.shape[0]
    wanted = np.empty(n)
    for _ in range(rounds):
        for v in range(n):
            top = single[v] if free[v] else -np.inf
            for k in range(ptr[v], ptr[v + 1]):
                top = max(top, score[k] - prices[col[k]])
            total = np.exp(single[v] - top) if free[v] else 0.0
            for k in range(ptr[v], ptr[v + 1]):
                total += np.exp(score[k] - prices[col[k]] - top)
            wanted[v] = top + np.log(total)
        for v in range(n):
            prices[v] = 0.5 * (prices[v] + wanted[v])


@kernel
def fill_weights(ptr, col, score, free, single, prices, sums, total, leaving):
    """Running sums of the weights of every node's options; the single one comes last."""
    for v in range(prices.shape[0]):
        top = single[v] if free[v] else -np.inf
        for k in range(ptr[v], ptr[v + 1]):
            top = max(top, score[k] - prices[col[k]])
        total[v] = 0.0
        for k in range(ptr[v], ptr[v + 1]):
            total[v] += np.exp(score[k] - prices[col[k]] - top)
            sums[k] = total[v]
        if free[v]:
            total[v] += np.exp(single[v] - top)
        leaving[v] = np.exp(min(single[v] - prices[v], 0.0)) if free[v] else 0.0


@kernel
def draw_entry(sums, first, last, mark):
    """The first entry in first:last whose running sum is above `mark`; `last` if there is none."""
    while first < last:
        middle = (first + last) // 2
        if sums[middle] > mark:
            last = middle
        else:
            first = middle + 1
    return first


@kernel
def entry(ptr, col, v, w):
    """Where w stands in the list of v's neighbours, -1 if it does not."""
    first, last = ptr[v], ptr[v + 1]
    while first < last:
        middle = (first + last) // 2
        if col[middle] < w:
            first = middle + 1
        else:
            last = middle
    return first if first < ptr[v + 1] and col[first] == w else -1


@kernel
def find_slots(ptr, col, partner, slot):
    """The entries of partners in the lists of neighbours; the first node that has none, or -1."""
    for v in range(partner.shape[0]):
        slot[v] = SINGLE
        if partner[v] >= 0:
            slot[v] = entry(ptr, col, v, partner[v])
            if slot[v] < 0:
                return v
    return -1


@kernel
def put(slot, v, k, log):
    """Give node v the entry k and log its entry from before the update."""
    if log.last[v] != log.counts[0]:
        log.last[v] = log.counts[0]
        log.node[log.counts[1]] = v
        log.slot[log.counts[1]] = slot[v]
        log.counts[1] += 1
    slot[v] = k


@kernel
def worm_update(graph, slot, log, limit, rng):
    """One update, until it ends or is undone after `limit` steps; returns the number of steps."""
    log.counts[0] += 1
    log.counts[1] = 0
    tail = int(rng.random() * slot.shape[0])
    head = OUTSIDE if slot[tail] == SINGLE else graph.col[slot[tail]]
    for step in range(limit):
        if head == OUTSIDE:
            w = graph.free_nodes[int(rng.random() * graph.free_nodes.shape[0])]
            if w != tail and slot[w] == SINGLE:
                head = w
            elif rng.random() < graph.leaving[w]:
                if w != tail:
                    head = graph.col[slot[w]]
                put(slot, w, SINGLE, log)
                if w == tail:
                    return step + 1
            continue
        first, last = graph.ptr[head], graph.ptr[head + 1]
        k = draw_entry(graph.sums, first, last, rng.random() * graph.total[head])
        if k == last:
            if graph.leaving[head] == 0.0:
                continue  # by rounding
            put(slot, head, SINGLE, log)
            head = OUTSIDE
            continue
        w = graph.col[k]
        before = slot[w]
        put(slot, head, k, log)
        put(slot, w, graph.twin[k], log)
        if w == tail:
            return step + 1
        head = OUTSIDE if before == SINGLE else graph.col[before]
    for k in range(log.counts[1]):
        slot[log.node[k]] = log.slot[k]
    log.counts[2] += 1
    return limit


@kernel
def entry_score(graph, score, shift, v, k):
    """The score of the edge at v's entry k; edges are stored in the order of their lower ends."""
    w = graph.col[k]
    return score[k - shift[v + 1]] if v < w else score[graph.twin[k] - shift[w + 1]]


@kernel
def local_move(graph, slot, free, score, shift, single, rng):
    """Heat bath on a random edge: remove it if it is used, else add it if that is possible.

    Two pairs are re-paired, or a pair exchanges one of its nodes for a single node, or two single
    nodes become a pair, or a pair becomes two single nodes. The reverse move starts from as many
    edges.
    """
    k = int(rng.random() * graph.col.shape[0])
    twin = graph.twin[k]
    a, c = graph.col[twin], graph.col[k]
    u = rng.random()
    gain = entry_score(graph, score, shift, a, k)
    if slot[a] == k:
        gain = single[a] + single[c] - gain
        if free[a] and free[c] and u * (1.0 + np.exp(-gain)) < 1.0:
            slot[a] = slot[c] = SINGLE
        return
    if slot[a] == SINGLE:
        a, c = c, a
        k, twin = twin, k
    # If only one of the two is single, it is c; if both are, so is a.
    if slot[a] == SINGLE:
        gain -= single[a] + single[c]
        if u * (1.0 + np.exp(-gain)) < 1.0:
            slot[a], slot[c] = k, twin
        return
    b = graph.col[slot[a]]
    gain -= entry_score(graph, score, shift, a, slot[a])
    if slot[c] == SINGLE:
        gain += single[b] - single[c]
        if free[b] and u * (1.0 + np.exp(-gain)) < 1.0:
            slot[a], slot[c], slot[b] = k, twin, SINGLE
        return
    d = graph.col[slot[c]]
    across = entry(graph.ptr, graph.col, b, d)
    if across >= 0:
        gain += entry_score(graph, score, shift, b, across)
        gain -= entry_score(graph, score, shift, c, slot[c])
        if u * (1.0 + np.exp(-gain)) < 1.0:
            slot[a], slot[c] = k, twin
            slot[b], slot[d] = across, graph.twin[across]


@kernel
def count_worms(graph, slot, log, limit, n_steps, rng):
    """The number of worm updates that make n_steps steps."""
    count = 0
    while n_steps > 0:
        n_steps -= worm_update(graph, slot, log, limit, rng)
        count += 1
    return count


@kernel
def sweep(
    graph, slot, log, limit, n_worms, n_local, free, score, shift, single, weights, rng, trace
):
    """A sweep for each row of `trace`: the total score, then sums of products of weights."""
    for t in range(trace.shape[0]):
        for _ in range(n_worms):
            worm_update(graph, slot, log, limit, rng)
        for _ in range(n_local):
            local_move(graph, slot, free, score, shift, single, rng)
        trace[t] = 0.0
        for v in range(slot.shape[0]):
            if slot[v] == SINGLE:
                trace[t, 0] += single[v]
                for k in range(weights.shape[0]):
                    trace[t, k + 1] += weights[k, v]
                continue
            w = graph.col[slot[v]]
            if v < w:
                trace[t, 0] += score[slot[v] - shift[v + 1]]
                for k in range(weights.shape[0]):
                    trace[t, k + 1] += weights[k, v] * weights[k, w]
