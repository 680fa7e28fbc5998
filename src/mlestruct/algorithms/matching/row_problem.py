"""The row-ordered form of a bipartite matching problem, the input of the marginal kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TINY = 1e-280  # smallest marginal and sum kept: reciprocals and products with them are finite


class RowProblem(NamedTuple):
    """A bipartite matching problem in row order (CSR).

    Entries ptr[i]:ptr[i+1] belong to row i. Entry e lies in column col[e] and carries the entropy
    -a[e] t log t + c[e] (1-t) log(1-t). The column n_cols = len(rho_cols) has no constraint and
    stands for "row i stays single". Column j may stay single iff rho_cols[j] > 0; its probability
    z_j to stay single carries the entropy -rho_cols[j] z log z. Either all rows may stay single, by
    their last entry, or none.

    row_rho and col_rho are the reweighting of the nodes, for messages.
    """

    ptr: NDArray[np.int64]  # (n_rows + 1,)
    col: NDArray[np.int64]  # (n_entries,)
    a: NDArray[np.float64]  # (n_entries,)
    c: NDArray[np.float64]  # (n_entries,)
    rho_cols: NDArray[np.float64]  # (n_cols,)
    row_rho: NDArray[np.float64]  # (n_rows,)
    col_rho: NDArray[np.float64]  # (n_cols,)
