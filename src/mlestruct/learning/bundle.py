"""A dual value from a convex combination of marginals.

Every evaluation k of the likelihood gives feasible marginals with expected moments e_k and entropy
h_k. Convex combinations of marginals are feasible too, and the entropy is concave, so

    L(sum_k w_k tau_k)  <=  |target - sum_k w_k e_k|^2 / (2 alpha) - sum_k w_k h_k

for all weights w on the simplex. The right side needs no tau, only numbers and K-vectors. Errors of
single evaluations cancel in the combination, so its minimum over w is a far better upper bound of
the optimum than the best single L(tau_k).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._bundle_kernels import minimise_on_simplex

Floats = NDArray[np.float64]

ITERATIONS = 2000


class DualBundle:
    """The last `size` evaluations and the weights that minimise the bound."""

    def __init__(self, target: Floats, alpha: float, size: int = 40):
        self.target, self.alpha, self.size = target, alpha, size
        self._residuals = np.zeros((0, target.shape[0]))  # target - e_k
        self._entropies = np.zeros(0)
        self._gram = np.zeros((0, 0))
        self._weights = np.zeros(0)

    def add(self, residual: Floats, entropy: float) -> float:
        """Take r_k = target - e_k and h_k of one more evaluation; returns the best bound."""
        if self._weights.shape[0] >= self.size:
            self._forget()
        products = self._residuals @ residual / self.alpha
        n = products.shape[0]
        gram = np.empty((n + 1, n + 1))
        gram[:n, :n], gram[n, :n], gram[:n, n] = self._gram, products, products
        gram[n, n] = float(residual @ residual) / self.alpha
        self._gram = gram
        self._residuals = np.vstack([self._residuals, residual])
        self._entropies = np.append(self._entropies, entropy)
        start = np.zeros(n + 1)
        if n == 0 or 0.5 * gram[n, n] - entropy < self._value(np.append(self._weights, 0.0)):
            start[n] = 1.0
        else:
            start[:n] = self._weights
        self._weights = minimise_on_simplex(gram, self._entropies, start, ITERATIONS)
        return self._value(self._weights)

    def _value(self, weights: Floats) -> float:
        """The bound itself, recomputed from the vectors rather than the Gram matrix."""
        r = weights @ self._residuals
        return float(r @ r) / (2.0 * self.alpha) - float(weights @ self._entropies)

    def _forget(self) -> None:
        """Drop an evaluation without weight, or the oldest."""
        k = int(np.argmin(self._weights))
        kept = np.arange(self._weights.shape[0]) != k
        weights = self._weights[kept]
        self._weights = weights / weights.sum()
        self._residuals, self._entropies = self._residuals[kept], self._entropies[kept]
        self._gram = self._gram[np.ix_(kept, kept)]
