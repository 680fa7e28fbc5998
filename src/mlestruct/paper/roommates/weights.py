"""Weights of differences: learned, true and published ones, and their ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from .methods import LIKELY
from .published import SHARED, STRONG
from .results import CampusResult

Floats = NDArray[np.float64]


def stacked(campuses: Sequence[CampusResult], method: str = LIKELY) -> Floats:
    """Learned weights of differences, shape (n_campuses, n_questions)."""
    return np.array([campus.weights(method) for campus in campuses])


def planted(campuses: Sequence[CampusResult]) -> Floats:
    """The true ones, which are the same on all generated campuses."""
    weights = campuses[0].planted
    assert weights is not None
    return weights


def ranks(weights: Floats) -> list[int]:
    """1 for the most negative weight; equal ones share the first of their ranks."""
    return [int(rank) for rank in rankdata(np.round(weights, 12), method="min")]


def shared_ranks(weights_of: Callable[[str], float]) -> dict[str, int]:
    """Ranks among the questions that the paper's survey and the generated one share."""
    names = [str(item.question) for item in SHARED]
    return dict(zip(names, ranks(np.array([weights_of(name) for name in names])), strict=True))


def published_ranks() -> dict[str, int]:
    weights = {str(item.question): item.weight for item in SHARED}
    return shared_ranks(weights.__getitem__)


def by_question(campuses: Sequence[CampusResult], weights: Floats) -> dict[str, float]:
    return dict(zip(campuses[0].questions, weights.tolist(), strict=True))


def order_of(weights: Floats, questions: Sequence[str]) -> list[str]:
    """The strong questions, the most important first."""
    return sorted(STRONG, key=lambda name: float(weights[list(questions).index(name)]))


def same_order(weights: Floats, truth: Floats, questions: Sequence[str]) -> bool:
    return order_of(weights, questions) == order_of(truth, questions)
