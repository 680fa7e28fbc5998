"""One weight for every score: models whose samples have no features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .contract import FeatureMap

Floats = NDArray[np.float64]


class ScoreFeatures(FeatureMap):
    """theta is the vector of scores itself.

    Parameters
    ----------
    variances : array of shape (n_scored,)
        An estimate of the variance of every coordinate, for the preconditioner of L-BFGS.
    """

    def __init__(self, variances: Floats):
        self.n_features = self.n_scored = variances.shape[0]
        self._variances = variances

    def scores(self, theta: Floats) -> Floats:
        return theta

    def moments(self, tau: Floats) -> Floats:
        return tau.copy()

    def second_moments(self) -> list[tuple[Floats, Floats]]:
        return [(np.ones((1, 1)), self._variances)]
