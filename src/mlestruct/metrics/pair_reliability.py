"""Calibration of matchings."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..labels import read_pairs
from .events import ROUNDING, Events, check_probabilities, each_sample, join_events
from .reliability import Reliability, compare_events

Ints = NDArray[np.int64]

SUM_ROUNDING = 1e-6  # how far 1 minus the sum of a row of a table may be outside of [0, 1]
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
    if events not in EVENTS:
        raise ValueError(f"events: expected one of {', '.join(EVENTS)}, got {events!r}")
    samples = list(each_sample(tables, labels))
    read = [_pair_table(table, name) for name, table, _, _ in samples]
    if bipartite is None:
        bipartite = any(table.shape[0] != table.shape[1] for table in read)
    found: list[Events] = []
    for table, (name, _, label, label_name) in zip(read, samples, strict=True):
        if not bipartite:
            _check_group(table, name)
        n_rows, n_cols = table.shape
        pairs = read_pairs(label, n_rows, n_cols if bipartite else None, label_name)
        if events != "singles":
            found.append(_pair_events(table, pairs, bipartite, drop_zeros))
        if events != "pairs":
            found.append(_single_events(table, pairs, bipartite, name, label_name))
    return compare_events(join_events(found), n_bins, strategy, confidence, "tables")


def _pair_table(table: Any, name: str) -> Any:
    """Probabilities of pairs, checked: an array, or a CSR matrix with sorted indices."""
    if np.ndim(table) != 2:
        raise ValueError(f"{name}: expected a matrix of probabilities, got shape {np.shape(table)}")
    if not sp.issparse(table):
        return check_probabilities(table, name)
    rows = sp.csr_array(table, copy=True)
    rows.sum_duplicates()
    rows.data = check_probabilities(rows.data, f"{name} (stored entries)")
    return rows


def _check_group(table: Any, name: str) -> None:
    """Raise unless a table is one of a group: square, symmetric, nobody paired with itself."""
    n, m = table.shape
    remedy = "pass bipartite=True if rows and columns are different nodes"
    if n != m:
        raise ValueError(f"{name}: expected a square matrix of one group, got {n} x {m}; {remedy}")
    alone = np.flatnonzero(table.diagonal() > ROUNDING)
    if alone.size:
        i = int(alone[0])
        raise ValueError(
            f"{name}: expected 0 on the diagonal of one group, got {table.diagonal()[i]:.3g} at "
            f"({i}, {i}); {remedy}"
        )
    if table.size and abs(table - table.T).max() > SUM_ROUNDING:
        raise ValueError(f"{name}: expected a symmetric matrix of one group; {remedy}")


def _pair_events(table: Any, pairs: Ints, bipartite: bool, drop_zeros: bool) -> Events:
    """Pairs of positive probability one by one; all others as two events with weights."""
    n, m = table.shape
    if sp.issparse(table):
        rows = np.repeat(np.arange(n), np.diff(table.indptr))
        listed = table.data > 0 if bipartite else (table.data > 0) & (rows < table.indices)
        keys, values = (rows * m + table.indices)[listed], table.data[listed]
    else:
        listed = table > 0 if bipartite else np.triu(table > 0, 1)
        keys, values = np.flatnonzero(listed), table[listed]
    happened = np.zeros(keys.size, dtype=np.bool_)
    wanted = pairs[:, 0] * m + pairs[:, 1]
    at = np.searchsorted(keys, wanted)  # keys are sorted
    hit = np.zeros(wanted.size, dtype=np.bool_)
    inside = at < keys.size
    hit[inside] = keys[at[inside]] == wanted[inside]
    happened[at[hit]] = True
    missed = wanted.size - int(hit.sum())
    zeros = (n * m if bipartite else n * (n - 1) // 2) - keys.size - missed
    return (
        np.concatenate([values, [0.0, 0.0]]),
        np.concatenate([happened, [False, True]]),
        np.concatenate([np.ones(keys.size), [0.0 if drop_zeros else zeros, missed]]),
    )


def _single_events(table: Any, pairs: Ints, bipartite: bool, name: str, label_name: str) -> Events:
    """Nodes that may stay single: rows and columns, or the nodes of one group."""
    n = table.shape[0]
    filled = np.asarray(table.sum(axis=1), dtype=np.float64).ravel()
    ends = pairs.ravel()
    if bipartite:
        columns = np.asarray(table.sum(axis=0), dtype=np.float64).ravel()
        filled = np.concatenate([filled, columns])
        ends = np.concatenate([pairs[:, 0], n + pairs[:, 1]])
    used = np.bincount(ends, minlength=filled.size)
    why = "; staying single has a probability for nodes of capacity 1 only"
    if (used > 1).any():
        raise ValueError(
            f"{label_name}: expected each node in one pair, one is in {used.max()}{why}"
        )
    if filled.max(initial=0.0) > 1.0 + SUM_ROUNDING:
        raise ValueError(f"{name}: expected row sums of at most 1, got {filled.max():.6g}{why}")
    return np.clip(1.0 - filled, 0.0, 1.0), used == 0, np.ones(filled.size)
