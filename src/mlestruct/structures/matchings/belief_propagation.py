"""Belief propagation on a presolved matching problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from ...algorithms.matching._matrix_balancing_kernels import balance, round_sums
from ...algorithms.matching.belief_propagation import belief_propagation
from ...algorithms.matching.row_problem import TINY
from ..contract import BeliefMarginals
from .presolve import PresolvedMatching

Floats = NDArray[np.float64]


def presolved_beliefs(
    core: PresolvedMatching,
    scores: Floats,
    rho: Floats,
    damping: float,
    max_sweeps: int,
    tol: float,
) -> tuple[Floats, Floats, BeliefMarginals]:
    """Beliefs as marginals (t, z) of the entries and single columns, scaled to exact sums.

    The third is the report of message passing, with an empty tau. Scores of single nodes are moved
    to their edges.
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
    balance(core.rows, t, z, 1e-11, 500)  # sums to 1e-11, in at most 500 sweeps
    excess = round_sums(core.rows, t, z, edges.is_complete)
    constant = float(single.sum() + cols[free].sum())
    report = BeliefMarginals(
        np.zeros(0), found.log_partition + constant, found.sweeps, found.change, found.converged,
        float(excess), edges.n_rows + edges.n_cols,
    )  # fmt: skip
    return t, z, report


def _stay_single(terms: Floats, axis: int) -> Floats:
    """The belief of staying single beside pairs with these log-weights."""
    return np.maximum(expit(-logsumexp(terms, axis=axis)), TINY)
