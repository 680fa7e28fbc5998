"""Comparisons: the columns of two records as features of the pair.

A column has a kind, and each kind a few features; "" is missing.

    text      Jaro-Winkler similarity, common words, equality, equality weighted by rarity
    number    closeness on the scale of the column, equality
    date      closeness, equality, same year, day and month swapped
    category  equality, equality weighted by rarity

Dates may have a format of their own in each table; cells that are no dates are missing.
A comparison in which a side is missing has the features 0 and one more, "missing", that is 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from .records import column_kinds, column_names, require_text

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KINDS = ("text", "number", "date", "category")


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
            conditions += [features[:, 2] > 0, first >= 0.95]
            conditions += [(first >= 0.88) | (features[:, 1] >= 0.95), first >= 0.7]
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

    def features(self, left: Any, right: Any, rows: Ints, cols: Ints) -> Floats:
        """Features of pairs of rows of two columns of text, shape (n_pairs, n_features)."""
        sides = [column.str.strip().str.lower() for column in (left, right)]
        one, other = (side.to_numpy(dtype=object) for side in sides)
        if self.kind == "date":
            one, other = map(read_days, (one, other), self.formats)
            missing = np.isnan(one[rows]) | np.isnan(other[cols])
        else:
            missing = (one[rows] == "") | (other[cols] == "")
        parts = COMPARE[self.kind](self, one, other, rows, cols)
        return np.column_stack([*(np.where(missing, 0.0, part) for part in parts), missing])


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
        values = np.concatenate(sides)
        kind = given.get(column)
        one = _guess(column, sides) if kind is None else _of_kind(column, kind, sides)
        found.append(replace(one, scale=_scale(values)) if one.kind == "number" else one)
    return found


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
    codes = sum(value.isdigit() and (value[0] == "0" or len(value) > 6) for value in values)
    is_number = values.size and np.isfinite(read_numbers(values)).sum() >= enough
    if is_number and codes < 0.05 * values.size:  # telephone numbers are no quantities
        return Comparison(column, "number")
    return Comparison(column, "text")


# ---------------------------------------------------------------------- kinds
def _rarity(one: NDArray[Any], other: NDArray[Any]) -> Callable[[NDArray[Any]], Floats]:
    """log(1 / frequency) of values among all records of both tables."""
    values, counts = np.unique(np.concatenate([one, other]).astype(str), return_counts=True)
    total = float(counts.sum())

    def of(wanted: NDArray[Any]) -> Floats:
        place = np.searchsorted(values, wanted.astype(str))
        return np.log(total / counts[place])

    return of


def _equal(one: NDArray[Any], other: NDArray[Any], rows: Ints, cols: Ints) -> Floats:
    return (one[rows] == other[cols]).astype(np.float64)


def _text(comparison: Comparison, one: Any, other: Any, rows: Ints, cols: Ints) -> list[Floats]:
    fuzz, jaro_winkler, pairwise = _rapidfuzz()
    first, second = one[rows].tolist(), other[cols].tolist()
    similar = pairwise(first, second, scorer=jaro_winkler, dtype=np.float32)
    words = pairwise(first, second, scorer=fuzz.token_set_ratio, dtype=np.float32)
    equal = _equal(one, other, rows, cols)
    return [
        similar.astype(np.float64),
        words.astype(np.float64) / 100.0,
        equal,
        equal * _rarity(one, other)(one[rows]),
    ]


def _number(comparison: Comparison, one: Any, other: Any, rows: Ints, cols: Ints) -> list[Floats]:
    first, second = read_numbers(one), read_numbers(other)
    scale = comparison.scale or _scale(np.concatenate([one, other]))
    apart = np.abs(first[rows] - second[cols]) / scale
    close = np.exp(-np.where(np.isfinite(apart), apart, np.inf))
    return [close, np.maximum(_equal(one, other, rows, cols), apart == 0)]


def _scale(values: NDArray[Any]) -> float:
    """The median distance of numbers from their median; 1 where it is 0."""
    numbers = read_numbers(values)
    known = numbers[np.isfinite(numbers)]
    return float(np.median(np.abs(known - np.median(known))) if known.size else 0.0) or 1.0


def _date(comparison: Comparison, one: Any, other: Any, rows: Ints, cols: Ints) -> list[Floats]:
    apart = np.abs(one[rows] - other[cols]) / 365.0
    close = np.exp(-np.where(np.isfinite(apart), apart, np.inf))
    (year, month, day), (years, months, days) = _calendar(one), _calendar(other)
    same_year = (year[rows] == years[cols]) & np.isfinite(apart)
    swapped = same_year & (month[rows] == days[cols]) & (day[rows] == months[cols])
    swapped &= (month != day)[rows]
    equal = (apart == 0).astype(np.float64)
    return [close, equal, same_year.astype(np.float64), swapped.astype(np.float64)]


def _category(comparison: Comparison, one: Any, other: Any, rows: Ints, cols: Ints) -> list[Floats]:
    equal = _equal(one, other, rows, cols)
    return [equal, equal * _rarity(one, other)(one[rows])]


COMPARE: dict[str, Callable[..., list[Floats]]] = {
    "text": _text,
    "number": _number,
    "date": _date,
    "category": _category,
}
NAMES = {
    "text": ("similarity", "common words", "equal", "equal and rare"),
    "number": ("close", "equal"),
    "date": ("close", "equal", "same year", "day and month swapped"),
    "category": ("equal", "equal and rare"),
}


# ---------------------------------------------------------------------- reading values
def read_numbers(values: Sequence[str] | NDArray[Any]) -> Floats:
    """Numbers, NaN where a value is none."""
    out = np.full(len(values), np.nan)
    for k, value in enumerate(values):
        try:
            out[k] = float(value)
        except ValueError:
            continue
    return np.where(np.isfinite(out), out, np.nan)


def _calendar(days: Floats) -> tuple[Ints, Ints, Ints]:
    """Year, month and day of days since 1970; of those that are NaN any."""
    date = np.nan_to_num(days).astype("datetime64[D]")
    month = date.astype("datetime64[M]")
    year = date.astype("datetime64[Y]").astype(np.int64)
    return year, month.astype(np.int64) % 12 + 1, (date - month).astype(np.int64) + 1


def _rapidfuzz() -> tuple[Any, Any, Any]:
    try:
        from rapidfuzz import fuzz
        from rapidfuzz.distance import JaroWinkler
        from rapidfuzz.process import cpdist
    except ImportError as error:
        raise ImportError(
            "comparing text needs rapidfuzz: pip install 'mlestruct[link]'"
        ) from error
    return fuzz, JaroWinkler.similarity, cpdist
