"""Thresholded features of edges, one byte per edge and channel.

A channel with thresholds t_1 < t_2 < ... contributes the indicators value > t_1, value > t_2, ...
These are ones followed by zeros, so that their number of ones, the code, determines them. Scores
are looked up in a table with one cell per code, and sums over edges are histograms over its cells.
Channels with few levels are looked up together, in a table with one cell per combination of their
codes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import as_floats, as_places, check_unmasked
from ._level_kernels import (
    level_pair_counts,
    level_score_rows,
    level_scores,
    level_sum_rows,
    level_sums,
)
from .contract import Columns
from .rows import FeatureRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_LEVELS = int(np.iinfo(np.uint8).max)  # a code is one byte, and so is a combination of codes


class Levels(FeatureRows):
    """The matrix V with a row [1, code_0 >= 1, code_0 >= 2, ..., code_1 >= 1, ...] for each edge.

    Parameters
    ----------
    codes : integers of shape (n_edges, n_channels)
        How many thresholds of its channel each value exceeds.
    n_levels : number of thresholds of each channel, 1 to 255

    Attributes
    ----------
    codes : uint8 array of shape (n_edges, n_channels)
    n_levels : tuple of int
    n_features : 1 + sum(n_levels)

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.features.levels import Levels
    >>> edges = Levels([[0], [1], [2]], n_levels=[2])
    >>> edges.dense()
    array([[1., 0., 0.],
           [1., 1., 0.],
           [1., 1., 1.]])
    >>> edges.scores(np.array([5.0, 1.0, 0.5]))
    array([5. , 6. , 6.5])
    >>> edges.moments(np.ones(3))
    array([3., 2., 1.])
    """

    def __init__(self, codes: ArrayLike, n_levels: Sequence[int]):
        self.n_levels = tuple(as_places(n_levels, "n_levels", 1, MAX_LEVELS, "n_channels").tolist())
        if not self.n_levels:
            raise ValueError(f"n_levels: expected 1 to {MAX_LEVELS} for each channel, got none")
        check_unmasked(codes, "codes")
        try:
            given = np.asarray(codes)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"codes: expected an array: {error}") from None
        self.codes = _bytes(given, self.n_levels)
        self.n_features = 1 + sum(self.n_levels)
        self._place, self._start, self._cells = _combined(self.codes, self.n_levels)

    @classmethod
    def from_values(cls, values: ArrayLike, thresholds: Sequence[ArrayLike]) -> Levels:
        """Codes of `values`, shape (n_edges, n_channels): how many thresholds each one exceeds.

        Parameters
        ----------
        thresholds : one increasing 1-D array per channel
        """
        found = as_floats(values, "values")
        steps = [as_floats(t, f"thresholds[{k}]") for k, t in enumerate(thresholds)]
        if found.ndim != 2 or found.shape[1] != len(steps):
            raise ValueError(
                f"values: expected shape (n_edges, {len(steps)}), one column for each of "
                f"thresholds, got {found.shape}"
            )
        if np.isnan(found).any():
            raise ValueError(f"values: {np.isnan(found).sum()} of {found.size} are NaN")
        for k, step in enumerate(steps):
            if step.ndim != 1 or np.isnan(step).any() or (np.diff(step) <= 0).any():
                raise ValueError(f"thresholds[{k}]: expected an increasing 1-D array, got {step}")
            if not 1 <= step.size <= MAX_LEVELS:
                raise ValueError(
                    f"thresholds[{k}]: expected 1 to {MAX_LEVELS} of them, got {step.size}"
                )
        codes = np.empty(found.shape, dtype=np.uint8)
        for k, step in enumerate(steps):
            codes[:, k] = np.searchsorted(step, found[:, k])  # strictly above
        return cls(codes, [step.size for step in steps])

    def __len__(self) -> int:
        return int(self.codes.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """(n_edges, n_features), the shape of `dense()`."""
        return len(self), self.n_features

    @property
    def nbytes(self) -> int:
        """Bytes held: the codes, and the place of each edge in the tables."""
        return self.codes.nbytes + self._place.nbytes

    def scores(self, weights: ArrayLike) -> Floats:
        """V weights, (n_edges,) or (n_edges, k), for weights (n_features,) or (n_features, k)."""
        weights = _rows("weights", weights, self.n_features)
        table = self._cells @ weights
        out = np.empty((len(self), *weights.shape[1:]))
        look_up = level_scores if weights.ndim == 1 else level_score_rows
        look_up(self._place, self._start, table, out)
        return out

    def moments(self, values: ArrayLike) -> Floats:
        """V' values, (n_features,) or (n_features, k), for values (n_edges,) or (n_edges, k)."""
        values = _rows("values", values, len(self))
        sums = np.zeros((self._cells.shape[0], *values.shape[1:]))
        add_up = level_sums if values.ndim == 1 else level_sum_rows
        add_up(self._place, self._start, values, sums)
        out: Floats = self._cells.T @ sums
        return out

    def gram(self) -> Floats:
        """V' V, shape (n_features, n_features)."""
        counts = np.zeros((self._cells.shape[0],) * 2)
        level_pair_counts(self._place, self._start, counts)
        counts = np.tril(counts) + np.tril(counts, -1).T
        out: Floats = self._cells.T @ counts @ self._cells
        return out

    def columns(self) -> Columns:
        """Statistics of every column."""
        return Columns.of_indicators(self.moments(np.ones(len(self))), len(self))

    def dense(self) -> Floats:
        """V, shape (n_edges, n_features)."""
        out: Floats = self._cells[self._start + self._place].sum(axis=1)
        return out

    def take(self, indices: ArrayLike) -> Levels:
        """The edges at `indices`, in that order, or where a mask is true."""
        index = np.asarray(indices)
        return Levels(self.codes[index if index.size else []], self.n_levels)


def _bytes(codes: NDArray, n_levels: tuple[int, ...]) -> NDArray[np.uint8]:
    if codes.ndim != 2 or codes.shape[1] != len(n_levels):
        raise ValueError(
            f"codes: expected shape (n_edges, {len(n_levels)}), one column for each of n_levels, "
            f"got {codes.shape}"
        )
    if codes.dtype.kind == "f" and not np.array_equal(codes, np.round(codes)):  # NaN too
        raise ValueError("codes: expected whole numbers, found fractions or NaN")
    if codes.dtype.kind not in "uibf":
        raise ValueError(f"codes: expected whole numbers, got dtype {codes.dtype}")
    for k, top in enumerate(n_levels):
        column = codes[:, k]
        if column.size and not 0 <= column.min() <= column.max() <= top:
            raise ValueError(
                f"codes: channel {k} must lie in 0..{top}, found {column.min()} to {column.max()}"
            )
    return np.ascontiguousarray(codes, dtype=np.uint8)


def _combined(
    codes: NDArray[np.uint8], n_levels: tuple[int, ...]
) -> tuple[NDArray[np.uint8], Ints, Floats]:
    """Each edge's cell in the table of each group of channels, where these tables start when
    stacked, and what each cell adds to the feature vector.

    Groups are channels in succession, as many as make no more than 256 combinations. The
    constant is added by the first group.
    """
    places, cells = [], []
    for channels in _groups(n_levels):
        sizes = [n_levels[k] + 1 for k in channels]
        places.append(np.ravel_multi_index(tuple(codes[:, channels].T), sizes))
        combinations = np.indices(sizes).reshape(len(sizes), -1)
        block = np.zeros((combinations.shape[1], 1 + sum(n_levels)))
        block[:, 0] = channels[0] == 0
        for k, code in zip(channels, combinations, strict=True):
            first = 1 + sum(n_levels[:k])
            block[:, first : first + n_levels[k]] = code[:, None] > np.arange(n_levels[k])
        cells.append(block)
    start = np.cumsum([0] + [block.shape[0] for block in cells[:-1]])
    return np.stack(places, axis=1).astype(np.uint8), start, np.concatenate(cells)


def _groups(n_levels: tuple[int, ...]) -> list[list[int]]:
    groups: list[list[int]] = []
    size = MAX_LEVELS + 1
    for k, n in enumerate(n_levels):
        size *= n + 1
        if size > MAX_LEVELS + 1:
            groups.append([])
            size = n + 1
        groups[-1].append(k)
    return groups


def _rows(name: str, array: ArrayLike, n: int) -> Floats:
    found = np.ascontiguousarray(array, dtype=np.float64)
    if found.ndim not in (1, 2) or found.shape[0] != n:
        raise ValueError(f"{name}: expected shape ({n},) or ({n}, k), got {found.shape}")
    return found
