"""The marginal oracle for matchings: tau maximising <w, tau> + H_rho(tau), with a certificate.

Newton on feasible tau gives a lower bound of log Z_rho and column prices; the semi-dual at those
prices gives an upper bound. The two enclose log Z_rho, whatever happened in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._newton_kernels import factored_covariance, newton, price_step
from ._price_kernels import feature_covariance
from ._rows import Rows
from ._semidual_kernels import balance_prices, perron_prices, semidual

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DIRECT_LIMIT = 160  # columns; above it the price system is solved by conjugate gradients
SAFE_C = 0.9  # above it the curvature of (1-t) log(1-t) starts damped
SPREAD = 40.0  # scores spread wider than this are approached through higher temperatures


@dataclass
class Solution:
    """Marginals in row order with enclosing bounds, and all that a warm start needs."""

    t: Floats
    z: Floats
    prices: Floats
    damping: float
    value: float
    upper_bound: float
    iterations: int


def price_bound(
    rows: Rows, w: Floats, w_cols: Floats, prices: Floats, hint: Floats, tol: float = 1e-12
) -> float:
    """The semi-dual bound of log Z_rho at any column prices, rows solved to within `tol`.

    `hint` are marginals near the rows' best responses.
    """
    bound = semidual(rows, w, w_cols, prices, hint, tol, np.empty_like(hint))
    return float(bound) if np.isfinite(bound) else np.inf


def polished_bound(
    rows: Rows, w: Floats, w_cols: Floats, prices: Floats, hint: Floats, tol: float, steps: int = 1
) -> float:
    """The bound after a few Newton steps on the semi-dual, from prices that may be poor."""
    t = np.empty_like(hint)
    bound = semidual(rows, w, w_cols, prices, hint, tol, t)
    if rows.rho_cols.shape[0] > DIRECT_LIMIT:
        steps = 0
    for _ in range(steps):
        z = np.ones_like(w_cols)
        free = rows.rho_cols > 0
        rho = rows.rho_cols[free]
        z[free] = np.exp(np.clip((w_cols[free] - prices[:-1][free]) / rho - 1.0, -690, 50))
        change = price_step(rows, t, z, 0.05)
        step = 1.0
        while step > 1e-2:
            trial = prices.copy()
            trial[:-1] += step * change
            new_t = np.empty_like(t)
            new = semidual(rows, w, w_cols, trial, t, tol, new_t)
            if new < bound:
                break
            step *= 0.3
        else:
            break
        gain, bound, prices, t = bound - new, new, trial, new_t
        if gain <= tol:
            break
    return float(bound) if np.isfinite(bound) else np.inf


def solve(
    rows: Rows,
    w: Floats,
    w_cols: Floats,
    start: tuple[Floats, Floats],
    warm: Solution | None,
    tol: float,
) -> Solution:
    """Marginals at scores (w, w_cols) to a certified gap of `tol`, or as close as it gets.

    `start` is an interior point (t, z), used when there is no warm start or it leads nowhere.
    """
    if warm is not None:
        t, z, prices = warm.t.copy(), warm.z.copy(), warm.prices.copy()
        found = _refine(rows, w, w_cols, t, z, prices, warm.damping, tol, rounds=3)
        if found.upper_bound - found.value <= tol:
            return found
    cold = _cold(rows, w, w_cols, start, tol)
    if warm is not None and found.upper_bound - found.value < cold.upper_bound - cold.value:
        return found
    return cold


def _cold(
    rows: Rows, w: Floats, w_cols: Floats, start: tuple[Floats, Floats], tol: float
) -> Solution:
    """From the interior point, through falling temperatures if the scores are spread wide."""
    t, z = start[0].copy(), start[1].copy()
    prices = np.zeros(rows.rho_cols.shape[0] + 1)
    damping = 0.1 if rows.c.size and rows.c.max() > SAFE_C else 0.0
    lowest = min(w.min(), w_cols.min(initial=0.0)) if w.size else 0.0
    highest = max(w.max(), w_cols.max(initial=0.0)) if w.size else 0.0
    temperature = (highest - lowest) / SPREAD
    direct = rows.rho_cols.shape[0] <= DIRECT_LIMIT
    steps = 0
    while temperature > 2.0:
        cooler = max(temperature / 6.0, 1.0)
        _, _, its, _, damping = newton(
            rows, w / temperature, w_cols / temperature, t, z, prices, damping,
            1e-3, 1e-4, 60, direct,
        )  # fmt: skip
        steps += its
        prices *= temperature / cooler
        temperature = cooler
    found = _refine(rows, w, w_cols, t, z, prices, damping, tol, rounds=10)
    found.iterations += steps
    if found.upper_bound - found.value > tol:
        _dominating_matching(rows, w, w_cols, found, tol)
    return found


def _dominating_matching(
    rows: Rows, w: Floats, w_cols: Floats, found: Solution, tol: float
) -> None:
    """Tighten the bound of a solution whose marginals have underflowed around one matching."""
    matched = largest_entries(rows, found.t)
    if matched is None:
        return
    n_cols = rows.rho_cols.shape[0]
    single = np.ones(n_cols + 1, dtype=bool)
    single[rows.col[matched]] = False
    score = float(w[matched].sum() + w_cols[single[:-1]].sum())
    prices = found.prices.copy()
    temperature = max((w.max() - w.min()) / SPREAD, 1.0)
    while True:
        balance_prices(rows, w, w_cols, matched, prices, temperature, 4 * n_cols + 40)
        bound = price_bound(rows, w, w_cols, prices, found.t, 0.1 * tol)
        if bound < found.upper_bound:
            found.upper_bound, found.prices = bound, prices.copy()
        if found.upper_bound - max(score, found.value) <= tol or temperature == 1.0:
            break
        temperature = max(temperature / 6.0, 1.0)
    if score > found.value:
        found.value = score
        found.t[:] = np.minimum(found.t, 1e-200)
        found.t[matched] = 1.0
        found.z[:] = np.where((rows.rho_cols > 0) & ~single[:-1], 1e-200, 1.0)


def _refine(
    rows: Rows,
    w: Floats,
    w_cols: Floats,
    t: Floats,
    z: Floats,
    prices: Floats,
    damping: float,
    tol: float,
    rounds: int,
) -> Solution:
    """Rounds of Newton, each followed by the bound, until the two meet."""
    direct = rows.rho_cols.shape[0] <= DIRECT_LIMIT
    bethe = bool(rows.c.size and rows.c.min() == 1.0 and not rows.rho_cols.any())
    wanted = 1e-2 * tol
    upper_bound = np.inf
    best_prices = prices.copy()
    value = -np.inf
    steps = 0
    for _ in range(rounds):
        if bethe:
            vertex = _exact_vertex(rows, w, t, best_prices if steps else prices)
            if vertex is not None:
                value, prices = vertex
                return Solution(t, z, prices, damping, value, value, steps)
        before = prices.copy()
        value, gap, its, decrement, damping = newton(
            rows, w, w_cols, t, z, prices, damping, tol, wanted, 40, direct
        )
        steps += its
        if not np.isfinite(prices).all():
            prices[:] = before
            gap = np.inf
        bound = value + gap
        if not gap <= tol:
            bound = price_bound(rows, w, w_cols, prices, t, 0.1 * tol)
        if bound < upper_bound:
            upper_bound = bound
            best_prices = prices.copy()
        if upper_bound - value <= tol or not np.isfinite(decrement):
            break
        wanted = min(wanted, decrement) * 1e-6
    if rows.c.size == 0 and not rows.rho_cols.size:
        upper_bound = value = 0.0
    return Solution(t, z, best_prices, damping, float(value), upper_bound, steps)


def _exact_vertex(rows: Rows, w: Floats, t: Floats, prices: Floats) -> tuple[float, Floats] | None:
    """At rho = 1 the optimum can be exactly a matching: (its score, proving prices), or None."""
    matched = largest_entries(rows, t)
    if matched is None:
        return None
    proof = prices.copy()
    if not perron_prices(rows, w, matched, proof, 40):
        return None
    # Entries stay positive for warm starts; they are within rounding of the matching.
    t[:] = 1e-200
    t[matched] = 1.0
    return float(w[matched].sum()), proof


def largest_entries(rows: Rows, t: Floats) -> Ints | None:
    """The entry above 1/2 of each row, or None if some row has none."""
    above = np.flatnonzero(t > 0.5)
    return above if above.shape[0] == rows.ptr.shape[0] - 1 else None


def complements(rows: Rows, t: Floats) -> Floats:
    """1 - t of every entry; for a row's largest one, the sum of the others."""
    rest = 1.0 - t
    if t.size:
        row = np.repeat(np.arange(rows.ptr.shape[0] - 1), np.diff(rows.ptr))
        large = t > 0.5
        others = np.bincount(row, weights=np.where(large, 0.0, t), minlength=rows.ptr.shape[0] - 1)
        rest[large] = others[row[large]]
    return rest


def covariance_of_features(
    rows: Rows, solution: Solution, features: Floats, source: Ints
) -> Floats:
    """Hessian of log Z_rho in theta at a solution; features of shape (n_scored, K)."""
    damping = max(solution.damping, 0.0)
    largest, matrix, scale, h, spread, den = factored_covariance(
        rows, solution.t, solution.z, damping
    )
    result: Floats = feature_covariance(
        rows, solution.t, solution.z, largest, matrix, scale, h, spread, den, features, source
    )
    return result
