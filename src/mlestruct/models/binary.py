"""The base of the estimators of yes/no variables that a graph couples, and that graph.

It has all pairs, none, a tree, given pairs, or those that an l1 penalty selects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import xlogy

from ..inference.marginals import marginals
from ..structures.graphs.pairwise import PairwiseGraph, check_edges
from ..structures.labellings.repeated import RepeatedBinary
from .base import StructuredEstimator
from .probabilities import seeded

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CONSTANT_SCALE = 10.0  # of constants beside couplings: rates of variables are hardly regularised
GRAPHS = ("full", "tree", "none", "l1")


class BinaryEstimator(StructuredEstimator):
    """Base of `MultiLabelCRF` and `IsingMRF`."""

    graph: Any
    rho: Any
    inference: str

    def _choose_graph(
        self, states: Ints, weights: Floats, pairs: Ints, select: Callable[[], Ints]
    ) -> PairwiseGraph:
        """The graph that the parameter names or holds.

        `pairs` are the edges of "full"; `select` finds those of "l1".
        """
        n = states.shape[1]
        if not isinstance(self.graph, str):
            return read_graph(self.graph, n)
        if self.graph not in GRAPHS:
            raise ValueError(
                f"graph: expected one of {list(GRAPHS)} or an array of pairs, got {self.graph!r}"
            )
        if self.graph == "l1":
            return PairwiseGraph(n, select())
        if self.graph == "tree" and n > 1:
            return PairwiseGraph(n, chow_liu_tree(states, weights))
        return PairwiseGraph(n, pairs if self.graph == "full" else [])

    def _take_graph(self, graph: PairwiseGraph) -> None:
        self._model = RepeatedBinary(graph, self.rho, self.inference)
        self.edges_ = np.stack([graph.tail, graph.head], axis=1).astype(np.int64)
        self.is_exact_ = self._model.tree is not None

    def _node_marginals(
        self,
        fields: Floats,
        couplings: Floats,
        known: Ints | None,
        tol: float,
        method: str,
        options: dict[str, Any],
    ) -> Floats:
        """P(variable = 1) in all samples, shape (n_samples, n_variables)."""
        own = method == "auto" or (method == "exact" and self._model.tree is not None)
        if own and not options:
            found = self._model.marginals(fields, couplings, known, tol).nodes
        else:
            space, scores = self._model.query(fields, couplings, known)
            options = seeded(options, method, self.random_state)
            answer = marginals(space, scores, method, tol=tol * space.n_nodes, **options)
            found = answer.tau[: fields.size].reshape(fields.shape)
        return np.clip(found, 0.0, 1.0)

    def _bounds_of(
        self,
        scores: Floats,
        log_partition: Callable[[Any], tuple[Floats, Floats]],
        parts: Iterable[Any],
    ) -> tuple[Floats, Floats]:
        """Bounds of the log-likelihood of observed scores, from those of log Z of all parts."""
        found = self._each(log_partition, parts)
        least, most = (np.concatenate(side) for side in zip(*found, strict=True))
        return np.minimum(scores - most, 0.0), np.minimum(scores - least, 0.0)


def check_agreement(known: Ints, states: Ints) -> None:
    """Raise unless observed states are those that are known (-1: not known)."""
    wrong = (known >= 0) & (known != states)
    if wrong.any():
        m, j = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"known[{m}, {j}] differs from what was observed")


# ---------------------------------------------------------------------- graphs
def all_pairs(n_nodes: int) -> Ints:
    """Edges of the complete graph, shape (n_nodes * (n_nodes - 1) / 2, 2)."""
    return np.stack(np.triu_indices(n_nodes, 1), axis=1).astype(np.int64)


def chow_liu_tree(states: Ints, weights: Floats) -> Ints:
    """The spanning tree of the largest mutual information (Chow and Liu 1968), shape (n - 1, 2).

    Counts start at 1/2 a cell, so that no pair of rare answers has all the information.
    """
    total = float(weights.sum()) + 2.0
    on = states.astype(np.float64)
    both = ((on * weights[:, None]).T @ on + 0.5) / total
    one = ((on * weights[:, None]).sum(axis=0) + 1.0) / total
    information = np.zeros_like(both)
    for pair, left, right in (
        (both, one, one),
        (one[:, None] - both, one, 1.0 - one),
        (one[None, :] - both, 1.0 - one, one),
        (1.0 - one[:, None] - one[None, :] + both, 1.0 - one, 1.0 - one),
    ):
        information += xlogy(pair, np.maximum(pair, 1e-300) / np.outer(left, right))
    cost = 1.0 + information.max() - information  # SciPy takes 0 for no edge
    tree = minimum_spanning_tree(np.triu(cost, 1)).tocoo()
    return np.stack([tree.row, tree.col], axis=1).astype(np.int64)


def read_graph(graph: Any, n_nodes: int) -> PairwiseGraph:
    """The graph of given pairs of labels."""
    if isinstance(graph, PairwiseGraph):
        if graph.n_nodes != n_nodes:
            raise ValueError(f"graph has {graph.n_nodes} nodes, but there are {n_nodes} labels")
        return graph
    return PairwiseGraph(n_nodes, check_edges(graph, n_nodes, "graph"))
