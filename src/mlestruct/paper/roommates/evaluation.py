"""Campuses year by year, and how good weights are in a year that was not trained on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.matching.blossom import best_matching
from ...datasets import Campus, generate_campus
from ...features import QuestionnairePairs
from ...metrics import pair_roc
from ...structures.graphs.simple import SimpleGraph

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@lru_cache(maxsize=1)
def load(name: str, n_students: int) -> Campus:
    """The generated campus "campus 1", "campus 2", ..."""
    return generate_campus(n_students, random_state=int(name.split()[-1]) - 1)


@dataclass(frozen=True)
class Years:
    """Features of all pairs, and partners, year by year."""

    X: list[QuestionnairePairs]
    Y: list[Ints]

    @classmethod
    def of(cls, campus: Campus) -> Years:
        """Only the students with a roommate, as in the paper."""
        years = [year.paired() for year in campus.years]
        return cls([campus.features(year) for year in years], [year.partner for year in years])

    def __getitem__(self, which: slice) -> Years:
        return Years(self.X[which], self.Y[which])

    def __len__(self) -> int:
        return len(self.X)


def curve_rates() -> Floats:
    """The false-positive rates of all curves: 0, then even on a log scale."""
    return np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 200)])


def score_table(features: QuestionnairePairs, theta: Floats) -> Floats:
    """Scores of all pairs as a symmetric matrix."""
    table = np.zeros(features.shape)
    table[np.triu_indices(features.shape[0], 1)] = features.scores(theta)
    return table + table.T


def auc_of(years: Years, theta: Floats) -> float:
    """The AUC in the last of the years."""
    return pair_roc(score_table(years.X[-1], theta), years.Y[-1]).auc


def _true_pairs(partner: Ints) -> Ints:
    """The places of observed pairs among all pairs i < j, row by row."""
    i = np.flatnonzero(np.arange(partner.size) < partner)
    return i * partner.size - i * (i + 1) // 2 + partner[i] - i - 1


def hamming_error(features: QuestionnairePairs, partner: Ints, theta: Floats) -> float:
    """The share of students whose roommate the best matching gets wrong."""
    graph = SimpleGraph.complete(partner.size)
    found = best_matching(partner.size, graph.ptr, graph.col, features.scores(theta))
    return 1.0 - float(np.isin(_true_pairs(partner), found.edges).mean())


def evaluated(years: Years, theta: Floats, note: str = "", **more: Any) -> dict[str, Any]:
    """Weights, how good they are in the last of the years, and what was chosen; plain data."""
    features, partner = years.X[-1], years.Y[-1]
    table = score_table(features, theta)
    roc = pair_roc(table, partner)
    curve = np.interp(curve_rates(), roc.false_positive_rate, roc.true_positive_rate)
    return {
        "note": note,
        **more,
        "auc": roc.auc,
        "hamming": hamming_error(features, partner, theta),
        "curve": curve.tolist(),
        "theta": theta.tolist(),
    }
