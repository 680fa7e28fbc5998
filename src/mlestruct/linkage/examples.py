"""What weights are learned from: records whose partner is known, or expected links of all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._arguments import generator
from ..features import Rows
from ..learning.problem import Block
from ..models import BipartiteMatchingCRF, PairInput
from ..structures.contract import Vertex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """Labelled left records and their candidate pairs.

    rows, cols : the pairs, by records
    features : `Rows` of the pairs
    offset : of the pairs, their scores without labels
    partner : of each left record; -1 has none, -2 is not known
    """

    rows: Ints
    cols: Ints
    features: Rows
    offset: Floats
    partner: Ints

    @property
    def labelled(self) -> Ints:
        """The left records of which a partner, or none, is known."""
        return np.flatnonzero(self.partner >= -1)

    def of(self, records: Ints) -> Examples:
        """Those of some left records."""
        mine = np.isin(np.arange(self.partner.size), records)
        inside = mine[self.rows]
        return replace(
            self,
            rows=self.rows[inside],
            cols=self.cols[inside],
            features=self.features.take(inside),
            offset=self.offset[inside],
            partner=np.where(mine, self.partner, -2),
        )

    def sample(self) -> tuple[PairInput, Ints]:
        """The problem of these records and their candidates, both numbered anew."""
        labelled = self.labelled
        right, place = np.unique(self.cols, return_inverse=True)
        shape = (labelled.size, right.size)
        x = pair_input(
            np.searchsorted(labelled, self.rows), place, self.features, shape, self.offset
        )
        mates = self.partner[labelled]
        return x, np.where(mates >= 0, np.searchsorted(right, np.maximum(mates, 0)), -1)

    def thirds(self, random_state: Any) -> list[Ints]:
        """The labelled left records in three parts at random."""
        fold = generator(random_state).permutation(self.labelled.size) % 3
        return [self.labelled[fold == k] for k in np.unique(fold)]


def pair_input(
    rows: Ints, cols: Ints, features: Rows, shape: tuple[int, int], offset: Floats | None = None
) -> PairInput:
    """Candidate pairs, sorted by row and column, as a sample."""
    mask = sparse.csr_array((np.ones(rows.size, dtype=bool), (rows, cols)), shape=shape)
    return PairInput(features, mask=mask, offset=offset)


class ExpectedLinks(BipartiteMatchingCRF):
    """Learns from the probabilities of pairs in place of labels."""

    @classmethod
    def like(cls, other: BipartiteMatchingCRF) -> ExpectedLinks:
        """With the parameters of another estimator."""
        return cls(**other.get_params(deep=False))

    def _observed(self, prepared: Any, label: Any, where: str, *_: Any) -> Block:
        """The block, observed with these probabilities of pairs and those to be single."""
        space = prepared.block.structure
        point = np.zeros(space.n_coordinates)
        point[: space.n_scored] = label
        used = sum(np.bincount(end, label, space.n_nodes) for end in space.ends)
        point[space.single_at] = np.maximum(1.0 - used, 0.0)
        return replace(prepared.block, observed=Vertex.of(point))
