"""What a matching estimator takes as one sample, and how it becomes graph, features and offset.

A sample has either two sides (rows and columns) or one group (rows and columns are the same nodes;
everything is symmetric, and pairs are those with row < column).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._arrays import as_floats
from ..features import (
    DenseFeatures,
    FeatureMap,
    LazyFeatures,
    SparseFeatures,
    as_feature_map,
)
from ..features.contract import is_feature_map
from ..structures import BipartiteGraph, SimpleGraph
from .pair_frames import PairFrame, read_columns, read_frame
from .validation import are_moderate, check_finite

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Graph = BipartiteGraph | SimpleGraph


@dataclass(frozen=True)
class PairInput:
    """One sample of a matching estimator: features, allowed pairs, known scores, capacities.

    Parameters
    ----------
    features : array of shape (n_rows, n_cols, n_features); or of the allowed pairs in row-major
        order (in one group: pairs with row < column) a feature map, an array, data frame or SciPy
        sparse matrix of shape (n_allowed, n_features). Where the mask of two sides is in COO
        format, rows of an array (and of `offset`) belong to its entries, in their order.
    mask : (n_rows, n_cols) booleans or a SciPy sparse matrix; pairs where it is zero are forbidden
    offset : (n_rows, n_cols) or (n_allowed,), added to the scores and not learned; -inf forbids
    shape : (n_rows, n_cols), needed only if neither features nor mask determine it
    capacity : partners of each node, in place of the estimator's `capacity`
    """

    features: Any
    mask: Any = None
    offset: Any = None
    shape: tuple[int, int] | None = None
    capacity: Any = None
    frame: PairFrame | None = field(default=None, repr=False)

    @classmethod
    def from_frame(
        cls,
        pairs: Any,
        left: Any = None,
        right: Any = None,
        *,
        ids: tuple[Any, Any] | None = None,
        features: Sequence[Any] | None = None,
        offset: Any = None,
        capacity: Any = None,
    ) -> PairInput:
        """Two tables and their candidate pairs, one per row of a data frame (pandas or polars).

        Labels may then be links between ids: a frame with two columns of ids, a MultiIndex, a list
        of tuples with strings, or a boolean for each candidate pair. `predict_links` answers with
        a frame.

        Parameters
        ----------
        pairs : frame with the ids of a pair as a MultiIndex of two levels, or in two columns, and
            its comparisons
        left, right : frames, whose index holds the ids, or collections of ids; by default the ids
            that occur in the pairs
        ids : the columns with the id on the left and that on the right, unless they are the index
        features : columns to learn from; by default all others
        offset : a column that is added to the scores and not learned

        Examples
        --------
        >>> import pandas as pd
        >>> from mlestruct import BipartiteMatchingCRF, PairInput
        >>> pairs = pd.DataFrame({"old": ["a", "a", "b", "b"], "new": ["x", "y", "x", "y"],
        ...                       "name": [1.0, 0.2, 0.3, 0.1]})
        >>> sample = PairInput.from_frame(pairs, ids=("old", "new"))
        >>> links = pd.DataFrame({"old": ["a"], "new": ["x"]})
        >>> model = BipartiteMatchingCRF(perfect=False, alpha=0.1).fit([sample], [links])
        >>> model.named_coef()["name"] > 0
        True
        >>> model.predict_links([sample])[0].query("linked")[["old", "new"]].values.tolist()
        [['a', 'x']]
        """
        frame, others = read_frame(pairs, left, right, ids, one_group=False)
        assert frame.right is not None
        values, names, offsets = _frame_values(pairs, others, features, offset)
        shape = (len(frame.left), len(frame.right))
        order = np.lexsort((frame.pairs[:, 1], frame.pairs[:, 0]))
        row, col = frame.pairs[order].T
        mask = sparse.csr_array((np.ones(order.size, dtype=bool), (row, col)), shape=shape)
        rows = DenseFeatures(values[order], names)
        offsets = None if offsets is None else offsets[order]
        return cls(rows, mask, offsets, shape, capacity, frame)


@dataclass(frozen=True)
class EdgeList:
    """One group of nodes of which few pairs are allowed, pair by pair.

    Parameters
    ----------
    n_nodes : int
    edges : (n_edges, 2), two nodes each, in any order
    features : array, data frame or SciPy sparse matrix of shape (n_edges, n_features)
    offset : (n_edges,), added to the scores and not learned
    capacity : partners of each node, in place of the estimator's `capacity`
    """

    n_nodes: int
    edges: ArrayLike
    features: Any
    offset: Any = None
    capacity: Any = None
    frame: PairFrame | None = field(default=None, repr=False)

    @classmethod
    def from_frame(
        cls,
        pairs: Any,
        nodes: Any = None,
        *,
        ids: tuple[Any, Any] | None = None,
        features: Sequence[Any] | None = None,
        offset: Any = None,
        capacity: Any = None,
    ) -> EdgeList:
        """One table and the candidate pairs within it, as `PairInput.from_frame` reads them."""
        frame, others = read_frame(pairs, nodes, None, ids, one_group=True)
        values, names, offsets = _frame_values(pairs, others, features, offset)
        rows = DenseFeatures(values, names)
        return cls(len(frame.left), frame.pairs, rows, offsets, capacity, frame)


def _frame_values(
    pairs: Any, others: list[Any], features: Sequence[Any] | None, offset: Any
) -> tuple[Floats, list[str], Floats | None]:
    """Features, their names and the offset of each row of a frame."""
    if features is None:
        features = [name for name in others if name != offset]
    elif isinstance(features, str):
        raise TypeError(f"features: expected names of columns in a list, got {features!r}")
    values, names = read_columns(pairs, list(features))
    return values, names, None if offset is None else read_columns(pairs, [offset])[0][:, 0]


@dataclass(frozen=True)
class PairSample:
    """A validated sample."""

    graph: Any  # BipartiteGraph or SimpleGraph
    features: FeatureMap
    offset: Floats | None
    sparse: bool
    capacity: Any = None
    frame: PairFrame | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns, twice the number of nodes of a group."""
        shape: tuple[int, int] = self.graph.shape
        return shape

    @property
    def sides(self) -> tuple[int, int | None]:
        """Numbers of rows and columns; the number of nodes and None for a group."""
        return self.shape[0], None if isinstance(self.graph, SimpleGraph) else self.shape[1]


def read_sample(x: Any, where: str, group: bool = False) -> PairSample:
    """Turn one element of X into a `PairSample`; `where` names it in errors, like "X[3]"."""
    if isinstance(x, EdgeList):
        if not group:
            raise TypeError(f"{where}: an EdgeList has one group of nodes; use MatchingCRF")
        return _read_edge_list(x, where)
    if isinstance(x, PairInput):
        return _read_pair_input(x, where, group)
    if isinstance(x, np.ndarray | list | tuple):
        return _read_pair_input(PairInput(x), where, group)
    if is_feature_map(x):
        return _read_pair_input(PairInput(x), where, group)
    raise TypeError(
        f"{where}: expected an array of shape (n_rows, n_cols, n_features), a feature map"
        f"{', an EdgeList' if group else ''} or a PairInput, got {type(x).__name__}"
    )


def _feature_array(x: Any, where: str) -> Floats:
    try:
        table = as_floats(x)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: cannot be read as an array of numbers ({error})") from None
    if table.ndim != 3:
        raise ValueError(
            f"{where}: expected 3 dimensions (n_rows, n_cols, n_features), got shape {table.shape}"
            + ("; put a single sample into a list" if table.ndim == 2 else "")
            + ("; a row per allowed pair needs PairInput with a mask" if table.ndim == 2 else "")
        )
    if 0 in table.shape:
        raise ValueError(f"{where}: has an empty dimension, shape {table.shape}")
    return table


def _numbers(values: Any, what: str, where: str) -> Floats:
    if sparse.issparse(values):
        raise TypeError(f"{where}: {what} must be a dense array, got a sparse matrix")
    try:
        return as_floats(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {what} must hold numbers ({error})") from None


def _check_square(shape: tuple[int, ...], where: str) -> None:
    if shape[0] != shape[1]:
        raise ValueError(
            f"{where}: pairs within one group form a square, got {shape[0]} rows and {shape[1]} "
            "columns; for two sides use BipartiteMatchingCRF"
        )


def _check_symmetric(values: Floats, graph: SimpleGraph, what: str, where: str) -> None:
    """Raise unless both directions of every pair say the same."""
    there, back = values[graph.row, graph.col], values[graph.col, graph.row]
    differ = np.abs(there - back) > 1e-9 * (np.abs(there) + np.abs(back))
    if differ.any():
        e = int(np.argmax(differ.reshape(graph.n_edges, -1).any(axis=1)))
        i, j = int(graph.row[e]), int(graph.col[e])
        raise ValueError(
            f"{where}: {what} of the pair ({i}, {j}) differ from those of ({j}, {i}): "
            f"{there[e]} and {back[e]}. Pairs within one group have no direction: use symmetric "
            "ones, like their mean or |difference|"
        )


def _shape_of(x: PairInput, features: FeatureMap, where: str) -> tuple[int, int]:
    for candidate in (x.shape, features.shape, np.shape(x.mask)):
        if candidate is not None and len(candidate) >= 2:
            return int(candidate[0]), int(candidate[1])
    raise ValueError(f"{where}: the number of rows and columns is unknown; give PairInput a shape")


def _read_edge_list(x: EdgeList, where: str) -> PairSample:
    ends = _numbers(x.edges, "edges", where)
    if ends.ndim != 2 or ends.shape[1] != 2 or not np.array_equal(ends, np.floor(ends)):
        raise ValueError(
            f"{where}: edges must be whole numbers of shape (n_edges, 2), two nodes each, got "
            f"shape {ends.shape}" + (" with fractions" if ends.ndim == 2 else "")
        )
    if isinstance(x.n_nodes, bool) or not isinstance(x.n_nodes, int | np.integer):
        raise TypeError(f"{where}: n_nodes must be a whole number, got {x.n_nodes!r}")
    try:
        graph, edge = SimpleGraph.from_edges(int(x.n_nodes), ends)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    size = edge.shape[0]
    order = np.empty(size, dtype=np.int64)
    order[edge] = np.arange(size)
    features = _row_features(x.features, size, where, ends.T, order)
    offset = None
    if x.offset is not None:
        offset = _numbers(x.offset, "offset", where)
        if offset.shape != (size,) or not np.isfinite(offset).all():
            raise ValueError(f"{where}: offset must hold {size} finite numbers, one per edge")
        offset = offset[order]
    return PairSample(graph, features, offset, True, x.capacity, x.frame)


def _read_pair_input(x: PairInput, where: str, group: bool) -> PairSample:
    order = None if group else _entry_order(x.mask, where)
    given = (
        as_feature_map(x.features) if is_feature_map(x.features) else _pair_rows(x, order, where)
    )
    table = _feature_array(x.features, where) if given is None else None
    if table is not None:
        shape = (table.shape[0], table.shape[1])
    elif given is not None:
        shape = _shape_of(x, given, where)
    if group:
        _check_square(shape, where)
    mask, offset = _read_mask_and_offset(x, shape, where)
    if table is not None:
        mask = _without_forbidden(mask, table, group)
    inherent = None if given is None else given.graph
    if mask is not None and inherent is not None:
        raise ValueError(f"{where}: the features have a graph of their own; give no mask as well")
    graph = inherent if mask is None else _graph_of_mask(mask, group, where)
    if graph is None:
        graph = SimpleGraph.complete(shape[0]) if group else BipartiteGraph.complete(*shape)
    if offset is not None:
        if offset.shape == shape:
            if isinstance(graph, SimpleGraph):
                _check_symmetric(offset, graph, "offsets", where)
            offset = offset[graph.row, graph.col]
        elif offset.shape != (graph.n_edges,):
            raise ValueError(
                f"{where}: offset has shape {offset.shape}, expected {shape} or ({graph.n_edges},)"
            )
        elif order is not None:
            offset = offset[order]
    if given is not None:
        features = _features_on(graph, given, where)
    elif table is not None:
        features = _dense_features(graph, table, where)
    return PairSample(graph, features, offset, sparse.issparse(x.mask), x.capacity, x.frame)


def _entry_order(mask: Any, where: str) -> Ints | None:
    """Places of the pairs, in row-major order, among the entries of a mask in COO format."""
    if not (sparse.issparse(mask) and mask.format == "coo"):
        return None
    ends = [np.asarray(k)[np.asarray(mask.data) != 0] for k in (mask.row, mask.col)]
    order = np.lexsort(ends[::-1])
    again = (np.diff(ends[0][order]) == 0) & (np.diff(ends[1][order]) == 0)
    if again.any():
        e = order[int(np.argmax(again))]
        raise ValueError(f"{where}: mask has the pair ({ends[0][e]}, {ends[1][e]}) twice")
    return order


def _pair_rows(x: PairInput, order: Ints | None, where: str) -> FeatureMap | None:
    """The map of features with one row per allowed pair; None if they have another form."""
    if x.mask is None:
        return None
    features = x.features if sparse.issparse(x.features) else np.asarray(x.features)
    if features.ndim != 2:
        return None
    # Without an order compared with the number of pairs once these are known.
    size = features.shape[0] if order is None else order.size
    return _row_features(x.features, size, where, None, order)


def _row_features(
    given: Any, size: int, where: str, ends: Any = None, order: Any = None
) -> FeatureMap:
    """Features with one row per pair, in another `order`; `ends` are the pairs in messages."""
    if is_feature_map(given):
        names, given = given.feature_names, given.matrix
    else:
        names = [str(name) for name in given.columns] if hasattr(given, "columns") else None
    rows = slice(None) if order is None else order
    if np.ndim(given) != 2 or np.shape(given)[0] != size:
        raise ValueError(
            f"{where}: features must have shape ({size}, n_features), got {np.shape(given)}"
        )
    if sparse.issparse(given):
        if not np.isfinite(given.data).all():
            raise ValueError(f"{where}: features contain NaN or infinity")
        return SparseFeatures(sparse.csr_array(given)[rows], names)
    values = _numbers(given, "features", where)
    check_finite(values, where, ends)
    return DenseFeatures(values[rows], names)


def _without_forbidden(mask: Any, table: Floats, group: bool) -> Any:
    """The mask without pairs whose features are all -inf."""
    if table.min(initial=0.0) > -np.inf:
        return mask
    forbidden = np.asarray(np.isneginf(table).all(axis=2))
    if group:
        np.fill_diagonal(forbidden, False)
    if not forbidden.any():
        return mask
    if sparse.issparse(mask):
        return mask.multiply(~forbidden)
    return ~forbidden if mask is None else np.asarray(mask, dtype=bool) & ~forbidden


def _read_mask_and_offset(
    x: PairInput, shape: tuple[int, int], where: str
) -> tuple[Any, Floats | None]:
    """The mask without pairs whose offset forbids them, and the offset."""
    mask = x.mask
    if mask is not None and tuple(np.shape(mask)) != shape:
        raise ValueError(f"{where}: mask has shape {np.shape(mask)}, features have {shape}")
    if mask is not None:
        values = mask.data if sparse.issparse(mask) else np.asarray(mask)
        if values.dtype.kind not in "biuf" or not np.isfinite(values.astype(float)).all():
            raise ValueError(f"{where}: mask must hold booleans or numbers without NaN")
    if x.offset is None:
        return mask, None
    offset = _numbers(x.offset, "offset", where)
    if np.isnan(offset).any() or np.isposinf(offset).any():
        raise ValueError(f"{where}: offset contains NaN or +inf")
    if offset.shape == shape:
        allowed = np.isfinite(offset)
        if not allowed.all():
            if sparse.issparse(mask):
                mask = mask.multiply(allowed)
            else:
                mask = allowed if mask is None else np.asarray(mask, dtype=bool) & allowed
    elif not np.isfinite(offset).all():
        raise ValueError(f"{where}: an offset per allowed pair must be finite")
    return mask, offset


def _graph_of_mask(mask: Any, group: bool, where: str) -> Graph:
    values = mask if sparse.issparse(mask) else np.asarray(mask, dtype=bool)
    if not group:
        return BipartiteGraph.from_mask(values)
    try:
        return SimpleGraph.from_mask(values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _dense_features(graph: Graph, table: Floats, where: str) -> FeatureMap:
    """The features of the pairs of `graph` from an array (n_rows, n_cols, n_features)."""
    if isinstance(graph, BipartiteGraph) and graph.is_complete:
        # No copy, unless kernels would have to be compiled for read-only arrays.
        rows = np.require(table.reshape(graph.n_edges, -1), requirements=["C", "W"])
    else:
        rows = table[graph.row, graph.col]
    if not are_moderate(rows):  # ends of all pairs take as long as reading them
        check_finite(rows, where, (graph.row, graph.col))
    if isinstance(graph, SimpleGraph):
        _check_symmetric(table, graph, "features", where)
    return DenseFeatures(rows)


def _features_on(graph: Graph, given: FeatureMap, where: str) -> FeatureMap:
    """The feature map of the pairs of `graph`."""
    try:
        features = given.on_pairs(graph, one_group=isinstance(graph, SimpleGraph))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if features.n_scored != graph.n_edges:
        hint = " (LazyFeatures cover all pairs)" if isinstance(features, LazyFeatures) else ""
        raise ValueError(
            f"{where}: the feature map has {features.n_scored} pairs, "
            f"the allowed pairs are {graph.n_edges}{hint}"
        )
    return features
