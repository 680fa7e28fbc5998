"""MAP decoding of b-matchings, where nodes may have several partners, by HiGHS.

The linear program over the local polytope has half-integral vertices (integral ones in bipartite
graphs) and prices, dual variables of the nodes. Where its vertex has halves, an integer program
follows, over the edges that the prices leave open.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import LinearConstraint, linprog, milp

from ..._running import check_time, seconds_left
from ...exceptions import InfeasibleError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class BMatching(NamedTuple):
    """The best b-matching: its edges, their values, unused capacities; and prices y of the nodes.

    With r_e = score_e - y_i - y_j the optimum of the local polytope is sum_i capacity_i y_i +
    sum_e max(r_e, 0). Nodes that need not be filled have y_i >= single_i.
    """

    edges: Ints
    values: Floats
    slack: Floats
    prices: Floats
    score: float


def best_b_matching(
    n: int,
    ptr: Ints,
    col: Ints,
    scores: Floats,
    capacity: Floats,
    exact: Bools,
    single: Floats,
    *,
    integral: bool = False,
) -> BMatching:
    """Maximise sum_e score_e x_e + sum_i single_i slack_i over the local polytope.

    That is 0 <= x_e <= 1 and sum_{e at i} x_e + slack_i = capacity_i with slack_i >= 0, and
    slack_i = 0 at `exact` nodes; `integral` rules out halves.

    Raises `InfeasibleError` with exact nodes that need more than their neighbours can give.

    Examples
    --------
    A triangle: every edge at one half is better than any one of them.

    >>> triangle = np.array([0, 2, 3, 3]), np.array([1, 2, 2]), np.ones(3)
    >>> best_b_matching(3, *triangle, np.ones(3), np.zeros(3, bool), np.zeros(3)).values
    array([0.5, 0.5, 0.5])
    """
    row, m = np.repeat(np.arange(n), np.diff(ptr)), col.size
    single = np.where(exact, 0.0, single)
    gain = scores - single[row] - single[col]
    scale = 1e3 / max(float(np.abs(gain).max(initial=0.0)), 1e-300)  # HiGHS's tolerances: absolute
    sums = sparse.csr_array((np.ones(2 * m), (np.r_[row, col], np.r_[:m, :m])), shape=(n, m))
    x, dual = np.zeros(m), np.zeros(n)
    if not m and (capacity[exact] > 0).any():
        raise _infeasible(sums, capacity, exact)
    if m:
        found = _linear_program(-scale * gain, 1.0, sums, capacity, exact)
        if found.status == 2:
            raise _infeasible(sums, capacity, exact)
        x = np.round(2.0 * found.x) / 2.0
        dual[exact] = -found.eqlin.marginals / scale
        dual[~exact] = np.maximum(-found.ineqlin.marginals / scale, 0.0)
    if integral and (x % 1).any():
        x = _integral(sums, scale * gain, capacity, exact, x, scale * (gain - sums.T @ dual))
    slack = capacity - sums @ x
    edges = np.flatnonzero(x)
    score = float(scores @ x + single @ slack)
    return BMatching(edges, x[edges], slack, single + dual, score)


def _linear_program(
    cost: Floats, most: ArrayLike, sums: sparse.csr_array, capacity: Floats, exact: Bools
) -> Any:
    """Least cost of 0 <= x <= most whose sums are the capacity at exact nodes, else at most it."""
    found = linprog(
        cost, sums[~exact], capacity[~exact], sums[exact], capacity[exact],
        bounds=np.stack(np.broadcast_arrays(np.zeros(cost.size), most), axis=1),
        method="highs-ds", options={"time_limit": seconds_left()},
    )  # fmt: skip
    check_time("the best b-matching")
    return found


def _integral(
    sums: sparse.csr_array, gain: Floats, capacity: Floats, exact: Bools, x: Floats, reduced: Floats
) -> Floats:
    """The best b-matching, from the best point x of the local polytope.

    An edge whose value contradicts the sign of its reduced score r_e costs |r_e|. So any b-matching
    fixes all edges of |r_e| above its distance from the best point: few are open.
    """
    radius = rounding = 1e-6
    while True:
        is_open = np.abs(reduced) <= radius
        y = np.where(is_open, 0.0, reduced > 0)
        left = capacity - sums @ y
        found = milp(
            -gain[is_open],
            constraints=LinearConstraint(sums[:, is_open], np.where(exact, left, 0.0), left),
            integrality=1,
            bounds=(0, 1),
            options={"mip_rel_gap": 0.0, "time_limit": seconds_left()},
        )
        check_time("the best b-matching")
        if found.x is not None:
            y[is_open] = np.round(found.x)
            loss = float(gain @ (x - y)) + rounding
            if is_open.all() or loss <= radius:
                return y
            radius = loss
        elif not is_open.all():
            radius = max(4.0 * radius, float(np.quantile(np.abs(reduced), 0.02)))
        else:
            raise InfeasibleError(
                "no b-matching fills the nodes that must be filled, only a fractional one "
                "does: odd groups of nodes cannot pair up among themselves",
                np.flatnonzero(exact).tolist(),
                "nodes",
            )


def _infeasible(sums: sparse.csr_array, capacity: Floats, exact: Bools) -> InfeasibleError:
    """The error that names nodes which cannot all be filled.

    The dual variables of the least total shortage are multiples of 1/2; nodes above one of the
    thresholds between them need more than their edges and neighbours can give.
    """
    n, m = sums.shape
    shortage = sparse.eye_array(n, format="csr")[:, exact]
    cost, most = np.r_[np.zeros(m), np.ones(exact.sum())], np.r_[np.ones(m), capacity[exact]]
    found = _linear_program(cost, most, sparse.hstack([sums, shortage]).tocsr(), capacity, exact)
    dual = np.zeros(n)
    dual[exact] = found.eqlin.marginals
    needs = []
    for inside in (dual > 0.25, dual > 0.75):
        edges_to = sums @ (sums.T @ inside) - inside * (sums @ np.ones(m))  # from those inside
        supply = np.minimum(capacity, edges_to).sum()
        needs.append((float(capacity[inside].sum()), float(supply), np.flatnonzero(inside)))
    need, supply, nodes = max(needs, key=lambda found: found[0] - found[1])
    names = ", ".join(map(str, nodes[:10].tolist())) + (", ..." if nodes.size > 10 else "")
    return InfeasibleError(
        f"{nodes.size} of the nodes that must be filled ({names}) need {need:.0f} units together, "
        f"but their edges and neighbours can supply {supply:.0f} at most: lower their capacity, "
        "allow them slack, or add edges",
        nodes.tolist(),
        "nodes",
    )
