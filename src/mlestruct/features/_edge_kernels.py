"""Kernels between rows of edges and the minimal coordinates of nodes, then of edges.

A row of an edge holds a value of its tail, one of its head, and one of both.
"""

from .._compile import kernel


@kernel
def spread_rows(tail, head, rows, out):
    """Add each row's first two values to out at the edge's ends, and set that of the edge."""
    n = out.shape[0] - tail.shape[0]
    for e in range(tail.shape[0]):
        out[tail[e]] += rows[e, 0]
        out[head[e]] += rows[e, 1]
        out[n + e] = rows[e, 2]


@kernel
def gather_rows(tail, head, values, rows):
    """The transposed map: values at the ends of each edge, and at the edge itself."""
    n = values.shape[0] - tail.shape[0]
    for e in range(tail.shape[0]):
        rows[e, 0] = values[tail[e]]
        rows[e, 1] = values[head[e]]
        rows[e, 2] = values[n + e]
