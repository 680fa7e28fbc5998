"""MAP decoding of binary pairwise graphs over the local polytope: roof duality by max-flow.

Maximises unary . x + coupling . xi over 0 <= xi_e <= min(x_i, x_j), xi_e >= x_i + x_j - 1. The
optimum is half-integral; nodes at 0 or 1 have that label in every optimal labelling.
"""

from __future__ import annotations

from math import frexp
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._running import check_time, wait_for
from ..edge_lists import checked_edges, checked_scores, half_edges
from ._qpbo_kernels import (
    conditional_modes,
    init_search_trees,
    maximum_flow,
    pair_values,
    prepare,
    round_greedily,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PATIENCE = 100  # augmentations per node and edge before capacities are rounded; 1 is typical


class QPBO:
    """Local-polytope decoder of a binary pairwise graph whose scores change from call to call.

    Safe to call from several threads.

    Parameters
    ----------
    tail, head : integer arrays of shape (n_edges,), every undirected edge once

    Examples
    --------
    >>> triangle = QPBO(3, [0, 1, 0], [1, 2, 2])
    >>> x, xi, value = triangle.solve([1.0, 1.0, 1.0], [-2.0, -2.0, -2.0])
    >>> x.tolist(), xi.tolist(), value
    ([0.5, 0.5, 0.5], [0.0, 0.0, 0.0], 1.5)
    """

    def __init__(self, n_nodes: int, tail: ArrayLike, head: ArrayLike) -> None:
        self.n_nodes = int(n_nodes)
        self.tail, self.head = checked_edges(n_nodes, tail, head)
        m = self.n_edges = self.tail.size
        # Edges are renumbered by their lower end, so that neighbours are close in memory.
        low, high = np.minimum(self.tail, self.head), np.maximum(self.tail, self.head)
        order = np.lexsort((high, low))
        check_time("the graph of a maximum flow")
        ptr, half = half_edges(n_nodes, low[order], high[order])
        slot = np.empty(2 * m, np.int32)
        slot[half] = np.arange(2 * m)
        edge = half % max(m, 1)
        check_time("the graph of a maximum flow")
        other = np.where(half < m, high[order[edge]], low[order[edge]])
        self._order = order.astype(np.int32)
        self._low, self._high = (ends[order].astype(np.int32) for ends in (low, high))
        self._ptr = ptr.astype(np.int32)
        self._slot = np.ascontiguousarray(slot.reshape(2, m).T)
        self._incident = np.stack([other, order[edge]], axis=1).astype(np.int32)
        self._max_degree = int(np.diff(ptr).max())
        self._buffers: list[_Buffers] = []  # one per thread that has called solve

    def solve(self, unary: ArrayLike, coupling: ArrayLike) -> tuple[Floats, Floats, float]:
        """x of shape (n_nodes,) and xi of shape (n_edges,), in {0, 1/2, 1}, and the optimum.

        Where no coupling is negative the solution is integral.
        """
        u, w = self._checked(unary, coupling)
        largest = float(max(np.abs(u).max(), np.abs(w).max(initial=0.0)))
        try:
            work = self._buffers.pop()
        except IndexError:
            work = _Buffers(self.n_nodes, self.n_edges)
        low, high, slot = self._low, self._high, self._slot
        arcs, cap, excess = work.arcs, work.cap, work.excess
        # Rounds to multiples of 2**-44 of a bound on the excess.
        grain = 1.5 * 2.0 ** min(frexp(largest * (1 + self._max_degree))[1] + 8, 1000)
        floor = max(2.0**-200 * largest, 2.0**-1000)
        prepare(low, high, slot, self._order, u, w, grain, cap, excess, arcs)
        count = init_search_trees(
            low, high, slot, arcs, cap, excess, floor, work.label, work.link, work.ring, work.queued
        )
        problem = (
            self._ptr, arcs, cap, excess, floor, largest,
            PATIENCE * (self.n_nodes + self.n_edges), count,
            work.label, work.link, work.ring, work.orphans, work.queued,
        )  # fmt: skip
        wait_for("maximum flow", maximum_flow, *problem, seconds=5e-6 * self.n_edges)
        x, xi = np.empty(self.n_nodes), np.empty(self.n_edges)
        np.take(_VALUES if (w < 0).any() else _INTEGRAL, work.label, out=x)
        self._buffers.append(work)
        pair_values(self.tail, self.head, w, x, xi)
        return x, xi, float((u * x).sum() + (w * xi).sum())

    def integral(self, x: ArrayLike, unary: ArrayLike, coupling: ArrayLike) -> Ints:
        """A labelling of large score, int64 of shape (n_nodes,), with the integral nodes of `x`.

        Its score is at least that of giving all half-integral nodes the same label.
        """
        u, w = self._checked(unary, coupling)
        half = checked_scores("x", x, self.n_nodes)
        if not np.isin(half, _VALUES).all():
            raise ValueError("x must consist of 0, 1/2 and 1, as solve returns it")
        if not (half == 0.5).any():
            return half.astype(np.int64)
        best = np.empty(self.n_nodes, np.int64)
        undecided = round_greedily(self._ptr, self._incident, u, w, half, best)
        top = -np.inf
        for start in (best, np.floor(half).astype(np.int64), np.ceil(half).astype(np.int64)):
            score = conditional_modes(self._ptr, self._incident, u, w, undecided, start)
            if score > top:
                best, top = start, score
        return best

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and other processes allocate their own buffers."""
        return type(self), (self.n_nodes, self.tail, self.head)

    def _checked(self, unary: ArrayLike, coupling: ArrayLike) -> tuple[Floats, Floats]:
        return (
            checked_scores("unary", unary, self.n_nodes),
            checked_scores("coupling", coupling, self.n_edges),
        )


_VALUES = np.array([0.0, 1.0, 0.5])  # by label
_INTEGRAL = np.array([0.0, 1.0, 1.0])  # without repulsion, free nodes may take either label


class _Buffers:
    """Work space of one solve."""

    def __init__(self, n: int, m: int) -> None:
        self.arcs = np.empty((2 * m, 2), np.int32)
        self.cap = np.empty(2 * m)
        self.excess = np.empty(n)
        self.label = np.empty(n, np.int8)
        self.link = np.empty((n, 4), np.int32)
        self.ring, self.orphans = np.empty(n, np.int32), np.empty(n, np.int32)
        self.queued = np.empty(n, np.int8)
