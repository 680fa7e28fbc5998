"""Subsets of a given size: the k best of n items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.subset_polynomials import log_polynomials, sample_subset, subset_marginals
from ..decoder import DecoderSpace
from .counted import CountedOutputs

Floats = NDArray[np.float64]


class Subsets(DecoderSpace):
    """Output space of the subsets of k of n items.

    Marginals by Frank-Wolfe use the entropy of independent items; `exact` gives log Z, marginals
    and samples by elementary symmetric polynomials.

    Parameters
    ----------
    n_items, size : int, n and k with 0 < k < n
    entropy : as in `DecoderSpace`

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.inference import log_partition
    >>> from mlestruct.structures import Subsets
    >>> round(np.exp(log_partition(Subsets(10, 3), np.zeros(10), method="exact")))
    120
    """

    def __init__(self, n_items: int, size: int, entropy: Any = None):
        if not 0 < size < n_items:
            raise ValueError(f"size: expected 1 to {n_items - 1} of {n_items} items, got {size}")
        self.size = int(size)
        interior = np.full(int(n_items), size / n_items)
        super().__init__(self._best, n_items, entropy=entropy, interior=interior)
        if entropy is None:  # another entropy is another space
            self.fingerprint = f"{self.size} of {self.n_coordinates}"

    def _best(self, scores: Floats) -> NDArray[np.bool_]:
        out = np.zeros(self.n_coordinates, dtype=bool)
        out[np.argsort(-scores, kind="stable")[: self.size]] = True
        return out

    def exact(self, scores: Floats) -> CountedOutputs:
        """log Z, marginals and samples by polynomials, item by item."""
        log_z, tau = subset_marginals(scores, self.size)
        first = log_polynomials(scores, self.size)
        return CountedOutputs(log_z, tau, lambda rng: sample_subset(first, scores, self.size, rng))
