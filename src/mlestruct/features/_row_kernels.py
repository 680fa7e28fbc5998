"""Products with rows of features, summed in double precision: dense, picked and sparse rows."""

from .._compile import kernel, summing_kernel


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
    """out += values @ matrix, four rows at a time, without those where a vertex is 0."""
    n, width = matrix.shape
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = values[i], values[i + 1], values[i + 2], values[i + 3]
        if a == 0.0 and b == 0.0 and c == 0.0 and d == 0.0:
            continue
        p, q, r, s = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for k in range(width):
            out[k] += a * p[k] + b * q[k] + c * r[k] + d * s[k]
    for i in range(whole, n):
        for k in range(width):
            out[k] += values[i] * matrix[i, k]


@kernel
def add_picked_rows(rows, states, values, table, out):
    """out[states[q]] += values[q] * table[rows[q]]."""
    for q in range(rows.shape[0]):
        value, row, target = values[q], table[rows[q]], out[states[q]]
        for k in range(row.shape[0]):
            target[k] += value * row[k]


@kernel
def add_picked_sparse_rows(rows, states, values, data, indices, indptr, out):
    """The same with a table in CSR form."""
    for q in range(rows.shape[0]):
        value, target = values[q], out[states[q]]
        for k in range(indptr[rows[q]], indptr[rows[q] + 1]):
            target[indices[k]] += value * data[k]


@kernel
def sparse_scores(data, indices, indptr, first, weights, out):
    """out = rows first, first + 1, ... of a CSR table @ weights."""
    n = out.shape[1]
    out[:] = 0.0
    for t in range(out.shape[0]):
        target = out[t]
        for k in range(indptr[first + t], indptr[first + t + 1]):
            value, row = data[k], weights[indices[k]]
            for i in range(n):
                target[i] += value * row[i]


@kernel
def sparse_scores_by_state(data, indices, indptr, first, weights, out):
    """The same with the weights of a state in a row: for tables with few entries."""
    out[:] = 0.0
    for t in range(out.shape[0]):
        target = out[t]
        for k in range(indptr[first + t], indptr[first + t + 1]):
            value, column = data[k], indices[k]
            for i in range(out.shape[1]):
                target[i] += value * weights[i, column]


@kernel
def add_sparse_moments(data, indices, indptr, first, tau, out):
    """out += (rows first, first + 1, ... of a CSR table)' @ tau."""
    n = out.shape[1]
    for t in range(tau.shape[0]):
        row = tau[t]
        for k in range(indptr[first + t], indptr[first + t + 1]):
            value, target = data[k], out[indices[k]]
            for i in range(n):
                target[i] += value * row[i]
