"""Pairwise models with any number of states, in overcomplete coordinates."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.pairwise.linear_program import LocalPolytope
from ...algorithms.pairwise.viterbi import ForestDecoder
from ...labels import check_states
from ..contract import Decoding, Marginals, Vertex
from ..entropy import SeparableEntropy
from ..graphs.pairwise import PairwiseGraph
from .space import MAX_SWEEPS, PairwiseSpace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST_PROGRAM = 60_000  # coordinates for which the linear program is usually solved in a second
PATIENCE = 5.0  # seconds, after which it is given up
SHARPNESS = (1.0, 4.0, 16.0, 64.0)  # factors on the scores when rounding marginals
SHARPENING_SWEEPS = 10


class Pairwise(PairwiseSpace):
    """All labellings of a graph with states 0 .. n_states-1; the polytope is the local one.

    Coordinates: P(x_n = s), node by node, then P(x_i = s, x_j = t), edge by edge with the tail's
    state first.

    Parameters
    ----------
    graph : PairwiseGraph
    n_states : int
    rho : "auto", "uniform", float, array of shape (n_edges,), or Reweighting
    """

    def __init__(self, graph: PairwiseGraph, n_states: int, rho: Any = "auto"):
        super().__init__(graph, rho)
        self.n_states = int(n_states)
        self._split = graph.n_nodes * self.n_states
        self.n_coordinates = self.n_scored = self._split + graph.n_edges * self.n_states**2

    def with_rho(self, rho: Any) -> Pairwise:
        """The same output space with another entropy."""
        return Pairwise(self.graph, self.n_states, rho)

    # ------------------------------------------------------------------ decoding
    @cached_property
    def _decoder(self) -> ForestDecoder | LocalPolytope:
        kind = ForestDecoder if self.graph.is_forest else LocalPolytope
        return kind(self.graph.n_nodes, self.graph.tail, self.graph.head, self.n_states)

    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A vertex of the local polytope: Viterbi on forests, a linear program otherwise."""
        decoder = self._decoder
        if isinstance(decoder, ForestDecoder):
            label, value = decoder.solve(scores)
            return Decoding(self.encode(label), value)
        tau, value = decoder.solve(scores)
        indices = np.flatnonzero(tau)
        return Decoding(Vertex(indices, tau[indices]), value)

    def best_label(self, scores: Floats) -> Ints:
        """An integral labelling: exact on forests, otherwise rounded and improved greedily.

        What is rounded is the solution of the linear program or, where that would take long,
        marginals at falling temperatures, which tend to it.
        """
        decoder = self._decoder
        if isinstance(decoder, ForestDecoder):
            return decoder.solve(scores)[0]
        if self.n_coordinates <= LARGEST_PROGRAM:
            with contextlib.suppress(RuntimeError):  # not solved in time
                vertex, _ = decoder.solve(scores, fresh=True, max_time=PATIENCE)
                return decoder.integral(vertex, scores)
        best, most, warm = np.zeros(0, dtype=np.int64), -np.inf, None
        for sharpness in SHARPNESS:
            found = self.marginals(sharpness * scores, warm, 0.0, SHARPENING_SWEEPS)
            warm = tuple(4.0 * messages for messages in found.warm)
            label = decoder.integral(found.tau, scores)
            value = self.encode(label).dot(scores)
            if value > most:
                best, most = label, value
        return best

    def encode(self, label: Ints) -> Vertex:
        """The vertex of a labelling, shape (n_nodes,)."""
        states = check_states(label, self.graph.n_nodes, self.n_states)
        n_states, graph = self.n_states, self.graph
        pairs = states[graph.tail] * n_states + states[graph.head]
        indices = np.concatenate(
            [
                np.arange(graph.n_nodes) * n_states + states,
                self._split + np.arange(graph.n_edges) * n_states**2 + pairs,
            ]
        )
        return Vertex(indices, np.ones(indices.shape[0]))

    def label(self, vertex: Vertex) -> Ints:
        """The labelling of a vertex; fractional nodes get their largest state."""
        return self.node_marginals(vertex.dense(self.n_coordinates)).argmax(axis=1)

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        """The share of nodes in another state than in `vertex`: constant + <scores, tau>."""
        scores = np.zeros(self.n_coordinates)
        nodes = vertex.indices < self._split
        scores[vertex.indices[nodes]] = -vertex.values[nodes] / self.graph.n_nodes
        return 1.0, scores

    # ------------------------------------------------------------------ entropy
    @cached_property
    def stepping_entropy(self) -> SeparableEntropy:
        """H_rho with its line searches."""
        weights = np.concatenate(
            [
                np.repeat(self.reweighting.counting, self.n_states),
                np.repeat(self.reweighting.rho, self.n_states**2),
            ]
        )
        return SeparableEntropy(weights, np.zeros(self.n_coordinates))

    def entropy(self, tau: Floats) -> float:
        return self.stepping_entropy(tau)

    def entropy_gradient(self, tau: Floats) -> Floats:
        return self.stepping_entropy.add_gradient(tau, np.zeros_like(tau))[0]

    def interior(self) -> Floats:
        """Independent uniform states."""
        tau = np.full(self.n_coordinates, 1.0 / self.n_states**2)
        tau[: self._split] = 1.0 / self.n_states
        return tau

    # ------------------------------------------------------------------ marginals
    def marginals(
        self, scores: Floats, warm: Any = None, tol: float = 1e-6, max_sweeps: int = MAX_SWEEPS
    ) -> Marginals:
        """Maximise <scores, tau> + H_rho(tau) up to a gap of `tol`."""

        def value(node_tables: Floats, edge_tables: Floats) -> float:
            tau = self.from_tables(node_tables, edge_tables)
            return float(scores @ tau) + self.entropy(tau)

        found = self._oracle(*self.score_tables(scores), value, warm, tol, max_sweeps)
        tau = self.from_tables(found.nodes, found.edges)
        return Marginals(tau, found.value, found.upper_bound, found.warm, found.sweeps)

    def score_tables(self, scores: Floats) -> tuple[Floats, Floats]:
        """Scores of nodes, (n_nodes, n_states), and of edges, (n_edges, n_states, n_states)."""
        return self.node_marginals(scores), self.edge_marginals(scores)

    def from_tables(self, nodes: Floats, edges: Floats) -> Floats:
        """tau of marginals of nodes and edges."""
        return np.concatenate([nodes.ravel(), edges.ravel()])

    def node_marginals(self, tau: Floats) -> Floats:
        """P(state) of every node, shape (n_nodes, n_states)."""
        return tau[: self._split].reshape(-1, self.n_states)

    def edge_marginals(self, tau: Floats) -> Floats:
        """Tables of all edges, shape (n_edges, n_states, n_states), tail state first."""
        return tau[self._split :].reshape(-1, self.n_states, self.n_states)
