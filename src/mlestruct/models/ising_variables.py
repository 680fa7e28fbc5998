"""The variables of an Ising model: neurons, their earlier states, and stimuli, frame by frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._arrays import check_unmasked
from ..labels import UNKNOWN

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Variables:
    """Neurons of the current frame, then of `time_span` - 1 earlier ones, then stimuli."""

    n_neurons: int
    n_stimuli: int
    time_span: int

    def __len__(self) -> int:
        return self.n_neurons * self.time_span + self.n_stimuli

    @property
    def lag(self) -> Ints:
        """Frames back, of every variable; 0 for stimuli."""
        lags = np.repeat(np.arange(self.time_span), self.n_neurons)
        return np.concatenate([lags, np.zeros(self.n_stimuli, dtype=np.int64)])

    @property
    def is_stimulus(self) -> Bools:
        return np.arange(len(self)) >= self.n_neurons * self.time_span

    @property
    def names(self) -> list[str]:
        neurons = [
            f"neuron{i}" if lag == 0 else f"neuron{i}(-{lag})"
            for lag in range(self.time_span)
            for i in range(self.n_neurons)
        ]
        return neurons + [f"stimulus{s}" for s in range(self.n_stimuli)]

    @property
    def allowed(self) -> Bools:
        """Pairs that may be coupled: at least one of the two belongs to the current frame."""
        current = self.lag == 0
        return (current[:, None] | current[None, :]) & ~np.eye(len(self), dtype=bool)

    def table(self, frames: Ints, stimuli: Ints | None) -> Ints:
        """States of all variables, shape (n_frames - time_span + 1, n_variables).

        Stimuli that are not given are unknown, -1.
        """
        first = self.time_span - 1
        n = frames.shape[0] - first
        if n < 1:
            raise ValueError(
                f"Y: {frames.shape[0]} frames are too few for time_span={self.time_span}"
            )
        parts = [frames[first - lag : first - lag + n] for lag in range(self.time_span)]
        if self.n_stimuli:
            unknown = np.full((n, self.n_stimuli), UNKNOWN, dtype=np.int64)
            parts.append(unknown if stimuli is None else stimuli[first:])
        return np.concatenate(parts, axis=1)


def read_binary(table: Any, name: str, n_columns: int | None = None) -> Ints:
    """A matrix of 0 and 1, dense or sparse, as integers."""
    if issparse(table):
        table = table.toarray()
    check_unmasked(table, name)
    array = np.asarray(table)
    if array.ndim == 1 and name == "stimuli":
        array = array[:, None]
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name}: expected a matrix of frames x variables, got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected 0 and 1, got dtype {array.dtype}")
    wrong = ~np.isin(array, (0, 1))
    if wrong.any():
        t, i = np.argwhere(wrong)[0]
        raise ValueError(
            f"{name}[{t}, {i}] is {array[t, i].item()!r}, expected 0 or 1; for counts or "
            f"fluorescence pass a threshold, such as {name} > 0"
        )
    if n_columns is not None and array.shape[1] != n_columns:
        raise ValueError(f"{name}: expected {n_columns} columns, got {array.shape[1]}")
    return array.astype(np.int64)


def read_frames(Y: Any, stimuli: Any, variables: Variables | None = None) -> tuple[Ints, Any]:
    """Neurons and stimuli of all frames; stimuli may be None."""
    frames = read_binary(Y, "Y", None if variables is None else variables.n_neurons)
    if stimuli is None:
        return frames, None
    shown = read_binary(stimuli, "stimuli", None if variables is None else variables.n_stimuli)
    if shown.shape[0] != frames.shape[0]:
        raise ValueError(f"stimuli has {shown.shape[0]} frames, but Y has {frames.shape[0]}")
    return frames, shown


def distinct(table: Ints, weights: Floats) -> tuple[Ints, Floats]:
    """Different rows and their total weights: most frames of sparse activity are equal."""
    packed = np.packbits(table.astype(bool), axis=1)
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return table[first], np.bincount(group.ravel(), weights, first.size).astype(np.float64)
