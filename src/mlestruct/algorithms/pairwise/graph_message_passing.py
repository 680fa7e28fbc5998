"""Certified marginals of pairwise models on any graph: convergent reweighted message passing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ..edge_lists import half_edges
from . import _graph_message_passing_kernels as kernels
from .schedule import first_sweeps, only_rounding_left, sweeps_needed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Answer:
    """Marginals with their certificate: log Z_rho lies in [value, upper_bound].

    nodes : ndarray of shape (n_nodes, L)
    edges : ndarray of shape (n_edges, L, L)
    warm : messages into tails and heads, of shape (n_edges, L) each, for the next call
    """

    nodes: Floats
    edges: Floats
    value: float
    upper_bound: float
    warm: tuple[Floats, Floats]
    sweeps: int


class NumberedGraph:
    """One graph and one rho, numbered in the order of message passing.

    Parameters
    ----------
    n_nodes : int
    tail, head : integer arrays of shape (n_edges,)
    reweighting : object with rho, counting, into_tail, into_head, as `structures.rho.Reweighting`
    is_forest : bool
        If True, one sweep from the leaves of the trees and back is exact.
    """

    def __init__(self, n_nodes: int, tail: Any, head: Any, reweighting: Any, is_forest: bool):
        self.is_forest = is_forest
        self.given = numbering(n_nodes, tail, head, is_forest)
        place, edges = self.given.node_place, self.given.edges
        self.tail, self.head = place[tail][edges], place[head][edges]
        self.rho, self.counting = reweighting.rho[edges], reweighting.counting[self.given.nodes]
        self.has_bound = reweighting.into_tail is not None
        self.ptr, self.half = half_edges(n_nodes, self.tail, self.head)
        self.edge = self.half % max(self.tail.shape[0], 1)


class ReweightedOracle(NumberedGraph):
    """Message passing with any number of states."""

    def __init__(self, n_nodes: int, tail: Any, head: Any, reweighting: Any, is_forest: bool):
        super().__init__(n_nodes, tail, head, reweighting, is_forest)
        edges, nothing = self.given.edges, np.zeros(self.rho.shape[0])
        self.into_tail = reweighting.into_tail[edges] if self.has_bound else nothing
        self.into_head = reweighting.into_head[edges] if self.has_bound else nothing

    def __call__(
        self,
        nodes: Floats,
        pairs: Floats,
        value: Callable[[Floats, Floats], float],
        warm: tuple[Floats, Floats] | None,
        tol: float,
        max_sweeps: int,
    ) -> Answer:
        """Marginals under node scores (n_nodes, L) and edge scores `pairs` (n_edges, L, L).

        `value` evaluates <scores, tau> + H_rho(tau) at feasible marginals.
        """
        given = self.given
        nodes, pairs = nodes[given.nodes], pairs[given.edges]
        n_edges, n_states = pairs.shape[0], nodes.shape[1]
        scaled = pairs / self.rho[:, None, None]
        peak = scaled.max(axis=(1, 2), initial=-np.inf)
        scaled -= peak[:, None, None]
        table = np.exp(scaled, out=scaled)
        if warm is None or warm[0].shape != (n_edges, n_states):
            to_tail, to_head = np.zeros((n_edges, n_states)), np.zeros((n_edges, n_states))
        else:
            to_tail, to_head = warm[0][given.edges], warm[1][given.edges]
        beliefs = np.empty_like(nodes)
        best: tuple[Floats, Floats] | None = None
        tables = np.empty_like(pairs)
        sweeps, damping, least, most = 0, 0.0, -np.inf, np.inf
        following = 1 if self.is_forest else first_sweeps(max_sweeps)
        gaps: list[float] = []
        while True:
            for _ in range(following):
                kernels.pass_messages(
                    self.ptr, self.edge, self.tail, self.head, self.rho, nodes, pairs, table, peak,
                    to_tail, to_head, damping,
                )  # fmt: skip
            sweeps += following
            upper = kernels.bound_and_beliefs(
                self.ptr, self.edge, self.tail, self.head, self.rho, self.counting,
                self.into_tail, self.into_head, nodes, pairs, table, peak,
                to_tail, to_head, beliefs,
            )  # fmt: skip
            marginals = np.exp(np.maximum(beliefs, -92.0))  # at least 1e-40
            marginals /= marginals.sum(axis=1, keepdims=True)
            kernels.edge_tables(
                self.tail, self.head, self.rho, pairs, table, to_tail, to_head, beliefs,
                marginals, tables,
            )  # fmt: skip
            point = marginals[given.node_place], tables[given.edge_place]
            found = value(*point)
            if found > least or best is None:
                least, best = found, point
            # Without a split of rho there is no bound, only the distance from a fixed point.
            most = min(most, upper) if self.has_bound else least + abs(upper - found)
            gaps.append(most - least)
            if most - least <= tol or sweeps >= max_sweeps or only_rounding_left(gaps, upper):
                break
            following = min(sweeps_needed(gaps, following, tol), max_sweeps - sweeps)
            if len(gaps) > 3 and gaps[-1] > 0.999 * gaps[-4]:  # messages oscillate
                damping = 0.5
        warm = to_tail[given.edge_place], to_head[given.edge_place]
        return Answer(*best, least, max(most, least), warm, sweeps)


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
    distances = np.abs(tail - head), np.abs(node_place[tail] - node_place[head])
    if not is_forest and distances[0].sum() <= distances[1].sum():
        nodes = node_place = np.arange(n_nodes)
    ends = np.sort(np.stack([node_place[tail], node_place[head]]), axis=0)
    edges = np.lexsort(ends[::-1])
    return Numbering(nodes, edges, node_place, np.argsort(edges))
