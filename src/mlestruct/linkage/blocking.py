"""Candidate pairs: which records of two tables are compared at all.

Records are compared if they agree in a given column (`block`), or, by default, if they share rare
words: each record is a set of tokens "column=word", weighted by the logarithm of their rarity, and
the records of largest common weight are its candidates. Tables are handled in slices of records,
so that memory is bounded by the number of candidates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..models.validation import check_count
from .records import column_names, require_text

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WORD = re.compile(r"\w+")
SLICE = 2_000  # records of the left table whose common tokens are counted at a time


def candidate_pairs(
    left: Any, right: Any, block: Sequence[str] = (), neighbours: int = 10, most_shared: int = 200
) -> tuple[Ints, Ints]:
    """Rows of two tables that are compared, as two arrays sorted by the left one.

    Parameters
    ----------
    left, right : DataFrames of text with the same columns; "" is missing
    block : compare records that agree in one of these columns; by default, by common words
    neighbours : candidates of each record of either table at most, by common words
    most_shared : words that are in more records than this say little and are left out
    """
    check_blocking(left, right, block, neighbours, most_shared)
    keys = _Keys(len(right))
    for rows, cols in _slices(left, right, block, neighbours, most_shared):
        keys.add(rows, cols)
    return keys.pairs()


def count_candidates(
    left: Any, right: Any, block: Sequence[str] = (), neighbours: int = 10, most_shared: int = 200
) -> int:
    """The number of candidate pairs, of which no more than a slice is kept at a time."""
    check_blocking(left, right, block, neighbours, most_shared)
    slices = _slices(left, right, block, neighbours, most_shared)
    return sum(rows.size for rows, _ in slices)


def check_blocking(
    left: Any, right: Any, block: Sequence[str], neighbours: int, most_shared: int
) -> None:
    """Raise unless tables are text and the parameters what they should be."""
    chosen = column_names(block, "block")
    check_count(neighbours, "neighbours")
    check_count(most_shared, "most_shared")
    for name, table in (("left", left), ("right", right)):
        require_text(table, (), name)
        require_text(table, chosen or table.columns, name)


class _Keys:
    """Pairs row * n_right + col in one array that grows, so that they are in memory once."""

    def __init__(self, n_right: int):
        self._n_right = n_right
        self._keys = np.empty(0, dtype=np.int64)

    def add(self, rows: Ints, cols: Ints) -> None:
        size = self._keys.size
        self._keys.resize(size + rows.size, refcheck=False)
        np.multiply(rows, self._n_right, out=self._keys[size:])
        self._keys[size:] += cols

    def pairs(self) -> tuple[Ints, Ints]:
        rows = self._keys // max(self._n_right, 1)
        self._keys %= max(self._n_right, 1)
        return rows, self._keys


def _slices(
    left: Any, right: Any, block: Sequence[str], neighbours: int, most_shared: int
) -> Iterator[tuple[Ints, Ints]]:
    """Rows and columns of pairs, sorted and different, of some left records after the others."""
    if block:
        tokens = [_whole_values(left, right, column) for column in block]
        rows = sparse.hstack([one for one, _ in tokens], format="csr")
        columns = sparse.hstack([other for _, other in tokens], format="csr")
        for start in range(0, rows.shape[0], SLICE):
            yield _sorted_pairs((rows[start : start + SLICE] @ columns.T).tocsr(), start)
        return
    rows, columns = _weighted_words(left, right, most_shared)
    chosen = [  # of the right records: which left ones they have among their candidates
        _largest((columns[start : start + SLICE] @ rows.T).tocsr(), neighbours)
        for start in range(0, columns.shape[0], SLICE)
    ]
    theirs = sparse.vstack(chosen, format="csr").T.tocsr()
    for start in range(0, rows.shape[0], SLICE):
        part = slice(start, start + SLICE)
        own = _largest((rows[part] @ columns.T).tocsr(), neighbours)
        yield _sorted_pairs(own + theirs[part], start)


def _sorted_pairs(weights: Any, start: int) -> tuple[Ints, Ints]:
    """Places of the entries of a sparse matrix, row by row; its first row is number `start`."""
    weights.sort_indices()
    row = np.repeat(np.arange(start, start + weights.shape[0]), np.diff(weights.indptr))
    return row.astype(np.int64), weights.indices.astype(np.int64)


def _whole_values(left: Any, right: Any, column: str) -> tuple[Any, Any]:
    """Indicators of the values of a column, in both tables; missing values agree with none."""
    values = [table[column].str.strip().str.lower().to_numpy() for table in (left, right)]
    return _indicators([[[value] if value else [] for value in side] for side in values])


def _weighted_words(left: Any, right: Any, most_shared: int) -> tuple[Any, Any]:
    """Words of all columns, each weighted by the logarithm of its rarity; common ones dropped."""
    sides = []
    for table in (left, right):
        columns = [
            [{f"{name}={word}" for word in WORD.findall(value.lower())} for value in table[name]]
            for name in table.columns
        ]
        sides.append([set().union(*parts) for parts in zip(*columns, strict=True)])
    rows, columns = _indicators(sides)
    counts = np.asarray(rows.sum(axis=0) + columns.sum(axis=0)).ravel()
    n_records = rows.shape[0] + columns.shape[0]
    rarity = np.where(counts <= most_shared, np.log((1 + n_records) / np.maximum(counts, 1)), 0.0)
    weights = sparse.diags_array(rarity)
    both = []
    for side in (rows, columns):
        weighted = sparse.csr_array(side @ weights)
        weighted.eliminate_zeros()
        both.append(weighted)
    return both[0], both[1]


def _indicators(sides: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """Two 0/1 matrices of records and tokens over one vocabulary."""
    vocabulary: dict[str, int] = {}
    found = []
    for side in sides:
        tokens = [[vocabulary.setdefault(word, len(vocabulary)) for word in one] for one in side]
        starts = np.concatenate([[0], np.cumsum([len(one) for one in tokens])]).astype(np.int64)
        places = np.fromiter((k for one in tokens for k in one), np.int64, int(starts[-1]))
        found.append((starts, places))
    rows, columns = (
        sparse.csr_array(
            (np.ones(places.size), places, starts), shape=(starts.size - 1, len(vocabulary))
        )
        for starts, places in found
    )
    return rows, columns


def _largest(weights: Any, count: int) -> Any:
    """A sparse matrix of ones at the `count` largest entries of each row of another one."""
    row = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    order = np.lexsort((weights.indices, -weights.data, row))
    rank = np.arange(row.size) - weights.indptr[row]
    kept = order[rank < count]  # sorting by row leaves each row's entries in its own places
    places = (row[kept], weights.indices[kept])
    return sparse.csr_array((np.ones(kept.size, dtype=np.int8), places), shape=weights.shape)
