"""Binary pairwise models: two states a node, in minimal coordinates."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.gumbel import GumbelNoise, components
from ...algorithms.pairwise.binary_message_passing import BinaryOracle
from ...algorithms.pairwise.grid_message_passing import grid_marginals, in_linear_range
from ...algorithms.pairwise.qpbo import QPBO
from ..contract import Decoding, Marginals, Vertex
from ..graphs.pairwise import PairwiseGraph
from ..rho import Reweighting
from . import _binary_entropy_kernels as kernels
from .family import check_states
from .space import PairwiseSpace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class BinaryPairwise(PairwiseSpace):
    """All labellings of a graph with the states 0 and 1; the polytope is the local one.

    Coordinates are minimal: P(x_n = 1) of every node, then P(x_i = x_j = 1) of every edge. Scores
    and log Z_rho are relative to the labelling that is 0 everywhere. A 200 x 200 image needs
    1 MB of coordinates and 0.6 MB of messages.

    Parameters
    ----------
    graph : PairwiseGraph
    rho : "auto", float, array of shape (n_edges,), or Reweighting
    """

    n_states = 2

    def __init__(self, graph: PairwiseGraph, rho: Any = "auto"):
        super().__init__(graph, rho)
        self.n_coordinates = self.n_scored = graph.n_nodes + graph.n_edges

    def with_rho(self, rho: Any) -> BinaryPairwise:
        """The same output space with another entropy."""
        return BinaryPairwise(self.graph, rho)

    def _over(self, graph: PairwiseGraph, rho: Any) -> BinaryPairwise:
        return BinaryPairwise(graph, rho)

    # ------------------------------------------------------------------ decoding
    @cached_property
    def _decoder(self) -> QPBO:
        return QPBO(self.graph.n_nodes, self.graph.tail, self.graph.head)

    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A half-integral vertex of the local polytope, by QPBO."""
        n = self.graph.n_nodes
        nodes, edges, value = self._decoder.solve(scores[:n], scores[n:])
        return Decoding(Vertex.of(np.concatenate([nodes, edges])), value)

    def decode_integral(self, scores: Floats) -> Decoding:
        """The decided nodes of the vertex, the others improved greedily; bounded by its score."""
        n = self.graph.n_nodes
        nodes, _, value = self._decoder.solve(scores[:n], scores[n:])
        vertex = self.encode(self._decoder.integral(nodes, scores[:n], scores[n:]))
        score = vertex.dot(scores)
        return Decoding(vertex, score, upper_bound=max(value, score))

    def encode(self, label: Ints) -> Vertex:
        """The vertex of a labelling, shape (n_nodes,)."""
        states = check_states(label, self.graph.n_nodes, 2)
        on = np.concatenate([states, self.graph.both(states)])
        return Vertex.of(on.astype(np.float64))

    def label(self, vertex: Vertex) -> Ints:
        """The labelling of a vertex; a node at one half gets state 0."""
        states = np.zeros(self.graph.n_nodes, dtype=np.int64)
        on = (vertex.indices < self.graph.n_nodes) & (vertex.values > 0.5)
        states[vertex.indices[on]] = 1
        return states

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        """The share of nodes in another state than in `vertex`: constant + <scores, tau>."""
        n = self.graph.n_nodes
        on = vertex.dense(self.n_coordinates)[:n]
        scores = np.zeros(self.n_coordinates)
        scores[:n] = (1.0 - 2.0 * on) / n
        return float(on.mean()), scores

    # ------------------------------------------------------------------ entropy
    @cached_property
    def stepping_entropy(self) -> BinaryEntropy:
        """H_rho with its line searches."""
        return BinaryEntropy(self.graph, self.reweighting)

    def entropy(self, tau: Floats) -> float:
        return self.stepping_entropy(tau)

    def entropy_gradient(self, tau: Floats) -> Floats:
        return self.stepping_entropy.add_gradient(tau, np.zeros_like(tau))[0]

    def interior(self) -> Floats:
        """Independent fair coins."""
        tau = np.full(self.n_coordinates, 0.25)
        tau[: self.graph.n_nodes] = 0.5
        return tau

    # ------------------------------------------------------------------ marginals
    def marginals(
        self, scores: Floats, warm: Any = None, tol: float = 1e-6, max_sweeps: int = 1000
    ) -> Marginals:
        """Maximise <scores, tau> + H_rho(tau) up to a gap of `tol`."""
        shape = self.graph.grid_shape
        if (
            shape is not None
            and self.reweighting.rows_and_columns
            and in_linear_range(shape, scores)
        ):
            if not (isinstance(warm, np.ndarray) and warm.shape == (2, self.graph.n_nodes)):
                warm = None
            return Marginals(*grid_marginals(shape, scores, warm, tol, max_sweeps))

        known = warm if isinstance(warm, tuple) else None
        return Marginals(*self._oracle(scores, known, tol, max_sweeps))

    @cached_property
    def _oracle(self) -> BinaryOracle:
        return BinaryOracle(self.n_nodes, *self.ends, self.reweighting, self.graph.is_forest)

    def score_tables(self, scores: Floats) -> tuple[Floats, Floats]:
        """Scores of nodes, (n_nodes, 2), and of edges, (n_edges, 2, 2); those of state 0 are 0."""
        n = self.graph.n_nodes
        nodes = np.zeros((n, 2))
        nodes[:, 1] = scores[:n]
        edges = np.zeros((self.graph.n_edges, 2, 2))
        edges[:, 1, 1] = scores[n:]
        return nodes, edges

    def from_score_tables(self, nodes: Floats, edges: Floats) -> tuple[Floats, float]:
        """Scores relative to the labelling that is 0 everywhere, and the score of that one."""
        if not (np.isfinite(nodes).all() and np.isfinite(edges).all()):
            raise ValueError(
                "scores: BinaryPairwise counts from the labelling that is 0 everywhere, so tables "
                "must be finite; use Pairwise(graph, 2) for forbidden states"
            )
        n, (tail, head) = self.n_nodes, self.ends
        first = nodes[:, 1] - nodes[:, 0]
        first += np.bincount(tail, edges[:, 1, 0] - edges[:, 0, 0], n)
        first += np.bincount(head, edges[:, 0, 1] - edges[:, 0, 0], n)
        both = edges[:, 1, 1] - edges[:, 1, 0] - edges[:, 0, 1] + edges[:, 0, 0]
        return np.concatenate([first, both]), float(nodes[:, 0].sum() + edges[:, 0, 0].sum())

    def from_tables(self, nodes: Floats, edges: Floats) -> Floats:
        """tau of marginals of nodes and edges."""
        return np.concatenate([nodes[:, 1], edges[:, 1, 1]])

    def node_marginals(self, tau: Floats) -> Floats:
        """P(state) of every node, shape (n_nodes, 2)."""
        on = tau[: self.graph.n_nodes]
        return np.stack([1.0 - on, on], axis=1)

    def edge_marginals(self, tau: Floats) -> Floats:
        """Tables of all edges, shape (n_edges, 2, 2), tail state first."""
        n = self.graph.n_nodes
        a, b, both = tau[self.graph.tail], tau[self.graph.head], tau[n:]
        tables = np.stack([1.0 - a - b + both, b - both, a - both, both], axis=1)
        return np.maximum(tables, 0.0).reshape(-1, 2, 2)

    def gumbel_noise(self) -> GumbelNoise:
        """Every node chooses its state, of which 0 has no coordinate."""
        nodes = np.arange(self.n_nodes)
        component = components(self.n_nodes, *self.ends)
        return GumbelNoise(self.n_coordinates, nodes, nodes, component, minimal=True)


class BinaryEntropy:
    """The reweighted entropy of a binary model, with what Frank-Wolfe steps need of it."""

    def __init__(self, graph: PairwiseGraph, weights: Reweighting):
        self._ends = (graph.tail, graph.head)
        self._shape = (*self._ends, weights.rho, weights.counting)

    def __call__(self, tau: Floats) -> float:
        return float(kernels.entropy(tau, *self._shape))

    def add_gradient(self, tau: Floats, scores: Floats) -> tuple[Floats, Floats]:
        """scores + gradient of H at tau, and sums that `line_search` at tau needs."""
        out, sums = np.empty_like(tau), np.empty(2)
        kernels.add_entropy_gradient(tau, *self._shape, scores, out, sums)
        return out, sums

    def slope(self, tau: Floats, change: Floats, eta: float) -> float:
        """Derivative of H along `change` at tau + eta * change."""
        return float(self.add_gradient(tau + eta * change, np.zeros_like(tau))[0] @ change)

    def line_search(
        self,
        tau: Floats,
        vertex: Vertex,
        sums: Floats,
        linear: float,
        quadratic: float,
        guess: float,
        max_step: float,
        rtol: float,
    ) -> float:
        """Step eta towards `vertex` minimising linear*eta + quadratic*eta^2/2 - H."""
        target = vertex.dense(tau.shape[0])
        return float(
            kernels.line_search(
                tau, target, *self._shape, sums, linear, quadratic, guess, max_step, rtol
            )
        )

    def move(self, tau: Floats, vertex: Vertex, eta: float) -> None:
        """tau <- (1 - eta) tau + eta vertex, in place."""
        n_nodes = tau.shape[0] - self._ends[0].shape[0]
        kernels.move_towards(tau, vertex.dense(tau.shape[0]), eta, *self._ends, n_nodes)
