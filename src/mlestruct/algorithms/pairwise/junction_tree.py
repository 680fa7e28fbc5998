"""Exact inference in pairwise models of small treewidth, P(x) proportional to exp(total score).

Nodes are eliminated one after another. The *bucket* of a node has a table over its own state and
the states of its separator: the nodes that its elimination couples. All of them are eliminated
later; the first of them is the node's parent, to which the bucket sends a message over the
separator. The bucket keeps the conditional distribution of the node given its separator. From the
conditionals, last bucket first, follow marginals and independent draws (Koller and Friedman,
Probabilistic Graphical Models, chapters 9 and 10), and with maxima for sums the best labelling.

Messages are plain numbers if sums of exponentials cannot leave the range of floating-point
numbers, otherwise logarithms. Scores may have any size, and -inf forbids a state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._running import check_time
from ...exceptions import InfeasibleError, TooLargeToCount
from ..edge_lists import checked_edges
from ..elimination import frontier_order, minimum_fill_order
from . import _junction_tree_kernels as kernels
from .tables import check_scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST_TABLE = 2**22  # entries of one table: 32 MB
LARGEST_TOTAL = 2**25  # entries of all tables: 256 MB


class TreeMarginals(NamedTuple):
    """log Z of every sample, P(x_n = s), and P(x_tail = s, x_head = t)."""

    log_partition: Floats
    nodes: Floats
    edges: Floats


class JunctionTree:
    """The distributions P(x) ~ exp(sum of node scores + sum of edge scores) of samples on a graph.

    Node scores have the shape (n_samples, n_nodes, n_states), edge scores (n_samples, n_edges,
    n_states, n_states), the state of the tail first, or (1, ...) if all samples have the same.
    Scores of -inf forbid a state or a pair of states.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    n_states : int, of every node
    order : integer array of shape (n_nodes,), optional
        The elimination order; searched if None.

    Attributes
    ----------
    order : the elimination order
    treewidth : its width, one less than the number of nodes of the largest table; an upper bound of
        the treewidth of the graph
    n_entries : entries of all separators, the cost of one sample

    Raises
    ------
    TooLargeToCount : the tables of the best order found would be too large

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.algorithms.pairwise.junction_tree import JunctionTree
    >>> tree = JunctionTree(3, [0, 1, 2], [1, 2, 0], n_states=2)
    >>> equal = np.log([[3.0, 1.0], [1.0, 3.0]])
    >>> found = tree.marginals(np.zeros((1, 3, 2)), np.array([[equal] * 3]))
    >>> print(np.exp(found.log_partition).round(6))  # 27 twice, 3 six times
    [72.]
    >>> found.edges[0, 0].round(6).tolist()
    [[0.416667, 0.083333], [0.083333, 0.416667]]
    """

    def __init__(
        self,
        n_nodes: int,
        tail: ArrayLike,
        head: ArrayLike,
        n_states: int,
        order: ArrayLike | None = None,
    ):
        self.n_nodes, self.n_states = int(n_nodes), int(n_states)
        if self.n_states < 2:
            raise ValueError(f"n_states: expected at least 2, got {n_states}")
        self.tail, self.head = checked_edges(self.n_nodes, tail, head)
        if order is None:
            self.order = elimination_order(self.n_nodes, self.tail, self.head, self.n_states)
        else:
            self.order = _checked_order(order, self.n_nodes)
        plan = _plan(self.order, self.tail, self.head, self.n_states)
        _require_small(plan, self.n_states)
        self.treewidth = plan.width
        self._tree = self._buckets(plan.separators)
        self.n_entries = int(self._tree.first[-1])

    def _buckets(self, separators: list[list[int]]) -> kernels.Tree:
        place = np.empty(self.n_nodes, dtype=np.int64)
        place[self.order] = np.arange(self.n_nodes)
        edge_of: dict[tuple[int, int], int] = {}
        ends = zip(place[self.tail].tolist(), place[self.head].tolist(), strict=True)
        for e, (i, j) in enumerate(ends):  # to the end that is eliminated first
            edge_of[min(i, j), max(i, j)] = e if i < j else e + self.tail.size
        members = [m for s in separators for m in s]
        half = [edge_of.get((k, m), -1) for k, s in enumerate(separators) for m in s]
        children: list[list[int]] = [[] for _ in separators]
        for k, separator in enumerate(separators):
            if separator:
                children[separator[-1]].append(k)
        child, steps = [c for own in children for c in own], []
        for c in child:
            power = {m: self.n_states**j for j, m in enumerate(separators[c])}
            steps.append([power.get(m, 0) for m in separators[separators[c][-1]]])
        return kernels.Tree(
            node=self.order,
            first=_starts([self.n_states ** len(s) for s in separators]),
            ptr=_starts([len(s) for s in separators]),
            member=self.order[np.array(members, dtype=np.int64)],
            half=np.array(half, dtype=np.int64),
            child_ptr=_starts([len(own) for own in children]),
            child=np.array(child, dtype=np.int64),
            step_ptr=_starts([len(own) for own in steps]),
            step=np.array([step for own in steps for step in own], dtype=np.int64),
        )

    # ------------------------------------------------------------------ questions
    def marginals(self, node_scores: Floats, edge_scores: Floats) -> TreeMarginals:
        """log Z and exact marginals of every sample.

        Raises `InfeasibleError` if every labelling of some sample is forbidden.
        """
        nodes, edges, kinds = self._checked(node_scores, edge_scores)
        found = np.empty_like(nodes), np.empty((len(nodes), *edges.shape[1:]))
        no_draws = np.empty((len(nodes), 0, self.n_nodes))
        log_z, _ = self._solve("exact marginals", kinds, nodes, edges, no_draws, *found)
        return TreeMarginals(log_z, found[0][..., 0], found[1])

    def best(self, node_scores: Floats, edge_scores: Floats) -> tuple[Ints, Floats]:
        """A labelling of the largest score of every sample, (n_samples, n_nodes), and the score."""
        nodes, edges, _ = self._checked(node_scores, edge_scores)
        kinds, zeros = np.full(len(nodes), kernels.MAXIMA), np.zeros((len(nodes), 1, self.n_nodes))
        states = self._solve("the best labellings", kinds, nodes, edges, zeros)[1][:, 0]
        m, ends = np.arange(len(nodes))[:, None], (states[:, self.tail], states[:, self.head])
        of_nodes = nodes[m, np.arange(self.n_nodes), states, 0]
        of_edges = edges[m % len(edges), np.arange(self.tail.size), *ends]
        return states, of_nodes.sum(axis=1) + of_edges.sum(axis=1)

    def sample(
        self, node_scores: Floats, edge_scores: Floats, n_draws: int, rng: np.random.Generator
    ) -> Ints:
        """Independent labellings of every sample, shape (n_samples, n_draws, n_nodes)."""
        if n_draws < 1:
            raise ValueError(f"n_samples: expected at least 1, got {n_draws}")
        nodes, edges, kinds = self._checked(node_scores, edge_scores)
        uniform = rng.random((len(nodes), n_draws, self.n_nodes))
        return self._solve("exact samples", kinds, nodes, edges, uniform)[1]

    def _checked(self, node_scores: Floats, edge_scores: Floats) -> tuple[Floats, Floats, Ints]:
        """Arrays of shapes (n_samples, n_nodes, L, 1) and (n_samples or 1, n_edges, L, L).

        And the kind of messages of every sample: products, if these and sums of exponentials over
        all labellings are finite.
        """
        nodes = np.ascontiguousarray(node_scores, dtype=np.float64)
        edges = np.ascontiguousarray(edge_scores, dtype=np.float64)
        size, n_edges = self.n_states, self.tail.size
        if nodes.ndim != 3 or nodes.shape[1:] != (self.n_nodes, size):
            raise ValueError(
                f"node_scores: expected shape (n_samples, {self.n_nodes}, {size}), "
                f"got {nodes.shape}"
            )
        if edges.shape[1:] != (n_edges, size, size) or len(edges) not in (1, len(nodes)):
            raise ValueError(
                f"edge_scores: expected shape {(len(nodes), n_edges, size, size)} or "
                f"{(1, n_edges, size, size)}, got {edges.shape}"
            )
        nodes, sizes = nodes[..., None], self.n_nodes * np.log(size)
        for name, scores in (("node_scores", nodes), ("edge_scores", edges)):
            own = np.zeros(len(scores))
            kernels.add_sizes(scores, own)
            if not (own < 1e200).all():
                check_scores(name, scores, self.n_nodes + n_edges)
            sizes = sizes + own
        return nodes, edges, np.where(sizes < 600.0, kernels.PRODUCTS, kernels.LOGARITHMS)

    def _solve(
        self,
        doing: str,
        kinds: Ints,
        nodes: Floats,
        edges: Floats,
        uniform: Floats,
        *marginals: Floats,
    ) -> tuple[Floats, Ints]:
        """log Z and draws; marginals are written if there are no draws."""
        log_z, states = np.empty(len(kinds)), np.empty(uniform.shape, dtype=np.int64)
        found = marginals or (nodes[:0], edges[:0])
        most = max(1, 2**22 // self.n_entries)  # samples whose tables take 100 MB
        for kind in (kernels.PRODUCTS, kernels.LOGARITHMS, kernels.MAXIMA):
            samples = np.flatnonzero(kinds == kind)
            if not samples.size:
                continue
            lanes = min(128 if self.n_entries < 10_000 else 32, most, samples.size)  # in the cache
            for start in range(0, samples.size, 2 * most):  # in less than half a second
                check_time(doing)
                part = samples[start : start + 2 * most]
                kernels.solve(
                    self._tree, kind, part, lanes, nodes, edges, uniform, log_z, states, *found
                )
        if np.isneginf(log_z).any():
            raise InfeasibleError(
                "every labelling has a score of -inf: nothing is admissible", [], "nodes"
            )
        return log_z, states


class BinaryMarginals(NamedTuple):
    """log Z of every sample, P(x_n = 1) and P(x_i = x_j = 1)."""

    log_partition: Floats
    nodes: Floats
    edges: Floats


class BinaryJunctionTree:
    """A junction tree of two states with the scores of `BinaryPairwise`, for many samples.

    P(x) ~ exp(sum of fields_n x_n + sum of couplings_e x_i x_j) over the states that agree with
    what is known. Fields have the shape (n_samples, n_nodes), couplings (n_samples, n_edges), or
    (1, n_edges) if all samples have the same; known states (n_samples, n_nodes), -1 if unknown.

    Examples
    --------
    >>> import numpy as np
    >>> tree = BinaryJunctionTree(3, [0, 1, 2], [1, 2, 0])
    >>> found = tree.marginals(np.zeros((1, 3)), np.full((1, 3), np.log(2.0)))
    >>> print(np.exp(found.log_partition).round(6))  # 1, three of 1, three of 2, one of 8
    [18.]
    >>> found.nodes.round(4)
    array([[0.7222, 0.7222, 0.7222]])
    """

    def __init__(self, n_nodes: int, tail: ArrayLike, head: ArrayLike):
        self.tables = JunctionTree(n_nodes, tail, head, 2)
        self.n_nodes, self.tail, self.head = n_nodes, self.tables.tail, self.tables.head
        self.n_entries = self.tables.n_entries

    def marginals(
        self, fields: Floats, couplings: Floats, known: Ints | None = None
    ) -> BinaryMarginals:
        """Exact marginals given what is known; log Z sums over the other states."""
        n, parts = len(fields), []
        size = max(1, 2**21 // (self.n_nodes + 2 * len(self.tail)))  # of 30 MB of tables
        for start in range(0, n, size):
            part = slice(start, start + size)
            own = couplings if len(couplings) == 1 else couplings[part]
            given = None if known is None else known[part]
            found = self.tables.marginals(*_tables(fields[part], own, given))
            both = found.edges[:, :, 1, 1].copy()
            parts.append((found.log_partition, found.nodes[:, :, 1].copy(), both))
        return BinaryMarginals(*map(np.concatenate, zip(*parts, strict=True)))

    def best(
        self, fields: Floats, couplings: Floats, known: Ints | None = None
    ) -> tuple[Ints, Floats]:
        """Labellings of the largest score, (n_samples, n_nodes), and these scores."""
        return self.tables.best(*_tables(fields, couplings, known))

    def sample(
        self,
        fields: Floats,
        couplings: Floats,
        rng: np.random.Generator,
        known: Ints | None = None,
    ) -> Ints:
        """One labelling of each sample from its distribution, shape (n_samples, n_nodes)."""
        return self.tables.sample(*_tables(fields, couplings, known), 1, rng)[:, 0]


def _tables(fields: Floats, couplings: Floats, known: Ints | None) -> tuple[Floats, Floats]:
    """Scores of all states; -inf forbids those that are not the known ones."""
    nodes = np.zeros((*fields.shape, 2))
    nodes[:, :, 1] = fields
    if known is not None:
        nodes[known == 1, 0] = nodes[known == 0, 1] = -np.inf
    edges = np.zeros((*couplings.shape, 2, 2))
    edges[:, :, 1, 1] = couplings
    return nodes, edges


# ---------------------------------------------------------------------- elimination orders
class _Plan(NamedTuple):
    """What an order leads to: separators as places in it, their width, entries of all tables."""

    separators: list[list[int]]
    width: int
    n_entries: int


def elimination_order(n_nodes: int, tail: Ints, head: Ints, n_states: int) -> Ints:
    """A frontier order or a minimum-fill order, whichever has fewer entries in all tables.

    With two states the base-2 logarithms of these are, frontier against minimum fill: 23.9 and
    26.6 on a grid of 17 x 17, 12.7 and 11.0 on a tree of 500 nodes, 32.6 and 20.9 on a random graph
    of 1000 nodes and 788 edges. Raises `TooLargeToCount` if neither keeps to the limits.
    """
    widest = _widest(n_states)
    found = []
    if tail.size >= n_nodes:  # otherwise perhaps a forest, whose best order is of minimum fill
        log_states = np.full(n_nodes, np.log2(n_states))
        order = frontier_order(n_nodes, tail, head, log_states, (widest + 1) * np.log2(n_states))
        if order is not None:
            found.append((_plan(order, tail, head, n_states), order))
    order = minimum_fill_order(n_nodes, tail, head, found[0][0].width if found else widest)
    found.append((_plan(order, tail, head, n_states), order))
    plan, order = min(found, key=lambda pair: (pair[0].width > widest, pair[0].n_entries))
    _require_small(plan, n_states)
    return order


def require_width(width: int, n_states: int) -> None:
    """Raise `TooLargeToCount` if tables of `width` + 1 nodes would be too large."""
    _require_small(_Plan([], width, 0), n_states)


def _widest(n_states: int) -> int:
    """The largest number of neighbours that a node may have when it is eliminated."""
    width = 0
    while n_states ** (width + 2) <= LARGEST_TABLE:
        width += 1
    return width


def _plan(order: Ints, tail: Ints, head: Ints, n_states: int) -> _Plan:
    """The separators of an order, latest members first, up to the first that is too large."""
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    later: list[set[int]] = [set() for _ in range(order.size)]
    for i, j in zip(place[tail].tolist(), place[head].tolist(), strict=True):
        later[min(i, j)].add(max(i, j))
    widest, separators, n_entries = _widest(n_states), [], 0
    for members in later:
        separators.append(sorted(members, reverse=True))
        n_entries += n_states ** (len(members) + 1)
        if len(members) > widest:
            break
        if members:
            parent = min(members)
            later[parent] |= members
            later[parent].discard(parent)
    return _Plan(separators, max(map(len, separators)), n_entries)


def _require_small(plan: _Plan, n_states: int) -> None:
    """Raise `TooLargeToCount` if a table, or all tables together, would be too large."""
    size = plan.width + 1
    if plan.width > _widest(n_states):
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


def _checked_order(order: ArrayLike, n_nodes: int) -> Ints:
    """`order` as an int64 array, if it has every node once."""
    found = np.asarray(order)
    if found.shape != (n_nodes,) or (np.sort(found) != np.arange(n_nodes)).any():
        raise ValueError(f"order: expected every number from 0 to {n_nodes - 1} once")
    return found.astype(np.int64)


def _starts(sizes: list[int]) -> Ints:
    """First places of consecutive parts, and the end."""
    return np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))]).astype(np.int64)
