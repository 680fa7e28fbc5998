"""Matrices of yes/no answers: one row a sample, one column a label, two classes a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._arrays import check_unmasked
from .states import UNKNOWN

Ints = NDArray[np.int64]


class LabelSets:
    """The two classes of every column; the second one is "yes".

    Attributes
    ----------
    classes : list of ndarrays of shape (2,), one per label
    flat : bool, whether there is one label whose answers have the shape (n_samples,)
    """

    def __init__(self, classes: Sequence[Any], flat: bool = False):
        self.classes = [np.asarray(pair) for pair in classes]
        self.flat = flat

    def __len__(self) -> int:
        return len(self.classes)

    @classmethod
    def learn(cls, Y: Any) -> LabelSets:
        """The classes of observed answers: 0 and 1, or the two that occur in a column."""
        table = _table(Y, "Y")
        classes = [_two_classes(column, j) for j, column in enumerate(table.T)]
        return cls(classes, flat=not issparse(Y) and np.asarray(Y).ndim == 1)

    def encode(self, Y: Any, name: str = "Y", partly: bool = False) -> Ints:
        """Answers as 0 and 1, shape (n_samples, n_labels); with `partly`, -1 for an unknown one.

        Unknown are None, NaN and, unless it is a class, -1.
        """
        table = _table(Y, name)
        if table.shape[1] != len(self):
            raise ValueError(f"{name}: expected {len(self)} labels, got {table.shape[1]}")
        states = np.full(table.shape, UNKNOWN, dtype=np.int64)
        for j, pair in enumerate(self.classes):
            for state, label in enumerate(pair):
                states[table[:, j] == label, j] = state
        strange = states == UNKNOWN
        if partly:
            strange &= ~(_missing(table) | (table == UNKNOWN))
        if strange.any():
            m, j = np.argwhere(strange)[0]
            allowed = " or ".join(repr(label) for label in self.classes[j].tolist())
            found = table[m, j].item() if isinstance(table[m, j], np.generic) else table[m, j]
            raise ValueError(f"{name}[{m}, {j}] is {found!r}, expected {allowed}")
        return states

    def decode(self, states: Ints) -> NDArray[Any]:
        """Answers of the classes from 0 and 1, shape (..., n_labels), or (...) if flat."""
        kind = np.result_type(*self.classes)
        columns = [pair[states[..., j]] for j, pair in enumerate(self.classes)]
        return columns[0] if self.flat else np.stack(columns, axis=-1).astype(kind)

    def to_list(self) -> list[list[Any]]:
        """Plain types, for `LabelSets(...)` again."""
        return [pair.tolist() for pair in self.classes]


def _table(Y: Any, name: str) -> NDArray[Any]:
    if issparse(Y):
        Y = Y.toarray()
    check_unmasked(Y, name)
    try:
        table = np.asarray(Y)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name}: expected an array of labels: {error}") from None
    if table.dtype.kind == "c":
        raise ValueError(f"{name}: expected labels, got complex numbers")
    if table.ndim not in (1, 2) or table.shape[-1] == 0:
        raise ValueError(f"{name}: expected shape (n_samples, n_labels), got {table.shape}")
    return table[:, None] if table.ndim == 1 else table


def _missing(table: NDArray[Any]) -> NDArray[np.bool_]:
    if table.dtype.kind == "f":
        return np.isnan(table)
    if table.dtype.kind == "O":
        return np.array([[x is None or x != x for x in row] for row in table]).reshape(table.shape)
    return np.zeros(table.shape, dtype=bool)


def _two_classes(column: NDArray[Any], j: int) -> NDArray[Any]:
    if _missing(column[:, None]).any():
        raise ValueError(f"Y contains NaN: column {j} has an answer that is NaN or None")
    if column.dtype.kind == "f" and np.isinf(column).any():
        raise ValueError(f"Y contains infinity: column {j} has an answer that is inf")
    try:
        found = np.unique(column)
    except TypeError as error:
        raise ValueError(f"Y: column {j} has answers of different types: {error}") from None
    if column.dtype.kind in "biuf" and np.isin(found, (0, 1)).all():
        return np.array([0, 1], dtype=column.dtype if column.dtype.kind in "iu" else np.int64)
    if column.dtype.kind == "f" and (found != np.round(found)).any():
        raise ValueError(f"Unknown label type: column {j} of Y is continuous, expected two classes")
    if found.size != 2:
        raise ValueError(
            f"Only binary classification is supported. Column {j} of Y has {found.size} "
            f"class{'es' * (found.size != 1)}, expected 0 and 1 or two others; a label of several "
            "states can be several columns"
        )
    return found
