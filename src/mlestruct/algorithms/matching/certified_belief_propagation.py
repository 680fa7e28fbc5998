"""Bethe marginals (rho = 1) of n rows and n columns, all pairs allowed, with certified bounds.

Belief propagation runs first: a sweep is cheap, and `_certified_belief_propagation_kernels` bounds
log Z from both sides. Where sweeps converge slowly or not at all, Newton (`newton`) continues from
the last marginals.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from . import newton
from ._certified_belief_propagation_kernels import bethe_marginals
from ._newton_kernels import LEAST_DAMPING
from .row_problem import TINY, RowProblem

Floats = NDArray[np.float64]


def applies(rows: RowProblem, is_complete: bool) -> bool:
    """Whether this oracle applies: rho = 1, all pairs allowed, as many rows as columns (>= 2)."""
    n = rows.rho_cols.shape[0]
    square = is_complete and n >= 2 and rows.ptr.shape[0] == n + 1 and rows.col.shape[0] == n * n
    return bool(square and (rows.c == 1.0).all() and not rows.rho_cols.any())


def solve(
    rows: RowProblem, w: Floats, start: Callable[[], tuple[Floats, Floats]], tol: float
) -> newton.Solution:
    """Marginals at scores w of shape (n * n,) to a certified gap of `tol`, or near it.

    `start` makes an interior point for Newton.
    """
    n = rows.rho_cols.shape[0]
    t, prices, z = np.empty(n * n), np.zeros(n + 1), np.ones(n)
    # 300 sweeps take about as long as Newton from the interior point.
    value, bound, sweeps = bethe_marginals(np.ascontiguousarray(w), n, tol, 300, t, prices)
    first = newton.Solution(t, z, prices, LEAST_DAMPING, value, bound, sweeps)
    if bound - value <= tol:
        return first
    known = first if np.isfinite(value) else None
    if known is not None:
        np.maximum(t, TINY, out=t)
        first.damping = 0.1  # the curvature at the present point is only approximate
    # Newton starts from the scores minus the current dual variables, whose range is smaller.
    cols = prices.copy() if known is not None else np.zeros(n + 1)
    table = w.reshape(n, n) - cols[:-1]
    constant = float(table.max(axis=1).sum() + cols.sum())
    table -= table.max(axis=1, keepdims=True)
    first.prices = np.zeros(n + 1)
    found = newton.solve(rows, table.ravel(), np.zeros(n), start(), known, tol)
    found.prices = found.prices + cols
    found.value += constant
    found.upper_bound = min(found.upper_bound + constant, bound)
    found.iterations += sweeps
    if value > found.value:
        found.t, found.value = t, value
    if found.upper_bound - found.value > tol and known is not None:
        _sweep_longer(w, found, tol)
    return found


def _sweep_longer(w: Floats, found: newton.Solution, tol: float) -> None:
    """Where Newton does not reach `tol`: many more sweeps; keeps the better value and bound."""
    n = found.z.shape[0]
    t, prices = np.empty(n * n), np.zeros(n + 1)
    many = min(200_000_000 // (n * n), 20_000)  # about a second
    value, bound, sweeps = bethe_marginals(np.ascontiguousarray(w), n, tol, many, t, prices)
    found.iterations += sweeps
    if value > found.value:
        found.t, found.value = np.maximum(t, TINY), value
    if bound < found.upper_bound:
        found.upper_bound, found.prices = bound, prices
