"""Features of labellings: weights per state for nodes, per pair of states for edges.

For L states, theta holds F of shape (L, C), then G of shape (L * L, D): state s of node n with
features u_n scores F[s] . u_n, states (s, t) of edge e with features v_e score G[s * L + t] . v_e,
the state of the tail first. Pairs of states may share their weights ("ties"): theta then holds the
different rows of G only.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .rows import CHUNK, FeatureMap, Rows, Scaling, Segments

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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


class StateFeatures(PairwiseFeatures):
    """Scores in the coordinates of `Pairwise`.

    Parameters
    ----------
    graph : LabelGraph
    nodes, edges : Rows
    n_states : int
    ties : as in `PairwiseFeatures`
    """

    def __init__(
        self,
        graph: LabelGraph,
        nodes: Rows,
        edges: Rows,
        n_states: int,
        ties: Ints | None = None,
    ):
        super().__init__(nodes, edges, n_states, ties)

    # ------------------------------------------------------------------ all edges alike
    def shared_tables(self, theta: Floats) -> tuple[Floats, Floats] | None:
        """Scores of nodes (n_nodes, L), and one table (1, L, L) if all edges have the same."""
        if not self.edges.all_equal or len(self.edges) == 0:
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


# ---------------------------------------------------------------------- sequences
class SequenceFeatures(PairwiseFeatures):
    """Feature map of sequences side by side.

    Parameters
    ----------
    nodes : Rows of shape (n_nodes, C)
    edges : Rows of shape (n_edges, D)
        `Rows.ones(n_edges)`: the edge weights are the scores of transitions.
    n_states : int, L
    kept : increasing integer array, optional
        The weights in theta, out of all; the others are 0.
    """

    # Few transitions are frequent, so that the weights of these have a larger curvature than those
    # of uniform states: on words of 26 letters 32 evaluations instead of 42 (alpha = 1).
    edge_curvature = 10.0

    def __init__(self, nodes: Rows, edges: Rows, n_states: int, kept: Ints | None = None):
        super().__init__(nodes, edges, n_states)
        self.kept, self._n_weights = kept, self.n_features
        if kept is not None:
            self.n_features = kept.shape[0]
        # With sparse features L-BFGS takes fewer steps from the diagonal than from all moments.
        self.diagonal_gram = nodes.is_sparse or kept is not None
        self.edge_table_size = 1 if edges.all_equal else self.n_states**2

    def occurring(self, states: Ints, tails: Ints) -> Bools:
        """Which weights have a nonzero feature under a labelling, shape (n_features,).

        states : ndarray of shape (n_nodes,);  tails : the first node of every edge
        """
        n = self.n_states
        nodes = self.nodes.occurring(states, n)
        edges = self.edges.occurring(states[tails] * n + states[tails + 1], n * n)
        return np.concatenate([nodes.ravel(), edges.ravel()])

    def split(self, theta: Floats) -> tuple[Floats, Floats]:
        if self.kept is not None:
            theta, given = np.zeros(self._n_weights), theta
            theta[self.kept] = given
        return super().split(theta)

    def joined(self, nodes: Floats, edges: Floats) -> Floats:
        found = super().joined(nodes, edges)
        return found if self.kept is None else found[self.kept]

    def without_rows(self) -> SequenceFeatures:
        none = np.zeros(0, dtype=np.int64)
        return SequenceFeatures(
            self.nodes.take(none), self.edges.take(none), self.n_states, self.kept
        )

    def second_moments(self) -> Segments:
        found = super().second_moments()
        if self.kept is None:
            return found
        every = np.concatenate([np.outer(scales, gram).ravel() for gram, scales in found])
        return [(every[self.kept], np.ones(1))]

    def score_range(self, theta: Floats) -> float:
        """The score of one pair of states counts for all edges if their features are the same."""
        stream, low, high = self.stream(theta), np.inf, -np.inf
        n_nodes, n_edges = len(self.nodes), len(self.edges)
        for start in range(0, n_nodes, CHUNK):
            part = slice(start, min(start + CHUNK, n_nodes))
            for found in stream.scores(part, slice(start, min(start + CHUNK, n_edges))):
                low = min(low, float(found.min(initial=np.inf)))
                high = max(high, float(found.max(initial=-np.inf)))
        return high - low if high > low else 0.0

    def stream(self, theta: Floats) -> SequenceStream:
        """Scores at theta and the moments of what follows from them, part by part."""
        return SequenceStream(self, theta)


class SequenceStream:
    """One pass over nodes and edges at a fixed theta: scores out, expectations in."""

    def __init__(self, features: SequenceFeatures, theta: Floats):
        self._features = features
        nodes, edges = features.split(theta)
        rows = features.nodes
        # All weights are not worth turning for fewer entries than there are features.
        few = rows.is_sparse and rows.matrix.nnz < rows.n_features
        self._node_weights = rows.inner(nodes.T if few else np.ascontiguousarray(nodes.T))
        self._edge_weights = features.edges.inner(np.ascontiguousarray(edges.T))
        self._moments = np.zeros((0, 0)), np.zeros((0, 0))

    def scores(self, nodes: slice, edges: slice) -> tuple[Floats, Floats]:
        """Scores of nodes (n, L) and of edges (m, L, L), or (1, L, L) if all are the same."""
        features, n = self._features, self._features.n_states
        own = features.edges
        self._nodes = features.nodes.part(nodes)
        self._edges = own.take([0]).part(slice(1)) if own.all_equal else own.part(edges)
        tables = self._edges.scores(*self._edge_weights)
        return self._nodes.scores(*self._node_weights), tables.reshape(-1, n, n)

    def add(self, nodes: Floats, edges: Floats) -> None:
        """Add the moments of marginals of the shapes that `scores` has given."""
        n, features = self._features.n_states, self._features
        if not self._moments[0].size:
            sizes = features.nodes.n_features, features.edges.n_features
            self._moments = np.zeros((sizes[0], n)), np.zeros((sizes[1], n * n))
        self._nodes.add_moments(nodes, self._moments[0])
        self._edges.add_moments(edges.reshape(-1, n * n), self._moments[1])

    def moments(self) -> Floats:
        """The moments of everything added, shape (n_features,)."""
        features = self._features
        nodes, edges = self._moments
        return features.joined(features.nodes.finished(nodes).T, features.edges.finished(edges).T)
