"""Sequential tree-reweighted message passing on binary 4-connected grids, in the linear domain.

With rho = 1/2 the reweighted entropy is half that of the row chains plus half that of the column
chains. A message is the ratio m(1)/m(0) into a node; the odds of node k are

    o_k = exp(score_k) * sqrt(from_left * from_right * from_above * from_below),

and a node with odds o that received R over an edge of strength w = exp(2 coupling) sends back
over that edge  (R + w o) / (R + o).  In raster order and back this is exact coordinate descent
on the dual of log Z_rho: the bound never rises.
"""

from math import log, log1p, sqrt

from .._compile import kernel

SMALLEST_ODDS = 1e-40  # of a node in the feasible point; more extreme beliefs are moved here
LARGEST_ODDS = 1e40


@kernel
def sweep(height, width, odds, across, along, left, above, right, below):
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
def feasible_point(height, width, strength, left, above, belief, tau):
    """Marginals of the local polytope near the beliefs, and how far they are from optimal.

    Node marginals are the beliefs; each edge gets the table with these marginals and the odds
    ratio `strength` (horizontal edges first), the best there is. Returns
    (bound - attained value), from above.
    """
    n = height * width
    loss = 0.0
    for k in range(n):
        o = min(max(belief[k], SMALLEST_ODDS), LARGEST_ODDS)
        belief[k] = o
        tau[k] = o / (1.0 + o)
    e = 0
    for i in range(height):
        for j in range(width - 1):
            k = i * width + j
            loss += couple(belief, k, k + 1, strength[e], left[k + 1], tau, n + e)
            e += 1
    for k in range(n - width):
        loss += couple(belief, k, k + width, strength[e], above[k + width], tau, n + e)
        e += 1
    return 0.5 * loss


@kernel
def couple(belief, parent, child, strength, message, tau, out):
    """Edge marginal tau[out] of one edge; returns KL(table || pairwise belief), from above."""
    a = belief[parent]
    c = belief[child]
    # The child's odds given parent state 0 are x, given state 1 strength * x.
    top = (1.0 + a) * c
    linear = 1.0 + a * strength - c * (strength + a)
    root = sqrt(linear * linear + 4.0 * (1.0 + a) * strength * top)
    if linear >= 0.0:
        x = 2.0 * top / (linear + root)
    else:
        x = (root - linear) / (2.0 * (1.0 + a) * strength)
    y = strength * x
    q = tau[parent]
    joint = q * y / (1.0 + y)
    joint = min(max(joint, tau[parent] + tau[child] - 1.0), min(tau[parent], tau[child]))
    tau[out] = max(joint, 0.0)
    expected = c / message  # what x is in the pairwise belief
    p0 = expected / (1.0 + expected)
    z = strength * expected
    p1 = z / (1.0 + z)
    rest = 1.0 / (1.0 + a)
    change = x / expected - 1.0
    if -0.01 < change < 0.01:
        spread = rest * p0 / (1.0 + expected) + q * p1 / (1.0 + z)
        return 0.52 * change * change * spread
    loss = tau[child] * log1p(change) - rest * log1p(change * p0) - q * log1p(change * p1)
    return max(loss, 0.0)
