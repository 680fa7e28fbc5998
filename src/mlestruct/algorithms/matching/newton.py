"""The Newton marginal oracle: tau maximising <w, tau> + H_rho(tau), with a certificate.

Newton on feasible tau gives a lower bound of log Z_rho and column prices (the dual variables of the
column sums); the semi-dual at those prices gives an upper bound. Both bounds hold at every iterate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..._deadline import is_over, wait_for
from . import _newton_kernels as kernels
from ._newton_kernels import column_excess
from ._schur_kernels import cholesky_solve, covariance_factors
from ._semidual_kernels import balance_prices, perron_prices, semidual
from .price_system import PriceSystem
from .row_problem import TINY, RowProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Start = Callable[[], tuple[Floats, Floats]]

SMALL_LIMIT = 160  # columns up to which factoring the system of the prices costs little
WIDE = 40.0  # range of scores above which Newton comes from higher temperatures, else it diverges
SAFE_C = 0.9  # above it the curvature of (1-t) log(1-t) starts damped


@dataclass
class Solution:
    """Marginals in row order with enclosing bounds, and the state for a warm start."""

    t: Floats  # (n_entries,)
    z: Floats  # (n_cols,), probabilities of columns to stay single
    prices: Floats  # (n_cols + 1,), dual variables of the columns, the last 0
    damping: float
    value: float
    upper_bound: float
    iterations: int
    stalled: bool = False  # belief propagation did not reach the tolerance


def price_bound(
    rows: RowProblem, w: Floats, w_cols: Floats, prices: Floats, hint: Floats, tol: float = 1e-12
) -> float:
    """The semi-dual bound of log Z_rho at any column prices, rows solved to within `tol`.

    `hint` are marginals near the rows' maximisers.
    """
    problem = rows, w, w_cols, prices, hint, tol, np.empty_like(hint)
    bound = wait_for("a bound of matchings", semidual, *problem, seconds=1.5e-6 * w.shape[0])
    return float(bound) if np.isfinite(bound) else np.inf


def polish(
    rows: RowProblem,
    w: Floats,
    w_cols: Floats,
    prices: Floats,
    hint: Floats,
    tol: float,
    steps: int = 1,
) -> tuple[float, Floats]:
    """The bound after Newton steps on the semi-dual, and the new prices.

    The rows' maximisers t give the gradient 1 - column sums of t, and the curvature.
    """
    t = np.empty_like(hint)
    bound = semidual(rows, w, w_cols, prices, hint, tol, t)
    if rows.rho_cols.shape[0] > SMALL_LIMIT:
        steps = 0
    free = rows.rho_cols > 0
    rho = rows.rho_cols[free]
    for _ in range(steps):
        z = np.ones_like(w_cols)
        z[free] = np.exp(np.clip((w_cols[free] - prices[:-1][free]) / rho - 1.0, -690, 50))
        change = _price_step(rows, t, z)
        step = 1.0
        while step > 1e-3:
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
    return (float(bound) if np.isfinite(bound) else np.inf), prices


def solve(
    rows: RowProblem,
    w: Floats,
    w_cols: Floats,
    start: Start,
    warm: Solution | None,
    tol: float,
) -> Solution:
    """Marginals at scores (w, w_cols) to a certified gap of `tol`, or as close as it gets.

    `start` makes an interior point (t, z), used without a warm start or where that does not
    converge.
    """
    if warm is not None and warm.t.shape != w.shape:
        raise ValueError(f"warm start of {warm.t.shape[0]} entries for {w.shape[0]}")
    if warm is not None:
        t, z, prices = warm.t.copy(), warm.z.copy(), warm.prices.copy()
        found = _refine(_Ascent(rows, warm.damping), w, w_cols, t, z, prices, tol, rounds=3)
        if found.upper_bound - found.value <= tol:
            return found
    cold = _cold(rows, w, w_cols, start(), tol)
    if warm is not None and found.upper_bound - found.value < cold.upper_bound - cold.value:
        return found
    return cold


def first_damping(rows: RowProblem) -> float:
    """The damping of the curvature at which Newton starts."""
    return 0.1 if rows.c.size and rows.c.max() > SAFE_C else 0.0


def _cold(
    rows: RowProblem, w: Floats, w_cols: Floats, start: tuple[Floats, Floats], tol: float
) -> Solution:
    """From the interior point, through falling temperatures if the scores have a wide range."""
    t, z = start[0].copy(), start[1].copy()
    prices = np.zeros(rows.rho_cols.shape[0] + 1)
    temperature = float(_spread(w, w_cols)) / WIDE
    ascent = _Ascent(rows, first_damping(rows))
    while temperature > 2.0 and not is_over():
        cooler = max(temperature / 6.0, 1.0)
        ascent(w / temperature, w_cols / temperature, t, z, prices, 1e-3, 1e-4, 60)
        prices *= temperature / cooler
        temperature = cooler
    found = _refine(ascent, w, w_cols, t, z, prices, tol, rounds=10)
    if found.upper_bound - found.value > tol and not is_over():
        _balance(rows, w, w_cols, found, tol)
    return found


def _spread(w: Floats, w_cols: Floats) -> Floats:
    """The range of the scores, of each problem where there are several."""
    highest = np.maximum(w.max(-1, initial=-np.inf), w_cols.max(-1, initial=0.0))
    lowest = np.minimum(w.min(-1, initial=np.inf), w_cols.min(-1, initial=0.0))
    return highest - lowest


def solve_each(
    rows: RowProblem,
    w: Floats,
    w_cols: Floats,
    start: Start,
    warm: Sequence[Solution | None],
    tol: Floats,
) -> list[Solution | None]:
    """One round of Newton for each row of w, all by one call; None where that is not enough.

    What it finds is what `solve` finds at each of them, which takes longer: operations of NumPy on
    small arrays cost as much as a round.
    """
    n_cols = rows.rho_cols.shape[0]
    if n_cols > SMALL_LIMIT or _may_be_vertex(rows):
        return [None] * len(w)
    cold = np.array([solution is None for solution in warm])
    if cold.any():
        interior = Solution(*start(), np.zeros(n_cols + 1), first_damping(rows), 0.0, 0.0, 0)
    known = [interior if solution is None else solution for solution in warm]
    t, z, prices = (
        np.array(values)
        for values in zip(*((one.t, one.z, one.prices) for one in known), strict=True)
    )
    best = t.copy(), z.copy(), prices.copy()
    states = np.zeros((len(w), 8))
    states[:, kernels.BOUND] = states[:, kernels.DECREMENT] = states[:, kernels.UPPER] = np.inf
    states[:, kernels.BEST] = -np.inf
    states[:, kernels.DAMPING] = [one.damping for one in known]
    iterations = np.zeros(len(w), dtype=np.int64)
    kernels.newton_each(
        rows, w, w_cols, t, z, prices, tol, 1e-2 * tol, 40, *_work_space(rows), states,
        np.empty((n_cols, n_cols)), *best, iterations,
    )  # fmt: skip
    enclosed = states[:, kernels.UPPER] - states[:, kernels.BEST] <= tol
    enclosed &= ~cold | (_spread(w, w_cols) <= 2.0 * WIDE)  # `solve` cools the others
    damping, value, bound = states[:, [kernels.DAMPING, kernels.BEST, kernels.UPPER]].T.tolist()
    return [
        Solution(*point, *facts) if fine else None
        for fine, point, facts in zip(
            enclosed.tolist(),
            zip(*best, strict=True),
            zip(damping, value, bound, iterations.tolist(), strict=True),
            strict=True,
        )
    ]


def _work_space(rows: RowProblem) -> tuple[Floats, Floats, Ints, Floats]:
    """`entry`, `row`, `largest` and `column` of the kernels."""
    n, n_cols = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    return (
        np.zeros((8, rows.col.shape[0])), np.empty((2, n)), np.empty((2, n), np.int64),
        np.zeros((7, n_cols + 1)),
    )  # fmt: skip


class _Ascent:
    """Newton's method on one problem, with its work space: feasible (t, z) change in place."""

    def __init__(self, rows: RowProblem, damping: float):
        self.rows, self._count = rows, np.zeros(1, dtype=np.int64)
        n_cols = rows.rho_cols.shape[0]
        self._state = np.zeros(8)
        self._space = *_work_space(rows), self._state
        self._best = np.empty(rows.col.shape[0]), np.empty(n_cols), np.empty(n_cols + 1)
        self._state[kernels.DAMPING] = damping
        self._is_small = n_cols <= SMALL_LIMIT
        self._matrix = np.empty((n_cols, n_cols) if self._is_small else (0, 0))

    @property
    def iterations(self) -> int:
        return int(self._count[0])

    @cached_property
    def _system(self) -> PriceSystem:
        return PriceSystem(self.rows)

    def start(self, t: Floats, z: Floats, prices: Floats) -> None:
        """What is kept while no round has found anything better."""
        self._state[kernels.BEST], self._state[kernels.UPPER] = -np.inf, np.inf
        for best, given in zip(self._best, (t, z, prices), strict=True):
            best[:] = given

    @property
    def prices(self) -> Floats:
        """The prices of the least upper bound."""
        return self._best[-1]

    @property
    def gap(self) -> float:
        return float(self._state[kernels.UPPER] - self._state[kernels.BEST])

    @property
    def damping(self) -> float:
        return float(self._state[kernels.DAMPING])

    def solution(self) -> Solution:
        """The best marginals and bounds of all rounds since `start`."""
        value, bound = self._state[kernels.BEST], self._state[kernels.UPPER]
        return Solution(*self._best, self.damping, float(value), float(bound), self.iterations)

    def __call__(
        self,
        w: Floats,
        w_cols: Floats,
        t: Floats,
        z: Floats,
        prices: Floats,
        tol: float,
        stall: float,
        max_iter: int,
    ) -> float:
        """A round of Newton from (t, z), in place; returns the Newton decrement.

        Ends where the linearised gap is at most `tol` or the decrement at most `stall`.
        """
        point, state = (w, w_cols, t, z, prices), self._state
        state[kernels.BOUND] = state[kernels.DECREMENT] = np.inf
        if self._is_small:
            t_best, z_best, prices_best = self._best
            kernels.newton_each(
                self.rows, w[None], w_cols[None], t[None], z[None], prices[None],
                np.array([tol]), np.array([stall]), max_iter, *self._space[:-1], state[None],
                self._matrix, t_best[None], z_best[None], prices_best[None], self._count,
            )  # fmt: skip
        else:
            self._count += self._large(point, tol, stall, max_iter)
        return float(state[kernels.DECREMENT])

    def _large(self, point: tuple[Floats, ...], tol: float, stall: float, max_iter: int) -> int:
        """`kernels.newton_each` with other ways to solve for the prices."""
        rows, (w, w_cols, t, z, prices) = self.rows, point
        space = entry, row, largest, column, state = self._space
        column[kernels.BEFORE] = prices
        state[kernels.VALUE], state[kernels.SIZE] = kernels.evaluate(
            rows, w, w_cols, t, z, largest[0], entry[kernels.LOG_T], entry[kernels.LOG_REST]
        )
        iterations, moves = 0, True
        while moves and iterations < max_iter and not (iterations and is_over()):
            iterations += 1
            kernels.linearise(rows, w, w_cols, t, z, prices, *space)
            rtol = 1e-4 if state[kernels.DECREMENT] > 1e-3 else 1e-8
            self._system.solve(
                entry[kernels.H], row[kernels.SPREAD], row[kernels.DEN], largest[0], z,
                column[kernels.RHS], rtol, column[kernels.CHANGE],
            )  # fmt: skip
            moves = kernels.advance(rows, w, w_cols, t, z, prices, tol, stall, *space)
        feasible = kernels.close(rows, t, z, prices, largest, column, state)
        enough = np.inf if is_over() else tol
        best = rows, *point, enough, feasible, entry, column, state, *self._best
        wait_for("a bound of matchings", kernels.keep_best, *best, seconds=1.5e-6 * w.shape[0])
        return iterations


def _balance(rows: RowProblem, w: Floats, w_cols: Floats, found: Solution, tol: float) -> None:
    """Tighten the bound of a solution many of whose marginals have underflowed.

    Marginals of 0 or 1 up to rounding do not determine the prices; such prices are moved to the
    middle of the range in which the matching stays optimal. If every row has an entry above 1/2,
    the matching of these is a candidate for the solution.
    """
    n_cols = rows.rho_cols.shape[0]
    matched = np.array(
        [start + int(np.argmax(found.t[start:stop])) for start, stop in pairwise(rows.ptr)],
        dtype=np.int64,
    )
    margin = 1e-9  # marginals closer to 0 or 1 do not determine prices
    loose = (found.t > margin) & (found.t < 1.0 - margin)
    fixed = np.zeros(n_cols + 1, dtype=bool)
    fixed[rows.col[loose]] = True
    fixed[:-1] |= (rows.rho_cols > 0) & (found.z > margin) & (found.z < 1.0 - margin)
    prices = found.prices.copy()
    temperature = max((w.max() - w.min()) / WIDE, 1.0)
    vertex = largest_entries(rows, found.t)
    single = np.ones(n_cols + 1, dtype=bool)
    single[rows.col[matched]] = False
    score = -np.inf
    if vertex is not None:
        score = float(w[vertex].sum() + w_cols[single[:-1]].sum())
    while True:
        problem = rows, w, w_cols, matched, fixed, prices, temperature
        for sweeps in _portions(4 * n_cols + 40, w.size):
            if is_over() or balance_prices(*problem, sweeps):
                break
        bound = price_bound(rows, w, w_cols, prices, found.t, 0.1 * tol)
        if bound < found.upper_bound:
            found.upper_bound, found.prices = bound, prices.copy()
        if found.upper_bound - max(score, found.value) <= tol or temperature == 1.0 or is_over():
            break
        temperature = max(temperature / 6.0, 1.0)
    if found.upper_bound - max(score, found.value) > tol and not is_over():
        bound, prices = polish(rows, w, w_cols, found.prices, found.t, 0.01 * tol, 30)
        if bound < found.upper_bound:
            found.upper_bound, found.prices = bound, prices
    if vertex is not None and score > found.value:
        found.value = score
        found.t[:] = np.minimum(found.t, TINY)
        found.t[vertex] = 1.0
        found.z[:] = np.where((rows.rho_cols > 0) & ~single[:-1], TINY, 1.0)


def _portions(n_sweeps: int, n_entries: int) -> list[int]:
    """Numbers of sweeps that take a fraction of a second each."""
    at_once = max(10_000_000 // n_entries, 1)
    return [min(at_once, n_sweeps - done) for done in range(0, n_sweeps, at_once)]


def _refine(
    ascent: _Ascent,
    w: Floats,
    w_cols: Floats,
    t: Floats,
    z: Floats,
    prices: Floats,
    tol: float,
    rounds: int,
) -> Solution:
    """Rounds of Newton, each followed by the semi-dual bound, until the gap is at most `tol`."""
    rows = ascent.rows
    bethe = _may_be_vertex(rows)
    wanted = 1e-2 * tol
    ascent.start(t, z, prices)
    for k in range(rounds):
        if bethe:
            vertex = _exact_vertex(rows, w, t, ascent.prices if k else prices)
            if vertex is not None:
                value, prices = vertex
                return Solution(t, z, prices, ascent.damping, value, value, ascent.iterations)
        decrement = ascent(w, w_cols, t, z, prices, tol, wanted, 40)
        if ascent.gap <= tol or not np.isfinite(decrement) or is_over():
            break
        wanted = min(wanted, decrement) * 1e-6
    return ascent.solution()


def _may_be_vertex(rows: RowProblem) -> bool:
    """Whether rho = 1 and all nodes are matched."""
    return bool(rows.c.size and rows.c.min() == 1.0 and not rows.rho_cols.any())


def _exact_vertex(
    rows: RowProblem, w: Floats, t: Floats, prices: Floats
) -> tuple[float, Floats] | None:
    """At rho = 1 the optimum can be a matching: (its score, prices that prove it), or None."""
    matched = largest_entries(rows, t)
    if matched is None:
        return None
    proof = prices.copy()
    if not perron_prices(rows, w, matched, proof, 40):
        return None
    # Entries stay positive for warm starts.
    t[:] = TINY
    t[matched] = 1.0
    return float(w[matched].sum()), proof


def largest_entries(rows: RowProblem, t: Floats) -> Ints | None:
    """The entry above 1/2 of each row, or None unless these form a matching."""
    above = np.flatnonzero(t > 0.5)
    if above.shape[0] != rows.ptr.shape[0] - 1:
        return None
    columns = rows.col[above]
    columns = columns[columns < rows.rho_cols.shape[0]]
    return above if np.unique(columns).shape[0] == columns.shape[0] else None


def _factor_space(rows: RowProblem) -> tuple[Ints, Floats, Floats, Floats, Floats, Floats]:
    """Largest entries, h, spread, den, Cholesky factor and its scale, to be filled."""
    n, n_cols = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    return (
        np.empty(n, np.int64), np.empty(rows.col.shape[0]), np.empty(n), np.empty(n),
        np.empty((n_cols, n_cols)), np.empty(n_cols),
    )  # fmt: skip


def _price_step(rows: RowProblem, t: Floats, z: Floats) -> Floats:
    """The Newton step of the semi-dual in the prices, at the rows' maximisers t."""
    space = largest, *_, matrix, scale = _factor_space(rows)
    covariance_factors(rows, t, z, 0.05, *space)
    n_cols = rows.rho_cols.shape[0]
    excess, change = np.empty(n_cols + 1), np.empty(n_cols)
    column_excess(rows, t, z, largest, excess)
    cholesky_solve(matrix, scale, excess, change)
    return change
