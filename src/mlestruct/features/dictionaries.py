"""Tokens described by dictionaries or lists of strings, as python-crfsuite and its wrappers take.

{"word": "Main", "digit": False, "length": 4}   features word:Main with 1, length with 4
{"next": {"word": "St"}, "shape": ["Xx", "x"]}  next:word:St, shape:Xx, shape:x with 1
["word=Main", "capital"]                        each string with 1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, repeat
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._deadline import check_time
from .contract import CHUNK

Floats = NDArray[np.float64]
Ints32 = NDArray[np.int32]
Collection = list | tuple | set | frozenset
LISTS = {list, tuple, set, frozenset}
NUMBERS = {bool, int, float, np.float64}  # that are read fast; all real numbers are taken


def describes_tokens(x: Any) -> bool:
    """Whether x is a list of dictionaries, or of collections of strings, one per token."""
    # Lists come first: asking the abstract class takes longer.
    if not isinstance(x, list | Sequence) or not len(x) or isinstance(x, str):
        return False
    first = x[0]
    if type(first) is dict:
        return True
    if isinstance(first, Collection):
        return any(isinstance(feature, str) for feature in first)
    return isinstance(first, Mapping)


class _Columns(dict[str, int]):
    """Columns by name; subscripting adds a name that is not there, `get` does not."""

    def __missing__(self, name: str) -> int:
        column = self[name] = len(self)
        return column


class Vocabulary:
    """The names of features, each with its column, in the order in which they are found."""

    def __init__(self, names: Iterable[str] = ()):
        self.columns = _Columns({name: k for k, name in enumerate(names)})
        self._known: dict[tuple[str, Any], int] = {}  # columns of entries (name, string or True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (list(self.columns),)

    def read(
        self, X: Sequence[Any], learn: bool, keep_zeros: bool = False
    ) -> tuple[sparse.csr_array, NDArray[np.int64]]:
        """One row per token, and the first row of each sample, shape (n_samples + 1,).

        Unknown names are added if `learn`, else ignored. Features of value 0 are left out, or
        stored: crfsuite counts them as occurring with the label of their token.
        """
        starts = np.fromiter(accumulate(map(len, X), initial=0), np.int64, len(X) + 1)
        rows = _Rows(self.columns, self._known, learn, keep_zeros)
        tokens = chain.from_iterable(X)
        try:
            while some := list(islice(tokens, CHUNK)):
                check_time("reading X")
                rows.add(some)
        except _WrongValueError as error:
            m = int(np.searchsorted(starts, error.token, side="right")) - 1
            raise ValueError(f"X[{m}][{error.token - starts[m]}]: {error}") from None
        finally:
            rows.forget()
        return rows.table(), starts


class _WrongValueError(ValueError):
    """A value that is no feature; `token` counts the tokens of all samples."""

    token = 0


class _Rows:
    """Rows of a sparse table, many tokens at a time.

    Loops in C read what most tokens are: dictionaries of numbers and strings, or lists of strings.
    All others are read entry by entry.
    """

    def __init__(
        self,
        columns: _Columns,
        known: dict[tuple[str, Any], int],
        learn: bool,
        keep_zeros: bool,
    ):
        self._columns, self._learn, self._keep_zeros = columns, learn, keep_zeros
        self._known = known  # entries of value 1, and for the time of reading others with -1
        self._left_out: list[tuple[str, Any]] = []
        self._parts: list[tuple[Any, Any, Any]] = []  # values, columns, number in each row
        self._n_rows = 0
        self._distinct = True  # whether no row can have a feature twice

    def add(self, tokens: list[Any]) -> None:
        """Append a row for each token."""
        kinds = set(map(type, tokens))
        if kinds == {dict}:
            values = list(chain.from_iterable(map(dict.values, tokens)))
            found = set(map(type, values))
            if found <= NUMBERS:
                self._add_names(tokens, list(chain.from_iterable(tokens)), _floats(values))
            elif found <= NUMBERS | {str}:
                self._add_entries(tokens)
            else:
                self._add_any(tokens)
        elif kinds <= LISTS and set(map(type, names := list(chain.from_iterable(tokens)))) <= {str}:
            self._distinct = False
            self._add_names(tokens, names, np.ones(len(names)))
        else:
            self._add_any(tokens)
        self._n_rows += len(tokens)

    def forget(self) -> None:
        """Drop entries without a column, of which texts have no end."""
        for entry in self._left_out:
            self._known.pop(entry, None)

    def table(self) -> sparse.csr_array:
        """All rows; features that a token has repeatedly add up, in scores as they are."""
        if not self._parts:
            self._append((), np.zeros(0), np.zeros(0, dtype=np.int32))
        values, columns, sizes = (
            parts[0] if len(parts) == 1 else np.concatenate(parts)
            for parts in zip(*self._parts, strict=True)
        )
        ends = np.zeros(len(sizes) + 1, dtype=columns.dtype if values.size < 2**31 else np.int64)
        np.cumsum(sizes, out=ends[1:])
        shape = (len(sizes), len(self._columns))
        table = sparse.csr_array((values, columns, ends), shape=shape)
        if self._learn and not self._distinct:
            table.sum_duplicates()
        return table

    def _append(self, tokens: Sequence[Any], values: Floats, columns: Ints32) -> None:
        """Entries of tokens in a row each; those of column -1 are left out."""
        sizes = np.fromiter(map(len, tokens), np.int64, len(tokens))
        kept = columns >= 0
        if not kept.all():
            before = np.concatenate([[0], np.cumsum(kept)])
            ends = np.cumsum(sizes)
            sizes = before[ends] - before[ends - sizes]
            values, columns = values[kept], columns[kept]
        self._parts.append((values, columns, sizes))

    def _add_names(self, tokens: Sequence[Any], names: list[str], values: Floats) -> None:
        """Append features of these names and values."""
        found: Iterable[int]
        if not self._learn:
            found = map(self._columns.get, names, repeat(-1))
        elif self._keep_zeros or values.all():
            found = map(self._columns.__getitem__, names)
        else:  # a name that is never other than 0 gets no column
            found = (self._columns[n] if v else -1 for n, v in zip(names, values, strict=True))
        columns = np.fromiter(found, np.int32, len(names))
        if not self._keep_zeros:
            columns[values == 0.0] = -1
        self._append(tokens, values, columns)

    def _add_entries(self, tokens: Sequence[dict[str, Any]]) -> None:
        """Append dictionaries of strings and numbers; strings recur, numbers are looked at."""
        self._distinct = False  # ("a", "b:c") and ("a:b", "c") are one
        entries = list(chain.from_iterable(map(dict.items, tokens)))
        columns = list(map(self._known.get, entries))
        values = np.ones(len(entries))
        at = -1
        for _ in range(columns.count(None)):
            at = columns.index(None, at + 1)
            name, value = entries[at]
            if type(value) is str:
                found = self._column(_joined(name, value))
            else:
                found, values[at] = self._column(name) if value or self._keep_zeros else -1, value
            if type(value) is str or value is True:
                self._known[entries[at]] = found
                if found < 0:
                    self._left_out.append(entries[at])
            columns[at] = found
        self._append(tokens, values, np.array(columns, dtype=np.int32))

    def _add_any(self, tokens: Sequence[Any]) -> None:
        """Append tokens of any kind, entry by entry."""
        self._distinct = False
        flat: list[list[tuple[str, float]]] = []
        for k, token in enumerate(tokens):
            entries = token.items() if isinstance(token, Mapping) else zip(repeat(""), token)
            try:
                flat.append([found for entry in entries for found in _flat(*entry)])
            except _WrongValueError as error:
                error.token = self._n_rows + k
                raise
        pairs = list(chain.from_iterable(flat))
        columns = [self._column(n) if v or self._keep_zeros else -1 for n, v in pairs]
        values = np.fromiter((value for _, value in pairs), np.float64, len(pairs))
        self._append(flat, values, np.array(columns, dtype=np.int32))

    def _column(self, name: str) -> int:
        """The column of a name, -1 if it is not known."""
        return self._columns[name] if self._learn else self._columns.get(name, -1)


def _floats(values: list[Any]) -> Floats:
    """Numbers as an array; often all are 1 or True, which are counted faster than they are read."""
    if values and values.count(values[0]) == len(values):
        return np.full(len(values), float(values[0]))
    return np.fromiter(values, np.float64, len(values))


def _joined(name: str, text: str) -> str:
    """The feature of a string."""
    return f"{name}:{text}" if name else text


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Names and weights of one entry, nested ones joined by colons."""
    if isinstance(value, str):
        yield _joined(name, value), 1.0
    elif isinstance(value, Real | np.bool_):  # bool and NumPy's numbers among them
        yield name, float(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(_joined(name, key), part)
    elif isinstance(value, Collection) and all(isinstance(part, str) for part in value):
        for part in value:
            yield from _flat(name, part)
    else:
        raise _WrongValueError(
            f"feature {name!r} has the value {value!r}; expected a string, a number, a bool, a "
            "dictionary of these or a collection of strings"
        )
