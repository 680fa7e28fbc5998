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
    found = list(_slices(left, right, block, neighbours, most_shared))
    pairs = np.unique(np.concatenate(found), axis=0)
    return pairs[:, 0], pairs[:, 1]


def count_candidates(
    left: Any, right: Any, block: Sequence[str] = (), neighbours: int = 10, most_shared: int = 200
) -> int:
    """The number of candidate pairs, without keeping more than a slice of them.

    By common words a pair that only the right record has among its candidates counts, too.
    """
    if not block:
        return candidate_pairs(left, right, (), neighbours, most_shared)[0].size
    return sum(
        len(np.unique(pairs, axis=0)) for pairs in _slices(left, right, block, neighbours, 0)
    )


def _slices(
    left: Any, right: Any, block: Sequence[str], neighbours: int, most_shared: int
) -> Iterator[Ints]:
    """Arrays of pairs (left row, right row); with `block` each left row is in one slice only."""
    if block:
        tokens = [_whole_values(left, right, column) for column in block]
        rows = sparse.hstack([one for one, _ in tokens], format="csr")
        columns = sparse.hstack([other for _, other in tokens], format="csr")
        for start in range(0, rows.shape[0], SLICE):
            common = (rows[start : start + SLICE] @ columns.T).tocoo()
            yield np.stack([common.row + start, common.col], axis=1).astype(np.int64)
        return
    rows, columns = _weighted_words(left, right, most_shared)
    for one, other, swap in ((rows, columns, False), (columns, rows, True)):
        for start in range(0, one.shape[0], SLICE):
            common = (one[start : start + SLICE] @ other.T).tocsr()
            pairs = np.stack(_largest(common, neighbours), axis=1)
            pairs[:, 0] += start
            yield pairs[:, ::-1] if swap else pairs


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


def _largest(weights: Any, count: int) -> tuple[Ints, Ints]:
    """Rows and columns of the `count` largest entries of each row of a sparse matrix."""
    row = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
    order = np.lexsort((weights.indices, -weights.data, row))
    rank = np.arange(row.size) - weights.indptr[row]
    kept = order[rank < count]  # sorting by row leaves each row's entries in its own places
    return row[kept].astype(np.int64), weights.indices[kept].astype(np.int64)
