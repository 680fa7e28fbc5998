"""Exact inference in linear-chain models: forward-backward, Viterbi and independent draws.

Several sequences lie side by side: sequence m owns the nodes starts[m] .. starts[m+1]-1. Sums are
taken in the linear domain, shifted and normalised at every node; sequences whose scores range too
widely for that are computed again with logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._running import wait_for
from ...exceptions import InfeasibleError
from . import _forward_backward_kernels as kernels
from .tables import check_scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class SequenceMarginals(NamedTuple):
    """Answer of `forward_backward`.

    log_z : ndarray of shape (n_sequences,)
    nodes : ndarray of shape (n_nodes, L)
    edges : ndarray of the shape of the given tables: one marginal per edge, or, where all edges
        share one table, their sum, shape (1, L, L)
    """

    log_z: Floats
    nodes: Floats
    edges: Floats


def forward_backward(starts: Ints, scores: Floats, tables: Floats) -> SequenceMarginals:
    """Marginals and log Z of sequences.

    Parameters
    ----------
    starts : ndarray of shape (n_sequences + 1,)
    scores : ndarray of shape (n_nodes, L)
    tables : ndarray of shape (n_edges, L, L), or (1, L, L) for one table for all edges
        Edges t -> t+1, sequence after sequence, the state of t first.
    """
    step = _step(tables)
    shifts = tables.max(axis=(1, 2)) if tables.size else np.zeros(0)
    weights = np.exp(tables - shifts[:, None, None])
    left, right, nodes = (np.empty_like(scores) for _ in range(3))
    tops = np.empty(scores.shape[0])
    kernels.shift_rows(scores, tops, right)
    np.exp(right, out=right)  # several times faster than one by one in the kernel
    log_z = np.add.reduceat(tops, starts[:-1])
    _call(kernels.forward_backward, starts, weights, shifts, step, left, right, nodes, log_z)
    if step:
        kernels.join_factors(starts, left, right, weights)
    else:
        weights[0] *= left[:-1].T @ right[1:]
    if np.isnan(log_z).any():
        _call(kernels.log_forward_backward, starts, scores, tables, step, nodes, weights, log_z)
    return SequenceMarginals(log_z, nodes, weights)


def viterbi(starts: Ints, scores: Floats, tables: Floats) -> Ints:
    """The states of the labelling of the largest score, shape (n_nodes,)."""
    states = np.empty(scores.shape[0], dtype=np.int64)
    _call(kernels.viterbi, starts, scores, tables, _step(tables), states)
    return states


def sample_sequences(
    starts: ArrayLike,
    node_scores: ArrayLike,
    edge_scores: ArrayLike,
    n_samples: int,
    rng: np.random.Generator,
) -> Ints:
    """Independent draws from P(x) ~ exp(sum of node scores + sum of edge scores).

    Forward filtering, backward sampling: the forward pass gives the distribution of every state
    given the next one, and states are drawn from the last node of a sequence to its first.

    Parameters
    ----------
    starts : integer array of shape (n_sequences + 1,)
    node_scores : array of shape (n_nodes, n_states)
    edge_scores : array of shape (n_edges, n_states, n_states), or (1, n_states, n_states)
        As for `forward_backward`. Scores of -inf forbid a state or a pair of states.
    n_samples : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_samples, n_nodes)

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.algorithms.pairwise.forward_backward import sample_sequences
    >>> other = [[[0.0, 50.0], [50.0, 0.0]]]  # neighbours differ
    >>> nodes = [[50.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    >>> sample_sequences([0, 3], nodes, other, 2, np.random.default_rng(0))
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
            f"starts: expected rising numbers from 0 to {n_nodes}, one more than sequences, got "
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
    empty = kernels.sample_backward(bounds, nodes, tables, _step(tables), rng, states)
    if empty >= 0:
        raise InfeasibleError(
            f"sequence {empty}: every labelling has a score of -inf, nothing is admissible",
            [],
            "nodes",
        )
    return np.ascontiguousarray(states.T)


def _call(kernel: Callable[..., None], starts: Ints, first: Floats, *rest: Any) -> None:
    n_products = float(starts[-1]) * first.shape[-1] ** 2
    wait_for("a pass over sequences", kernel, starts, first, *rest, seconds=5e-9 * n_products)


def _step(tables: Floats) -> int:
    return 0 if tables.shape[0] == 1 else 1
