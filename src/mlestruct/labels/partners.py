"""Checks of observed matchings; every error names the sample, what was found and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Ints = NDArray[np.int64]


def _whole_numbers(label: Any, shape: tuple[int, ...], what: str, where: str) -> Ints:
    values = np.asarray(label)
    if values.shape != shape:
        raise ValueError(f"{where}: expected shape {shape}, {what}, got {values.shape}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError(f"{where}: found NaN; single nodes are -1")
    if values.dtype.kind == "f" and np.array_equal(values, np.round(values)):
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{where}: partners must be integers, got dtype {values.dtype}")
    return values.astype(np.int64)


def check_partners(label: Any, n_rows: int, n_cols: int, perfect: bool, where: str) -> Ints:
    """A matching of two sides as the partner column of each row, -1 for single rows.

    Pairs and matrices, as `check_pairs` takes them, will do as well.
    """
    if sparse.issparse(label) or np.ndim(label) == 2:
        label = _partners(check_pairs(label, n_rows, n_cols, where), n_rows, "row", where)
    partner = _whole_numbers(label, (n_rows,), "the partner of each row", where)
    outside = (partner < -1) | (partner >= n_cols)
    if outside.any():
        i = int(np.argmax(outside))
        raise ValueError(
            f"{where}: row {i} has partner {partner[i]}; expected 0 to {n_cols - 1}"
            + ("" if perfect and n_rows <= n_cols else ", or -1 for single")
        )
    matched = partner[partner >= 0]
    taken, counts = np.unique(matched, return_counts=True)
    if (counts > 1).any():
        j = int(taken[np.argmax(counts > 1)])
        rows = np.flatnonzero(partner == j).tolist()
        raise ValueError(
            f"{where}: column {j} is the partner of rows {rows}; a matching (permutation) uses "
            "each column at most once"
        )
    if perfect and matched.shape[0] < min(n_rows, n_cols):
        i = int(np.argmax(partner < 0))
        raise ValueError(
            f"{where}: row {i} is single (-1) but perfect=True needs {min(n_rows, n_cols)} pairs; "
            "use perfect=False to allow single nodes"
        )
    return partner


def check_group_partners(label: Any, n_nodes: int, perfect: bool, where: str) -> Ints:
    """A matching within one group as the partner of each node, -1 for single ones.

    Pairs and matrices, as `check_pairs` takes them, will do as well.
    """
    if sparse.issparse(label) or np.ndim(label) == 2:
        pairs = check_pairs(label, n_nodes, None, where)
        label = _partners(np.concatenate([pairs, pairs[:, ::-1]]), n_nodes, "node", where)
    partner = _whole_numbers(label, (n_nodes,), "the partner of each node", where)
    nodes = np.arange(n_nodes)
    outside = (partner < -1) | (partner >= n_nodes)
    if outside.any():
        i = int(np.argmax(outside))
        raise ValueError(
            f"{where}: node {i} has partner {partner[i]}; expected 0 to {n_nodes - 1}"
            + ("" if perfect else ", or -1 for single")
        )
    if (partner == nodes).any():
        i = int(np.argmax(partner == nodes))
        raise ValueError(f"{where}: node {i} is its own partner; single nodes are -1")
    matched = np.flatnonzero(partner >= 0)
    back = partner[partner[matched]]
    if (back != matched).any():
        i = int(matched[np.argmax(back != matched)])
        j = int(partner[i])
        raise ValueError(
            f"{where}: node {i} has partner {j}, but node {j} has {int(partner[j])}; partners must "
            "be mutual"
        )
    if perfect and matched.shape[0] < n_nodes:
        i = int(np.argmax(partner < 0))
        raise ValueError(
            f"{where}: node {i} is single (-1) but perfect=True matches every node; use "
            "perfect=False to allow single nodes"
        )
    return partner


def _partners(pairs: Ints, size: int, what: str, where: str) -> Ints:
    """Partners from pairs in which each first member occurs at most once."""
    count = np.bincount(pairs[:, 0], minlength=size)
    if (count > 1).any():
        i = int(np.argmax(count > 1))
        raise ValueError(f"{where}: {what} {i} is in {count[i]} pairs, but its capacity is 1")
    partner = np.full(size, -1, dtype=np.int64)
    partner[pairs[:, 0]] = pairs[:, 1]
    return partner


def check_pairs(label: Any, n_rows: int, n_cols: int | None, where: str) -> Ints:
    """A b-matching as distinct pairs (n_pairs, 2): (row, column), or two nodes of a group.

    A boolean or SciPy sparse matrix of shape (n_rows, n_cols) is read as its nonzero pairs; for a
    group (n_cols None) it is symmetric.
    """
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    if sparse.issparse(label) or np.asarray(label).dtype == bool:
        if tuple(np.shape(label)) != shape:
            raise ValueError(f"{where}: expected a matrix of shape {shape}, got {np.shape(label)}")
        chosen = sparse.coo_array(label != 0)
        if n_cols is None:
            if (sparse.csr_array(chosen) != sparse.csr_array(chosen).T).nnz:
                raise ValueError(f"{where}: the matrix of pairs must be symmetric")
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
            raise ValueError(f"{where}: pair {k} joins node {pairs[k, 0]} to itself")
    outside = ((pairs < 0) | (pairs >= np.array(shape))).any(axis=1)
    if outside.any():
        k = int(np.argmax(outside))
        raise ValueError(f"{where}: pair {k} is {pairs[k].tolist()}, outside of the shape {shape}")
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    if (counts > 1).any():
        twice = distinct[np.argmax(counts > 1)].tolist()
        raise ValueError(f"{where}: the pair {twice} occurs twice")
    return distinct
