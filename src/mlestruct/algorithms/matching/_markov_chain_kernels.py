"""Walks of a hole through a matching: how one matching of a graph becomes another.

A state is `slot`: every node's entry of its partner in its list of neighbours, or SINGLE. Why
the walks are right is explained in `matching_chain`.
"""

import numpy as np

from ..._compile import kernel

SINGLE = -1
OUTSIDE = -1  # where the hole is after it has left the graph by a node that stays single


@kernel
def balance_prices(ptr, col, score, free, single, prices, rounds):
    """Move prices towards those at which the options of every node add up to 1.

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
def fill_choices(ptr, col, score, free, single, prices, sums, total, leaving):
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
def chosen(sums, first, last, mark):
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
def put(slot, v, k, memory):
    """Give node v the entry k, remembering what it had when the walk began."""
    if memory.last[v] != memory.clock[0]:
        memory.last[v] = memory.clock[0]
        memory.node[memory.clock[1]] = v
        memory.slot[memory.clock[1]] = slot[v]
        memory.clock[1] += 1
    slot[v] = k


@kernel
def walk(paths, slot, memory, limit, rng):
    """One walk, until it closes or is taken back after `limit` steps; the number of steps."""
    memory.clock[0] += 1
    memory.clock[1] = 0
    tail = int(rng.random() * slot.shape[0])
    head = OUTSIDE if slot[tail] == SINGLE else paths.col[slot[tail]]
    for step in range(limit):
        if head == OUTSIDE:
            w = paths.free_nodes[int(rng.random() * paths.free_nodes.shape[0])]
            if w != tail and slot[w] == SINGLE:
                head = w
            elif rng.random() < paths.leaving[w]:
                if w != tail:
                    head = paths.col[slot[w]]
                put(slot, w, SINGLE, memory)
                if w == tail:
                    return step + 1
            continue
        first, last = paths.ptr[head], paths.ptr[head + 1]
        k = chosen(paths.sums, first, last, rng.random() * paths.total[head])
        if k == last:
            if paths.leaving[head] == 0.0:
                continue  # only rounding leads here
            put(slot, head, SINGLE, memory)
            head = OUTSIDE
            continue
        w = paths.col[k]
        before = slot[w]
        put(slot, head, k, memory)
        put(slot, w, paths.twin[k], memory)
        if w == tail:
            return step + 1
        head = OUTSIDE if before == SINGLE else paths.col[before]
    for k in range(memory.clock[1]):
        slot[memory.node[k]] = memory.slot[k]
    memory.clock[2] += 1
    return limit


@kernel
def entry_score(paths, score, shift, v, k):
    """The score of the edge at v's entry k; edges are stored in the order of their lower ends."""
    w = paths.col[k]
    return score[k - shift[v + 1]] if v < w else score[paths.twin[k] - shift[w + 1]]


@kernel
def nudge(paths, slot, free, score, shift, single, rng):
    """Use a random edge, drop it if it is used, if what becomes of its ends' partners allows it.

    Two pairs are re-paired, or a pair takes in a single node for one of its own, or two single
    nodes become a pair or a pair two single nodes. The reverse begins at as many edges.
    """
    k = int(rng.random() * paths.col.shape[0])
    twin = paths.twin[k]
    a, c = paths.col[twin], paths.col[k]
    u = rng.random()
    gain = entry_score(paths, score, shift, a, k)
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
    b = paths.col[slot[a]]
    gain -= entry_score(paths, score, shift, a, slot[a])
    if slot[c] == SINGLE:
        gain += single[b] - single[c]
        if free[b] and u * (1.0 + np.exp(-gain)) < 1.0:
            slot[a], slot[c], slot[b] = k, twin, SINGLE
        return
    d = paths.col[slot[c]]
    across = entry(paths.ptr, paths.col, b, d)
    if across >= 0:
        gain += entry_score(paths, score, shift, b, across)
        gain -= entry_score(paths, score, shift, c, slot[c])
        if u * (1.0 + np.exp(-gain)) < 1.0:
            slot[a], slot[c] = k, twin
            slot[b], slot[d] = across, paths.twin[across]


@kernel
def count_walks(paths, slot, memory, limit, n_steps, rng):
    """How many walks it takes to make n_steps steps."""
    count = 0
    while n_steps > 0:
        n_steps -= walk(paths, slot, memory, limit, rng)
        count += 1
    return count


@kernel
def sweep(
    paths, slot, memory, limit, n_walks, n_nudges, free, score, shift, single, weights, rng, trace
):
    """Walks and nudges for each row of `trace`: the score, then sums of products of weights."""
    for t in range(trace.shape[0]):
        for _ in range(n_walks):
            walk(paths, slot, memory, limit, rng)
        for _ in range(n_nudges):
            nudge(paths, slot, free, score, shift, single, rng)
        trace[t] = 0.0
        for v in range(slot.shape[0]):
            if slot[v] == SINGLE:
                trace[t, 0] += single[v]
                for k in range(weights.shape[0]):
                    trace[t, k + 1] += weights[k, v]
                continue
            w = paths.col[slot[v]]
            if v < w:
                trace[t, 0] += score[slot[v] - shift[v + 1]]
                for k in range(weights.shape[0]):
                    trace[t, k + 1] += weights[k, v] * weights[k, w]
