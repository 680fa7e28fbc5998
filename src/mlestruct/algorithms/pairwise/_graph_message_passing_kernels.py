"""Sequential tree-reweighted message passing on any graph, any number of states, log domain.

Messages into the tail and head of edge e are log functions of that node's state. A node's belief
is  b_i = score_i + sum over its edges of rho_e M_e->i,  its cavity for edge e  b_i - M_e->i, and

    M_e->j(y) = log sum_x exp(score_e(x, y) / rho_e + b_i(x) - M_e->i(x)).

`table` holds exp(score_e / rho_e - peak_e), tail state first.
"""

from math import exp, log

import numpy as np

from ..._compile import kernel
from ._log_domain_kernels import log_sum_exp


@kernel
def pass_messages(
    ptr, edge, tail, head, rho, nodes, pairs, table, peak, to_tail, to_head, damping
):  # fmt: skip
    """One pass with messages to later nodes, and one back, to earlier nodes."""
    n, n_states = nodes.shape
    belief = np.empty(n_states)
    cavity = np.empty(n_states)
    message = np.empty(n_states)
    for backwards in range(2):
        for step in range(n):
            i = n - 1 - step if backwards else step
            add_messages(i, ptr, edge, tail, rho, nodes, to_tail, to_head, belief)
            for a in range(ptr[i], ptr[i + 1]):
                e = edge[a]
                at_tail = tail[e] == i
                j = head[e] if at_tail else tail[e]
                if (j < i) != (backwards == 1):
                    continue
                if at_tail:
                    for x in range(n_states):
                        cavity[x] = belief[x] - to_tail[e, x]
                    send(e, True, cavity, rho, pairs, table, peak, message)
                    store(e, to_head, message, damping)
                else:
                    for x in range(n_states):
                        cavity[x] = belief[x] - to_head[e, x]
                    send(e, False, cavity, rho, pairs, table, peak, message)
                    store(e, to_tail, message, damping)


@kernel
def add_messages(i, ptr, edge, tail, rho, nodes, to_tail, to_head, belief):
    """Unnormalised log belief of node i."""
    n_states = nodes.shape[1]
    for x in range(n_states):
        belief[x] = nodes[i, x]
    for a in range(ptr[i], ptr[i + 1]):
        e = edge[a]
        incoming = to_tail if tail[e] == i else to_head
        for x in range(n_states):
            belief[x] += rho[e] * incoming[e, x]


@kernel
def store(e, messages, message, damping):
    """Put a message in place, with mean zero."""
    n_states = message.shape[0]
    mean = 0.0
    for y in range(n_states):
        mean += message[y]
    mean /= n_states
    for y in range(n_states):
        messages[e, y] = (1.0 - damping) * (message[y] - mean) + damping * messages[e, y]


@kernel
def send(e, from_tail, cavity, rho, pairs, table, peak, message):
    """message(y) = log sum_x exp(score_e(x, y) / rho_e + cavity(x))."""
    n_states = cavity.shape[0]
    top = cavity[0]
    for x in range(1, n_states):
        top = max(top, cavity[x])
    message[:] = 0.0
    for x in range(n_states):
        weight = exp(cavity[x] - top)
        if from_tail:
            for y in range(n_states):
                message[y] += weight * table[e, x, y]
        else:
            for y in range(n_states):
                message[y] += weight * table[e, y, x]
    for y in range(n_states):
        if message[y] > 1e-250:
            message[y] = log(message[y]) + top + peak[e]
            continue
        # All terms underflow: the sum is taken relative to its largest term.
        best = -np.inf
        for x in range(n_states):
            score = pairs[e, x, y] if from_tail else pairs[e, y, x]
            best = max(best, score / rho[e] + cavity[x])
        total = 0.0
        for x in range(n_states):
            score = pairs[e, x, y] if from_tail else pairs[e, y, x]
            total += exp(score / rho[e] + cavity[x] - best)
        message[y] = best + log(total)


@kernel
def bound_and_beliefs(
    ptr, edge, tail, head, rho, counting, into_tail, into_head, nodes, pairs, table, peak,
    to_tail, to_head, beliefs,
):  # fmt: skip
    """Upper bound of log Z_rho at any messages; fills the normalised log beliefs of the nodes.

    The scores equal  constant + sum_n counting_n log b_n + sum_e rho_e log b_e  on the local
    polytope. rho_e splits into conditional entropies, the part `into_head` given the tail. What
    remains is the difference of pairwise and node beliefs at the conditioning ends, which is
    maximised node by node.
    """
    n, n_states = nodes.shape
    total = 0.0
    belief = np.empty(n_states)
    constants = np.empty(n)
    for i in range(n):
        add_messages(i, ptr, edge, tail, rho, nodes, to_tail, to_head, belief)
        constants[i] = log_sum_exp(belief)
        for x in range(n_states):
            beliefs[i, x] = belief[x] - constants[i]
        total += counting[i] * constants[i]
    residual = np.zeros((n, n_states))
    slack = np.ones(n)
    at_tail = np.empty(n_states)
    at_head = np.empty(n_states)
    message = np.empty(n_states)
    for e in range(rho.shape[0]):
        i = tail[e]
        j = head[e]
        slack[i] -= into_tail[e]
        slack[j] -= into_head[e]
        for x in range(n_states):
            at_tail[x] = beliefs[i, x] + constants[i] - to_tail[e, x]
            at_head[x] = beliefs[j, x] + constants[j] - to_head[e, x]
        send(e, False, at_head, rho, pairs, table, peak, message)
        for x in range(n_states):
            belief[x] = at_tail[x] + message[x]
        constant = log_sum_exp(belief)
        total += rho[e] * constant
        if into_head[e] > 0.0:
            shift = constants[i] - constant
            for x in range(n_states):
                residual[i, x] += into_head[e] * (message[x] - to_tail[e, x] + shift)
        if into_tail[e] > 0.0:
            send(e, True, at_tail, rho, pairs, table, peak, message)
            shift = constants[j] - constant
            for x in range(n_states):
                residual[j, x] += into_tail[e] * (message[x] - to_head[e, x] + shift)
    for i in range(n):
        if slack[i] > 1e-6:  # below, the division loses digits; a maximum is a valid bound too
            for x in range(n_states):
                belief[x] = beliefs[i, x] + residual[i, x] / slack[i]
            total += slack[i] * log_sum_exp(belief)
        else:
            worst = residual[i, 0]
            for x in range(1, n_states):
                worst = max(worst, residual[i, x])
            total += worst
    return total


@kernel
def edge_tables(
    tail, head, rho, pairs, table, to_tail, to_head, beliefs, marginals, tables
):  # fmt: skip
    """Edge tables with the node marginals `marginals`, by scaling the pairwise beliefs.

    A few rounds of Sinkhorn scaling, then a correction that makes the marginals exact.
    """
    n_states = marginals.shape[1]
    rows = np.empty(n_states)
    columns = np.empty(n_states)
    weight = np.empty(n_states)
    for e in range(tail.shape[0]):
        i = tail[e]
        j = head[e]
        out = tables[e]
        top = -np.inf
        for x in range(n_states):
            weight[x] = beliefs[i, x] - to_tail[e, x]
            top = max(top, weight[x])
        for x in range(n_states):
            weight[x] = exp(weight[x] - top)
        top = -np.inf
        for y in range(n_states):
            columns[y] = beliefs[j, y] - to_head[e, y]
            top = max(top, columns[y])
        for y in range(n_states):
            columns[y] = exp(columns[y] - top)
        for x in range(n_states):
            for y in range(n_states):
                out[x, y] = weight[x] * table[e, x, y] * columns[y]
        if smallest_sum(out) < 1e-100:  # scaling would lose digits: it starts from logarithms
            for x in range(n_states):
                for y in range(n_states):
                    out[x, y] = (
                        pairs[e, x, y] / rho[e]
                        + (beliefs[i, x] - to_tail[e, x])
                        + (beliefs[j, y] - to_head[e, y])
                    )
            scale_logarithms(out, marginals[i], marginals[j], weight)
        for x in range(n_states):
            for y in range(n_states):
                out[x, y] += 1e-250  # no row or column is zero
        for _ in range(4):
            if scale(out, marginals[i], marginals[j], rows, columns) <= 1e-13:
                break
        correct(out, marginals[i], marginals[j], rows, columns)


@kernel
def smallest_sum(out):
    """The least sum of a row or a column."""
    n_states = out.shape[0]
    least = np.inf
    for x in range(n_states):
        row = 0.0
        column = 0.0
        for y in range(n_states):
            row += out[x, y]
            column += out[y, x]
        least = min(least, min(row, column))
    return least


@kernel
def scale_logarithms(out, row_sums, column_sums, buffer):
    """Two rounds of scaling a table that is given by its logarithms, then its exponential."""
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
            out[x, y] = exp(out[x, y])


@kernel
def scale(out, row_sums, column_sums, rows, columns):
    """One round of scaling rows, then columns; returns the largest error of a row before it."""
    n_states = row_sums.shape[0]
    columns[:] = 0.0
    error = 0.0
    for x in range(n_states):
        total = 0.0
        for y in range(n_states):
            total += out[x, y]
        error = max(error, abs(total - row_sums[x]))
        factor = row_sums[x] / total
        for y in range(n_states):
            out[x, y] *= factor
            columns[y] += out[x, y]
    for y in range(n_states):
        factor = column_sums[y] / columns[y] if columns[y] > 0.0 else 1.0
        error = max(error, abs(columns[y] - column_sums[y]))
        for x in range(n_states):
            out[x, y] *= factor
    return error


@kernel
def correct(out, row_sums, column_sums, rows, columns):
    """Scale rows and columns down to their sums, then add the missing mass as a product."""
    n_states = row_sums.shape[0]
    columns[:] = 0.0
    for x in range(n_states):
        total = 0.0
        for y in range(n_states):
            total += out[x, y]
        factor = row_sums[x] / total if total > row_sums[x] else 1.0
        for y in range(n_states):
            out[x, y] *= factor
            columns[y] += out[x, y]
    for y in range(n_states):
        factor = column_sums[y] / columns[y] if columns[y] > column_sums[y] else 1.0
        for x in range(n_states):
            out[x, y] *= factor
    missing = 0.0
    columns[:] = 0.0
    for x in range(n_states):
        total = 0.0
        for y in range(n_states):
            total += out[x, y]
            columns[y] += out[x, y]
        rows[x] = max(row_sums[x] - total, 0.0)
        missing += rows[x]
    if missing > 0.0:
        for y in range(n_states):
            columns[y] = max(column_sums[y] - columns[y], 0.0) / missing
        for x in range(n_states):
            for y in range(n_states):
                out[x, y] += rows[x] * columns[y]
