"""Independent draws from linear-chain models: forward filtering, backward sampling.

The forward pass of sum-product leaves the distribution of every state given the next one; states
are drawn from the last node of a chain to its first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import InfeasibleError
from . import _backward_sampling_kernels as kernels
from .tables import check_scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def sample_chains(
    starts: ArrayLike,
    node_scores: ArrayLike,
    edge_scores: ArrayLike,
    n_samples: int,
    rng: np.random.Generator,
) -> Ints:
    """Draw labellings of chains from P(x) ~ exp(sum of node scores + sum of edge scores).

    Parameters
    ----------
    starts : integer array of shape (n_chains + 1,)
        Chain c owns the nodes starts[c] .. starts[c+1]-1.
    node_scores : array of shape (n_nodes, n_states)
    edge_scores : array of shape (n_edges, n_states, n_states), or (1, n_states, n_states)
        One table per edge t -> t+1, chain after chain, the state of t first, or one for all edges.
        Scores of -inf forbid a state or a pair of states.
    n_samples : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_samples, n_nodes)

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.algorithms.pairwise.backward_sampling import sample_chains
    >>> other = [[[0.0, 50.0], [50.0, 0.0]]]  # neighbours differ
    >>> nodes = [[50.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    >>> sample_chains([0, 3], nodes, other, 2, np.random.default_rng(0))
    array([[0, 1, 0],
           [0, 1, 0]])
    """
    if n_samples < 1:
        raise ValueError(f"n_samples: expected at least 1, got {n_samples}")
    nodes = np.array(node_scores, dtype=np.float64, order="C")
    if nodes.ndim != 2 or 0 in nodes.shape:
        raise ValueError(f"node_scores: expected shape (n_nodes, n_states), got {nodes.shape}")
    n_nodes, n_states = nodes.shape
    bounds = np.array(starts, dtype=np.int64)
    if (
        bounds.ndim != 1
        or bounds.size < 2
        or bounds[0] != 0
        or bounds[-1] != n_nodes
        or (np.diff(bounds) < 1).any()
    ):
        raise ValueError(
            f"starts: expected rising numbers from 0 to {n_nodes}, one more than chains, got "
            f"{bounds.tolist()}"
        )
    n_edges = n_nodes - (bounds.size - 1)
    tables = np.array(edge_scores, dtype=np.float64, order="C")
    if tables.shape not in {(n, n_states, n_states) for n in (1, n_edges)}:
        raise ValueError(
            f"edge_scores: expected shape {(n_edges, n_states, n_states)} or "
            f"{(1, n_states, n_states)}, got {tables.shape}"
        )
    check_scores("node_scores", nodes, n_nodes + n_edges)
    check_scores("edge_scores", tables, n_nodes + n_edges)
    states = np.empty((n_nodes, n_samples), dtype=np.int64)
    step = 0 if tables.shape[0] == 1 else 1
    empty = kernels.sample_backward(bounds, nodes, tables, step, rng, states)
    if empty >= 0:
        raise InfeasibleError(
            f"chain {empty}: every labelling has a score of -inf, nothing is admissible",
            [],
            "nodes",
        )
    return np.ascontiguousarray(states.T)
