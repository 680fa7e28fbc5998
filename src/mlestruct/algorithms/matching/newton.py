"""Newton's method for marginals of matchings: tau maximising <w, tau> + H_rho(tau), certified.

Newton on feasible tau gives a lower bound of log Z_rho and column prices (the dual variables of the
column sums); the semi-dual at those prices gives an upper bound. Both bounds hold at every iterate.
Scores with a wide range are approached from higher temperatures.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from ..._running import is_over, wait_for
from . import _newton_kernels as kernels
from ._semidual_kernels import semidual
from .row_problem import TINY, RowProblem, Solution, Start, better

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WIDE = 40.0  # range of scores above which Newton comes from higher temperatures, else it diverges
COOLING = 3.0  # factor of the temperature; at 6 Newton loses the path on some rings and bands
FACTOR_LIMIT = 1e9  # multiplications of a factor within its band, which take about a second


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
    converge. A warm start works on the scores minus its prices, whose range is smaller.
    """
    if warm is None:
        return _cold(rows, w, w_cols, start(), tol)
    reduced, reduced_cols, constant = reduce_scores(rows, w, w_cols, warm.prices)
    ascent = _Ascent(rows)
    point = np.maximum(warm.t, TINY), np.maximum(warm.z, TINY), np.zeros_like(warm.prices)
    found = ascent.refine(reduced, reduced_cols, *point, tol, rounds=3)
    if found.gap > tol and not is_over():
        found = better(_cold(rows, reduced, reduced_cols, start(), tol), found)
    return restore(found, warm.prices, constant)


def reduce_scores(
    rows: RowProblem, w: Floats, w_cols: Floats, prices: Floats
) -> tuple[Floats, Floats, float]:
    """Scores minus prices of columns and the rows' maxima, and how much log Z_rho loses by it.

    Marginals are the same, and rounding is less where prices are near those of the solution.
    """
    reduced = w - prices[rows.col]
    of_row = np.maximum.reduceat(reduced, rows.ptr[:-1])
    reduced -= np.repeat(of_row, np.diff(rows.ptr))
    reduced_cols = np.where(rows.rho_cols > 0, w_cols - prices[:-1], 0.0)
    return reduced, reduced_cols, float(of_row.sum() + prices.sum())


def restore(found: Solution, prices: Floats, constant: float) -> Solution:
    """The solution of the scores before `reduce_scores`."""
    return replace(
        found,
        prices=found.prices + prices,
        value=found.value + constant,
        upper_bound=found.upper_bound + constant,
    )


def _cold(
    rows: RowProblem, w: Floats, w_cols: Floats, start: tuple[Floats, Floats], tol: float
) -> Solution:
    """From the interior point, through falling temperatures if the scores have a wide range."""
    t, z = start[0].copy(), start[1].copy()
    prices = np.zeros(rows.rho_cols.shape[0] + 1)
    highest = max(w.max(initial=-np.inf), w_cols.max(initial=0.0))
    temperature = (highest - min(w.min(initial=np.inf), w_cols.min(initial=0.0))) / WIDE
    ascent = _Ascent(rows)
    while temperature > 2.0 and not is_over():
        cooler = max(temperature / COOLING, 1.0)
        ascent.round(w / temperature, w_cols / temperature, t, z, prices, 1e-3, 1e-4, 60)
        prices *= temperature / cooler
        temperature = cooler
    return ascent.refine(w, w_cols, t, z, prices, tol, rounds=10)


class _Ascent:
    """Newton's method on one problem, with its work space: feasible (t, z) change in place."""

    def __init__(self, rows: RowProblem):
        n, n_cols, size = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0], rows.col.shape[0]
        self.rows, self.iterations = rows, 0
        self._complete = np.count_nonzero(rows.col < n_cols) == n * n_cols
        self.state = np.zeros(7)
        # Above c = .9 the curvature of (1-t) log(1-t) starts damped.
        self.state[kernels.DAMPING] = 0.1 if rows.c.max(initial=0.0) > 0.9 else 0.0
        self._space = (
            np.zeros((8, size)), np.empty((2, n)), np.empty((2, n), np.int64),
            np.zeros((6, n_cols + 1)), self.state,
        )  # fmt: skip
        self._best = np.empty(size), np.empty(n_cols), np.empty(n_cols + 1)
        self._system = PriceSystem(rows)

    def refine(
        self,
        w: Floats,
        w_cols: Floats,
        t: Floats,
        z: Floats,
        prices: Floats,
        tol: float,
        rounds: int,
    ) -> Solution:
        """Rounds of Newton, each followed by the semi-dual bound, to a gap of at most `tol`."""
        state, wanted = self.state, 1e-2 * tol
        state[[kernels.BEST, kernels.UPPER, kernels.BOUND]] = -np.inf, np.inf, np.inf
        for best, given in zip(self._best, (t, z, prices), strict=True):
            best[:] = given
        for k in range(rounds + 1):  # the first bound is that of the start
            if k:
                self.round(w, w_cols, t, z, prices, tol, wanted, 40)
            self._keep(w, w_cols, t, z, prices, tol)
            decrement, gap = state[kernels.DECREMENT], state[kernels.UPPER] - state[kernels.BEST]
            if gap <= tol or (k and not np.isfinite(decrement)) or is_over():
                break
            if k:
                wanted = min(wanted, decrement) * 1e-6
        value, bound = state[[kernels.BEST, kernels.UPPER]].tolist()
        return Solution(*self._best, value, bound, self.iterations)

    def round(
        self,
        w: Floats,
        w_cols: Floats,
        t: Floats,
        z: Floats,
        prices: Floats,
        tol: float,
        stall: float,
        max_iter: int,
    ) -> None:
        """Iterations from (t, z), in place, to a linearised gap of at most `tol`.

        They also end where the Newton decrement is at most `stall`.
        """
        rows, point = self.rows, (w, w_cols, t, z, prices)
        space = entry, row, largest, column, state = self._space
        state[kernels.BOUND] = state[kernels.DECREMENT] = np.inf
        column[kernels.BEFORE] = prices
        state[kernels.VALUE], state[kernels.SIZE] = kernels.evaluate(
            rows, w, w_cols, t, z, largest[0], entry[kernels.LOG_T], entry[kernels.LOG_REST]
        )
        moves, count = True, 0
        while moves and count < max_iter and not (count and is_over()):
            count += 1
            kernels.linearise(rows, *point, *space)
            rtol = 1e-4 if state[kernels.DECREMENT] > 1e-3 else 1e-8
            self._system.solve(
                entry[kernels.H], row[kernels.SPREAD], row[kernels.DEN], largest[0], z,
                column[kernels.RHS], rtol, column[kernels.CHANGE],
            )  # fmt: skip
            moves = kernels.advance(rows, *point, tol, stall, *space)
        self.iterations += count

    def _keep(
        self, w: Floats, w_cols: Floats, t: Floats, z: Floats, prices: Floats, tol: float
    ) -> None:
        """Keep the best marginals and the least bound so far."""
        entry, _, largest, column, state = self._space
        point, enough = (w, w_cols, t, z, prices), np.inf if is_over() else tol
        best = self.rows, self._complete, *point, enough, entry, largest, column, state, *self._best
        wait_for("a bound of matchings", kernels.keep_best, *best, seconds=1.5e-6 * w.shape[0])


# ---------------------------------------------------------------------- the semi-dual
def price_bound(
    rows: RowProblem, w: Floats, w_cols: Floats, prices: Floats, hint: Floats, tol: float = 1e-12
) -> float:
    """The semi-dual bound of log Z_rho at any column prices, rows solved to within `tol`.

    `hint` are marginals near the rows' maximisers.
    """
    problem = rows, w, w_cols, prices, hint, tol, np.empty_like(hint)
    bound = wait_for("a bound of matchings", semidual, *problem, seconds=1.5e-6 * w.shape[0])
    return float(bound) if np.isfinite(bound) else np.inf


def improved_prices(
    rows: RowProblem, w: Floats, w_cols: Floats, prices: Floats, hint: Floats, tol: float
) -> Floats:
    """The prices after a Newton step on the semi-dual, where that makes the bound lower.

    The rows' maximisers t give the gradient 1 - column sums of t, and the curvature.
    """
    t, n, n_cols = np.empty_like(hint), rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    bound = semidual(rows, w, w_cols, prices, hint, tol, t)
    z, free = np.ones_like(w_cols), rows.rho_cols > 0
    rho = rows.rho_cols[free]
    z[free] = np.exp(np.clip((w_cols[free] - prices[:-1][free]) / rho - 1.0, -690, 50))
    largest, excess, change = np.empty(n, np.int64), np.empty(n_cols + 1), np.zeros(n_cols + 1)
    curvature = np.empty_like(t), np.empty(n), np.empty(n)
    kernels.curvature(rows, t, z, largest, *curvature, excess)
    PriceSystem(rows).solve(*curvature, largest, z, excess, 1e-8, change)
    step = 1.0
    while step > 1e-3:
        trial = prices + step * change
        if semidual(rows, w, w_cols, trial, t, tol, np.empty_like(t)) < bound:
            return trial
        step *= 0.3
    return prices


# ---------------------------------------------------------------------- the linear system
class PriceSystem:
    """Newton's linear system in the prices, by conjugate gradients.

    These need many steps where marginals are correlated over long distances, as on rings and bands.
    From then on (`is_slow`) the matrix is factored, if it is a narrow band in a suitable order.
    """

    def __init__(self, rows: RowProblem):
        self.rows = rows
        self.is_slow = False
        self._work = np.empty((2, rows.col.shape[0]))

    def solve(
        self,
        h: Floats,
        spread: Floats,
        den: Floats,
        largest: Ints,
        z: Floats,
        rhs: Floats,
        rtol: float,
        change: Floats,
    ) -> None:
        """Write the solution to `change`, of shape (n_cols + 1,) as `rhs`."""
        done, (zero, image) = False, self._work
        if not (self.is_slow and self._order is not None):
            done = kernels.conjugate_gradients(
                self.rows, h, spread, den, largest, z, rhs, rtol, 300, zero, image, change
            )
            self.is_slow = self.is_slow or not done
        if not done and self._order is not None:
            self._factor(self._order, self.matrix(h, spread, den, largest, z), rhs, change)

    def _factor(self, order: Ints, matrix: sparse.csr_array, rhs: Floats, change: Floats) -> None:
        diagonal = matrix.diagonal()
        known = diagonal > 1e-280
        scale = np.where(known, 1.0 / np.sqrt(np.where(known, diagonal, 1.0)), 0.0)
        jacobi = sparse.diags_array(scale)
        # Prices are determined only up to a constant: the shift makes the matrix regular.
        shift = sparse.diags_array(np.where(known, 1e-13, 1.0))
        scaled = sparse.csc_array(jacobi @ matrix @ jacobi + shift)[order][:, order]
        factor = splu(
            sparse.csc_array(scaled),
            permc_spec="NATURAL",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        change[order] = scale[order] * factor.solve((scale * rhs[:-1])[order])

    def matrix(
        self, h: Floats, spread: Floats, den: Floats, largest: Ints, z: Floats
    ) -> sparse.csr_array:
        """The curvature of the semi-dual in the prices, both triangles."""
        rows = self.rows
        n, n_cols = spread.shape[0], rows.rho_cols.shape[0]
        shape = n_cols + 1, n_cols + 1  # the last is that of rows that stay single
        row = np.repeat(np.arange(n), np.diff(rows.ptr))
        taken = rows.col[largest]
        share = np.zeros(n)  # `rank_one`
        np.divide(den - 1.0, spread * den, out=share, where=spread > 0.0)
        by_row = sparse.csr_array((h, rows.col, rows.ptr), shape=(n, n_cols + 1))
        shared = by_row.T @ (sparse.diags_array(share) @ by_row)
        cross = sparse.csr_array((h / den[row], (rows.col, taken[row])), shape=shape)
        diagonal: Floats = np.bincount(rows.col, h, n_cols + 1).astype(np.float64)
        diagonal += np.bincount(taken, spread / den, n_cols + 1)
        free = np.flatnonzero(rows.rho_cols > 0)
        diagonal[free] += z[free] / rows.rho_cols[free]
        matrix = sparse.csr_array(sparse.diags_array(diagonal) - shared - cross - cross.T)
        return matrix[:n_cols, :n_cols]

    @cached_property
    def _order(self) -> Ints | None:
        """The columns in an order that makes the band narrow; None where it remains too wide."""
        rows = self.rows
        counts, n_cols = np.diff(rows.ptr), rows.rho_cols.shape[0]
        if float(counts @ counts) > 0.01 * FACTOR_LIMIT:
            return None
        ones = np.ones(rows.col.shape[0], np.int32)
        by_row = sparse.csr_array((ones, rows.col, rows.ptr), shape=(counts.shape[0], n_cols + 1))
        pairs = sparse.csr_array((by_row.T @ by_row)[:n_cols, :n_cols])
        order = reverse_cuthill_mckee(pairs, symmetric_mode=True).astype(np.int64)
        place = np.empty(n_cols, np.int64)
        place[order] = np.arange(n_cols)
        tail, head = pairs.tocoo().coords
        width = float(np.abs(place[tail] - place[head]).max(initial=0))
        return order if n_cols * width**2 <= FACTOR_LIMIT else None
