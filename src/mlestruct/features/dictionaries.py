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
        known: dict[tuple[str, Any], int] = {}  # columns of strings and bools, -1 for nothing
        indices, values = array("i"), array("d")
        ends, starts = array("i", [0]), [0]
        for m, tokens in enumerate(X):
            for t, token in enumerate(tokens):
                entries = token.items() if isinstance(token, Mapping) else zip(repeat(""), token)
                for entry in entries:
                    simple = type(entry[1]) is str or (type(entry[1]) is bool and not keep_zeros)
                    column = known.get(entry) if simple else None
                    if column is not None:
                        if column >= 0:
                            indices.append(column)
                            values.append(1.0)
                        continue
                    column = -1
                    for name, value in _flat(entry[0], entry[1], f"X[{m}][{t}]"):
                        stored = keep_zeros or value != 0.0
                        column = self._column(name, learn) if stored else -1
                        if column >= 0:
                            indices.append(column)
                            values.append(value)
                    if simple:
                        known[entry] = column
                ends.append(len(indices))
            starts.append(len(ends) - 1)
        shape = (len(ends) - 1, len(self.columns))
        parts = tuple(np.asarray(part) for part in (values, indices, ends))
        table = sparse.csr_array(parts, shape=shape)
        table.sum_duplicates()
        return table, np.array(starts, dtype=np.int64)

    def _column(self, name: str, learn: bool) -> int:
        """The column of a name, -1 if it is not known."""
        if learn:
            return self.columns.setdefault(name, len(self.columns))
        return self.columns.get(name, -1)


def _flat(name: str, value: Any, where: str) -> Iterator[tuple[str, float]]:
    """Names and weights of one entry, nested ones joined by colons."""
    if isinstance(value, str):
        yield f"{name}:{value}" if name else value, 1.0
    elif isinstance(value, Real):  # bool and NumPy's numbers among them
        yield name, float(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{name}:{key}" if name else key, part, where)
    elif isinstance(value, Collection) and all(isinstance(part, str) for part in value):
        for part in value:
            yield from _flat(name, part, where)
    else:
        raise ValueError(
            f"{where}: feature {name!r} has the value {value!r}; expected a string, a number, a "
            "bool, a dictionary of these or a collection of strings"
        )
