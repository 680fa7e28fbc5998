"""Worm updates and local moves of matchings; `worm_chain` derives them.

A state is `partner` of shape (n_nodes,), -1 for single nodes.
"""

import numpy as np

from ..._compile import kernel

SINGLE = -1  # in place of a partner
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
def edge_between(graph, v, w):
    """The edge that joins v and w, -1 if there is none."""
    low, high = min(v, w), max(v, w)
    first, end = graph.start[low], graph.start[low + 1]
    last = end
    while first < last:
        middle = (first + last) // 2
        if graph.high[middle] < high:
            first = middle + 1
        else:
            last = middle
    return first if first < end and graph.high[first] == high else -1


@kernel
def put(partner, v, w, log):
    """Give node v the partner w and log its partner from before the update."""
    if log.last[v] != log.counts[0]:
        log.last[v] = log.counts[0]
        log.node[log.counts[1]] = v
        log.partner[log.counts[1]] = partner[v]
        log.counts[1] += 1
    partner[v] = w


@kernel
def worm_update(graph, partner, log, limit, rng):
    """One update, until it ends or is undone after `limit` steps; returns the number of steps."""
    log.counts[0] += 1
    log.counts[1] = 0
    tail = int(rng.random() * partner.shape[0])
    head = partner[tail]  # OUTSIDE if single
    for step in range(limit):
        if head == OUTSIDE:
            w = graph.free_nodes[int(rng.random() * graph.free_nodes.shape[0])]
            if w != tail and partner[w] == SINGLE:
                head = w
            elif rng.random() < graph.leaving[w]:
                if w != tail:
                    head = partner[w]
                put(partner, w, SINGLE, log)
                if w == tail:
                    return step + 1
            continue
        first, last = graph.ptr[head], graph.ptr[head + 1]
        k = draw_entry(graph.sums, first, last, rng.random() * graph.total[head])
        if k == last:
            if graph.leaving[head] == 0.0:
                continue  # by rounding
            put(partner, head, SINGLE, log)
            head = OUTSIDE
            continue
        w = graph.col[k]
        before = partner[w]
        put(partner, head, w, log)
        put(partner, w, head, log)
        if w == tail:
            return step + 1
        head = before
    for k in range(log.counts[1]):
        partner[log.node[k]] = log.partner[k]
    log.counts[2] += 1
    return limit


@kernel
def local_move(graph, partner, free, score, single, rng):
    """Heat bath on a random edge: remove it if it is used, else add it if that is possible.

    Two pairs are re-paired, or a pair exchanges one of its nodes for a single node, or two single
    nodes become a pair, or a pair becomes two single nodes. The reverse move starts from as many
    edges.
    """
    e = int(rng.random() * graph.high.shape[0])
    a, c = graph.low[e], graph.high[e]
    u = rng.random()
    gain = score[e]
    if partner[a] == c:
        gain = single[a] + single[c] - gain
        if free[a] and free[c] and u * (1.0 + np.exp(-gain)) < 1.0:
            partner[a] = partner[c] = SINGLE
        return
    if partner[a] == SINGLE:
        a, c = c, a
    # If only one of the two is single, it is c; if both are, so is a.
    if partner[a] == SINGLE:
        gain -= single[a] + single[c]
        if u * (1.0 + np.exp(-gain)) < 1.0:
            partner[a], partner[c] = c, a
        return
    b = partner[a]
    gain -= score[edge_between(graph, a, b)]
    if partner[c] == SINGLE:
        gain += single[b] - single[c]
        if free[b] and u * (1.0 + np.exp(-gain)) < 1.0:
            partner[a], partner[c], partner[b] = c, a, SINGLE
        return
    d = partner[c]
    across = edge_between(graph, b, d)
    if across >= 0:
        gain += score[across] - score[edge_between(graph, c, d)]
        if u * (1.0 + np.exp(-gain)) < 1.0:
            partner[a], partner[c] = c, a
            partner[b], partner[d] = d, b


@kernel
def count_worms(graph, partner, log, limit, n_steps, rng):
    """The number of worm updates that make n_steps steps."""
    count = 0
    while n_steps > 0:
        n_steps -= worm_update(graph, partner, log, limit, rng)
        count += 1
    return count


@kernel
def sweep(graph, partner, log, limit, n_worms, n_local, free, score, single, weights, rng, trace):
    """A sweep for each row of `trace`: the total score, then sums of products of weights."""
    for t in range(trace.shape[0]):
        for _ in range(n_worms):
            worm_update(graph, partner, log, limit, rng)
        for _ in range(n_local):
            local_move(graph, partner, free, score, single, rng)
        trace[t] = 0.0
        for v in range(partner.shape[0]):
            w = partner[v]
            if w == SINGLE:
                trace[t, 0] += single[v]
                for k in range(weights.shape[0]):
                    trace[t, k + 1] += weights[k, v]
            elif v < w:
                trace[t, 0] += score[edge_between(graph, v, w)]
                for k in range(weights.shape[0]):
                    trace[t, k + 1] += weights[k, v] * weights[k, w]
