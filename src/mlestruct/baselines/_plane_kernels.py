"""Kernels of steps between the cutting planes whose mean is a dual point of the hinge loss.

A plane is an output's r and loss. Of every block the first `count` places are used; `products` are
the inner products of their r.
"""

import numpy as np

from .._compile import kernel, summing_kernel


@summing_kernel
def dot(a, b):
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@kernel
def add_plane(r, losses, weights, products, count, part, loss):
    """Put one more plane, of weight 0, into the place `count`."""
    r[count] = part
    losses[count] = loss
    weights[count] = 0.0
    for k in range(count + 1):
        product = dot(r[k], part)
        products[count, k] = product
        products[k, count] = product


@kernel
def improve(r, losses, weights, products, count, part, total, alpha, rounds):
    """Move weight from the least to the most violating plane, `rounds` times at the most.

    `part`, the mean r of the block, and `total`, the sum of all blocks, follow.
    """
    slopes = np.empty(count)  # of the dual value
    for k in range(count):
        slopes[k] = losses[k] - dot(r[k], total) / alpha
    enough = 0.0
    moved = False
    for _ in range(rounds):
        best = 0
        worst = -1
        for k in range(count):
            if slopes[k] > slopes[best]:
                best = k
            if weights[k] > 0.0 and (worst < 0 or slopes[k] < slopes[worst]):
                worst = k
        gain = slopes[best] - slopes[worst]
        if gain <= enough:
            break
        enough = max(enough, 0.1 * gain)  # of the first round: other blocks come next
        apart = products[best, best] - 2.0 * products[best, worst] + products[worst, worst]
        step = weights[worst]
        if alpha * gain < step * apart:
            step = alpha * gain / apart
        weights[best] += step
        weights[worst] -= step
        for k in range(count):
            slopes[k] -= step / alpha * (products[best, k] - products[worst, k])
        moved = True
    if not moved:
        return
    total -= part
    part[:] = 0.0
    for k in range(count):
        if weights[k] > 0.0:
            part += weights[k] * r[k]
    total += part


@kernel
def make_room(r, losses, weights, products, count):
    """Free the last of `count` places: drop a plane without weight, or merge the two lightest."""
    last = count - 1
    a = 0
    for k in range(1, count):
        if weights[k] < weights[a]:
            a = k
    if weights[a] > 0.0:
        b = 1 if a == 0 else 0
        for k in range(count):
            if k != a and weights[k] < weights[b]:
                b = k
        both = weights[a] + weights[b]
        share = weights[a] / both
        r[b] = share * r[a] + (1.0 - share) * r[b]
        losses[b] = share * losses[a] + (1.0 - share) * losses[b]
        weights[b] = both
        for k in range(count):
            products[b, k] = share * products[a, k] + (1.0 - share) * products[b, k]
        for k in range(count):
            products[k, b] = products[b, k]
        products[b, b] = dot(r[b], r[b])
    if a != last:
        r[a] = r[last]
        losses[a] = losses[last]
        weights[a] = weights[last]
        products[a] = products[last]
        products[:, a] = products[:, last]
        products[a, a] = dot(r[a], r[a])


@kernel
def sweep(r, losses, weights, products, counts, parts, total, alpha, rounds):
    """`improve` every block once."""
    for m in range(counts.shape[0]):
        improve(r[m], losses[m], weights[m], products[m], counts[m], parts[m], total, alpha, rounds)
