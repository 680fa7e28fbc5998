"""Validation of observed matchings, given as partner arrays, pairs or matrices of pairs.

The sizes are those of the two sides, `n_rows` and `n_cols`; `n_cols=None` means one group of
`n_rows` nodes that are matched with each other. `where` names the sample in error messages; a
caller that adds the name itself leaves it empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
    columns, counts = np.unique(partner[partner >= 0], return_counts=True)
    if (counts > 1).any():
        j = int(columns[np.argmax(counts > 1)])
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
    return bool(sparse.issparse(label) or np.ndim(label) == 2)


def _whole_numbers(label: Any, shape: tuple[int, ...], what: str, where: str) -> Ints:
    values = np.asarray(label)
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
