"""Duplicates of one table without labels: expectation-maximisation with related records.

The model of `unlabelled.py`, for pairs of records of one table, with one class more. Members of a
household agree in surname, street and town, and are no duplicates; there are often more of them
than duplicates, and no other table in which each has a partner of its own. So two records that do
not match are related with probability pi, and agree in column c at some level with probability
h_c, or they are any two records. A pair has the log-odds

    log of the product of m_c  -  log of (pi * product of h_c + (1 - pi) * product of u_c)
    + log-odds of a match of two records at random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .unlabelled import CHANGE, ROUNDS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Marginals = Callable[[Floats], Floats]


class ExpectedDuplicates:
    """Weights of levels of agreement, learned from candidate pairs of one table.

    Parameters
    ----------
    levels, random_levels : of each column, the level at which candidate pairs, and pairs of records
        drawn at random, agree, as in `expected_links`
    ends : records of each candidate pair
    n_records : number of records
    """

    def __init__(
        self,
        levels: Sequence[Ints],
        random_levels: Sequence[Ints],
        ends: tuple[Ints, Ints],
        n_records: int,
    ):
        self.levels, self.ends, self.n_records = levels, ends, n_records
        self.sizes = [
            int(max(one.max(initial=0), other.max(initial=0))) + 1
            for one, other in zip(levels, random_levels, strict=True)
        ]
        self.u = [_shares(*one) for one in zip(random_levels, self.sizes, strict=True)]
        self._start()

    def _start(self) -> None:
        """Matches to start with are each other's best candidates and differ in few columns."""
        surprise, differing = np.zeros((2, self.ends[0].size))
        for level, share in zip(self.levels, self.u, strict=True):
            surprise -= np.log(share[::-1].cumsum()[::-1].clip(max=1.0))[level]
            differing += level == 1
        best = np.full(self.n_records, -np.inf)
        for end in self.ends:
            np.maximum.at(best, end, surprise)
        mutual = (surprise == best[self.ends[0]]) & (surprise == best[self.ends[1]])
        self.chance = np.zeros(surprise.size)
        self.related = np.zeros(surprise.size)
        self._alike = np.zeros(surprise.size, dtype=bool)
        if mutual.any():
            self._alike = differing <= np.quantile(differing[mutual], 0.25)
            self.chance = np.where(mutual, np.where(self._alike, 0.9, 0.1), 0.0)
            near = expit(surprise - 0.7 * np.median(surprise[mutual]))
            self.related = np.where(mutual, 0.0, near)

    def forget_competition(self) -> None:
        """Pairs that differ in few columns are matches to start with, whoever competes."""
        self.chance = np.where(self._alike, np.maximum(self.chance, 0.9), self.chance)
        self.related = np.where(self._alike, 0.0, self.related)

    def learn(self, marginals: Marginals, prior: Callable[[float, int], float]) -> Floats:
        """The probability of each pair to be a match, from the current ones on.

        Parameters
        ----------
        marginals : a function of log-odds of pairs to their probabilities
        prior : a function of the expected number of matches and the number of records to the
            log-odds of a match of two records at random
        """
        others = self._log_likelihood(self.u)
        n_pairs = self.n_records * (self.n_records - 1) / 2
        for _ in range(ROUNDS):
            near = (1.0 - self.chance) * self.related
            share = np.clip(near.sum() / n_pairs, 1e-12, 0.5)
            m, h = (
                self._log_likelihood(
                    [_shares(*one, weight) for one in zip(self.levels, self.sizes, strict=True)]
                )
                for weight in (self.chance, near)
            )
            h += np.log(share)
            none = np.logaddexp(h, np.log1p(-share) + others)
            self.related = np.exp(h - none)
            before = self.chance
            self.chance = marginals(prior(float(before.sum()), self.n_records) + m - none)
            if float(np.abs(self.chance - before).max(initial=0.0)) <= CHANGE:
                break
        return self.chance

    def _log_likelihood(self, shares: Sequence[Floats]) -> Floats:
        """Of the levels of each pair."""
        total = np.zeros(self.ends[0].size)
        for level, share in zip(self.levels, shares, strict=True):
            total += np.log(share)[level]
        return total


def of_pairs(n_matches: float, n_records: int) -> float:
    """Log-odds of a match if each pair is by itself."""
    share = np.clip(n_matches / max(n_records * (n_records - 1) / 2, 1.0), 1e-12, 0.5)
    return float(np.log(share / (1.0 - share)))


def of_couples(n_matches: float, n_records: int) -> float:
    """Log-odds of a match if each record has at most one, and may have none."""
    share = np.clip(2 * n_matches / n_records, 0.5 / n_records, 1.0 - 0.5 / n_records)
    return float(np.log(share / n_records) - 2.0 * np.log1p(-share))


def _shares(level: Ints, n: int, weight: Floats | None = None) -> Floats:
    """The share of each level, one more pair of each being counted."""
    counts = np.bincount(level, weight, minlength=n) + 1.0
    shares: Floats = counts / counts.sum()
    return shares
