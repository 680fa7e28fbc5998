"""Exact inference in chains: forward-backward and Viterbi.

Sums are taken in the linear domain, shifted and normalised at every step; chains whose scores range
too widely for that are done again with logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _forward_backward_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ChainMarginals(NamedTuple):
    """log_z (n_chains,), nodes (n_nodes, L), and edges, either of the shape of the given tables:
    one marginal per edge, or, where all edges share one table, their sum (1, L, L)."""

    log_z: Floats
    nodes: Floats
    edges: Floats


def sum_product(starts: Ints, scores: Floats, tables: Floats) -> ChainMarginals:
    """Marginals of chains with node scores (n_nodes, L) and tables (n_edges or 1, L, L)."""
    step = _step(tables)
    shifts = tables.max(axis=(1, 2)) if tables.size else np.zeros(0)
    weights = np.exp(tables - shifts[:, None, None])
    left, right, nodes = (np.empty_like(scores) for _ in range(3))
    log_z = np.empty(starts.shape[0] - 1)
    kernels.forward_backward(starts, scores, weights, shifts, step, left, right, nodes, log_z)
    if step:
        kernels.join_factors(starts, left, right, weights)
    else:
        weights[0] *= left[:-1].T @ right[1:]
    if np.isnan(log_z).any():
        kernels.log_forward_backward(starts, scores, tables, step, nodes, weights, log_z)
    return ChainMarginals(log_z, nodes, weights)


def max_product(starts: Ints, scores: Floats, tables: Floats) -> Ints:
    """The best state of every node."""
    states = np.empty(scores.shape[0], dtype=np.int64)
    kernels.viterbi(starts, scores, tables, _step(tables), states)
    return states


def _step(tables: Floats) -> int:
    return 0 if tables.shape[0] == 1 else 1
