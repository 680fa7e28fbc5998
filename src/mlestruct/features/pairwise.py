"""Features of pairwise models: weights per state for nodes, per pair of states for edges.

theta holds F of shape (n_states, C), then G of shape (n_states * n_states, D): state s of node n
scores F[s] . u_n, states (s, t) of the edge e score G[s * n_states + t] . v_e, tail first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .contract import FeatureMap
from .rows import FeatureRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NODE_SPREAD = 0.4  # of the variance of a uniform state, once features are used
EDGE_SPREAD = 0.25


class LabelGraph(Protocol):
    """A graph with edges tail[e] - head[e]; `grid_shape` if it is a 4-connected grid."""

    @property
    def n_nodes(self) -> int: ...
    @property
    def n_edges(self) -> int: ...
    @property
    def tail(self) -> NDArray[np.int32]: ...
    @property
    def head(self) -> NDArray[np.int32]: ...
    @property
    def grid_shape(self) -> tuple[int, int] | None: ...


@dataclass(frozen=True, eq=False)
class MergedEdges:
    """How edges that the user listed several times act on the edges of the graph.

    edge : (n_listed,) the graph's edge of each listed one
    flipped : (n_listed,) whether it was listed from head to tail
    """

    edge: Ints
    flipped: NDArray[np.bool_]


class PairwiseFeatures(FeatureMap):
    """What the feature maps of binary and general models share.

    Parameters
    ----------
    graph : LabelGraph
    nodes : FeatureRows of the nodes' features
    edges : FeatureRows of the edges' features
    n_states : int
    merged : MergedEdges, optional
        Where the rows of `edges` are not one for one the edges of the graph.
    """

    def __init__(
        self,
        graph: LabelGraph,
        nodes: FeatureRows,
        edges: FeatureRows,
        n_states: int,
        merged: MergedEdges | None = None,
    ):
        self.graph, self.nodes, self.edges = graph, nodes, edges
        self.n_states, self.merged = int(n_states), merged
        self._split = self.n_states * nodes.n_features
        self.n_features = self._split + self.n_states**2 * edges.n_features
        self.n_scored = 0

    def _weights(self, theta: Floats) -> tuple[Floats, Floats]:
        """F and G."""
        return (
            theta[: self._split].reshape(self.n_states, -1),
            theta[self._split :].reshape(self.n_states**2, -1),
        )

    def second_moments(self) -> list[tuple[Floats, Floats]]:
        """What the preconditioner needs: second moments, and the spread of each state.

        The spread is that of uniform states, reduced by what features usually explain. Observed
        frequencies would tell more, but rare states then move too far in the first steps.
        """
        found = []
        for rows, size, left in (
            (self.nodes, self.n_states, NODE_SPREAD),
            (self.edges, self.n_states**2, EDGE_SPREAD),
        ):
            found.append((rows.gram(), np.full(size, left * (1.0 - 1.0 / size) / size)))
        return found


class BinaryFeatures(PairwiseFeatures):
    """Scores in the minimal coordinates of `BinaryPairwise`, relative to all states being 0."""

    def __init__(
        self,
        graph: LabelGraph,
        nodes: FeatureRows,
        edges: FeatureRows,
        merged: MergedEdges | None = None,
    ):
        super().__init__(graph, nodes, edges, 2, merged)
        self.n_scored = graph.n_nodes + graph.n_edges

    def scores(self, theta: Floats) -> Floats:
        f, g = self._weights(theta)
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
        shape = self.graph.grid_shape
        if shape is None:
            out[:n] += np.bincount(self.graph.tail, found[:, 0], n)
            out[:n] += np.bincount(self.graph.head, found[:, 1], n)
        else:
            across, along = _by_direction(found, shape)
            pixels = out[:n].reshape(shape)
            pixels[:, :-1] += across[..., 0]
            pixels[:, 1:] += across[..., 1]
            pixels[:-1] += along[..., 0]
            pixels[1:] += along[..., 1]
        out[n:] = found[:, 2]
        return out

    def moments(self, tau: Floats) -> Floats:
        n = self.graph.n_nodes
        values = np.empty((self.graph.n_edges, 3))
        shape = self.graph.grid_shape
        if shape is None:
            values[:, 0] = tau[self.graph.tail]
            values[:, 1] = tau[self.graph.head]
        else:
            across, along = _by_direction(values, shape)
            pixels = tau[:n].reshape(shape)
            across[..., 0], across[..., 1] = pixels[:, :-1], pixels[:, 1:]
            along[..., 0], along[..., 1] = pixels[:-1], pixels[1:]
        values[:, 2] = tau[n:]
        if self.merged is not None:
            values = values[self.merged.edge]
            flipped = self.merged.flipped
            values[flipped, :2] = values[flipped, 1::-1]
        on = self.nodes.moments(tau[:n])
        tail, head, both = self.edges.moments(values).T
        return np.concatenate(
            [-on, on, both - tail - head, head - both, tail - both, both]
        )  # the constant of the all-zero labelling left out: it cancels in y - tau


class StateFeatures(PairwiseFeatures):
    """Scores in the overcomplete coordinates of `Pairwise`."""

    def __init__(
        self,
        graph: LabelGraph,
        nodes: FeatureRows,
        edges: FeatureRows,
        n_states: int,
        merged: MergedEdges | None = None,
    ):
        super().__init__(graph, nodes, edges, n_states, merged)
        self.n_scored = graph.n_nodes * self.n_states + graph.n_edges * self.n_states**2

    def scores(self, theta: Floats) -> Floats:
        f, g = self._weights(theta)
        found = self.edges.scores(g.T)
        if self.merged is not None:
            found = self._flip(found)
            found = _summed(found, self.merged.edge, self.graph.n_edges)
        return np.concatenate([self.nodes.scores(f.T).ravel(), found.ravel()])

    def moments(self, tau: Floats) -> Floats:
        split = self.graph.n_nodes * self.n_states
        nodes = tau[:split].reshape(-1, self.n_states)
        edges = tau[split:].reshape(-1, self.n_states**2)
        if self.merged is not None:
            edges = self._flip(edges[self.merged.edge])
        return np.concatenate(
            [self.nodes.moments(nodes).T.ravel(), self.edges.moments(edges).T.ravel()]
        )

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
    total = np.zeros((n_groups, rows.shape[1]))
    np.add.at(total, group, rows)
    return total


def _by_direction(rows: Floats, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Views of the rows of horizontal and of vertical edges of a grid, in image layout."""
    height, width = shape
    split = height * (width - 1)
    return (
        rows[:split].reshape(height, width - 1, rows.shape[1]),
        rows[split:].reshape(height - 1, width, rows.shape[1]),
    )
