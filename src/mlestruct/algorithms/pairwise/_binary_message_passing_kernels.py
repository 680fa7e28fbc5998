"""Sequential tree-reweighted message passing between nodes with two states, on any graph.

A message into node i over one of its half-edges p is the ratio m(1)/m(0), kept with its logarithm.
The field of a node is the logarithm of the odds of state 1,

    field_i = score_i + sum over its half-edges of rho_p log(ratio_p),

and a node with odds o that received R over an edge of strength s = exp(score_e / rho_e) sends back
over that edge  (R + s o) / (R + o).  So a message takes one logarithm and one division, a node one
exponential. Where |score_e| / rho_e > WIDE, ratios might overflow: messages are sums of logarithms.

Half-edges ptr[i]:ptr[i + 1] are those of node i, by the number of the neighbour, which is larger
than i from later[i] on. mate[p] is the same edge at the neighbour.
"""

from math import exp, log, sqrt

from ..._compile import kernel

WIDE = 150.0  # products of a few exponentials of this and their reciprocals are finite
LARGEST_FIELD = 350.0  # of which odds are computed: larger ones change no digit of a message


@kernel
def softplus(x):
    """log(1 + exp(x))."""
    return x + log(1.0 + exp(-x)) if x > 0.0 else log(1.0 + exp(x))


@kernel
def field_at(i, ptr, rho, scores, logs):
    total = scores[i]
    for p in range(ptr[i], ptr[i + 1]):
        total += rho[p] * logs[p]
    return total


@kernel
def pass_messages(
    ptr, later, mate, rho, scores, slopes, strengths, logs, ratios, damping
):  # fmt: skip
    """One pass with messages to later nodes, and one back, with messages to earlier ones."""
    n = scores.shape[0]
    for step in range(2 * n):
        forwards = step < n
        i = step if forwards else 2 * n - 1 - step
        first = later[i] if forwards else ptr[i]
        stop = ptr[i + 1] if forwards else later[i]
        if first == stop:
            continue
        field = field_at(i, ptr, rho, scores, logs)
        odds = exp(min(max(field, -LARGEST_FIELD), LARGEST_FIELD))
        for p in range(first, stop):
            q = mate[p]
            if abs(slopes[p]) > WIDE:
                cavity = field - logs[p]
                message = softplus(cavity + slopes[p]) - softplus(cavity)
                logs[q] = (1.0 - damping) * message + damping * logs[q]
                continue
            ratio = (ratios[p] + strengths[p] * odds) / (ratios[p] + odds)
            message = log(ratio)
            if damping > 0.0:
                message = (1.0 - damping) * message + damping * logs[q]
                ratio = exp(message)
            logs[q] = message
            ratios[q] = ratio


@kernel
def bound_and_fields(
    ptr, node, mate, rho, into, slack, scores, slopes, logs, fields, residual, has_bound
):  # fmt: skip
    """Upper bound of log Z_rho at any messages; fills the fields of the nodes.

    H_rho is the sum of slack_i H(i) over nodes and of into_p H(i | neighbour) over half-edges p. Of
    a conditional entropy there remains, at the neighbour, the difference of the message that would
    be sent and the one that is there, which is maximised node by node. Without a split of rho into
    such parts, `into` being rho / 2, the difference is weighted by the beliefs: then the result is
    no bound, but it is stationary where messages are.
    """
    n = scores.shape[0]
    total = 0.0
    for i in range(n):
        residual[i] = 0.0
    for i in range(n):
        field = field_at(i, ptr, rho, scores, logs)
        fields[i] = field
        for p in range(ptr[i], ptr[i + 1]):
            if into[p] > 0.0:
                cavity = field - logs[p]
                normaliser = softplus(cavity)
                message = softplus(cavity + slopes[p]) - normaliser
                total += into[p] * normaliser
                residual[node[p]] += into[p] * (message - logs[mate[p]])
    for i in range(n):
        if not has_bound:
            total += slack[i] * softplus(fields[i])
            total += residual[i] * exp(fields[i] - softplus(fields[i]))
        elif slack[i] > 1e-6:  # below, the division loses digits; a maximum is a valid bound too
            total += slack[i] * softplus(fields[i] + residual[i] / slack[i])
        else:
            total += slack[i] * softplus(fields[i]) + max(residual[i], 0.0)
    return total


@kernel
def feasible_point(tail, head, rho, counting, scores, couplings, fields, entropies, tau):
    """Marginals of the local polytope with the given fields; returns <scores, tau> + H_rho(tau).

    Each edge gets the table of these node marginals with the odds ratio `strength`, the best there
    is. The odds of its head are x given tail state 0, strength * x given state 1; x solves a
    quadratic equation. `entropies` receives those of the nodes.
    """
    n = scores.shape[0]
    total = 0.0
    for i in range(n):
        field = min(max(fields[i], -92.0), 92.0)  # no marginal is below 1e-40
        fields[i] = field
        one = 1.0 / (1.0 + exp(-field))
        tau[i] = one
        entropies[i] = softplus(field) - one * field
        total += scores[i] * one + counting[i] * entropies[i]
    for e in range(rho.shape[0]):
        i = tail[e]
        j = head[e]
        slope = min(max(couplings[e] / rho[e], -WIDE), WIDE)
        s = exp(slope)
        a = exp(fields[i])
        c = exp(fields[j])
        top = (1.0 + a) * c
        bottom = (1.0 + a) * s
        linear = (1.0 - a * c) + s * (a - c)
        root = sqrt(linear * linear + 4.0 * bottom * top)
        x = 2.0 * top / (linear + root) if linear >= 0.0 else (root - linear) / (2.0 * bottom)
        y = s * x
        low = max(tau[i] + tau[j] - 1.0, 0.0)
        both = min(max(tau[i] * y / (1.0 + y), low), min(tau[i], tau[j]))
        tau[n + e] = both
        conditional = log(1.0 + x) / (1.0 + a) + tau[i] * log(1.0 + y) - tau[j] * log(x)
        total += rho[e] * (entropies[i] + conditional) + (couplings[e] - rho[e] * slope) * both
    return total
