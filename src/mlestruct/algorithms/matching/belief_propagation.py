"""The marginal oracle of matchings: belief propagation (Huang and Jebara 2009) with certificates.

It maximises <w, tau> + H_rho(tau) for any rho in [1/2, 1], dense or sparse, with or without single
nodes. Fixed points of the messages are the maximum, their iterates are prices of the columns, and
at prices bounds of log Z_rho are proven. The problem falls apart into connected components. If
messages converge slowly or not at all, Newton (`newton`) continues from their marginals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..._running import is_over, threaded_map
from . import _belief_propagation_kernels as kernels
from . import newton
from .row_problem import RowProblem, Solution, Start, better

Floats = NDArray[np.float64]

PART_ROWS = 500  # components of fewer rows share a part: a call for each would cost more


@dataclass(frozen=True)
class Part:
    """Rows and columns that no entry connects with others: a problem of its own."""

    rows: RowProblem
    is_complete: bool
    entries: NDArray[np.int64]  # of the whole problem
    cols: NDArray[np.int64]


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

    def each(
        self,
        w: Floats,
        w_cols: Floats,
        start: Start,
        warm: Sequence[Solution | None],
        tols: Floats,
        n_jobs: int = 1,
    ) -> list[Solution]:
        """Marginals of each sample, a row of scores in `w` and `w_cols`, to certified gaps `tols`.

        If that fails, gaps are as small as they get. `start` makes an interior point (t, z) for
        Newton; `warm` has a solution of similar scores for each sample. Parts are shared out among
        `n_jobs` threads; the result does not depend on their number.
        """
        for known in warm:
            if known is not None and known.t.shape[0] != w.shape[1]:
                raise ValueError(f"warm start of {known.t.shape[0]} entries for {w.shape[1]}")
        if self.has_messages and len(self.parts) == 1:
            return _solve_part(self.parts[0], w, w_cols, start, warm, tols)
        samples = list(zip(w, w_cols, warm, tols.tolist(), strict=True))
        if self.has_messages:
            return [
                _solve_parts(self.parts, *sample[:2], start, *sample[2:], n_jobs)
                for sample in samples
            ]
        return [newton.solve(self.rows, *sample[:2], start, *sample[2:]) for sample in samples]


def _solve_parts(
    parts: list[Part],
    w: Floats,
    w_cols: Floats,
    start: Start,
    warm: Solution | None,
    tol: float,
    n_jobs: int,
) -> Solution:
    """All parts of a sample, each with its share of the tolerance."""
    # Scores are sorted by parts once, so that threads take slices: they would wait for each other
    # if each of them picked its own entries.
    entries = np.concatenate([part.entries for part in parts])
    cols = np.concatenate([part.cols for part in parts])
    sorted_w, sorted_cols = w[None, entries], w_cols[None, cols]
    if warm is not None:
        known = warm.t[entries], warm.z[cols], warm.prices[cols]

    def solve(part: Part, entry: int, col: int) -> Solution:
        own, own_cols = slice(entry, entry + part.entries.size), slice(col, col + part.cols.size)
        before = None
        if warm is not None:
            t, z, prices = known
            before = replace(warm, t=t[own], z=z[own_cols], prices=np.append(prices[own_cols], 0.0))
        share = np.array([tol * part.entries.size / w.size])
        scores = sorted_w[:, own], sorted_cols[:, own_cols]
        return _solve_part(part, *scores, partial(_part_of, part, start), [before], share)[0]

    entry_at = np.cumsum([0] + [part.entries.size for part in parts[:-1]]).tolist()
    col_at = np.cumsum([0] + [part.cols.size for part in parts[:-1]]).tolist()
    with threaded_map(n_jobs, len(parts)) as each:
        found = list(each(solve, parts, entry_at, col_at))
    whole = Solution(
        np.empty_like(w), np.ones_like(w_cols), np.zeros(w_cols.shape[0] + 1),
        sum(one.value for one in found),
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


def _solve_part(
    part: Part,
    w: Floats,
    w_cols: Floats,
    start: Start,
    warm: Sequence[Solution | None],
    tols: Floats,
) -> list[Solution]:
    """One part of each sample: belief propagation, then Newton if messages stall.

    Newton is first if messages stalled before, unless the part is large and sparse.
    """
    rows, size = part.rows, w.shape[1]
    is_dense = 2 * size > (rows.ptr.shape[0] - 1) * w_cols.shape[1]
    newton_first = is_dense or w_cols.shape[1] <= PART_ROWS
    by_messages = [
        m for m, known in enumerate(warm) if known is None or not (known.stalled and newton_first)
    ]
    own = slice(None) if len(by_messages) == len(warm) else by_messages
    # Belief propagation ends early if `most` sweeps will not be enough. On large dense graphs 3000
    # sweeps take seconds, in which Newton solves the problem.
    most = min(3000, max(10**9 // size, 64)) if is_dense else 3000
    certified = certified_marginals(
        rows, part.is_complete, w[own], w_cols[own], [warm[m] for m in by_messages], tols[own],
        most,
    )  # fmt: skip
    first = dict(zip(by_messages, certified, strict=True))
    found = []
    for m, (known, tol) in enumerate(zip(warm, tols.tolist(), strict=True)):
        sample = w[m], w_cols[m], start, known
        one = first[m] if m in first else _by_newton(rows, *sample, tol)
        is_enough = one.upper_bound - one.value <= tol or (is_over() and np.isfinite(one.value))
        if m in first and not is_enough:
            one = _continued(part, *sample, tol, one)
        found.append(one)
    return found


def _continued(
    part: Part,
    w: Floats,
    w_cols: Floats,
    start: Start,
    warm: Solution | None,
    tol: float,
    first: Solution,
) -> Solution:
    """Newton from where messages ended; each connected component by itself."""
    components = split(part.rows, 1)
    if len(components) > 1:
        return _solve_parts(components, w, w_cols, start, warm, tol, 1)
    # Marginals that are off by more than one a row are no start.
    known = first if first.gap <= part.rows.ptr.shape[0] else None
    return better(_by_newton(part.rows, w, w_cols, start, known, tol), first)


def _by_newton(
    rows: RowProblem, w: Floats, w_cols: Floats, start: Start, warm: Solution | None, tol: float
) -> Solution:
    return replace(newton.solve(rows, w, w_cols, start, warm, tol), stalled=True)


def certified_marginals(
    rows: RowProblem,
    complete: bool,
    w: Floats,
    w_cols: Floats,
    warm: Sequence[Solution | None],
    tols: Floats,
    max_sweeps: int,
) -> list[Solution]:
    """Marginals by sweeps, to certified gaps of `tols`, of samples that share a graph.

    `w` and `w_cols` have a row for each sample, `warm` a solution of similar scores. Sweeps end
    early if at their rate of convergence `max_sweeps` would not be enough; the value is -inf if
    messages left the range of floats.
    """
    count, size = w.shape
    n, n_cols = rows.ptr.shape[0] - 1, rows.rho_cols.shape[0]
    singles = 1 if n and rows.col[rows.ptr[1] - 1] == n_cols else 0
    t, z, prices = np.empty((count, size)), np.ones((count, n_cols)), np.zeros((count, n_cols + 1))
    for m, known in enumerate(warm):
        if known is not None:
            t[m], z[m], prices[m] = known.t, known.z, known.prices
    is_warm = np.array([known is not None for known in warm])
    bounds = np.tile([-np.inf, np.inf], (count, 1))
    # In the order of the entries of `control`, the last three still open. A certificate costs about
    # ten sweeps: the first follows 16 (LOOK), or fewer if these converge.
    control = np.tile([0.0, np.inf, np.inf, 0.0, 1.0, 16.0, 0.0, 0.0, 0.0], (count, 1))
    control[:, kernels.TOL], control[:, kernels.MAX_SWEEPS] = tols, max_sweeps
    control[:, kernels.PACE] = max(10_000_000 // max(size, 1), 1)  # a fraction of a second
    x, y = np.empty((count, n)), np.empty((count, n_cols))
    edge, row = np.empty((count, 6, size)), np.empty((count, 2, n))
    column, stage = np.empty((count, 4, n_cols)), np.full(count, kernels.GO_ON)
    while (stage != kernels.DONE).any():
        kernels.sweep_each(
            stage, rows, singles, complete, w, w_cols, is_warm, t, prices, x, y,
            edge, row, column, control,
        )  # fmt: skip
        stage[stage == kernels.PAUSED] = kernels.GO_ON
        if is_over():
            stage[stage != kernels.DONE] = kernels.LAST
        kernels.certify_each(
            stage, rows, complete, w, w_cols, t, z, prices, y, edge, row, column, control, bounds
        )
    # The best of several bounds may cross the value by rounding.
    uppers = np.maximum(bounds[:, kernels.UPPER], bounds[:, kernels.VALUE]).tolist()
    values = bounds[:, kernels.VALUE].tolist()
    sweeps = control[:, kernels.SWEEPS].astype(int).tolist()
    return [Solution(*found) for found in zip(t, z, prices, values, uppers, sweeps, strict=True)]


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
