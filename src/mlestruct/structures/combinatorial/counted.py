"""Distributions over 0/1 vectors whose partition function is known in closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CountedOutputs:
    """An `ExactDistribution` from its partition function, marginals, and a function that draws."""

    def __init__(
        self,
        log_partition: float,
        tau: Floats,
        draw: Callable[[np.random.Generator], NDArray[np.bool_]],
    ):
        self.log_partition, self.tau, self._draw = log_partition, tau, draw

    def sample(self, n_samples: int, rng: np.random.Generator) -> Ints:
        """Independent outputs, shape (n_samples, n_coordinates)."""
        return np.array([self._draw(rng) for _ in range(n_samples)], dtype=np.int64)
