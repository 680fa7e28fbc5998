"""Products with rows of node features: picked rows, and rows stored sparsely."""

from .._compile import kernel


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
def add_sparse_moments(data, indices, indptr, first, tau, out):
    """out += (rows first, first + 1, ... of a CSR table)' @ tau."""
    n = out.shape[1]
    for t in range(tau.shape[0]):
        row = tau[t]
        for k in range(indptr[first + t], indptr[first + t + 1]):
            value, target = data[k], out[indices[k]]
            for i in range(n):
                target[i] += value * row[i]
