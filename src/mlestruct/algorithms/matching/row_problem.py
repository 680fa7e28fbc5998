"""The row-ordered form of a bipartite matching problem and its solution, for marginal kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Start = Callable[[], tuple[Floats, Floats]]

TINY = 1e-280  # smallest marginal and sum kept: reciprocals and products with them are finite


class RowProblem(NamedTuple):
    """A bipartite matching problem in row order (CSR).

    Entries ptr[i]:ptr[i+1] belong to row i. Entry e lies in column col[e] and carries the entropy
    -a[e] t log t + c[e] (1-t) log(1-t). The column n_cols = len(rho_cols) has no constraint and
    stands for "row i stays single". Column j may stay single iff rho_cols[j] > 0; its probability
    z_j to stay single carries the entropy -rho_cols[j] z log z. Either all rows may stay single, by
    their last entry, or none.

    row_rho and col_rho are the reweighting of the nodes, for messages. rho_cols is col_rho for
    columns that may stay single and 0 for all others.
    """

    ptr: NDArray[np.int64]  # (n_rows + 1,)
    col: NDArray[np.int64]  # (n_entries,)
    a: NDArray[np.float64]  # (n_entries,)
    c: NDArray[np.float64]  # (n_entries,)
    rho_cols: NDArray[np.float64]  # (n_cols,)
    row_rho: NDArray[np.float64]  # (n_rows,)
    col_rho: NDArray[np.float64]  # (n_cols,)


@dataclass
class Solution:
    """Marginals in row order with enclosing bounds, and the state for a warm start."""

    t: Floats  # (n_entries,)
    z: Floats  # (n_cols,), probabilities of columns to stay single
    prices: Floats  # (n_cols + 1,), dual variables of the columns, the last 0
    value: float
    upper_bound: float
    iterations: int
    stalled: bool = False  # belief propagation did not reach the tolerance

    @property
    def gap(self) -> float:
        return self.upper_bound - self.value


def better(found: Solution, other: Solution) -> Solution:
    """The better value and the better bound of two solutions."""
    best = replace(found, iterations=found.iterations + other.iterations)
    if other.value > found.value:
        best.t, best.z, best.value = other.t, other.z, other.value
    if other.upper_bound < found.upper_bound:
        best.prices, best.upper_bound = other.prices, other.upper_bound
    return best
