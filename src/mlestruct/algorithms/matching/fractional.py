"""Best fractional matchings of a general graph: the local polytope's half-integral vertices.

Column generation: the solver works on a few edges of small slack per node, then adds edges that its
prices (dual variables of the nodes) violate; when none is left the prices prove the optimum over
all edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...exceptions import InfeasibleError
from . import _fractional_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CANDIDATES = 8  # edges per node at first, and violated ones that a round adds


@dataclass(frozen=True)
class FractionalMatching:
    """A vertex of the local polytope, and prices y that prove it optimal.

    `edges` are the edges of non-zero value, `values` 1 or 1/2 (the halves form odd cycles);
    `single_nodes` stay single, in full (`single_values` is 1). score_e <= y_i + y_j on all edges,
    y_i >= single_i, and sum(y) is the score.
    """

    edges: Ints
    values: Floats
    single_nodes: Ints
    single_values: Floats
    prices: Floats
    score: float


@dataclass(frozen=True)
class Cover:
    """The same, node by node: partners (or EXPOSED, HALF, itself) and the half cycles' order."""

    mate: Ints
    cycle: Ints
    prices: Floats


def fractional_matching(
    n: int,
    ptr: Ints,
    col: Ints,
    scores: Floats,
    *,
    single: Floats | None = None,
    warm: Floats | None = None,
) -> FractionalMatching:
    """Maximise the score over {tau >= 0, the edges at every node (and its single) sum to one}.

    Parameters
    ----------
    ptr, col : edges of a simple graph, each stored once at its smaller end (CSR)
    single : scores of leaving nodes single; None: every node must be covered
    warm : prices of a similar problem.

    Raises `InfeasibleError` with nodes that have too few neighbours to be covered.
    """
    scores, single = checked_scores(n, ptr, scores, single)
    cover = best_cover(n, ptr, col, scores, single, warm)
    mate, cycle = cover.mate, cover.cycle
    nodes = np.arange(n)
    whole = np.flatnonzero(mate > nodes)
    half = np.flatnonzero(mate == kernels.HALF)
    edges = np.concatenate(
        [edge_indices(ptr, col, whole, mate[whole]), edge_indices(ptr, col, half, cycle[half])]
    )
    values = np.repeat([1.0, 0.5], [whole.size, half.size])
    order = np.argsort(edges)
    edges, values = edges[order], values[order]
    alone = np.flatnonzero(mate == nodes)
    score = float(scores[edges] @ values)
    if single is not None:
        score += float(single[alone].sum())
    return FractionalMatching(edges, values, alone, np.ones(alone.size), cover.prices, score)


def best_cover(
    n: int,
    ptr: Ints,
    col: Ints,
    scores: Floats,
    single: Floats | None,
    warm: Floats | None,
) -> Cover:
    """The optimal fractional matching in terms of nodes."""
    may_skip = single is not None
    skip = np.zeros(0) if single is None else single
    y = first_prices(n, ptr, col, scores, warm)
    if single is not None:
        np.maximum(y, single, out=y)
    mate = np.full(n, kernels.EXPOSED, np.int64)
    cycle = np.full(n, -1, np.int64)
    outer, inner = np.empty(n, np.int64), np.empty(n, np.int64)
    sparse = Candidates(n, ptr, col, scores, y)
    budget = 4 * n
    balanced = False
    while True:
        start, node, weight = sparse.neighbours()
        kernels.repair(start, node, weight, may_skip, skip, y, mate, cycle)
        kernels.reduce_prices(start, node, weight, may_skip, skip, y, mate, budget)
        failed = kernels.augment(start, node, weight, may_skip, skip, y, mate, cycle, outer, inner)
        if failed > n // 20 and not sparse.complete and not balanced:
            balanced = True
            sparse.add_closest(y, balance_prices(n, ptr, col, scores, y))
            mate[:] = kernels.EXPOSED
            continue
        grown = sparse.add_escapes(y, outer > 0, inner > 0, np.arange(n)) if failed else False
        if failed and not grown:
            nodes = np.flatnonzero(outer == 1)
            raise InfeasibleError(
                f"no fractional matching covers all {n} nodes: {name_nodes(nodes)} together have "
                f"only {counted(int((inner == 1).sum()), 'neighbour')}",
                nodes.tolist(),
                "nodes",
            )
        if not sparse.add_violated(y) and not grown:
            return Cover(mate, cycle, y)


class Candidates:
    """The edges that a solver works on, out of all edges of the graph."""

    def __init__(self, n: int, ptr: Ints, col: Ints, scores: Floats, y: Floats):
        self.n, self.ptr, self.col, self.scores = n, ptr, col, scores
        self.scale = float(np.abs(y).max(initial=0.0))
        self.complete = col.size <= 2 * CANDIDATES * n
        self.chosen = np.full(col.size, self.complete)
        if not self.complete:
            self.add_closest(y, 2.0**-30 * self.scale)

    def add_closest(self, y: Floats, jitter: float) -> None:
        items = np.empty((self.n, CANDIDATES), np.int64)
        kernels.closest(self.ptr, self.col, self.scores, y, np.inf, 2.0**-32 * jitter, items)
        self.add(items)

    def neighbours(self) -> tuple[Ints, Ints, Floats]:
        """The candidates from both ends, as (start, node, weight)."""
        chosen = np.flatnonzero(self.chosen)
        return kernels.neighbours(self.n, self.ptr, self.col, self.scores, chosen)

    def add_violated(self, y: Floats) -> bool:
        """Add edges that the prices violate; False if there are none."""
        if self.complete:
            return False
        items = np.empty((self.n, CANDIDATES), np.int64)
        kernels.closest(self.ptr, self.col, self.scores, y, self.limit(y), 0.0, items)
        return self.add(items)

    def add_escapes(
        self, y: Floats, outer: NDArray[np.bool_], inner: NDArray[np.bool_], group: Ints
    ) -> bool:
        """Add edges that leave stuck trees; False if there are none."""
        if self.complete:
            return False
        items = np.empty((self.n, CANDIDATES), np.int64)
        kernels.escapes(self.ptr, self.col, self.scores, y, outer, inner, group, items)
        return self.add(items)

    def limit(self, y: Floats) -> float:
        """Slacks below this are not rounding errors."""
        return -1e-12 * max(self.scale, float(np.abs(y).max(initial=0.0)))

    def add(self, items: Ints) -> bool:
        """Add the edges listed (-1: none); False if nothing is new."""
        new = items[items >= 0]
        new = new[~self.chosen[new]]
        self.chosen[new] = True
        return new.size > 0


def first_prices(n: int, ptr: Ints, col: Ints, scores: Floats, warm: Floats | None) -> Floats:
    """Feasible prices: the least-squares fit of u_i + u_j to the scores, made tight.

    Or the warm ones, if their sum is smaller.
    """
    y = np.zeros(n)
    if n > 2 and col.size == n * (n - 1) // 2:
        kernels.node_sums(ptr, col, scores, y)
        y = (y - y.sum() / (2 * (n - 1))) / (n - 2)
    lower_prices(ptr, col, scores, y, 1)
    if warm is not None:
        if np.shape(warm) != (n,) or not np.isfinite(warm).all():
            raise ValueError(f"warm must be {n} finite prices")
        other = np.array(warm, np.float64)
        lower_prices(ptr, col, scores, other, 1)
        if other.sum() <= y.sum():
            return other
    lower_prices(ptr, col, scores, y, 1)
    return y


def balance_prices(n: int, ptr: Ints, col: Ints, scores: Floats, y: Floats) -> float:
    """Prices under which tight edges are spread over all nodes; returns their resolution.

    Symmetric Sinkhorn steps at decreasing temperature `width`.
    """
    degree = np.bincount(col, minlength=n) + np.diff(ptr)
    width = float(degree @ y - scores.sum()) / (4 * scores.size)  # from the mean slack
    width = max(width, 1e-9 * float(np.abs(y).max()), 1e-300)  # positive if all are tight
    soft = np.empty(n)
    for _ in range(6):
        kernels.soft_degrees(ptr, col, scores, y, width, soft)
        y += width / 2 * np.log(np.maximum(soft, 1e-12))
        width /= 2
    lower_prices(ptr, col, scores, y, 2)
    return 3 * width


def lower_prices(ptr: Ints, col: Ints, scores: Floats, y: Floats, rounds: int) -> None:
    """Make prices feasible, then lower each by half of the node's smallest slack."""
    least = np.empty(y.size)
    for _ in range(rounds):
        kernels.least_slacks(ptr, col, scores, y, least)
        y -= np.where(np.isfinite(least), least, 0.0) / 2  # slacks stay non-negative


def checked_scores(
    n: int, ptr: Ints, scores: Floats, single: Floats | None
) -> tuple[Floats, Floats | None]:
    """Scores and single scores as finite double-precision arrays of the right size."""
    scores = np.ascontiguousarray(scores, np.float64)
    if scores.shape != (ptr[-1],) or not np.isfinite(scores).all():
        raise ValueError(f"scores must be {ptr[-1]} finite numbers, one per edge")
    if single is not None:
        single = np.ascontiguousarray(single, np.float64)
        if single.shape != (n,) or not np.isfinite(single).all():
            raise ValueError(f"single must be {n} finite scores, one per node")
    return scores, single


def edge_indices(ptr: Ints, col: Ints, a: Ints, b: Ints) -> Ints:
    """Where the edges a-b are stored."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    out = np.empty(low.shape[0], np.int64)
    kernels.find_edges(ptr, col, low, high, out)
    return out


def counted(number: int, noun: str) -> str:
    """ "1 node" or "2 nodes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def name_nodes(nodes: Ints, limit: int = 10) -> str:
    """The nodes for a message, not too many of them."""
    shown = ", ".join(map(str, nodes[:limit].tolist()))
    more = ", ..." if nodes.size > limit else ""
    return f"the {counted(nodes.size, 'node')} [{shown}{more}]"
