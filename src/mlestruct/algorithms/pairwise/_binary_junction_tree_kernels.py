"""Kernels of `binary_junction_tree`: several samples at a time, one per lane.

Bucket k has separator tables of 2^width entries from `first[k]` on; bit b of an entry is the state
of the b-th node of the separator, so that bit 0 is the parent's. With a an entry of the parent, a
child's message is read at places[a] (parent in state 0) and places[a] + 1 (state 1). All tables
have a last axis over lanes. `tree` is the tuple of arrays that `BinaryJunctionTree` prepares.
"""

import numpy as np

from ..._compile import kernel


@kernel
def collect(tree, node_factors, edge_factors, allowed, factors, messages, conditionals, log_z):
    """Messages of all buckets, P(node = 1 | separator), and log Z of every lane.

    allowed[s, n, m] is 1 where node n of lane m may have state s, else 0.
    """
    node, first, ptr, _, edges, child_ptr, children, place_first, places = tree
    lanes = log_z.shape[0]
    zero = np.empty(lanes)
    one = np.empty(lanes)
    log_z[:] = 0.0
    for k in range(node.shape[0]):
        n = node[k]
        factors[0] = node_factors[n]
        size = 1
        for j in range(ptr[k], ptr[k + 1]):
            for a in range(size):
                factors[size + a] = factors[a]
            if edges[j] >= 0:
                for a in range(size, 2 * size):
                    for m in range(lanes):
                        factors[a, m] *= edge_factors[edges[j], m]
            size *= 2
        for a in range(size):
            for m in range(lanes):
                zero[m] = allowed[0, n, m]
                one[m] = allowed[1, n, m] * factors[a, m]
            for q in range(child_ptr[k], child_ptr[k + 1]):
                at = first[children[q]] + places[place_first[q] + a]
                for m in range(lanes):
                    zero[m] *= messages[at, m]
                    one[m] *= messages[at + 1, m]
            at = first[k] + a
            for m in range(lanes):
                total = zero[m] + one[m]
                messages[at, m] = total
                conditionals[at, m] = one[m] / total if total > 0.0 else 0.0
        if size == 1:
            for m in range(lanes):
                log_z[m] += np.log(messages[first[k], m])


@kernel
def distribute(tree, conditionals, beliefs, both, node_marginals, edge_marginals):
    """P(node = 1) and P(both ends = 1), from the roots to the leaves."""
    node, first, ptr, _, edges, child_ptr, children, place_first, places = tree
    lanes = both.shape[1]
    beliefs[:] = 0.0
    for k in range(node.shape[0] - 1, -1, -1):
        size = 1 << (ptr[k + 1] - ptr[k])
        start = first[k]
        if size == 1:
            beliefs[start] = 1.0
        for a in range(size):
            for m in range(lanes):
                both[a, m] = beliefs[start + a, m] * conditionals[start + a, m]
        for q in range(child_ptr[k], child_ptr[k + 1]):
            for a in range(size):
                at = first[children[q]] + places[place_first[q] + a]
                for m in range(lanes):
                    beliefs[at, m] += beliefs[start + a, m] - both[a, m]
                    beliefs[at + 1, m] += both[a, m]
        for j in range(ptr[k + 1] - 1, ptr[k] - 1, -1):  # sum out the separator's last node
            size //= 2
            if edges[j] >= 0:
                edge_marginals[edges[j]] = 0.0
                for a in range(size, 2 * size):
                    for m in range(lanes):
                        edge_marginals[edges[j], m] += both[a, m]
            for a in range(size):
                for m in range(lanes):
                    both[a, m] += both[size + a, m]
        node_marginals[node[k]] = both[0]


@kernel
def marginals(tree, fields, couplings, known, samples, lanes, n_entries, log_z, nodes, edges):
    """Marginals and log Z of some samples; the last lanes repeat the last sample.

    known : states of nodes that are given and -1 elsewhere, or no rows
    """
    n_nodes, n_edges = nodes.shape[1], edges.shape[1]
    largest = 1 << np.diff(tree[2]).max()
    factors = np.empty((largest, lanes))
    messages = np.empty((n_entries, lanes))
    conditionals = np.empty((n_entries, lanes))
    allowed = np.ones((2, n_nodes, lanes))
    node_factors, node_found = np.empty((n_nodes, lanes)), np.empty((n_nodes, lanes))
    edge_factors, edge_found = np.empty((n_edges, lanes)), np.empty((n_edges, lanes))
    logs = np.empty(lanes)
    for start in range(0, samples.shape[0], lanes):
        for m in range(lanes):
            s = samples[min(start + m, samples.shape[0] - 1)]
            for n in range(n_nodes):
                node_factors[n, m] = np.exp(fields[s, n])
                if known.shape[0] > 0:
                    allowed[0, n, m] = known[s, n] != 1
                    allowed[1, n, m] = known[s, n] != 0
            if couplings.shape[0] > 1 or start == 0:
                for e in range(n_edges):
                    edge_factors[e, m] = np.exp(couplings[s % couplings.shape[0], e])
        collect(tree, node_factors, edge_factors, allowed, factors, messages, conditionals, logs)
        distribute(tree, conditionals, messages, factors, node_found, edge_found)
        for m in range(min(lanes, samples.shape[0] - start)):
            s = samples[start + m]
            log_z[s] = logs[m]
            nodes[s] = node_found[:, m]
            edges[s] = edge_found[:, m]


@kernel
def maximise(tree, node_scores, edge_scores, penalties, sums, messages, choices, states, best):
    """A labelling of the largest score for every lane, and that score; `states` by bucket.

    penalties[s, n, m] is 0 where node n of lane m may have state s, else -inf.
    """
    node, first, ptr, members, edges, child_ptr, children, place_first, places = tree
    lanes = best.shape[0]
    zero = np.empty(lanes)
    one = np.empty(lanes)
    best[:] = 0.0
    for k in range(node.shape[0]):
        n = node[k]
        sums[0] = node_scores[n]
        size = 1
        for j in range(ptr[k], ptr[k + 1]):
            for a in range(size):
                sums[size + a] = sums[a]
            if edges[j] >= 0:
                for a in range(size, 2 * size):
                    for m in range(lanes):
                        sums[a, m] += edge_scores[edges[j], m]
            size *= 2
        for a in range(size):
            for m in range(lanes):
                zero[m] = penalties[0, n, m]
                one[m] = penalties[1, n, m] + sums[a, m]
            for q in range(child_ptr[k], child_ptr[k + 1]):
                at = first[children[q]] + places[place_first[q] + a]
                for m in range(lanes):
                    zero[m] += messages[at, m]
                    one[m] += messages[at + 1, m]
            for m in range(lanes):
                choices[first[k] + a, m] = one[m] > zero[m]
                messages[first[k] + a, m] = max(zero[m], one[m])
        if size == 1:
            for m in range(lanes):
                best[m] += messages[first[k], m]
    for k in range(node.shape[0] - 1, -1, -1):
        for m in range(lanes):
            a = 0
            for j in range(ptr[k], ptr[k + 1]):
                a += states[members[j], m] << (j - ptr[k])
            states[k, m] = choices[first[k] + a, m]
