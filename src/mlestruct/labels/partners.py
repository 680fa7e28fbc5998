"""Validation of observed matchings, given as partner arrays, pairs or matrices of pairs.

The sizes are those of the two sides, `n_rows` and `n_cols`; `n_cols=None` means one group of
`n_rows` nodes that are matched with each other. `where` names the sample in error messages; a
caller that adds the name itself leaves it empty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._arrays import check_unmasked

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


class KnownPairs(NamedTuple):
    """Pairs (n, 2), pairs that are none (n, 2), and rows (nodes of a group) that are single."""

    pairs: Ints
    absent: Ints
    single: Ints


def check_partners(
    label: Any, n_rows: int, n_cols: int | None, perfect: bool, where: str = ""
) -> Ints:
    """A matching as the partner of each row (of each node of a group), -1 for single ones.

    Parameters
    ----------
    label : integers of shape (n_rows,), or pairs or a matrix as in `check_pairs`
    perfect : bool
        Whether every node of the smaller side (of the group) must have a partner.
    """
    node = "node" if n_cols is None else "row"
    n_partners = n_rows if n_cols is None else n_cols
    if _is_pairs(label):
        label = _partners_of(check_pairs(label, n_rows, n_cols, where), n_rows, n_cols, where)
    partner = _whole_numbers(label, (n_rows,), f"the partner of each {node}", where)
    needed = min(n_rows, n_partners) if perfect else 0
    outside = (partner < -1) | (partner >= n_partners)
    if outside.any():
        i = int(np.argmax(outside))
        raise _error(
            where,
            f"{node} {i} has partner {partner[i]}; expected 0 to {n_partners - 1}"
            + ("" if needed == n_rows else ", or -1 for single"),
        )
    if n_cols is None:
        _check_mutual(partner, where)
    else:
        _check_distinct(partner, where)
    if np.count_nonzero(partner >= 0) < needed:
        i = int(np.argmax(partner < 0))
        raise _error(
            where,
            f"{node} {i} is single (-1), but perfect=True gives {needed} {node}s a partner; use "
            "perfect=False to allow single nodes",
        )
    return partner


def check_pairs(label: Any, n_rows: int, n_cols: int | None, where: str = "") -> Ints:
    """A b-matching as distinct pairs (n_pairs, 2): (row, column), or two nodes i < j of a group.

    A boolean or SciPy sparse matrix of shape (n_rows, n_cols) is read as its nonzero pairs; for a
    group it must be symmetric.
    """
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    if sparse.issparse(label) or np.asarray(label).dtype == bool:
        if tuple(np.shape(label)) != shape:
            raise _error(where, f"expected a matrix of shape {shape}, got {np.shape(label)}")
        chosen = sparse.coo_array(label != 0)
        if n_cols is None:
            if (sparse.csr_array(chosen) != sparse.csr_array(chosen).T).nnz:
                raise _error(where, "the matrix of pairs must be symmetric")
            chosen = sparse.coo_array(sparse.triu(chosen))
        label = np.stack(chosen.coords, axis=1)
    size = np.shape(label)[0] if np.ndim(label) else 0
    if np.size(label) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    pairs = _whole_numbers(
        label, (size, 2), "one row per pair (or a boolean or sparse matrix)", where
    )
    if n_cols is None:
        pairs = np.sort(pairs, axis=1)
        if (pairs[:, 0] == pairs[:, 1]).any():
            k = int(np.argmax(pairs[:, 0] == pairs[:, 1]))
            raise _error(where, f"pair {k} joins node {pairs[k, 0]} to itself")
    outside = ((pairs < 0) | (pairs >= np.array(shape))).any(axis=1)
    if outside.any():
        k = int(np.argmax(outside))
        raise _error(where, f"pair {k} is {pairs[k].tolist()}, outside of the shape {shape}")
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    if (counts > 1).any():
        twice = distinct[np.argmax(counts > 1)].tolist()
        raise _error(where, f"the pair {twice} occurs twice")
    return distinct


def read_known(label: Any, n_rows: int, n_cols: int | None, where: str = "") -> KnownPairs:
    """What is known of a matching, in one of three forms.

    * partners of shape (n_rows,): a number, -1 for single, NaN or None where it is not known;
    * a matrix (n_rows, n_cols) of floats, or a SciPy sparse one: 1 for pairs, 0 for pairs that are
      none (stored zeros of a sparse one), NaN where it is not known;
    * pairs of shape (n_pairs, 2) that are known; nothing is known of the others.
    """
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    if sparse.issparse(label):
        entries = sparse.coo_array(label)
        if entries.shape != shape:
            raise _error(where, f"expected a matrix of shape {shape}, got {entries.shape}")
        at = np.stack(entries.coords, axis=1).astype(np.int64)
        return _known_entries(at, entries.data.astype(np.float64), where)
    values = np.asarray(label)
    if values.dtype == object:
        values = np.array([np.nan if v is None else v for v in values.ravel()], dtype=np.float64)
        values = values.reshape(np.shape(label))
    if values.ndim == 2 and values.shape == shape and values.dtype.kind in "fb":
        at = np.argwhere(~np.isnan(values.astype(np.float64)))
        return _known_entries(at, values[at[:, 0], at[:, 1]].astype(np.float64), where)
    if values.ndim == 2:
        pairs = check_pairs(values, n_rows, n_cols, where)
        return KnownPairs(pairs, NO_PAIRS, np.zeros(0, dtype=np.int64))
    if values.shape != (n_rows,) or values.dtype.kind not in "iuf":
        raise _error(
            where,
            f"expected partners of shape ({n_rows},) with NaN where they are not known, or a "
            f"matrix {shape} of 1, 0 and NaN, got shape {values.shape} of {values.dtype}",
        )
    known = np.flatnonzero(~np.isnan(values.astype(np.float64)))
    partner = values[known].astype(np.int64)
    wrong = (partner != values[known]) | (partner < -1) | (partner >= shape[1])
    if wrong.any():
        k = int(np.argmax(wrong))
        raise _error(where, f"node {known[k]} has partner {values[known[k]]}; expected 0 to "
                     f"{shape[1] - 1}, -1 for single or NaN if not known")  # fmt: skip
    pairs = np.stack([known, partner], axis=1)[partner >= 0]
    if n_cols is None:
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    return KnownPairs(pairs, NO_PAIRS, known[partner < 0])


def _known_entries(at: Ints, values: Floats, where: str) -> KnownPairs:
    if not np.isin(values, (0.0, 1.0)).all():
        wrong = values[~np.isin(values, (0.0, 1.0))][0]
        raise _error(where, f"found {wrong} in a matrix of known pairs; expected 1, 0 or NaN")
    return KnownPairs(at[values == 1.0], at[values == 0.0], np.zeros(0, dtype=np.int64))


def is_partial(label: Any) -> bool:
    """Whether a matching says of some nodes that their partner is not known: NaN or None."""
    if sparse.issparse(label) or hasattr(label, "columns"):
        return False
    values = np.asarray(label)
    if values.dtype == object:
        return any(v is None or v != v for v in values.ravel().tolist())
    return bool(values.dtype.kind == "f" and np.isnan(values).any())


def read_pairs(label: Any, n_rows: int, n_cols: int | None, where: str = "") -> Ints:
    """The distinct pairs of a matching given in any form: partners, pairs or a matrix."""
    if _is_pairs(label):
        return check_pairs(label, n_rows, n_cols, where)
    return pairs_of(check_partners(label, n_rows, n_cols, False, where), n_cols is not None)


def pairs_of(partner: Ints, bipartite: bool) -> Ints:
    """The pairs of a validated partner array: (row, column), or nodes i < j of a group."""
    rows = np.flatnonzero(partner >= 0 if bipartite else partner > np.arange(partner.size))
    return np.stack([rows, partner[rows]], axis=1)


def check_counts(counts: Ints, capacity: Ints, free: Bools, node: str, where: str = "") -> None:
    """Raise unless each node has as many partners as its capacity, or fewer where it is free."""
    wrong = (counts > capacity) | ((counts < capacity) & ~free)
    if wrong.any():
        i = int(np.argmax(wrong))
        need = "at most" if free[i] else "exactly"
        raise _error(
            where, f"{node} {i} has {counts[i]} partners, it must have {need} {int(capacity[i])}"
        )


def _check_mutual(partner: Ints, where: str) -> None:
    """Raise unless the partner of each partner is the node itself."""
    nodes = np.arange(partner.shape[0])
    if (partner == nodes).any():
        i = int(np.argmax(partner == nodes))
        raise _error(where, f"node {i} is its own partner; single nodes are -1")
    wrong = (partner >= 0) & (partner[partner] != nodes)
    if wrong.any():
        i = int(np.argmax(wrong))
        j = int(partner[i])
        raise _error(
            where,
            f"node {i} has partner {j}, but node {j} has {int(partner[j])}; partners must be "
            "mutual",
        )


def _check_distinct(partner: Ints, where: str) -> None:
    """Raise unless each column is the partner of at most one row."""
    counts = np.bincount(partner + 1)[1:]
    if counts.max(initial=0) > 1:
        j = int(np.argmax(counts > 1))
        rows = np.flatnonzero(partner == j).tolist()
        raise _error(
            where,
            f"column {j} is the partner of rows {rows}; a matching (permutation) uses each column "
            "at most once",
        )


def _partners_of(pairs: Ints, n_rows: int, n_cols: int | None, where: str) -> Ints:
    """Partners from pairs in which each row (node of a group) occurs at most once."""
    node = "row"
    if n_cols is None:
        node, pairs = "node", np.concatenate([pairs, pairs[:, ::-1]])
    count = np.bincount(pairs[:, 0], minlength=n_rows)
    if (count > 1).any():
        i = int(np.argmax(count > 1))
        raise _error(where, f"{node} {i} is in {count[i]} pairs, but its capacity is 1")
    partner = np.full(n_rows, -1, dtype=np.int64)
    partner[pairs[:, 0]] = pairs[:, 1]
    return partner


def _is_pairs(label: Any) -> bool:
    if sparse.issparse(label):
        return True
    try:
        return np.ndim(label) == 2
    except ValueError:  # rows of different lengths
        return False


def _whole_numbers(label: Any, shape: tuple[int, ...], what: str, where: str) -> Ints:
    check_unmasked(label, where)
    try:
        values = np.asarray(label)
    except ValueError as error:
        raise _error(where, f"expected an array of whole numbers: {error}") from None
    if values.shape != shape:
        raise _error(where, f"expected shape {shape}, {what}, got {values.shape}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise _error(where, "found NaN; single nodes are -1")
    if values.dtype.kind == "f" and np.array_equal(values, np.round(values)):
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise _error(where, f"partners must be integers, got dtype {values.dtype}")
    return values.astype(np.int64)


def _error(where: str, message: str) -> ValueError:
    return ValueError(f"{where}: {message}" if where else message)
