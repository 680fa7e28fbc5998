"""Kernels of `junction_tree`: several samples at a time over the buckets of an elimination order.

Bucket k has messages over its separator, L^width entries from first[k] on: the state of member j
of the separator is digit j of an entry. Tables also have the bucket's own node, as the slowest
digit, from L * first[k] on. Members are in falling order, the parent last: the message of a child
is read at x L^(width - 1) + place[a], x being the parent's state and a the entry of its separator.
The last axis of all arrays is over *lanes*, a sample in each.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._compile import kernel

PRODUCTS, LOGARITHMS, MAXIMA = 0, 1, 2  # what messages are

Ints = NDArray[np.int64]


class Tree(NamedTuple):
    """Buckets in their order, the members of separators, and the children of buckets.

    member[ptr[k]:ptr[k + 1]] are the nodes of separator k; half[j] is the edge e of its node to
    member j, n_edges + e if the member is the tail, -1 if there is none. A child's entries move by
    step[step_ptr[q]:step_ptr[q + 1]] with the members of its parent's separator.
    """

    node: Ints
    first: Ints
    ptr: Ints
    member: Ints
    half: Ints
    child_ptr: Ints
    child: Ints
    step_ptr: Ints
    step: Ints


@kernel
def list_places(tree, q, n_states, place):
    """Write the entry of child q, its parent in state 0, for all entries of its parent."""
    filled = 1
    place[0] = 0
    for j in range(tree.step_ptr[q], tree.step_ptr[q + 1]):
        for s in range(1, n_states):
            for a in range(filled):
                place[s * filled + a] = place[a] + s * tree.step[j]
        filled *= n_states


@kernel
def fill(tree, k, kind, nodes, edges, neutral, tables):
    """Write the scores, or factors, of bucket k: those of its node and of its edges to members."""
    n_states, lanes = nodes.shape[1], nodes.shape[3]
    n_edges, size = edges.shape[0], tree.first[k + 1] - tree.first[k]
    for x in range(n_states):
        start, filled = n_states * tree.first[k] + x * size, 1
        for m in range(lanes):
            tables[start, m] = nodes[tree.node[k], x, 0, m]
        for j in range(tree.ptr[k], tree.ptr[k + 1]):
            e = tree.half[j]
            for s in range(n_states - 1, -1, -1):
                to, factor, is_neutral = start + s * filled, neutral, True
                if e >= 0:
                    factor = edges[e - n_edges, s, x] if e >= n_edges else edges[e, x, s]
                for m in range(lanes):
                    is_neutral &= factor[m] == neutral[m]
                if s == 0 and is_neutral:
                    continue
                if kind == PRODUCTS:
                    for a in range(filled):
                        for m in range(lanes):
                            tables[to + a, m] = tables[start + a, m] * factor[m]
                else:
                    for a in range(filled):
                        for m in range(lanes):
                            tables[to + a, m] = tables[start + a, m] + factor[m]
            filled *= n_states


@kernel
def absorb(kind, tables, start, size, messages, at, place):
    """Multiply entries by those of a message; add logarithms."""
    lanes = tables.shape[1]
    if kind == PRODUCTS:
        for a in range(size):
            b = at + place[a]
            for m in range(lanes):
                tables[start + a, m] *= messages[b, m]
    else:
        for a in range(size):
            b = at + place[a]
            for m in range(lanes):
                tables[start + a, m] += messages[b, m]


@kernel
def add_up(tables, at, size, n_states, messages, to, total):
    """The message of a table of weights; the table becomes its conditional distribution."""
    lanes = tables.shape[1]
    for a in range(size):
        for m in range(lanes):
            messages[to + a, m] = tables[at + a, m]
        for x in range(1, n_states):
            for m in range(lanes):
                messages[to + a, m] += tables[at + x * size + a, m]
        for m in range(lanes):
            total[m] = max(messages[to + a, m], 1e-300)
        for x in range(n_states):
            for m in range(lanes):  # a product with 1 / total would not be exactly 1 for one state
                tables[at + x * size + a, m] /= total[m]


@kernel
def add_up_logarithms(kind, tables, at, size, n_states, messages, to, log_z):
    """The same for logarithms, up to the largest entry of the message, which is added to log_z.

    If only maxima are asked for, the distribution is uniform over the best states.
    """
    for m in range(tables.shape[1]):
        shift = -np.inf
        for a in range(size):
            top, total = -np.inf, 0.0
            for x in range(n_states):
                top = max(top, tables[at + x * size + a, m])
            for x in range(n_states):
                i = at + x * size + a
                if top == -np.inf:
                    tables[i, m] = 0.0
                elif kind == LOGARITHMS:
                    tables[i, m] = np.exp(tables[i, m] - top)
                else:
                    tables[i, m] = 1.0 if tables[i, m] == top else 0.0
                total += tables[i, m]
            for x in range(n_states):
                tables[at + x * size + a, m] /= max(total, 1.0)
            if kind == LOGARITHMS and total > 0.0:
                top += np.log(total)
            messages[to + a, m] = top
            shift = max(shift, top)
        log_z[m] += shift
        if shift > -np.inf:  # small numbers keep sums precise
            for a in range(size):
                messages[to + a, m] -= shift


@kernel
def collect(tree, kind, nodes, edges, place, messages, tables, log_z):
    """Conditional distributions of all nodes given their separators; adds to log Z.

    nodes, edges : scores, or their exponentials if messages are products
    """
    n_states, lanes = nodes.shape[1], nodes.shape[3]
    total, neutral = np.empty(lanes), np.full(lanes, 1.0 if kind == PRODUCTS else 0.0)
    for k in range(tree.node.shape[0]):
        to, size = tree.first[k], tree.first[k + 1] - tree.first[k]
        at = n_states * to
        fill(tree, k, kind, nodes, edges, neutral, tables)
        for q in range(tree.child_ptr[k], tree.child_ptr[k + 1]):
            c = tree.child[q]
            own = (tree.first[c + 1] - tree.first[c]) // n_states
            list_places(tree, q, n_states, place)
            for x in range(n_states):
                begin = tree.first[c] + x * own
                absorb(kind, tables, at + x * size, size, messages, begin, place)
        if kind == PRODUCTS:
            add_up(tables, at, size, n_states, messages, to, total)
            if size == 1:
                for m in range(lanes):
                    log_z[m] += np.log(messages[to, m])
        else:
            add_up_logarithms(kind, tables, at, size, n_states, messages, to, log_z)


@kernel
def distribute(tree, place, beliefs, tables, nodes, edges):
    """Write marginals of nodes and edges, from conditional distributions, which are overwritten."""
    n_states, lanes = nodes.shape[1], nodes.shape[3]
    n_edges, sums = edges.shape[0], np.empty(lanes)
    beliefs[:] = 0.0
    for k in range(tree.node.shape[0] - 1, -1, -1):
        own, size = tree.first[k], tree.first[k + 1] - tree.first[k]
        at = n_states * own
        if size == 1:
            for m in range(lanes):
                beliefs[own, m] = 1.0
        for x in range(n_states):
            for a in range(size):
                for m in range(lanes):
                    tables[at + x * size + a, m] *= beliefs[own + a, m]
        for q in range(tree.child_ptr[k], tree.child_ptr[k + 1]):
            c = tree.child[q]
            list_places(tree, q, n_states, place)
            for x in range(n_states):
                to = tree.first[c] + x * ((tree.first[c + 1] - tree.first[c]) // n_states)
                for a in range(size):
                    b = to + place[a]
                    for m in range(lanes):
                        beliefs[b, m] += tables[at + x * size + a, m]
        for x in range(n_states):
            start, filled = at + x * size, size
            for j in range(tree.ptr[k + 1] - 1, tree.ptr[k] - 1, -1):  # the last member goes first
                filled //= n_states
                e = tree.half[j]
                for s in range(n_states):
                    for m in range(lanes):
                        sums[m] = 0.0
                    at_s = start + s * filled
                    if s == 0:
                        for a in range(filled):
                            for m in range(lanes):
                                sums[m] += tables[at_s + a, m]
                    else:
                        for a in range(filled):
                            for m in range(lanes):
                                sums[m] += tables[at_s + a, m]
                                tables[start + a, m] += tables[at_s + a, m]
                    if e >= 0:
                        both = edges[e - n_edges, s, x] if e >= n_edges else edges[e, x, s]
                        for m in range(lanes):
                            both[m] = sums[m]
            for m in range(lanes):
                nodes[tree.node[k], x, 0, m] = tables[start, m]


@kernel
def add_sizes(scores, out):
    """Add up the largest sizes of every sample's scores, -inf apart; inf for NaN and infinity."""
    for k in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            top = 0.0
            for x in range(scores.shape[2]):
                for y in range(scores.shape[3]):
                    size = abs(scores[k, i, x, y])
                    if not size <= top and scores[k, i, x, y] != -np.inf:
                        top = size if size > top else np.inf
            out[k] += top


@kernel
def read(kind, scores, samples, out, log_z):
    """Copy tables of some samples into lanes, the last one also into those that are left.

    Products take exponentials. Logarithms are most precise near 0: the largest goes to log_z.
    """
    for m in range(out.shape[3]):
        k = samples[min(m, samples.shape[0] - 1)] % scores.shape[0]
        for i in range(out.shape[0]):
            top = -np.inf
            for x in range(out.shape[1]):
                for y in range(out.shape[2]):
                    top = max(top, scores[k, i, x, y])
            if kind == PRODUCTS or top == -np.inf:
                top = 0.0
            log_z[m] += top
            for x in range(out.shape[1]):
                for y in range(out.shape[2]):
                    shifted = scores[k, i, x, y] - top
                    if kind == PRODUCTS:  # most scores of two states are 0
                        shifted = 1.0 if shifted == 0.0 else np.exp(shifted)
                    out[i, x, y, m] = shifted


@kernel
def write(tables, m, out):
    """Copy the tables of lane m."""
    for i in range(out.shape[0]):
        for x in range(out.shape[1]):
            for y in range(out.shape[2]):
                out[i, x, y] = tables[i, x, y, m]


@kernel
def draw(tree, tables, m, uniform, states):
    """Draw the states of nodes, last ones first, from the conditional distributions of lane m."""
    n_states = tables.shape[0] // tree.first[-1]
    for k in range(tree.node.shape[0] - 1, -1, -1):
        size = tree.first[k + 1] - tree.first[k]
        at, stride = n_states * tree.first[k], 1
        for j in range(tree.ptr[k], tree.ptr[k + 1]):
            at += stride * states[tree.member[j]]
            stride *= n_states
        upto = 0.0
        for x in range(n_states):
            p = tables[at + x * size, m]
            if p > 0.0:
                states[tree.node[k]] = x
                upto += p
                if upto > uniform[k]:
                    break


@kernel
def solve(tree, kind, samples, lanes, nodes, edges, uniform, log_z, states, of_nodes, of_edges):
    """log Z, and draws or else marginals, of some samples, so many at a time.

    uniform[k] has a row for every draw from sample k; zeros take the first possible states.
    """
    n_nodes, n_states = nodes.shape[1], nodes.shape[2]
    largest, n_entries, n_draws = np.int64(1), tree.first[-1], uniform.shape[1]
    for k in range(n_nodes):
        largest = max(largest, tree.first[k + 1] - tree.first[k])
    place, messages = np.empty(largest, np.int32), np.empty((n_entries, lanes))
    tables, sums = np.empty((n_states * n_entries, lanes)), np.empty(lanes)
    own = np.empty((n_nodes, n_states, 1, lanes))
    pairs = np.empty((edges.shape[1], n_states, n_states, lanes))
    both, of_pairs = np.empty_like(pairs), np.empty(lanes)
    for begin in range(0, samples.shape[0], lanes):
        part = samples[begin : begin + lanes]
        sums[:] = 0.0
        read(kind, nodes, part, own, sums)
        if begin == 0 or edges.shape[0] > 1:
            of_pairs[:] = 0.0
            read(kind, edges, part, pairs, of_pairs)
        for m in range(lanes):
            sums[m] += of_pairs[m]
        collect(tree, kind, own, pairs, place, messages, tables, sums)
        if n_draws == 0:
            distribute(tree, place, messages, tables, own, both)
        for m in range(part.shape[0]):
            k = part[m]
            log_z[k] = sums[m]
            if n_draws == 0:
                write(own, m, of_nodes[k])
                write(both, m, of_edges[k])
            for r in range(n_draws):
                draw(tree, tables, m, uniform[k, r], states[k, r])
