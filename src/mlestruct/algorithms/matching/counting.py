"""Exact sums over all matchings of a small or narrow graph, and independent random matchings.

Matchings are the paths through a layered graph of frontier states (the transfer-matrix method),
which is built once for every graph (`_frontier_kernels`) and cached for the next scores. Counting
matchings is #P-hard: the number of states doubles with every few nodes, so problems that would take
too long are refused.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import InfeasibleError, TooLargeToCount
from .. import _elimination_kernels as elimination
from ..edge_lists import checked_edges, checked_scores, half_edges
from . import _counting_kernels as kernels
from . import _frontier_kernels as frontier
from .b_matching import best_b_matching
from .blossom import best_matching

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_TRANSITIONS = 1 << 25  # of 8 bytes each; building these takes a few seconds


class CountedMatchings:
    """All matchings of a graph, with P(y) proportional to exp(total score), by exact counting.

    The total score is that of the chosen edges and of the capacity that nodes leave unused. Sums
    are exact up to rounding, for scores of any size.

    The limit depends on the graph. Near it are complete graphs of 30 nodes, or 17 of capacity 2,
    complete bipartite graphs with 21 nodes on either side, or 18 if all are free, or 12 of capacity
    2, and square grids of 16 by 16; trees, narrow grids and other graphs with small separators may
    have thousands of nodes. `counting_size` gives the size beforehand.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    scores : array of shape (n_edges,), finite
    capacity : int or integer array of shape (n_nodes,), how many partners a node takes
    free : bool or boolean array of shape (n_nodes,), nodes that may take fewer
    single : array of shape (n_nodes,), optional
        Score of every unit of capacity that a free node leaves unused; 0 if not given.

    Attributes
    ----------
    log_partition : float, log of the sum of exp(total score) over all matchings
    edge_marginals : array of shape (n_edges,), probabilities of the edges
    unused : array of shape (n_nodes,), expected unused capacity, or the probability to stay single

    Raises
    ------
    TooLargeToCount
        before anything large is computed.
    InfeasibleError
        if there is no matching that fills all nodes that are not free.

    Examples
    --------
    A path of three edges has five matchings: the empty one, each edge alone, and both ends.

    >>> from mlestruct.algorithms.matching.counting import CountedMatchings
    >>> found = CountedMatchings(4, [0, 1, 2], [1, 2, 3], [0.0, 0.0, 0.0], free=True)
    >>> round(np.exp(found.log_partition))
    5
    >>> found.edge_marginals
    array([0.4, 0.2, 0.4])
    """

    log_partition: float
    edge_marginals: Floats
    unused: Floats

    def __init__(
        self,
        n_nodes: int,
        tail: ArrayLike,
        head: ArrayLike,
        scores: ArrayLike,
        capacity: ArrayLike = 1,
        free: ArrayLike = False,
        single: ArrayLike | None = None,
    ):
        layout = _layouts.find(n_nodes, tail, head, capacity, free)
        given = checked_scores("scores", scores, layout.n_edges)
        self._states = layout.states
        self._reduced = np.empty(given.size + 1)
        self.edge_marginals = np.empty(given.size)
        self.unused = np.empty(layout.free.size)
        self.log_partition, self._ways, self._logs = kernels.count(
            layout.states,
            given,
            layout.single_scores(single),
            self._reduced,
            self.edge_marginals,
            self.unused,
        )

    def sample(self, n_samples: int, rng: np.random.Generator) -> Bools:
        """Independent random matchings, as a boolean array of shape (n_samples, n_edges)."""
        if n_samples < 0:
            raise ValueError(f"n_samples: expected a number >= 0, got {n_samples}")
        chosen = np.zeros((n_samples, self.edge_marginals.size), np.bool_)
        kernels.draw(self._states, self._reduced, self._ways, self._logs, rng, chosen)
        return chosen


def counting_size(
    n_nodes: int, tail: ArrayLike, head: ArrayLike, capacity: ArrayLike = 1, free: ArrayLike = False
) -> float:
    """An upper bound of the number of transitions in the state graph, computed quickly.

    `CountedMatchings` refuses more than MAX_TRANSITIONS. Raises `InfeasibleError` if the degrees or
    the sides of the graph already exclude a matching.
    """
    return _Order(*_checked(n_nodes, tail, head, capacity, free)).total


@dataclass(frozen=True)
class _Layout:
    """The state graph, which does not depend on scores, and the free nodes."""

    states: kernels.StateGraph
    free: Bools

    @property
    def n_edges(self) -> int:
        return int(self.states.tail.size)

    def single_scores(self, given: ArrayLike | None) -> Floats:
        """Scores of unused capacity, 0 where none may be left."""
        if given is None:
            return np.zeros(self.free.size)
        single = np.asarray(given, np.float64)
        if single.shape not in ((), self.free.shape):
            raise ValueError(
                f"single: expected one score per node, shape {self.free.shape}, got {single.shape}"
            )
        return checked_scores("single", np.where(self.free, single, 0.0), self.free.size)


class _Layouts:
    """A cache of layouts, least recently used first, of so many transitions in all."""

    def __init__(self, limit: int = MAX_TRANSITIONS // 2) -> None:
        self._limit = limit
        self._kept: OrderedDict[Any, _Layout] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def find(
        self, n_nodes: int, tail: ArrayLike, head: ArrayLike, capacity: ArrayLike, free: ArrayLike
    ) -> _Layout:
        arrays = [np.asarray(given) for given in (tail, head, capacity, free)]
        key = n_nodes, *((a.dtype.char, a.shape, a.tobytes()) for a in arrays)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        layout = _lay_out(_Order(*_checked(n_nodes, *arrays)))
        with self._lock:
            if key not in self._kept:
                self._kept[key] = layout
                self._size += layout.states.to.size
            while self._size > self._limit:
                self._size -= self._kept.popitem(last=False)[1].states.to.size
        return layout


_layouts = _Layouts()


class _Order:
    """An elimination order of a graph, and a bound of the size of its state graph.

    Edges at nodes without capacity are left out, and so are units for which there are no edges.
    """

    def __init__(self, tail: Ints, head: Ints, capacity: Ints, free: Bools):
        n = capacity.size
        self.tail, self.head, self.capacity, self.free = tail, head, capacity, free
        edge = np.flatnonzero((capacity[tail] > 0) & (capacity[head] > 0))
        degree = np.bincount(tail[edge], minlength=n) + np.bincount(head[edge], minlength=n)
        units = np.minimum(capacity, degree)
        lacking = np.flatnonzero(~free & (capacity > degree))
        if lacking.size:
            i = int(lacking[0])
            raise InfeasibleError(
                f"node {i} must have {capacity[i]} partners but has edges to {degree[i]} nodes "
                "that can take any",
                lacking.tolist(),
                "nodes",
            )
        self.degree, self.group = degree, np.zeros(n, np.int64)
        if edge.size > frontier.MAX_BITS * n:  # too many nodes are open at once, in any order
            self.sizes, self.total = np.full(1, np.inf), np.inf
            return
        self.graph = _graph(n, tail, head, edge)
        group, side, even = np.empty(n, np.int64), np.zeros(n, np.int64), np.empty(n, np.bool_)
        self.n_groups = elimination.find_components(
            self.graph.ptr, self.graph.node, group, side, even
        )
        self.group = group
        is_two_sided = even[group] & (group >= 0)
        self.nodes = frontier.Nodes(units, free.copy(), side, is_two_sided)
        self._compare_sides()
        size = edge.size
        self.steps = frontier.Steps(
            ptr=np.empty(size + 1, np.int64),
            node=np.empty(size, np.int64),
            edge=np.empty(size, np.int64),
            other=np.empty(size, np.int64),
            enter=np.empty(n, np.int64),
            leave=np.empty(n, np.int64),
        )
        self.order, self.sizes = self._choose_order()
        self.total = float(self.sizes.sum())

    def _choose_order(self) -> tuple[Ints, Floats]:
        """The best order found for every group, and a bound of its number of transitions."""
        graph, nodes, units = self.graph, self.nodes, self.nodes.units
        bits = np.ceil(np.log2(units + 1.0)).astype(np.int64)
        size = np.rint(elimination.SIZE_SCALE * np.log2(units + 1.0)).astype(np.int64)
        place, growth, trial = np.empty((3, units.size), np.int64)
        seen, counts = np.full(units.size, -1), np.empty((2, self.steps.edge.size))
        members, first = elimination.members_of_components(self.group, self.n_groups)
        orders, sizes = [np.zeros(0, np.int64)], np.full(self.n_groups, np.inf)
        for g in range(self.n_groups):
            inside = members[first[g] : first[g + 1]]
            best = inside
            starts = elimination.starting_nodes(graph.ptr, graph.node, inside, 40, seen, g)
            for start in starts.tolist():
                too_many, _ = elimination.frontier_order_from(
                    start, graph.ptr, graph.node, inside, bits, frontier.MAX_BITS, size,
                    place, growth, trial,
                )  # fmt: skip
                if too_many:
                    sizes[g] = min(sizes[g], 2.0**too_many)
                    continue
                order = trial[: inside.size]
                n_steps = frontier.list_steps(order, graph, units, place, self.steps)
                found = frontier.bound_sizes(self.steps, n_steps, nodes, sizes[g], *counts)
                if found < sizes[g]:
                    sizes[g], best = found, order.copy()
            orders.append(best)
        return np.concatenate(orders), sizes

    def _compare_sides(self) -> None:
        """Nodes are not free if the other side needs all of them; raises if it needs more."""
        units, free, side, is_two_sided = self.nodes
        key = 2 * self.group + side
        inside = self.group >= 0
        both = 2 * self.n_groups
        offered = np.bincount(key[inside], units[inside], both).reshape(-1, 2)
        needed = np.bincount(key[inside & ~free], units[inside & ~free], both).reshape(-1, 2)
        even = np.zeros(self.n_groups, np.bool_)
        even[self.group[inside]] = is_two_sided[inside]
        short = even & (needed > offered[:, ::-1]).any(axis=1)
        odd = ~even & (needed.sum(axis=1) == offered.sum(axis=1)) & (needed.sum(axis=1) % 2 == 1)
        if (short | odd).any():
            raise self.infeasible()
        all_needed = even[:, None] & (needed[:, ::-1] == offered)
        free[inside] &= ~all_needed.ravel()[key[inside]]

    def infeasible(self) -> InfeasibleError:
        """The error that names nodes which cannot all be filled."""
        n = self.capacity.size
        low, high = np.minimum(self.tail, self.head), np.maximum(self.tail, self.head)
        col = high[np.lexsort((high, low))]
        ptr = np.r_[0, np.cumsum(np.bincount(low, minlength=n))]
        try:
            if (self.capacity == 1).all() and not self.free.any():
                best_matching(n, ptr, col, np.zeros(col.size))
            else:
                capacity, exact = self.capacity.astype(np.float64), ~self.free
                scores = np.zeros(col.size)
                best_b_matching(n, ptr, col, scores, capacity, exact, np.zeros(n), integral=True)
        except InfeasibleError as error:
            return error
        nodes = np.flatnonzero(~self.free).tolist()
        return InfeasibleError("no matching fills all nodes that must be filled", nodes, "nodes")


def _lay_out(order: _Order) -> _Layout:
    """The state graph; raises `TooLargeToCount` if it would be too large."""
    if order.total > MAX_TRANSITIONS:
        raise _too_large(order)
    n, n_edges = order.capacity.size, order.tail.size
    steps, nodes = order.steps, order.nodes
    place = np.empty(n, np.int64)
    n_steps = frontier.list_steps(order.order, order.graph, nodes.units, place, steps)
    n_states, n_transitions = np.ones(n_steps + 1), np.zeros(n_steps)
    frontier.bound_sizes(steps, n_steps, nodes, np.inf, n_states[:-1], n_transitions)
    own_shift, own_mask, added, emptied, removed = np.empty((5, n_steps), np.int64)
    shift, mask = np.empty((2, steps.edge.size), np.int64)
    fields = frontier.Fields(own_shift, own_mask, shift, mask, added, emptied, removed)
    if not frontier.assign_bits(steps, n_steps, nodes, fields):
        raise _too_large(order)
    layer = np.empty(n_steps + 2, np.int64)
    first = np.empty(int(n_states.sum()) + 2, np.int32)
    to, label = (np.empty(int(n_transitions.sum()), np.int32) for _ in range(2))
    frontier.list_transitions(
        steps, n_steps, fields, n_states.astype(np.int64), n_edges, layer, first, to, label
    )
    n_found, n_listed = frontier.drop_dead_ends(layer, first, to, label)
    if n_found == 0:
        raise order.infeasible()
    first, to, label = (
        _trimmed(first, n_found + 1),
        _trimmed(to, n_listed),
        _trimmed(label, n_listed),
    )
    possible = np.zeros(n_edges + 1, np.bool_)
    possible[label] = True
    half = _graph(n, order.tail, order.head, np.flatnonzero(possible[:-1]))
    states = kernels.StateGraph(
        layer=layer,
        first=first,
        to=to,
        label=label,
        tail=order.tail,
        head=order.head,
        capacity=order.capacity,
        units=nodes.units,
        free=nodes.free,
        half_ptr=half.ptr,
        half_edge=half.edge,
        half_node=half.node,
    )
    return _Layout(states, order.free)


def _too_large(order: _Order) -> TooLargeToCount:
    worst = int(np.argmax(order.sizes))
    inside = order.group == worst
    n_edges = int(order.degree[inside].sum()) // 2
    longest = 2.0**frontier.MAX_BITS  # larger sizes are only estimates
    size = f"up to {order.total:.1e}" if order.total < longest else f"more than {longest:.1e}"
    return TooLargeToCount(
        f"too large to count the matchings exactly: it would take {size} transitions, mostly for a "
        f"connected group of {int(inside.sum())} nodes and {n_edges} edges, and the limit is "
        f"{MAX_TRANSITIONS:.1e}. Use method='auto' or 'perturb', or draw samples."
    )


def _graph(n: int, tail: Ints, head: Ints, edge: Ints) -> frontier.Graph:
    """The neighbours of every node along some of the edges."""
    i, j = tail[edge], head[edge]
    ptr, half = half_edges(n, i, j)
    return frontier.Graph(ptr, np.concatenate([j, i])[half], np.concatenate([edge, edge])[half])


def _trimmed(array: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """The part that is filled; a copy where that saves memory."""
    return array[:size] if 2 * size > array.size else array[:size].copy()


def _checked(
    n_nodes: int, tail: ArrayLike, head: ArrayLike, capacity: ArrayLike, free: ArrayLike
) -> tuple[Ints, Ints, Ints, Bools]:
    if n_nodes == 0 and np.size(tail) == np.size(head) == 0:
        ends = np.zeros(0, np.int64), np.zeros(0, np.int64)
    else:
        ends = checked_edges(n_nodes, tail, head)
    units, slack = np.asarray(capacity), np.asarray(free)
    for name, given, kinds in (("capacity", units, "iu"), ("free", slack, "b")):
        if given.shape not in ((), (n_nodes,)) or (given.size and given.dtype.kind not in kinds):
            what = "whole number" if name == "capacity" else "boolean"
            raise ValueError(
                f"{name}: expected a {what} or {n_nodes} of them, got {given.dtype} of shape "
                f"{given.shape}"
            )
    if units.size and units.min() < 0:
        raise ValueError(f"capacity: expected numbers >= 0, got {units.min()}")
    each = np.broadcast_to(units.astype(np.int64), n_nodes).copy()
    return *ends, each, np.broadcast_to(slack.astype(np.bool_), n_nodes).copy()
