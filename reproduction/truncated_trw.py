"""Likelihood of labellings by a fixed number of message-passing sweeps: the paper's competitor.

After Domke (2013, "Learning graphical model parameters with approximate marginal inference"), and
the programs behind the paper's domke10, domke20 and domke40. For every theta the messages of each
image start from uniform ones and get n_sweeps sweeps of tree-reweighted message passing at
rho = 1/2, forwards and back over the pixels. The beliefs b then define a surrogate of log Z_rho,

    A(scores) = <scores, b> + H_rho(b),    H_rho(b) = sum_p (1 - d_p / 2) H(b_p) + sum_e H(b_e) / 2,

whose gradient is computed by reverse-mode differentiation through all recorded sweeps. L-BFGS
maximises the surrogate of the likelihood. Beliefs of pixels and edges are not projected onto the
local polytope, so they agree with each other only after many sweeps, the surrogate is no bound of
P(theta), and nothing is certified. Memory is linear in the number of sweeps, one image at a time.

Messages, beliefs and cavities are log-odds of state 1. With [[a, y], [x, d]] = 2 E, the message of
a tail with cavity c (its belief without what the head told it) is

    log(exp(y) + exp(d + c)) - log(exp(a) + exp(x + c)).
"""

import numpy as np
from numpy import exp, log, log1p
from scipy.optimize import minimize

from mlestruct._compile import kernel


def fit_truncated(problem, n_sweeps, watch, max_iter=1000, tol=1e-9, gradient_tol=1e-5):
    """Maximise the surrogate from theta = 0.

    Parameters
    ----------
    problem : what `GridCRF._problem` returns
    watch : called with iteration, theta and the surrogate there, first at 0; True stops the fit
    tol : L-BFGS stops when the surrogate changes by less than this, relative to its size,
    gradient_tol : and when no component of the gradient is larger than this

    Returns
    -------
    theta of the best surrogate value, and whether L-BFGS stopped by its criteria
    """
    theta, best = np.zeros(problem.n_features), -np.inf
    iteration = -1

    def report(at, value):
        nonlocal iteration
        iteration += 1
        if watch(iteration, at.copy(), value):
            raise StopIteration

    def negative(at):
        nonlocal theta, best
        value, gradient = surrogate(problem, at, n_sweeps)
        if value > best:
            theta, best = at.copy(), value
        if iteration < 0:
            report(at, value)
        return -value, -gradient

    def iterated(intermediate_result):
        report(intermediate_result.x, -intermediate_result.fun)

    options = {"maxiter": max_iter, "maxfun": 20 * max_iter, "maxcor": 20}
    options |= {"ftol": tol, "gtol": gradient_tol}
    method = {"method": "L-BFGS-B", "jac": True, "callback": iterated, "options": options}
    try:
        found = minimize(negative, theta, **method)
    except StopIteration:  # before the first iteration, which SciPy does not expect
        return theta, False
    return theta, bool(found.success)


def surrogate(problem, theta, n_sweeps):
    """The surrogate of P(theta) and its gradient."""
    total, slope = 0.0, np.zeros_like(theta)
    for block in problem.blocks:
        value, gradient = truncated(block.structure, block.scores(theta), n_sweeps)
        total += block.weight * value
        slope += block.weight * block.moments(gradient)
    return problem.primal(theta, total), problem.target - slope - problem.alpha * theta


def truncated(structure, scores, n_sweeps):
    """A(scores) and its gradient, for a `Pairwise` structure of two states at rho = 1/2."""
    nodes, tables = structure.score_tables(scores)
    field = nodes[:, 1] - nodes[:, 0]
    value, on, by_table = differentiated(
        *neighbours(structure.graph), field, 2.0 * tables, n_sweeps
    )
    by_node = np.column_stack([1.0 - on, on])
    return value + nodes[:, 0].sum(), structure.from_tables(by_node, by_table)


def neighbours(graph):
    """Of each node, as slices start[p]:start[p + 1]: the other ends, edges, and whether p is the
    tail of the edge."""
    ends, n_edges = (graph.tail, graph.head), graph.n_edges
    order = np.argsort(np.concatenate(ends), kind="stable")
    start = np.concatenate([[0], np.cumsum(graph.degree)])
    return start, np.concatenate(ends[::-1])[order], order % n_edges, order < n_edges


@kernel
def differentiated(start, other, edge, is_tail, field, tables, n_sweeps):
    """A for scores of 0 in state 0 of all nodes, and its derivatives by `field` and by E."""
    n_nodes, n_edges = field.shape[0], tables.shape[0]
    message = np.zeros((n_edges, 2))  # [:, 0] from tail to head, [:, 1] from head to tail
    tape = np.empty((2 * n_sweeps, n_edges, 2))  # P(sender is 1), if the receiver is 1 and is 0
    belief = np.empty(n_nodes)
    for half in range(2 * n_sweeps):
        forwards = half % 2 == 0
        for step in range(n_nodes):
            p = step if forwards else n_nodes - 1 - step
            own = belief_of(p, start, edge, is_tail, field, message)
            for k in range(start[p], start[p + 1]):
                if (other[k] > p) == forwards:
                    e, out = edge[k], 0 if is_tail[k] else 1
                    cavity, w = own - message[e, 1 - out], tables[e]
                    y, x = w[out, 1 - out], w[1 - out, out]
                    one, zero = w[1, 1] + cavity - y, x + cavity - w[0, 0]
                    small, tiny = exp(-abs(one)), exp(-abs(zero))
                    tape[half, e, 0] = (1.0 if one > 0.0 else small) / (1.0 + small)
                    tape[half, e, 1] = (1.0 if zero > 0.0 else tiny) / (1.0 + tiny)
                    message[e, out] = (
                        y + max(one, 0.0) - w[0, 0] - max(zero, 0.0)
                        + log((1.0 + small) / (1.0 + tiny))
                    )  # fmt: skip

    value = 0.0
    by_field, by_table = np.zeros(n_nodes), np.zeros((n_edges, 2, 2))
    by_message, by_belief = np.zeros((n_edges, 2)), np.zeros(n_nodes)
    for p in range(n_nodes):
        # <scores, b_p> + (1 - d_p / 2) H(b_p)
        at = belief_of(p, start, edge, is_tail, field, message)
        share, small = 1.0 - 0.5 * (start[p + 1] - start[p]), exp(-abs(at))
        on = (1.0 if at > 0.0 else small) / (1.0 + small)
        value += on * field[p] + share * (max(at, 0.0) + log1p(small) - on * at)
        by_field[p] += on
        by_belief[p] += small / (1.0 + small) ** 2 * (field[p] - share * at)
        belief[p] = at
    for p in range(n_nodes):
        for k in range(start[p], start[p + 1]):
            if is_tail[k]:
                # <E, b_e> + H(b_e) / 2 = (log sum exp(2 E + c s + d t) - c <s> - d <t>) / 2
                e, q = edge[k], other[k]
                c, d = belief[p] - message[e, 1], belief[q] - message[e, 0]
                table = tables[e].copy()
                table[1, :] += c
                table[:, 1] += d
                top = table.max()
                table = exp(table - top)
                total = table.sum()
                table /= total
                left, right, both = table[1].sum(), table[:, 1].sum(), table[1, 1]
                value += 0.5 * (top + log(total) - c * left - d * right)
                for s in range(2):
                    for t in range(2):
                        by_table[e, s, t] += table[s, t] * (1.0 - c * (s - left) - d * (t - right))
                shared = both - left * right
                by_c = -0.5 * (c * left * (1.0 - left) + d * shared)
                by_d = -0.5 * (d * right * (1.0 - right) + c * shared)
                by_belief[p] += by_c
                by_belief[q] += by_d
                by_message[e, 1] -= by_c
                by_message[e, 0] -= by_d
    for p in range(n_nodes):
        spread(p, by_belief[p], start, edge, is_tail, by_field, by_message)

    for half in range(2 * n_sweeps - 1, -1, -1):
        forwards = half % 2 == 0
        for step in range(n_nodes - 1, -1, -1):
            p = step if forwards else n_nodes - 1 - step
            slope = 0.0
            for k in range(start[p], start[p + 1]):
                if (other[k] > p) == forwards:
                    e, out = edge[k], 0 if is_tail[k] else 1
                    up, down = tape[half, e, 0], tape[half, e, 1]
                    g = by_message[e, out]
                    by_message[e, out] = 0.0  # the message that was replaced had no effect
                    by_table[e, 1, 1] += 2.0 * g * up
                    by_table[e, out, 1 - out] += 2.0 * g * (1.0 - up)
                    by_table[e, 1 - out, out] -= 2.0 * g * down
                    by_table[e, 0, 0] -= 2.0 * g * (1.0 - down)
                    by_message[e, 1 - out] -= g * (up - down)
                    slope += g * (up - down)
            spread(p, slope, start, edge, is_tail, by_field, by_message)
    return value, by_field, by_table


@kernel
def belief_of(p, start, edge, is_tail, field, message):
    total = 0.0
    for k in range(start[p], start[p + 1]):
        total += message[edge[k], 1 if is_tail[k] else 0]
    return field[p] + 0.5 * total


@kernel
def spread(p, slope, start, edge, is_tail, by_field, by_message):
    """The reverse of `belief_of`: a belief's derivative goes to what it is the sum of."""
    by_field[p] += slope
    for k in range(start[p], start[p + 1]):
        by_message[edge[k], 1 if is_tail[k] else 0] += 0.5 * slope
