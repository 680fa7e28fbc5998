"""What output spaces over a pairwise graph share, whatever their coordinates."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.pairwise.graph_message_passing import ReweightedOracle
from ..contract import Marginals
from ..graphs.pairwise import PairwiseGraph
from ..rho import Reweighting, reweighting

Floats = NDArray[np.float64]

MAX_SWEEPS = 1000
LEARNING_SWEEPS = 3
NOTHING = np.zeros(0)


class PairwiseSpace:
    """Base of `BinaryPairwise` and `Pairwise`, which have `marginals(scores, ...)`."""

    n_states: int

    def __init__(self, graph: PairwiseGraph, rho: Any):
        if not isinstance(graph, PairwiseGraph):
            raise TypeError(
                f"graph: expected a PairwiseGraph or grid(height, width), got {graph!r}"
            )
        self.graph = graph
        self.reweighting = rho if isinstance(rho, Reweighting) else reweighting(graph, rho)

    @property
    def fingerprint(self) -> str:
        """The same for equal output spaces only."""
        return f"{self.n_states} states, {self.graph.fingerprint}"

    @property
    def has_bound(self) -> bool:
        """Whether the entropy is known to be concave, so that gaps are certificates."""
        return self.reweighting.is_concave

    @property
    def ends(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Tail and head of every edge."""
        return self.graph.tail, self.graph.head

    def marginal_tables(self, tau: Floats) -> tuple[Floats, Floats]:
        """Marginals of nodes, (n_nodes, n_states), and edges, (n_edges, n_states, n_states)."""
        return self.node_marginals(tau), self.edge_marginals(tau)  # type: ignore[attr-defined]

    @cached_property
    def _oracle(self) -> ReweightedOracle:
        graph = self.graph
        return ReweightedOracle(
            graph.n_nodes, graph.tail, graph.head, self.reweighting, graph.is_forest
        )

    def expectation(
        self, features: Any, theta: Floats, offset: Floats | None, warm: Any, tol: float
    ) -> tuple[Marginals, Floats]:
        """Marginals under features, and their moments; tau itself is not kept.

        Sweeps are few: what is missing is reported as the gap and made up for at the next theta.
        """
        scores = features.scores(theta)
        if offset is not None:
            scores = scores + offset
        found = self.marginals(scores, warm, tol, LEARNING_SWEEPS)  # type: ignore[attr-defined]
        moments = features.moments(found.tau)
        return replace(found, tau=NOTHING), moments
