"""One weight for every score: models whose samples have no features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .contract import FeatureMap

Floats = NDArray[np.float64]


class ScoreFeatures(FeatureMap):
    """Scores are the entries of theta, times given scales.

    Parameters
    ----------
    variances : array of shape (n_scored,)
        An estimate of the variance of every coordinate, for the preconditioner of L-BFGS.
    scales : array of shape (n_scored,)
        The larger a scale, the less a penalty on theta restrains the score.
    """

    def __init__(self, variances: Floats, scales: Floats):
        self.n_features = self.n_scored = variances.shape[0]
        self._variances, self._scales = variances, scales

    def scores(self, theta: Floats) -> Floats:
        return self._scales * theta

    def moments(self, tau: Floats) -> Floats:
        return self._scales * tau

    def second_moments(self) -> list[tuple[Floats, Floats]]:
        return [(np.ones((1, 1)), self._variances * self._scales**2)]
