"""Tokens described by dictionaries or lists of strings, as python-crfsuite and its wrappers take.

{"word": "Main", "digit": False, "length": 4}   word:Main with 1, digit with 0, length with 4
{"next": {"word": "St"}, "shape": ["Xx", "x"]}  next:word:St, shape:Xx, shape:x with 1
["word=Main", "capital"]                        each string with 1

scikit-learn's DictVectorizer takes three times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from .._deadline import check_time
from .rows import CHUNK

Collection = list | tuple | set | frozenset
COLLECTIONS = {list, tuple, set, frozenset}
SIMPLE = {str, bool, int, float, np.float64}  # values that are read fast; others are, too


class Vocabulary(dict[str, int]):
    """The names of features, each with its column, in the order in which they are found."""

    def __init__(self, names: Iterable[str] = ()):
        super().__init__({name: k for k, name in enumerate(names)})

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return len(self) - 1

    def read(self, tokens: Sequence[Any], learn: bool) -> sparse.csr_array:
        """A row for each token; unknown names become columns if `learn`, else they are ignored.

        Features of value 0 are stored: crfsuite counts them as occurring with the token's label.
        """
        data, columns, ends = [np.zeros(0)], [np.zeros(0, dtype=np.int32)], [np.zeros(1, np.int64)]
        for start in range(0, len(tokens), CHUNK):
            check_time("reading X")
            names, values, sizes = _read(tokens[start : start + CHUNK])
            found = map(self.__getitem__, names) if learn else map(self.get, names, repeat(-1))
            own = np.fromiter(found, np.int32, len(names))
            data.append(np.array(values, dtype=np.float64)[own >= 0])
            columns.append(own[own >= 0])
            before = np.concatenate([[0], np.cumsum(own >= 0)])
            ends.append(ends[-1][-1] + before[np.cumsum(sizes)])
        parts = [np.concatenate(part) for part in (data, columns, ends)]
        table = sparse.csr_array(tuple(parts), shape=(len(tokens), len(self)))
        if learn:  # scores are the same
            table.sum_duplicates()
        return table


def _read(tokens: Sequence[Any]) -> tuple[list[str], list[Any], list[int]]:
    """Names and values of the features of all tokens in a row, and their number in each token."""
    kinds = set(map(type, tokens))
    if kinds == {dict}:
        names = list(chain.from_iterable(tokens))
        values = list(chain.from_iterable(map(dict.values, tokens)))
        found = set(map(type, values))
        if found <= SIMPLE:
            if str in found:
                both = zip(names, values, strict=True)
                names = [f"{name}:{v}" if type(v) is str else name for name, v in both]
                values = [1.0 if type(v) is str else v for v in values]
            return names, values, list(map(len, tokens))
    elif kinds <= COLLECTIONS and set(map(type, names := list(chain.from_iterable(tokens)))) <= {
        str
    }:
        return names, [1.0] * len(names), list(map(len, tokens))
    flat = [list(_flat("", token)) for token in tokens]
    pairs = list(chain.from_iterable(flat))
    return [name for name, _ in pairs], [value for _, value in pairs], list(map(len, flat))


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Names and values of the features of one entry or token, nested ones joined by colons."""
    if isinstance(value, str):
        yield f"{name}:{value}" if name else value, 1.0
    elif name and isinstance(value, Real | np.bool_):  # bool and NumPy's numbers among them
        yield name, float(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{name}:{key}" if name else key, part)
    elif isinstance(value, Collection) and all(isinstance(part, str) for part in value):
        for part in value:
            yield from _flat(name, part)
    else:
        raise ValueError(
            f"feature {name!r} has the value {value!r}; expected a string, a number, a bool, a "
            "dictionary of these or a collection of strings"
        )
