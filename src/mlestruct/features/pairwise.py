"""Features of pairwise models: weights per state for nodes, per pair of states for edges.

theta holds F of shape (L, C), then G of shape (L * L, D), for L states: state s of node n with
features u_n scores F[s] . u_n, states (s, t) of edge e with features v_e score G[s * L + t] . v_e,
the state of the tail first.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from .._lazy import cached_property
from ._row_kernels import gather_rows, spread_rows
from .constant import ConstantColumn
from .contract import FeatureMap
from .rows import FeatureRows, RowGroups

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class LabelGraph(Protocol):
    """A graph with edges tail[e] - head[e]."""

    @property
    def n_nodes(self) -> int: ...
    @property
    def n_edges(self) -> int: ...
    @property
    def tail(self) -> NDArray[np.int32]: ...
    @property
    def head(self) -> NDArray[np.int32]: ...


@dataclass(frozen=True, eq=False)
class MergedEdges:
    """The edges of the graph behind listed edges, of which some are listed several times.

    edge : ndarray of shape (n_listed,), the graph's edge of each listed one
    flipped : ndarray of shape (n_listed,), whether it is listed from head to tail
    """

    edge: Ints
    flipped: NDArray[np.bool_]


class PairwiseFeatures(FeatureMap):
    """Scores in overcomplete coordinates: L per node, then L*L per edge, for L states.

    Parameters
    ----------
    nodes : FeatureRows of shape (n_nodes, C)
    edges : FeatureRows of shape (n_edges, D)
    n_states : int, L
    """

    edge_curvature = 1.0  # factor on the second moments of the edge features

    def __init__(self, nodes: FeatureRows, edges: FeatureRows, n_states: int):
        self.nodes, self.edges, self.n_states = nodes, edges, int(n_states)
        self._n_node_weights = self.n_states * nodes.n_features
        self.n_features = self._n_node_weights + self.n_states**2 * edges.n_features
        self.n_scored = len(nodes) * self.n_states + len(edges) * self.n_states**2

    def with_constant(self) -> Self:
        """The same with the constant 1 as the last node feature."""
        other = copy.copy(self)
        other.nodes = ConstantColumn(self.nodes)
        other._n_node_weights += self.n_states
        other.n_features += self.n_states
        return other

    def split(self, theta: Floats) -> tuple[Floats, Floats]:
        """Views of the node weights F, shape (L, C), and of the edge weights G, shape (L*L, D)."""
        cut = self._n_node_weights
        return theta[:cut].reshape(self.n_states, -1), theta[cut:].reshape(self.n_states**2, -1)

    def scores(self, theta: Floats) -> Floats:
        f, g = self.split(theta)
        return np.concatenate([self.nodes.scores(f.T).ravel(), self.edges.scores(g.T).ravel()])

    def moments(self, tau: Floats) -> Floats:
        cut = len(self.nodes) * self.n_states
        nodes = self.nodes.moments(tau[:cut].reshape(-1, self.n_states))
        edges = self.edges.moments(tau[cut:].reshape(-1, self.n_states**2))
        return np.concatenate([nodes.T.ravel(), edges.T.ravel()])

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        cut, found = len(self.nodes) * self.n_states, []
        at_node = indices < cut
        for rows, places, weights, size in (
            (self.nodes, indices[at_node], values[at_node], self.n_states),
            (self.edges, indices[~at_node] - cut, values[~at_node], self.n_states**2),
        ):
            found.append(rows.moments_at(*np.divmod(places, size), weights, size).T.ravel())
        return np.concatenate(found)

    def second_moments(self) -> list[tuple[Floats, Floats]]:
        """Second moments of node and edge features, and the curvature of each state's weights: the
        probability of a uniform state, which bounds the variance of its indicator.

        The same variance for all states: observed frequencies would be closer, but adding one
        vector to the weights of every state changes no probability, and steps from uneven scales
        would drift along such directions.
        """
        found = []
        for rows, size, factor in (
            (self.nodes, self.n_states, 1.0),
            (self.edges, self.n_states**2, self.edge_curvature),
        ):
            variance = min(factor / size, 0.25)  # no indicator has more
            found.append((self._gram(rows), np.full(size, variance)))
        return found

    def _gram(self, rows: FeatureRows) -> Floats:
        """Second moments of the features of nodes or edges, or their diagonal."""
        return rows.gram()


class BinaryFeatures(PairwiseFeatures):
    """Scores in the minimal coordinates of `BinaryPairwise`, relative to all states being 0.

    Parameters
    ----------
    graph : LabelGraph
    nodes, edges : FeatureRows
    merged : MergedEdges, optional
        Where the rows of `edges` are not one for one the edges of the graph.
    """

    def __init__(
        self,
        graph: LabelGraph,
        nodes: FeatureRows,
        edges: FeatureRows,
        merged: MergedEdges | None = None,
    ):
        super().__init__(nodes, edges, 2)
        self.graph, self.merged = graph, merged
        self.n_scored = graph.n_nodes + graph.n_edges

    def scores(self, theta: Floats) -> Floats:
        f, g = self.split(theta)
        n = self.graph.n_nodes
        out = np.empty(self.n_scored)
        out[:n] = self.nodes.scores(f[1] - f[0])
        # Columns: what state 1 of the tail adds, of the head, and both together on top.
        found = self.edges.scores(
            np.stack([g[2] - g[0], g[1] - g[0], g[0] + g[3] - g[1] - g[2]], axis=1)
        )
        if self.merged is not None:
            flipped = self.merged.flipped
            found[flipped, :2] = found[flipped, 1::-1]
            found = _summed(found, self.merged.edge, self.graph.n_edges)
        spread_rows(self.graph.tail, self.graph.head, found, out)
        return out

    def moments(self, tau: Floats) -> Floats:
        n = self.graph.n_nodes
        values = np.empty((self.graph.n_edges, 3))
        gather_rows(self.graph.tail, self.graph.head, tau, values)
        if self.merged is not None:
            values = values[self.merged.edge]
            flipped = self.merged.flipped
            values[flipped, :2] = values[flipped, 1::-1]
        on = self.nodes.moments(tau[:n])
        tail, head, both = self.edges.moments(values).T
        return np.concatenate(
            [-on, on, both - tail - head, head - both, tail - both, both]
        )  # the constant of the all-zero labelling left out: it cancels in y - tau

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        return FeatureMap.moments_at(self, indices, values)


class StateFeatures(PairwiseFeatures):
    """Scores in the overcomplete coordinates of `Pairwise`; parameters as `BinaryFeatures`."""

    def __init__(
        self,
        graph: LabelGraph,
        nodes: FeatureRows,
        edges: FeatureRows,
        n_states: int,
        merged: MergedEdges | None = None,
    ):
        super().__init__(nodes, edges, n_states)
        self.graph, self.merged = graph, merged
        self.n_scored = graph.n_nodes * self.n_states + graph.n_edges * self.n_states**2

    def scores(self, theta: Floats) -> Floats:
        found = super().scores(theta)
        if self.merged is None:
            return found
        nodes, listed = np.split(found, [self.graph.n_nodes * self.n_states])
        tables = self._flip(listed.reshape(-1, self.n_states**2))
        return np.concatenate(
            [nodes, _summed(tables, self.merged.edge, self.graph.n_edges).ravel()]
        )

    def moments(self, tau: Floats) -> Floats:
        if self.merged is None:
            return super().moments(tau)
        nodes, tables = np.split(tau, [self.graph.n_nodes * self.n_states])
        listed = self._flip(tables.reshape(-1, self.n_states**2)[self.merged.edge])
        return super().moments(np.concatenate([nodes, listed.ravel()]))

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        if self.merged is None:
            return super().moments_at(indices, values)
        return FeatureMap.moments_at(self, indices, values)

    @cached_property
    def _groups(self) -> tuple[RowGroups, tuple[int, ...]] | None:
        """A row for each group of equal edges, and their sizes; None if edges differ."""
        edges = self.edges
        rows = edges if isinstance(edges, RowGroups) else RowGroups([edges], [0], edges.n_features)
        if self.merged is not None or not all(len(g) and g.all_equal for g in rows.groups):
            return None
        one = [group.take(np.zeros(1, dtype=np.int64)) for group in rows.groups]
        sizes = tuple(len(group) for group in rows.groups)
        return RowGroups(one, rows.starts, rows.n_features), sizes

    def shared_tables(self, theta: Floats) -> tuple[Floats, Floats, tuple[int, ...]] | None:
        if self._groups is None:
            return None
        f, g = self.split(theta)
        rows, sizes = self._groups
        tables = rows.scores(g.T).reshape(-1, self.n_states, self.n_states)
        return self.nodes.scores(f.T), tables, sizes

    def shared_moments(self, nodes: Floats, tables: Floats) -> Floats:
        assert self._groups is not None
        edges = self._groups[0].moments(tables.reshape(-1, self.n_states**2))
        return np.concatenate([self.nodes.moments(nodes).T.ravel(), edges.T.ravel()])

    def _flip(self, tables: Floats) -> Floats:
        """Transpose the tables of listed edges that run from head to tail."""
        assert self.merged is not None
        tables = tables.copy()
        flipped = self.merged.flipped
        square = tables[flipped].reshape(-1, self.n_states, self.n_states)
        tables[flipped] = square.transpose(0, 2, 1).reshape(-1, self.n_states**2)
        return tables


def _summed(rows: Floats, group: Ints, n_groups: int) -> Floats:
    """Sums of rows that belong to the same group."""
    return np.stack([np.bincount(group, column, n_groups) for column in rows.T], axis=1)
