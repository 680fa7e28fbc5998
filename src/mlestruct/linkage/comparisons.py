"""Comparisons: the columns of two records as features of the pair.

A column has a kind, and each kind a few features; "" is missing.

    text      Jaro-Winkler similarity, common words, equality, equality weighted by rarity
    number    closeness on the scale of the column, equality
    date      closeness, equality, same year, day and month swapped
    category  equality, equality weighted by rarity

A comparison in which a side is missing has the features 0 and one more, "missing", that is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .records import column_kinds, column_names, require_text

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KINDS = ("text", "number", "date", "category")
DATE_FORMATS = ("%Y-%m-%d", "%Y%m%d", "%d/%m/%Y", "%d.%m.%Y", "%m/%d/%Y")


@dataclass(frozen=True)
class Comparison:
    """How one column is compared.

    Parameters
    ----------
    column : name in both tables
    kind : "text", "number", "date" or "category"
    format : of dates, as in strptime
    scale : of numbers, the distance at which closeness is 1/e; default: that of the tables
    """

    column: str
    kind: str
    format: str | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind of column {self.column!r}: expected {KINDS}, got {self.kind!r}")

    def to_list(self) -> list[Any]:
        """Arguments that make the same comparison, for files."""
        return [self.column, self.kind, self.format, *([] if self.scale is None else [self.scale])]

    @property
    def feature_names(self) -> list[str]:
        """Names of the features of a pair."""
        return [f"{self.column}: {name}" for name in (*NAMES[self.kind], "missing")]

    def features(self, left: Any, right: Any, rows: Ints, cols: Ints) -> Floats:
        """Features of pairs of rows of two columns of text, shape (n_pairs, n_features)."""
        sides = [column.str.strip().str.lower() for column in (left, right)]
        one, other = (side.to_numpy(dtype=object) for side in sides)
        missing = (one[rows] == "") | (other[cols] == "")
        with_rarity = _rarity(one, other)
        parts = COMPARE[self.kind](self, one, other, rows, cols, with_rarity)
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
        values = np.concatenate([left[column].to_numpy(), right[column].to_numpy()])
        values = np.array([value.strip() for value in values if value.strip()], dtype=object)
        kind = given.get(column)
        one = _guess(column, values) if kind is None else _of_kind(column, kind, values)
        found.append(replace(one, scale=_scale(values)) if one.kind == "number" else one)
    return found


def _of_kind(column: str, kind: str, values: NDArray[Any]) -> Comparison:
    """A comparison of a given kind, which some value must have; dates in the format of most."""
    if kind == "date":
        readable = [int(np.isfinite(_days(values, pattern)).sum()) for pattern in DATE_FORMATS]
        chosen = Comparison(column, kind, DATE_FORMATS[int(np.argmax(readable))])
    else:
        readable = [int(np.isfinite(read_numbers(values)).sum())] if kind == "number" else [1]
        chosen = Comparison(column, kind)
    if values.size and not max(readable):
        raise ValueError(f"kinds: no value of column {column!r} is a {kind}: {values[0]!r}, ...")
    return chosen


def _guess(column: str, values: NDArray[Any]) -> Comparison:
    enough = 0.95 * values.size  # a few wrong entries do not change what a column is
    for pattern in DATE_FORMATS:
        if values.size and np.isfinite(_days(values, pattern)).sum() >= enough:
            return Comparison(column, "date", pattern)
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


def _text(
    comparison: Comparison, one: Any, other: Any, rows: Ints, cols: Ints, rarity: Any
) -> list[Floats]:
    fuzz, jaro_winkler, pairwise = _rapidfuzz()
    first, second = one[rows].tolist(), other[cols].tolist()
    similar = pairwise(first, second, scorer=jaro_winkler, dtype=np.float32)
    words = pairwise(first, second, scorer=fuzz.token_set_ratio, dtype=np.float32)
    equal = _equal(one, other, rows, cols)
    return [
        similar.astype(np.float64),
        words.astype(np.float64) / 100.0,
        equal,
        equal * rarity(one[rows]),
    ]


def _number(
    comparison: Comparison, one: Any, other: Any, rows: Ints, cols: Ints, rarity: Any
) -> list[Floats]:
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


def _date(
    comparison: Comparison, one: Any, other: Any, rows: Ints, cols: Ints, rarity: Any
) -> list[Floats]:
    pattern = comparison.format or DATE_FORMATS[0]
    first, second = _days(one, pattern), _days(other, pattern)
    apart = np.abs(first[rows] - second[cols]) / 365.0
    close = np.exp(-np.where(np.isfinite(apart), apart, np.inf))
    (year, month, day), (years, months, days) = _calendar(first), _calendar(second)
    same_year = (year[rows] == years[cols]) & np.isfinite(apart)
    swapped = same_year & (month[rows] == days[cols]) & (day[rows] == months[cols])
    swapped &= (month != day)[rows]
    equal = np.maximum(_equal(one, other, rows, cols), apart == 0)
    return [close, equal, same_year.astype(np.float64), swapped.astype(np.float64)]


def _category(
    comparison: Comparison, one: Any, other: Any, rows: Ints, cols: Ints, rarity: Any
) -> list[Floats]:
    equal = _equal(one, other, rows, cols)
    return [equal, equal * rarity(one[rows])]


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


def _days(values: NDArray[Any], pattern: str) -> Floats:
    """Days since 1970, NaN where a value is no date of this format."""
    import pandas

    dates = pandas.to_datetime(pandas.Series(values, dtype=object), format=pattern, errors="coerce")
    days = dates.to_numpy().astype("datetime64[D]")
    return np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64))


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
