"""A proven lower bound of log Z for pairwise models: independent nodes (naive mean field).

For any distribution q over labellings, log Z >= <scores, marginals of q> + entropy of q. If the
nodes are independent, both are cheap to evaluate; coordinate ascent improves q.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from ..edge_lists import checked_edges, half_edges
from . import _mean_field_kernels as kernels
from .tables import checked_tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def mean_field(
    n_nodes: int,
    tail: ArrayLike,
    head: ArrayLike,
    node_scores: ArrayLike,
    edge_scores: ArrayLike,
    starts: Sequence[ArrayLike] | None = None,
    tol: float = 1e-8,
    max_sweeps: int = 1000,
) -> tuple[Floats, float]:
    """Distributions of independent nodes with a large <scores, .> + entropy, and that value.

    The value is at most log Z for any distributions. Each start is improved node by node until a
    sweep gains no more than `tol` per node; the best result is kept.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    node_scores : array of shape (n_nodes, n_states)
    edge_scores : array of shape (n_edges, n_states, n_states), tail state first
    starts : arrays of shape (n_nodes, n_states), distributions up to scale; None: uniform ones

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
    graph, nodes, pairs = check_model(n_nodes, tail, head, node_scores, edge_scores)
    best, most = np.zeros(nodes.shape), -np.inf
    for q in check_starts(starts, *nodes.shape):
        kernels.ascend_independent(*graph, nodes, pairs, q, tol * n_nodes, max_sweeps)
        q /= q.sum(axis=1, keepdims=True)
        value = independent_value(graph[2], graph[3], nodes, pairs, q)
        if value > most:
            best, most = q, value
    return best, most


def independent_value(tail: Ints, head: Ints, nodes: Floats, pairs: Floats, q: Floats) -> float:
    """<scores, .> + entropy of independent nodes with the distributions q."""
    across = np.einsum("ex,exy,ey->", q[tail], pairs, q[head])
    return float((nodes * q).sum() + across - xlogy(q, q).sum())


def check_model(
    n_nodes: int, tail: ArrayLike, head: ArrayLike, node_scores: ArrayLike, edge_scores: ArrayLike
) -> tuple[tuple[Ints, Ints, Ints, Ints], Floats, Floats]:
    """(ptr, edge, tail, head) of the graph, each node's edges side by side, and both scores."""
    first, second = checked_edges(n_nodes, tail, head)
    nodes, pairs = checked_tables(n_nodes, first.shape[0], node_scores, edge_scores)
    for name, scores in (("node_scores", nodes), ("edge_scores", pairs)):
        if not np.isfinite(scores).all():
            raise ValueError(f"{name}: expected finite numbers, found -inf")
    ptr, half = half_edges(n_nodes, first, second)
    return (ptr, half % max(first.shape[0], 1), first, second), nodes, pairs


def check_starts(starts: Sequence[ArrayLike] | None, n_nodes: int, n_states: int) -> list[Floats]:
    """Copies of the starts, each node's distribution summing to 1."""
    given: Sequence[Any] = [np.ones((n_nodes, n_states))] if starts is None else starts
    out = []
    for k, start in enumerate(given):
        q = np.array(start, dtype=np.float64)
        if q.shape != (n_nodes, n_states):
            raise ValueError(f"starts[{k}]: expected shape {(n_nodes, n_states)}, got {q.shape}")
        total = q.sum(axis=1, keepdims=True)
        if not ((q >= 0.0).all() and np.isfinite(total).all() and (total > 0.0).all()):
            raise ValueError(
                f"starts[{k}]: expected a distribution for every node, that is numbers >= 0 "
                "that are not all 0"
            )
        out.append(q / total)
    if not out:
        raise ValueError("starts: expected at least one; None is for uniform distributions")
    return out
