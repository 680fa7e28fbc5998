"""MAP decoding for bipartite matchings: the assignment problem, in scores to be maximised.

SciPy solves small dense problems from scratch, without dual variables; the shortest-augmenting-path
kernels solve all others, return the dual variables (prices of the columns) and reuse them. Sparse
graphs stay sparse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ..._deadline import wait_for
from ._assignment_kernels import assign_dense, assign_sparse

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGE = 500_000  # pairs whose assignment may take seconds
SCIPY_LIMIT = 60  # nodes on a side, above which the kernels are faster, even without prices
NOWHERE = np.zeros(0)  # scores of single nodes where there are none


class Assignment(NamedTuple):
    """row_to_col (-1: single) and prices p: matched rows have their largest score[i, j] - p[j]."""

    row_to_col: Ints
    prices: Floats | None


def assign_scipy(scores: Floats) -> Assignment:
    """Best assignment of a dense (n, m) score matrix with n <= m, without prices."""
    return Assignment(linear_sum_assignment(scores, maximize=True)[1], None)


def assign(
    scores: Floats,
    *,
    row_single: Floats | None = None,
    col_single: Floats | None = None,
    warm: Floats | None = None,
) -> Assignment:
    """Best assignment of a dense score matrix of shape (n, m).

    Parameters
    ----------
    row_single : array of shape (n,), scores of single rows; None: every row must be assigned
    col_single : array of shape (m,), scores of single columns; None: 0, if m > n
    warm : array of shape (m,), prices of a similar problem, used where no node may stay single
    """
    n, m = scores.shape
    columns = np.zeros(m) if col_single is None else col_single
    if row_single is not None or col_single is not None or n != m:
        prices = columns.copy()
    # Initial prices should make the reduced costs small; column means do where the scores are
    # nearly u_i + v_j, as in Frank-Wolfe.
    else:
        prices = scores.mean(axis=0) if warm is None else warm.copy()
    row_to_col = np.empty(n, np.int64)
    problem = scores, NOWHERE if row_single is None else row_single, columns, prices, row_to_col
    if scores.size > LARGE:
        wait_for("assignment", assign_dense, *problem)
    else:
        assign_dense(*problem)
    return Assignment(row_to_col, prices)


def assign_edges(
    ptr: Ints,
    col: Ints,
    scores: Floats,
    n_cols: int,
    *,
    row_single: Floats | None = None,
    col_single: Floats | None = None,
    warm: Floats | None = None,
) -> tuple[Ints, Floats]:
    """The same on the edges of a CSR graph; returns (edge per row or -1, prices)."""
    n = ptr.shape[0] - 1
    cost = -scores if col_single is None else col_single[col] - scores
    exact = row_single is None and col_single is None and n == n_cols
    v = -warm if (warm is not None and exact) else np.zeros(n_cols)
    choice = np.empty(n, np.int64)
    col_to_row = np.empty(n_cols, np.int64)
    skip = np.zeros(0) if row_single is None else -row_single
    row = np.repeat(np.arange(n), np.diff(ptr))
    problem = ptr, row, col, cost, row_single is not None, skip, v, choice, col_to_row
    if cost.size > LARGE:
        wait_for("assignment", assign_sparse, *problem)
    else:
        assign_sparse(*problem)
    if (choice == -2).any():
        raise RuntimeError(f"row {int(np.argmax(choice == -2))} cannot be assigned")
    return choice, -v if col_single is None else col_single - v
