"""Sums over all matchings, and random matchings: forward-backward on the state graph.

All terms are positive. The sums use plain weights exp(reduced score) first, each layer scaled where
needed; where the range of floating-point numbers is too small for that, logarithms.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._compile import kernel

SMALLEST, LARGEST = 1e-100, 1e200  # sums of a layer outside of this need logarithms


class StateGraph(NamedTuple):
    """Frontier states in layers, from the first to the last, and the transitions between them.

    State s has the transitions first[s] .. first[s + 1] - 1, each with the chosen edge `label`
    (n_edges: none), to the state `to` of the next layer. tail, head: the ends of all edges; units:
    how many partners a node can have; half_ptr, half_edge, half_node: the neighbours of every node
    along edges that are in some matching.
    """

    layer: NDArray[np.int64]
    first: NDArray[np.int32]
    to: NDArray[np.int32]
    label: NDArray[np.int32]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    capacity: NDArray[np.int64]
    units: NDArray[np.int64]
    free: NDArray[np.bool_]
    half_ptr: NDArray[np.int64]
    half_edge: NDArray[np.int64]
    half_node: NDArray[np.int64]


@kernel
def reduce_scores(states, scores, single, reduced):
    """Write the scores minus the prices of both ends, 0 for no edge; returns the constant in log Z.

    A free node has the price of a unit that stays unused, so that this has weight 1. All others are
    always filled, so that any prices are valid: two sweeps of coordinate descent bring the largest
    reduced scores near 0.
    """
    n = states.units.shape[0]
    price = np.zeros(n)
    base = 0.0
    for i in range(n):
        base += (states.capacity[i] - states.units[i]) * single[i]
        if states.free[i]:
            price[i] = single[i]
    for i in range(n):
        if states.free[i] or states.half_ptr[i] == states.half_ptr[i + 1]:
            continue
        best = -np.inf
        for k in range(states.half_ptr[i], states.half_ptr[i + 1]):
            j = states.half_node[k]
            score = scores[states.half_edge[k]]
            best = max(best, score - price[j] if states.free[j] else 0.5 * score)
        price[i] = best
    for _ in range(2):
        for i in range(n):
            if states.free[i] or states.half_ptr[i] == states.half_ptr[i + 1]:
                continue
            best = -np.inf
            for k in range(states.half_ptr[i], states.half_ptr[i + 1]):
                best = max(best, scores[states.half_edge[k]] - price[states.half_node[k]])
            price[i] = best
    for i in range(n):
        base += states.units[i] * price[i]
    for e in range(scores.shape[0]):
        reduced[e] = scores[e] - price[states.tail[e]] - price[states.head[e]]
    reduced[-1] = 0.0
    return base


@kernel
def count(states, scores, single, reduced, used, unused):
    """log Z, the probabilities of edges and the expected unused units, written to used and unused.

    Returns (log Z, ways, logs): ways[s] is the backward sum, the weight of all paths from state s
    to the last. If logs is empty, edges have the weights exp(reduced); otherwise logs[s] is the
    logarithm of the forward sum of state s, and ways[s] the probability of s.
    """
    n_edges = scores.shape[0]
    base = reduce_scores(states, scores, single, reduced)
    weight = np.empty(n_edges + 1)
    in_range = True
    for k in range(states.half_edge.shape[0]):
        in_range &= reduced[states.half_edge[k]] <= 230.0  # exp(230) is 1e100
    n_states = states.first.shape[0] - 1
    ways, total = np.empty(n_states), np.zeros(n_edges + 1)
    logs = np.empty(0)
    log_z = np.nan
    if in_range:
        for e in range(n_edges + 1):
            weight[e] = np.exp(reduced[e])
        log_z = sum_weights(states, weight, ways, total)
    if np.isnan(log_z):
        logs = np.empty(n_states)
        total[:] = 0.0
        log_z = sum_logarithms(states, reduced, logs, ways, total)
    for i in range(unused.shape[0]):
        unused[i] = states.capacity[i]
    for e in range(n_edges):
        used[e] = min(total[e], 1.0)
        unused[states.tail[e]] -= used[e]
        unused[states.head[e]] -= used[e]
    for i in range(unused.shape[0]):
        always = states.capacity[i] - states.units[i]
        unused[i] = max(unused[i], always) if states.free[i] else always
    return base + log_z, ways, logs


@kernel
def sum_weights(states, weight, ways, total):
    """log of the sum over paths of the product of weights; NaN if numbers leave their range.

    total[e] is the probability of edge e.
    """
    layer, first, to, label = states.layer, states.first, states.to, states.label
    n_layers = layer.shape[0] - 1
    before = np.zeros(ways.shape[0])  # forward sums: weight of all paths from the first state
    scale = np.ones(n_layers)
    before[0] = 1.0
    log_z = 0.0
    for t in range(n_layers - 1):
        for s in range(layer[t], layer[t + 1]):
            here = before[s]
            for k in range(first[s], first[s + 1]):
                before[to[k]] += here * weight[label[k]]
        top = 0.0
        for s in range(layer[t + 1], layer[t + 2]):
            top = max(top, before[s])
        if not SMALLEST < top < LARGEST:
            return np.nan
        if not 1e-30 < top < 1e30:
            scale[t] = 1.0 / top
            log_z += np.log(top)
            for s in range(layer[t + 1], layer[t + 2]):
                before[s] *= scale[t]
    log_z += np.log(before[-1])
    ways[-1] = 1.0 / before[-1]
    top = 0.0
    for t in range(n_layers - 2, -1, -1):
        for s in range(layer[t], layer[t + 1]):
            here, after = before[s] * scale[t], 0.0
            for k in range(first[s], first[s + 1]):
                along = weight[label[k]] * ways[to[k]]
                total[label[k]] += here * along
                after += along
            ways[s] = after * scale[t]
            top = max(top, ways[s])
    # With ways at most 1/SMALLEST, underflow has lost less than 1e-100 of the sum.
    return log_z if top < 1.0 / SMALLEST else np.nan


@kernel
def sum_logarithms(states, reduced, logs, ways, total):
    """The same in logarithms, for any range of scores."""
    layer, first, to, label = states.layer, states.first, states.to, states.label
    n_layers = layer.shape[0] - 1
    sums = ways  # until the backward pass
    logs[:] = -np.inf
    sums[:] = 0.0
    logs[0] = 0.0
    for t in range(n_layers - 1):
        for s in range(layer[t], layer[t + 1]):
            for k in range(first[s], first[s + 1]):
                logs[to[k]] = max(logs[to[k]], logs[s] + reduced[label[k]])
        for s in range(layer[t], layer[t + 1]):
            for k in range(first[s], first[s + 1]):
                sums[to[k]] += np.exp(logs[s] + reduced[label[k]] - logs[to[k]])
        for s in range(layer[t + 1], layer[t + 2]):
            logs[s] += np.log(sums[s])
    ways[-1] = 1.0
    for t in range(n_layers - 2, -1, -1):
        for s in range(layer[t], layer[t + 1]):
            after = 0.0
            for k in range(first[s], first[s + 1]):
                along = np.exp(logs[s] + reduced[label[k]] - logs[to[k]]) * ways[to[k]]
                total[label[k]] += along
                after += along
            ways[s] = after
    return logs[-1]


@kernel
def draw(states, reduced, ways, logs, rng, chosen):
    """Write independent random matchings: chosen[r, e] is whether edge e is in number r."""
    first, to, label = states.first, states.to, states.label
    n_samples, n_edges = chosen.shape
    last = ways.shape[0] - 1
    weight = np.exp(reduced) if logs.shape[0] == 0 else reduced
    along = np.empty(n_edges + 1)
    for r in range(n_samples):
        s = 0
        while s != last:
            begin, end = first[s], first[s + 1]
            total = 0.0
            for k in range(begin, end):
                if logs.shape[0] == 0:
                    total += weight[label[k]] * ways[to[k]]
                else:
                    total += np.exp(logs[s] + reduced[label[k]] - logs[to[k]]) * ways[to[k]]
                along[k - begin] = total
            threshold = rng.random() * total
            k = begin
            while along[k - begin] <= threshold and along[k - begin] < total:
                k += 1
            if label[k] < n_edges:
                chosen[r, label[k]] = True
            s = to[k]
