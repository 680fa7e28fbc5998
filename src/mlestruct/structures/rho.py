"""Edge weights rho of the reweighted entropy on a pairwise graph.

    H_rho = sum_n (1 - sum of rho at n) H(mu_n) + sum_e rho_e H(mu_e)

It is concave, and log Z_rho bounds log Z from above, when rho lies in the spanning-forest
polytope. rho = 1 on a forest is exact.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arguments import as_floats
from ..algorithms.pairwise.spanning_trees import forest_split, tree_weights
from .graphs.pairwise import PairwiseGraph

Floats = NDArray[np.float64]

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
    rows_and_columns : whether it is half the rows plus half the columns of a grid
    """

    rows_and_columns = False

    def __init__(
        self, graph: PairwiseGraph, rho: Floats, into_tail: Floats | None, into_head: Floats | None
    ):
        self._graph = graph
        self.rho, self.into_tail, self.into_head = rho, into_tail, into_head

    @cached_property
    def counting(self) -> Floats:
        tail, head, n = self._graph.tail, self._graph.head, self._graph.n_nodes
        at_node = np.bincount(tail, self.rho, n) + np.bincount(head, self.rho, n)
        return np.asarray(1.0 - at_node, dtype=np.float64)

    @property
    def is_concave(self) -> bool:
        return self.into_tail is not None


class ChosenWeights(Reweighting):
    """1/2 on a full 4-connected grid, else shares of spanning trees: found when asked for."""

    is_concave = True

    def __init__(self, graph: PairwiseGraph, rows_and_columns: bool):
        self._graph, self.rows_and_columns = graph, rows_and_columns

    @cached_property
    def _split(self) -> Floats:
        graph = self._graph
        if self.rows_and_columns:  # each pixel is entered from the left and from above
            return np.repeat([[0.0], [0.5]], graph.n_edges, axis=1)
        return tree_weights(graph.n_nodes, _as_int64(graph.tail), _as_int64(graph.head))

    @cached_property
    def rho(self) -> Floats:  # type: ignore[override]
        return np.asarray(self._split.sum(axis=0))

    @property
    def into_tail(self) -> Floats:  # type: ignore[override]
        return self._split[0]

    @property
    def into_head(self) -> Floats:  # type: ignore[override]
        return self._split[1]


def reweighting(graph: PairwiseGraph, rho: Any = "auto") -> Reweighting:
    """Make a `Reweighting` from what a user may pass.

    rho : "auto", float, or array of shape (n_edges,)
        "auto": 1/2 on full 4-connected grids with cycles, otherwise the share of each edge in
        spanning trees that use the edges evenly, which is 1 on forests.
    """
    is_grid = graph.grid_shape is not None
    if isinstance(rho, str):
        if rho != "auto":
            raise ValueError(f"rho: expected 'auto', a number or an array, got {rho!r}")
        return ChosenWeights(graph, is_grid and not graph.is_forest)
    if is_grid and np.ndim(rho) == 0 and rho == 0.5:
        return ChosenWeights(graph, True)
    values = as_floats(rho, "rho")
    wrong = ~((values >= SMALLEST_RHO) & (values <= 1.0))
    if wrong.any():
        raise ValueError(
            f"rho: every edge needs a weight from {SMALLEST_RHO:g} to 1, found {values[wrong][0]}"
        )
    if values.ndim == 0:
        values = np.full(graph.n_edges, float(values))
    if values.shape != (graph.n_edges,):
        raise ValueError(f"rho: expected a number or shape ({graph.n_edges},), got {values.shape}")
    values = np.ascontiguousarray(values)
    split = forest_split(graph.n_nodes, _as_int64(graph.tail), _as_int64(graph.head), values)
    if split is not None:
        return Reweighting(graph, values, split[0], split[1])
    warnings.warn(
        "rho lies outside the spanning-tree polytope: the entropy need not be concave, "
        "log Z_rho is no upper bound, and the duality gap is no certificate, only a distance "
        "from a stationary point. "
        "rho='auto' is always safe.",
        UserWarning,
        stacklevel=2,
    )
    return Reweighting(graph, values, None, None)


def _as_int64(ends: NDArray[Any]) -> NDArray[np.int64]:
    return ends.astype(np.int64)
