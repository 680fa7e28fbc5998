"""A proven lower bound of log Z for pairwise models: independent nodes (naive mean field).

For any distribution q over labellings, log Z >= <scores, marginals of q> + entropy of q. If the
nodes are independent, both are cheap to evaluate; coordinate ascent improves q.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from ..edge_lists import checked_edges, half_edges
from ._mean_field_kernels import ascend_independent
from .tables import checked_tables

Floats = NDArray[np.float64]


def mean_field(
    n_nodes: int,
    tail: ArrayLike,
    head: ArrayLike,
    node_scores: ArrayLike,
    edge_scores: ArrayLike,
    starts: Sequence[Floats] | None = None,
    tol: float = 1e-8,
    max_sweeps: int = 1000,
) -> tuple[Floats, float]:
    """Distributions of independent nodes with a large <scores, .> + entropy, and that value.

    Each start is improved node by node until a sweep gains no more than `tol` per node; the best
    result is kept. From a labelling the value is at least its score.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    node_scores : array of shape (n_nodes, n_states)
    edge_scores : array of shape (n_edges, n_states, n_states), tail state first
    starts : arrays of shape (n_nodes, n_states), distributions; None: uniform ones

    Returns
    -------
    distributions : ndarray of shape (n_nodes, n_states)
    value : float

    Examples
    --------
    >>> q, value = mean_field(2, [0], [1], np.zeros((2, 2)), np.zeros((1, 2, 2)))
    >>> q.tolist(), round(value, 4)
    ([[0.5, 0.5], [0.5, 0.5]], 1.3863)
    """
    i, j = checked_edges(n_nodes, tail, head)
    nodes, pairs = checked_tables(n_nodes, i.size, node_scores, edge_scores)
    if not (np.isfinite(nodes).all() and np.isfinite(pairs).all()):
        raise ValueError("scores must be finite for a bound by independent nodes; got -inf.")
    graph = (*half_edges(n_nodes, i, j), i, j)
    best, most = np.zeros(nodes.shape), -np.inf
    for start in [np.ones(nodes.shape)] if starts is None else starts:
        q = start / start.sum(axis=1, keepdims=True)
        ascend_independent(*graph, nodes, pairs, q, tol * n_nodes, max_sweeps)
        q /= q.sum(axis=1, keepdims=True)
        across = np.einsum("ex,exy,ey->", q[i], pairs, q[j])
        value = float((nodes * q).sum() + across - xlogy(q, q).sum())
        if value > most:
            best, most = q, value
    return best, most
