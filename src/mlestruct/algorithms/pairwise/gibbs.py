"""Gibbs sampling of labellings of a graph, P(x) proportional to exp(total score).

Half of the Markov chains start from a local optimum and half from a random labelling. Convergence
(`markov_chains`) is judged by the total score, a weighted count of states and a few random linear
functions of the labelling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..edge_lists import checked_edges, half_edges
from ..markov_chains import N_FUNCTIONS, Draws, draw
from . import _gibbs_kernels as kernels
from .tables import checked_tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def gibbs_samples(
    n_nodes: int,
    tail: ArrayLike,
    head: ArrayLike,
    node_scores: ArrayLike,
    edge_scores: ArrayLike,
    n_samples: int,
    *,
    rng: np.random.Generator,
    **options: Any,
) -> Draws:
    """Draw labellings from P(x) ~ exp(sum of node scores + sum of edge scores).

    Where a model has several modes that no chain leaves, all chains may end in the same one, which
    R-hat does not detect.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    node_scores : array of shape (n_nodes, n_states)
    edge_scores : array of shape (n_edges, n_states, n_states), the state of the tail first
        All finite: forbidden states may disconnect the space of a chain.
    n_samples : int
    options : of `markov_chains.draw`; a sweep draws a new state for every node

    Returns
    -------
    Draws
        With states of shape (n_samples, n_nodes).

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.algorithms.pairwise.gibbs import gibbs_samples
    >>> equal = 50.0 * np.eye(2)
    >>> ends = [0, 1], [1, 2]
    >>> nodes = [[0.0, 50.0], [0.0, 0.0], [0.0, 0.0]]
    >>> gibbs_samples(3, *ends, nodes, [equal] * 2, 2, rng=np.random.default_rng(0)).states
    array([[1, 1, 1],
           [1, 1, 1]])
    """
    space = _Labellings(n_nodes, tail, head, node_scores, edge_scores, rng)
    return draw(space, n_samples, what="Gibbs sampler", rng=rng, **options)


class _Labellings:
    """All labellings of a graph; a state is the state of every node."""

    def __init__(
        self,
        n_nodes: int,
        tail: ArrayLike,
        head: ArrayLike,
        node_scores: ArrayLike,
        edge_scores: ArrayLike,
        rng: np.random.Generator,
    ):
        tails, heads = checked_edges(n_nodes, tail, head)
        nodes, edges = checked_tables(n_nodes, tails.size, node_scores, edge_scores)
        for name, scores in (("node_scores", nodes), ("edge_scores", edges)):
            if np.isneginf(scores).any():
                raise ValueError(
                    f"{name}: contain -inf, but forbidden states are not supported here: a chain "
                    "may be unable to step around them"
                )
        self.nodes = nodes
        self.model = (*half_edges(n_nodes, tails, heads), tails, heads, nodes, edges)
        self.weights = rng.normal(size=(*nodes.shape, N_FUNCTIONS))
        self.weights[:, :, 0] = rng.normal(size=nodes.shape[1])  # detects common flips

    def start(self, rng: np.random.Generator, near_the_best: bool) -> Ints:
        n_nodes, n_states = self.nodes.shape
        if not near_the_best:
            return rng.integers(n_states, size=(n_nodes,))
        states = self.nodes.argmax(axis=1)
        kernels.conditional_modes(*self.model, rng.permutation(n_nodes), states)
        return states

    def run(self, state: Ints, rng: np.random.Generator, n_sweeps: int) -> Floats:
        trace = np.empty((n_sweeps, 1 + N_FUNCTIONS))
        kernels.sweep_nodes(*self.model, self.weights, state, rng, trace)
        return trace

    def read(self, state: Ints) -> Ints:
        return state.copy()
