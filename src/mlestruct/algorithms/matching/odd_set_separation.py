"""Odd-set constraints of the matching polytope: proofs that all hold, and separation.

A point of the local polytope is a mixture of perfect matchings iff the edges within every odd set S
of nodes sum to at most (|S| - 1) / 2 (Edmonds). Twice that sum is the quadratic form 1_S' T 1_S of
the symmetric matrix T of marginals, so a few eigenvectors of T bound it for all sets of a size at
once. In small graphs the most violated set is a minimum odd cut, found in a cut tree (Padberg and
Rao).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ._cut_tree_kernels import cut_tree

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MARGIN = 1e-6  # safety margin of the proofs for rounding errors of eigenvalues
CUT_LIMIT = 250  # nodes up to which a cut tree takes less than a second


def provably_in_matching_polytope(
    ptr: Ints, col: Ints, components: tuple[int, Ints], tau: Floats
) -> bool:
    """Whether a point of the perfect local polytope is proven to satisfy all odd-set constraints.

    False means only that the eigenvalue bound does not decide.

    Parameters
    ----------
    ptr, col : edges of a simple graph, each stored once at its smaller end (CSR)
    components : number of connected components, and that of every node, shape (n_nodes,)
    tau : ndarray of shape (n_edges,), node sums 1
    """
    n_nodes = ptr.shape[0] - 1
    upper = sparse.csr_array((tau, col, ptr), shape=(n_nodes, n_nodes))
    count, label = components
    table: Any
    if col.shape[0] > 0.05 * n_nodes * n_nodes:  # then a dense matrix is quicker
        table = upper.toarray()
        table += table.T
    else:
        table = sparse.csr_array(upper + upper.T)
    for k in range(count):
        nodes = np.flatnonzero(label == k)
        if nodes.shape[0] % 2:
            return False
        part = table if count == 1 else table[nodes][:, nodes]
        if nodes.shape[0] > 4 and not _odd_sets_hold(part):
            return False
    return True


def _odd_sets_hold(table: Any) -> bool:
    """The same for one component of node sums 1; table (n, n) is dense or sparse."""
    n = table.shape[0]
    if n <= 400:  # all eigenvectors are quick; above, only the leading ones are computed
        matrix = (table.toarray() if sparse.issparse(table) else table) - 1.0 / n
        values, vectors = np.linalg.eigh(matrix)
        return _bound_holds(values[::-1], vectors[:, ::-1])
    # The constant vector is deflated first: Lanczos would find only one copy of an eigenvalue 1
    # that a nearly separate set repeats.
    deflated = _Deflated(table, np.zeros(0), np.zeros((n, 0)))
    rng = np.random.default_rng(0)
    for count in (4, 30):  # more eigenvectors give a tighter bound
        try:
            values, vectors = eigsh(deflated, k=count, which="LA", v0=rng.normal(size=n), tol=1e-7)
        except ArpackNoConvergence:
            return False
        order = np.argsort(values)[::-1]
        values, vectors = values[order], vectors[:, order]
        if _bound_holds(values, vectors):
            return _are_leading(table, values, vectors, rng)
    return False


class _Deflated(LinearOperator):
    """T - 1 1' / n - V diag(values) V'."""

    def __init__(self, table: Any, values: Floats, vectors: Floats):
        super().__init__(np.float64, table.shape)
        self.table, self.values, self.vectors = table, values, vectors

    def _matvec(self, x: Floats) -> Floats:
        x = x.ravel()
        known = self.vectors @ (self.values * (self.vectors.T @ x))
        out: Floats = self.table @ x - x.mean() - known
        return out


def _are_leading(table: Any, values: Floats, vectors: Floats, rng: np.random.Generator) -> bool:
    """Whether no other eigenvalue exceeds the last one.

    For a dense matrix a Cholesky factor of the shifted remainder proves it; for a sparse one
    Lanczos runs again on the remainder, from another start.
    """
    n = table.shape[0]
    last = max(float(values[-1]), 0.0) + MARGIN
    if not sparse.issparse(table):
        matrix = (vectors * values) @ vectors.T - table
        matrix += 1.0 / n
        matrix[np.diag_indices(n)] += last
        try:
            np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return False
        return True
    rest = _Deflated(table, values, vectors)
    try:
        found = eigsh(
            rest, k=1, which="LA", v0=rng.normal(size=n), tol=1e-4, return_eigenvectors=False
        )
    except ArpackNoConvergence:
        return False
    return bool(found[0] <= last)


def _bound_holds(values: Floats, vectors: Floats) -> bool:
    """Whether 1_S' T 1_S <= |S| - 1 follows for all odd sizes 3 .. n/2 from leading eigenpairs.

    The pairs are those of T - 1 1' / n. Of |1_S|^2 = k, the part k^2 / n belongs to the constant
    vector; of the remainder, eigenvector v has at most the square of the sum of its k largest
    entries, and what is left counts with the last eigenvalue. Sets larger than n/2 are complements
    of smaller ones, and single nodes satisfy the constraint by the node sums.
    """
    n = vectors.shape[0]
    sizes = np.arange(3, n // 2 + 1, 2)
    if not sizes.size:
        return True
    top = -np.sort(-np.abs(vectors), axis=0)
    reach = np.cumsum(top, axis=0)[sizes - 1] ** 2  # (n_sizes, n_vectors)
    mass = sizes * sizes / n
    left = sizes - mass
    for value, most in zip(values, reach.T, strict=True):
        share = np.minimum(left, most)
        mass = mass + max(value, 0.0) * share
        left = left - share
    mass = mass + max(float(values[-1]), 0.0) * left
    return bool((mass + MARGIN * sizes <= sizes - 1.0).all())


def violated_odd_sets(table: Floats, single: Floats, tolerance: float) -> list[NDArray[np.bool_]]:
    """Odd sets whose cut has a value below 1 - tolerance, from the edges of a cut tree.

    `table` (n, n) are marginals of pairs, `single` (n,) of staying single; every row sums to 1
    with its single. An empty list proves that there is none: the odd set of the smallest cut is one
    side of an edge of the cut tree. One further node, the root, stands for being single.
    """
    n = table.shape[0]
    capacity = np.zeros((n + 1, n + 1))
    capacity[1:, 1:] = table
    capacity[0, 1:] = capacity[1:, 0] = single
    tree = np.empty(n + 1, dtype=np.int64)
    cut_tree(capacity, tree)
    below = np.eye(n + 1, dtype=bool)
    for i in _leaves_first(tree):
        below[tree[i]] |= below[i]
    found = []
    for i in range(1, n + 1):
        inside = below[i, 1:]
        # The root is on the other side of every such cut.
        if inside.sum() % 2 and inside.sum() > 1:
            leaving = table[inside][:, ~inside].sum() + single[inside].sum()
            if leaving < 1.0 - tolerance:
                found.append(inside)
    return found


def _leaves_first(tree: Ints) -> list[int]:
    """Nodes of a tree but the root 0, children before their parents."""
    depth = np.zeros(tree.shape[0], dtype=np.int64)
    for start in range(1, tree.shape[0]):
        i = start
        while i:
            depth[start] += 1
            i = int(tree[i])
    return np.argsort(-depth)[:-1].tolist()
