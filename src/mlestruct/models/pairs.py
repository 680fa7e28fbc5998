"""What a matching estimator takes as one sample, and how it becomes graph, features and offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..features import DenseFeatures, FeatureMap, LazyFeatures, TableFeatures
from ..structures.bipartite_graph import BipartiteGraph

Floats = NDArray[np.float64]

LARGEST = 1e50  # features beyond this overflow when squared and summed


@dataclass(frozen=True)
class PairInput:
    """One sample with more to say than its features.

    Parameters
    ----------
    features : array of shape (n_rows, n_cols, n_features), or a feature map over the allowed
        pairs in row-major order
    mask : (n_rows, n_cols) booleans or a SciPy sparse matrix; pairs where it is zero are forbidden
    offset : (n_rows, n_cols) or (n_allowed,), added to the scores and not learned; -inf forbids
    shape : (n_rows, n_cols), needed only if neither features nor mask tell
    """

    features: Any
    mask: Any = None
    offset: Any = None
    shape: tuple[int, int] | None = None


@dataclass(frozen=True)
class PairSample:
    """A validated sample."""

    graph: BipartiteGraph
    features: FeatureMap
    offset: Floats | None
    sparse: bool


def read_sample(x: Any, where: str) -> PairSample:
    """Turn one element of X into a `PairSample`; `where` names it in errors, like "X[3]"."""
    if isinstance(x, PairInput):
        return _read_pair_input(x, where)
    if isinstance(x, np.ndarray | list | tuple):
        table = _feature_array(x, where)
        forbidden = np.isneginf(table).all(axis=2)
        if forbidden.any():
            return _read_pair_input(PairInput(table, ~forbidden), where)
        _check_finite(table, where)
        graph = BipartiteGraph.complete(*table.shape[:2])
        features = DenseFeatures(table.reshape(-1, table.shape[2]))
        return PairSample(graph, features, None, False)
    if isinstance(x, FeatureMap):
        return _read_pair_input(PairInput(x), where)
    raise TypeError(
        f"{where}: expected an array of shape (n_rows, n_cols, n_features), a feature map or a "
        f"PairInput, got {type(x).__name__}"
    )


def _feature_array(x: Any, where: str) -> Floats:
    try:
        table = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: cannot be read as an array of numbers ({error})") from None
    if table.ndim != 3:
        raise ValueError(
            f"{where}: expected 3 dimensions (n_rows, n_cols, n_features), got shape {table.shape}"
            + ("; put a single sample into a list" if table.ndim == 2 else "")
        )
    if 0 in table.shape:
        raise ValueError(f"{where}: has an empty dimension, shape {table.shape}")
    return table


def _check_finite(values: Floats, where: str) -> None:
    if not np.isfinite(values).all():
        at = tuple(int(k) for k in np.argwhere(~np.isfinite(values))[0])
        raise ValueError(
            f"{where}: found {values[at]} at {at}; features must be finite (a pair whose features "
            "are all -inf is forbidden)"
        )
    if values.size and np.abs(values).max() > LARGEST:
        raise ValueError(f"{where}: features of size {np.abs(values).max():.1g}; rescale them")


def _shape_of(x: PairInput, where: str) -> tuple[int, int]:
    for candidate in (x.shape, getattr(x.features, "shape", None), np.shape(x.mask)):
        if candidate is not None and len(candidate) >= 2:
            return int(candidate[0]), int(candidate[1])
    raise ValueError(f"{where}: the number of rows and columns is unknown; give PairInput a shape")


def _read_pair_input(x: PairInput, where: str) -> PairSample:
    table = None
    if not isinstance(x.features, FeatureMap):
        table = _feature_array(x.features, where)
        shape = (table.shape[0], table.shape[1])
    else:
        shape = _shape_of(x, where)
    mask = x.mask
    if mask is not None and tuple(np.shape(mask)) != shape:
        raise ValueError(f"{where}: mask has shape {np.shape(mask)}, features have {shape}")
    if mask is not None and not sparse.issparse(mask):
        values = np.asarray(mask)
        if values.dtype.kind not in "biuf" or not np.isfinite(values.astype(float)).all():
            raise ValueError(f"{where}: mask must hold booleans or numbers without NaN")
    offset = None if x.offset is None else np.asarray(x.offset, dtype=np.float64)
    if offset is not None:
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
    inherent = getattr(x.features, "graph", None)
    if mask is not None and inherent is not None:
        raise ValueError(f"{where}: the features have a graph of their own; give no mask as well")
    if mask is not None:
        graph = BipartiteGraph.from_mask(mask if sparse.issparse(mask) else np.asarray(mask, bool))
    else:
        graph = inherent if inherent is not None else BipartiteGraph.complete(*shape)
    if offset is not None:
        if offset.shape == shape:
            offset = offset[graph.row, graph.col]
        elif offset.shape != (graph.n_edges,):
            raise ValueError(
                f"{where}: offset has shape {offset.shape}, expected {shape} or ({graph.n_edges},)"
            )
    features = _features_on(graph, x.features if table is None else table, where)
    return PairSample(graph, features, offset, sparse.issparse(x.mask))


def _features_on(graph: BipartiteGraph, features: Any, where: str) -> FeatureMap:
    """The feature map of the pairs of `graph`."""
    if isinstance(features, np.ndarray):
        rows = features[graph.row, graph.col]
        _check_finite(rows, where)
        return DenseFeatures(rows)
    if isinstance(features, TableFeatures) and not graph.is_complete:
        features = features.restricted(graph)
    if features.n_scored != graph.n_edges:
        hint = " (LazyFeatures cover all pairs)" if isinstance(features, LazyFeatures) else ""
        raise ValueError(
            f"{where}: the feature map has {features.n_scored} pairs, "
            f"the allowed pairs are {graph.n_edges}{hint}"
        )
    checked: FeatureMap = features
    return checked
