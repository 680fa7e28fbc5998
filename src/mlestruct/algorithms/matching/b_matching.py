"""MAP decoding of b-matchings over the local polytope, as a flow of maximum score.

In a bipartite graph left nodes send units to right nodes along edges of capacity 1, or to a hub if
they may have unused capacity; the hub sends to right nodes what they lack. Any other graph is
replaced by its double cover, a left and a right copy of every node; averaging the two copies of an
edge gives the optimum of the local polytope, which is half-integral.

Dense graphs are solved by column generation: on the few edges of largest reduced score at the
present prices (dual variables of the nodes); then edges of positive reduced score at the prices of
that solution are added, until there are none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import InfeasibleError
from . import _b_matching_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

EXTRA = 15  # candidate edges per node above its capacity
PRECISION = 1e-12  # reduced scores of this size, relative to the scores, count as zero


@dataclass(frozen=True)
class BMatching:
    """The best b-matching and prices (dual variables of the nodes) that prove it.

    With the reduced scores r_e = score_e - y_i - y_j of the prices y: r_e <= 0 where edge e is
    unused, r_e >= 0 where its value is 1, r_e = 0 where it is 1/2. Nodes that need not be filled
    have y_i >= single_i, with equality where slack_i > 0. Hence
    score = sum_i capacity_i y_i + sum_e max(r_e, 0), an upper bound of all other solutions.
    """

    edges: Ints
    values: Floats
    slack: Floats
    prices: Floats
    score: float


def best_b_matching(
    n: int,
    ptr: ArrayLike,
    col: ArrayLike,
    scores: ArrayLike,
    capacity: ArrayLike,
    exact: ArrayLike,
    *,
    single: ArrayLike | None = None,
    warm: ArrayLike | None = None,
) -> BMatching:
    """Maximise sum_e score_e x_e + sum_i single_i slack_i over the local polytope.

    That is 0 <= x_e <= 1 and sum_{e at i} x_e + slack_i = capacity_i with slack_i >= 0. The
    solution is a vertex: integral in bipartite graphs; elsewhere the halves form odd cycles
    without a common node.

    Parameters
    ----------
    n : number of nodes
    ptr, col : every edge once, at its smaller end: row i has the edges ptr[i] .. ptr[i+1] - 1 to
        the nodes col > i, increasing
    scores : array of shape (n_edges,)
    capacity : array of shape (n,), whole numbers; edges at nodes of capacity 0 are never used
    exact : array of shape (n,), booleans, nodes that must be filled (slack 0)
    single : array of shape (n,), scores of a unit of slack; 0 if not given
    warm : array of shape (n,), prices of a similar problem

    Raises
    ------
    InfeasibleError
        if some nodes cannot be filled. Its `rows` are exact nodes that need more than
        sum_j min(capacity_j, number of their edges to j).

    Examples
    --------
    A triangle: every edge at one half is better than any one of them.

    >>> best = best_b_matching(3, [0, 2, 3, 3], [1, 2, 2], [1.0, 1.0, 1.0], [1, 1, 1], [False] * 3)
    >>> best.values.tolist(), best.score
    ([0.5, 0.5, 0.5], 1.5)
    """
    problem = _checked(n, ptr, col, scores, capacity, exact, single)
    price = _first_prices(problem) if warm is None else _vector("warm", warm, problem.n)
    price = _feasible(problem, price)
    if 2 * problem.places[-1] >= problem.degree.sum():
        active = problem.capacity > 0
        chosen = active[problem.row] & active[problem.col]
    else:
        chosen = np.zeros(problem.col.size, np.bool_)
        chosen[_best_outside(problem, chosen, price, -np.inf)] = True
    if warm is None:
        price = _descended(problem, np.flatnonzero(chosen), price)
        chosen[_best_outside(problem, chosen, price, 0.0)] = True
    while True:
        flow = _best_flow(problem, np.flatnonzero(chosen), price)
        if flow.units is None:  # only edges out of the nodes reached can help: any, at random
            between = flow.leaves, flow.enters
            missing = _best_outside(problem, chosen, price, -np.inf, between, jitter=1e9)
            if missing.size == 0:
                raise _infeasible(problem, flow.enters if flow.hub else flow.leaves)
        else:
            price = _feasible(problem, flow.price)
            missing = _best_outside(problem, chosen, price, PRECISION * problem.scale)
            if missing.size == 0:
                return _finished(problem, np.flatnonzero(chosen), flow.units, price)
        chosen[missing] = True


@dataclass(frozen=True)
class _Problem:
    n: int
    ptr: Ints
    col: Ints
    scores: Floats
    capacity: Ints
    exact: Bools
    single: Floats  # 0 at exact nodes
    row: Ints  # smaller end of each edge
    degree: Ints  # edges that can be used
    total: Floats  # their scores
    need: Ints  # capacity, or the number of edges plus 1 if that is smaller
    places: Ints  # where each node's candidates start
    side: NDArray[np.int8] | None  # 0 and 1: left and right nodes of a bipartite graph
    scale: float  # of the largest score
    spread: float  # of the scores about their mean


@dataclass(frozen=True)
class _Flow:
    """Result of the search on the chosen edges; `units` is None where it has failed."""

    units: Ints | None  # per chosen edge: 0 or 1, in the double cover 0, 1 or 2
    price: Floats
    leaves: Bools  # left nodes that the failed search has reached
    enters: Bools  # right nodes that it has not reached
    hub: bool  # whether it has reached the hub


def _first_prices(problem: _Problem) -> Floats:
    """The nodes' mean scores, fitted to y_i + y_j."""
    degree = np.maximum(problem.degree, 1)
    overall = problem.total.sum() / degree.sum()
    above = problem.total / degree - overall
    if (above**2).mean() < 2 * (problem.spread**2 / degree).mean():
        above = np.zeros(problem.n)  # not significant: equal prices keep the scores' ties
    return above + 0.5 * overall


def _feasible(problem: _Problem, price: Floats) -> Floats:
    """Prices of nodes that may have slack are at least its score; those near it are set to it."""
    cheap = ~problem.exact & (price <= problem.single + PRECISION * problem.scale)
    return np.where(cheap, problem.single, price)


def _descended(problem: _Problem, chosen: Ints, price: Floats) -> Floats:
    """Prices after coordinate descent on the chosen edges.

    They are rounded so that scores with ties keep them: ties broken by rounding errors would make
    the following searches long.
    """
    start, edge, end = _incidence(problem.n, problem.row[chosen], problem.col[chosen])
    price = price.copy()
    kernels.descend_prices(
        start, edge, end, problem.scores[chosen], problem.need, problem.exact, problem.single,
        price, 10, 1e-3 * problem.spread,
    )  # fmt: skip
    grid = 2.0 ** (np.frexp(problem.spread)[1] - 20)
    return _feasible(problem, np.round(price / grid) * grid)


def _incidence(n: int, low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """Per node its edges and their other ends."""
    order = np.argsort(np.r_[low, high], kind="stable")
    start = np.r_[0, np.cumsum(np.bincount(np.r_[low, high], minlength=n))]
    return start, order % max(low.size, 1), np.r_[high, low][order]


def _best_outside(
    problem: _Problem,
    chosen: Bools,
    price: Floats,
    floor: float,
    between: tuple[Bools, Bools] | None = None,
    jitter: float = 1e-7,
) -> Ints:
    """The best edges of every node that are not yet chosen, with reduced scores above `floor`.

    Only edges `between` nodes of the first and of the second set, if these are given. `jitter`
    breaks ties, relative to the spread of the scores.
    """
    active = problem.capacity > 0
    leaves, enters = (active, active) if between is None else between
    edge = kernels.best_edges(
        problem.ptr, problem.col, problem.scores, price, leaves, enters, chosen, floor,
        jitter * problem.spread, problem.places,
    )  # fmt: skip
    found: Ints = edge[edge >= 0]
    return found


def _best_flow(problem: _Problem, chosen: Ints, price: Floats) -> _Flow:
    """Best flow on the chosen edges, started from the right nodes' prices.

    Nodes of the network: left nodes, right nodes, the hub. Left nodes first select their best arcs
    at these prices; then the excess of overfull right nodes is sent to nodes that lack units.
    """
    low, high = problem.row[chosen], problem.col[chosen]
    edge = np.arange(chosen.size)
    if problem.side is None:
        left = right = np.flatnonzero(problem.capacity > 0)
        low, high, edge = np.r_[low, high], np.r_[high, low], np.r_[edge, edge]
    else:
        left, right = (np.flatnonzero((problem.capacity > 0) & (problem.side == k)) for k in (0, 1))
        swap = problem.side[low] == 1
        low, high = np.where(swap, high, low), np.where(swap, low, high)
    at = np.empty(problem.n, np.int64)
    at[left] = np.arange(left.size)
    order = np.argsort(at[low], kind="stable")
    tail, edge = at[low][order], edge[order]
    at[right] = left.size + np.arange(right.size)
    head, score = at[high][order], problem.scores[chosen][edge]
    hub = left.size + right.size

    potential = np.r_[np.zeros(left.size), -price[right], 0.0]
    flow = np.zeros(edge.size, np.int64)
    start = np.r_[0, np.cumsum(np.bincount(tail, minlength=left.size))]
    here = np.r_[left, right]
    need, exact, single = problem.need[here], problem.exact[here], problem.single[here]
    load = np.zeros(hub, np.int64)
    precision = PRECISION * problem.scale
    kernels.fill(start, head, score, need, exact, single, potential, load, flow, precision)
    at_single = ~exact & (np.r_[potential[: left.size], price[right]] <= single)
    spare = np.where(at_single, np.maximum(need - load, 0), 0)
    excess = np.r_[np.zeros_like(left), (load + spare - need)[left.size :], 0]
    excess[hub] = -excess.sum()  # as many units enter the network as leave it

    free = np.flatnonzero(~exact)
    to_hub = free < left.size
    start, to, weight, twin, residual, place = kernels.residual_arcs(
        hub + 1,
        np.r_[tail, np.where(to_hub, free, hub)],
        np.r_[head, np.where(to_hub, hub, free)],
        np.r_[score, single[free]],
        np.r_[np.ones_like(flow), np.full(free.size, 1 << 40)],
        np.r_[flow, spare[free]],
    )
    reached = np.zeros(hub + 1, np.bool_)
    served = kernels.send(start, to, weight, twin, residual, potential, excess, reached)
    leaves, enters = np.zeros((2, problem.n), np.bool_)
    leaves[left], enters[right] = reached[: left.size], ~reached[left.size : hub]
    flow = residual[twin[place[: edge.size]]]
    units = np.bincount(edge[flow > 0], minlength=chosen.size) if served else None
    price = price.copy()
    price[left] = potential[: left.size] - potential[hub]
    if problem.side is None:
        price[right] += potential[hub] - potential[left.size : hub]
        price[right] *= 0.5
    else:
        price[right] = potential[hub] - potential[left.size : hub]
    return _Flow(units, price, leaves, enters, bool(reached[hub]))


def _finished(problem: _Problem, chosen: Ints, units: Ints, price: Floats) -> BMatching:
    used = units > 0
    edges = chosen[used]
    values = units[used] / (2.0 if problem.side is None else 1.0)
    if problem.side is None and (values < 1).any():
        values = _rounded(problem, edges, values)
        edges, values = edges[values > 0], values[values > 0]
    slack = problem.capacity - _loads(problem, edges, values)
    # Complementary slackness: the price of a node with slack is its single score.
    price = _feasible(problem, np.where(slack > 0, problem.single, price))
    empty = problem.capacity == 0
    if empty.any():
        price[empty] = problem.single[empty]
        kernels.price_empty_nodes(problem.ptr, problem.col, problem.scores, problem.capacity, price)
    score = float(problem.scores[edges] @ values + problem.single @ slack)
    return BMatching(edges, values, slack, price, score)


def _loads(problem: _Problem, edges: Ints, values: Floats) -> Floats:
    ends = np.r_[problem.row[edges], problem.col[edges]]
    return np.bincount(ends, np.r_[values, values], problem.n).astype(np.float64)


def _rounded(problem: _Problem, edges: Ints, values: Floats) -> Floats:
    """A vertex among the best solutions: halves outside of odd cycles are rounded.

    Halves have reduced score 0 and the price of a node with slack is its single score, so rounding
    keeps the score. It may leave a node of an odd cycle with a whole unit of slack; then that cycle
    is rounded in the next pass.
    """
    values = values.copy()
    while True:
        half = np.flatnonzero(values % 1 != 0)
        slack = problem.capacity - _loads(problem, edges, values)
        odd = np.flatnonzero(slack % 1 != 0)  # half a unit of slack: an edge to one node more
        low = np.r_[problem.row[edges[half]], odd]
        high = np.r_[problem.col[edges[half]], np.full(odd.size, problem.n)]
        start, edge, end = _incidence(problem.n + 1, low, high)
        sign = np.zeros(low.size, np.int64)
        spare = np.r_[np.floor(slack).astype(np.int64), 0]
        kernels.round_halves(start, edge, end, spare, sign)
        if not sign.any():
            return values
        values[half] += 0.5 * sign[: half.size]


def _infeasible(problem: _Problem, wanting: Bools) -> InfeasibleError:
    """The error that names nodes which cannot all be filled, by Hall's theorem for flows.

    One pass over `wanting` removes nodes without which the others still cannot be filled.
    """
    low, high = problem.row, problem.col
    neighbours: dict[int, list[int]] = {int(i): [] for i in np.flatnonzero(wanting)}
    for this, other in ((low, high), (high, low)):
        at = np.flatnonzero(wanting[this])
        for i, j in zip(this[at].tolist(), other[at].tolist(), strict=True):
            neighbours[i].append(j)
    need = {i: int(problem.capacity[i]) for i in neighbours}
    edges_to = np.bincount([j for js in neighbours.values() for j in js], minlength=problem.n)
    short = sum(need.values()) - int(np.minimum(problem.capacity, edges_to).sum())
    for i in list(neighbours):
        freed = [j for j in neighbours[i] if edges_to[j] <= problem.capacity[j]]
        if short - need[i] + len(freed) > 0:
            short += len(freed) - need[i]
            edges_to[neighbours.pop(i)] -= 1
    nodes = sorted(neighbours)
    demand = sum(need[i] for i in nodes)
    names = ", ".join(map(str, nodes[:10])) + (", ..." if len(nodes) > 10 else "")
    return InfeasibleError(
        f"{len(nodes)} of the nodes that must be filled ({names}) need {demand} units together, "
        f"but their edges and neighbours can supply {demand - short} at most: lower their "
        "capacity, allow them slack, or add edges",
        nodes,
        "nodes",
    )


def _checked(
    n: int,
    ptr: ArrayLike,
    col: ArrayLike,
    scores: ArrayLike,
    capacity: ArrayLike,
    exact: ArrayLike,
    single: ArrayLike | None,
) -> _Problem:
    ptr, col, row = _graph(n, ptr, col)
    scores = _vector("scores", scores, col.size)
    must = np.asarray(exact)
    if must.shape != (n,) or must.dtype != np.bool_:
        raise ValueError(f"exact: expected {n} booleans, got {must.dtype} of shape {must.shape}")
    units = _vector("capacity", capacity, n)
    bad = np.flatnonzero((units < 0) | (units % 1 != 0))
    if bad.size:
        raise ValueError(
            f"capacity: expected whole numbers >= 0, got {units[bad[0]]:g} at node {bad[0]}"
        )
    whole = units.astype(np.int64)
    slack_scores = np.zeros(n) if single is None else np.asarray(single, np.float64)
    if slack_scores.shape == (n,):
        slack_scores = np.where(must, 0.0, slack_scores)
    slack_scores = _vector("single", slack_scores, n)
    degree, total, side = np.empty(n, np.int64), np.empty(n), np.empty(n, np.int8)
    kernels.count_edges(ptr, col, scores, whole, degree, total)
    need = np.where(must, whole, np.minimum(whole, degree + 1))
    scale = max(np.abs(scores).max(initial=0.0), np.abs(slack_scores).max(initial=0.0))
    spread = float(scores.std()) if scores.size else 0.0
    problem = _Problem(
        n=n,
        ptr=ptr,
        col=col,
        scores=scores,
        capacity=whole,
        exact=must,
        single=slack_scores,
        row=row,
        degree=degree,
        total=total,
        need=need,
        places=np.r_[0, np.cumsum(np.minimum(need + EXTRA, degree))],
        side=side if kernels.sides(ptr, col, side) else None,
        scale=scale,
        spread=spread if spread > PRECISION * scale else scale or 1.0,
    )
    lacking = np.flatnonzero(must & (whole > degree))
    if lacking.size:
        raise _infeasible(problem, np.arange(n) == lacking[0])
    return problem


def _graph(n: int, ptr: ArrayLike, col: ArrayLike) -> tuple[Ints, Ints, Ints]:
    if n < 1:
        raise ValueError(f"n: expected at least one node, got {n}")
    starts, ends = np.asarray(ptr), np.asarray(col)
    for name, array in (("ptr", starts), ("col", ends)):
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ValueError(
                f"{name}: expected a vector of integers, got {array.dtype} of shape {array.shape}"
            )
    starts, ends = starts.astype(np.int64), ends.astype(np.int64)
    if starts.shape != (n + 1,):
        raise ValueError(f"ptr: expected n + 1 = {n + 1} entries, got {starts.size}")
    if starts[0] != 0 or starts[-1] != ends.size or (np.diff(starts) < 0).any():
        raise ValueError(f"ptr: expected to rise from 0 to the {ends.size} entries of col")
    row = np.repeat(np.arange(n), np.diff(starts))
    wrong = (ends <= row) | (ends >= n)
    wrong[1:] |= (row[1:] == row[:-1]) & (ends[1:] <= ends[:-1])
    if wrong.any():
        e = int(np.argmax(wrong))
        raise ValueError(
            f"col: expected every edge once, at its smaller end, each row increasing and below "
            f"n = {n}; got {ends[e]} in row {row[e]}"
        )
    return starts, ends, row


def _vector(name: str, values: ArrayLike, size: int) -> Floats:
    vector = np.ascontiguousarray(values, np.float64)
    if vector.shape != (size,):
        raise ValueError(f"{name}: expected shape ({size},), got {vector.shape}")
    if not np.isfinite(vector).all():
        e = int(np.argmin(np.isfinite(vector)))
        raise ValueError(
            f"{name}: expected finite numbers, got {vector[e]} at {e}"
            + (" (leave out edges that are not allowed)" if name == "scores" else "")
        )
    return vector
