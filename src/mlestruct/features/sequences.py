"""Features of sequences: overcomplete pairwise features whose scores are also made part by part."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._arrays import as_count, as_floats, as_numbers
from .constant import ConstantColumn
from .contract import CHUNK
from .pairwise import PairwiseFeatures
from .rows import ConstantRows, DenseRows, FeatureRows, SparseRows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class SequenceFeatures(PairwiseFeatures):
    """Feature map of sequences side by side.

    Parameters
    ----------
    nodes : array (n_nodes, C), or a SciPy sparse matrix, which stays sparse
        Stored in single precision where that loses nothing; sums are always double.
    n_states : int, L
    edges : array (n_edges, D), optional; by default the constant 1, so that the edge weights are
        the scores of transitions
    n_edges : int, needed only without `edges`

    theta holds all weights, or after `restricted` some of them; the others are 0.
    """

    nodes: DenseRows | SparseRows | ConstantColumn
    edges: DenseRows | ConstantRows
    kept: Ints | None = None  # the weights in theta, out of all; None: all

    # Few transitions are frequent, so that the weights of these have a larger curvature than those
    # of uniform states: on words of 26 letters 32 evaluations instead of 42 (alpha = 1).
    edge_curvature = 10.0

    def __init__(
        self, nodes: Any, n_states: int, edges: ArrayLike | None = None, n_edges: int | None = None
    ):
        rows: DenseRows | ConstantRows
        if edges is not None:
            table = as_floats(edges, "edges")
            if table.ndim != 2:
                raise ValueError(f"edges: expected shape (n_edges, D), got {table.shape}")
            rows = DenseRows(table)
        elif n_edges is None:
            raise ValueError("n_edges: needed where there are no edge features")
        else:
            rows = ConstantRows(n_edges)
        super().__init__(_stored(nodes), rows, as_count(n_states, "n_states"))
        self.edge_table_size = 1 if rows.all_equal else self.n_states**2

    def occurring(self, states: Ints, tails: Ints) -> Bools:
        """Which weights have a nonzero feature under a labelling, shape (n_features,).

        states : ndarray of shape (n_nodes,);  tails : the first node of every edge
        """
        n = self.n_states
        found = [self.nodes.occurring(states, n)]
        found.append(self.edges.occurring(states[tails] * n + states[tails + 1], n * n))
        return np.concatenate([part.ravel() for part in found])

    def restricted(self, kept: Ints) -> SequenceFeatures:
        """The map of those weights alone."""
        other = copy.copy(self)
        other.kept, other.n_features = kept, kept.shape[0]
        return other

    def with_constant(self) -> Self:
        """The same with the constant 1 as the last node feature, of all states."""
        other = super().with_constant()
        if self.kept is not None:
            n, size = self.n_states, self.nodes.n_features
            nodes = self.kept[self.kept < n * size]
            shifted = nodes + nodes // size
            constants = np.arange(n) * (size + 1) + size
            edges = self.kept[self.kept >= n * size] + n
            other.kept = np.sort(np.concatenate([shifted, constants, edges]))
        return other

    def _pick(self, weights: Floats) -> Floats:
        return weights if self.kept is None else weights[self.kept]

    def split(self, theta: Floats) -> tuple[Floats, Floats]:
        if self.kept is not None:
            full = np.zeros(self._n_node_weights + self.n_states**2 * self.edges.n_features)
            full[self.kept] = theta
            theta = full
        return super().split(theta)

    def moments(self, tau: Floats) -> Floats:
        return self._pick(super().moments(tau))

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        return self._pick(super().moments_at(indices, values))

    def second_moments(self) -> list[tuple[Floats, Floats]]:
        found = super().second_moments()
        if self.kept is None:
            return found
        every = np.concatenate([np.outer(scales, gram).ravel() for gram, scales in found])
        return [(every[self.kept], np.ones(1))]

    def _gram(self, rows: FeatureRows) -> Floats:
        # Of sparse features, from the diagonal L-BFGS takes fewer steps than from all moments.
        return rows.gram() if self.kept is None and not self.nodes.is_sparse else rows.squares()

    def score_range(self, theta: Floats) -> float:
        weights = [np.ascontiguousarray(part.T) for part in self.split(theta)]
        low, high = np.inf, -np.inf
        for rows, own in zip((self.nodes, self.edges), weights, strict=True):
            for start in range(0, 1 if rows.all_equal else len(rows), CHUNK):
                found = rows.part(slice(start, start + CHUNK)).scores(own)
                if found.size:
                    low, high = min(low, float(found.min())), max(high, float(found.max()))
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
        # All weights are not worth turning for less entries than there are features.
        few = isinstance(rows, SparseRows) and rows.matrix.nnz < rows.n_features
        self._weights = [
            nodes.T if few else np.ascontiguousarray(nodes.T),
            np.ascontiguousarray(edges.T),
        ]
        self._moments: list[Floats] | None = None

    def scores(self, nodes: slice, edges: slice) -> tuple[Floats, Floats]:
        """Scores of nodes (n, L) and of edges (m, L, L), or (1, L, L) if all are the same."""
        features, n = self._features, self._features.n_states
        self._nodes = features.nodes.part(nodes)
        self._edges = ConstantRows(1) if features.edges.all_equal else features.edges.part(edges)
        tables = self._edges.scores(self._weights[1])
        return self._nodes.scores(self._weights[0]), tables.reshape(tables.shape[0], n, n)

    def add(self, nodes: Floats, edges: Floats) -> None:
        """Add the moments of marginals of the shapes that `scores` has given."""
        if self._moments is None:
            self._moments = [np.zeros(part.shape) for part in self._weights]
        self._nodes.add_moments(nodes, self._moments[0])
        tables = edges.reshape(edges.shape[0], self._features.n_states**2)
        self._edges.add_moments(tables, self._moments[1])

    def moments(self) -> Floats:
        """The moments of everything added, shape (n_features,)."""
        parts = self._moments or [np.zeros(part.shape) for part in self._weights]
        found = np.concatenate([part.T.ravel() for part in parts])
        return self._features._pick(found)


def _stored(nodes: Any) -> DenseRows | SparseRows:
    """Node features as they are kept: CSR, or a C-contiguous array of float32 or float64."""
    if sparse.issparse(nodes):
        return SparseRows(nodes)
    table = as_numbers(nodes, "nodes")
    if table.ndim != 2:
        raise ValueError(f"nodes: expected shape (n_nodes, C), got {table.shape}")
    with np.errstate(over="ignore"):
        for rows in (table[:CHUNK], table):  # mostly the first rows decide
            single = np.ascontiguousarray(rows, dtype=np.float32)
            if not np.array_equal(single, rows):
                return DenseRows(np.asarray(table, dtype=np.float64))
    return DenseRows(single)
