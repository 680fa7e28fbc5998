"""What output spaces over a pairwise graph share, whatever their coordinates."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...algorithms.pairwise.junction_tree import JunctionTree, require_width
from ...algorithms.pairwise.mean_field import mean_field
from ...algorithms.pairwise.schedule import LEARNING_SWEEPS
from ..contract import Bounds, ExactDistribution, Marginals, Structure
from ..graphs.pairwise import Grid, PairwiseGraph
from ..restricted import Remainder
from ..rho import Reweighting, reweighting
from .family import LabellingFamily

Floats = NDArray[np.float64]

NOTHING = np.zeros(0)

_TREES: WeakKeyDictionary[Any, dict[int, JunctionTree]] = WeakKeyDictionary()  # by graph


class PairwiseSpace(LabellingFamily):
    """Base of `BinaryPairwise` and `Pairwise`."""

    def __init__(self, graph: PairwiseGraph, rho: Any):
        if not isinstance(graph, PairwiseGraph):
            raise TypeError(
                f"graph: expected a PairwiseGraph or grid(height, width), got {graph!r}"
            )
        self.graph = graph
        self.reweighting = rho if isinstance(rho, Reweighting) else reweighting(graph, rho)

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

    def best_label(self, scores: Floats) -> NDArray[np.int64]:
        """The labelling of `decode_integral`."""
        return np.asarray(self.label(self.decode_integral(scores).vertex))

    def given(self, known: Any) -> Structure:
        """The labellings with the known states (-1: not known)."""
        states = np.asarray(known, dtype=np.int64)
        if (states < 0).all():
            return self
        rest = Remainder.of(states, *self.ends)
        part = None
        if rest.nodes.size:
            graph, whole = PairwiseGraph(rest.nodes.size, rest.ends), self.reweighting
            split = [
                None if weights is None else weights[rest.edges]
                for weights in (whole.into_tail, whole.into_head)
            ]
            part = self._over(graph, Reweighting(graph, whole.rho[rest.edges], *split))
        return rest.restrict(self, part, self.n_states)

    def _over(self, graph: PairwiseGraph, rho: Any) -> PairwiseSpace:
        """The same kind of space over another graph."""
        raise NotImplementedError

    def with_rho(self, rho: Any) -> PairwiseSpace:
        """The same output space with another entropy."""
        raise self.lacks("with_rho")

    def marginals(
        self, scores: Floats, warm: Any = None, tol: float = 1e-6, max_sweeps: int = 1000
    ) -> Marginals:
        """Maximise <scores, tau> + H_rho(tau) up to a gap of `tol`, in at most `max_sweeps`."""
        raise self.lacks("marginals")

    def expectation(
        self, features: Any, theta: Floats, offset: Floats | None, warm: Any, tol: float
    ) -> tuple[Marginals, Floats]:
        """Marginals under features, and their moments; tau itself is not kept.

        Sweeps are few: what is missing is reported as the gap and made up for at the next theta.
        """
        scores = features.scores(theta)
        if offset is not None:
            scores = scores + offset
        found = self.marginals(scores, warm, tol, LEARNING_SWEEPS)
        moments = features.moments(found.tau)
        return replace(found, tau=NOTHING), moments

    # ------------------------------------------------------------------ questions
    def exact(self, scores: Floats) -> ExactDistribution:
        """The distribution itself, on a junction tree; small treewidth only."""
        if isinstance(self.graph, Grid):  # its treewidth is known, which saves the search
            require_width(min(self.graph.height, self.graph.width), self.n_states)
        return OnJunctionTree(self, scores)

    def log_partition_bounds(self, scores: Floats, tol: float) -> Bounds:
        """Independent nodes and spanning trees, whatever rho is; forests are exact."""
        structure: PairwiseSpace = self
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

    def __init__(self, structure: PairwiseSpace, scores: Floats):
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
