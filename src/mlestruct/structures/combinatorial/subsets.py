"""Subsets of a given size: the k best of n items, and sums by elementary symmetric polynomials.

e_k(w) = sum over subsets of size k of the product of w_i, one item after the other, in the
logarithmic domain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ..decoder import DecoderSpace
from ..exact import CountedOutputs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


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

    def _best(self, scores: Floats) -> Bools:
        out = np.zeros(self.n_coordinates, dtype=bool)
        out[np.argsort(-scores, kind="stable")[: self.size]] = True
        return out

    def exact(self, scores: Floats) -> CountedOutputs:
        """log Z, marginals and samples by polynomials, item by item."""
        k = self.size
        first = _log_polynomials(scores, k)
        last = _log_polynomials(scores[::-1], k)[::-1]  # of items i, i + 1, ...
        log_z = float(first[-1, k])
        others = logsumexp(first[:-1, :k] + last[1:, :k][:, ::-1], axis=1)
        tau = np.minimum(np.exp(scores + others - log_z), 1.0)

        def draw(rng: np.random.Generator) -> Bools:
            out, left = np.zeros(scores.shape[0], dtype=bool), k
            for i in range(scores.shape[0] - 1, -1, -1):
                if left > 0:
                    chosen = first[i, left - 1] + scores[i] - first[i + 1, left]
                    out[i] = rng.uniform() < np.exp(chosen)
                    left -= int(out[i])
            return out

        return CountedOutputs(log_z, tau, draw)


def _log_polynomials(scores: Floats, k: int) -> Floats:
    """log e_j of the first i items, with weights exp(scores): shape (n + 1, k + 1)."""
    out = np.full((scores.shape[0] + 1, k + 1), -np.inf)
    out[0, 0] = 0.0
    for i, score in enumerate(scores.tolist()):
        out[i + 1] = out[i]
        out[i + 1, 1:] = np.logaddexp(out[i, 1:], out[i, :-1] + score)
    return out
