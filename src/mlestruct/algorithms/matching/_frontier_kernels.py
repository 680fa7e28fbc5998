"""The matchings of a graph as the paths of a layered graph of frontier states (transfer matrices).

Nodes are eliminated one after another. A step decides edges of the current node v: at most one of a
group of them is chosen, which is all edges from v to later nodes if v takes one partner, and a
single edge otherwise. Between two steps only the nodes of the *frontier* matter, those with both
decided and undecided edges: a state is how many partners each of them may still take. A node that
leaves the frontier must be filled unless it is free. So matchings are the paths from the first
state, where nothing is decided, to the last.

A code is a state as one integer, with a bit field for every node of the frontier.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._compile import kernel

MAX_BITS = 62  # of a code, an integer of 64 bits with its sign


class Graph(NamedTuple):
    """Entries ptr[i] .. ptr[i + 1] - 1 are the neighbours of node i and the edges to them."""

    ptr: NDArray[np.int64]
    node: NDArray[np.int64]
    edge: NDArray[np.int64]


class Nodes(NamedTuple):
    """Partners a node may take, whether it may take fewer, its side if its group is bipartite."""

    units: NDArray[np.int64]
    free: NDArray[np.bool_]
    side: NDArray[np.int64]
    is_two_sided: NDArray[np.bool_]


class Steps(NamedTuple):
    """Step k decides the edges ptr[k] .. ptr[k + 1] - 1 from its node to others.

    A node is in the frontier from step `enter` to step `leave`.
    """

    ptr: NDArray[np.int64]
    node: NDArray[np.int64]
    edge: NDArray[np.int64]
    other: NDArray[np.int64]
    enter: NDArray[np.int64]
    leave: NDArray[np.int64]


class Fields(NamedTuple):
    """Bit fields of step k: units left of its node and of the other ends of its edges.

    `added` has the units of nodes that enter the frontier, `removed` the fields of those that leave
    it, `emptied` those among them that must be zero.
    """

    own_shift: NDArray[np.int64]
    own_mask: NDArray[np.int64]
    shift: NDArray[np.int64]
    mask: NDArray[np.int64]
    added: NDArray[np.int64]
    emptied: NDArray[np.int64]
    removed: NDArray[np.int64]


@kernel
def bit_length(number):
    bits = 0
    while number > 0:
        number >>= 1
        bits += 1
    return bits


@kernel
def list_steps(order, graph, units, place, steps):
    """Write the steps of an order, and the first and last step of every node; their number."""
    ptr, node, edge = graph.ptr, graph.node, graph.edge
    for k in range(order.shape[0]):
        place[order[k]] = k
        steps.enter[order[k]] = -1
    n_steps, filled = 0, 0
    steps.ptr[0] = 0
    for v in order:
        for touched in (True, False):  # nodes of the frontier first: they may leave it earlier
            for k in range(ptr[v], ptr[v + 1]):
                u = node[k]
                if place[u] < place[v] or (steps.enter[u] >= 0) != touched:
                    continue
                steps.edge[filled], steps.other[filled] = edge[k], u
                filled += 1
                if units[v] > 1:
                    n_steps = end_step(n_steps, filled, v, steps)
        if filled > steps.ptr[n_steps]:
            n_steps = end_step(n_steps, filled, v, steps)
    return n_steps


@kernel
def end_step(step, filled, v, steps):
    for k in range(steps.ptr[step] - 1, filled):
        u = v if k < steps.ptr[step] else steps.other[k]
        if steps.enter[u] < 0:
            steps.enter[u] = step
        steps.leave[u] = step
    steps.node[step] = v
    steps.ptr[step + 1] = filled
    return step + 1


@kernel
def bound_sizes(steps, n_steps, nodes, stop, n_states, n_transitions):
    """Upper bounds of the states before every step and of their transitions; the sum of the latter.

    Counts the ways in which the frontier can have used its units that fit the number of edges:
    every chosen edge uses one unit of either side, or two units if there are no sides, and at
    least one of them at an eliminated node. Ends early when the sum exceeds `stop`.
    """
    units, free, side, is_two_sided = nodes
    frontier = np.empty(MAX_BITS + 1, np.int64)
    n_frontier = 0
    fewest, most = np.zeros(2, np.int64), np.zeros(2, np.int64)  # units used by nodes that left
    decided = 0  # units of eliminated nodes
    free_units = np.zeros(2, np.int64)
    total = 0.0
    for k in range(n_steps):
        v = steps.node[k]
        if n_frontier == 0:
            fewest[:] = 0
            most[:] = 0
            decided = 0
        here = side[v] if is_two_sided[v] else 0
        there = 1 - here if is_two_sided[v] else 0
        free_units[:] = 0
        for f in range(n_frontier):
            if frontier[f] != v:
                free_units[side[frontier[f]] if is_two_sided[v] else 0] += units[frontier[f]]
        ways = np.zeros((2, max(free_units[0], free_units[1]) + 1))
        count_ways(frontier[:n_frontier], v, nodes, ways)
        reach = free_units.copy()
        group = steps.ptr[k + 1] - steps.ptr[k]
        for i in range(steps.ptr[k], steps.ptr[k + 1]):
            if steps.enter[steps.other[i]] == k:
                free_units[there] += units[steps.other[i]]
        must_fill = not free[v] and steps.leave[v] == k
        states = transitions = 0.0
        for own in range(1 + (units[v] if steps.enter[v] < k else 0)):
            wanted = units[v] - own
            for a in range(reach[0] + 1):
                for b in range(reach[1] + 1):
                    if a + b > min(decided, 2 * decided - fewest[0] - fewest[1] - own):
                        break
                    if is_two_sided[v]:
                        ahead = b - a + (own if here == 1 else -own)
                        if ahead < fewest[0] - most[1] or ahead > most[0] - fewest[1]:
                            continue
                    elif fewest[0] == most[0] and (a + own + most[0]) % 2 == 1:
                        continue
                    found = ways[0, a] * ways[1, b]
                    states += found
                    open_units = free_units[there] - (b if there == 1 else a)
                    if wanted == 0:
                        transitions += found
                    elif not must_fill:
                        transitions += found * (1 + min(group, open_units))
                    elif wanted == 1:
                        transitions += found * min(group, open_units)
        n_states[k], n_transitions[k] = states, transitions
        total += transitions
        if total > stop:
            return total
        if k == 0 or steps.node[k - 1] != v:
            decided += units[v]
        n_frontier = advance_frontier(k, steps, nodes, frontier, n_frontier, fewest, most)
    return total


@kernel
def count_ways(frontier, v, nodes, ways):
    """ways[s, u]: in how many ways the nodes of side s, except v, can use u units together."""
    units, side, is_two_sided = nodes.units, nodes.side, nodes.is_two_sided
    ways[:, 0] = 1.0
    reach = np.zeros(2, np.int64)
    for u in frontier:
        if u == v:
            continue
        s = side[u] if is_two_sided[v] else 0
        reach[s] += units[u]
        row = ways[s]
        for total in range(reach[s], 0, -1):
            for used in range(1, min(units[u], total) + 1):
                row[total] += row[total - used]


@kernel
def advance_frontier(k, steps, nodes, frontier, n_frontier, fewest, most):
    """Update the frontier after step k; returns its size."""
    units, free, side, is_two_sided = nodes
    v = steps.node[k]
    for i in range(steps.ptr[k] - 1, steps.ptr[k + 1]):
        u = v if i < steps.ptr[k] else steps.other[i]
        stays = steps.leave[u] > k
        if steps.enter[u] == k and stays:
            frontier[n_frontier] = u
            n_frontier += 1
        if stays:
            continue
        s = side[u] if is_two_sided[v] else 0
        most[s] += units[u]
        fewest[s] += 0 if free[u] else units[u]
        for f in range(n_frontier):
            if frontier[f] == u:
                n_frontier -= 1
                frontier[f] = frontier[n_frontier]
                break
    return n_frontier


@kernel
def assign_bits(steps, n_steps, nodes, fields):
    """Assign the bit fields of all steps; False if codes have too few bits."""
    units, free = nodes.units, nodes.free
    shift = np.zeros(units.shape[0], np.int64)
    taken = np.int64(0)
    for k in range(n_steps):
        v = steps.node[k]
        fields.added[k] = fields.emptied[k] = fields.removed[k] = 0
        for i in range(steps.ptr[k] - 1, steps.ptr[k + 1]):
            u = v if i < steps.ptr[k] else steps.other[i]
            mask = (np.int64(1) << bit_length(units[u])) - 1
            if steps.enter[u] == k:
                shift[u] = 0
                while taken & (mask << shift[u]):
                    shift[u] += 1
                if shift[u] + bit_length(units[u]) > MAX_BITS:
                    return False
                taken |= mask << shift[u]
                fields.added[k] |= units[u] << shift[u]
            if i < steps.ptr[k]:
                fields.own_shift[k], fields.own_mask[k] = shift[u], mask
            else:
                fields.shift[i], fields.mask[i] = shift[u], mask
            if steps.leave[u] == k:
                fields.removed[k] |= mask << shift[u]
                if not free[u]:
                    fields.emptied[k] |= mask << shift[u]
        taken &= ~fields.removed[k]
    return True


@kernel
def find_or_add(code, codes, n_codes, table, log_size):
    """Number of a code in `codes`, in which it is n_codes if new."""
    last = table.shape[0] - 1
    # Fibonacci hashing: 2^64 over the golden ratio, as a signed number.
    slot = ((code * -7046029254386353131) >> (64 - log_size)) & last
    while table[slot] >= 0:
        if codes[table[slot]] == code:
            return table[slot]
        slot = (slot + 1) & last
    table[slot] = n_codes
    codes[n_codes] = code
    return n_codes


@kernel
def list_transitions(steps, n_steps, fields, n_states, no_edge, layer, first, to, label):
    """Write all reachable states and their transitions; returns their numbers.

    State s, of step k if layer[k] <= s < layer[k + 1], has the transitions first[s] .. first[s + 1]
    - 1 of edge label (or no_edge) to the states `to`.
    """
    codes = np.zeros(1, np.int64)
    n_codes, begin, filled = 1, 0, 0
    layer[0] = 0
    for k in range(n_steps):
        most = n_states[k + 1]
        following = np.empty(most, np.int64)
        n_following = 0
        log_size = bit_length(most) + 1
        table = np.full(1 << log_size, -1, np.int32)
        end = begin + n_codes
        own_shift, own_mask = fields.own_shift[k], fields.own_mask[k]
        for s in range(n_codes):
            first[begin + s] = filled
            code = codes[s] | fields.added[k]
            open_own = (code >> own_shift) & own_mask
            for i in range(steps.ptr[k] - 1, steps.ptr[k + 1] if open_own else steps.ptr[k]):
                chosen = code
                if i >= steps.ptr[k]:
                    if (code >> fields.shift[i]) & fields.mask[i] == 0:
                        continue
                    chosen -= (np.int64(1) << own_shift) + (np.int64(1) << fields.shift[i])
                if chosen & fields.emptied[k]:
                    continue
                chosen &= ~fields.removed[k]
                found = find_or_add(chosen, following, n_following, table, log_size)
                n_following = max(n_following, found + 1)
                to[filled] = end + found
                label[filled] = steps.edge[i] if i >= steps.ptr[k] else no_edge
                filled += 1
        codes, n_codes, begin = following, n_following, end
        layer[k + 1] = begin
    first[begin] = filled
    if n_codes == 1:
        first[begin + 1] = filled
    layer[n_steps + 1] = begin + n_codes
    return begin + n_codes, filled


@kernel
def drop_dead_ends(layer, first, to, label):
    """Keep only states from which the last one is reachable; numbers of states, of transitions."""
    n_states, n_layers = layer[-1], layer.shape[0] - 1
    if layer[n_layers - 1] == n_states:
        return 0, 0
    alive = np.zeros(n_states, np.bool_)
    alive[n_states - 1] = True
    n_alive = 1
    for s in range(n_states - 2, -1, -1):
        for k in range(first[s], first[s + 1]):
            if alive[to[k]]:
                alive[s] = True
                n_alive += 1
                break
    if n_alive == n_states:
        return n_states, first[n_states]
    number = np.empty(n_states, np.int64)
    kept = 0
    for s in range(n_states):
        number[s] = kept
        kept += alive[s]
    filled = 0
    for s in range(n_states):
        begin, end = first[s], first[s + 1]
        if not alive[s]:
            continue
        first[number[s]] = filled
        for k in range(begin, end):
            if alive[to[k]]:
                to[filled], label[filled] = number[to[k]], label[k]
                filled += 1
    first[kept] = filled
    for t in range(n_layers):
        layer[t] = number[layer[t]]
    layer[n_layers] = kept
    return kept, filled
