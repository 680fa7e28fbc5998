"""Links without known ones: expectation-maximisation under the one-to-one constraint.

The model of Fellegi and Sunter: a pair of records agrees in every column at some level, of
probability m for a match and u for two records at random, columns being independent given which
records match. So a pair has the log-odds

    sum over columns of log m(level) / u(level)  +  log-odds of a match of two records at random.

A missing value counts for neither. u is counted on random pairs. Each round takes the marginals of
one-to-one links at these scores, where the usual algorithm takes each pair by itself, and counts m
and the number of links by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 50
CHANGE = 1e-3  # of all probabilities, at which rounds end


def expected_links(
    levels: Sequence[Ints],
    random_levels: Sequence[Ints],
    ends: tuple[Ints, Ints],
    shape: tuple[int, int],
    n_left: int,
    marginals: Callable[[Floats], Floats],
) -> Floats:
    """The probability of each candidate pair to be a link.

    Parameters
    ----------
    levels, random_levels : of each column, the level at which candidate pairs, and pairs of
        records drawn at random, agree: 0 is missing on a side, larger ones are closer
    ends : the left and the right record of each candidate pair
    shape : number of left and of right records
    n_left : of all left records, of which those may be a part
    marginals : a function of scores of candidate pairs to their probabilities
    """
    sizes = [int(max(a.max(initial=0), b.max(initial=0))) + 1
             for a, b in zip(levels, random_levels, strict=True)]  # fmt: skip
    u = [_shares(level, None, n) for level, n in zip(random_levels, sizes, strict=True)]
    # Matches to start with: pairs that agree most surprisingly, of both of their records.
    surprise = np.zeros(ends[0].size)
    for level, share in zip(levels, u, strict=True):
        surprise -= np.log(share[::-1].cumsum()[::-1].clip(max=1.0))[level]
    mutual = np.ones(ends[0].size, dtype=bool)
    for end, n in zip(ends, shape, strict=True):
        best = np.full(n, -np.inf)
        np.maximum.at(best, end, surprise)
        mutual &= surprise == best[end]
    chance = np.where(mutual, 0.5, 0.0)
    if mutual.any():
        chance[mutual & (surprise >= np.median(surprise[mutual]))] = 0.9
    for _ in range(ROUNDS):
        scores = np.full(ends[0].size, _log_odds(float(chance.sum()), shape, n_left))
        for level, share, n in zip(levels, u, sizes, strict=True):
            scores += _weights(_shares(level, chance, n), share)[level]
        before, chance = chance, marginals(scores)
        if float(np.abs(chance - before).max(initial=0.0)) <= CHANGE:
            break
    return chance


def _weights(m: Floats, u: Floats) -> Floats:
    """The log-odds of each level; a missing value is not evidence."""
    weights = np.zeros(m.size)
    weights[1:] = np.log(m[1:] / m[1:].sum()) - np.log(u[1:] / u[1:].sum())
    return weights


def _shares(level: Ints, weight: Floats | None, n: int) -> Floats:
    """The share of each level, one more pair of each being counted."""
    counts = np.bincount(level, weight, minlength=n) + 1.0
    shares: Floats = counts / counts.sum()
    return shares


def _log_odds(n_links: float, shape: tuple[int, int], n_left: int) -> float:
    """The log-odds of two records at random that make this number of links expected."""
    share = np.clip(n_links / shape[0], 0.5 / shape[0], 1.0 - 0.5 / shape[0])
    taken = min(share * n_left / shape[1], 1.0 - 0.5 / shape[1])
    return float(np.log(share / shape[1] / (1.0 - share) / (1.0 - taken)))
