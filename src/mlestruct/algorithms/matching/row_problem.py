"""The row-ordered form of a matching problem that all matching kernels share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class RowProblem(NamedTuple):
    """A bipartite matching problem, row by row.

    Entries ptr[i]:ptr[i+1] belong to row i. Entry e lies in column col[e] and carries the entropy
    -a[e] t log t + c[e] (1-t) log(1-t). The column n_cols = len(rho_cols) has no constraint and
    stands for "row i stays single". Column j may stay single iff rho_cols[j] > 0; its probability
    z_j of doing so carries the entropy -rho_cols[j] z log z.
    """

    ptr: NDArray[np.int64]
    col: NDArray[np.int64]
    a: NDArray[np.float64]
    c: NDArray[np.float64]
    rho_cols: NDArray[np.float64]
