"""`Matches`: proposed partners and the best alternatives; pairs of ids from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..linkage.linker import margins
from ..linkage.records import id_pairs
from ..models.validation import check_count

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Matches:
    """Partners of records, with probabilities.

    pairs : DataFrame with the columns
        left, right : ids of a record and of a candidate (of one group both ways round);
        probability : that the two are a pair;
        proposed : whether they are one of the proposed pairs;
        margin : how much more probable the pair is than the best other one of either record
        Of each record the proposed and the most probable candidates, best first.
    single_left : Series, the probability of each record to stay without a partner; NaN where that
        is not known, of records that may have several
    """

    pairs: Any
    single_left: Any


def best_pairs(left: Any, right: Any, table: Floats, proposed: Ints, top: int) -> Any:
    """Rows of `Matches.pairs` from probabilities of shape (n_left, n_right).

    Parameters
    ----------
    left, right : ids
    proposed : (n_proposed, 2), places of the proposed pairs
    top : candidates of each record
    """
    import pandas

    check_count(top, "top")
    chosen = np.zeros(table.shape, dtype=bool)
    chosen[proposed[:, 0], proposed[:, 1]] = True
    order = np.argsort(-table, axis=1, kind="stable")[:, :top]
    kept = chosen.copy()
    np.put_along_axis(kept, order, True, axis=1)
    row, col = np.indices(table.shape).reshape(2, -1)
    margin = margins(row, col, table.ravel())
    rows, cols = np.nonzero(kept & (chosen | (table > 0)))
    frame = pandas.DataFrame(
        {
            "left": np.asarray(left)[rows],
            "right": np.asarray(right)[cols],
            "probability": np.clip(table[rows, cols], 0.0, 1.0),
            "proposed": chosen[rows, cols],
            "margin": margin.reshape(table.shape)[rows, cols],
        }
    )
    return frame.iloc[np.lexsort((-frame["probability"].to_numpy(), rows))].reset_index(drop=True)


def read_pairs(
    pairs: Any, left: Any, right: Any = None, where: str = "pairs", first_row: int = 1
) -> Ints:
    """Places of the ids in the first two columns, shape (n_pairs, 2); rows without an id left out.

    `right` is None where both are ids of one group. Messages count rows from `first_row`.
    """
    sides = (left, left if right is None else right)
    places = [{key: k for k, key in enumerate(side)} for side in sides]
    found: dict[tuple[int, int], int] = {}
    taken: dict[Any, int] = {}  # in one group, the row of each one's partner
    for row, ends in enumerate(id_pairs(pairs, where), start=first_row):
        if "" in ends:
            continue
        for k, key in enumerate(ends):
            if key not in places[k]:
                raise ValueError(
                    f"{where}, row {row}, column {pairs.columns[k]!r}: there is no id {key!r}"
                )
        i, j = places[0][ends[0]], places[1][ends[1]]
        if right is None:
            if i == j:
                raise ValueError(f"{where}, row {row}: id {ends[0]!r} is paired with itself")
            i, j = min(i, j), max(i, j)
        if (i, j) in found:
            raise ValueError(f"{where}, row {row}: the pair of row {found[i, j]} again")
        for key in ends if right is None else ():
            if taken.setdefault(key, row) != row:
                raise ValueError(
                    f"{where}, row {row}: id {key!r} has a partner in row {taken[key]} already"
                )
        found[i, j] = row
    return np.array(list(found), dtype=np.int64).reshape(-1, 2)


def check_capacities(
    used: Ints, capacity: Ints, ids: Sequence[Any], least: bool, where: str = "pairs"
) -> None:
    """Raise unless records have at most (with `least`, exactly) as many partners as they can."""
    wrong = (used > capacity) | (least & (used < capacity))
    if wrong.any():
        k = int(np.argmax(wrong))
        how = "exactly" if least else "at most"
        raise ValueError(
            f"{where}: id {ids[k]!r} has {used[k]} partners, it should have {how} {capacity[k]}"
        )


def split(n: int, n_folds: int, seed: Any) -> list[Ints]:
    """Places 0 .. n-1 in folds of equal size."""
    fold = np.random.default_rng(seed).permutation(n) % n_folds
    return [np.flatnonzero(fold == k) for k in range(min(n_folds, n))]
