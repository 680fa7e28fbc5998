"""The order in which a junction tree eliminates nodes, and how large its tables become."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ...exceptions import TooLargeToCount

Ints = NDArray[np.int64]

LARGEST_TABLE = 2**22  # entries of one table
LARGEST_TOTAL = 2**25  # entries of all tables: 256 MB
MOST_NODES_FOR_FILL = 2000  # in larger graphs the choice is by degree, which is faster


class Plan(NamedTuple):
    """What an order leads to: separators, the size of the largest, and entries of all tables."""

    separators: list[tuple[int, ...]]
    width: int
    n_entries: int


def elimination_order(n_nodes: int, tail: Ints, head: Ints, n_states: int) -> Ints:
    """The best of three orders: by number, breadth first, which suits images, and greedy.

    Raises `TooLargeToCount` if none keeps to the limits.
    """
    ends = np.concatenate([tail, head]), np.concatenate([head, tail])
    graph = coo_array((np.ones(2 * tail.size, np.int8), ends), (n_nodes, n_nodes)).tocsr()
    orders = [
        np.arange(n_nodes),
        reverse_cuthill_mckee(graph, symmetric_mode=True).astype(np.int64),
        greedy_order(n_nodes, tail, head, widest_table(n_states), n_nodes <= MOST_NODES_FOR_FILL),
    ]
    plans = [plan_of(links_of(order, tail, head), n_nodes, n_states) for order in orders]
    best = min(
        range(3), key=lambda k: (plans[k].width > widest_table(n_states), plans[k].n_entries)
    )
    require_small(plans[best], n_states)
    return orders[best]


def widest_table(n_states: int) -> int:
    """The largest number of neighbours that a node may have when it is eliminated."""
    width = 0
    while n_states ** (width + 2) <= LARGEST_TABLE:
        width += 1
    return width


def greedy_order(n_nodes: int, tail: Ints, head: Ints, widest: int, by_fill: bool) -> Ints:
    """Next comes the node that couples the fewest pairs anew, or that has the fewest neighbours.

    Once all have more than `widest` neighbours the rest follows by their number: no use in going
    on.
    """
    neighbours: list[set[int]] = [set() for _ in range(n_nodes)]
    for i, j in zip(tail.tolist(), head.tolist(), strict=True):
        neighbours[i].add(j)
        neighbours[j].add(i)

    def cost(node: int) -> tuple[int, int]:
        around = neighbours[node]
        if len(around) > widest or not by_fill:
            return len(around), 0
        apart = sum(len(around - neighbours[other]) - 1 for other in around)
        return apart // 2, len(around)

    costs = [cost(node) for node in range(n_nodes)]
    heap = [(costs[v], v) for v in range(n_nodes) if len(neighbours[v]) <= widest]
    heapify(heap)
    order: list[int] = []
    done = np.zeros(n_nodes, dtype=bool)
    while heap:
        price, node = heappop(heap)
        if done[node] or price != costs[node] or len(neighbours[node]) > widest:
            continue  # out of date
        done[node] = True
        order.append(node)
        around = neighbours[node]
        changed = set(around)
        for other in around:
            neighbours[other].discard(node)
        for other in around:
            fresh = around - neighbours[other]
            fresh.discard(other)
            for new in fresh:  # those that already knew both now find one pair less to couple
                if by_fill:
                    changed |= neighbours[other] & neighbours[new]
                neighbours[other].add(new)
                neighbours[new].add(other)
        for other in changed:
            costs[other] = cost(other)
            if len(neighbours[other]) <= widest:
                heappush(heap, (costs[other], other))
    rest = sorted(np.flatnonzero(~done).tolist(), key=lambda v: len(neighbours[v]))
    return np.array(order + rest, dtype=np.int64)


def links_of(order: Ints, tail: Ints, head: Ints) -> Ints:
    """Edges between places in an order, shape (n_edges, 2), the earlier place first."""
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return np.sort(np.stack([place[tail], place[head]], axis=1), axis=1)


def plan_of(links: Ints, n_nodes: int, n_states: int) -> Plan:
    """The separators of an order; it is not followed further than the first table too large."""
    later: list[set[int]] = [set() for _ in range(n_nodes)]
    for k, other in links.tolist():
        later[k].add(other)
    widest, separators, n_entries = widest_table(n_states), [], 0
    for members in later:
        separators.append(tuple(sorted(members)))
        n_entries += n_states ** (len(members) + 1)
        if len(members) > widest:
            break
        if members:
            parent = min(members)
            later[parent] |= members
            later[parent].discard(parent)
    return Plan(separators, max(map(len, separators)), n_entries)


def require_width(width: int, n_states: int) -> None:
    """Raise `TooLargeToCount` if tables of `width` + 1 nodes would be too large."""
    require_small(Plan([], width, 0), n_states)


def require_small(plan: Plan, n_states: int) -> None:
    size = plan.width + 1
    if plan.width > widest_table(n_states):
        found = f"{plan.width} or more, which takes a table of at least {n_states}^{size} entries"
        limit = LARGEST_TABLE
    elif plan.n_entries > LARGEST_TOTAL:
        found, limit = f"{plan.width}, which takes {plan.n_entries} entries in all", LARGEST_TOTAL
    else:
        return
    raise TooLargeToCount(
        f"the graph is too large for exact counting: the treewidth found is {found}, where the "
        f'limit is {limit}; use method="auto", which approximates, or sampling'
    )


def checked_order(order: ArrayLike, n_nodes: int) -> Ints:
    found = np.asarray(order)
    if found.shape != (n_nodes,) or (np.sort(found) != np.arange(n_nodes)).any():
        raise ValueError(f"order: expected every number from 0 to {n_nodes - 1} once")
    return found.astype(np.int64)
