"""Kernels for features of pairs that come from two tables, on a list of pairs."""

from enum import IntEnum

import numpy as np

from .._compile import kernel, summing_kernel


class Kind(IntEnum):
    SQUARED = 0
    ABSOLUTE = 1
    PRODUCT = 2


@kernel
def pair_feature(kind, x, y):
    if kind == Kind.SQUARED:
        return -(x - y) * (x - y)
    if kind == Kind.ABSOLUTE:
        return -abs(x - y)
    return x * y


@kernel
def table_scores(kind, left, right, row, col, theta, out):
    for e in range(row.shape[0]):
        x = left[row[e]]
        y = right[col[e]]
        total = 0.0
        for k in range(theta.shape[0]):
            total += theta[k] * pair_feature(kind, x[k], y[k])
        out[e] = total


@kernel
def table_moments(kind, left, right, row, col, weights, out):
    for e in range(row.shape[0]):
        if weights[e] != 0.0:
            x = left[row[e]]
            y = right[col[e]]
            for k in range(out.shape[0]):
                out[k] += weights[e] * pair_feature(kind, x[k], y[k])


@kernel
def complete_moments(kind, left, right, indices, weights, out):
    """The same for some of all pairs, numbered row by row."""
    for e in range(indices.shape[0]):
        i = indices[e] // right.shape[0]
        x = left[i]
        y = right[indices[e] - i * right.shape[0]]
        for k in range(out.shape[0]):
            out[k] += weights[e] * pair_feature(kind, x[k], y[k])


@summing_kernel
def weigh_tables(left, right, theta, doubled, squares):
    """doubled = 2 theta left; squares = sums of theta times the squares of all items, left first.

    `right` has a column for each item.
    """
    n = left.shape[0]
    for i in range(n):
        total = 0.0
        for k in range(theta.shape[0]):
            product = theta[k] * left[i, k]
            doubled[i, k] = 2.0 * product
            total += product * left[i, k]
        squares[i] = total
    sums = np.zeros(right.shape[1])
    for k in range(theta.shape[0]):
        row = right[k]
        for j in range(right.shape[1]):
            sums[j] += theta[k] * row[j] * row[j]
    squares[n:] = sums


@kernel
def subtract_squares(scores, squares):
    """Subtract the squares of row i and of column j from the score of the pair (i, j), in place."""
    n = scores.shape[0]
    for i in range(n):
        for j in range(scores.shape[1]):
            scores[i, j] -= squares[i] + squares[n + j]
