"""Belief propagation on a presolved matching problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...algorithms.matching._matrix_balancing_kernels import balance, round_sums
from ...algorithms.matching.belief_propagation import Beliefs, belief_propagation
from ...algorithms.matching.row_problem import TINY
from ...exceptions import MissingCapability
from ..contract import BeliefMarginals
from .presolve import PresolvedMatching
from .reduced_scores import is_wide

Floats = NDArray[np.float64]


class PricedScores(Protocol):
    """What scores that are spread wide need of a structure."""

    def reduced_scores(self, scores: Floats) -> tuple[Floats | None, float, Floats | None]:
        """Scores minus the prices of the best matching, the sum of these, those of columns."""


def presolved_beliefs(
    space: PricedScores,
    core: PresolvedMatching,
    scores: Floats,
    warm: Beliefs | None,
    options: dict[str, Any],
) -> tuple[Beliefs, float]:
    """Beliefs of the entries and single columns of `core`, the presolved form of `space`.

    The second is what fixed pairs add to the log-partition function. Scores that are spread wide
    are replaced by reduced ones, whose exponentials are in range.
    """
    if not core.oracle.has_messages:
        raise MissingCapability(
            "method='bp' needs an entropy of the nodes' rho, all of them positive"
        )
    reduced, constant, prices = None, 0.0, None
    if is_wide(scores):
        reduced, constant, prices = space.reduced_scores(scores)
    if reduced is None:
        reduced, constant = scores, core.fixed_score(scores)
    shift = None if prices is None else prices[:-1] / core.rows.col_rho
    if warm is not None and shift is not None:
        warm = replace(warm, y=warm.y - shift)
    w, w_cols = core.entries(reduced), core.columns(reduced)
    found = belief_propagation(core.rows, core.edges.is_complete, w, w_cols, warm, **options)
    return found if shift is None else replace(found, y=found.y + shift), constant


def belief_marginals(tau: Floats, found: Beliefs, log_partition: float) -> BeliefMarginals:
    """The report of message passing, in the coordinates of a structure."""
    return BeliefMarginals(tau, log_partition, found.sweeps, found.change, found.converged, found)


def feasible(core: PresolvedMatching, tau: Floats) -> tuple[Floats, Floats, float]:
    """Positive (t, z) near tau with sums of 1, and by how much the worst of these misses it."""
    t = np.maximum(core.entries(tau), TINY)
    z = np.where(core.free, np.maximum(core.columns(tau), TINY), 1.0)
    balance(core.rows, t, z, 1e-11, 500)  # sums to 1e-11, in at most 500 sweeps
    return t, z, float(round_sums(core.rows, t, z, core.edges.is_complete))
