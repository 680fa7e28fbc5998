"""Exact inference in binary pairwise models of small treewidth, for many samples on one graph.

The model is P(x) ~ exp(sum of fields_n x_n + sum of couplings_e x_i x_j),
x in {0, 1}. Elimination as in `junction_tree`, compiled, over several samples at a time and with
plain numbers instead of logarithms, which no sample of moderate scores can make overflow; the
others go to `JunctionTree`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._deadline import check_time, in_time
from ..edge_lists import checked_edges
from . import _binary_junction_tree_kernels as kernels
from .junction_tree import JunctionTree
from .separators import elimination_order, links_of, plan_of, require_small

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class SampleMarginals(NamedTuple):
    """log Z of every sample, P(x_n = 1) and P(x_i = x_j = 1)."""

    log_partition: Floats
    nodes: Floats
    edges: Floats


class BinaryJunctionTree:
    """A junction tree of a graph whose nodes have two states, for any scores.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,), every undirected edge once

    Attributes
    ----------
    treewidth : width of the elimination order
    n_entries : entries of all separators, the cost of one sample

    Raises
    ------
    TooLargeToCount : the tables of the best order found would be too large

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

    def __init__(self, n_nodes: int, tail: Any, head: Any):
        self.n_nodes = int(n_nodes)
        self.tail, self.head = checked_edges(self.n_nodes, tail, head)
        self.order = elimination_order(self.n_nodes, self.tail, self.head, 2)
        links = links_of(self.order, self.tail, self.head)
        plan = plan_of(links, self.n_nodes, 2)
        require_small(plan, 2)
        self.treewidth = plan.width
        separators = plan.separators
        sizes = np.array([2 ** len(s) for s in separators], dtype=np.int64)
        self.n_entries = int(sizes.sum())
        self._largest = int(sizes.max())
        edge_of = {(k, other): e for e, (k, other) in enumerate(links.tolist())}
        members = [m for s in separators for m in s]
        edges = [edge_of.get((k, m), -1) for k, s in enumerate(separators) for m in s]
        children: list[list[int]] = [[] for _ in separators]
        for k, separator in enumerate(separators):
            if separator:
                children[separator[0]].append(k)
        places = [
            _places(separators[k], separators[child])
            for k, own in enumerate(children)
            for child in own
        ]
        self._tree = (
            self.order,
            _starts(sizes)[:-1],
            _starts([len(s) for s in separators]),
            np.array(members, dtype=np.int64),
            np.array(edges, dtype=np.int64),
            _starts([len(own) for own in children]),
            np.array([child for own in children for child in own], dtype=np.int64),
            _starts([part.size for part in places]),
            np.concatenate([*places, np.zeros(0, dtype=np.int32)]),
        )

    def marginals(
        self, fields: Floats, couplings: Floats, known: Ints | None = None
    ) -> SampleMarginals:
        """Exact marginals given what is known.

        Parameters
        ----------
        fields : array of shape (n_samples, n_nodes)
        couplings : array of shape (n_samples, n_edges), or (1, n_edges) if all have the same
        known : integer array of shape (n_samples, n_nodes), optional
            States of nodes that are given, -1 elsewhere; log Z sums over the others.
        """
        n, n_edges = fields.shape[0], self.tail.shape[0]
        found = SampleMarginals(np.empty(n), np.empty((n, self.n_nodes)), np.empty((n, n_edges)))
        total = np.abs(fields).sum(axis=1) + np.abs(couplings).sum(axis=1)
        wide = total > 600.0  # else exponentials and their sums over all labellings are finite
        given = np.empty((0, self.n_nodes), dtype=np.int64) if known is None else known
        scores = np.ascontiguousarray(fields), np.ascontiguousarray(couplings)
        states = np.ascontiguousarray(given, dtype=np.int64)
        narrow = np.flatnonzero(~wide)
        size = max(self._lanes, 2**22 // self.n_entries)  # of a call: below half a second
        for start in range(0, narrow.size, size):
            check_time("exact marginals")
            part = narrow[start : start + size]
            lanes = min(self._lanes, part.size)
            kernels.marginals(self._tree, *scores, states, part, lanes, self.n_entries, *found)
        for m in in_time(np.flatnonzero(wide).tolist(), "exact marginals"):
            self._logarithmic(found, m, fields, couplings, known)
        return found

    def best(
        self, fields: Floats, couplings: Floats, known: Ints | None = None
    ) -> tuple[Ints, Floats]:
        """Labellings of the largest score, (n_samples, n_nodes), and these scores."""
        n = fields.shape[0]
        states, scores = np.empty((n, self.n_nodes), dtype=np.int64), np.empty(n)
        for start in range(0, n, self._lanes):
            check_time("the best labellings")
            part = np.arange(start, min(start + self._lanes, n))
            lanes = part.size
            messages = np.empty((self.n_entries, lanes))
            choices = np.empty((self.n_entries, lanes), dtype=np.int8)
            by_bucket = np.empty((self.n_nodes, lanes), dtype=np.int64)
            best = np.empty(lanes)
            with np.errstate(divide="ignore"):
                penalties = np.log(_allowed(known, part, self.n_nodes))
            kernels.maximise(
                self._tree, _by_lane(fields, part), _by_lane(couplings, part), penalties,
                np.empty((self._largest, lanes)), messages, choices, by_bucket, best,
            )  # fmt: skip
            states[part[:, None], self.order] = by_bucket.T
            scores[part] = best
        return states, scores

    def sample(
        self,
        fields: Floats,
        couplings: Floats,
        rng: np.random.Generator,
        known: Ints | None = None,
    ) -> Ints:
        """One labelling of each sample from its distribution, shape (n_samples, n_nodes).

        Node by node: a node is drawn from its marginal given those drawn before, and those that
        are `known` (-1 elsewhere).
        """
        states = np.full(fields.shape, -1, dtype=np.int64) if known is None else known.copy()
        for n in self.order[::-1]:
            p = self.marginals(fields, couplings, states).nodes[:, n]
            drawn = rng.random(fields.shape[0]) < p
            states[:, n] = np.where(states[:, n] < 0, drawn, states[:, n])
        return states

    # ------------------------------------------------------------------ some samples
    @property
    def _lanes(self) -> int:
        """Samples at a time: eight where their tables take up to 4 MB."""
        return max(1, min(8, 2**19 // self.n_entries))

    def _logarithmic(
        self, found: SampleMarginals, m: int, fields: Floats, couplings: Floats, known: Ints | None
    ) -> None:
        nodes, edges = np.zeros((self.n_nodes, 2)), np.zeros((self.tail.shape[0], 2, 2))
        nodes[:, 1], edges[:, 1, 1] = fields[m], couplings[m % couplings.shape[0]]
        if known is not None:
            nodes[known[m] == 1, 0] = -np.inf
            nodes[known[m] == 0, 1] = -np.inf
        tree = JunctionTree(self.n_nodes, self.tail, self.head, nodes, edges, self.order)
        found.log_partition[m] = tree.log_partition
        found.nodes[m] = tree.node_marginals[:, 1]
        found.edges[m] = tree.edge_marginals[:, 1, 1]


def _starts(sizes: Any) -> Ints:
    """First places of consecutive parts, and the end."""
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, dtype=np.int64))]).astype(np.int64)


def _places(parent: tuple[int, ...], child: tuple[int, ...]) -> NDArray[np.int32]:
    """Entry of the child's separator, its parent in state 0, for every entry of the parent's."""
    found = np.zeros(1, dtype=np.int32)
    for member in parent:
        step = 1 << child.index(member) if member in child else 0
        found = np.concatenate([found, found + np.int32(step)])
    return found


def _by_lane(scores: Floats, part: Ints) -> Floats:
    """Scores of some samples, (n_coordinates, n_lanes); one row is that of all samples."""
    rows = np.zeros_like(part) if scores.shape[0] == 1 else part
    return np.ascontiguousarray(scores[rows].T)


def _allowed(known: Ints | None, part: Ints, n_nodes: int) -> Floats:
    """Whether a node may have state 0 and 1, shape (2, n_nodes, n_lanes)."""
    if known is None:
        return np.ones((2, n_nodes, part.size))
    states = known[part].T
    return np.ascontiguousarray(np.stack([states != 1, states != 0]).astype(np.float64))
