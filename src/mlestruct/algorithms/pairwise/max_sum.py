"""MAP decoding of pairwise models with a proven bound: max-sum message passing and local search.

Message passing (TRW-S) bounds the score of every labelling from above. Where the labellings decoded
from its messages leave a gap, they are improved by moves that never lower the score: the nodes of
an induced forest take their best states given all others (Viterbi), or each node keeps its state
or takes one given state, all at once (expansion, by QPBO).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._deadline import is_over
from ..._lazy import cached_property
from ..edge_lists import checked_edges, half_edges
from . import _max_sum_kernels as kernels
from ._conditional_modes_kernels import conditional_modes
from .grid_trw import DiagonalLayout
from .qpbo import QPBO
from .trw import NumberedGraph
from .viterbi import ForestDecoder

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class BoundedLabelling(NamedTuple):
    """A labelling of the score `value`; no labelling has more than `upper_bound`."""

    labels: Ints
    value: float
    upper_bound: float


class MaxSum:
    """Decoder of a pairwise graph whose scores change from call to call.

    Safe to call from several threads.

    Parameters
    ----------
    tail, head : integer arrays of shape (n_edges,), every undirected edge once
    grid_shape : (height, width) where the graph is a 4-connected grid, horizontal edges first

    Examples
    --------
    >>> nodes, tables = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[[3.0, 0.0], [0.0, 1.0]]])
    >>> found = MaxSum(2, [0], [1]).solve(nodes, tables)
    >>> found.labels.tolist(), found.value, round(found.upper_bound, 9)
    ([0, 0], 3.0, 3.0)
    """

    def __init__(
        self,
        n_nodes: int,
        tail: ArrayLike,
        head: ArrayLike,
        grid_shape: tuple[int, int] | None = None,
    ):
        self.n_nodes = int(n_nodes)
        self.tail, self.head = checked_edges(n_nodes, tail, head)
        self._half = half_edges(n_nodes, self.tail, self.head)
        self._layout = None if grid_shape is None else DiagonalLayout(*grid_shape)

    @cached_property
    def _flow(self) -> QPBO:
        return QPBO(self.n_nodes, self.tail, self.head)

    def solve(
        self,
        nodes: Floats,
        tables: Floats,
        tol: float = 1e-9,
        search: bool = True,
        sweeps: int = 5,
        max_rounds: int = 40,
    ) -> BoundedLabelling:
        """A labelling under node scores (n_nodes, L) and edge scores (n_edges, L, L).

        A round makes `sweeps` and decodes a labelling, which costs about two more. Rounds stop at a
        gap of `tol` times the largest score, or where one closes less than a fiftieth of it; then
        `search` improves the labelling.
        """
        scale = max(float(np.abs(nodes).max()), float(np.abs(tables).max(initial=0.0)))
        wanted = tol * scale
        best = BoundedLabelling(np.zeros(self.n_nodes, dtype=np.int64), -np.inf, np.inf)
        passes = self._on_graph if self._layout is None else self._on_grid
        last = np.inf
        for labels, bound in islice(passes(nodes, tables, sweeps), max_rounds):
            best = best._replace(upper_bound=min(bound, best.upper_bound))
            best = self._better(best, labels, nodes, tables)
            gap = best.upper_bound - best.value
            if gap <= wanted or last - gap < 0.02 * last or is_over():
                break
            last = gap
        if search and gap > wanted:
            best = self._search(best, nodes, tables, wanted)
        return best._replace(upper_bound=max(best.upper_bound, best.value))  # up to rounding

    def _search(
        self, best: BoundedLabelling, nodes: Floats, tables: Floats, wanted: float
    ) -> BoundedLabelling:
        """Rounds of expansion and forest moves while they help, from two starts."""
        best = self._climb(best, nodes, tables, wanted)
        if best.upper_bound - best.value > wanted:
            other = self._climb(
                best._replace(labels=nodes.argmax(axis=1), value=-np.inf), nodes, tables, wanted
            )
            best = max(best, other, key=lambda found: found.value)
        labels, order = best.labels.copy(), np.arange(self.n_nodes)
        conditional_modes(*self._half, self.tail, self.head, nodes, tables, order, labels)
        return self._better(best, labels, nodes, tables)

    def _climb(
        self, best: BoundedLabelling, nodes: Floats, tables: Floats, wanted: float
    ) -> BoundedLabelling:
        """Every forest and every expansion in turn, until no round helps."""
        while True:
            before = best.value
            for forest in self._forests:
                labels = forest.moved(best.labels, nodes, tables)
                best = self._better(best, labels, nodes, tables)
            for state in range(nodes.shape[1]):
                labels = self._expanded(best.labels, state, nodes, tables)
                best = self._better(best, labels, nodes, tables)
            if best.upper_bound - best.value <= wanted or best.value <= before or is_over():
                return best

    def _better(
        self, best: BoundedLabelling, labels: Ints, nodes: Floats, tables: Floats
    ) -> BoundedLabelling:
        """`best`, or `labels` if they have a larger score."""
        value = self.value(labels, nodes, tables)
        return best._replace(labels=labels, value=value) if value > best.value else best

    def value(self, labels: Ints, nodes: Floats, tables: Floats) -> float:
        """The score of a labelling."""
        of_nodes = nodes[np.arange(self.n_nodes), labels].sum()
        edges = np.arange(self.tail.size)
        return float(of_nodes + tables[edges, labels[self.tail], labels[self.head]].sum())

    def _expanded(self, labels: Ints, state: int, nodes: Floats, tables: Floats) -> Ints:
        """The labelling after the best move in which nodes keep their state or take `state`."""
        edges, n = np.arange(self.tail.size), np.arange(self.n_nodes)
        a, b = labels[self.tail], labels[self.head]
        now = tables[edges, a, b]
        first, second = tables[edges, state, b] - now, tables[edges, a, state] - now
        unary = nodes[:, state] - nodes[n, labels]
        unary += np.bincount(self.tail, first, self.n_nodes)
        unary += np.bincount(self.head, second, self.n_nodes)
        taken, _, _ = self._flow.solve(unary, tables[:, state, state] - now - first - second)
        return np.where(taken == 1.0, state, labels)

    @cached_property
    def _forests(self) -> list[_Forest]:
        """Induced forests that together cover all nodes; of some nodes, more than one."""
        rng = np.random.default_rng(0)
        found: list[_Forest] = []
        covered = np.zeros(self.n_nodes, dtype=np.bool_)
        while not covered.all() or len(found) < 4:
            shuffled = rng.permutation(self.n_nodes)
            order = shuffled[np.argsort(covered[shuffled], kind="stable")]
            chosen = np.zeros(self.n_nodes, dtype=np.bool_)
            ptr, half = self._half
            edge = half % max(self.tail.size, 1)
            kernels.induced_forest(ptr, edge, self.tail, self.head, order, chosen)
            covered |= chosen
            found.append(_Forest(chosen, self.tail, self.head))
        return found

    # ------------------------------------------------------------------ message passing
    def _on_grid(self, nodes: Floats, tables: Floats, sweeps: int) -> Iterator[tuple[Ints, float]]:
        """Labellings and bounds, round after round of messages."""
        layout = self._layout
        assert layout is not None
        n, n_states = nodes.shape
        scores = np.ascontiguousarray(nodes[layout.pixels].T)
        model = (layout.links, layout.starts, scores, *layout.arrange(tables))
        messages, beliefs = np.zeros((4, n_states, n)), np.empty((n_states, n))
        cavity, top = np.empty((n_states, layout.longest)), np.empty(layout.longest)
        labels = np.empty(n, dtype=np.int64)
        while True:
            for _ in range(sweeps):
                kernels.pass_on_grid(*model, messages, beliefs, cavity, top)
            bound = kernels.bound_on_grid(beliefs, messages)
            kernels.decode_on_grid(*model, messages, beliefs, labels)
            found = np.empty(n, dtype=np.int64)
            found[layout.pixels] = labels
            yield found, bound

    def _on_graph(self, nodes: Floats, tables: Floats, sweeps: int) -> Iterator[tuple[Ints, float]]:
        """The same on any graph."""
        graph, share = self._numbered
        (n, n_states), given = nodes.shape, graph.given
        nodes, tables = nodes[given.nodes], tables[given.edges]
        messages, labels = np.zeros((2 * len(tables), n_states)), np.zeros(n, dtype=np.int64)
        while True:
            for _ in range(sweeps):
                bound = kernels.pass_on_graph(
                    graph.ptr, graph.later, graph.mate, graph.half, share, nodes, tables, messages
                )
            kernels.decode_on_graph(
                graph.ptr, graph.later, graph.node, graph.half, nodes, tables, messages, labels
            )
            yield labels[given.node_place], bound

    @cached_property
    def _numbered(self) -> tuple[NumberedGraph, Floats]:
        """The order of message passing, and the share of each chain in a node."""
        graph = NumberedGraph(self.n_nodes, self.tail, self.head, False)
        earlier = graph.later - graph.ptr[:-1]
        chains = np.maximum(earlier, np.diff(graph.ptr) - earlier)
        return graph, 1.0 / np.maximum(chains, 1)


class _Forest:
    """Some nodes of a graph, between which the edges form no cycle."""

    def __init__(self, chosen: NDArray[np.bool_], tail: Ints, head: Ints):
        self.chosen = chosen
        self._inside = np.flatnonzero(chosen[tail] & chosen[head])
        out, back = (
            np.flatnonzero(chosen[own] & ~chosen[other])
            for own, other in ((tail, head), (head, tail))
        )
        self._out, self._back = (out, tail[out], head[out]), (back, head[back], tail[back])
        self._ends = tail[self._inside], head[self._inside]
        self._decoder: ForestDecoder | None = None

    def moved(self, labels: Ints, nodes: Floats, tables: Floats) -> Ints:
        """The best labelling that differs from `labels` at these nodes only."""
        n, n_states = nodes.shape
        decoder = self._decoder
        if decoder is None or decoder.n_states != n_states:
            decoder = self._decoder = ForestDecoder(n, *self._ends, n_states)
        scores = nodes.copy()
        edges, own, other = self._out
        np.add.at(scores, own, tables[edges, :, labels[other]])
        edges, own, other = self._back
        np.add.at(scores, own, tables[edges, labels[other]])
        found, _ = decoder.solve(np.concatenate([scores.ravel(), tables[self._inside].ravel()]))
        return np.where(self.chosen, found, labels)
