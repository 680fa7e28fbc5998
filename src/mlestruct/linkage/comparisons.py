"""Comparisons: the columns of two records as features of the pair.

A column has a kind, and each kind a few features; "" is missing.

    text      Jaro-Winkler similarity, common words, common letters weighted by rarity, equality,
              equality weighted by rarity
    number    closeness on the scale of the column, equality
    date      closeness, equality, same year, day and month swapped
    category  equality, equality weighted by rarity

Text is equal if it differs only in case, accents, punctuation, leading zeros or order of words.
Dates may have a format of their own in each table, and numbers a decimal sign; cells that are not
dates or numbers are missing.
A comparison in which a side is missing has the features 0 and one more, "missing", that is 1.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._lazy import pandas_module
from .dates import (
    ENOUGH,
    FORMATS,
    ISO,
    choose_formats,
    count_readable,
    read_days,
    rewritten,
    values_of,
    warn_of_unreadable,
)
from .numbers import read_numbers
from .records import column_kinds, column_names, require_text
from .text import Text, normal

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KINDS = ("text", "number", "date", "category")
NAME = re.compile(r"[^\W\d]+(?:\W+[^\W\d]+){0,2}\W*")
CLOSE = (0.9, 0.75, 0.6, 0.45, 0.3, 0.2, 0.1)  # levels of agreement of text


@dataclass(frozen=True)
class Comparison:
    """How one column is compared.

    Parameters
    ----------
    column : name in both tables
    kind : "text", "number", "date" or "category"
    format : of dates, as in strptime
    scale : of numbers, the distance at which closeness is 1/e; default: that of the tables
    right_format : of dates in the right table, if it is another one
    """

    column: str
    kind: str
    format: str | None = None
    scale: float | None = None
    right_format: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind of column {self.column!r}: expected {KINDS}, got {self.kind!r}")

    def __str__(self) -> str:
        """The column and its kind, in words."""
        formats = dict.fromkeys(self.formats) if self.kind == "date" else ()
        named = " and ".join(FORMATS.get(pattern, pattern) for pattern in formats)
        return f"{self.column} ({' '.join(filter(None, (self.kind, named)))})"

    @property
    def formats(self) -> tuple[str, str]:
        """The formats of dates in the left and in the right table."""
        left = self.format or ISO
        return left, self.right_format or left

    def to_list(self) -> list[Any]:
        """Arguments that make the same comparison, for files."""
        return [self.column, self.kind, self.format, self.scale, self.right_format]

    @property
    def feature_names(self) -> list[str]:
        """Names of the features of a pair."""
        return [f"{self.column}: {name}" for name in (*NAMES[self.kind], "missing")]

    def levels(self, features: Floats) -> Ints:
        """How closely pairs with these features agree: 0 is missing, 1 not, the largest equal."""
        first = features[:, 0]
        conditions = [features[:, -1] > 0]  # missing on a side
        if self.kind == "text":
            close = np.maximum(features[:, 2], 4.0 * first - 3.0)  # of long text, or of a name
            conditions += [features[:, 3] > 0, *(close >= level for level in CLOSE)]
        elif self.kind == "number":
            conditions += [features[:, 1] > 0, first >= 0.9, first >= 0.5]
        elif self.kind == "date":
            conditions += [features[:, 1] > 0, features[:, 3] > 0, first >= 0.9, features[:, 2] > 0]
        else:
            conditions.append(first > 0)
        return np.select(conditions, [0, *range(len(conditions), 1, -1)], 1)

    def for_tables(self, left: Any, right: Any) -> Comparison:
        """The same comparison, of dates with the formats that they have in two tables."""
        if self.kind != "date":
            return self
        sides = [values_of(table, self.column) for table in (left, right)]
        return self._with_formats(sides, choose_formats(self.column, sides, self.formats))

    def _with_formats(self, sides: Sequence[NDArray[Any]], formats: tuple[str, str]) -> Comparison:
        warn_of_unreadable(self.column, sides, formats)
        other = None if formats[0] == formats[1] else formats[1]
        return replace(self, format=formats[0], right_format=other)

    def features(self, left: Any, right: Any, rows: Ints, cols: Ints, equal: Any = False) -> Floats:
        """Features of pairs of rows of two columns of text, shape (n_pairs, n_features).

        equal : pairs that count as equal, such as `SwappedNames`
        """
        return self.on(left, right).features(rows, cols, equal)

    def on(self, left: Any, right: Any) -> ComparedColumn:
        """The comparison made ready for two columns of text, for several sets of pairs."""
        read = str.strip if self.kind in ("date", "number") else normal
        codes, values = distinct(read, [left, right])
        sides = codes[: len(left)], codes[len(left) :]
        missing, compare = PREPARE[self.kind](self, values, sides)
        return ComparedColumn(self.kind, codes, values, len(left), missing, compare)


@dataclass(frozen=True)
class ComparedColumn:
    """A column of two tables, ready to be compared.

    codes : the place of each cell among the distinct `values`, cells of the left table first
    n_left : number of cells of the left table
    missing : which values are missing, in either table
    compare : features of pairs of values
    """

    kind: str
    codes: Ints
    values: NDArray[Any]
    n_left: int
    missing: Sequence[NDArray[np.bool_]]
    compare: Callable[[Ints, Ints], list[Floats]]

    def features(self, rows: Ints, cols: Ints, equal: Any = False) -> Floats:
        """Features of pairs of rows, shape (n_pairs, n_features); of some as if they were equal."""
        a, b = self.codes[rows], self.codes[self.n_left + cols]
        b = np.where(equal, a, b)
        missing = self.missing[0][a] | self.missing[1][b]
        parts = self.compare(a, b)
        return np.column_stack([*(np.where(missing, 0.0, part) for part in parts), missing])


def distinct(read: Callable[[str], str], columns: Sequence[Any]) -> tuple[Ints, NDArray[Any]]:
    """The place of each cell of some columns among the distinct values; and these, once read."""
    factorize = pandas_module().factorize
    codes, cells = factorize(np.concatenate([one.to_numpy(dtype=object) for one in columns]))
    again, values = factorize(np.array([*map(read, cells)], dtype=object))
    return again[codes], values


def guess_comparisons(
    left: Any, right: Any, columns: Sequence[str], kinds: Mapping[str, str] | None = None
) -> list[Comparison]:
    """The kind of each column from its values: a date, number or category if nearly all are.

    `kinds` are given where the guess is wrong: {"phone": "text"}.
    """
    columns, given = column_names(columns, "columns"), column_kinds(kinds)
    require_text(left, columns, "left")
    require_text(right, columns, "right")
    if unknown := sorted(set(given) - set(columns)):
        raise ValueError(f"kinds: there is no column {unknown[0]!r} among {list(columns)}")
    found = []
    for column in columns:
        sides = [values_of(table, column) for table in (left, right)]
        kind = given.get(column)
        one = _guess(column, sides) if kind is None else _of_kind(column, kind, sides)
        if one.kind == "number":
            one = replace(one, scale=_scale(np.concatenate([*map(read_numbers, sides)])))
        found.append(one)
    return found


@dataclass(frozen=True)
class SwappedNames:
    """Columns of names: pairs that agree crosswise in two of them, such as Anna Smith, Smith Anna.

    columns : their names
    left, right : codes of their values, the same for all columns; -1 is missing
    """

    columns: list[str]
    left: Ints
    right: Ints

    @classmethod
    def of(cls, comparisons: Sequence[Comparison], left: Any, right: Any) -> SwappedNames:
        """The columns of names of two tables."""
        texts = [one.column for one in comparisons if one.kind == "text"]
        names = [name for name in texts if _are_names(left, name) and _are_names(right, name)]
        if len(names) < 2:
            return cls([], *np.zeros((2, 0, 0), dtype=np.int64))
        codes, values = distinct(normal, [table[name] for table in (left, right) for name in names])
        codes = np.where(values == "", -1, np.arange(len(values)))[codes]
        cut, shape = len(names) * len(left), (len(names), -1)
        return cls(names, codes[:cut].reshape(shape), codes[cut:].reshape(shape))

    def among(self, rows: Ints, cols: Ints) -> dict[str, NDArray[np.bool_]]:
        """Which pairs of rows are swapped, by column."""
        one, other = self.left, self.right
        found: dict[str, NDArray[np.bool_]] = {}
        for j, k in combinations(range(len(self.columns)), 2):
            differ = (one[j] >= 0) & (one[k] >= 0) & (one[j] != one[k])
            crossed = (one[j][rows] == other[k][cols]) & (one[k][rows] == other[j][cols])
            crossed &= differ[rows]
            for name in (self.columns[j], self.columns[k]):
                found[name] = crossed | found.get(name, False)
        return found


def _are_names(table: Any, column: str) -> bool:
    """Whether nearly all cells are a few words without digits."""
    values = values_of(table, column)
    return sum(NAME.fullmatch(value) is not None for value in values) >= ENOUGH * values.size


def same_dates(comparisons: Sequence[Comparison], right: Any) -> Any:
    """The right table with its dates in the format of the left one."""
    for one in comparisons:
        if one.right_format is not None:
            column = rewritten(right[one.column], one.right_format, one.formats[0])
            right = right.assign(**{one.column: column})
    return right


def _of_kind(column: str, kind: str, sides: Sequence[NDArray[Any]]) -> Comparison:
    """A comparison of a given kind, which some value must have; dates in the formats of most."""
    values = np.concatenate(sides)
    readable, chosen = 1, Comparison(column, kind)
    if kind == "date":
        readable = sum(max(count_readable(side).values()) for side in sides)
    elif kind == "number":
        readable = int(np.isfinite(read_numbers(values)).sum())
    if values.size and not readable:
        raise ValueError(f"kinds: no value of column {column!r} is a {kind}: {values[0]!r}, ...")
    return chosen if kind != "date" else chosen._with_formats(sides, choose_formats(column, sides))


def _guess(column: str, sides: Sequence[NDArray[Any]]) -> Comparison:
    values = np.concatenate(sides)
    enough = ENOUGH * values.size
    readable = [max(count_readable(side).values()) for side in sides]
    if values.size and sum(readable) >= enough:
        found = Comparison(column, "date")
        return found._with_formats(sides, choose_formats(column, sides))
    guessed = _guess_other(column, values)
    if any(side.size and n >= ENOUGH * side.size for n, side in zip(readable, sides, strict=True)):
        k = int(np.argmin([n / max(side.size, 1) for n, side in zip(readable, sides, strict=True)]))
        pattern = max(counts := count_readable(sides[k]), key=lambda name: counts[name])
        bad = sides[k][np.isnan(read_days(sides[k], pattern))]
        warnings.warn(
            f"column {column!r} has dates in one table; in the {('left', 'right')[k]} one "
            f"{100 * bad.size / sides[k].size:.1f} % of the cells cannot be read as dates of one "
            f"format, such as {bad[0]!r}: it is compared as {guessed.kind}",
            stacklevel=2,
        )
    return guessed


def _guess_other(column: str, values: NDArray[Any]) -> Comparison:
    """A category, a number or text."""
    enough = ENOUGH * values.size
    if values.size and len(set(values)) <= min(30, values.size / 4):  # few, and often the same
        return Comparison(column, "category")
    plain = [value.replace(" ", "") for value in values]
    codes = sum(value.isdigit() and (value[0] == "0" or len(value) > 6) for value in plain)
    is_number = values.size and np.isfinite(read_numbers(values)).sum() >= enough
    if is_number and codes < 0.05 * values.size:  # telephone numbers are no quantities
        return Comparison(column, "number")
    return Comparison(column, "text")


# ---------------------------------------------------------------------- kinds
def _text(comparison: Comparison, values: Any, sides: Any) -> Any:
    return [values == ""] * 2, Text.of(values, _counts(values, sides)).compare


def _category(comparison: Comparison, values: Any, sides: Any) -> Any:
    counts = _counts(values, sides)
    rarity = np.log(counts.sum() / counts)

    def compare(a: Ints, b: Ints) -> list[Floats]:
        return [(a == b) * 1.0, (a == b) * rarity[a]]

    return [values == ""] * 2, compare


def _counts(values: Any, sides: Any) -> Ints:
    return np.bincount(np.concatenate(sides), minlength=len(values))


def _number(comparison: Comparison, values: Any, sides: Any) -> Any:
    read = [np.full(len(values), np.nan) for _ in sides]
    for numbers, codes in zip(read, sides, strict=True):  # each table may have its decimal sign
        own = np.unique(codes)
        numbers[own] = read_numbers(values[own])
    one, other = read
    scale = comparison.scale or _scale(np.concatenate([one[sides[0]], other[sides[1]]]))

    def compare(a: Ints, b: Ints) -> list[Floats]:
        apart = np.abs(one[a] - other[b]) / scale
        return [np.exp(-apart), (apart == 0) * 1.0]

    return [np.isnan(numbers) for numbers in read], compare


def _scale(numbers: Floats) -> float:
    """The median distance of numbers from their median; 1 if it is 0."""
    known = numbers[np.isfinite(numbers)]
    return float(np.median(np.abs(known - np.median(known))) if known.size else 0.0) or 1.0


def _date(comparison: Comparison, values: Any, sides: Any) -> Any:
    one, other = (read_days(values, pattern) for pattern in comparison.formats)
    (year, month, day), (years, months, days) = _calendar(one), _calendar(other)

    def compare(a: Ints, b: Ints) -> list[Floats]:
        apart = np.abs(one[a] - other[b]) / 365.0
        same_year = (year[a] == years[b]) & np.isfinite(apart)
        swapped = same_year & (month[a] == days[b]) & (day[a] == months[b]) & (month != day)[a]
        return [np.exp(-apart), (apart == 0) * 1.0, same_year * 1.0, swapped * 1.0]

    return [np.isnan(one), np.isnan(other)], compare


def _calendar(days: Floats) -> tuple[Ints, Ints, Ints]:
    """Year, month and day of days since 1970; of days that are NaN any."""
    date = np.nan_to_num(days).astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    year = date.astype("datetime64[Y]").astype(np.int64)
    return year, month.astype(np.int64) % 12 + 1, (date - month).astype(np.int64) + 1


PREPARE: dict[str, Callable[..., Any]] = {
    "text": _text,
    "number": _number,
    "date": _date,
    "category": _category,
}
NAMES = {
    "text": ("similarity", "common words", "common letters", "equal", "equal and rare"),
    "number": ("close", "equal"),
    "date": ("close", "equal", "same year", "day and month swapped"),
    "category": ("equal", "equal and rare"),
}
