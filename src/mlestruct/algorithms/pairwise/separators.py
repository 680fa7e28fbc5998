"""The separators of an elimination order, and limits on the tables of a junction tree over them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import TooLargeToCount
from ..elimination import frontier_order, minimum_fill_order

Ints = NDArray[np.int64]

LARGEST_TABLE = 2**22  # entries of one table: 32 MB
LARGEST_TOTAL = 2**25  # entries of all tables: 256 MB


class Plan(NamedTuple):
    """What an order leads to: separators, the size of the largest, and entries of all tables."""

    separators: list[tuple[int, ...]]
    width: int
    n_entries: int


def elimination_order(n_nodes: int, tail: Ints, head: Ints, n_states: int) -> Ints:
    """A frontier order or a minimum-fill order, whichever has fewer entries in all tables.

    Raises `TooLargeToCount` if neither keeps to the limits.
    """
    if tail.size < n_nodes:  # perhaps a forest: no order of it has smaller tables than this one
        of_forest = minimum_fill_order(n_nodes, tail, head, 1)
        plan = plan_of(links_of(of_forest, tail, head), n_nodes, n_states)
        if plan.width <= 1:
            require_small(plan, n_states)
            return of_forest
    widest = widest_table(n_states)
    found = []
    order = frontier_order(n_nodes, tail, head, n_states, widest)
    if order is not None:
        found.append((plan_of(links_of(order, tail, head), n_nodes, n_states), order))
        widest = found[0][0].width
    order = minimum_fill_order(n_nodes, tail, head, widest)
    found.append((plan_of(links_of(order, tail, head), n_nodes, n_states), order))
    plan, order = min(
        found, key=lambda pair: (pair[0].width > widest_table(n_states), pair[0].n_entries)
    )
    require_small(plan, n_states)
    return order


def widest_table(n_states: int) -> int:
    """The largest number of neighbours that a node may have when it is eliminated."""
    width = 0
    while n_states ** (width + 2) <= LARGEST_TABLE:
        width += 1
    return width


def links_of(order: Ints, tail: Ints, head: Ints) -> Ints:
    """Edges between places in an order, shape (n_edges, 2), the earlier place first."""
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return np.sort(np.stack([place[tail], place[head]], axis=1), axis=1)


def plan_of(links: Ints, n_nodes: int, n_states: int) -> Plan:
    """The separators of an order, up to the first table that is too large."""
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
    """Raise `TooLargeToCount` if a table, or all tables together, would be too large."""
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
    """`order` as an int64 array, if it has every node once."""
    found = np.asarray(order)
    if found.shape != (n_nodes,) or (np.sort(found) != np.arange(n_nodes)).any():
        raise ValueError(f"order: expected every number from 0 to {n_nodes - 1} once")
    return found.astype(np.int64)
