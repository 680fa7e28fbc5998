"""Pairwise models with any number of states, in overcomplete coordinates."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.pairwise.diagonal_message_passing import DiagonalOracle
from ...algorithms.pairwise.graph_message_passing import ReweightedOracle
from ...algorithms.pairwise.linear_program import LocalPolytope
from ...algorithms.pairwise.schedule import LEARNING_SWEEPS
from ...algorithms.pairwise.trw_s import TRWS
from ...algorithms.pairwise.viterbi import ForestDecoder
from ..contract import Decoding, Marginals, Vertex
from ..entropy import SeparableEntropy
from ..graphs.pairwise import PairwiseGraph
from .family import check_states
from .space import NOTHING, PairwiseSpace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Pairwise(PairwiseSpace):
    """All labellings of a graph with states 0 .. n_states-1; the polytope is the local one.

    Coordinates: P(x_n = s), node by node, then P(x_i = s, x_j = t), edge by edge with the tail's
    state first.

    Parameters
    ----------
    graph : PairwiseGraph
    n_states : int
    rho : "auto", float, array of shape (n_edges,), or Reweighting
    """

    def __init__(self, graph: PairwiseGraph, n_states: int, rho: Any = "auto"):
        super().__init__(graph, rho)
        self.n_states = int(n_states)
        self._split = graph.n_nodes * self.n_states
        self.n_coordinates = self.n_scored = self._split + graph.n_edges * self.n_states**2

    def with_rho(self, rho: Any) -> Pairwise:
        """The same output space with another entropy."""
        return Pairwise(self.graph, self.n_states, rho)

    def _over(self, graph: PairwiseGraph, rho: Any) -> Pairwise:
        return Pairwise(graph, self.n_states, rho)

    # ------------------------------------------------------------------ decoding
    @cached_property
    def _forest_decoder(self) -> ForestDecoder | None:
        graph = self.graph
        if not graph.is_forest:
            return None
        return ForestDecoder(graph.n_nodes, graph.tail, graph.head, self.n_states)

    @cached_property
    def _trw_s(self) -> TRWS:
        graph = self.graph
        return TRWS(graph.n_nodes, graph.tail, graph.head, graph.grid_shape)

    @cached_property
    def _program(self) -> LocalPolytope:
        graph = self.graph
        return LocalPolytope(graph.n_nodes, graph.tail, graph.head, self.n_states)

    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A vertex of the local polytope: Viterbi on forests; otherwise a labelling that reaches
        its bound up to the tolerance of the linear program, or else that program's solution.
        """
        if self._forest_decoder is not None:
            label, value = self._forest_decoder.solve(scores)
            return Decoding(self.encode(label), value)
        found = self._trw_s.solve(*self.score_tables(scores), tol=1e-11)
        if found.is_best:
            # The bound stands for the score: certificates of Frank-Wolfe must not be too small.
            return Decoding(self.encode(found.labels), found.upper_bound)
        tau, value = self._program.solve(scores)
        indices = np.flatnonzero(tau)
        return Decoding(Vertex(indices, tau[indices]), value)

    def decode_integral(self, scores: Floats) -> Decoding:
        """A labelling and a bound: Viterbi on forests, else TRW-S and a local descent."""
        if self._forest_decoder is not None:
            return self.decode(scores)
        found = self._trw_s.solve(*self.score_tables(scores))
        return Decoding(self.encode(found.labels), found.value, upper_bound=found.upper_bound)

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
    @cached_property
    def _diagonals(self) -> DiagonalOracle | None:
        """The oracle of grids with rho = 1/2."""
        shape = self.graph.grid_shape
        if shape is None or not self.reweighting.rows_and_columns:
            return None
        return DiagonalOracle(*shape)

    def marginals(
        self, scores: Floats, warm: Any = None, tol: float = 1e-6, max_sweeps: int = 1000
    ) -> Marginals:
        """Maximise <scores, tau> + H_rho(tau) up to a gap of `tol`."""
        nodes, edges = self.score_tables(scores)
        found = None
        if self._diagonals is not None:
            found = self._diagonals(nodes, edges, warm, tol, max_sweeps)
        if found is None:
            found = self._oracle(nodes, edges, warm, tol, max_sweeps)
        tau = self.from_tables(found.nodes, found.edges)
        return Marginals(tau, found.value, found.upper_bound, found.warm, found.sweeps)

    @cached_property
    def _oracle(self) -> ReweightedOracle:
        graph = self.graph
        return ReweightedOracle(
            graph.n_nodes, graph.tail, graph.head, self.reweighting, graph.is_forest
        )

    def expectation(
        self, features: Any, theta: Floats, offset: Floats | None, warm: Any, tol: float
    ) -> tuple[Marginals, Floats]:
        """The same without a table for each edge if edges have no features of their own."""
        own = getattr(features, "shared_tables", None)  # of `StateFeatures`
        shared = None if own is None or offset is not None else own(theta)
        if shared is None:
            return super().expectation(features, theta, offset, warm, tol)
        nodes, table = shared
        found = None
        if self._diagonals is not None:
            both = np.repeat(table, 2, axis=0)  # horizontal and vertical edges
            found = self._diagonals(nodes, both, warm, tol, LEARNING_SWEEPS, shared=True)
        if found is None:
            found = self._oracle(nodes, table, warm, tol, LEARNING_SWEEPS, shared=True)
        moments = features.shared_moments(found.nodes, found.sums.sum(axis=0, keepdims=True))
        bounds = found.value, found.upper_bound
        return Marginals(NOTHING, *bounds, found.warm, found.sweeps), moments

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
