"""Linear algebra in the column prices: rows eliminated, one Schur complement over columns.

The entropy's Hessian on row i's simplex has the inverse diag(h) - f h h' on the entries but the
largest (entry k, which moves by minus the sum of the others). `h`, `spread` = sum of h and
`den` = 1 + (curvature of k) * spread describe it; f = (den - 1) / (spread * den).
"""

from math import inf, sqrt

import numpy as np

from ..._compile import kernel, shared, summing_kernel
from .row_problem import TINY


@kernel
def factor_rows(rows, t, largest, damping, h, spread, den):
    """Fill h, spread and den at the marginals t.

    `damping` shrinks the convex part c (1-t) log(1-t) of the curvature, which gives a majoriser.
    """
    ptr, a, c = rows.ptr, rows.a, rows.c
    for i in range(ptr.shape[0] - 1):
        k = largest[i]
        rest = 0.0
        total = 0.0
        excess = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            if e == k:
                h[e] = 0.0
                continue
            te = t[e]
            ratio = (1.0 - damping) * c[e] * te / (1.0 - te)
            he = te / max(a[e] - ratio, 1e-9)
            h[e] = he
            rest += te
            total += he
            excess += he * (1.0 - a[e] + ratio)
        ck = (1.0 - damping) * c[k]
        spread[i] = total
        if rest <= TINY or total <= TINY:
            den[i] = 1.0
            spread[i] = 0.0
            continue
        # 1 + (a/t_k - c/rest) * total, written without cancellation.
        d = 1.0 - ck + a[k] * total / t[k] - ck * excess / rest
        den[i] = max(d, 1e-3 * rest, 1e-90)


@kernel
def rank_one(spread, den):
    """The factor f of a row's inverse Hessian diag(h) - f h h'."""
    return (den - 1.0) / (spread * den) if spread > 0.0 else 0.0


@kernel
def apply_rows(rows, h, spread, den, largest, g, prices, out):
    """out = C (g - prices), C the inverse Hessian of all rows on their simplices."""
    ptr, col = rows.ptr, rows.col
    for i in range(ptr.shape[0] - 1):
        start, stop = ptr[i], ptr[i + 1]
        k = largest[i]
        base = g[k] - prices[col[k]]
        pull = 0.0
        for e in range(start, stop):
            out[e] = g[e] - prices[col[e]] - base
            pull += h[e] * out[e]
        pull *= rank_one(spread[i], den[i])
        moved = 0.0
        for e in range(start, stop):
            out[e] = h[e] * (out[e] - pull)
            moved += out[e]
        out[k] = -moved


@shared
@kernel
def is_complete(rows):
    """Whether every row has an entry in every column."""
    n = rows.ptr.shape[0] - 1
    n_cols = rows.rho_cols.shape[0]
    if n_cols == 0 or rows.ptr[n] == 0:
        return False
    singles = 1 if rows.col[rows.ptr[1] - 1] == n_cols else 0
    return rows.ptr[n] == n * (n_cols + singles)


@shared
@summing_kernel
def schur(rows, h, spread, den, largest, z, matrix):
    """Lower triangle of E C E' + diag(z / rho): curvature of the semi-dual in the prices.

    Complete graphs add four rows at a time in one vectorised loop, as fast as a matrix product.
    """
    ptr, col = rows.ptr, rows.col
    n = ptr.shape[0] - 1
    n_cols = rows.rho_cols.shape[0]
    for j in range(n_cols):
        for q in range(n_cols):
            matrix[j, q] = 0.0
    first = 0  # the first row whose entries are added one by one
    if is_complete(rows):
        first = n - n % 4
        for i in range(0, first, 4):
            h0, h1 = h[ptr[i] : ptr[i + 1]], h[ptr[i + 1] : ptr[i + 2]]
            h2, h3 = h[ptr[i + 2] : ptr[i + 3]], h[ptr[i + 3] : ptr[i + 4]]
            f0, f1 = rank_one(spread[i], den[i]), rank_one(spread[i + 1], den[i + 1])
            f2, f3 = rank_one(spread[i + 2], den[i + 2]), rank_one(spread[i + 3], den[i + 3])
            for j in range(n_cols):
                line = matrix[j]
                x0, x1, x2, x3 = f0 * h0[j], f1 * h1[j], f2 * h2[j], f3 * h3[j]
                for q in range(j + 1):
                    line[q] -= x0 * h0[q] + x1 * h1[q] + x2 * h2[q] + x3 * h3[q]
    for i in range(n):
        if spread[i] == 0.0:
            continue
        start, stop = ptr[i], ptr[i + 1]
        jk = col[largest[i]]
        if i >= first:
            f = rank_one(spread[i], den[i])
            for e in range(start, stop):
                if col[e] < n_cols:
                    line = matrix[col[e]]
                    scaled = f * h[e]
                    for e2 in range(start, e + 1):
                        line[col[e2]] -= scaled * h[e2]
        inverse = 1.0 / den[i]
        for e in range(start, stop):
            j = col[e]
            if j < n_cols:
                matrix[j, j] += h[e]
                if jk < j:
                    matrix[j, jk] -= h[e] * inverse
                elif jk < n_cols:
                    matrix[jk, j] -= h[e] * inverse
        if jk < n_cols:
            matrix[jk, jk] += spread[i] * inverse
    for j in range(n_cols):
        if rows.rho_cols[j] > 0.0:
            matrix[j, j] += z[j] / rows.rho_cols[j]


@shared
@summing_kernel
def cholesky(matrix, scale):
    """Factor the Jacobi-scaled lower triangle in place.

    Prices are determined only up to a constant per connected component: a vanishing pivot is
    marked inf, and its unknown stays 0.
    """
    m = matrix.shape[0]
    for j in range(m):
        d = matrix[j, j]
        scale[j] = 1.0 / sqrt(d) if d > 1e-280 else 0.0
    for j in range(m):
        for q in range(j):
            matrix[j, q] *= scale[j] * scale[q]
        matrix[j, j] = 1.0
    for j in range(m):
        row_j = matrix[j]
        pivot = row_j[j]
        for q in range(j):
            pivot -= row_j[q] * row_j[q]
        if pivot <= 1e-13 or scale[j] == 0.0:
            row_j[j] = inf
            for i in range(j + 1, m):
                matrix[i, j] = 0.0
            continue
        root = sqrt(pivot)
        row_j[j] = root
        for i in range(j + 1, m):
            row_i = matrix[i]
            s = row_i[j]
            for q in range(j):
                s -= row_i[q] * row_j[q]
            row_i[j] = s / root


@shared
@kernel
def cholesky_solve(matrix, scale, b, x):
    """Solve with the factor of `cholesky`; b and x have shape (m,)."""
    m = matrix.shape[0]
    for i in range(m):
        if matrix[i, i] == inf:
            x[i] = 0.0
            continue
        s = b[i] * scale[i]
        for q in range(i):
            s -= matrix[i, q] * x[q]
        x[i] = s / matrix[i, i]
    for i in range(m - 1, -1, -1):
        if matrix[i, i] == inf:
            continue
        s = x[i]
        for q in range(i + 1, m):
            s -= matrix[q, i] * x[q]
        x[i] = s / matrix[i, i]
    for i in range(m):
        x[i] *= scale[i]


@kernel
def conjugate_gradients(rows, h, spread, den, largest, z, rhs, rtol, max_iter, zero, image, x):
    """Solve the system of `schur` without forming it (Jacobi preconditioner).

    `zero` and `image` are work space of a number per entry. Returns whether `max_iter` was enough.
    """
    ptr, col = rows.ptr, rows.col
    m = rows.rho_cols.shape[0]
    diagonal = np.zeros(m + 1)
    for i in range(ptr.shape[0] - 1):
        if spread[i] == 0.0:
            continue
        f = rank_one(spread[i], den[i])
        for e in range(ptr[i], ptr[i + 1]):
            diagonal[col[e]] += h[e] - f * h[e] * h[e]
        diagonal[col[largest[i]]] += spread[i] / den[i]
    n_entries = ptr[ptr.shape[0] - 1]
    for e in range(n_entries):
        zero[e] = 0.0
    r = np.empty(m)
    p = np.zeros(m + 1)
    ap = np.empty(m + 1)
    scale = 0.0
    for j in range(m):
        if rows.rho_cols[j] > 0.0:
            diagonal[j] += z[j] / rows.rho_cols[j]
        diagonal[j] = max(diagonal[j], 1e-280)
        x[j] = 0.0
        r[j] = rhs[j]
        p[j] = r[j] / diagonal[j]
        scale += r[j] * p[j]
    rz = scale
    for _ in range(max_iter):
        if rz <= rtol * rtol * scale or rz <= 0.0:
            return True
        apply_rows(rows, h, spread, den, largest, zero, p, image)
        ap[:] = 0.0
        for e in range(n_entries):
            ap[col[e]] -= image[e]
        curvature = 0.0
        for j in range(m):
            if rows.rho_cols[j] > 0.0:
                ap[j] += z[j] / rows.rho_cols[j] * p[j]
            curvature += p[j] * ap[j]
        weight = 0.0
        for j in range(m):
            weight += p[j] * p[j] * diagonal[j]
        if curvature <= 1e-12 * weight:  # along the constants, which the system does not determine
            return True
        step = rz / curvature
        new = 0.0
        for j in range(m):
            x[j] += step * p[j]
            r[j] -= step * ap[j]
            new += r[j] * r[j] / diagonal[j]
        for j in range(m):
            p[j] = r[j] / diagonal[j] + new / rz * p[j]
        rz = new
    return False


@shared
@kernel
def covariance_factors(rows, t, z, damping, largest, h, spread, den, matrix, scale):
    """`factor_rows` with each row's largest entry, and the factor of `schur`, by `cholesky`.

    Rows that are nearly vertices are left out: their curvature is below the rounding error.
    """
    ptr = rows.ptr
    for i in range(ptr.shape[0] - 1):
        largest[i] = ptr[i]
        for e in range(ptr[i], ptr[i + 1]):
            if t[e] > t[largest[i]]:
                largest[i] = e
    factor_rows(rows, t, largest, damping, h, spread, den)
    for i in range(ptr.shape[0] - 1):
        if spread[i] < 1e-7:
            for e in range(ptr[i], ptr[i + 1]):
                h[e] = 0.0
            spread[i] = 0.0
            den[i] = 1.0
    schur(rows, h, spread, den, largest, z, matrix)
    cholesky(matrix, scale)
