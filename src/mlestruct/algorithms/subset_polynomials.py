"""Subsets of k of n items: sums over all of them by elementary symmetric polynomials.

e_k(w) = sum over subsets of size k of the product of w_i, one item after the other, in the
logarithmic domain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def log_polynomials(scores: Floats, k: int) -> Floats:
    """log e_j of the first i items, with weights exp(scores): shape (n + 1, k + 1)."""
    out = np.full((scores.shape[0] + 1, k + 1), -np.inf)
    out[0, 0] = 0.0
    for i, score in enumerate(scores.tolist()):
        out[i + 1] = out[i]
        out[i + 1, 1:] = np.logaddexp(out[i, 1:], out[i, :-1] + score)
    return out


def subset_marginals(scores: Floats, k: int) -> tuple[float, Floats]:
    """log e_k, and the probability of every item to be chosen."""
    first = log_polynomials(scores, k)
    last = log_polynomials(scores[::-1], k)[::-1]  # of items i, i + 1, ...
    log_z = float(first[-1, k])
    if k == 0:
        return log_z, np.zeros(scores.shape[0])
    others = logsumexp(first[:-1, :k] + last[1:, :k][:, ::-1], axis=1)
    return log_z, np.minimum(np.exp(scores + others - log_z), 1.0)


def sample_subset(first: Floats, scores: Floats, k: int, rng: np.random.Generator) -> Bools:
    """A subset with probability proportional to exp(total score); `first` is `log_polynomials`."""
    out = np.zeros(scores.shape[0], dtype=bool)
    left = k
    for i in range(scores.shape[0] - 1, -1, -1):
        if left == 0:
            break
        chosen = first[i, left - 1] + scores[i] - first[i + 1, left]
        if rng.uniform() < np.exp(chosen):
            out[i], left = True, left - 1
    return out
