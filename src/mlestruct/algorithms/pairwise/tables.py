"""Tables of node and edge scores, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def checked_tables(
    n_nodes: int, n_edges: int, node_scores: ArrayLike, edge_scores: ArrayLike
) -> tuple[Floats, Floats]:
    """Scores as float64 arrays of shapes (n_nodes, L) and (n_edges, L, L), -inf allowed."""
    nodes = np.array(node_scores, dtype=np.float64, order="C")
    edges = np.array(edge_scores, dtype=np.float64, order="C")
    if nodes.ndim != 2 or nodes.shape[0] != n_nodes or nodes.shape[1] < 2:
        raise ValueError(
            f"node_scores: expected shape ({n_nodes}, n_states) with at least 2 states, "
            f"got {nodes.shape}"
        )
    n_states = nodes.shape[1]
    if n_edges == 0 and edges.size == 0:
        edges = np.zeros((0, n_states, n_states))
    if edges.shape != (n_edges, n_states, n_states):
        raise ValueError(
            f"edge_scores: expected shape {(n_edges, n_states, n_states)}, got {edges.shape}"
        )
    check_scores("node_scores", nodes, n_nodes + n_edges)
    check_scores("edge_scores", edges, n_nodes + n_edges)
    return nodes, edges


def check_scores(name: str, scores: Floats, n_terms: int) -> None:
    """Raise ValueError if there is NaN or infinity, or if a sum of n_terms of them may overflow."""
    if np.isnan(scores).any():
        raise ValueError(f"{name}: contain NaN")
    if np.isposinf(scores).any():
        raise ValueError(f"{name}: contain infinity; only -inf is allowed, for forbidden states")
    largest = float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0))
    if not np.isfinite(4.0 * largest * n_terms):
        raise ValueError(f"{name}: as large as {largest:g}, so that sums of them overflow")
