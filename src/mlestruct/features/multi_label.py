"""Features of multi-label classification: every label has weights for all features of a sample.

theta holds F of shape (L, C), then G of shape (E, D): label l of sample m with features x_m scores
F[l] . x_m, two coupled labels score G[e] . v_m together; v_m is x_m, or the constant 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .contract import FeatureMap
from .rows import ConstantRows, FeatureRows

Floats = NDArray[np.float64]

FIELD_VARIANCE, COUPLING_VARIANCE = 1 / 4, 3 / 16  # of a label and of a pair, if all are fair coins


class MultiLabelFeatures(FeatureMap):
    """Scores of the labels of all samples, sample by sample, then of their couplings.

    Parameters
    ----------
    rows : FeatureRows of shape (n_samples, C)
    n_labels, n_edges : int
    edge_rows : FeatureRows of shape (n_samples, D), optional; by default the constant 1
    """

    def __init__(
        self, rows: FeatureRows, n_labels: int, n_edges: int, edge_rows: FeatureRows | None = None
    ):
        self.rows = rows
        self.edge_rows = ConstantRows(len(rows)) if edge_rows is None else edge_rows
        self.n_labels, self.n_edges = int(n_labels), int(n_edges)
        self._n_field_weights = self.n_labels * rows.n_features
        self.n_features = self._n_field_weights + self.n_edges * self.edge_rows.n_features
        self.n_scored = len(rows) * (self.n_labels + self.n_edges)

    def split(self, theta: Floats) -> tuple[Floats, Floats]:
        """Views of F, shape (L, C), and of G, shape (E, D)."""
        cut = self._n_field_weights
        return (
            theta[:cut].reshape(self.n_labels, self.rows.n_features),
            theta[cut:].reshape(self.n_edges, self.edge_rows.n_features),
        )

    def fields_and_couplings(self, theta: Floats) -> tuple[Floats, Floats]:
        """Scores by sample: of labels (n, L) and of pairs (n, E), or (1, E) if all are the same."""
        f, g = self.split(theta)
        if isinstance(self.edge_rows, ConstantRows):
            return self.rows.scores(f.T), g.T
        return self.rows.scores(f.T), self.edge_rows.scores(g.T)

    def scores(self, theta: Floats) -> Floats:
        fields, couplings = self.fields_and_couplings(theta)
        shape = (len(self.rows), self.n_edges)
        return np.concatenate([fields.ravel(), np.broadcast_to(couplings, shape).ravel()])

    def moments(self, tau: Floats) -> Floats:
        n, cut = len(self.rows), len(self.rows) * self.n_labels
        fields = self.rows.moments(tau[:cut].reshape(n, self.n_labels))
        couplings = self.edge_rows.moments(tau[cut:].reshape(n, self.n_edges))
        return np.concatenate([fields.T.ravel(), couplings.T.ravel()])

    def second_moments(self) -> list[tuple[Floats, Floats]]:
        found = [(self.rows.gram(), np.full(self.n_labels, FIELD_VARIANCE))]
        if self.n_edges:
            found.append((self.edge_rows.gram(), np.full(self.n_edges, COUPLING_VARIANCE)))
        return found
