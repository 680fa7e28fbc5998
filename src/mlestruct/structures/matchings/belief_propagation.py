"""Belief propagation on the open part of a matching problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from ...algorithms.matching._matrix_balancing_kernels import balance, round_sums
from ...algorithms.matching.belief_propagation import Beliefs, belief_propagation
from ...algorithms.matching.row_problem import TINY
from .presolve import MatchingCore

Floats = NDArray[np.float64]

BALANCED = 1e-11  # how far sums of marginals may be from 1
MAX_SWEEPS = 500  # of scaling beliefs to exact sums


@dataclass(frozen=True)
class BeliefMarginals:
    """Beliefs of all coordinates.

    `lacking` is how far the worst sum of `tau` is from what it should be. `log_partition` is what
    the messages say of log Z_rho.
    """

    tau: Floats
    log_partition: float
    report: Beliefs
    lacking: float


NOTHING = Beliefs(np.zeros((0, 0)), 0.0, 0, 0.0, True, np.zeros((2, 0, 0)))


def core_beliefs(
    core: MatchingCore, scores: Floats, rho: Floats, damping: float, max_sweeps: int, tol: float
) -> tuple[Floats, Floats, float, Beliefs, float]:
    """Beliefs as marginals (t, z) of the core's entries and single columns.

    They are scaled to exact sums. Also log Z_rho, what `belief_propagation` reports, and by how
    much the worst sum fails. Scores of single nodes are moved to their edges.
    """
    if rho.size and rho.min() < rho.max():
        raise ValueError(
            f"method='bp' needs the same rho at all nodes, found {rho.min():g} to {rho.max():g}"
        )
    edges, free = core.edges, core.free
    single = scores[core.single_source]
    cols = core.columns(scores)
    table = edges.dense(scores[core.edge_source], -np.inf) - cols
    if single.size:
        table -= single[:, None]
    weight = float(rho[0]) if rho.size else 1.0
    found = belief_propagation(
        table, weight, None, max_sweeps, tol,
        damping=damping, free_rows=bool(single.size), free_cols=free,
    )  # fmt: skip
    beliefs = np.maximum(found.beliefs, TINY)
    t = np.empty(core.source.shape[0])
    is_edge = core.rows.col < edges.n_cols
    t[is_edge] = beliefs[edges.row, edges.col]
    r, s = found.messages
    alone = weight * s - (1.0 - weight) * r, weight * r - (1.0 - weight) * s
    if single.size:
        t[~is_edge] = _stay_single(table + alone[0], 1)
    z = np.where(free, _stay_single(table + alone[1], 0), 1.0)
    balance(core.rows, t, z, BALANCED, MAX_SWEEPS)
    lacking = round_sums(core.rows, t, z, edges.is_complete)
    constant = float(single.sum() + cols[free].sum())
    return t, z, found.log_partition + constant, found, float(lacking)


def _stay_single(terms: Floats, axis: int) -> Floats:
    """The belief of staying single beside pairs with these log-weights."""
    return np.maximum(expit(-logsumexp(terms, axis=axis)), TINY)
