"""Sums over all matchings, and random matchings: dynamic programming over frontier states.

Nodes are eliminated one after another. A step decides edges of the current node v: at most one of a
group of them is chosen, which is all edges from v to later nodes if v takes one partner, and a
single edge otherwise. Between two steps only the nodes of the *frontier* matter, those with both
decided and undecided edges: a state is how many partners each of them may still take, and a *code*
holds it as one integer, with a bit field for every node. A node that leaves the frontier must be
filled unless it is free. So matchings are the paths from the first state, where nothing is decided,
to the last (the transfer-matrix method).

A weight is the number m B^e with B = 2^512, as the pair (m, e): sums of any size, in one way.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._compile import inlined_kernel, kernel

MAX_BITS = 62  # of a code, an integer of 64 bits with its sign
TINY, HUGE = 2.0**-256, 2.0**256  # m is between them
DOWN, UP = 2.0**-512, 2.0**512

Ints = NDArray[np.int64]
Places = NDArray[np.int32]


class Steps(NamedTuple):
    """Step k decides the edges ptr[k] .. ptr[k + 1] - 1 from its node to others.

    A node takes up to `units` partners, fewer if it is free, and is in the frontier from step
    `enter` to step `leave`.
    """

    ptr: Ints
    node: Ints
    edge: Ints
    other: Ints
    enter: Ints
    leave: Ints
    units: Ints
    free: NDArray[np.bool_]


class States(NamedTuple):
    """All states, from the first to the last.

    The transitions first[s] .. first[s + 1] - 1 of state s choose the edge `label` (n_edges: none)
    and lead to the state `to`.
    """

    first: Places
    to: Places
    label: Places


@kernel
def resized(array, n_kept, size):
    """The first numbers of an array, in a new one."""
    out = np.empty(size, array.dtype)
    for k in range(n_kept):
        out[k] = array[k]
    return out


@kernel
def rehash(codes, n_codes, log_size):
    """A hash table of the places of codes."""
    table = np.full(1 << log_size, -1, np.int32)
    for c in range(n_codes):
        table[slot_of(codes[c], codes, table, log_size)] = c
    return table


@inlined_kernel
def slot_of(code, codes, table, log_size):
    """The slot of a code, which is empty (-1) if it is new."""
    last = table.shape[0] - 1
    # Fibonacci hashing: the highest bits of a product with 2^64 over the golden ratio.
    slot = ((code * -7046029254386353131) >> (64 - log_size)) & last
    while table[slot] >= 0 and codes[table[slot]] != code:
        slot = (slot + 1) & last
    return slot


@kernel
def expand(steps, no_edge, limit):
    """All states and transitions: (step, is_too_large, states).

    The step is not the last one if no state is left after it, or if the problem is too large: codes
    of too many bits, or more than `limit` transitions.
    """
    first, to, label = np.empty(64, np.int32), np.empty(1024, np.int32), np.empty(1024, np.int32)
    n_steps = steps.node.shape[0]
    shift, full = np.zeros((2, steps.units.shape[0]), np.int64)  # field of a node, and all its bits
    for u in range(full.shape[0]):
        while full[u] < steps.units[u]:
            full[u] = 2 * full[u] + 1
    fields, masks = np.empty((2, steps.edge.shape[0]), np.int64)
    taken = np.int64(0)
    codes, n_codes, begin, filled = np.zeros(1, np.int64), 1, 0, 0
    for k in range(n_steps):
        v = steps.node[k]
        added = removed = must = np.int64(0)
        for i in range(steps.ptr[k] - 1, steps.ptr[k + 1]):
            u = v if i < steps.ptr[k] else steps.other[i]
            mask = full[u]
            if steps.enter[u] == k:
                shift[u] = 0
                while taken & (mask << shift[u]):
                    shift[u] += 1
                if mask >> (MAX_BITS - shift[u]) > 0:
                    return k, True, States(first, to, label)
                taken |= mask << shift[u]
                added |= steps.units[u] << shift[u]
            if steps.leave[u] == k:
                removed |= mask << shift[u]
                if not steps.free[u]:
                    must |= mask << shift[u]
        taken &= ~removed
        own, own_mask = np.int64(1) << shift[v], full[v] << shift[v]
        for i in range(steps.ptr[k], steps.ptr[k + 1]):
            u = steps.other[i]
            fields[i], masks[i] = np.int64(1) << shift[u], full[u] << shift[u]
        following, n_following = np.empty(4 * n_codes + 4, np.int64), 0
        log_size = 4
        while 1 << log_size < 2 * n_codes:
            log_size += 1
        table = rehash(following, 0, log_size)
        end = begin + n_codes
        if first.shape[0] < end + 2:
            first = resized(first, begin, 2 * end + 2)
        for s in range(n_codes):
            first[begin + s] = filled
            if to.shape[0] < filled + 1 + steps.ptr[k + 1] - steps.ptr[k]:
                size = 2 * to.shape[0] + steps.edge.shape[0]
                to, label = resized(to, filled, size), resized(label, filled, size)
            code = codes[s] | added
            last = steps.ptr[k + 1] if code & own_mask else steps.ptr[k]
            for i in range(steps.ptr[k] - 1, last):
                chosen = code
                if i >= steps.ptr[k]:
                    if code & masks[i] == 0:
                        continue
                    chosen -= own + fields[i]
                if chosen & must:
                    continue
                chosen &= ~removed
                slot = slot_of(chosen, following, table, log_size)
                if table[slot] < 0:
                    if 2 * n_following >= table.shape[0] or n_following == following.shape[0]:
                        following = resized(following, n_following, 2 * following.shape[0])
                        log_size += 2
                        table = rehash(following, n_following, log_size)
                        slot = slot_of(chosen, following, table, log_size)
                    following[n_following] = chosen
                    table[slot] = n_following
                    n_following += 1
                to[filled] = end + table[slot]
                label[filled] = steps.edge[i] if i >= steps.ptr[k] else no_edge
                filled += 1
            if filled > limit:
                return k, True, States(first, to, label)
        codes, n_codes, begin = following, n_following, end
        if n_codes == 0:
            return k, False, States(first, to, label)
    first[begin] = first[begin + 1] = filled
    to, label = resized(to, filled, filled), resized(label, filled, filled)
    return n_steps, False, States(resized(first, begin + 2, begin + 2), to, label)


@inlined_kernel
def product(m, e, n, f):
    """(m, e) times (n, f)."""
    m, e = m * n, e + f
    if m > HUGE:
        m, e = m * DOWN, e + 1.0
    elif m < TINY:
        m, e = m * UP, e - 1.0
    return m, e


@inlined_kernel
def total(m, e, n, f):
    """(m, e) plus (n, f); 0 is (0, -inf)."""
    if f > e:
        m, e, n, f = n, f, m, e
    if f == e:
        m += n
    elif f == e - 1.0:
        m += n * DOWN
    if m > HUGE:
        m, e = m * DOWN, e + 1.0
    return m, e


@inlined_kernel
def share(m, e, n, f):
    """(m, e) over (n, f), of which it is a part."""
    if e == f:
        return m / n
    if e == f - 1.0:
        return m / n * DOWN
    return m / n * UP if e == f + 1.0 else 0.0


@kernel
def count(states, weight, power, ways, exponent, used):
    """Write the backward sums of all states, and add the probabilities of edges to `used`.

    Edge e has the weight (weight[e], power[e]), the last one being that of no edge; `ways` and
    `exponent` are the weights of all paths from every state to the last.
    """
    first, to, label = states.first, states.to, states.label
    n_states = ways.shape[0]
    ways[n_states - 1], exponent[n_states - 1] = 1.0, 0.0
    for s in range(n_states - 2, -1, -1):
        m, e = 0.0, -np.inf
        for k in range(first[s], first[s + 1]):
            t, x = to[k], label[k]
            if ways[t] > 0.0:
                n, f = product(weight[x], power[x], ways[t], exponent[t])
                m, e = total(m, e, n, f)
        ways[s], exponent[s] = m, e
    before, scale = np.zeros(n_states), np.full(n_states, -np.inf)  # sums of paths to a state
    before[0], scale[0] = 1.0, 0.0
    for s in range(n_states - 1):
        if ways[s] == 0.0 or before[s] == 0.0:
            continue
        for k in range(first[s], first[s + 1]):
            t, x = to[k], label[k]
            if ways[t] == 0.0:
                continue
            m, e = product(before[s], scale[s], weight[x], power[x])
            before[t], scale[t] = total(before[t], scale[t], m, e)
            m, e = product(m, e, ways[t], exponent[t])
            used[x] += share(m, e, ways[0], exponent[0])


@kernel
def draw(states, weight, power, ways, exponent, rng, chosen):
    """Write independent random matchings: chosen[r, e] is whether edge e is in number r."""
    first, to, label = states.first, states.to, states.label
    n_samples, n_edges = chosen.shape
    for r in range(n_samples):
        s = 0
        while s != ways.shape[0] - 1:
            threshold, upto, taken = rng.random(), 0.0, -1
            for k in range(first[s], first[s + 1]):
                if ways[to[k]] == 0.0:
                    continue
                m, e = product(weight[label[k]], power[label[k]], ways[to[k]], exponent[to[k]])
                upto += share(m, e, ways[s], exponent[s])
                if upto > 0.0:
                    taken = k
                if upto > threshold:
                    break
            if label[taken] < n_edges:
                chosen[r, label[taken]] = True
            s = to[taken]
