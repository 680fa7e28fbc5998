"""Linear algebra in the column prices: rows eliminated, one Schur complement over columns.

The entropy's Hessian on row i's simplex has the inverse diag(h) - f h h' on the entries but the
largest (entry k, which moves by minus the sum of the others). `h`, `spread` = sum of h and
`den` = 1 + (curvature of k) * spread describe it; f = (den - 1) / (spread * den).
"""

from math import inf, sqrt

import numpy as np

from ..._compile import kernel, summing_kernel
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


@kernel
def is_complete(rows):
    """Whether every row has an entry in every column."""
    n = rows.ptr.shape[0] - 1
    n_cols = rows.rho_cols.shape[0]
    width = rows.ptr[1] - rows.ptr[0] if n > 0 else 0
    return width >= n_cols and n * width == rows.ptr[n] and n_cols > 0


@kernel
def schur(rows, h, spread, den, largest, z, matrix):
    """Lower triangle of E C E' + diag(z / rho): curvature of the semi-dual in the prices."""
    if matrix.shape[0] > 48 and is_complete(rows):  # below, BLAS costs more than it saves
        dense_schur(rows, h, spread, den, largest, z, matrix)
    else:
        sparse_schur(rows, h, spread, den, largest, z, matrix)


@kernel
def dense_schur(rows, h, spread, den, largest, z, matrix):
    """`schur` of a complete graph, its bulk as one matrix product."""
    ptr, col = rows.ptr, rows.col
    n = ptr.shape[0] - 1
    n_cols = rows.rho_cols.shape[0]
    table = np.ascontiguousarray(h.reshape(n, ptr[1])[:, :n_cols])
    weighted = np.empty_like(table)
    for i in range(n):
        f = rank_one(spread[i], den[i])
        for j in range(n_cols):
            weighted[i, j] = -f * table[i, j]
    matrix[:] = np.dot(weighted.T, table)
    for i in range(n):
        jk = col[largest[i]]
        for j in range(n_cols):
            matrix[j, j] += table[i, j]
            if jk < n_cols:
                if jk < j:
                    matrix[j, jk] -= table[i, j] / den[i]
                else:
                    matrix[jk, j] -= table[i, j] / den[i]
        if jk < n_cols:
            matrix[jk, jk] += spread[i] / den[i]
    for j in range(n_cols):
        if rows.rho_cols[j] > 0.0:
            matrix[j, j] += z[j] / rows.rho_cols[j]


@kernel
def sparse_schur(rows, h, spread, den, largest, z, matrix):
    """`schur`, entry by entry."""
    ptr, col = rows.ptr, rows.col
    n_cols = rows.rho_cols.shape[0]
    matrix[:] = 0.0
    for i in range(ptr.shape[0] - 1):
        if spread[i] == 0.0:
            continue
        start, stop = ptr[i], ptr[i + 1]
        k = largest[i]
        jk = col[k]
        f = rank_one(spread[i], den[i])
        for e in range(start, stop):
            he = h[e]
            j = col[e]
            if he == 0.0 or j == n_cols:
                continue
            line = matrix[j]
            line[j] += he
            scaled = f * he
            for e2 in range(start, e + 1):
                line[col[e2]] -= scaled * h[e2]
            if jk < n_cols:
                if jk < j:
                    line[jk] -= he / den[i]
                else:
                    matrix[jk, j] -= he / den[i]
        if jk < n_cols:
            matrix[jk, jk] += spread[i] / den[i]
    for j in range(n_cols):
        if rows.rho_cols[j] > 0.0:
            matrix[j, j] += z[j] / rows.rho_cols[j]


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
def conjugate_gradients(rows, h, spread, den, largest, z, rhs, x, rtol, max_iter):
    """Solve the system of `schur` without forming it (Jacobi preconditioner).

    Returns whether the residual fell to rtol of its start within max_iter steps.
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
    image = np.empty(n_entries)
    zero = np.zeros(n_entries)
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


@kernel
def feature_covariance(rows, t, z, largest, matrix, scale, h, spread, den, features, source):
    """G' Cov G, the Hessian of log Z_rho in theta, from factors at the marginals (t, z).

    `features` has shape (n_scored, K); entry e of the rows carries features[source[e]], or none
    where source[e] is not a row of it. `matrix`, `scale` come from `cholesky`.
    """
    ptr, col = rows.ptr, rows.col
    n = ptr.shape[0] - 1
    m = rows.rho_cols.shape[0]
    n_scored, size = features.shape
    threshold = 0.0
    for i in range(n):
        threshold = max(threshold, spread[i])
    threshold *= 1e-9  # smaller rows change the sum by less than its rounding
    n_kept = 0
    for e in range(h.shape[0]):
        if h[e] > threshold:
            n_kept += 1
    kept = np.empty((n_kept, size))
    pull = np.zeros((n, size))
    weighted = np.empty((n, size))
    columns = np.zeros((m + 1, size))
    base = np.empty(size)
    at = 0
    for i in range(n):
        start, stop = ptr[i], ptr[i + 1]
        k = largest[i]
        f = rank_one(spread[i], den[i])
        if source[k] < n_scored:
            base[:] = features[source[k]]
        else:
            base[:] = 0.0
        first = at
        for e in range(start, stop):
            if h[e] <= threshold:
                continue
            root = sqrt(h[e])
            row = kept[at]
            if source[e] < n_scored:
                own = features[source[e]]
                for q in range(size):
                    row[q] = root * (own[q] - base[q])
            else:
                for q in range(size):
                    row[q] = -root * base[q]
            total = pull[i]
            for q in range(size):
                total[q] += root * row[q]
            at += 1
        for q in range(size):
            weighted[i, q] = f * pull[i, q]
        at = first
        target_k = columns[col[k]]
        for e in range(start, stop):
            if h[e] <= threshold:
                continue
            root = sqrt(h[e])
            row = kept[at]
            target = columns[col[e]]
            for q in range(size):
                change = root * row[q] - h[e] * weighted[i, q]
                target[q] += change
                target_k[q] -= change
            at += 1
    result = np.dot(kept.T, kept) - np.dot(weighted.T, pull)
    for j in range(m):
        if matrix[j, j] == inf:
            columns[j] = 0.0
            continue
        line = columns[j]
        for q in range(size):
            line[q] *= scale[j]
        for p in range(j):
            factor = matrix[j, p]
            if factor != 0.0:
                other = columns[p]
                for q in range(size):
                    line[q] -= factor * other[q]
        for q in range(size):
            line[q] /= matrix[j, j]
    tail = columns[:m]
    return result - np.dot(tail.T, tail)
