"""What weights are learned from, and what is learned where only links are known.

A record whose partner is taken out of the other table is an example of one without a partner.
Probabilities also depend on how many there are. A model that has not seen a known link tells how
often it calls its left record single with the partner (A) and without (B); of all other left
records it does so with (1 - share) A + share B, which gives their share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._random import generator
from ..features import Rows
from ..models import PairInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """Labelled left records and their candidate pairs.

    rows, cols : the pairs, by records
    features : `Rows` of the pairs
    partner : of each left record; -1 has none, -2 is not known
    n_left : number of left records; a record and its copy differ by this number
    """

    rows: Ints
    cols: Ints
    features: Rows
    partner: Ints
    n_left: int

    @property
    def labelled(self) -> Ints:
        """The left records of which a partner, or none, is known."""
        return np.flatnonzero(self.partner >= -1)

    def with_singles(self) -> Examples:
        """Each known link once more, its right record taken away from the left one's copy."""
        others = np.flatnonzero(self.cols != self.partner[self.rows])
        copies = np.full(self.n_left, -2)
        copies[self.rows[others]] = -1  # without any candidate there is nothing to learn
        return replace(
            self,
            rows=np.concatenate([self.rows, self.rows[others] + self.n_left]),
            cols=np.concatenate([self.cols, self.cols[others]]),
            features=self.features.take(np.append(np.arange(self.rows.size), others)),
            partner=np.concatenate([self.partner, copies]),
        )

    def of(self, records: Ints) -> Examples:
        """Those of some left records and their copies."""
        mine = np.isin(np.arange(self.partner.size) % self.n_left, records)
        inside = mine[self.rows]
        return replace(
            self,
            rows=self.rows[inside],
            cols=self.cols[inside],
            features=self.features.take(inside),
            partner=np.where(mine, self.partner, -2),
        )

    def sample(self) -> tuple[PairInput, Ints]:
        """The problem of these records and their candidates, both numbered anew."""
        labelled = self.labelled
        right, place = np.unique(self.cols, return_inverse=True)
        shape = (labelled.size, right.size)
        x = pair_input(np.searchsorted(labelled, self.rows), place, self.features, shape)
        mates = self.partner[labelled]
        return x, np.where(mates >= 0, np.searchsorted(right, np.maximum(mates, 0)), -1)

    def thirds(self, random_state: Any) -> list[Ints]:
        """The labelled left records in three parts at random."""
        records = np.unique(self.labelled % self.n_left)
        fold = generator(random_state).permutation(records.size) % 3
        return [records[fold == k] for k in np.unique(fold)]


def pair_input(rows: Ints, cols: Ints, features: Rows, shape: tuple[int, int]) -> PairInput:
    """Candidate pairs, sorted by row and column, as a sample."""
    mask = sparse.csr_array((np.ones(rows.size, dtype=bool), (rows, cols)), shape=shape)
    return PairInput(features, mask=mask)


def estimate_single_share(
    partner: Ints,
    parts: list[Ints],
    without: Callable[[Ints], Floats],
    single: Callable[[Floats, Ints], Floats],
) -> tuple[float, float]:
    """The share of left records without a partner among those that are not labelled, its error.

    Parameters
    ----------
    partner : of each left record; -2 is not known
    parts : the left records of known links, in parts
    without : gives the weights of a model that has not learned from some left records
    single : gives the probability of each left record to have no partner, by the weights of a
        model and if some right records were not there

    Returns
    -------
    the share and its standard error, infinite where nothing tells records with a partner from
    those without, or none is not labelled
    """
    there, gone, others = [], [], []
    for held in parts:
        coef = without(held)
        found = single(coef, held[:0])
        there.append(found[held])
        others.append(found[partner == -2])
        gone.append(single(coef, partner[held])[held])
    linked, alone, rest = np.concatenate(there), np.concatenate(gone), np.mean(others, axis=0)
    apart = alone.mean() - linked.mean()
    if apart <= 0.0 or not rest.size:
        return 0.5, np.inf
    least = 0.5 / rest.size  # less than half a record cannot be told from none
    share = float(np.clip((rest.mean() - linked.mean()) / apart, least, 1.0 - least))
    variance = np.var((1.0 - share) * linked + share * alone, ddof=1) / linked.size
    variance += np.var(rest) / rest.size
    return share, float(np.sqrt(variance) / apart)
