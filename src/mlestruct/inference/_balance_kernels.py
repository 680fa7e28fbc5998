"""Scaling the rows and columns of a matching problem until all sums are 1 (Sinkhorn)."""

import numpy as np

from .._compile import kernel


@kernel
def balance(rows, t, z, tol, max_sweeps):
    """Scale t and z in place; returns how far the worst column sum is from 1. Rows are exact."""
    ptr, col = rows.ptr, rows.col
    n_cols = rows.rho_cols.shape[0]
    factor = np.ones(n_cols + 1)
    for _ in range(max_sweeps):
        for i in range(ptr.shape[0] - 1):
            total = 0.0
            for e in range(ptr[i], ptr[i + 1]):
                t[e] *= factor[col[e]]
                total += t[e]
            for e in range(ptr[i], ptr[i + 1]):
                t[e] /= total
        total_of = np.zeros(n_cols + 1)
        for e in range(t.shape[0]):
            total_of[col[e]] += t[e]
        worst = 0.0
        for j in range(n_cols):
            if rows.rho_cols[j] > 0.0:
                z[j] *= factor[j]
                total_of[j] += z[j]
            worst = max(worst, abs(total_of[j] - 1.0))
            factor[j] = 1.0 / total_of[j]
        if not worst > tol:
            return worst
    return worst
