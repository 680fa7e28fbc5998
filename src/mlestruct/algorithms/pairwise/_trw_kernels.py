"""Sequential tree-reweighted message passing between nodes with any number of states.

A message into node i over one of its half-edges p is a function m of its state, kept with its
logarithm and relative to that of state 0. The belief of a node and its cavity for a half-edge are

    belief_i = exp(score_i) * product over its half-edges of m_p^rho_p,    c_p = belief_i / m_p,

and the node sends over that edge  sum_x table_e(x, y) c_p(x), where table_e is exp(score_e /
rho_e), relative to its largest entry and with the tail's state first. So a message takes a
logarithm for every state but one, a node an exponential. If score_e / rho_e has a range above
`WIDE` the products might underflow: messages are sums of logarithms, and m_p is not used.

Half-edges ptr[i]:ptr[i + 1] are those of node i, by the number of the neighbour, which is larger
than i from later[i] on. mate[p] is the same edge at the neighbour, half[p] the edge, plus the
number of edges where i is its head. The score of edge e is pairs[group[e]].

`states` is (0, 0) for two states, so that numba compiles a version of the kernels whose loops over
states are unrolled (twice as fast), and () for any other number.
"""

from math import exp, log

import numpy as np

from ..._compile import inlined_kernel, kernel
from .._logarithm_kernels import fast_log
from ._log_domain_kernels import log_sum_exp


@kernel
def edge_tables(states, pairs, group, rho, widest, table):
    """Fill table[e] with exp(score / rho) relative to its largest entry.

    Returns whether the range of score / rho is above `widest`, and the sum of the largest scores of
    all other edges.
    """
    n_states = 2 if len(states) == 2 else pairs.shape[1]
    wide = np.zeros(rho.shape[0], dtype=np.bool_)
    constant = 0.0
    for e in range(rho.shape[0]):
        scores = pairs[group[e]]
        low = high = scores[0, 0]
        for x in range(n_states):
            for y in range(n_states):
                low, high = min(low, scores[x, y]), max(high, scores[x, y])
        wide[e] = high - low > widest * rho[e]
        constant += 0.0 if wide[e] else high
        for x in range(n_states):
            for y in range(n_states):
                table[e, x, y] = exp((scores[x, y] - high) / rho[e])
    return wide, constant


@inlined_kernel
def beliefs_at(n_states, i, ptr, rho, nodes, logs, belief, odds):
    """Fill the unnormalised log belief of a node and its exponential; return the shift between."""
    for x in range(n_states):
        belief[x] = nodes[i, x]
    for p in range(ptr[i], ptr[i + 1]):
        for x in range(n_states):
            belief[x] += rho[p] * logs[p, x]
    top = belief[0]
    for x in range(1, n_states):
        top = max(top, belief[x])
    for x in range(n_states):
        odds[x] = exp(belief[x] - top)
    return top


@inlined_kernel
def narrow_message(n_states, p, edge, odds, table, messages, cavity, out):
    """Fill `out` with the message over half-edge p, in proportion."""
    n_edges = table.shape[0]
    cavity[0] = odds[0]  # messages are relative to state 0
    for x in range(1, n_states):
        cavity[x] = odds[x] / messages[p, x]
    if edge < n_edges:
        for y in range(n_states):
            out[y] = cavity[0] * table[edge, 0, y]
        for x in range(1, n_states):
            for y in range(n_states):
                out[y] += cavity[x] * table[edge, x, y]
    else:
        for y in range(n_states):
            total = cavity[0] * table[edge - n_edges, y, 0]
            for x in range(1, n_states):
                total += cavity[x] * table[edge - n_edges, y, x]
            out[y] = total


@kernel
def wide_message(p, edge, belief, rho, pairs, group, logs, cavity, out):
    """Fill `out` with the logarithm of the same, up to a constant."""
    n_states = belief.shape[0]
    at_tail = edge < group.shape[0]
    g = group[edge if at_tail else edge - group.shape[0]]
    for x in range(n_states):
        cavity[x] = belief[x] - logs[p, x]
    for y in range(n_states):
        best = -np.inf
        for x in range(n_states):
            score = pairs[g, x, y] if at_tail else pairs[g, y, x]
            best = max(best, score / rho[p] + cavity[x])
        total = 0.0
        for x in range(n_states):
            score = pairs[g, x, y] if at_tail else pairs[g, y, x]
            total += exp(score / rho[p] + cavity[x] - best)
        out[y] = best + log(total)


@kernel
def pass_messages(
    states, ptr, later, mate, half, rho, wide, nodes, pairs, group, table, logs, messages, damping
):  # fmt: skip
    """One pass with messages to later nodes, and one back, with messages to earlier ones."""
    n = nodes.shape[0]
    n_states = 2 if len(states) == 2 else nodes.shape[1]
    belief, odds, cavity = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    sent = np.empty(n_states)
    for step in range(2 * n):
        forwards = step < n
        i = step if forwards else 2 * n - 1 - step
        first = later[i] if forwards else ptr[i]
        stop = ptr[i + 1] if forwards else later[i]
        if first == stop:
            continue
        beliefs_at(n_states, i, ptr, rho, nodes, logs, belief, odds)
        for p in range(first, stop):
            q = mate[p]
            if wide[p]:
                wide_message(p, half[p], belief, rho, pairs, group, logs, cavity, sent)
                for y in range(1, n_states):
                    message = sent[y] - sent[0]
                    logs[q, y] = (1.0 - damping) * message + damping * logs[q, y]
                continue
            narrow_message(n_states, p, half[p], odds, table, messages, cavity, sent)
            scale = 1.0 / sent[0]
            for y in range(1, n_states):
                message = sent[y] * scale
                message_log = fast_log(message)
                if damping > 0.0:
                    message_log = (1.0 - damping) * message_log + damping * logs[q, y]
                    message = exp(message_log)
                logs[q, y] = message_log
                messages[q, y] = message


@kernel
def bound_and_beliefs(
    states, ptr, node, mate, half, rho, into, slack, wide, nodes, pairs, group, table, logs,
    messages, has_bound, beliefs,
):  # fmt: skip
    """Upper bound of log Z_rho at any messages; fills the normalised log beliefs of the nodes.

    H_rho is the sum of slack_i H(i) over nodes and of into_p H(i | neighbour) over half-edges p. Of
    a conditional entropy there remains, at the neighbour, the difference of the message that would
    be sent and the one that is there, which is maximised node by node. Without a split of rho into
    such parts, `into` being rho / 2, the difference is weighted by the beliefs: then the result is
    no bound, but it is stationary where messages are.
    """
    n = nodes.shape[0]
    n_states = 2 if len(states) == 2 else nodes.shape[1]
    belief, odds, cavity = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    sent = np.empty(n_states)
    residual = np.zeros((n, n_states))
    constants = np.empty(n)
    total = 0.0
    for i in range(n):
        top = beliefs_at(n_states, i, ptr, rho, nodes, logs, belief, odds)
        mass = 0.0
        for x in range(n_states):
            mass += odds[x]
        constants[i] = top + log(mass)
        for x in range(n_states):
            beliefs[i, x] = belief[x] - constants[i]
        for p in range(ptr[i], ptr[i + 1]):
            if into[p] == 0.0:
                continue
            if wide[p]:
                wide_message(p, half[p], belief, rho, pairs, group, logs, cavity, sent)
            else:
                narrow_message(n_states, p, half[p], odds, table, messages, cavity, sent)
                total += into[p] * top
                for y in range(n_states):
                    sent[y] = fast_log(sent[y])
            # What the messages of all states have in common is counted apart: it is large.
            total += into[p] * sent[0]
            for y in range(1, n_states):
                residual[node[p], y] += into[p] * (sent[y] - sent[0] - logs[mate[p], y])
    for i in range(n):
        total += slack[i] * constants[i]
        if not has_bound:
            for x in range(n_states):
                total += residual[i, x] * exp(beliefs[i, x])
        elif slack[i] > 1e-6:  # below, the division loses digits; a maximum is a valid bound too
            for x in range(n_states):
                belief[x] = beliefs[i, x] + residual[i, x] / slack[i]
            total += slack[i] * log_sum_exp(belief)
        else:
            largest = residual[i, 0]
            for x in range(1, n_states):
                largest = max(largest, residual[i, x])
            total += largest
    return total


@kernel
def feasible_point(
    states, tail, head, slot, rho, counting, wide, nodes, pairs, group, table, logs, messages,
    beliefs, marginals, places, tables, sums,
):  # fmt: skip
    """Edge tables with the node marginals `marginals`; returns <scores, tau> + H_rho(tau).

    The pairwise beliefs are scaled to the marginals by a few rounds, then a correction makes these
    exact. tables[places[e]] receives the table of edge e, if there is room; sums[group] their sums.
    """
    n, n_edges = nodes.shape[0], tail.shape[0]
    n_states = 2 if len(states) == 2 else nodes.shape[1]
    rows, columns = np.empty(n_states), np.empty(n_states)
    own = np.empty((n_states, n_states))
    total = 0.0
    for i in range(n):
        for x in range(n_states):
            one = marginals[i, x]
            total += one * (nodes[i, x] - counting[i] * fast_log(one))
    for e in range(n_edges):
        i = tail[e]
        j = head[e]
        p = slot[e]
        q = slot[n_edges + e]
        scores = pairs[group[e]]
        if wide[p]:
            for x in range(n_states):
                for y in range(n_states):
                    own[x, y] = (
                        scores[x, y] / rho[e]
                        + (beliefs[i, x] - logs[p, x])
                        + (beliefs[j, y] - logs[q, y])
                    )
            scale_logarithms(own, marginals[i], marginals[j], rows)
        else:
            for y in range(n_states):
                columns[y] = marginals[j, y] / messages[q, y]
            for x in range(n_states):
                weight = marginals[i, x] / messages[p, x]
                for y in range(n_states):
                    own[x, y] = weight * table[e, x, y] * columns[y]
        error = 1.0
        for _ in range(4):
            error = scale(n_states, own, marginals, i, j, columns)
            if error <= 1e-13:
                break
        if error > 1e-13:
            correct(n_states, own, marginals, i, j, rows, columns)
        score = 0.0
        entropy = 0.0
        for x in range(n_states):
            for y in range(n_states):
                one = own[x, y]
                score += one * scores[x, y]
                entropy -= one * fast_log(one)  # of 0 it is finite
        total += score + rho[e] * entropy
        if sums.shape[0] > 0:
            add_to = sums[group[e]]
            for x in range(n_states):
                for y in range(n_states):
                    add_to[x, y] += own[x, y]
        else:
            for x in range(n_states):
                for y in range(n_states):
                    tables[places[e], x, y] = own[x, y]
    return total


@kernel
def scale_logarithms(out, row_sums, column_sums, buffer):
    """Two rounds of scaling a table that is given by its logarithms, then its exponential.

    No entry is 0, so that no row or column is.
    """
    n_states = row_sums.shape[0]
    for _ in range(2):
        for x in range(n_states):
            shift = log(row_sums[x]) - log_sum_exp(out[x])
            for y in range(n_states):
                out[x, y] += shift
        for y in range(n_states):
            for x in range(n_states):
                buffer[x] = out[x, y]
            shift = log(column_sums[y]) - log_sum_exp(buffer)
            for x in range(n_states):
                out[x, y] += shift
    for x in range(n_states):
        for y in range(n_states):
            out[x, y] = exp(out[x, y]) + 1e-250


@inlined_kernel
def scale(n_states, out, marginals, i, j, columns):
    """One round of scaling rows, then columns; returns the largest error before it."""
    columns[:] = 0.0
    error = 0.0
    for x in range(n_states):
        total = 0.0
        for y in range(n_states):
            total += out[x, y]
        error = max(error, abs(total - marginals[i, x]))
        factor = marginals[i, x] / total
        for y in range(n_states):
            out[x, y] *= factor
            columns[y] += out[x, y]
    for y in range(n_states):
        factor = marginals[j, y] / columns[y] if columns[y] > 0.0 else 1.0
        error = max(error, abs(columns[y] - marginals[j, y]))
        for x in range(n_states):
            out[x, y] *= factor
    return error


@inlined_kernel
def correct(n_states, out, marginals, i, j, rows, columns):
    """Scale rows and columns down to the marginals, then add the missing mass as a product."""
    columns[:] = 0.0
    for x in range(n_states):
        total = 0.0
        for y in range(n_states):
            total += out[x, y]
        factor = marginals[i, x] / total if total > marginals[i, x] else 1.0
        for y in range(n_states):
            out[x, y] *= factor
            columns[y] += out[x, y]
    for y in range(n_states):
        factor = marginals[j, y] / columns[y] if columns[y] > marginals[j, y] else 1.0
        for x in range(n_states):
            out[x, y] *= factor
    missing = 0.0
    columns[:] = 0.0
    for x in range(n_states):
        total = 0.0
        for y in range(n_states):
            total += out[x, y]
            columns[y] += out[x, y]
        rows[x] = max(marginals[i, x] - total, 0.0)
        missing += rows[x]
    if missing > 0.0:
        for y in range(n_states):
            columns[y] = max(marginals[j, y] - columns[y], 0.0) / missing
        for x in range(n_states):
            for y in range(n_states):
                out[x, y] += rows[x] * columns[y]
