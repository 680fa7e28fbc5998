"""A proof that a point of the local polytope is a mixture of perfect matchings.

It is one iff the edges within every odd set S of nodes sum to at most (|S| - 1) / 2 (Edmonds).
Twice that sum is the quadratic form 1_S' T 1_S of the symmetric matrix T of marginals, so the
eigenvectors of T bound it for all sets of a size at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGEST = 4000  # nodes up to which the eigenvectors take seconds and the table fits in memory
MARGIN = 1e-6  # for rounding errors of eigenvalues, per node of a set


def provably_odd_sets_hold(table: Floats) -> bool:
    """Whether symmetric marginals (n, n) of sums 1 are proven to satisfy all odd-set constraints.

    The pairs of a connected graph are meant. False means only that the bound does not decide.

    Of |1_S|^2 = k, the part k^2 / n belongs to the constant vector. Of the remainder an eigenvector
    v of T - 1 1' / n has at most the square of the sum of its k largest entries. Sets larger than
    n/2 are complements of smaller ones; single nodes satisfy the constraint by their sums.
    """
    n = table.shape[0]
    sizes = np.arange(3, n // 2 + 1, 2)
    if n % 2 or not sizes.size:
        return n % 2 == 0
    values, vectors = np.linalg.eigh(table - 1.0 / n)
    top = -np.sort(-np.abs(vectors), axis=0)
    reach = np.cumsum(top, axis=0)[sizes - 1] ** 2  # (n_sizes, n_vectors)
    mass = sizes * sizes / n
    left = sizes - mass
    for value, most in zip(values[::-1], reach.T[::-1], strict=True):
        if value <= 0.0:
            break
        share = np.minimum(left, most)
        mass = mass + value * share
        left = left - share
    return bool((mass + MARGIN * sizes <= sizes - 1.0).all())
