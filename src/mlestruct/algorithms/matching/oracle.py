"""The marginal oracle of matchings: tau maximising <w, tau> + H_rho(tau), with a certificate.

Any rho in [1/2, 1], dense or sparse, with or without single nodes. The problem falls apart into
connected components. Belief propagation with certified bounds solves each part; where it converges
slowly or not at all, Newton (`newton`) continues from its marginals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..._deadline import is_over, wait_for
from ..._threads import threaded_map
from . import newton
from ._newton_kernels import LEAST_DAMPING
from ._square_bethe_kernels import bethe_marginals
from .belief_propagation import certified_marginals
from .newton import SMALL_LIMIT, Solution, Start, first_damping
from .row_problem import TINY, RowProblem

Floats = NDArray[np.float64]

PART_ROWS = 500  # components of fewer rows share a part: a call for each would cost more


@dataclass(frozen=True)
class Part:
    """Rows and columns that no entry connects with others: a problem of its own."""

    rows: RowProblem
    is_complete: bool
    entries: NDArray[np.int64]  # of the whole problem
    cols: NDArray[np.int64]

    @cached_property
    def is_square_bethe(self) -> bool:
        return self.is_complete and _is_square_bethe(self.rows)

    @cached_property
    def is_dense(self) -> bool:
        n, n_cols = self.rows.ptr.shape[0] - 1, self.rows.rho_cols.shape[0]
        return 2 * self.rows.col.shape[0] > n * n_cols

    @cached_property
    def prefers_newton(self) -> bool:
        """Whether the graph is small and dense: from a near start Newton is faster there."""
        small = self.rows.rho_cols.shape[0] <= SMALL_LIMIT
        return small and self.is_dense and not self.is_square_bethe

    @cached_property
    def has_small_rho(self) -> bool:
        return bool(self.rows.c.max(initial=0.0) < 0.5)


@dataclass(frozen=True)
class Oracle:
    """The oracle of one problem."""

    rows: RowProblem

    @cached_property
    def parts(self) -> list[Part]:
        return split(self.rows, PART_ROWS)

    @cached_property
    def has_messages(self) -> bool:
        """Whether the entropy is that of the nodes' rho, all positive, as messages assume."""
        rows = self.rows
        if _is_square_bethe(rows):
            return True
        row_rho = np.repeat(rows.row_rho, np.diff(rows.ptr))
        edge = rows.col < rows.rho_cols.shape[0]
        free = rows.rho_cols > 0
        return bool(
            rows.row_rho.all()
            and rows.col_rho.all()
            and np.array_equal(rows.c[edge], row_rho[edge] + rows.col_rho[rows.col[edge]] - 1.0)
            and np.array_equal(rows.a[~edge], row_rho[~edge])
            and np.array_equal(rows.rho_cols[free], rows.col_rho[free])
        )

    def __call__(
        self,
        w: Floats,
        w_cols: Floats,
        start: Start,
        warm: Solution | None,
        tol: float,
        n_jobs: int = 1,
    ) -> Solution:
        """Marginals at scores (w, w_cols) to a certified gap of `tol`, or as close as it gets.

        `start` makes an interior point (t, z) for Newton; `warm` is a solution of similar scores.
        Parts are shared out among `n_jobs` threads; the result does not depend on their number.
        """
        if warm is not None and warm.t.shape != w.shape:
            raise ValueError(f"warm start of {warm.t.shape[0]} entries for {w.shape[0]}")
        if not self.has_messages:
            return newton.solve(self.rows, w, w_cols, start, warm, tol)
        return _all(self.parts, w, w_cols, start, warm, tol, n_jobs)

    def each(
        self,
        w: Floats,
        w_cols: Floats,
        start: Start,
        warm: Sequence[Solution | None],
        tol: Floats,
    ) -> list[Solution]:
        """The oracle at each row of w; answers are those of one call for each, but sooner."""
        found: list[Solution | None] = [None] * len(w)
        if self.has_messages and len(self.parts) == 1:
            part = self.parts[0]
            at_once = [m for m in range(len(w)) if _suits_newton(part, w[m], warm[m])]
            if at_once:
                known = [warm[m] for m in at_once]
                answers = newton.solve_each(
                    part.rows, w[at_once], w_cols[at_once], start, known, tol[at_once]
                )
                for m, before, answer in zip(at_once, known, answers, strict=True):
                    if answer is not None:
                        answer.stalled = before is not None and before.stalled
                        found[m] = answer
        return [
            self(w[m], w_cols[m], start, warm[m], tol[m]) if one is None else one
            for m, one in enumerate(found)
        ]


def _all(
    parts: list[Part],
    w: Floats,
    w_cols: Floats,
    start: Start,
    warm: Solution | None,
    tol: float,
    n_jobs: int,
) -> Solution:
    """All parts of a problem, each with its share of the tolerance."""
    if len(parts) == 1:
        return _one(parts[0], w, w_cols, start, warm, tol, n_jobs)
    # Parts are slices of what is sorted by parts: to pick entries on threads would make these
    # wait for each other.
    entries = np.concatenate([part.entries for part in parts])
    cols = np.concatenate([part.cols for part in parts])
    sorted_w, sorted_cols = w[entries], w_cols[cols]
    if warm is not None:
        known = warm.t[entries], warm.z[cols], warm.prices[cols]

    def solve(part: Part, entry: int, col: int) -> Solution:
        own, own_cols = slice(entry, entry + part.entries.size), slice(col, col + part.cols.size)
        before = None
        if warm is not None:
            t, z, prices = known
            before = replace(warm, t=t[own], z=z[own_cols], prices=np.append(prices[own_cols], 0.0))
        return _one(
            part, sorted_w[own], sorted_cols[own_cols], partial(_part_of, part, start), before,
            tol * part.entries.size / w.size, inside,
        )  # fmt: skip

    entry_at = np.cumsum([0] + [part.entries.size for part in parts[:-1]]).tolist()
    col_at = np.cumsum([0] + [part.cols.size for part in parts[:-1]]).tolist()
    largest = max(part.entries.size for part in parts)
    # Where one part is most of the problem, threads share its rows instead.
    n_threads, inside = (n_jobs, 1) if 2 * largest <= w.size else (1, n_jobs)
    with threaded_map(n_threads, len(parts)) as each:
        found = list(each(solve, parts, entry_at, col_at))
    whole = Solution(
        np.empty_like(w), np.ones_like(w_cols), np.zeros(w_cols.shape[0] + 1),
        max(one.damping for one in found), sum(one.value for one in found),
        sum(one.upper_bound for one in found), sum(one.iterations for one in found),
        any(one.stalled for one in found),
    )  # fmt: skip
    whole.t[entries] = np.concatenate([one.t for one in found])
    whole.z[cols] = np.concatenate([one.z for one in found])
    whole.prices[cols] = np.concatenate([one.prices[:-1] for one in found])
    return whole


def _part_of(part: Part, start: Start) -> tuple[Floats, Floats]:
    t, z = start()
    return t[part.entries], z[part.cols]


def _one(
    part: Part,
    w: Floats,
    w_cols: Floats,
    start: Start,
    warm: Solution | None,
    tol: float,
    n_jobs: int = 1,
) -> Solution:
    """One part: belief propagation, then Newton if that stalls.

    Newton is first where it needs few steps, and in problems of moderate size, or dense ones, at
    which messages stalled before.
    """
    rows, square = part.rows, part.is_square_bethe
    stalled = warm is not None and warm.stalled
    solvable = w_cols.shape[0] <= PART_ROWS or part.is_dense
    if (stalled and solvable) or _suits_newton(part, w, warm):
        found = newton.solve(rows, w, w_cols, start, warm, tol)
        found.stalled = stalled
        return found
    # It ends earlier where so many sweeps will not be enough. Those of large dense graphs take
    # seconds, in which Newton solves the problem.
    sweeps = min(3000, max(10**9 // w.shape[0], 64)) if part.is_dense else 3000
    first = _propagate(part, w, w_cols, warm, sweeps, tol, square, n_jobs)
    if first.upper_bound - first.value <= tol or (is_over() and np.isfinite(first.value)):
        return first
    components = split(rows, 1)
    if len(components) > 1:
        return _all(components, w, w_cols, start, warm, tol, 1)
    found = _continue(rows, w, w_cols, start, first, tol)
    if found.upper_bound - found.value > tol and np.isfinite(first.value) and not is_over():
        # About a second of sweeps.
        longer = _propagate(
            part, w, w_cols, None, min(200_000_000 // w.shape[0], 20_000), tol, square, n_jobs
        )
        found = _better(found, longer)
    found.stalled = True
    return found


def _suits_newton(part: Part, w: Floats, warm: Solution | None) -> bool:
    """Whether Newton needs few steps in a small dense graph: from a warm start, with scores of 0,
    of which the interior point is the solution, and at small rho, where messages converge slowly.
    """
    return part.prefers_newton and (warm is not None or part.has_small_rho or not w.any())


def _is_square_bethe(rows: RowProblem) -> bool:
    """rho = 1 and as many rows as columns, at least 2; a complete graph is understood."""
    n = rows.rho_cols.shape[0]
    return bool(
        n >= 2
        and rows.col.shape[0] == n * n
        and rows.ptr.shape[0] == n + 1
        and (rows.c == 1.0).all()
        and not rows.rho_cols.any()
    )


def _propagate(
    part: Part,
    w: Floats,
    w_cols: Floats,
    warm: Solution | None,
    sweeps: int,
    tol: float,
    square: bool,
    n_jobs: int,
) -> Solution:
    """Belief propagation; where messages leave the range of floats the value is -inf."""
    n_cols = w_cols.shape[0]
    if square:
        t, z, prices = np.empty_like(w), np.ones(n_cols), np.zeros(n_cols + 1)
        problem = part.rows, np.ascontiguousarray(w), tol, sweeps, t, prices
        longest = 2e-9 * sweeps * w.shape[0]
        found = wait_for("belief propagation", bethe_marginals, *problem, seconds=longest)
    else:
        if warm is None:
            t, z, prices = np.empty_like(w), np.ones(n_cols), np.zeros(n_cols + 1)
        else:
            t, z, prices = warm.t.copy(), warm.z.copy(), warm.prices.copy()
        found = certified_marginals(
            part.rows, part.is_complete, w, w_cols, warm is not None, tol, sweeps, t, z, prices,
            n_jobs,
        )  # fmt: skip
    damping = LEAST_DAMPING if first_damping(part.rows) else 0.0
    return Solution(t, z, prices, damping, *found)


def _continue(
    rows: RowProblem, w: Floats, w_cols: Floats, start: Start, first: Solution, tol: float
) -> Solution:
    """Newton from the marginals of belief propagation, if these are any good.

    It runs on the scores minus the current prices, whose range is smaller.
    """
    if not first.upper_bound - first.value <= rows.ptr.shape[0]:  # not even one a row
        return _better(newton.solve(rows, w, w_cols, start, None, tol), first)
    prices = first.prices
    known = replace(
        first,
        t=np.maximum(first.t, TINY),
        z=np.maximum(first.z, TINY),
        prices=np.zeros_like(prices),
        damping=first_damping(rows),
    )
    reduced = w - prices[rows.col]
    of_row = np.maximum.reduceat(reduced, rows.ptr[:-1])
    reduced -= np.repeat(of_row, np.diff(rows.ptr))
    reduced_cols = np.where(rows.rho_cols > 0, w_cols - prices[:-1], 0.0)
    found = newton.solve(rows, reduced, reduced_cols, start, known, tol)
    constant = float(of_row.sum() + prices.sum())
    found.prices = found.prices + prices
    found.value += constant
    found.upper_bound += constant
    if found.upper_bound - found.value <= tol:
        found.damping = first.damping  # the Hessian of the solution is that of the entropy
    return _better(found, first)


def _better(found: Solution, other: Solution) -> Solution:
    """The better value and the better bound of two solutions."""
    found.iterations += other.iterations
    if other.value > found.value:
        found.t, found.z, found.value = np.maximum(other.t, TINY), other.z, other.value
    if other.upper_bound < found.upper_bound:
        found.upper_bound, found.prices = other.upper_bound, other.prices
    return found


# ---------------------------------------------------------------------- connected components
def split(rows: RowProblem, smallest: int) -> list[Part]:
    """Connected components as parts; components of fewer rows than `smallest` share parts."""
    n, m = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    pairs = rows.col < m
    complete = np.count_nonzero(pairs) == n * m
    if complete or n < smallest:
        return [Part(rows, complete, np.arange(rows.col.size), np.arange(m))]
    counts = np.diff(rows.ptr)
    row = np.repeat(np.arange(n), counts)
    ends = row[pairs], rows.col[pairs] + n
    graph = sparse.csr_array((np.ones(ends[0].size, np.int8), ends), shape=(n + m, n + m))
    n_components, component = connected_components(graph, directed=False)
    size = np.bincount(component[:n], minlength=n_components)
    # Small components fill parts one after the other, in their order; large ones have their own.
    large = size >= smallest
    small = np.cumsum(np.where(large, 0, size)) // smallest
    label = np.where(large, small[-1] + 1 + np.cumsum(large), small) if n_components else small
    _, part = np.unique(label, return_inverse=True)
    n_parts = int(part.max(initial=-1)) + 1
    if n_parts == 1:
        return [Part(rows, False, np.arange(row.size), np.arange(m))]
    of_row, of_col = part[component[:n]], part[component[n:]]
    row_order, col_order = np.argsort(of_row, kind="stable"), np.argsort(of_col, kind="stable")
    entry_order = np.argsort(of_row[row], kind="stable")
    row_at = np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=n_parts))])
    col_at = np.concatenate([[0], np.cumsum(np.bincount(of_col, minlength=n_parts))])
    entry_at = np.concatenate([[0], np.cumsum(np.bincount(of_row[row], minlength=n_parts))])
    place = np.empty(m + 1, dtype=np.int64)  # of a column within its part
    place[col_order] = np.arange(m) - np.repeat(col_at[:-1], np.diff(col_at))
    parts = []
    for k in range(n_parts):
        own_rows = row_order[row_at[k] : row_at[k + 1]]
        cols = col_order[col_at[k] : col_at[k + 1]]
        entries = entry_order[entry_at[k] : entry_at[k + 1]]
        place[m] = cols.size
        sub = RowProblem(
            np.concatenate([[0], np.cumsum(counts[own_rows])]), place[rows.col[entries]],
            rows.a[entries], rows.c[entries], rows.rho_cols[cols],
            rows.row_rho[own_rows], rows.col_rho[cols],
        )  # fmt: skip
        complete = int((sub.col < cols.size).sum()) == own_rows.size * cols.size
        parts.append(Part(sub, complete, entries, cols))
    return parts
