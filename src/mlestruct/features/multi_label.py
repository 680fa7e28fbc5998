"""Features of many yes/no labels: every label has weights for all features of a sample.

theta holds F of shape (L, C), then G of shape (E, D): label l of sample m with features x_m scores
F[l] . x_m, two coupled labels score G[e] . v_m together; v_m is x_m, or the constant 1.
Coordinates are as in labellings with two states: 2 of each label, of which the second has the
score, then 4 of each pair, of which the last has it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .rows import FeatureMap, Rows, Segments

Floats = NDArray[np.float64]

FIELD_VARIANCE, COUPLING_VARIANCE = 1 / 4, 3 / 16  # of a label and of a pair, if all are fair coins


class MultiLabelFeatures(FeatureMap):
    """Scores of the labels of all samples, sample by sample, then of their couplings.

    Parameters
    ----------
    rows : Rows of shape (n_samples, C)
    n_labels, n_edges : int
    edge_rows : Rows of shape (n_samples, D), optional; by default the constant 1
    variances : array of shape (n_labels + n_edges,), optional
        Of labels and of pairs, for the preconditioner of L-BFGS.
    """

    def __init__(
        self,
        rows: Rows,
        n_labels: int,
        n_edges: int,
        edge_rows: Rows | None = None,
        variances: Floats | None = None,
    ):
        self.rows = rows
        self.edge_rows = Rows.ones(len(rows)) if edge_rows is None else edge_rows
        self.n_labels, self.n_edges = n_labels, n_edges
        self.n_features = n_labels * rows.n_features + n_edges * self.edge_rows.n_features
        self.n_scored = len(rows) * (2 * n_labels + 4 * n_edges)
        if variances is None:
            variances = np.repeat([FIELD_VARIANCE, COUPLING_VARIANCE], [n_labels, n_edges])
        self._variances = variances

    def scores(self, theta: Floats) -> Floats:
        cut, out = self.n_labels * self.rows.n_features, np.zeros(self.n_scored)
        on, both = self._at(out)
        on[:] = self.rows.scores(theta[:cut].reshape(self.n_labels, -1).T)
        couplings = theta[cut:].reshape(self.n_edges, self.edge_rows.n_features)
        both[:] = self.edge_rows.scores(couplings.T)
        return out

    def moments(self, tau: Floats) -> Floats:
        on, both = (np.ascontiguousarray(part) for part in self._at(tau))
        fields, couplings = self.rows.moments(on), self.edge_rows.moments(both)
        return np.concatenate([fields.T.ravel(), couplings.T.ravel()])

    def _at(self, values: Floats) -> tuple[Floats, Floats]:
        """The coordinates with a score, (n_samples, n_labels) and (n_samples, n_edges)."""
        n, cut = len(self.rows), 2 * len(self.rows) * self.n_labels
        on, both = values[:cut].reshape(n, -1, 2), values[cut:].reshape(n, self.n_edges, 4)
        return on[:, :, 1], both[:, :, 3]

    def second_moments(self) -> Segments:
        fields, couplings = np.split(self._variances, [self.n_labels])
        found = [(self.rows.gram(), fields)]
        return [*found, (self.edge_rows.gram(), couplings)] if self.n_edges else found
