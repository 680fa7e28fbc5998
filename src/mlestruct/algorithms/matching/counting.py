"""Exact sums over all matchings of a small or narrow graph, and independent random matchings.

Counting matchings is #P-hard: the number of frontier states doubles with every few nodes, so
problems that would take too long are refused. The states do not depend on scores and are kept for
the next ones.
"""

from __future__ import annotations

from math import fsum
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..._arguments import as_count
from ...exceptions import InfeasibleError, TooLargeToCount
from ..edge_lists import checked_edges, checked_scores
from ..elimination import frontier_order
from . import _counting_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_TRANSITIONS = 1 << 23  # of 8 bytes each; listing these takes a third of a second
LOG_BASE = 354.875, 0.01635644669199842  # 512 log 2 in two parts; few powers of the first round


class CountedMatchings:
    """All matchings of a graph, with P(y) proportional to exp(total score), by exact counting.

    The total score is that of the chosen edges and of the capacity that nodes leave unused. Sums
    are exact up to rounding, for scores of any size.

    The limit depends on the graph. Near it are complete graphs of 28 nodes, or 16 of capacity 2,
    complete bipartite graphs with 19 nodes on either side, or 16 if all are free, or 11 of capacity
    2, and square grids of 16 by 16; trees, narrow grids and other graphs with small separators may
    have thousands of nodes.

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
        in less than a second.
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
        graph = _checked(n_nodes, tail, head, capacity, free)
        i, j, units, slack = graph
        given = checked_scores("scores", scores, i.size)
        rest = checked_scores("single", np.where(slack, _singles(single, slack), 0.0), slack.size)
        # A unit that stays unused has the weight 1 if its score moves to the edges.
        reduced = np.append(given - rest[i] - rest[j], 0.0)
        self._states = _kept_states(graph)
        power = np.rint(reduced / sum(LOG_BASE))
        left = (reduced - power * LOG_BASE[0]) - power * LOG_BASE[1]
        self._weight, self._power = np.exp(np.clip(left, -177.4, 177.4)), power
        self._ways, self._exponent = np.empty((2, self._states.first.size - 1))
        used = np.zeros(i.size + 1)
        kernels.count(self._states, self._weight, power, self._ways, self._exponent, used)
        last = self._exponent[0]
        parts = [np.log(self._ways[0]), last * LOG_BASE[0], last * LOG_BASE[1]]
        self.log_partition = fsum([*(units * rest).tolist(), *parts])
        self.edge_marginals = np.minimum(used[:-1], 1.0)
        taken = np.bincount(i, self.edge_marginals, slack.size)
        taken += np.bincount(j, self.edge_marginals, slack.size)
        self.unused = np.where(slack, np.maximum(units - taken, 0.0), 0.0)

    def sample(self, n_samples: int, rng: np.random.Generator) -> Bools:
        """Independent random matchings, as a boolean array of shape (n_samples, n_edges)."""
        as_count(n_samples, "n_samples", 0)
        chosen = np.zeros((n_samples, self.edge_marginals.size), np.bool_)
        kernels.draw(
            self._states, self._weight, self._power, self._ways, self._exponent, rng, chosen
        )
        return chosen


_kept: dict[Any, kernels.States | TooLargeToCount] = {}  # least recently used first
_lock = Lock()


def _kept_states(graph: tuple[Ints, Ints, Ints, Bools]) -> kernels.States:
    """The states of a graph, kept with those of the last ones, up to 64 MB; refusals, too."""
    key = tuple(array.tobytes() for array in graph)
    with _lock:
        found = _kept.pop(key, None)
    if found is None:
        try:
            found = _list_states(*graph)
        except TooLargeToCount as error:
            found = error.with_traceback(None)
    with _lock:
        _kept[key] = found
        while sum(_size(kept) for kept in _kept.values()) > MAX_TRANSITIONS:
            del _kept[next(iter(_kept))]
    if isinstance(found, TooLargeToCount):
        raise TooLargeToCount(*found.args)
    return found


def _size(kept: kernels.States | TooLargeToCount) -> int:
    return 2**13 if isinstance(kept, TooLargeToCount) else int(kept.to.size)


def _list_states(tail: Ints, head: Ints, capacity: Ints, free: Bools) -> kernels.States:
    """The states of matchings that fill all nodes which are not free.

    Raises `TooLargeToCount` or `InfeasibleError`.
    """
    n, n_edges = capacity.size, tail.size
    edge = np.flatnonzero((capacity[tail] > 0) & (capacity[head] > 0))
    i, j = tail[edge], head[edge]
    degree = np.bincount(i, minlength=n) + np.bincount(j, minlength=n)
    lacking = np.flatnonzero(~free & (capacity > degree))
    if lacking.size:
        v = int(lacking[0])
        raise InfeasibleError(
            f"node {v} must have {capacity[v]} partners but has edges to {degree[v]} nodes "
            "that can take any",
            lacking.tolist(),
            "nodes",
        )
    units = np.minimum(capacity, degree)
    order = None if edge.size else np.arange(n)
    if 0 < edge.size <= kernels.MAX_BITS * n:  # else too many nodes are open at once, in any order
        order = frontier_order(n, i, j, np.ceil(np.log2(units + 1.0)), kernels.MAX_BITS)
    if order is None:
        raise _too_large(n, i, j, int(np.argmax(degree)))
    steps = _steps(order, i, j, edge, units, free)
    step, is_too_large, states = kernels.expand(steps, n_edges, MAX_TRANSITIONS)
    if is_too_large:
        raise _too_large(n, i, j, steps.node[step])
    if step < steps.node.size:
        inside = _component(n, i, j, steps.node[step])
        nodes = np.flatnonzero(inside & ~free).tolist()
        raise InfeasibleError(
            f"no matching fills the nodes {nodes[:10]} that must be filled", nodes, "nodes"
        )
    return kernels.States(*states)


def _steps(
    order: Ints, tail: Ints, head: Ints, edge: Ints, units: Ints, free: Bools
) -> kernels.Steps:
    """The steps of an elimination order."""
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    first, second = np.sort([place[tail], place[head]], axis=0)
    by_place = np.lexsort((second, first))
    node, other = order[first[by_place]], order[second[by_place]]
    is_new = units[node] > 1
    is_new[1:] |= node[1:] != node[:-1]
    is_new[:1] = True
    step = np.cumsum(is_new) - 1
    enter, leave = np.full(order.size, edge.size), np.full(order.size, -1)
    for ends in (node, other):
        np.minimum.at(enter, ends, step)
        np.maximum.at(leave, ends, step)
    ptr = np.append(np.flatnonzero(is_new), edge.size)
    return kernels.Steps(ptr, node[is_new], edge[by_place], other, enter, leave, units, free)


def _too_large(n: int, tail: Ints, head: Ints, node: int) -> TooLargeToCount:
    inside = _component(n, tail, head, node)
    return TooLargeToCount(
        f"too large to count the matchings exactly: it would take more than {MAX_TRANSITIONS:.1e} "
        f"transitions between states, mostly for a connected group of {int(inside.sum())} nodes "
        f"and {int(inside[tail].sum())} edges. Use method='auto' or 'perturb', or draw samples."
    )


def _component(n: int, tail: Ints, head: Ints, node: int) -> Bools:
    """The nodes that are connected with a node."""
    links = coo_array((np.ones(tail.size, np.int8), (tail, head)), (n, n))
    component = connected_components(links, directed=False)[1]
    return np.asarray(component == component[node])


def _singles(given: ArrayLike | None, free: Bools) -> Floats:
    single = np.zeros(free.size) if given is None else np.asarray(given, np.float64)
    if single.shape not in ((), free.shape):
        raise ValueError(
            f"single: expected one score per node, shape {free.shape}, got {single.shape}"
        )
    return single


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
