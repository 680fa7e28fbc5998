"""Generated roommates: students' questionnaires and whom they chose to live with, year by year.

A substitute for the housing records of a university, which are confidential. Every year's pairs are
one draw from the model itself with known weights, so that learned weights can be compared with the
true ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from .._arguments import as_count, as_number, generator
from ..algorithms.matching.worm_chain import sample_by_worms

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_GROWTH, MOST_GROWTH = -0.011, 0.043  # of a year's size against n_students


@dataclass(frozen=True)
class Question:
    """A question: its name, "binary" or "ordinal", and what its answers 0, 1, ... mean."""

    name: str
    kind: str
    labels: tuple[str, ...]

    @property
    def levels(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class CampusYear:
    """One year: student ids, answers (n, n_questions) with -1 for none, partner or -1 for none.

    `rhat` and `ess` are the diagnostics of the Markov chains that drew generated pairs.
    """

    year: int
    students: list[str]
    answers: Ints
    partner: Ints
    rhat: float | None = None
    ess: float | None = None

    def paired(self) -> CampusYear:
        """Only the students who have a partner."""
        kept = np.flatnonzero(self.partner >= 0)
        place = np.full(self.partner.size, -1, dtype=np.int64)
        place[kept] = np.arange(kept.size)
        return CampusYear(
            self.year,
            [self.students[i] for i in kept],
            self.answers[kept],
            place[self.partner[kept]],
            self.rhat,
            self.ess,
        )


@dataclass(frozen=True)
class Campus:
    """Questions and years; of generated data also the weights behind the pairs.

    `true_weights` has the weights that are not 0, by the name of the feature: "|smoking|" is the
    difference of two answers in levels, "smoking: 0-1" indicates that they are 0 and 1.
    """

    questions: list[Question]
    years: list[CampusYear]
    true_weights: dict[str, float] | None = None

    def true_scores(self, year: CampusYear) -> Floats:
        """The score of every pair under the true weights, a symmetric array (n, n)."""
        names, tables = answer_tables(self.questions)
        weights = self.true_weights or {}
        theta = np.array([weights.get(name, 0.0) for name in names])
        given = answer_indicators(self.questions, year.answers)
        return np.asarray(given @ np.tensordot(theta, tables, 1) @ given.T)


def answer_indicators(questions: Sequence[Question], answers: Ints) -> Floats:
    """1 for each answer that a student gave, shape (n_students, number of all answers)."""
    parts = zip(questions, answers.T, strict=True)
    return np.concatenate([own[:, None] == np.arange(q.levels) for q, own in parts], axis=1) * 1.0


def answer_tables(questions: Sequence[Question]) -> tuple[list[str], Floats]:
    """Features of a pair of students by their answers: names, and tables of all two answers.

    The table of a feature is symmetric; features of a pair are x_i' table x_j with the indicators
    x of `answer_indicators`. Differences come first, then indicators, question by question.
    """
    ends = np.cumsum([0, *(q.levels for q in questions)])
    differences: dict[str, Floats] = {}
    indicators: dict[str, Floats] = {}
    for question, start in zip(questions, ends.tolist(), strict=False):
        levels = np.arange(question.levels)
        own = slice(start, start + question.levels)
        table = differences[f"|{question.name}|"] = np.zeros((ends[-1], ends[-1]))
        table[own, own] = np.abs(np.subtract.outer(levels, levels))
        for one, other in combinations_with_replacement(levels.tolist(), 2):
            table = indicators[f"{question.name}: {one}-{other}"] = np.zeros_like(table)
            table[start + one, start + other] = table[start + other, start + one] = 1.0
    found = differences | indicators
    return list(found), np.array(list(found.values()))


# name, labels, share of each answer, loadings on the factors, weight of the difference
_SURVEY: list[tuple[str, str, tuple[float, ...], tuple[float, float, float], float]] = [
    ("smoking", "no;yes", (0.92, 0.08), (0.2, 0.4, -0.3), -3.0),
    ("single-sex floor", "no;yes", (0.75, 0.25), (-0.4, -0.2, 0.2), -0.1),
    (
        "personality",
        "very reserved;reserved;in between;outgoing;very outgoing",
        (0.10, 0.24, 0.32, 0.23, 0.11),
        (0.8, 0.0, 0.0),
        -0.9,
    ),
    (
        "bed time",
        "before 22;22 to 23;23 to 24;0 to 1;after 1",
        (0.06, 0.20, 0.34, 0.26, 0.14),
        (0.1, 0.8, -0.1),
        -0.7,
    ),
    (
        "wake time",
        "before 7;7 to 8;8 to 9;9 to 10;after 10",
        (0.10, 0.28, 0.33, 0.20, 0.09),
        (0.0, 0.7, -0.2),
        -0.5,
    ),
    (
        "audio while studying",
        "never;rarely;at times;often;always",
        (0.22, 0.25, 0.24, 0.18, 0.11),
        (0.2, 0.2, -0.2),
        -0.3,
    ),
    (
        "overnight guests",
        "never;once a term;once a month;once a week;more",
        (0.35, 0.28, 0.20, 0.12, 0.05),
        (0.5, 0.3, -0.2),
        -0.24,
    ),
    (
        "cleanliness",
        "relaxed;fairly relaxed;average;tidy;spotless",
        (0.05, 0.16, 0.37, 0.30, 0.12),
        (0.0, -0.1, 0.7),
        -0.15,
    ),
    (
        "sleeping",
        "anything wakes me;light;average;deep;nothing wakes me",
        (0.08, 0.22, 0.38, 0.22, 0.10),
        (0.1, 0.1, -0.2),
        -0.06,
    ),
    (
        "noise",
        "silence;quiet;some;lively;loud",
        (0.12, 0.33, 0.33, 0.16, 0.06),
        (0.4, 0.2, -0.3),
        -0.06,
    ),
    (
        "temperature",
        "cold;cool;medium;warm;hot",
        (0.08, 0.25, 0.37, 0.22, 0.08),
        (0.0, 0.0, 0.0),
        0.0,
    ),
    (
        "socialising in the room",
        "never;rarely;at times;often;always",
        (0.10, 0.24, 0.33, 0.23, 0.10),
        (0.7, 0.1, -0.1),
        -0.03,
    ),
    (
        "study hours",
        "early morning;morning;afternoon;evening;night",
        (0.05, 0.15, 0.25, 0.37, 0.18),
        (0.0, 0.5, 0.0),
        0.0,
    ),
    (
        "study location",
        "always in the room;mostly there;both;mostly out;always out",
        (0.13, 0.22, 0.30, 0.22, 0.13),
        (0.1, 0.0, 0.1),
        0.0,
    ),
]
_COMBINATIONS = {
    "personality: 4-4": 0.25,  # outgoing people pair more often than agreement explains
    "bed time: 0-0": 0.3,
    "overnight guests: 0-4": -0.3,
    "cleanliness: 4-4": 0.2,
    "cleanliness: 0-4": -0.2,
}


def generate_campus(
    n_students: int | Sequence[int] = 2400,
    n_years: int | None = None,
    random_state: int | None = 0,
    *,
    strength: float = 1.0,
    missing: float = 0.0,
    n_chains: int = 2,
    max_sweeps: int = 50_000,
) -> Campus:
    """Three years of students with 14 answers each, and the pairs in which they live.

    Answers come from three hidden traits and are skewed as in real surveys: 8 % smoke. Agreement
    on smoking, personality and bed time counts most, study habits and temperature not at all. With
    the default strength, true scores separate roommates from other pairs with an AUC of about 0.8.

    Parameters
    ----------
    n_students : typical size of a year, or the exact size of each; even
    n_years : default 3, or as many as there are sizes
    strength : factor on all weights; 0 makes pairs random
    missing : share of answers left empty
    n_chains, max_sweeps : of `mlestruct.algorithms.matching.worm_chain.sample_by_worms`

    Examples
    --------
    >>> from mlestruct.datasets import generate_campus
    >>> campus = generate_campus(40, random_state=0)
    >>> [year.year for year in campus.years], campus.years[0].answers.shape
    ([2010, 2011, 2012], (40, 14))
    >>> min(campus.true_weights, key=campus.true_weights.get)
    '|smoking|'
    """
    as_number(strength, "strength")
    as_number(missing, "missing", 0.0, 1.0)
    if missing == 1.0:
        raise ValueError("`missing` must be a share below 1; got 1.")
    as_count(n_chains, "n_chains")
    as_count(max_sweeps, "max_sweeps")
    rng = generator(random_state)
    questions = [
        Question(name, "binary" if len(shares) == 2 else "ordinal", tuple(labels.split(";")))
        for name, labels, shares, _, _ in _SURVEY
    ]
    weights = {f"|{name}|": strength * weight for name, *_, weight in _SURVEY if weight != 0.0}
    weights |= {name: strength * weight for name, weight in _COMBINATIONS.items()}
    campus = Campus(questions, [], weights)
    for k, n in enumerate(_sizes(n_students, n_years, rng)):
        year = 2010 + k
        students = [f"{year}-{i:0{len(str(n))}d}" for i in range(1, n + 1)]
        alone = CampusYear(year, students, _answers(n, missing, rng), np.full(n, -1))
        ends = np.triu_indices(n, 1)
        scores = campus.true_scores(alone)[ends]
        found = sample_by_worms(
            n, *ends, scores, 1, n_chains=n_chains, max_sweeps=max_sweeps, rng=rng
        )
        pairs = {"partner": found.states[0], "rhat": found.rhat, "ess": found.ess}
        campus.years.append(replace(alone, **pairs))
    return campus


def _sizes(
    n_students: int | Sequence[int], n_years: int | None, rng: np.random.Generator
) -> list[int]:
    """Even numbers of students, one for each year."""
    given = isinstance(n_students, Sequence | np.ndarray)
    numbers = np.atleast_1d(n_students).tolist()
    if any(not isinstance(n, int) or n < 2 or n % 2 for n in numbers):
        raise ValueError(f"`n_students` must be even, from 2; got {n_students}.")
    sizes = [int(n) for n in numbers]
    if given:
        if not sizes or n_years not in (None, len(sizes)):
            raise ValueError(f"n_students: expected {n_years or 'some'} sizes, got {n_students}")
        return sizes
    if n_years is not None:
        as_count(n_years, "n_years")
    growth = rng.uniform(LEAST_GROWTH, MOST_GROWTH, size=3 if n_years is None else n_years)
    return [sizes[0] + 2 * round(float(share) * sizes[0] / 2) for share in growth]


def _answers(n: int, missing: float, rng: np.random.Generator) -> Ints:
    """Correlated normal variables, cut so that every answer has its share."""
    traits = rng.normal(size=(n, 3))  # sociable, nocturnal, orderly
    out = np.empty((n, len(_SURVEY)), dtype=np.int64)
    for q, (_, _, shares, loadings, _) in enumerate(_SURVEY):
        own = np.sqrt(1.0 - np.sum(np.square(loadings)))
        value = traits @ np.array(loadings) + own * rng.normal(size=n)
        out[:, q] = np.searchsorted(norm.ppf(np.cumsum(shares)[:-1]), value)
    out[rng.random(out.shape) < missing] = -1
    return out
