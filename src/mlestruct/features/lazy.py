"""Features computed on demand by a function, a few rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from .._arrays import as_count, as_floats
from .contract import Columns, FeatureMap, PairGraph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LazyFeatures(FeatureMap):
    """Feature map over all pairs of an (n_rows, n_cols) problem, made by `function`.

    Parameters
    ----------
    function : callable (start, stop) -> array of shape (stop - start, n_cols, n_features)
        Features of the pairs of rows start .. stop-1. Called at every use, so that at most `chunk`
        rows of features exist at a time.
    n_rows, n_cols, n_features : int
    chunk : rows asked for at a time
    """

    def __init__(
        self,
        function: Callable[[int, int], Floats],
        n_rows: int,
        n_cols: int,
        n_features: int,
        chunk: int = 64,
    ):
        self.function = function
        self.shape: tuple[int, int] = (as_count(n_rows, "n_rows"), as_count(n_cols, "n_cols"))
        self.n_features = as_count(n_features, "n_features")
        self.n_scored = self.shape[0] * self.shape[1]
        self.chunk = as_count(chunk, "chunk")

    def _rows(self, start: int, stop: int) -> Floats:
        block = as_floats(self.function(start, stop), "feature function")
        expected = (stop - start, self.shape[1], self.n_features)
        if block.shape != expected:
            raise ValueError(
                f"feature function: rows {start} to {stop} must give shape {expected}, "
                f"got {block.shape}"
            )
        if not np.isfinite(block).all():
            raise ValueError(f"feature function: NaN or infinity in rows {start} to {stop}")
        return block

    def _chunks(self) -> Iterator[tuple[slice, Floats]]:
        n, m = self.shape
        for start in range(0, n, self.chunk):
            stop = min(start + self.chunk, n)
            yield slice(start * m, stop * m), self._rows(start, stop).reshape(-1, self.n_features)

    def scores(self, theta: Floats) -> Floats:
        out = np.empty(self.n_scored)
        for part, block in self._chunks():
            out[part] = block @ theta
        return out

    def moments(self, tau: Floats) -> Floats:
        out = np.zeros(self.n_features)
        for part, block in self._chunks():
            out += tau[part] @ block
        return out

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        out = np.zeros(self.n_features)
        rows = indices // self.shape[1]
        for row in np.unique(rows):
            at = rows == row
            block = self._rows(int(row), int(row) + 1)[0]
            out += values[at] @ block[indices[at] % self.shape[1]]
        return out

    def columns(self, used: NDArray[np.bool_] | None = None) -> Columns:
        """Statistics of every column, of all pairs or of those that are `used`."""
        found = Columns.empty(self.n_features)
        for part, block in self._chunks():
            found = found.joined(Columns.of(block if used is None else block[used[part]]))
        return found

    def on_pairs(self, graph: PairGraph, *, one_group: bool) -> FeatureMap:
        """All pairs, or, within one group, those of `graph`; a few are checked for symmetry."""
        if not one_group:
            return self
        n = graph.n_edges
        for e in np.unique(np.linspace(0, n - 1, min(n, 5)).astype(int)):
            i, j = int(graph.row[e]), int(graph.col[e])
            there, back = self._rows(i, i + 1)[0, j], self._rows(j, j + 1)[0, i]
            if not np.allclose(there, back, rtol=1e-9):
                raise ValueError(
                    f"the feature function gives {there} for the pair ({i}, {j}) but {back} for "
                    f"({j}, {i}); pairs within one group have no direction"
                )
        return SquareFeatures(self, graph)


class SquareFeatures(FeatureMap):
    """Features of the pairs of one group, from a map over all (n, n) ordered pairs.

    Only the pairs of `graph`, row < column, are used; both directions are assumed to be equal.
    """

    def __init__(self, features: LazyFeatures, graph: PairGraph):
        self.features = features
        self.n_features = features.n_features
        self.n_scored = graph.n_edges
        self._places = graph.row * graph.shape[1] + graph.col

    def scores(self, theta: Floats) -> Floats:
        return self.features.scores(theta)[self._places]

    def moments(self, tau: Floats) -> Floats:
        full = np.zeros(self.features.n_scored)
        full[self._places] = tau
        return self.features.moments(full)

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        return self.features.moments_at(self._places[indices], values)

    def columns(self) -> Columns:
        used = np.zeros(self.features.n_scored, dtype=bool)
        used[self._places] = True
        return self.features.columns(used)
