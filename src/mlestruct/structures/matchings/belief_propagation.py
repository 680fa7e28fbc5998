"""Belief propagation on a presolved matching problem."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.matching._feasible_kernels import balance, round_sums
from ...algorithms.matching.belief_propagation import Beliefs, belief_propagation
from ...algorithms.matching.row_problem import TINY
from ...exceptions import MissingCapability
from ..contract import BeliefMarginals
from .presolve import PresolvedMatching

Floats = NDArray[np.float64]


def presolved_beliefs(
    core: PresolvedMatching, scores: Floats, warm: Beliefs | None, options: dict[str, Any]
) -> tuple[Beliefs, float]:
    """Beliefs of the entries and single columns of a presolved problem.

    The second is what fixed pairs add to the log-partition function.
    """
    if not core.oracle.has_messages:
        raise MissingCapability(
            "method='bp' needs an entropy of the nodes' rho, all of them positive"
        )
    w, w_cols = core.entries(scores), core.columns(scores)
    found = belief_propagation(core.rows, core.edges.is_complete, w, w_cols, warm, **options)
    return found, core.fixed_score(scores)


def belief_marginals(tau: Floats, found: Beliefs, log_partition: float) -> BeliefMarginals:
    """The report of message passing, in the coordinates of a structure."""
    return BeliefMarginals(tau, log_partition, found.sweeps, found.change, found.converged, found)


def feasible(core: PresolvedMatching, tau: Floats) -> tuple[Floats, Floats, float]:
    """Positive (t, z) near tau with sums of 1, and by how much the worst of these misses it."""
    t = np.maximum(core.entries(tau), TINY)
    z = np.where(core.free, np.maximum(core.columns(tau), TINY), 1.0)
    balance(core.rows, t, z, 1e-11, 500)  # sums to 1e-11, in at most 500 sweeps
    return t, z, float(round_sums(core.rows, t, z, core.edges.is_complete))
