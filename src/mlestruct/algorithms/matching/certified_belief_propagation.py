"""Bethe marginals (rho = 1) of n rows and n columns, all pairs allowed: belief propagation first.

Its sweeps cost next to nothing and often suffice, and each result is certified. Where they converge
slowly or not at all, Newton (`matching_oracle`) goes on from the point they have reached.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from . import newton
from ._certified_belief_propagation_kernels import FLOOR, bethe_marginals
from ._newton_kernels import LEAST_DAMPING
from .row_problem import RowProblem

Floats = NDArray[np.float64]

MAX_SWEEPS = 300  # about the cost of Newton from scratch
MANY_MESSAGES = 200_000_000  # to pass where Newton fails, about a second
DAMPING = 0.1  # of Newton's first steps


def applies(rows: RowProblem, is_complete: bool) -> bool:
    """Whether this oracle can be used: rho = 1, and as many rows as columns, at least two."""
    n = rows.rho_cols.shape[0]
    square = is_complete and n >= 2 and rows.ptr.shape[0] == n + 1 and rows.col.shape[0] == n * n
    return bool(square and (rows.c == 1.0).all() and not rows.rho_cols.any())


def solve(
    rows: RowProblem, w: Floats, start: Callable[[], tuple[Floats, Floats]], tol: float
) -> newton.Solution:
    """Marginals at scores w (n * n, row by row) to a certified gap of `tol`, or near it.

    `start` makes an interior point for Newton.
    """
    n = rows.rho_cols.shape[0]
    t, prices, z = np.empty(n * n), np.zeros(n + 1), np.ones(n)
    value, bound, sweeps = bethe_marginals(np.ascontiguousarray(w), n, tol, MAX_SWEEPS, t, prices)
    first = newton.Solution(t, z, prices, LEAST_DAMPING, value, bound, sweeps)
    if bound - value <= tol:
        return first
    known = first if np.isfinite(value) else None
    if known is not None:
        np.maximum(t, FLOOR, out=t)
        first.damping = DAMPING
    # Newton is happiest with scores from which the prices found so far are taken off.
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
        _go_on(w, found, tol)
    return found


def _go_on(w: Floats, found: newton.Solution, tol: float) -> None:
    """Where Newton stops short: many more sweeps, and the better of either end."""
    n = found.z.shape[0]
    t, prices = np.empty(n * n), np.zeros(n + 1)
    many = min(MANY_MESSAGES // (n * n), 20_000)
    value, bound, sweeps = bethe_marginals(np.ascontiguousarray(w), n, tol, many, t, prices)
    found.iterations += sweeps
    if value > found.value:
        found.t, found.value = np.maximum(t, FLOOR), value
    if bound < found.upper_bound:
        found.upper_bound, found.prices = bound, prices
