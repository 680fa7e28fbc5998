"""Products with sparse rows of features, for several weight vectors at once."""

from .._compile import kernel


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
