"""Edge weights rho of the reweighted entropy on a pairwise graph.

    H_rho = sum_n (1 - sum of rho at n) H(mu_n) + sum_e rho_e H(mu_e)

It is concave, and log Z_rho bounds log Z from above, when rho lies in the spanning-forest
polytope. rho = 1 on a forest is exact.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import as_floats
from .._lazy import cached_property
from ..algorithms.pairwise.spanning_trees import (
    TreeWeights,
    even_trees,
    in_tree_polytope,
    orientation,
    tree_weights,
)
from .graphs.pairwise import PairwiseGraph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SMALLEST_RHO = 1e-4  # scores are divided by rho


class Reweighting:
    """rho per edge, and how it splits into conditional entropies.

    Attributes
    ----------
    rho : ndarray of shape (n_edges,)
    counting : ndarray of shape (n_nodes,), 1 - sum of rho at the node
    into_tail, into_head : ndarray of shape (n_edges,), or None
        rho_e = into_tail + into_head, with a sum of at most 1 at each node: then H_rho is a sum of
        conditional entropies with non-negative weights, from which the upper bound of log Z_rho
        follows. None where rho has no such split; there is no bound then.
    """

    rows_and_columns = False  # half the rows plus half the columns of a grid

    def __init__(
        self, graph: PairwiseGraph, rho: Floats, into_tail: Floats | None, into_head: Floats | None
    ):
        self._graph = graph
        self.rho = rho
        self.into_tail = into_tail
        self.into_head = into_head

    @cached_property
    def counting(self) -> Floats:
        tail, head, n = self._graph.tail, self._graph.head, self._graph.n_nodes
        at_node = np.bincount(tail, self.rho, n) + np.bincount(head, self.rho, n)
        return np.asarray(1.0 - at_node, dtype=np.float64)

    @property
    def is_concave(self) -> bool:
        return self.into_tail is not None


class RowsAndColumns(Reweighting):
    """rho = 1/2 on a full 4-connected grid; arrays are made only when asked for."""

    rows_and_columns = True

    def __init__(self, graph: PairwiseGraph):
        self._graph = graph

    @cached_property
    def rho(self) -> Floats:  # type: ignore[override]
        return np.full(self._graph.n_edges, 0.5)

    @property
    def into_tail(self) -> Floats:  # type: ignore[override]
        return np.zeros(self._graph.n_edges)

    @property
    def into_head(self) -> Floats:  # type: ignore[override]
        # Each pixel is entered from the left and from above: at most 1.
        return self.rho


class SpanningTrees(Reweighting):
    """Shares of edges in spanning trees, found when asked for: decoding does without."""

    is_concave = True

    def __init__(self, graph: PairwiseGraph):
        self._graph = graph

    @cached_property
    def _trees(self) -> TreeWeights:
        ends = _ends(self._graph)
        return even_trees(*ends, n_trees=1) if self._graph.is_forest else tree_weights(*ends)

    @property
    def rho(self) -> Floats:  # type: ignore[override]
        return self._trees.rho

    @property
    def into_tail(self) -> Floats:  # type: ignore[override]
        return self._trees.into_tail

    @property
    def into_head(self) -> Floats:  # type: ignore[override]
        return self._trees.into_head


def reweighting(graph: PairwiseGraph, rho: Any = "auto") -> Reweighting:
    """Make a `Reweighting` from what a user may pass.

    rho : "auto", "uniform", float, or array of shape (n_edges,)
        "uniform": the share of spanning trees that have an edge, which is 1 on forests. Of all
        spanning trees where their elimination is cheap, otherwise of trees that use edges evenly.
        "auto": 1/2 on full 4-connected grids with cycles, otherwise "uniform".
    """
    is_grid = graph.grid_shape is not None
    if isinstance(rho, str):
        if rho not in ("auto", "uniform"):
            raise ValueError(f"rho: expected 'auto', 'uniform', a number or an array, got {rho!r}")
        if rho == "auto" and is_grid and not graph.is_forest:
            return RowsAndColumns(graph)
        return SpanningTrees(graph)
    if is_grid and np.ndim(rho) == 0 and rho == 0.5:
        return RowsAndColumns(graph)
    values, ends = _check(rho, graph.n_edges), _ends(graph)
    if not in_tree_polytope(*ends, values):
        warnings.warn(
            "rho lies outside the spanning-tree polytope: the entropy need not be concave, "
            "log Z_rho is no upper bound, and the duality gap is no certificate, only a distance "
            "from a stationary point. "
            "rho='uniform' is always safe.",
            UserWarning,
            stacklevel=2,
        )
        return Reweighting(graph, values, None, None)
    split = orientation(*ends, values)
    into_tail, into_head = split if split is not None else (None, None)
    return Reweighting(graph, values, into_tail, into_head)


def _ends(graph: PairwiseGraph) -> tuple[int, Ints, Ints]:
    return graph.n_nodes, graph.tail.astype(np.int64), graph.head.astype(np.int64)


def _check(rho: Any, n_edges: int) -> Floats:
    values = as_floats(rho, "rho")
    wrong = ~((values >= SMALLEST_RHO) & (values <= 1.0))
    if wrong.any():
        raise ValueError(
            f"rho: every edge needs a weight from {SMALLEST_RHO:g} to 1, found {values[wrong][0]}"
        )
    if values.ndim == 0:
        values = np.full(n_edges, float(values))
    if values.shape != (n_edges,):
        raise ValueError(f"rho: expected a number or shape ({n_edges},), got {values.shape}")
    return np.ascontiguousarray(values)
