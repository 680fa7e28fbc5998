"""Lower bounds of log Z for matchings in any graph: sums over some of the matchings.

On general graphs the Bethe value is no bound. Independent swaps lead from the best matching to many
others: two of its pairs can be re-paired among their four nodes in up to three ways, so grouping
the pairs by two gives a product of sums of at most three terms, and every term of the expanded
product is a matching. The best grouping is itself a matching problem.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .blossom import best_matching

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def swap_bound(partner: Ints, table: Floats) -> float:
    """log of a sum over perfect matchings that differ from `partner` by independent swaps.

    `partner` (n,) is a perfect matching; `table` (n, n) are symmetric scores, -inf where a pair is
    not allowed.
    """
    first = np.flatnonzero(partner > np.arange(partner.shape[0]))
    second = partner[first]
    score = float(table[first, second].sum())
    k = first.shape[0]
    if k < 2:
        return score
    upper = np.triu_indices(k, 1)
    now = table[first, second]
    gain = np.zeros(upper[0].shape[0])
    for one, other in ((first, second), (second, first)):
        # pairs (a, b), (c, d) become (a, c), (b, d) or (a, d), (b, c)
        swapped = table[np.ix_(first, one)] + table[np.ix_(second, other)]
        gain = np.logaddexp(gain, (swapped - now[:, None] - now)[upper])
    ptr = np.concatenate([[0], np.cumsum(np.arange(k - 1, -1, -1))]).astype(np.int64)
    grouping = best_matching(k, ptr, upper[1].astype(np.int64), gain, single=np.zeros(k))
    return score + float(gain[grouping.edges].sum())


def drop_bound(partner: Ints, table: Floats) -> float:
    """The same for imperfect matchings: the sum over all subsets of the pairs of `partner`."""
    first = np.flatnonzero(partner > np.arange(partner.shape[0]))
    return float(np.logaddexp(0.0, table[first, partner[first]]).sum())
