"""Vertex orders of small width, in which the nodes of a graph are eliminated one after another.

A *frontier order* keeps the eliminated nodes together: what is remembered between two steps is the
state of the front, all nodes with eliminated and other neighbours. Matchings are counted in these
orders; they also suit junction trees of images and other long graphs. A *minimum-fill order*
eliminates nodes anywhere; what is remembered is the separator of each part. It suits junction trees
of tree-like graphs, whose fronts are large.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .._running import check_time, wait_for
from . import _elimination_kernels as kernels
from .edge_lists import half_edges

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def frontier_order(
    n_nodes: int, tail: Ints, head: Ints, log_states: Floats, limit: float
) -> Ints | None:
    """The best of eight greedy orders, shape (n_nodes,), by the states of all fronts.

    log_states are the base-2 logarithms of the numbers of states of nodes. None if in each of the
    orders this sum over some front and the eliminated node exceeds `limit`.
    """
    ptr, half = half_edges(n_nodes, tail, head)
    neighbour = np.concatenate([head, tail])[half]
    ones = np.ones(neighbour.size, np.int8)
    graph = sparse.csr_array((ones, neighbour, ptr), shape=(n_nodes, n_nodes))
    starts = reverse_cuthill_mckee(graph, symmetric_mode=True).astype(np.int64)
    unit = 64  # whole numbers have ties, broken by the age of nodes
    size = np.rint(unit * log_states).astype(np.int64)
    most = unit * limit + 0.5 * unit
    # Nodes with many neighbours, as in stars, are looked through at every step.
    longest = 1e-8 * n_nodes * float(np.diff(ptr).max(initial=0))
    best, least = None, np.inf
    for k in range(min(8, n_nodes)):
        order = np.empty(n_nodes, np.int64)
        entries = wait_for(
            "an elimination order", kernels.frontier_order,
            ptr, neighbour, np.roll(starts, -(k * n_nodes // 8)), size, most, unit, order,
            seconds=longest,
        )  # fmt: skip
        if entries < least:
            best, least = order, entries
    return best


def minimum_fill_order(n_nodes: int, tail: Ints, head: Ints, max_width: int) -> Ints:
    """Greedy order, shape (n_nodes,): next comes the node that couples the fewest new pairs.

    Nodes with more than `max_width` neighbours are not eliminated; once there are no others the
    search ends, and they follow by their number of neighbours.
    """
    neighbours: list[set[int]] = [set() for _ in range(n_nodes)]
    for i, j in zip(tail.tolist(), head.tolist(), strict=True):
        neighbours[i].add(j)
        neighbours[j].add(i)

    def cost(node: int) -> tuple[int, int]:
        around = neighbours[node]
        if len(around) > max_width:
            return len(around), 0
        apart = sum(len(around - neighbours[other]) - 1 for other in around)
        return apart // 2, len(around)

    costs = [cost(node) for node in range(n_nodes)]
    heap = [(costs[v], v) for v in range(n_nodes) if len(neighbours[v]) <= max_width]
    heapify(heap)
    order: list[int] = []
    done = np.zeros(n_nodes, dtype=bool)
    while heap:
        price, node = heappop(heap)
        if done[node] or price != costs[node] or len(neighbours[node]) > max_width:
            continue  # out of date
        check_time("an elimination order")
        done[node] = True
        order.append(node)
        around = neighbours[node]
        changed = set(around)
        for other in around:
            neighbours[other].discard(node)
        for other in around:
            fresh = around - neighbours[other]
            fresh.discard(other)
            for new in fresh:  # nodes next to both have one pair less to couple
                changed |= neighbours[other] & neighbours[new]
                neighbours[other].add(new)
                neighbours[new].add(other)
        for other in changed:
            costs[other] = cost(other)
            if len(neighbours[other]) <= max_width:
                heappush(heap, (costs[other], other))
    rest = sorted(np.flatnonzero(~done).tolist(), key=lambda v: len(neighbours[v]))
    return np.array(order + rest, dtype=np.int64)
