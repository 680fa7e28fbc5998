"""Calibration of matchings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..labels import read_pairs
from .pair_tables import REMEDY, PairTable, read_tables
from .reliability import ROUNDING, Events, Reliability, check_probabilities, compare_events

Ints = NDArray[np.int64]

NAMES = ("tables", "labels")  # the arguments, in error messages
EVENTS = ("pairs", "singles", "both")


def pair_reliability(
    tables: Any,
    labels: Any,
    *,
    bipartite: bool | None = None,
    events: str = "pairs",
    drop_zeros: bool = False,
    n_bins: int = 10,
    strategy: str = "uniform",
    confidence: float = 0.95,
) -> Reliability:
    """Calibration of predicted matchings: the events are "i is paired with j".

    Parameters
    ----------
    tables : list of arrays or SciPy sparse matrices, or one of them
        Probabilities of pairs as `predict_marginals` returns them; an entry that is not stored is
        a probability of 0. Sparse matrices stay sparse.
    labels : list of observed matchings, or one of them
        Partners of the rows, -1 for singles, or pairs of shape (n_pairs, 2).
    bipartite : bool, optional
        False: one group, the tables are symmetric and each unordered pair is one event. By
        default so if all tables are square; pass True if rows and columns are different nodes.
    events : "pairs", "singles" or "both"
        "singles" are "i stays single", with 1 minus the sum of a row (or column) as probability:
        for nodes of capacity 1.
    drop_zeros : bool
        Leave out pairs of probability exactly 0 that did not happen, such as those that a mask
        rules out: they are right, and so many that little else shows. Those that did happen are
        errors and stay.
    n_bins, strategy, confidence : as in `reliability`

    Examples
    --------
    >>> table = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> found = pair_reliability(table, [0, 1], bipartite=True, n_bins=2)
    >>> found.count.tolist(), found.observed.tolist()
    ([2.0, 2.0], [0.0, 1.0])
    """
    found = pair_events(tables, labels, bipartite=bipartite, events=events, drop_zeros=drop_zeros)
    return compare_events(found, n_bins, strategy, confidence, "tables")


def pair_events(
    tables: Any,
    labels: Any,
    *,
    bipartite: bool | None = None,
    events: str = "pairs",
    drop_zeros: bool = False,
) -> list[Events]:
    """The events of `pair_reliability`, one item or two of each sample."""
    if events not in EVENTS:
        raise ValueError(f"events: expected one of {', '.join(EVENTS)}, got {events!r}")
    found: list[Events] = []
    for table, label_name, label in read_tables(tables, labels, NAMES, bipartite, absent=0.0):
        _check_table(table)
        pairs = read_pairs(label, *table.sides, label_name)
        if events != "singles":
            found.append(_pair_events(table, pairs, drop_zeros))
        if events != "pairs":
            found.append(_single_events(table, pairs, label_name))
    return found


def _check_table(table: PairTable) -> None:
    """Remove the rounding of probabilities; raise if they are none, or not those of a group."""
    if table.is_sparse:
        stored = check_probabilities(table.matrix.data, f"{table.name} (stored entries)")
        table.matrix.data = stored
    else:
        table.matrix = check_probabilities(table.matrix, table.name)
    if table.is_group and (table.matrix.diagonal() > ROUNDING).any():
        i = int(np.argmax(table.matrix.diagonal() > ROUNDING))
        raise ValueError(
            f"{table.name}: expected 0 on the diagonal of one group, got "
            f"{table.matrix.diagonal()[i]:.3g} at ({i}, {i}); {REMEDY}"
        )
    table.check_symmetric()


def _pair_events(table: PairTable, pairs: Ints, drop_zeros: bool) -> Events:
    """Pairs of positive probability one by one; all others as two events with weights."""
    n, m = table.shape
    keys, values = table.positive()
    wanted = pairs[:, 0] * m + pairs[:, 1]
    happened = np.zeros(keys.size, dtype=np.bool_)
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    if keys.size:
        happened[at[keys[at] == wanted]] = True
    missed = wanted.size - int(happened.sum())
    zeros = (n * (n - 1) // 2 if table.is_group else n * m) - keys.size - missed
    return (
        np.concatenate([values, [0.0, 0.0]]),
        np.concatenate([happened, [False, True]]),
        np.concatenate([np.ones(keys.size), [0.0 if drop_zeros else zeros, missed]]),
    )


def _single_events(table: PairTable, pairs: Ints, label_name: str) -> Events:
    """Nodes that may stay single: rows and columns, or the nodes of one group."""
    matched = [np.asarray(table.matrix.sum(axis=1), dtype=np.float64).ravel()]
    ends = pairs.ravel()
    if not table.is_group:
        matched.append(np.asarray(table.matrix.sum(axis=0), dtype=np.float64).ravel())
        ends = (pairs + np.array([0, table.shape[0]])).ravel()
    total = np.concatenate(matched)
    used = np.bincount(ends, minlength=total.size)
    why = "; staying single has a probability for nodes of capacity 1 only"
    if (used > 1).any():
        raise ValueError(
            f"{label_name}: expected each node in one pair, one is in {used.max()}{why}"
        )
    if total.max(initial=0.0) > 1.0 + 1e-6:  # marginals of iterative methods sum up to about 1
        raise ValueError(
            f"{table.name}: expected row sums of at most 1, got {total.max():.6g}{why}"
        )
    return np.clip(1.0 - total, 0.0, 1.0), used == 0, np.ones(total.size)
