"""Features of sequences: pairwise features whose scores and moments are also made part by part."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .labellings import PairwiseFeatures
from .rows import CHUNK, Rows, Segments

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
