"""Products of a matrix of either precision with a vector, summed in double precision."""

from .._compile import summing_kernel


@summing_kernel
def row_scores(matrix, weights, out):
    """out = matrix @ weights."""
    for i in range(matrix.shape[0]):
        total = 0.0
        for k in range(matrix.shape[1]):
            total += matrix[i, k] * weights[k]
        out[i] = total


@summing_kernel
def row_moments(matrix, values, out):
    """out += values @ matrix, four rows at a time."""
    n, width = matrix.shape
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = values[i], values[i + 1], values[i + 2], values[i + 3]
        p, q, r, s = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for k in range(width):
            out[k] += a * p[k] + b * q[k] + c * r[k] + d * s[k]
    for i in range(whole, n):
        for k in range(width):
            out[k] += values[i] * matrix[i, k]
