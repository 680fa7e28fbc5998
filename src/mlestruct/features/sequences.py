"""Features of nodes and edges, with a weight vector for each state and each pair of states.

theta = node weights (L, C), then edge weights (L*L, D). State l of node n scores <F[l], u_n>, the
states (a, b) of edge e score <G[a*L + b], v_e>. Scored coordinates: L per node, then L*L per edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from . import _sequence_kernels as kernels
from .contract import FeatureMap

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRAM_LIMIT = 2000  # node features up to which their whole second-moment matrix is worth it
ROWS = 4096  # of single-precision features made double at a time
EVERYTHING = slice(None)
# Variances of indicators relative to 1/L and 1/L^2, as they work best in preconditioners.
NODE_CURVATURE = 1.0
EDGE_CURVATURE = 10.0
MOST_CURVATURE = 0.25


class SequenceFeatures(FeatureMap):
    """Feature map of sequences (and other pairwise graphs).

    Parameters
    ----------
    nodes : array (n_nodes, C), or a SciPy sparse matrix, which stays sparse
        Stored in single precision where that loses nothing; sums are always double.
    n_states : int, L
    edges : array (n_edges, D), optional; by default the constant 1, so that the edge weights are
        the scores of transitions
    n_edges : int, needed only without `edges`
    """

    def __init__(
        self, nodes: Any, n_states: int, edges: ArrayLike | None = None, n_edges: int | None = None
    ):
        self.nodes = _stored(nodes)
        self.n_states = int(n_states)
        if edges is None:
            if n_edges is None:
                raise ValueError("n_edges: needed where there are no edge features")
            self.edges, self.n_edges, self.n_edge_features = None, int(n_edges), 1
        else:
            self.edges = np.ascontiguousarray(edges, dtype=np.float64)
            if self.edges.ndim != 2:
                raise ValueError(f"edges: expected shape (n_edges, D), got {self.edges.shape}")
            self.n_edges, self.n_edge_features = self.edges.shape
        self.n_nodes, self.n_node_features = self.nodes.shape
        n = self.n_states
        self.edge_table_size = 1 if self.edges is None else n * n
        self.n_scored = self.n_nodes * n + self.n_edges * n * n
        self.n_features = n * self.n_node_features + n * n * self.n_edge_features

    def split(self, theta: Floats) -> tuple[Floats, Floats]:
        """Views of the node weights (L, C) and the edge weights (L*L, D)."""
        n = self.n_states
        cut = n * self.n_node_features
        return theta[:cut].reshape(n, -1), theta[cut:].reshape(n * n, -1)

    def stream(self, theta: Floats) -> SequenceStream:
        """Scores at theta and the moments of what follows from them, part by part."""
        return SequenceStream(self, theta)

    # ------------------------------------------------------------------ the feature-map contract
    def scores(self, theta: Floats) -> Floats:
        nodes, tables = self.stream(theta).scores(EVERYTHING, EVERYTHING)
        shape = (self.n_edges, *tables.shape[1:])
        return np.concatenate([nodes.ravel(), np.broadcast_to(tables, shape).ravel()])

    def moments(self, tau: Floats) -> Floats:
        n = self.n_states
        cut = self.n_nodes * n
        tables = tau[cut:].reshape(-1, n, n)
        stream = self.stream(np.zeros(self.n_features))
        stream.take(EVERYTHING, EVERYTHING)
        stream.add(
            tau[:cut].reshape(-1, n),
            tables.sum(axis=0, keepdims=True) if self.edges is None else tables,
        )
        return stream.moments()

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        n = self.n_states
        out = np.zeros(self.n_features)
        nodes, edges = self.split(out)
        at_node = indices < self.n_nodes * n
        (rows, states), weights = np.divmod(indices[at_node], n), values[at_node]
        if sparse.issparse(self.nodes):
            table = self.nodes
            kernels.add_picked_sparse_rows(
                rows, states, weights, table.data, table.indices, table.indptr, nodes
            )
        else:
            kernels.add_picked_rows(rows, states, weights, self.nodes, nodes)
        edge, pair = np.divmod(indices[~at_node] - self.n_nodes * n, n * n)
        weights = values[~at_node]
        if self.edges is None:
            edges[:, 0] = np.bincount(pair, weights, n * n)
        else:
            kernels.add_picked_rows(edge, pair, weights, self.edges, edges)
        return out

    # ------------------------------------------------------------------ preconditioning
    def second_moments(self) -> list[tuple[Floats, Floats]]:
        """What the curvature of log Z looks like, segment by segment of theta.

        Of the node and of the edge weights: the second moments of their features, (C, C) or their
        diagonal (C,), and a scale per copy. Copy l has about the Hessian scales[l] * gram.
        """
        n = self.n_states
        edges = np.ones((self.n_edges, 1)) if self.edges is None else self.edges
        # The same for all copies: adding one vector to the weights of every state changes no
        # probability, and steps from uneven scales would drift along such directions.
        return [
            (self._node_gram(), np.full(n, min(NODE_CURVATURE / n, MOST_CURVATURE))),
            (edges.T @ edges, np.full(n * n, min(EDGE_CURVATURE / n**2, MOST_CURVATURE))),
        ]

    def _node_gram(self) -> Floats:
        table, size = self.nodes, self.n_node_features
        if sparse.issparse(table):
            if size > GRAM_LIMIT:
                return np.asarray(table.multiply(table).sum(axis=0)).ravel()
            return np.asarray((table.T @ table).toarray(), dtype=np.float64)
        gram = np.zeros(size if size > GRAM_LIMIT else (size, size))
        for start in range(0, self.n_nodes, ROWS):
            rows = np.asarray(table[start : start + ROWS], dtype=np.float64)
            gram += (rows * rows).sum(axis=0) if gram.ndim == 1 else rows.T @ rows
        return gram


class SequenceStream:
    """One pass over nodes and edges at a fixed theta: scores out, expectations in.

    `scores` (or `take`) chooses the part that the next `add` is about.
    """

    def __init__(self, features: SequenceFeatures, theta: Floats):
        self.features = features
        self._node_weights, self._edge_weights = features.split(theta)
        self._sparse = sparse.issparse(features.nodes)
        if self._sparse:  # a row of weights per feature
            self._node_weights = np.ascontiguousarray(self._node_weights.T)
        self._node_moments = np.zeros(self._node_weights.shape)
        self._edge_moments = np.zeros(self._edge_weights.shape)

    def take(self, nodes: slice, edges: slice) -> None:
        """Turn to these nodes and edges."""
        features = self.features
        self._at = nodes
        if not self._sparse:
            self._nodes = np.asarray(features.nodes[nodes], dtype=np.float64)
        if features.edges is not None:
            self._edges = features.edges[edges]

    def scores(self, nodes: slice, edges: slice) -> tuple[Floats, Floats]:
        """Scores of nodes (n, L) and of edges (m, L, L), or (1, L, L) if all are the same."""
        self.take(nodes, edges)
        features, n = self.features, self.features.n_states
        if self._sparse:
            table = features.nodes
            first, stop, _ = self._at.indices(features.n_nodes)
            scores = np.empty((stop - first, n))
            kernels.sparse_scores(
                table.data, table.indices, table.indptr, first, self._node_weights, scores
            )
        else:
            scores = self._nodes @ self._node_weights.T
        if features.edges is None:
            return scores, self._edge_weights.reshape(1, n, n)
        return scores, (self._edges @ self._edge_weights.T).reshape(-1, n, n)

    def add(self, nodes: Floats, edges: Floats) -> None:
        """Add the moments of marginals of the shapes that `scores` has given."""
        features = self.features
        if self._sparse:
            table = features.nodes
            first = self._at.indices(features.n_nodes)[0]
            kernels.add_sparse_moments(
                table.data, table.indices, table.indptr, first, nodes, self._node_moments
            )
        else:
            self._node_moments += nodes.T @ self._nodes
        flat = edges.reshape(edges.shape[0], features.n_states**2)
        self._edge_moments += flat.T if features.edges is None else flat.T @ self._edges

    def moments(self) -> Floats:
        """The moments of everything added, shape (n_features,)."""
        nodes = self._node_moments.T if self._sparse else self._node_moments
        return np.concatenate([nodes.ravel(), self._edge_moments.ravel()])


def _stored(nodes: Any) -> Any:
    """Node features as they are kept: CSR, or a C-contiguous array of float32 or float64."""
    if sparse.issparse(nodes):
        return sparse.csr_array(nodes, dtype=np.float64)
    table = np.asarray(nodes)
    if table.ndim != 2:
        raise ValueError(f"nodes: expected shape (n_nodes, C), got {table.shape}")
    with np.errstate(over="ignore"):
        for rows in (table[:ROWS], table):  # a look at the first ones mostly tells
            single = np.ascontiguousarray(rows, dtype=np.float32)
            if not np.array_equal(single, rows):
                return np.ascontiguousarray(table, dtype=np.float64)
    return single
