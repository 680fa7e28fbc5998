"""Features of labellings: weights per state for nodes, per pair of states for edges.

For L states, theta holds F of shape (L, C), then G of shape (L * L, D): state s of node n with
features u_n scores F[s] . u_n, states (s, t) of edge e with features v_e score G[s * L + t] . v_e,
the state of the tail first. Pairs of states may share their weights ("ties"): theta then holds the
different rows of G only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .contract import FeatureMap, Segments
from .rows import Rows, Scaling

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def edge_ties(kind: str, n_states: int) -> Ints | None:
    """The row of theta's edge weights of each pair of states, -1 for weights that are 0.

    kind : "full" (None: each pair has its own row), "symmetric" or "potts"
    """
    tail, head = np.divmod(np.arange(n_states**2), n_states)
    if kind == "full":
        return None
    if kind == "symmetric":
        pair = np.minimum(tail, head) * n_states + np.maximum(tail, head)
        return np.unique(pair, return_inverse=True)[1]
    if kind == "potts":
        return np.where(tail == head, 0, -1)
    raise ValueError(f"`edge_weights` must be 'full', 'symmetric' or 'potts'; got {kind!r}.")


class PairwiseFeatures(FeatureMap):
    """Scores in overcomplete coordinates: L per node, then L * L per edge, for L states.

    Parameters
    ----------
    nodes : Rows of shape (n_nodes, C)
    edges : Rows of shape (n_edges, D)
    n_states : int, L
    ties : integer array of shape (L * L,), optional
        As `edge_ties` returns it.
    """

    edge_curvature = 1.0  # factor on the second moments of the edge features
    diagonal_gram = False  # whether only the diagonals of second moments are computed

    def __init__(self, nodes: Rows, edges: Rows, n_states: int, ties: Ints | None = None):
        self.nodes, self.edges, self.n_states, self.ties = nodes, edges, int(n_states), ties
        n = self.n_states
        self._n_groups = n * n if ties is None else int(ties.max()) + 1
        self._cut = n * nodes.n_features
        self.n_features = self._cut + self._n_groups * edges.n_features
        self.n_scored = len(nodes) * n + len(edges) * n**2

    # ------------------------------------------------------------------ how theta is read
    def split(self, theta: Floats) -> tuple[Floats, Floats]:
        """The node weights F, shape (L, C), and the edge weights G, shape (L * L, D)."""
        edges = theta[self._cut :].reshape(self._n_groups, -1)
        if self.ties is not None:
            edges = np.concatenate([edges, np.zeros((1, edges.shape[1]))])[self.ties]
        return theta[: self._cut].reshape(self.n_states, -1), edges

    def joined(self, nodes: Floats, edges: Floats) -> Floats:
        """The transposed map: theta from arrays (L, C) and (L * L, D), tied rows summed."""
        if self.ties is not None:
            sums = np.zeros((self._n_groups + 1, edges.shape[1]))
            np.add.at(sums, self.ties, edges)
            edges = sums[:-1]
        return np.concatenate([nodes.ravel(), edges.ravel()])

    def original(self, theta: Floats) -> Floats:
        """All weights F and G in a row, of features as they are, untied and not standardised."""
        nodes, edges = self.split(theta)
        found = _unscaled(self.nodes.scaling, nodes), _unscaled(self.edges.scaling, edges)
        return np.concatenate([part.ravel() for part in found])

    def standardised(self, coef: Floats) -> Floats:
        """theta from all weights; the inverse of `original`. Weights that are tied are averaged."""
        nodes = coef[: self._cut].reshape(self.n_states, -1)
        edges = _scaled(self.edges.scaling, coef[self._cut :].reshape(self.n_states**2, -1))
        return self.joined(_scaled(self.nodes.scaling, nodes), edges / self._sizes[:, None])

    @property
    def _sizes(self) -> Floats:
        """The number of pairs of states that share the weights of each pair."""
        if self.ties is None:
            return np.ones(self.n_states**2)
        return np.bincount(self.ties + 1)[self.ties + 1].astype(np.float64)

    def without_rows(self) -> PairwiseFeatures:
        """The map over no nodes and edges, which reads theta in the same way."""
        none = np.zeros(0, dtype=np.int64)
        return PairwiseFeatures(
            self.nodes.take(none), self.edges.take(none), self.n_states, self.ties
        )

    # ------------------------------------------------------------------ the map
    def scores(self, theta: Floats) -> Floats:
        f, g = self.split(theta)
        return np.concatenate([self.nodes.scores(f.T).ravel(), self.edges.scores(g.T).ravel()])

    def moments(self, tau: Floats) -> Floats:
        cut = len(self.nodes) * self.n_states
        nodes = self.nodes.moments(tau[:cut].reshape(-1, self.n_states))
        edges = self.edges.moments(tau[cut:].reshape(-1, self.n_states**2))
        return self.joined(nodes.T, edges.T)

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        cut, found = len(self.nodes) * self.n_states, []
        at_node = indices < cut
        for rows, places, weights, size in (
            (self.nodes, indices[at_node], values[at_node], self.n_states),
            (self.edges, indices[~at_node] - cut, values[~at_node], self.n_states**2),
        ):
            found.append(rows.picked_moments(*np.divmod(places, size), weights, size).T)
        return self.joined(*found)

    def second_moments(self) -> Segments:
        """Second moments of node and edge features, and the curvature of each state's weights: the
        probability of a uniform state, which bounds the variance of its indicator.

        The same variance for all states: observed frequencies would be closer, but adding one
        vector to the weights of every state changes no probability, and steps from uneven scales
        would drift along such directions.
        """
        n, largest = self.n_states, 0.25  # no indicator has a larger variance
        pairs = np.full(n * n, min(self.edge_curvature / n**2, largest))
        if self.ties is not None:
            pairs = np.bincount(self.ties + 1, pairs, self._n_groups + 1)[1:]
        scales = np.full(n, min(1.0 / n, largest)), np.minimum(pairs, largest)
        rows = self.nodes, self.edges
        grams = [part.gram(self.diagonal_gram) for part in rows]
        return list(zip(grams, scales, strict=True))


def _unscaled(scaling: Scaling | None, weights: Floats) -> Floats:
    return weights if scaling is None else scaling.original(weights.T).T


def _scaled(scaling: Scaling | None, weights: Floats) -> Floats:
    return weights if scaling is None else scaling.standardised(weights.T).T


# ---------------------------------------------------------------------- on graphs
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

    def summed(self, rows: Floats, n_edges: int) -> Floats:
        """Sums of the rows of listed edges that are the same edge."""
        return np.stack([np.bincount(self.edge, column, n_edges) for column in rows.T], axis=1)

    def transposed(self, tables: Floats, n_states: int) -> Floats:
        """Tables of listed edges (n_listed, L * L), those listed from head to tail transposed."""
        square = tables.reshape(-1, n_states, n_states).copy()
        square[self.flipped] = square[self.flipped].swapaxes(1, 2)
        return square.reshape(tables.shape)


class StateFeatures(PairwiseFeatures):
    """Scores in the coordinates of `Pairwise`.

    Parameters
    ----------
    graph : LabelGraph
    nodes, edges : Rows
    n_states : int
    ties : as in `PairwiseFeatures`
    merged : MergedEdges, optional
        If the rows of `edges` are not one for one the edges of the graph.
    """

    def __init__(
        self,
        graph: LabelGraph,
        nodes: Rows,
        edges: Rows,
        n_states: int,
        ties: Ints | None = None,
        merged: MergedEdges | None = None,
    ):
        super().__init__(nodes, edges, n_states, ties)
        self.merged, self._split = merged, graph.n_nodes * self.n_states
        self._n_edges = graph.n_edges
        self.n_scored = self._split + graph.n_edges * self.n_states**2

    def scores(self, theta: Floats) -> Floats:
        found = super().scores(theta)
        if self.merged is None:
            return found
        listed = found[self._split :].reshape(-1, self.n_states**2)
        tables = self.merged.transposed(listed, self.n_states)
        tables = self.merged.summed(tables, self._n_edges)
        return np.concatenate([found[: self._split], tables.ravel()])

    def moments(self, tau: Floats) -> Floats:
        if self.merged is not None:
            tables = tau[self._split :].reshape(-1, self.n_states**2)[self.merged.edge]
            listed = self.merged.transposed(tables, self.n_states)
            tau = np.concatenate([tau[: self._split], listed.ravel()])
        return super().moments(tau)

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        if self.merged is None:
            return super().moments_at(indices, values)
        return FeatureMap.moments_at(self, indices, values)

    # ------------------------------------------------------------------ all edges alike
    def shared_tables(self, theta: Floats) -> tuple[Floats, Floats] | None:
        """Scores of nodes (n_nodes, L), and one table (1, L, L) if all edges have the same."""
        if self.merged is not None or not self.edges.all_equal or len(self.edges) == 0:
            return None
        f, g = self.split(theta)
        table = self._one_edge.scores(g.T).reshape(1, self.n_states, self.n_states)
        return self.nodes.scores(f.T), table

    def shared_moments(self, nodes: Floats, table: Floats) -> Floats:
        """Moments of marginals of nodes (n_nodes, L), and of the sum of all edges, (1, L, L)."""
        edges = self._one_edge.moments(table.reshape(1, self.n_states**2))
        return self.joined(self.nodes.moments(nodes).T, edges.T)

    @property
    def _one_edge(self) -> Rows:
        return self.edges.take(np.zeros(1, dtype=np.int64))
