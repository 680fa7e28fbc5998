"""Reading of matchings, once: samples as a graph with features, labels as edges of this graph.

A sample has either two sides (rows and columns) or one group (rows and columns are the same nodes;
everything is symmetric, and pairs have row < column).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._arguments import as_floats, as_numbers, check_unmasked
from .._lazy import pandas_module
from ..exceptions import InfeasibleError
from ..features.rows import (
    FeatureMap,
    Rows,
    are_moderate,
    as_feature_map,
    check_finite,
    is_feature_map,
)
from ..structures.graphs.bipartite import BipartiteGraph
from ..structures.graphs.simple import SimpleGraph
from ..structures.matchings.space import check_partners, whole_numbers
from .pair_frames import (
    NO_PAIRS,
    PairFrame,
    are_tuples,
    is_boolean,
    names_pairs,
    read_columns,
    read_frame,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Graph = BipartiteGraph | SimpleGraph

NOBODY = np.zeros(0, dtype=np.int64)


# ---------------------------------------------------------------------- what users give
@dataclass(frozen=True)
class PairInput:
    """One sample of a matching estimator: features, allowed pairs, known scores, capacities.

    Parameters
    ----------
    features : array of shape (n_rows, n_cols, n_features), or one row per allowed pair
        Rows, shape (n_allowed, n_features), are an array, data frame or SciPy sparse matrix; or an
        object with `n_features`, `n_scored`, `scores(theta)` and `moments(tau)`. They are in
        row-major order (in one group: pairs with row < column); if the mask of two sides is in COO
        format, rows of an array, and of `offset`, belong to its entries, in their order.
    mask : (n_rows, n_cols) booleans or a SciPy sparse matrix; pairs with zero are forbidden
    offset : (n_rows, n_cols) or (n_allowed,), added to the scores and not learned; -inf forbids
    shape : (n_rows, n_cols), needed for rows of features without a mask
    capacity : number of partners of each node, like the `capacity` of `BipartiteMatchingCRF`, in
        place of it; for one group a number, or an array of shape (n_nodes,)
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
        rows, offsets = _frame_values(pairs, others, features, offset)
        shape = (len(frame.left), len(frame.right))
        ones = np.ones(frame.pairs.shape[0], dtype=bool)
        mask = sparse.coo_array((ones, tuple(frame.pairs.T)), shape=shape)
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
    capacity : number of partners of each node, as in `PairInput`
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
        rows, offsets = _frame_values(pairs, others, features, offset)
        return cls(len(frame.left), frame.pairs, rows, offsets, capacity, frame)


def _frame_values(
    pairs: Any, others: list[Any], features: Sequence[Any] | None, offset: Any
) -> tuple[Rows, Floats | None]:
    """Features and the offset of each row of a frame."""
    if features is None:
        features = [name for name in others if name != offset]
    elif isinstance(features, str):
        raise TypeError(f"features: expected names of columns in a list, got {features!r}")
    rows = Rows(*read_columns(pairs, list(features)))
    return rows, None if offset is None else read_columns(pairs, [offset])[0][:, 0]


# ---------------------------------------------------------------------- samples
@dataclass(frozen=True)
class PairSample:
    """A validated sample; `sparse` says whether its tables of pairs are SciPy sparse matrices."""

    graph: Any  # BipartiteGraph or SimpleGraph
    features: FeatureMap
    offset: Floats | None
    sparse: bool
    capacity: Any = None
    frame: PairFrame | None = None

    @property
    def is_group(self) -> bool:
        return isinstance(self.graph, SimpleGraph)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_cols); of a group (n_nodes, n_nodes)."""
        shape: tuple[int, int] = self.graph.shape
        return shape

    def table(self, values: Floats, fill: float = 0.0) -> Any:
        """Values of the allowed pairs as a matrix, symmetric for a group."""
        graph = self.graph
        values = values[: graph.n_edges]
        if self.sparse:
            table = sparse.csr_array((values, graph.col, graph.ptr), shape=self.shape)
            return sparse.csr_array(table + table.T) if self.is_group else table
        return graph.dense(values, fill)

    def link_frame(self, probability: Floats, linked: Bools) -> Any:
        """A data frame of the allowed pairs, in the order of the sample's frame if it has one."""
        graph, frame = self.graph, self.frame
        found = {"probability": probability, "linked": linked}
        if frame is None:
            names = ("node", "partner") if self.is_group else ("row", "column")
            ends = dict(zip(names, (graph.row, graph.col), strict=True))
            return pandas_module().DataFrame(ends | found)
        edges = graph.edge_between(frame.pairs[:, 0], frame.pairs[:, 1])
        return frame.table({name: values[edges] for name, values in found.items()})


def read_sample(x: Any, where: str, group: bool) -> PairSample:
    """Turn one element of X into a `PairSample`; `where` names it in errors, like "X[3]"."""
    if isinstance(x, np.ndarray | list | tuple):
        x = PairInput(x)
    if not isinstance(x, PairInput | EdgeList):
        raise TypeError(
            f"{where}: expected an array of shape (n_rows, n_cols, n_features)"
            f"{', an EdgeList' if group else ''} or a PairInput, got {type(x).__name__}"
        )
    offset = None if x.offset is None else _numbers(x.offset, "offset", where)
    if isinstance(x, PairInput):
        graph, order, given = _pair_graph(x, offset, where, group)
    elif group:
        (graph, order), given = _edge_graph(x, where), x.features
    else:
        raise TypeError(f"{where}: an EdgeList has one group of nodes; use MatchingCRF")
    features = _rows(given, graph, order, where)
    offset = None if offset is None else _edge_offset(offset, graph, order, where)
    is_sparse = isinstance(x, EdgeList) or sparse.issparse(x.mask)
    return PairSample(graph, features, offset, is_sparse, x.capacity, x.frame)


def _edge_graph(x: EdgeList, where: str) -> tuple[SimpleGraph, Ints]:
    """The graph of a list of edges, and the place of its edges in the list."""
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
    return graph, np.argsort(edge)


def _pair_graph(
    x: PairInput, offset: Floats | None, where: str, group: bool
) -> tuple[Graph, Ints | None, Any]:
    """The graph of the allowed pairs, their places in the mask, and the features of the pairs."""
    table = _feature_table(x, where)
    sizes = table.shape if table is not None else (x.shape or np.shape(x.mask))
    if len(sizes) < 2:
        raise ValueError(
            f"{where}: the number of rows and columns is unknown. Pass `shape` to PairInput."
        )
    shape = int(sizes[0]), int(sizes[1])
    if group and shape[0] != shape[1]:
        raise ValueError(
            f"{where}: pairs within one group form a square, got {shape[0]} rows and {shape[1]} "
            "columns; for two sides use BipartiteMatchingCRF"
        )
    mask = x.mask
    if mask is not None:
        _check_mask(mask, shape, where)
    if table is not None and table.min(initial=0.0) == -np.inf:
        mask = _and(mask, ~np.isneginf(table).all(axis=2) | (np.eye(shape[0], dtype=bool) & group))
    if offset is not None and offset.shape == shape:
        mask = _and(mask, ~np.isneginf(offset))
    graph = _graph(mask, shape, group, where)
    order = None if group else _entry_order(x.mask, where)
    if table is None:
        return graph, order, x.features
    if isinstance(graph, SimpleGraph):
        _check_symmetric(table, graph, "features", where)
    elif graph.is_complete:
        return graph, None, table.reshape(graph.n_edges, -1)  # no copy
    return graph, None, table[graph.row, graph.col]


def _feature_table(x: PairInput, where: str) -> NDArray[Any] | None:
    """Features as an array of shape (n_rows, n_cols, n_features); None for rows of pairs."""
    given = x.features
    if is_feature_map(given) or sparse.issparse(given) or hasattr(given, "columns"):
        return None
    try:
        table = as_numbers(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: cannot be read as an array of numbers ({error})") from None
    if table.ndim == 2 and (x.mask is not None or x.shape is not None):
        return None
    if table.ndim != 3:
        raise ValueError(
            f"{where}: expected 3 dimensions (n_rows, n_cols, n_features), got shape {table.shape}"
            + ("; put a single sample into a list" if table.ndim == 2 else "")
            + ("; a row per allowed pair needs PairInput with a mask" if table.ndim == 2 else "")
        )
    if 0 in table.shape:
        raise ValueError(f"{where}: has an empty dimension, shape {table.shape}")
    return table if table.dtype.kind == "f" else table.astype(np.float64)


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


def _check_mask(mask: Any, shape: tuple[int, int], where: str) -> None:
    if tuple(np.shape(mask)) != shape:
        raise ValueError(f"{where}: mask has shape {np.shape(mask)}, features have {shape}")
    values = mask.data if sparse.issparse(mask) else np.asarray(mask)
    if values.dtype.kind not in "biuf" or not np.isfinite(values.astype(float)).all():
        raise ValueError(f"{where}: mask must hold booleans or numbers without NaN")


def _and(mask: Any, allowed: Bools) -> Any:
    """The mask without the pairs that are not allowed."""
    if allowed.all():
        return mask
    if sparse.issparse(mask):
        return mask.multiply(allowed)
    return allowed if mask is None else np.asarray(mask, dtype=bool) & allowed


def _graph(mask: Any, shape: tuple[int, int], group: bool, where: str) -> Graph:
    if mask is None:
        return SimpleGraph.complete(shape[0]) if group else BipartiteGraph.complete(*shape)
    values = mask if sparse.issparse(mask) else np.asarray(mask, dtype=bool)
    if not group:
        return BipartiteGraph.from_mask(values)
    try:
        return SimpleGraph.from_mask(values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _rows(given: Any, graph: Graph, order: Ints | None, where: str) -> FeatureMap:
    """Features with a row per pair, in another `order`, or a user's own map."""
    size = graph.n_edges
    if is_feature_map(given) and not isinstance(given, Rows):
        if given.n_scored != size:
            raise ValueError(
                f"{where}: the features have {given.n_scored} pairs, the allowed pairs are {size}"
            )
        return as_feature_map(given)
    if not isinstance(given, Rows):
        if np.ndim(given) != 2:
            shape = np.shape(given)
            raise ValueError(f"{where}: features must have shape ({size}, n_features), got {shape}")
        names = [str(name) for name in given.columns] if hasattr(given, "columns") else None
        plain = sparse.issparse(given) or isinstance(given, np.ndarray)
        given = Rows(given if plain else _numbers(given, "features", where), names)
    if len(given) != size:
        raise ValueError(
            f"{where}: features must have shape ({size}, n_features), got {given.matrix.shape}"
        )
    rows: Rows = given if order is None else given.take(order)
    if rows.is_sparse and not np.isfinite(rows.matrix.data).all():
        raise ValueError(f"{where}: features contain NaN or infinity")
    if not rows.is_sparse and not are_moderate(rows.matrix):
        check_finite(rows.matrix, where, (graph.row, graph.col))
    return rows


def _edge_offset(offset: Floats, graph: Graph, order: Ints | None, where: str) -> Floats:
    """The offset of every edge, from an array of them or a table."""
    if np.isnan(offset).any() or np.isposinf(offset).any():
        raise ValueError(f"{where}: offset contains NaN or +inf")
    if offset.shape == graph.shape:
        if isinstance(graph, SimpleGraph):
            _check_symmetric(offset, graph, "offsets", where)
        return np.asarray(offset[graph.row, graph.col])
    if offset.shape != (graph.n_edges,):
        raise ValueError(
            f"{where}: offset has shape {offset.shape}, expected {graph.shape} or "
            f"({graph.n_edges},)"
        )
    if not np.isfinite(offset).all():
        raise ValueError(f"{where}: an offset per allowed pair must be finite")
    return offset if order is None else offset[order]


def _check_symmetric(values: Floats, graph: SimpleGraph, what: str, where: str) -> None:
    """Raise unless both directions of every pair say the same."""
    there, back = values[graph.row, graph.col], values[graph.col, graph.row]
    differ = np.abs(there - back) > 1e-9 * (np.abs(there) + np.abs(back))
    if differ.any():
        e = int(np.argmax(differ.reshape(graph.n_edges, -1).any(axis=1)))
        i, j = int(graph.row[e]), int(graph.col[e])
        raise ValueError(
            f"{where}: {what} of the pairs ({i}, {j}) and ({j}, {i}) differ: "
            f"{there[e]} and {back[e]}. Pairs within one group have no direction: use symmetric "
            "ones, like their mean or |difference|"
        )


def _numbers(values: Any, what: str, where: str) -> Floats:
    if sparse.issparse(values):
        raise TypeError(f"{where}: {what} must be a dense array, got a sparse matrix")
    try:
        return as_floats(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {what} must hold numbers ({error})") from None


# ---------------------------------------------------------------------- labels
@dataclass(frozen=True)
class Label:
    """What a label, or what is known of one, says about the pairs of a sample.

    pairs, absent : positions (n, 2) of pairs in the matching, and of pairs that are not in it
    single : rows (nodes of a group) without a partner
    whole : whether no other pair is in the matching; else nothing is known of the others
    named : whether pairs were given by ids
    """

    pairs: Ints
    absent: Ints = field(default_factory=lambda: NO_PAIRS)
    single: Ints = field(default_factory=lambda: NOBODY)
    whole: bool = True
    named: bool = False


def read_label(label: Any, sample: PairSample, where: str, known: bool = False) -> Label:
    """A matching in any form: one that was observed, or what is `known` of one.

    * partners of shape (n_rows,): a number, -1 for single, NaN or None if it is not known;
    * pairs of shape (n_pairs, 2), or links between ids; if `known`, others are not known;
    * a matrix of shape (n_rows, n_cols): booleans, or 1 for pairs, 0 for pairs that are none and
      NaN if it is not known; entries that a SciPy sparse one does not store are none or, if
      `known`, not known.
    """
    if names_links(label, sample):
        if sample.frame is None:
            raise TypeError(
                f"{where}: links are ids, but the sample has none. Use PairInput.from_frame."
            )
        return Label(sample.frame.positions(label, where), whole=not known, named=True)
    try:
        if sparse.issparse(label):
            return _read_sparse(sparse.coo_array(label), sample, known)
        return _read_array(label, sample, known)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def names_links(label: Any, sample: PairSample) -> bool:
    """Whether a label consists of links between ids, or marks candidate pairs of a frame."""
    if sample.frame is None and isinstance(label, np.ndarray):
        return False  # partners, or pairs of positions
    return names_pairs(label) or (sample.frame is not None and is_boolean(label))


def _read_array(label: Any, sample: PairSample, known: bool) -> Label:
    check_unmasked(label, "label")
    try:
        values = np.asarray(label)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"expected an array of whole numbers: {error}") from None
    if values.dtype == object:
        values = np.array([np.nan if v is None else v for v in values.ravel().tolist()])
        values = values.reshape(np.shape(label))
    if values.ndim == 2 and values.shape == sample.shape and values.dtype.kind in "fb":
        unknown = np.isnan(values)
        if known or unknown.any():
            return _read_sparse(_entries(values, ~unknown), sample, True)
        return _read_sparse(sparse.coo_array(values), sample, False)
    if values.ndim == 2 or values.shape == (0,):
        if values.dtype == bool:
            raise ValueError(f"expected a matrix of shape {sample.shape}, got {values.shape}")
        if not are_tuples(label):
            _check_one_reading(values, sample.shape)
        return Label(_checked_pairs(values, sample), whole=not known)
    n_rows, n_cols = sample.shape  # all other labels are partners of the rows
    given = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, dtype=bool)
    partner = np.where(given, values, -1) if values.dtype.kind == "f" else values
    whole = bool(given.all()) and not known
    pairs = check_partners(partner, n_rows, None if sample.is_group else n_cols, given)
    single = np.flatnonzero(given & (partner < 0))
    return Label(pairs, single=single, whole=whole)


def _entries(values: NDArray[Any], stored: Bools) -> sparse.coo_array:
    """Some entries of a dense matrix, zeros included."""
    at = np.nonzero(stored)
    return sparse.coo_array((values[at].astype(np.float64), at), shape=values.shape)


def _read_sparse(entries: sparse.coo_array, sample: PairSample, known: bool) -> Label:
    """Pairs, and pairs that are none, from the entries of a matrix."""
    if entries.shape != sample.shape:
        raise ValueError(f"expected a matrix of shape {sample.shape}, got {entries.shape}")
    wrong = entries.data[~np.isin(entries.data, (0, 1))]
    if wrong.size:
        raise ValueError(f"found {wrong[0]} in a matrix of pairs; expected 1, 0 or NaN")
    at, ones = np.stack(entries.coords, axis=1).astype(np.int64), entries.data == 1
    pairs, absent = at[ones], at[~ones]
    if sample.is_group:
        both = np.concatenate([pairs, pairs[:, ::-1]])
        if not known and np.unique(both, axis=0).shape[0] != pairs.shape[0]:
            raise ValueError("the matrix of pairs must be symmetric")
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    pairs = _checked_pairs(pairs, sample)
    return Label(pairs, absent if known else NO_PAIRS, whole=not known)


def _check_one_reading(values: NDArray[Any], shape: tuple[int, int]) -> None:
    """Raise if whole numbers could be pairs as well as a matrix."""
    if values.size and values.shape == shape and np.isin(values, (0, 1)).all():
        raise ValueError(
            f"numbers 0 and 1 of shape {shape} may be pairs or a matrix. Pass a matrix as booleans "
            "(.astype(bool)), pairs as a list of tuples"
        )


def _checked_pairs(given: Any, sample: PairSample) -> Ints:
    """Distinct pairs of positions, sorted; in a group the smaller position comes first."""
    if np.size(given) == 0:
        return NO_PAIRS
    form = "one row per pair (or a boolean or sparse matrix)"
    pairs = whole_numbers(given, (np.shape(given)[0], 2), form)
    if sample.is_group:
        pairs = np.sort(pairs, axis=1)
        itself = pairs[:, 0] == pairs[:, 1]
        if itself.any():
            k = int(np.argmax(itself))
            raise ValueError(f"pair {k} joins node {pairs[k, 0]} to itself")
    outside = ((pairs < 0) | (pairs >= np.array(sample.shape))).any(axis=1)
    if outside.any():
        k = int(np.argmax(outside))
        raise ValueError(f"pair {k} is {pairs[k].tolist()}, outside of the shape {sample.shape}")
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    if (counts > 1).any():
        twice = distinct[np.argmax(counts > 1)].tolist()
        raise ValueError(f"the pair {twice} occurs twice")
    return distinct


def edge_values(label: Label, sample: PairSample, where: str, may_leave_out: bool) -> Floats:
    """1 for the edges that are pairs, 0 for other edges, NaN for unknown ones.

    Links outside the candidate pairs are left out with a warning if that is allowed;
    other pairs that are not allowed are an error.
    """
    graph, pairs = sample.graph, label.pairs
    values = np.full(graph.n_edges, 0.0 if label.whole else np.nan)
    edges = graph.edge_between(pairs[:, 0], pairs[:, 1])
    outside = pairs[edges < 0]
    if outside.size and not (label.named and may_leave_out):
        i, j = outside[0].tolist()
        names = f"nodes {i} and {j}" if sample.is_group else f"row {i} and column {j}"
        raise ValueError(f"{where}: {names} are a pair, which is not allowed")
    if outside.size:
        warnings.warn(
            f"{where}: {len(outside)} of {len(pairs)} links are not among the candidate pairs; "
            "they are left out, and their records count as single",
            UserWarning,
            stacklevel=2,
        )
    if not label.whole:
        absent = graph.edge_between(label.absent[:, 0], label.absent[:, 1])
        values[absent[absent >= 0]] = 0.0
        rows, cols = np.append(label.single, outside[:, 0]), outside[:, 1]
        if sample.is_group:
            rows = cols = np.append(rows, cols)
        values[np.isin(graph.row, rows) | np.isin(graph.col, cols)] = 0.0
    values[edges[edges >= 0]] = 1.0
    return values


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Errors of a space name the sample."""
    try:
        yield
    except InfeasibleError as error:
        raise InfeasibleError(f"{where}: {error}", error.rows, error.side) from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
