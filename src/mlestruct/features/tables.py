"""Features of pairs from two tables, one row per left item and one per right item.

Scores and moments are matrix products where the feature is a polynomial, and a compiled loop over
pairs otherwise; no array of shape (n_rows, n_cols, n_features) is needed. Where it is small,
`matrix` holds it for solvers that use it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import as_floats
from .._lazy import cached_property
from ._table_kernels import (
    Kind,
    complete_moments,
    subtract_squares,
    table_moments,
    table_scores,
    weigh_tables,
)
from .contract import FeatureMap, PairGraph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST = 1e150  # squares of more overflow
# Plain integers: numba needs 30 us to recognise a member of an enumeration.
KINDS = {"squared": int(Kind.SQUARED), "absolute": int(Kind.ABSOLUTE), "product": int(Kind.PRODUCT)}


class TableFeatures(FeatureMap):
    """Feature k of the pair (i, j) from left[i, k] and right[j, k].

    Parameters
    ----------
    left : array of shape (n_rows, n_features)
    right : array of shape (n_cols, n_features)
    kind : "squared" for -(l - r)^2, "absolute" for -|l - r|, "product" for l * r
    graph : allowed pairs; all by default

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.features import TableFeatures
    >>> pairs = TableFeatures(np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]]))
    >>> pairs.scores(np.array([1.0]))
    array([-1., -9.,  0., -4.])
    """

    largest_matrix = 10_000_000  # numbers: 80 MB

    def __init__(
        self,
        left: ArrayLike,
        right: ArrayLike,
        kind: str = "squared",
        graph: PairGraph | None = None,
    ):
        if kind not in KINDS:
            raise ValueError(f"kind: expected one of {sorted(KINDS)}, got {kind!r}")
        self.left = np.ascontiguousarray(as_floats(left, "left"))
        self.right = np.ascontiguousarray(as_floats(right, "right"))
        for name, table in (("left", self.left), ("right", self.right)):
            if table.ndim != 2:
                raise ValueError(f"{name}: expected shape (n, n_features), got {table.shape}")
            if not np.isfinite(table).all():
                raise ValueError(f"{name}: contains NaN or infinity")
            if np.abs(table).max(initial=0.0) > LARGEST:
                raise ValueError(f"{name}: has features beyond {LARGEST:g}; rescale them")
        if self.left.shape[1] != self.right.shape[1]:
            raise ValueError(
                "left and right must have the same number of features, "
                f"got {self.left.shape[1]} and {self.right.shape[1]}"
            )
        self.kind = kind
        self.shape: tuple[int, int] = (self.left.shape[0], self.right.shape[0])
        self.graph = graph
        if graph is not None and graph.shape != self.shape:
            raise ValueError(
                f"graph: expected {self.shape[0]} rows and {self.shape[1]} columns, "
                f"got {graph.shape[0]} and {graph.shape[1]}"
            )
        self.n_features = self.left.shape[1]
        self.n_scored = self.shape[0] * self.shape[1] if graph is None else graph.n_edges

    def on_pairs(self, graph: PairGraph, *, one_group: bool = False) -> TableFeatures:
        """The same features on the pairs of `graph` only."""
        if self.graph is not None:
            return self
        if one_group and not np.array_equal(self.left, self.right):
            raise ValueError(
                "left and right of TableFeatures differ, but pairs within one group have no "
                "direction; give the same table twice"
            )
        if graph.is_complete and not one_group:
            return self
        return TableFeatures(self.left, self.right, self.kind, graph)

    @cached_property
    def matrix(self) -> Floats | None:  # type: ignore[override]
        """The features as an array (n_scored, n_features) where that is small, else None."""
        if self.n_scored * self.n_features > self.largest_matrix:
            return None
        row, col = self._pairs()
        left, right = self.left[row], self.right[col]
        if self.kind == "product":
            return left * right
        return -((left - right) ** 2) if self.kind == "squared" else -np.abs(left - right)

    def _pairs(self) -> tuple[Ints, Ints]:
        """Row and column of every pair."""
        if self.graph is None:
            return np.divmod(np.arange(self.n_scored), self.shape[1])
        return self.graph.row, self.graph.col

    @property
    def _as_products(self) -> bool:
        return self.graph is None and self.kind != "absolute"

    @cached_property
    def _centred(self) -> tuple[Floats, Floats]:
        """Both tables for products, the right one transposed, (n_features, n_cols).

        Squared differences stay the same where both are shifted, and squares of what is far from 0
        would leave only rounding of them.
        """
        if self.kind != "squared":
            return self.left, np.ascontiguousarray(self.right.T)
        centre = self.right.mean(axis=0)
        return self.left - centre, np.ascontiguousarray((self.right - centre).T)

    @cached_property
    def _squares(self) -> tuple[Floats, Floats]:
        left, right = self._centred
        return left**2, right**2

    def scores(self, theta: Floats) -> Floats:
        if self._as_products:
            left, right = self._centred
            if self.kind == "product":
                return ((left * theta) @ right).ravel()
            # -(l - r)^2 = 2 l r - l^2 - r^2
            doubled, squares = np.empty_like(left), np.empty(sum(self.shape))
            weigh_tables(left, right, theta, doubled, squares)
            cross: Floats = doubled.dot(right)  # half a microsecond less than `@`
            subtract_squares(cross, squares)
            return cross.ravel()
        out = np.empty(self.n_scored)
        table_scores(KINDS[self.kind], self.left, self.right, *self._pairs(), theta, out)
        return out

    def moments(self, tau: Floats) -> Floats:
        if self._as_products:
            table, (left, right) = tau.reshape(self.shape), self._centred
            cross: Floats = ((table @ right.T) * left).sum(axis=0)
            if self.kind == "squared":
                of_left, of_right = self._squares
                cross = 2.0 * cross - table.sum(axis=1) @ of_left
                cross -= of_right @ table.sum(axis=0)
            return cross
        out = np.zeros(self.n_features)
        table_moments(KINDS[self.kind], self.left, self.right, *self._pairs(), tau, out)
        return out

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        out = np.zeros(self.n_features)
        tables, graph = (KINDS[self.kind], self.left, self.right), self.graph
        if graph is None:
            complete_moments(*tables, indices, values, out)
        else:
            row = np.searchsorted(graph.ptr, indices, side="right") - 1
            table_moments(*tables, row, graph.col[indices], values, out)
        return out
