"""The recall of candidates: which share of all links is among the candidate pairs.

Of known links it is counted. Without, some left records are compared with all right ones by common
tokens, and the best of these by the model. Added to the candidates, pairs (i, j_k) of scores s_k
have the probabilities

    o_k / (1 + sum of all o),    o_k = exp(s_k) P(i is single) P(j_k is single),

if no chain of candidate pairs connects their records.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .blocking import RANKED
from .prepared import PreparedTables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SAMPLED = 300  # left records that are compared with all right ones: a standard error of .01
LOW = 0.9  # from which on there is a warning
MORE_CANDIDATES = (
    "Pass blocking rules: columns in which matches agree, such as block=[['surname', 'birth']] "
    "(--block surname+birth); or raise neighbours."
)


class Recall(NamedTuple):
    """The share of links that are candidates, and its standard error."""

    share: float
    error: float

    @classmethod
    def of(cls, share: float, n_links: int) -> Recall:
        """With the standard error of a share of known links."""
        return cls(share, float(np.sqrt(share * (1.0 - share) / n_links)))


def recall_of_known(n_links: int, n_missed: int, n_candidates: int) -> Recall | None:
    """Of known links; None without any. An error if none is a candidate."""
    if n_links == 0:
        return None
    share = 1.0 - n_missed / n_links
    if share == 0.0:
        raise ValueError(
            f"known: none of the {n_links} links is among the {n_candidates} candidate "
            f"pairs, so nothing would be found. {MORE_CANDIDATES}"
        )
    if share < LOW:
        warnings.warn(
            f"known: only {share:.0%} of the links are among the candidate pairs; the same may "
            f"hold for links that are not known. {MORE_CANDIDATES}",
            stacklevel=5,
        )
    return Recall.of(share, n_links)


def estimated_recall(
    tables: PreparedTables,
    pairs: tuple[Ints, Ints],
    chance: Floats,
    coef: Floats,
    rng: np.random.Generator,
) -> Recall | None:
    """Of the links that a model expects; None if it expects none.

    Parameters
    ----------
    pairs, chance : candidate pairs and their probabilities
    coef : weights of the features of a pair
    """
    shape = len(tables.left), len(tables.right)
    if not all(shape):
        return None
    asked = np.sort(rng.permutation(shape[0])[:SAMPLED])
    rows, cols = tables.tokens.nearest(asked, RANKED, tables.n_jobs)
    new = ~np.isin(rows * shape[1] + cols, pairs[0] * shape[1] + pairs[1])
    rows, cols = rows[new], cols[new]
    single = [
        np.clip(1.0 - np.bincount(end, chance, n), 0.0, 1.0)
        for end, n in zip(pairs, shape, strict=True)
    ]
    odds = np.exp(np.minimum(tables.scores(coef, rows, cols), 50.0))
    odds *= single[0][rows] * single[1][cols]
    total = np.bincount(rows, odds, shape[0])[asked]
    missed = total / (1.0 + total)
    found = np.bincount(pairs[0], chance, shape[0])[asked] * (1.0 - missed)
    links = float(np.sum(found + missed))
    if not links > 0.0:
        return None
    share = float(found.sum()) / links
    if share < LOW:
        warnings.warn(
            f"only about {share:.0%} of the links are among the candidate pairs, as a comparison "
            f"of {asked.size} records with all others shows. {MORE_CANDIDATES}",
            stacklevel=4,
        )
    deviations = found - share * (found + missed)
    return Recall(share, float(np.sqrt(np.sum(deviations**2)) / links))
