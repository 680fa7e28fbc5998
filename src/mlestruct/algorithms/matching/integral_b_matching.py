"""Integral b-matchings in general graphs, where the local optimum may have halves.

The local optimum is an upper bound, and its prices give every edge a reduced score r_e: setting an
edge to the value that its sign contradicts costs |r_e|. Any known b-matching therefore fixes all
edges with |r_e| above its distance from the bound; the others form a small integer program for
HiGHS (reduced-cost fixing).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from ...exceptions import InfeasibleError
from .b_matching import BMatching, best_b_matching

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def best_integral_b_matching(
    n: int,
    ptr: Ints,
    col: Ints,
    scores: Floats,
    capacity: Floats,
    exact: NDArray[np.bool_],
    single: Floats,
) -> BMatching:
    """The best b-matching without halves; arguments as in `best_b_matching`."""
    relaxed = best_b_matching(n, ptr, col, scores, capacity, exact, single=single)
    if not (relaxed.values % 1.0).any():
        return relaxed
    row = np.repeat(np.arange(n), np.diff(ptr))
    reduced = scores - relaxed.prices[row] - relaxed.prices[col]
    value = np.zeros(scores.shape[0])
    value[relaxed.edges] = relaxed.values
    fixed_at = np.where(reduced > 0, 1.0, 0.0)
    # Open edges: the halves at first, then all with |r_e| up to the loss of the last solution.
    margin = 1e-9 * (1.0 + float(np.abs(scores).max(initial=0.0)))
    radius = margin
    while True:
        is_open = np.abs(reduced) <= radius
        found = _solve(n, row, col, scores, capacity, exact, single, is_open, fixed_at)
        everything = bool(is_open.all())
        if found is None:
            if everything:
                raise InfeasibleError(
                    "no b-matching fills the nodes that must be filled, only a fractional one "
                    "does: odd groups of nodes cannot pair up among themselves",
                    np.flatnonzero(exact).tolist(),
                    "nodes",
                )
            radius = max(4.0 * radius, float(np.quantile(np.abs(reduced), 0.02)))
            continue
        x, slack = found
        score = float(scores @ x + single @ slack)
        loss = relaxed.score - score + margin
        if everything or loss <= radius:
            edges = np.flatnonzero(x)
            return BMatching(edges, x[edges], slack, relaxed.prices, score)
        radius = loss


def _solve(
    n: int,
    row: Ints,
    col: Ints,
    scores: Floats,
    capacity: Floats,
    exact: NDArray[np.bool_],
    single: Floats,
    is_open: NDArray[np.bool_],
    fixed_at: Floats,
) -> tuple[Floats, Floats] | None:
    """The best b-matching with all but the open edges fixed; None if there is none."""
    x = np.where(is_open, 0.0, fixed_at)
    used = np.bincount(row, x, minlength=n) + np.bincount(col, x, minlength=n)
    left = capacity - used
    if (left < 0).any():
        return None
    edges = np.flatnonzero(is_open)
    k = edges.shape[0]
    ends = np.concatenate([row[edges], col[edges]])
    incidence = sparse.csr_array((np.ones(2 * k), (ends, np.tile(np.arange(k), 2))), shape=(n, k))
    gain = scores[edges] - single[row[edges]] * ~exact[row[edges]]
    gain -= single[col[edges]] * ~exact[col[edges]]
    found = milp(
        -gain,
        constraints=LinearConstraint(incidence, np.where(exact, left, 0.0), left),
        integrality=np.ones(k),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    x[edges] = np.round(found.x)
    used = np.bincount(row, x, minlength=n) + np.bincount(col, x, minlength=n)
    return x, np.where(exact, 0.0, capacity - used)
