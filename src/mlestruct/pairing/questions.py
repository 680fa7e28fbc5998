"""Questions: columns of answers as whole numbers, ordered, unordered or cut into classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..linkage.comparisons import read_numbers
from ..linkage.records import as_records, column_kinds, column_names

Floats = NDArray[np.float64]

KINDS = ("ordinal", "category", "number")
MOST_ANSWERS = 12  # different ones, as of months; more numbers are measurements, more words names


@dataclass(frozen=True)
class Question:
    """One column and its possible answers.

    Parameters
    ----------
    column : name in the table
    kind : "ordinal" (ordered answers), "category" (unordered ones) or "number" (a measurement)
    answers : the possible ones, in their order; of a number the limits between its classes
    """

    column: str
    kind: str
    answers: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """What the levels 0, 1, ... mean."""
        if self.kind != "number":
            return list(self.answers)
        limits = self.answers
        between = [f"{a} to {b}" for a, b in pairwise(limits)]
        return [f"below {limits[0]}", *between, f"{limits[-1]} and more"]

    def encode(self, values: Sequence[str]) -> Floats:
        """Levels from 0; NaN where there is no answer, or none that was known before."""
        if self.kind == "number":
            numbers = read_numbers(values)
            place = np.searchsorted([float(limit) for limit in self.answers], numbers, "right")
            return np.where(np.isnan(numbers), np.nan, place)
        places = {_canonical(answer): k for k, answer in enumerate(self.answers)}
        return np.array([places.get(_canonical(cell), np.nan) for cell in values], dtype=np.float64)


def guess_questions(
    table: Any, columns: Sequence[str] | None = None, kinds: Mapping[str, str] | None = None
) -> list[Question]:
    """Questions of a table, by what its answers look like.

    Numbers of few different values are ordered answers, others are cut into five classes; a few
    different words are categories. A column of many different words (names, remarks) is no
    question and is left out, unless it is named in `columns`.

    Parameters
    ----------
    columns : those to use; default: all
    kinds : where the guess is wrong: {"rooms": "category", "noise": "ordinal:low;medium;high"}
    """
    table, given = as_records(table, "table"), column_kinds(kinds)
    chosen = list(table.columns) if columns is None else column_names(columns, "columns")
    for name in (*chosen, *given):
        if name not in table.columns:
            raise ValueError(f"there is no column {name!r} among {list(table.columns)}")
    found = []
    for name in chosen:
        spelled = {_canonical(cell): cell for cell in sorted(set(table[name]) - {""}, reverse=True)}
        values = sorted(spelled.values())
        question = _question(name, values, table[name], given.get(name))
        if question is not None and len(question.answers) > (question.kind != "number"):
            found.append(question)
        elif columns is not None or name in given:
            raise ValueError(
                f"column {name!r} has {len(values)} different answers, from which no kind follows: "
                "name it, or leave the column out"
            )
    if not found:
        raise ValueError(f"no column is a question with at least two answers among {chosen}")
    return found


def _question(name: str, values: list[str], cells: Any, kind: str | None) -> Question | None:
    """The question of a column with these different values, of a kind if it is given."""
    kind, _, listed = (kind or "").partition(":")
    if kind and kind not in KINDS:
        raise ValueError(f"kind of column {name!r}: expected one of {KINDS}, got {kind!r}")
    if listed:
        order = tuple(part.strip() for part in listed.split(";"))
        if stray := [value for value in values if _canonical(value) not in map(_canonical, order)]:
            raise ValueError(f"kind of column {name!r}: answer {stray[0]!r} is not in its list")
        return Question(name, kind, order)
    numbers = read_numbers(values)
    are_numbers = bool(values) and bool(np.isfinite(numbers).all())
    if not kind:
        if are_numbers:
            kind = "ordinal" if np.unique(numbers).size <= MOST_ANSWERS else "number"
        elif len(values) <= MOST_ANSWERS:
            kind = "category"
        else:
            return None
    if kind != "category" and not are_numbers:
        raise ValueError(
            f"kind of column {name!r}: the order of {values[:3]} is not known; list it, "
            f"{kind}:low;medium;high"
        )
    if kind == "number":
        known = read_numbers(cells)
        parts = np.quantile(known[np.isfinite(known)], (0.2, 0.4, 0.6, 0.8))
        limits = np.unique(parts[parts > np.nanmin(known)])
        return Question(name, kind, tuple(map(_shortest, limits)))
    if are_numbers:
        values = [_shortest(number) for number in np.unique(numbers)]
    return Question(name, kind, tuple(values))


def _canonical(text: str) -> str:
    """The same for "1", "1.0" and "01"; words in lower case."""
    number = read_numbers([text])[0]
    return text.strip().lower() if np.isnan(number) else _shortest(number)


def _shortest(number: float) -> str:
    """The text of a number, of at most 15 digits, which tell any two apart."""
    return f"{number:.15g}"
