"""Pairwise models: labellings of a graph, with any number of states."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...algorithms.pairwise.grid_trw import GridTRW
from ...algorithms.pairwise.junction_tree import JunctionTree, require_width
from ...algorithms.pairwise.linear_program import LocalPolytope
from ...algorithms.pairwise.mean_field import mean_field
from ...algorithms.pairwise.qpbo import QPBO
from ...algorithms.pairwise.trw import LEARNING_SWEEPS, TRW, TableMarginals
from ...algorithms.pairwise.trw_s import TRWS
from ...algorithms.pairwise.viterbi import ForestDecoder
from ..contract import Bounds, Decoding, ExactDistribution, Marginals, Structure, Vertex
from ..entropy import SeparableEntropy
from ..graphs.pairwise import Grid, PairwiseGraph
from ..restricted import Remainder
from ..rho import Reweighting, reweighting
from .space import LabellingFamily

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NOTHING = np.zeros(0)

_TREES: WeakKeyDictionary[Any, dict[int, JunctionTree]] = WeakKeyDictionary()  # by graph


class Pairwise(LabellingFamily):
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
        if not isinstance(graph, PairwiseGraph):
            raise TypeError(
                f"graph: expected a PairwiseGraph or grid(height, width), got {graph!r}"
            )
        self.graph, self.n_states = graph, int(n_states)
        self.reweighting = rho if isinstance(rho, Reweighting) else reweighting(graph, rho)
        self._split = graph.n_nodes * self.n_states
        self.n_coordinates = self.n_scored = self._split + graph.n_edges * self.n_states**2

    @cached_property
    def fingerprint(self) -> str:
        """The same for equal output spaces only."""
        return f"{self.n_states} states, {self.graph.fingerprint}"

    @property
    def has_bound(self) -> bool:
        """Whether the entropy is known to be concave, so that gaps are certificates."""
        return self.reweighting.is_concave

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def ends(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Tail and head of every edge."""
        return self.graph.tail, self.graph.head

    def with_rho(self, rho: Any) -> Pairwise:
        """The same output space with another entropy."""
        return Pairwise(self.graph, self.n_states, rho)

    def given(self, known: Any) -> Structure:
        """The labellings with the known states (-1: not known)."""
        states = np.asarray(known, dtype=np.int64)
        if (states < 0).all():
            return self
        rest, part = Remainder.of(states, *self.ends), None
        if rest.nodes.size:
            graph, whole = PairwiseGraph(rest.nodes.size, rest.ends), self.reweighting
            split = [
                None if weights is None else weights[rest.edges]
                for weights in (whole.into_tail, whole.into_head)
            ]
            part = Pairwise(graph, self.n_states, Reweighting(graph, whole.rho[rest.edges], *split))
        return rest.restrict(self, part, self.n_states)

    # ------------------------------------------------------------------ labels
    def encode(self, label: Ints) -> Vertex:
        """The vertex of a labelling, shape (n_nodes,)."""
        states = self.check_states(label)
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

    def best_label(self, scores: Floats) -> Ints:
        """The labelling of `decode_integral`."""
        return self.label(self.decode_integral(scores).vertex)

    def hamming_loss(self, vertex: Vertex) -> tuple[float, Floats]:
        """The share of nodes in another state than in `vertex`: constant + <scores, tau>."""
        scores = np.zeros(self.n_coordinates)
        nodes = vertex.indices < self._split
        scores[vertex.indices[nodes]] = -vertex.values[nodes] / self.graph.n_nodes
        return 1.0, scores

    # ------------------------------------------------------------------ decoding
    def decode(self, scores: Floats, warm: Floats | None = None, prices: bool = False) -> Decoding:
        """A vertex of the local polytope.

        Viterbi on forests, QPBO with two states; otherwise a labelling that reaches its bound up
        to the tolerance of the linear program, or else that program's solution.
        """
        if self._forest_decoder is not None:
            label, value = self._forest_decoder.solve(scores)
            return Decoding(self.encode(label), value)
        nodes, edges = self.score_tables(scores)
        if self.n_states == 2:
            fields, couplings, _ = ising_scores(nodes, edges, *self.ends)
            on, both, _ = self._qpbo.solve(fields, couplings)
            vertex = Vertex.of(self.from_tables(*ising_tables(on, both, *self.ends)))
            return Decoding(vertex, vertex.dot(scores))
        found = self._trw_s.solve(nodes, edges, tol=1e-11)
        if found.is_best:
            # The bound stands for the score: certificates of Frank-Wolfe must not be too small.
            return Decoding(self.encode(found.labels), found.upper_bound)
        tau, value = self._program.solve(scores)
        return Decoding(Vertex.of(tau), value)

    def decode_integral(self, scores: Floats) -> Decoding:
        """A labelling and a bound of the largest score.

        Viterbi on forests; with two states the integral nodes of QPBO, the others improved
        greedily; otherwise TRW-S and a local descent.
        """
        if self._forest_decoder is not None:
            return self.decode(scores)
        nodes, edges = self.score_tables(scores)
        if self.n_states != 2:
            found = self._trw_s.solve(nodes, edges)
            return Decoding(self.encode(found.labels), found.value, upper_bound=found.upper_bound)
        fields, couplings, constant = ising_scores(nodes, edges, *self.ends)
        on, _, bound = self._qpbo.solve(fields, couplings)
        vertex = self.encode(self._qpbo.integral(on, fields, couplings))
        score = vertex.dot(scores)
        return Decoding(vertex, score, upper_bound=max(bound + constant, score))

    @cached_property
    def _forest_decoder(self) -> ForestDecoder | None:
        if not self.graph.is_forest:
            return None
        return ForestDecoder(self.n_nodes, *self.ends, self.n_states)

    @cached_property
    def _qpbo(self) -> QPBO:
        return QPBO(self.n_nodes, *self.ends)

    @cached_property
    def _trw_s(self) -> TRWS:
        return TRWS(self.n_nodes, *self.ends, self.graph.grid_shape)

    @cached_property
    def _program(self) -> LocalPolytope:
        return LocalPolytope(self.n_nodes, *self.ends, self.n_states)

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
        return self.stepping_entropy.gradient(tau)

    def interior(self) -> Floats:
        """Independent uniform states."""
        tau = np.full(self.n_coordinates, 1.0 / self.n_states**2)
        tau[: self._split] = 1.0 / self.n_states
        return tau

    # ------------------------------------------------------------------ marginals
    def marginals(
        self,
        scores: Floats,
        warm: Any = None,
        tol: float = 1e-6,
        max_sweeps: int = 1000,
        first: int = 1,
    ) -> Marginals:
        """Maximise <scores, tau> + H_rho(tau) up to a gap of `tol`, in at most `max_sweeps`.

        The first certificate comes after `first` sweeps.
        """
        found = self._pass_messages(*self.score_tables(scores), warm, tol, max_sweeps, first)
        tau = self.from_tables(found.nodes, found.edges)
        return Marginals(tau, found.value, found.upper_bound, found.warm, found.sweeps)

    def expectation(
        self, features: Any, theta: Floats, offset: Floats | None, warm: Any, tol: float
    ) -> tuple[Marginals, Floats]:
        """Marginals under features, and their moments; tau itself is not kept.

        Sweeps are few: what is missing is reported as the gap and made up for at the next theta.
        """
        few = LEARNING_SWEEPS
        own = getattr(features, "shared_tables", None)  # of `StateFeatures`
        shared = None if own is None or offset is not None else own(theta)
        if shared is None:
            scores = features.scores(theta)
            if offset is not None:
                scores = scores + offset
            whole = self.marginals(scores, warm, tol, few, few)
            return replace(whole, tau=NOTHING), features.moments(whole.tau)
        nodes, table = shared
        found = self._pass_messages(nodes, table, warm, tol, few, few, shared=True)
        moments = features.shared_moments(found.nodes, found.sums.sum(axis=0, keepdims=True))
        bounds = found.value, found.upper_bound
        return Marginals(NOTHING, *bounds, found.warm, found.sweeps), moments

    def _pass_messages(
        self,
        nodes: Floats,
        edges: Floats,
        warm: Any,
        tol: float,
        max_sweeps: int,
        first: int,
        shared: bool = False,
    ) -> TableMarginals:
        """TRW; if `shared`, all edges have the table edges[0]."""
        if self._grid_trw is not None:
            both = np.repeat(edges, 2, axis=0) if shared else edges  # horizontal and vertical
            found = self._grid_trw(nodes, both, warm, tol, max_sweeps, first, shared)
            if found is not None:
                return found
        return self._trw(nodes, edges, warm, tol, max_sweeps, first, shared)

    @cached_property
    def _grid_trw(self) -> GridTRW | None:
        """The oracle of grids with rho = 1/2."""
        shape = self.graph.grid_shape
        if shape is None or not self.reweighting.rows_and_columns:
            return None
        return GridTRW(*shape)

    @cached_property
    def _trw(self) -> TRW:
        return TRW(self.n_nodes, *self.ends, self.reweighting, self.graph.is_forest)

    # ------------------------------------------------------------------ questions
    def exact(self, scores: Floats) -> ExactDistribution:
        """The distribution itself, on a junction tree; small treewidth only."""
        if isinstance(self.graph, Grid):  # its treewidth is known, which saves the search
            require_width(min(self.graph.height, self.graph.width), self.n_states)
        return OnJunctionTree(self, scores)

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """Independent nodes and spanning trees, whatever rho is; forests are exact."""
        structure = self
        forest = self.graph.is_forest
        if not self.has_bound or (forest and not (self.reweighting.rho == 1.0).all()):
            structure = self.with_rho("auto")
        found = structure.marginals(scores, None, tol)
        if forest:
            return Bounds(found.value, found.upper_bound, "exact", "exact")
        # From the best labelling the lower bound is at least its score.
        peaked = np.eye(self.n_states)[self.best_label(scores)]
        starts = [structure.node_marginals(found.tau), peaked]
        # Of a sweep's gain a hundredth of `tol` is enough: there may be many sweeps.
        enough = max(0.01 * tol / self.n_nodes, 1e-8)
        model = self.n_nodes, *self.ends, *self.score_tables(scores)
        lower = mean_field(*model, starts, enough)[1]
        return Bounds(lower, found.upper_bound, "independent nodes (mean field)", "spanning trees")


class OnJunctionTree:
    """An `ExactDistribution` over labellings; the junction tree is kept with the graph."""

    def __init__(self, structure: Pairwise, scores: Floats):
        trees = _TREES.setdefault(structure.graph, {})
        n_states = structure.n_states
        if n_states not in trees:
            trees[n_states] = JunctionTree(structure.n_nodes, *structure.ends, n_states)
        nodes, edges = structure.score_tables(scores)
        self._tree, self._scores = trees[n_states], (nodes[None], edges[None])
        found = self._tree.marginals(*self._scores)
        self.log_partition = float(found.log_partition[0])
        self.tau: Floats = structure.from_tables(found.nodes[0], found.edges[0])

    def sample(self, n_samples: int, rng: np.random.Generator) -> Any:
        """Independent labels."""
        return self._tree.sample(*self._scores, n_samples, rng)[0]


# ---------------------------------------------------------------------- two states
def ising_scores(
    nodes: Floats, edges: Floats, tail: NDArray[Any], head: NDArray[Any]
) -> tuple[Floats, Floats, float]:
    """Fields h, couplings J and a constant c: tables of two states score c + sum of h_i x_i and of
    J_ij x_i x_j, for x in {0, 1}.
    """
    fields = nodes[:, 1] - nodes[:, 0]
    fields += np.bincount(tail, edges[:, 1, 0] - edges[:, 0, 0], fields.size)
    fields += np.bincount(head, edges[:, 0, 1] - edges[:, 0, 0], fields.size)
    couplings = edges[:, 1, 1] - edges[:, 1, 0] - edges[:, 0, 1] + edges[:, 0, 0]
    return fields, couplings, float(nodes[:, 0].sum() + edges[:, 0, 0].sum())


def ising_tables(
    on: Floats, both: Floats, tail: NDArray[Any], head: NDArray[Any]
) -> tuple[Floats, Floats]:
    """Tables of nodes and edges from P(x_i = 1) of all nodes and P(x_i = x_j = 1) of all edges."""
    a, b = on[tail], on[head]
    tables = np.stack([1.0 - a - b + both, b - both, a - both, both], axis=1)
    return np.stack([1.0 - on, on], axis=1), np.maximum(tables, 0.0).reshape(-1, 2, 2)
