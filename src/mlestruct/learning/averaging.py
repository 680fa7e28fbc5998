"""Weighted averaging of iterates: later ones count more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class WeightedAverage:
    """theta_bar <- k/(k+2) theta_bar + 2/(k+2) theta for k = 0, 1, ..."""

    def __init__(self, size: int):
        self.value = np.zeros(size)
        self._k = 0

    def add(self, theta: Floats) -> None:
        self.value += 2.0 / (self._k + 2.0) * (theta - self.value)
        self._k += 1
