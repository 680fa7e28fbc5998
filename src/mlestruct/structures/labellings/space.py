"""What all spaces of labellings share: coordinates, scores, sampling, perturbation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.gumbel import GumbelNoise
from ...algorithms.markov_chains import Draws
from ...algorithms.pairwise.gibbs import gibbs_samples
from ..contract import LabellingStructure, as_scores, read_coordinates

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LabellingFamily(LabellingStructure):
    """Base of `Pairwise` and `Sequences`.

    Coordinates: P(x_n = s), node by node, then P(x_i = s, x_j = t), edge by edge with the tail's
    state first.
    """

    def marginal_table(self, tau: Floats) -> Floats:
        """P(state) of every node, shape (n_nodes, n_states)."""
        return self.node_marginals(tau)

    # ------------------------------------------------------------------ tables
    def score_tables(self, scores: Floats) -> tuple[Floats, Floats]:
        """Scores of nodes, (n_nodes, n_states), and of edges, (n_edges, n_states, n_states)."""
        return self.node_marginals(scores), self.edge_marginals(scores)

    def from_tables(self, nodes: Floats, edges: Floats) -> Floats:
        """tau of marginals of nodes and edges."""
        return np.concatenate([nodes.ravel(), edges.ravel()])

    def node_marginals(self, tau: Floats) -> Floats:
        """P(state) of every node, shape (n_nodes, n_states)."""
        return tau[: self.n_nodes * self.n_states].reshape(-1, self.n_states)

    def edge_marginals(self, tau: Floats) -> Floats:
        """Tables of all edges, shape (n_edges, n_states, n_states), tail state first."""
        return tau[self.n_nodes * self.n_states :].reshape(-1, self.n_states, self.n_states)

    def read_scores(self, scores: Any) -> tuple[Floats, float]:
        """Scores as an array, or as a pair of tables (node scores, edge scores)."""
        tables = isinstance(scores, tuple) or (
            isinstance(scores, list) and len(scores) == 2 and np.ndim(scores[0]) == 2
        )
        if not tables:
            return read_coordinates(self, scores, ", or a tuple (node scores, edge scores)"), 0.0
        if len(scores) != 2:
            raise ValueError(
                f"scores: a tuple holds (node scores, edge scores), got {len(scores)} parts"
            )
        nodes = as_scores(scores[0], "scores of nodes")
        edges = as_scores(scores[1], "scores of edges")
        n_states = self.n_states
        if nodes.shape != (self.n_nodes, n_states):
            raise ValueError(
                f"scores of nodes: expected shape {(self.n_nodes, n_states)}, got {nodes.shape}"
            )
        full = (self.ends[0].shape[0], n_states, n_states)
        if edges.shape not in (full, full[1:]):
            raise ValueError(
                f"scores of edges: expected shape {full} or {full[1:]}, got {edges.shape}"
            )
        return self.from_tables(nodes, np.broadcast_to(edges, full)), 0.0

    # ------------------------------------------------------------------ labels
    def check_states(self, label: Any) -> Ints:
        """State numbers 0 .. n_states-1 of all nodes."""
        states = np.asarray(label, dtype=np.int64)
        if states.shape != (self.n_nodes,):
            raise ValueError(f"expected {self.n_nodes} states, got shape {states.shape}")
        if states.size and (states.min() < 0 or states.max() >= self.n_states):
            raise ValueError(
                f"expected states from 0 to {self.n_states - 1}, "
                f"found {states.min()} to {states.max()}"
            )
        return states

    # ------------------------------------------------------------------ questions
    def markov_chain_samples(
        self, scores: Floats, n_samples: int, rng: np.random.Generator, **options: Any
    ) -> Draws:
        """Labellings by Gibbs sampling; `options` are those of `gibbs_samples`."""
        nodes, edges = self.score_tables(scores)
        return gibbs_samples(self.n_nodes, *self.ends, nodes, edges, n_samples, rng=rng, **options)

    def gumbel_noise(self) -> GumbelNoise:
        """Every node chooses its state; coordinates of nodes come first."""
        variable = np.repeat(np.arange(self.n_nodes), self.n_states)
        return GumbelNoise(self.n_coordinates, np.arange(variable.size), variable)
