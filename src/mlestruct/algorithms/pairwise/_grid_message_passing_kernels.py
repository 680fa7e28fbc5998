"""Sequential tree-reweighted message passing on binary 4-connected grids, in the linear domain.

With rho = 1/2 the reweighted entropy is half that of the rows plus half that of the columns. A
message is the ratio m(1)/m(0) into a node; the odds of node k are

    o_k = exp(score_k) * sqrt(from_left * from_right * from_above * from_below),

and a node with odds o that received R over an edge of strength w = exp(2 coupling) sends back
over that edge  (R + w o) / (R + o).  In raster order and back this is exact coordinate descent
on the dual of log Z_rho: the bound never rises.
"""

from math import log, sqrt

from ..._compile import kernel, summing_kernel


@kernel
def pass_messages(height, width, odds, across, along, left, above, right, below):
    """One pass forwards (fills left, above) and one backwards (fills right, below).

    `across` are the strengths of horizontal edges (height, width-1), `along` of vertical ones.
    """
    for i in range(height):
        message = 1.0
        for j in range(width):
            k = i * width + j
            left[k] = message
            r = right[k]
            b = below[k]
            o = odds[k] * sqrt(message * r * above[k] * b)
            if j + 1 < width:
                message = (r + across[i * (width - 1) + j] * o) / (r + o)
            if i + 1 < height:
                above[k + width] = (b + along[k] * o) / (b + o)
    for i in range(height - 1, -1, -1):
        message = 1.0
        for j in range(width - 1, -1, -1):
            k = i * width + j
            right[k] = message
            f = left[k]
            a = above[k]
            o = odds[k] * sqrt(message * f * a * below[k])
            if j > 0:
                message = (f + across[i * (width - 1) + j - 1] * o) / (f + o)
            if i > 0:
                below[k - width] = (a + along[k - width] * o) / (a + o)


@kernel
def bound_and_beliefs(odds, left, above, right, below, belief):
    """Upper bound of log Z_rho after a sweep, relative to the all-zero state; odds of the nodes."""
    total = 0.0
    product = 1.0
    for k in range(odds.shape[0]):
        o = odds[k] * sqrt(left[k] * right[k] * above[k] * below[k])
        belief[k] = o
        row = 1.0 + o / left[k]
        column = 1.0 + o / above[k]
        if row > 1e100 or column > 1e100:
            total += log(row) + log(column)
            continue
        product *= row * column
        if product > 1e100:
            total += log(product)
            product = 1.0
    return 0.5 * (total + log(product))


@kernel
def feasible_point(height, width, strength, left, above, belief, rest, tau):
    """Marginals of the local polytope near the beliefs, and how far they are from optimal.

    Node marginals are the beliefs; each edge gets the table with these marginals and the odds
    ratio `strength` (horizontal edges first), the best there is. Returns
    (bound - attained value), from above. `rest` receives the probabilities of state 0.
    """
    n = height * width
    loss = 0.0
    for k in range(n):
        o = min(max(belief[k], 1e-40), 1e40)  # so that no marginal is 0 or 1
        belief[k] = o
        rest[k] = 1.0 / (1.0 + o)
        tau[k] = o * rest[k]
    e = 0
    for i in range(height):
        a = i * width
        b = a + width
        loss += couple(
            belief[a : b - 1], belief[a + 1 : b], tau[a : b - 1], tau[a + 1 : b], rest[a : b - 1],
            strength[e : e + width - 1], left[a + 1 : b], tau[n + e : n + e + width - 1],
        )  # fmt: skip
        e += width - 1
    m = n - width
    loss += couple(
        belief[:m], belief[width:n], tau[:m], tau[width:n], rest[:m], strength[e:],
        above[width:], tau[n + e :],
    )  # fmt: skip
    return 0.5 * loss


@summing_kernel
def couple(odds, child_odds, one, child_one, zero, strength, message, out):
    """Joint marginals of edges from parents to children; returns sum of KL(table || belief).

    The children's odds are x given parent state 0, strength * x given state 1; x solves a quadratic
    equation. In the pairwise belief they are `expected`. Small divergences are bounded by their
    second-order term.
    """
    total = 0.0
    n_large = 0
    for k in range(out.shape[0]):
        a = odds[k]
        c = child_odds[k]
        s = strength[k]
        top = (1.0 + a) * c
        bottom = (1.0 + a) * s
        linear = (1.0 - a * c) + s * (a - c)
        root = sqrt(linear * linear + 4.0 * bottom * top)
        positive = linear >= 0.0
        x = (2.0 * top if positive else root - linear) / (
            linear + root if positive else 2.0 * bottom
        )
        y = s * x
        q = one[k]
        joint = q * y / (1.0 + y)
        low = max(q + child_one[k] - 1.0, 0.0)
        out[k] = min(max(joint, low), min(q, child_one[k]))
        inverse = 1.0 / (c * message[k])
        expected = c * c * inverse
        change = x * message[k] * message[k] * inverse - 1.0
        p = 1.0 / (1.0 + expected)
        r = 1.0 / (1.0 + s * expected)
        spread = expected * (zero[k] * p * p + q * s * r * r)
        small = abs(change) < 0.01
        total += 0.52 * change * change * spread if small else 0.0
        n_large += 0 if small else 1
    if n_large > 0:
        total += large_divergences(odds, child_odds, one, child_one, zero, strength, message)
    return total


@kernel
def large_divergences(odds, child_odds, one, child_one, zero, strength, message):
    """The share of edges that are too far off for the second-order term."""
    total = 0.0
    for k in range(strength.shape[0]):
        a = odds[k]
        c = child_odds[k]
        s = strength[k]
        linear = (1.0 - a * c) + s * (a - c)
        root = sqrt(linear * linear + 4.0 * (1.0 + a) * s * (1.0 + a) * c)
        if linear >= 0.0:
            x = 2.0 * (1.0 + a) * c / (linear + root)
        else:
            x = (root - linear) / (2.0 * (1.0 + a) * s)
        expected = c / message[k]
        change = x / expected - 1.0
        if abs(change) < 0.01:
            continue
        found = child_one[k] * log(x / expected)
        found -= zero[k] * log((1.0 + x) / (1.0 + expected))
        found -= one[k] * log((1.0 + s * x) / (1.0 + s * expected))
        total += max(found, 0.0)
    return total
