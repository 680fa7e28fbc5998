"""Campuses, generated from known weights, year by year."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...datasets import Campus, generate_campus
from ...features import QuestionnairePairs
from ..parts import Setting


@dataclass(frozen=True)
class Years:
    """Features of all pairs, and partners, year by year."""

    X: list[QuestionnairePairs]
    Y: list[NDArray[np.int64]]

    @classmethod
    def of(cls, campus: Campus) -> Years:
        """Only the students with a roommate, as in the paper."""
        years = [year.paired() for year in campus.years]
        return cls([campus.features(year) for year in years], [year.partner for year in years])

    def __getitem__(self, which: slice) -> Years:
        return Years(self.X[which], self.Y[which])

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True)
class Cohort:
    """A campus as the methods see it; `truth` are the weights behind its pairs."""

    questions: list[str]
    years: Years
    truth: NDArray[np.float64]


def campus_names(setting: Setting) -> list[str]:
    """One campus for each seed."""
    return [f"campus {seed + 1}" for seed in setting["seeds"]]


@lru_cache(maxsize=1)
def load(name: str, n_students: int) -> Cohort:
    """The campus of this name."""
    campus = generate_campus(n_students, random_state=int(name.split()[-1]) - 1)
    questions = [question.name for question in campus.questions]
    return Cohort(questions, Years.of(campus), np.asarray(campus.true_theta))
