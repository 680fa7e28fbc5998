"""Dates as text: the format in which each of two columns writes them, and their days."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FORMATS = {  # day first before month first: the choice where nothing tells them apart
    "%Y-%m-%d": "YYYY-MM-DD",
    "%Y%m%d": "YYYYMMDD",
    "%Y/%m/%d": "YYYY/MM/DD",
    "%Y-%m-%d %H:%M:%S": "YYYY-MM-DD hh:mm:ss",
    "%d.%m.%Y": "DD.MM.YYYY",
    "%d/%m/%Y": "DD/MM/YYYY",
    "%m/%d/%Y": "MM/DD/YYYY",
    "%d-%m-%Y": "DD-MM-YYYY",
    "%m-%d-%Y": "MM-DD-YYYY",
}
ISO = "%Y-%m-%d"
ENOUGH = 0.95  # of the cells: a few wrong entries do not change what a column is
SAMPLE = 10_000  # cells of a column, evenly spaced, that tell what it is
SIGNS = re.compile(r"\d[\d./: -]+")


def read_days(values: Sequence[str] | NDArray[Any], pattern: str) -> Floats:
    """Days since 1970, NaN where a value is no date of this format."""
    import pandas

    dates = pandas.to_datetime(pandas.Series(values, dtype=object), format=pattern, errors="coerce")
    days = dates.to_numpy().astype("datetime64[D]")
    return np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64))


def rewritten(column: Any, old: str, new: str) -> Any:
    """A column of text with its dates in another format; cells that are none stay as they are."""
    import pandas

    days = read_days(column.to_numpy(dtype=object), old)
    dates = pandas.DatetimeIndex(np.nan_to_num(days).astype("datetime64[D]")).strftime(new)
    return column.where(np.isnan(days), pandas.Series(dates, column.index).astype(object))


def values_of(table: Any, column: str) -> NDArray[Any]:
    """Cells of a column that are not empty, without spaces around them: at most `SAMPLE`."""
    cells = table[column].to_numpy(dtype=object)
    cells = cells[cells != ""]
    some = np.linspace(0, cells.size - 1, min(cells.size, SAMPLE)).astype(np.int64)
    return np.array([cell.strip() for cell in cells[some] if cell.strip()], dtype=object)


def choose_formats(
    column: str, sides: Sequence[NDArray[Any]], usual: Sequence[str | None] = (None, None)
) -> tuple[str, str]:
    """The format that reads most values, of each of two sides.

    Where day and month cannot be told apart, it is the usual format, or the one in which the two
    sides have dates in common; warns if these do not tell them apart either.
    """
    first, second = (_best(values, own) for values, own in zip(sides, usual, strict=True))
    tied = [first or second or [ISO], second or first or [ISO]]  # a side without dates: the other's
    if len(tied[0]) == len(tied[1]) == 1:
        return tied[0][0], tied[1][0]
    return _with_common_dates(column, sides, tied)


def _best(values: NDArray[Any], usual: str | None) -> list[str]:
    """The formats that read most values; the usual one alone if no other reads more."""
    counts = count_readable(values)
    most = max(counts.values())
    if usual is not None and counts.get(usual, 0) == most:
        return [usual]
    return [pattern for pattern in FORMATS if counts[pattern] == most > 0]


def count_readable(values: NDArray[Any]) -> dict[str, int]:
    """How many values each format reads."""
    likely = np.array([value for value in values if SIGNS.fullmatch(value)], dtype=object)
    if not likely.size:
        return dict.fromkeys(FORMATS, 0)
    return {pattern: int(np.isfinite(read_days(likely, pattern)).sum()) for pattern in FORMATS}


def _with_common_dates(
    column: str, sides: Sequence[NDArray[Any]], tied: Sequence[Sequence[str]]
) -> tuple[str, str]:
    days = [
        {pattern: set(read_days(values, pattern).tolist()) for pattern in own}
        for values, own in zip(sides, tied, strict=True)
    ]
    shared = {
        (one, other): len(days[0][one] & days[1][other]) for one in tied[0] for other in tied[1]
    }
    first, second = sorted(shared, key=lambda pair: -shared[pair])[:2]
    if shared[first] <= 2 * shared[second]:  # chance agrees with either as often
        k = int(len(tied[0]) == 1)
        warnings.warn(
            f"column {column!r} of the {('left', 'right')[k]} table: day and month cannot be told "
            f"apart in dates such as {sides[k][0]!r}; they are read as {FORMATS[first[k]]}; write "
            "dates as YYYY-MM-DD to leave no doubt",
            stacklevel=2,
        )
    return first


def warn_of_unreadable(column: str, sides: Sequence[NDArray[Any]], formats: Sequence[str]) -> None:
    """Warn where more than a few cells of a column are no dates of its format."""
    for side, values, pattern in zip(("left", "right"), sides, formats, strict=True):
        bad = np.isnan(read_days(values, pattern)) if values.size else np.zeros(0, dtype=bool)
        if bad.sum() > (1 - ENOUGH) * values.size:
            warnings.warn(
                f"column {column!r} of the {side} table: {100 * bad.mean():.1f} % of the cells are "
                f"no dates of the format {FORMATS.get(pattern, pattern)}, such as "
                f"{values[bad][0]!r}; they count as missing",
                stacklevel=2,
            )
