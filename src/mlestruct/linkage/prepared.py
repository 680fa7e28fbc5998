"""Two tables made ready for linkage: distinct values, candidate pairs, features of pairs.

All that follows from the tables is computed once, when it is first needed. Pairs are compared in
slices, on threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._running import check_time, threaded_map
from .blocking import CommonTokens, agreeing
from .comparisons import ComparedColumn, Comparison, SwappedNames, same_dates
from .progress import begin, stepped
from .records import column_names, require_columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLICE = 100_000  # pairs that are compared at a time
MANY = 20_000  # cells of a table from which kinds and formats of columns are guessed


@dataclass(frozen=True)
class PreparedTables:
    """Two tables of text, and how their columns are compared.

    left, right : tables as `as_records` makes them
    comparisons : with the formats that dates have in these tables
    rules : columns in which candidates agree; without rules candidates have common tokens
    neighbours, n_jobs : as in `RecordLinker`
    """

    left: Any
    right: Any
    comparisons: list[Comparison]
    rules: list[list[str]]
    neighbours: int
    n_jobs: int

    @cached_property
    def columns(self) -> list[ComparedColumn]:
        """The compared columns, dates of both tables in one format."""
        right = same_dates(self.comparisons, self.right)
        begin("reading columns", len(self.comparisons))
        plain = [replace(one, right_format=None) for one in self.comparisons]
        return [one.on(self.left[one.column], right[one.column]) for one in stepped(plain)]

    @cached_property
    def swapped(self) -> SwappedNames:
        """Columns of names in which some pairs agree crosswise."""
        return SwappedNames.of(self.comparisons, self.left, self.right)

    @cached_property
    def tokens(self) -> CommonTokens:
        """The tokens of all records."""
        columns = [(one.codes, one.values, one.kind) for one in self.columns]
        return CommonTokens.of(columns, len(self.left))

    @cached_property
    def candidates(self) -> tuple[Ints, Ints]:
        """The candidate pairs, sorted by the left record."""
        if not len(self.left) or not len(self.right):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        if not self.rules:
            return self.tokens.candidates(self.neighbours, self.n_jobs)
        begin("finding candidates")
        return agreeing(self.left, same_dates(self.comparisons, self.right), self.rules)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features of a pair."""
        return feature_names(self.comparisons)

    def features(self, rows: Ints, cols: Ints) -> Floats:
        """Comparisons of all columns, and a constant: the log-odds of a link as such."""
        out = np.ones((rows.size, len(self.feature_names)))
        at = 0
        swapped = self.swapped.among(rows, cols)
        for comparison, column in zip(self.comparisons, self.columns, strict=True):
            part = column.features(rows, cols, swapped.get(comparison.column, False))
            out[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        return out

    def in_slices(self, answer: Callable[[Floats], Any], rows: Ints, cols: Ints) -> list[Any]:
        """What `answer` makes of the features of some pairs, slice by slice."""
        starts = range(0, rows.size, SLICE)
        self.columns, self.swapped  # noqa: B018  # before there are threads
        begin("comparing pairs", len(starts))

        def one(start: int) -> Any:
            check_time("comparing pairs")
            part = slice(start, start + SLICE)
            return answer(self.features(rows[part], cols[part]))

        with threaded_map(self.n_jobs, len(starts)) as each:
            return list(stepped(each(one, starts)))

    def scores(self, coef: Floats, rows: Ints, cols: Ints) -> Floats:
        """The score of each of some pairs."""
        found = self.in_slices(lambda features: features @ coef, rows, cols)
        return np.concatenate([np.zeros(0), *found])


def feature_names(comparisons: Sequence[Comparison]) -> list[str]:
    """Names of the features of a pair."""
    return [name for one in comparisons for name in one.feature_names] + ["link"]


def some(table: Any) -> Any:
    """A table, or evenly spaced rows of a large one."""
    return table.iloc[:: -(-len(table) // MANY) or 1]


def shared_columns(left: Any, right: Any, columns: Sequence[str] | None) -> list[str]:
    """The compared columns; both tables must have them."""
    if columns is None:
        columns = [name for name in left.columns if name in right.columns]
        if not columns:
            raise ValueError(
                f"the tables have no column in common: {list(left.columns)} and "
                f"{list(right.columns)}"
            )
    elif not column_names(columns, "columns"):
        raise ValueError("columns: expected at least one, got none")
    require_columns(left, columns, "left")
    require_columns(right, columns, "right")
    return list(dict.fromkeys(columns))


def compared_columns(left: Any, right: Any, columns: Sequence[str] | None) -> list[str]:
    """`shared_columns` without those that are empty in both tables, which a warning names."""
    shared = shared_columns(left, right, columns)
    filled = [one for one in shared if (left[one] != "").any() or (right[one] != "").any()]
    empty = [str(one) for one in shared if one not in filled]
    if not filled:
        raise ValueError(f"columns: all are empty in both tables: {', '.join(empty)}")
    if empty:
        warnings.warn(f"not compared, empty in both tables: {', '.join(empty)}", stacklevel=3)
    return filled
