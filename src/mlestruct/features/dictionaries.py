"""Tokens described by dictionaries or lists of strings, as python-crfsuite and its wrappers take.

{"word": "Main", "digit": False, "length": 4}   features word:Main with 1, length with 4
{"next": {"word": "St"}, "shape": ["Xx", "x"]}  next:word:St, shape:Xx, shape:x with 1
["word=Main", "capital"]                        each string with 1
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Collection = list | tuple | set | frozenset
NUMBERS = {bool, int, float, np.float64}  # that are read fast; all real numbers are taken


def describes_tokens(x: Any) -> bool:
    """Whether x is a list of dictionaries, or of collections of strings, one per token."""
    if not isinstance(x, Sequence) or not len(x) or isinstance(x, str):
        return False
    first = x[0]
    if isinstance(first, Collection):
        return any(isinstance(feature, str) for feature in first)
    return isinstance(first, Mapping)


class Vocabulary:
    """The names of features, each with its column, in the order in which they are found."""

    def __init__(self, names: Iterable[str] = ()):
        self.columns = {name: k for k, name in enumerate(names)}

    def read(
        self, X: Sequence[Any], learn: bool, keep_zeros: bool = False
    ) -> tuple[sparse.csr_array, NDArray[np.int64]]:
        """One row per token, and the first row of each sample, shape (n_samples + 1,).

        Unknown names are added if `learn`, else ignored. Features of value 0 are left out, or
        stored: crfsuite counts them as occurring with the label of their token.
        """
        rows, starts = _Rows(self.columns, learn, keep_zeros), [0]
        for m, tokens in enumerate(X):
            for t, token in enumerate(tokens):
                rows.add(token, (m, t))
            starts.append(len(rows.ends) - 1)
        return rows.table(), np.array(starts, dtype=np.int64)


class _Rows:
    """Rows of a sparse table, token by token."""

    def __init__(self, columns: dict[str, int], learn: bool, keep_zeros: bool):
        self._columns, self._learn, self._keep_zeros = columns, learn, keep_zeros
        self._of_text: dict[tuple[str, str], int] = {}  # columns of (name, string), -1 for nothing
        self._indices, self._values = array("i"), array("d")
        self.ends = array("i", [0])

    def add(self, token: Any, place: tuple[int, int]) -> None:
        """Append the row of the token at `place`: (sample, position)."""
        if not isinstance(token, Mapping):
            self._add_entries(zip(repeat(""), token), place)
        elif not (NUMBERS.issuperset(map(type, token.values())) and self._add_numbers(token)):
            self._add_entries(token.items(), place)
        self.ends.append(len(self._indices))

    def table(self) -> sparse.csr_array:
        """All rows; features that a token has repeatedly add up."""
        parts = tuple(np.asarray(part) for part in (self._values, self._indices, self.ends))
        table = sparse.csr_array(parts, shape=(len(self.ends) - 1, len(self._columns)))
        table.sum_duplicates()
        return table

    def _add_numbers(self, token: Mapping[str, float]) -> bool:
        """Append entries that are numbers by loops in C, unless some are unknown or left out."""
        found, values = list(map(self._columns.get, token)), list(token.values())
        if None in found or (0.0 in values and not self._keep_zeros):
            return False
        self._indices.extend(found)  # type: ignore[arg-type]
        self._values.extend(values)
        return True

    def _add_entries(self, entries: Iterable[tuple[str, Any]], place: tuple[int, int]) -> None:
        """Append entries of any kind, one by one."""
        of_text, keep_zeros = self._of_text, self._keep_zeros
        add_index, add_value = self._indices.append, self._values.append
        for entry in entries:
            kind = type(entry[1])
            if kind is str:
                column = of_text.get(entry)
                if column is None:
                    column = of_text[entry] = self._column(_joined(*entry))
                if column >= 0:
                    add_index(column)
                    add_value(1.0)
                continue
            for name, value in (entry,) if kind in NUMBERS else _flat(*entry, place):
                column = self._column(name) if value or keep_zeros else -1
                if column >= 0:
                    add_index(column)
                    add_value(value)

    def _column(self, name: str) -> int:
        """The column of a name, -1 if it is not known."""
        if self._learn:
            return self._columns.setdefault(name, len(self._columns))
        return self._columns.get(name, -1)


def _joined(name: str, text: str) -> str:
    """The feature of a string."""
    return f"{name}:{text}" if name else text


def _flat(name: str, value: Any, place: tuple[int, int]) -> Iterator[tuple[str, float]]:
    """Names and weights of one entry, nested ones joined by colons."""
    if isinstance(value, str):
        yield _joined(name, value), 1.0
    elif isinstance(value, Real | np.bool_):  # bool and NumPy's numbers among them
        yield name, float(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(_joined(name, key), part, place)
    elif isinstance(value, Collection) and all(isinstance(part, str) for part in value):
        for part in value:
            yield from _flat(name, part, place)
    else:
        raise ValueError(
            f"X[{place[0]}][{place[1]}]: feature {name!r} has the value {value!r}; expected a "
            "string, a number, a bool, a dictionary of these or a collection of strings"
        )
