"""Certified marginals of pairwise models: convergent tree-reweighted message passing (TRW).

`TRW` takes any graph and any number of states. `TableMarginals` and the schedule of sweeps and
certificates are also those of grids (`grid_trw`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ..._running import check_time, is_over
from ..edge_lists import half_edges
from . import _trw_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SET_UP = "set-up of message passing"
LEARNING_SWEEPS = 5  # of a call with one certificate: half the time of 3 sweeps with one each
WIDE = 150.0  # range of score / rho: products of a few exponentials of this are finite

Messages = tuple[Floats, Floats]


@dataclass(frozen=True, eq=False)
class TableMarginals:
    """Marginals with their certificate: log Z_rho lies in [value, upper_bound].

    nodes : ndarray of shape (n_nodes, L)
    edges : ndarray of shape (n_edges, L, L), or (0, L, L) if only their sums were asked for
    sums : ndarray of shape (n_groups, L, L), totals of the tables of groups of edges
    warm : messages, for the next call
    """

    nodes: Floats
    edges: Floats
    sums: Floats
    value: float
    upper_bound: float
    warm: Any
    sweeps: int


# ---------------------------------------------------------------------- sweeps and certificates
def pass_in_time(sweep: Callable[[int], None], following: int, at_once: int = 1) -> int:
    """As many sweeps as wanted, fewer if the time is up, but at least one; how many.

    `sweep` makes some of them, at most `at_once`, between which the time is not asked.
    """
    done = 0
    while done < following and not (done and is_over()):
        some = min(at_once, following - done)
        sweep(some)
        done += some
    return done


def sweeps_needed(gaps: Sequence[float], last: int, tol: float, longest: int = 8) -> int:
    """Sweeps until the next certificate, from the convergence rate over the `last` sweeps.

    At most `longest`: a certificate costs about as much as a sweep.
    """
    if not tol > 0.0:
        return longest
    if len(gaps) < 2 or not 0.0 < gaps[-1] < gaps[-2]:
        return 1
    rate = log(gaps[-2] / gaps[-1]) / last
    wanted = (log(gaps[-1]) - log(tol)) / rate if rate > 0.0 else longest
    return max(ceil(min(wanted, longest)), 1)


def only_rounding_left(gaps: Sequence[float], scale: float) -> bool:
    """Whether the last certificates differ by rounding errors only."""
    return (
        len(gaps) > 3
        and abs(gaps[-1]) > 0.5 * abs(gaps[-4])
        and abs(gaps[-1]) <= 1e-12 * max(1.0, abs(scale))
    )


# ---------------------------------------------------------------------- the oracle
class NumberedGraph:
    """A graph, numbered in the order of message passing.

    Half-edges are those of the first node, by the number of the neighbour, then of the second.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,)
    is_forest : bool
        If True, one sweep from the leaves of the trees and back is exact.

    Attributes
    ----------
    given : Numbering
    tail, head : the same, numbered
    ptr : shape (n_nodes + 1,), first half-edge of every node
    later : shape (n_nodes,), its first half-edge that leads to a node of a larger number
    half, node, mate : shape (2 n_edges,), of every half-edge: the edge, plus n_edges at its head;
        the neighbour; the half-edge there
    slot : shape (2 n_edges,), half-edges at all tails, then at all heads
    """

    def __init__(self, n_nodes: int, tail: Any, head: Any, is_forest: bool):
        self.given = numbering(n_nodes, tail, head, is_forest)
        place, edges = self.given.node_place, self.given.edges
        self.tail, self.head = place[tail][edges], place[head][edges]
        n_edges = edges.shape[0]
        check_time(SET_UP)
        self.ptr, self.half = half_edges(n_nodes, self.tail, self.head)
        check_time(SET_UP)
        self.slot = np.argsort(self.half)
        self.mate = self.slot[(self.half + n_edges) % max(2 * n_edges, 1)]
        self.node = np.concatenate([self.head, self.tail])[self.half]
        here = np.repeat(np.arange(n_nodes), np.diff(self.ptr))
        self.later = self.ptr[:-1] + np.bincount(here[self.node < here], minlength=n_nodes)


class TRW(NumberedGraph):
    """Message passing over one graph with one rho.

    Parameters
    ----------
    n_nodes, tail, head, is_forest : as in `NumberedGraph`
    reweighting : object with rho, counting, into_tail, into_head, as `structures.rho.Reweighting`
    """

    def __init__(self, n_nodes: int, tail: Any, head: Any, reweighting: Any, is_forest: bool):
        super().__init__(n_nodes, tail, head, is_forest)
        check_time(SET_UP)
        edges = self.given.edges
        self.is_forest, self.has_bound = is_forest, reweighting.into_tail is not None
        self.rho, self.counting = reweighting.rho[edges], reweighting.counting[self.given.nodes]
        if self.has_bound:
            into = np.concatenate([reweighting.into_tail[edges], reweighting.into_head[edges]])
        else:
            into = 0.5 * np.concatenate([self.rho, self.rho])
        self.into, self.edge = into[self.half], self.half % max(edges.shape[0], 1)
        self.rho_at_half = self.rho[self.edge]
        self.slack = 1.0 - np.bincount(self.node[self.mate], self.into, n_nodes)

    def __call__(
        self,
        nodes: Floats,
        tables: Floats,
        warm: Any,
        tol: float,
        max_sweeps: int,
        first: int = 1,
        shared: bool = False,
    ) -> TableMarginals:
        """Marginals under node scores (n_nodes, L) and edge scores.

        tables : of shape (n_edges, L, L), or if `shared` (1, L, L): one table for all edges; then
            only the sum of the edges' marginals is computed
        first : sweeps before the first certificate
        """
        given, n_states = self.given, nodes.shape[1]
        states = (0, 0) if n_states == 2 else ()
        nodes = nodes[given.nodes]
        group = np.zeros_like(given.edges) if shared else given.edges
        weights = np.empty((group.shape[0], n_states, n_states))
        is_wide, constant = kernels.edge_tables(states, tables, group, self.rho, WIDE, weights)
        wide = is_wide[self.edge]
        logs, messages = self._first_messages(warm, wide, n_states)
        model = (wide, nodes, tables, group, weights, logs, messages)
        beliefs, damping = np.empty_like(nodes), 0.0

        def sweep(n_sweeps: int) -> None:
            for _ in range(n_sweeps):
                kernels.pass_messages(
                    states,
                    self.ptr,
                    self.later,
                    self.mate,
                    self.half,
                    self.rho_at_half,
                    *model,
                    damping,
                )

        sweeps, least, most = 0, -np.inf, np.inf
        gaps: list[float] = []
        following = 1 if self.is_forest else min(first, max_sweeps)
        while True:
            following = pass_in_time(sweep, following)
            sweeps += following
            upper = constant + kernels.bound_and_beliefs(
                states, self.ptr, self.node, self.mate, self.half, self.rho_at_half, self.into,
                self.slack, *model, self.has_bound, beliefs,
            )  # fmt: skip
            marginals = np.exp(np.maximum(beliefs, -92.0))  # at least 1e-40
            marginals /= marginals.sum(axis=1, keepdims=True)
            sums = np.zeros((int(shared), n_states, n_states))
            edges = np.empty((0 if shared else tables.shape[0], n_states, n_states))
            value = kernels.feasible_point(
                states, self.tail, self.head, self.slot, self.rho, self.counting, *model,
                beliefs, marginals, given.edges, edges, sums,
            )  # fmt: skip
            if value > least or not gaps:
                least, best = value, (marginals[given.node_place], edges, sums)
            # Without a split of rho there is no bound, only the distance from a fixed point.
            most = min(most, upper) if self.has_bound else least + abs(upper - value)
            gaps.append(most - least)
            ended = sweeps >= max_sweeps or is_over()
            if most - least <= tol or ended or only_rounding_left(gaps, upper):
                break
            following = min(sweeps_needed(gaps, following, tol), max_sweeps - sweeps)
            if len(gaps) > 3 and gaps[-1] > 0.999 * gaps[-4]:  # messages oscillate
                damping = 0.5
        return TableMarginals(*best, least, max(most, least), self._as_given(logs), sweeps)

    def _first_messages(
        self, warm: Any, wide: NDArray[np.bool_], n_states: int
    ) -> tuple[Floats, Floats]:
        """Logarithms of messages over half-edges, that of state 0 being 0, and messages in the
        linear range: those of an earlier call, otherwise uniform.
        """
        n_edges = self.rho.shape[0]
        logs = np.zeros((2 * n_edges, n_states))
        if not isinstance(warm, tuple) or warm[0].shape != (n_edges, n_states):
            return logs, np.ones_like(logs)
        logs[self.slot] = np.concatenate([side[self.given.edges] for side in warm])
        linear = np.clip(logs, -WIDE, WIDE)
        return np.where(wide[:, None], logs, linear), np.exp(linear)

    def _as_given(self, logs: Floats) -> Messages:
        """Messages into tails and heads, of shape (n_edges, n_states) each, for the next call."""
        at_tail, at_head = np.split(logs[self.slot], 2)
        return at_tail[self.given.edge_place], at_head[self.given.edge_place]


class Numbering(NamedTuple):
    """Nodes and edges in the order of the sweeps, and the places of the given ones in it."""

    nodes: Ints
    edges: Ints
    node_place: Ints
    edge_place: Ints


def numbering(n_nodes: int, tail: Any, head: Any, is_forest: bool) -> Numbering:
    """Number neighbours after neighbours, and edges by their earlier node.

    Sweeps carry information further along such an order, and what they read is close in memory. On
    100,000 points of a square in random order message passing takes a third of the time. Nodes
    whose given numbers are closer along edges, as in images, keep them. In forests all neighbours
    of a node but one, its parent, have smaller numbers.
    """
    links = sparse.coo_array((np.ones(len(tail), np.int8), (tail, head)), (n_nodes, n_nodes))
    links = links + links.T
    nodes = reverse_cuthill_mckee(sparse.csr_array(links), symmetric_mode=True).astype(np.int64)
    node_place = np.argsort(nodes)
    check_time(SET_UP)
    distances = np.abs(tail - head), np.abs(node_place[tail] - node_place[head])
    if not is_forest and distances[0].sum() <= distances[1].sum():
        nodes = node_place = np.arange(n_nodes)
    ends = np.sort(np.stack([node_place[tail], node_place[head]]), axis=0)
    edges = np.lexsort(ends[::-1])
    return Numbering(nodes, edges, node_place, np.argsort(edges))
