"""The edge dual: marginals of matchings from one dual variable (price) per node.

    D(u) = sum_i b_i u_i + sum_e max over t of [ (w_e - u_i - u_j) t + H_e(t) ]  (+ single nodes)

is an upper bound of log Z_rho at any prices u, and separates over the edges. Newton on u, with each
edge on the concave branch of its entropy, needs a few passes over the edges, however many there
are. For c = rho_i + rho_j - 1 <= 0 that minimises D. For c > 0 the maximum over t may lie outside
of the branch; but where the node sums are exact, t is a stationary point of a concave problem,
hence optimal, and concavity proves the bound instead of D.

A few *strong* edges may leave their branch (t near 1/(1+c) or above). Their convex part
c (1-t) log(1-t) is replaced by its tangent at the last t, a minorant, and the problem is solved
again until t is stationary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..._running import is_over
from . import _edge_dual_kernels as kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEASIBLE = 1e-11  # error of the node sums at which Newton stops


@dataclass(frozen=True)
class EdgeProblem:
    """Edges of a simple graph with reweighting and capacity of the nodes.

    ptr, col : edges, each stored once at its smaller end (CSR), shapes (n_nodes + 1,), (n_edges,)
    rho : of the edges' entropies, c = rho_i + rho_j - 1, shape (n_nodes,)
    capacity : shape (n_nodes,)
    free : nodes that may have fewer partners than their capacity, shape (n_nodes,)
    single_rho : weight of the entropy -rho z log z of a free node's unused capacity z; may be 0
    """

    ptr: Ints
    col: Ints
    complete: bool
    rho: Floats
    capacity: Floats
    free: NDArray[np.bool_]
    single_rho: Floats

    @cached_property
    def bounded(self) -> NDArray[np.bool_]:
        """Nodes whose unused capacity has no entropy: their price cannot fall below its score."""
        return self.free & (self.single_rho == 0.0)

    @property
    def n_nodes(self) -> int:
        return int(self.rho.shape[0])


@dataclass
class EdgeSolution:
    """Marginals t of the edges, expected unused capacity z of the nodes, and enclosing bounds.

    `failed` means that t is not feasible and `value` -inf; the upper bound holds nevertheless.
    """

    t: Floats
    z: Floats
    prices: Floats
    value: float
    upper_bound: float
    iterations: int
    failed: bool
    strong: Ints


class _Dual:
    """D and its derivatives, evaluated at prices = base + change."""

    def __init__(self, problem: EdgeProblem, w: Floats, w_single: Floats, prices: Floats):
        self.problem, self.w, self.w_single = problem, w, w_single
        size, n = w.shape[0], problem.n_nodes
        self.s, self.q = np.empty(size), np.empty(size)
        self.t, self.h = np.empty(size), np.empty(size)
        self.filled, self.spread = np.empty(n), np.empty(n)
        self.z, self.dz = np.empty(n), np.empty(n)
        self.bounded = problem.bounded
        self.lower = np.where(self.bounded, w_single, -np.inf)
        # Unused capacity is at most the capacity, which bounds the prices of all free nodes.
        log_capacity = np.log(np.maximum(problem.capacity, 1e-300))
        least = w_single - problem.single_rho * (1.0 + log_capacity)
        self.least = np.where(problem.free, least, -np.inf)
        self.strong: Ints = np.zeros(0, dtype=np.int64)
        self.rebase(prices)

    def set_strong(self, edges: Ints, t: Floats) -> None:
        """Give these edges tangents at t in place of their convex part."""
        if not edges.size:
            return
        problem = self.problem
        if not np.array_equal(edges, self.strong):
            ends = np.searchsorted(problem.ptr, edges, side="right") - 1, problem.col[edges]
            self.strong, self.ends = edges, ends
            self.c = problem.rho[ends[0]] + problem.rho[ends[1]] - 1.0
            self.q[edges] = 0.0
        rest = np.maximum(1.0 - t, 1e-15)
        self.slope = -self.c * (np.log(rest) + 1.0)
        self.constant = self.c * (np.log(rest) + t)

    def _add_strong(self, prices: Floats) -> float:
        """Responses of the strong edges, t = exp(reduced score - 1), added to all sums."""
        i, j = self.ends
        exponent = self.w[self.strong] + self.slope - prices[i] - prices[j] - 1.0
        # The node sums imply t <= 1; a bound here would make D non-smooth.
        t = np.exp(np.minimum(exponent, kernels.LARGEST_LOG))
        self.t[self.strong] = self.h[self.strong] = t
        for end in (i, j):
            np.add.at(self.filled, end, t)
            np.add.at(self.spread, end, t)
        return float((t + self.constant).sum())

    def tangent_error(self) -> tuple[float, float]:
        """The true entropy of strong edges minus that of their tangents, and a bound of its rise.

        `error` is the difference of the slopes at t; raising the price of one end by it makes the
        prices feasible for the true entropy.
        """
        if not self.strong.size:
            return 0.0, 0.0
        t = self.t[self.strong]
        rest = np.maximum(1.0 - t, 1e-15)
        logs = np.log(rest)
        more = self.c * rest * logs - self.constant - self.slope * t
        error = -self.c * (logs + 1.0) - self.slope
        return float(more.sum()), float((np.maximum(error, 0.0) - error * t).sum())

    def rebase(self, prices: Floats) -> None:
        """Compute the exponentials at `prices`; later changes enter as factors."""
        problem = self.problem
        self.base = prices.copy()
        kernels.reduced_scores(problem.ptr, problem.col, self.w, prices, problem.rho, self.s)
        np.minimum(self.s, 600.0, out=self.q)  # times exp(30) from either end: below overflow
        np.exp(self.q, out=self.q)
        self.q[self.strong] = 0.0

    def scaled(self) -> Floats:
        """Prices whose node sums are about right for c = 0, by symmetric scaling from `base`."""
        problem = self.problem
        factor, filled = np.ones(problem.n_nodes), np.empty(problem.n_nodes)
        target = np.where(problem.free, 0.5, 1.0) * np.maximum(problem.capacity, 1e-3)
        for _ in range(30):
            worst = kernels.scaling_round(problem.ptr, problem.col, self.q, factor, target, filled)
            if worst < 0.05:
                break
        return np.maximum(self.base - np.log(np.clip(factor, 1e-200, 1e200)), self.least)

    def __call__(self, prices: Floats) -> float:
        """D on the branches; leaves responses, slopes and node sums in the attributes."""
        problem = self.problem
        change = prices - self.base
        if np.abs(change).max(initial=0.0) > 30.0:
            self.rebase(prices)
            change = np.zeros_like(prices)
        total, self.missed, self.n_outside = kernels.edge_responses(
            problem.ptr, problem.col, problem.complete, problem.rho, self.s, self.q, change,
            np.exp(-change), self.t, self.h, self.filled, self.spread,
        )  # fmt: skip
        if self.strong.size:
            total += self._add_strong(prices)
        total += kernels.singles(problem.single_rho, self.w_single, prices, self.z, self.dz)
        self.prices, self.excess = prices, self.filled + self.z - problem.capacity
        return float(total + problem.capacity @ prices)

    def held(self, prices: Floats, near: float) -> NDArray[np.bool_]:
        """Nodes whose price decreases and is within `near` of its bound: it is set to the bound."""
        return self.bounded & (prices <= self.lower + near) & (self.excess <= 0.0)

    def enclosure(self, prices: Floats, value: float) -> tuple[float, float]:
        """Lower and upper bound of the maximum; `value` is D on the branches.

        With exact node sums both are `value`; the prices bound the effect of the remaining errors.
        """
        slack = self.bounded & (self.excess <= 0.0)
        wrong = np.where(slack, 0.0, self.excess)
        unused = np.where(slack, (prices - np.where(slack, self.lower, 0.0)) * self.excess, 0.0)
        penalty = float(np.abs(wrong) @ (1.0 + np.abs(prices)))
        attained = float(value + prices @ wrong + unused.sum()) - penalty
        more, rise = self.tangent_error()
        if self.n_outside == 0 and self.error() <= 1e-9:  # exact up to rounding
            bound = value + more + rise + 2.0 * penalty  # by concavity
            return attained + more, bound if self.strong.size else min(bound, value + self.missed)
        return -np.inf, np.inf if self.strong.size else value + self.missed

    def error(self) -> float:
        """Largest error of a node's sum; where slack is free, that of complementarity."""
        wrong = np.abs(self.excess)
        spare = (self.prices - self.lower)[self.bounded]
        wrong[self.bounded] = np.abs(np.minimum(spare, -self.excess[self.bounded]))
        return float(wrong.max(initial=0.0))


def solve(
    problem: EdgeProblem,
    w: Floats,
    w_single: Floats,
    warm: EdgeSolution | None,
    tol: float,
    max_iter: int = 100,
) -> EdgeSolution:
    """Marginals at scores w (n_edges,) and w_single (n_nodes,) of unused capacity, to a gap of tol.

    `warm` is the solution of an earlier call.
    """
    dual = _Dual(problem, w, w_single, _start(problem, w) if warm is None else warm.prices.copy())
    if warm is None:
        prices = dual.scaled()
    else:
        dual.set_strong(warm.strong, warm.t[warm.strong])
        prices = np.maximum(warm.prices, dual.least)
        dual(prices)
        if dual.error() > 0.3:  # far from the solution scaling is quicker than Newton
            prices = dual.scaled()
    prices, attained, upper, iterations = _newton(dual, prices, max_iter)
    for _ in range(40):
        if upper - attained <= tol or iterations >= max_iter:
            break
        new = np.flatnonzero(dual.t > 0.8 * _branch_ends(problem))
        edges = np.union1d(dual.strong, new)
        # With more strong edges than nodes, updating their tangents converges too slowly.
        if not edges.size or edges.size > max(problem.n_nodes, 10):
            break
        dual.set_strong(edges, dual.t[edges])
        prices, attained, bound, steps = _newton(dual, prices, max_iter - iterations)
        upper = min(upper, bound)
        iterations += steps
    z = np.where(dual.bounded, np.maximum(-dual.excess, 0.0), dual.z)
    failed = not np.isfinite(attained)
    return EdgeSolution(dual.t, z, prices, attained, upper, iterations, failed, dual.strong)


def price_bound(problem: EdgeProblem, w: Floats, w_single: Floats, prices: Floats) -> float:
    """A proven upper bound of the maximum at any prices, after one Newton step from them."""
    dual = _Dual(problem, w, w_single, prices.copy())
    return _newton(dual, np.maximum(prices, dual.least), 1)[2]


def _newton(dual: _Dual, prices: Floats, max_iter: int) -> tuple[Floats, float, float, int]:
    """Newton on the prices: (prices, value attained or -inf, upper bound, iterations).

    Ends when the node sums are exact, when no step lowers D, or when some edges stay outside of
    their branch, so that they need tangents.
    """
    problem = dual.problem
    value = dual(prices)
    step = np.empty_like(prices)
    upper = np.inf
    iterations = n_outside = 0
    while True:
        attained, bound = dual.enclosure(prices, value)
        upper = min(upper, bound)
        error = dual.error()
        n_outside += dual.n_outside > 0
        if error <= FEASIBLE or iterations >= max_iter or n_outside > 6 or is_over():
            break
        iterations += 1
        rtol = min(0.1, max(10.0 * error, 1e-8))
        diagonal = dual.spread + dual.dz
        held = dual.held(prices, min(error, 0.05))
        kernels.price_step(
            problem.ptr, problem.col, problem.complete, dual.h, diagonal, held,
            dual.excess, rtol, 10 * problem.n_nodes + 20, step,
        )  # fmt: skip
        step[held] = (dual.lower - prices)[held]
        found = _line_search(dual, prices, step, value, error)
        if found is None:
            break
        prices, value = found
    return prices, attained, upper, iterations


def _line_search(
    dual: _Dual, prices: Floats, step: Floats, value: float, error: float
) -> tuple[Floats, float] | None:
    """Prices with a lower D or, where its changes are below rounding, with better node sums."""
    shorter = np.maximum(step, dual.lower - prices)
    if dual.excess @ shorter > 0.0:
        step = shorter
    slope = -float(dual.excess @ step)
    size = float(np.abs(step).max(initial=0.0))
    if not np.isfinite(size) or slope >= 0.0 or size == 0.0:
        return None
    eta = min(1.0, 3.0 / size)  # D grows exponentially in the prices: no long first steps
    noise = 1e-14 * (1.0 + abs(value)) * np.sqrt(dual.t.shape[0] + 1.0)
    for _ in range(40):
        trial = np.maximum(prices + eta * step, dual.lower)
        new = dual(trial)
        if new <= value + 1e-4 * eta * slope:
            return _longer(dual, prices, step, value, eta, slope, trial, new)
        if abs(new - value) <= noise and dual.error() < 0.5 * error:
            return trial, new
        if -eta * slope <= noise:  # shorter steps change D by less than rounding
            break
        eta *= 0.4
    dual(prices)
    return None


def _longer(
    dual: _Dual,
    prices: Floats,
    step: Floats,
    value: float,
    eta: float,
    slope: float,
    trial: Floats,
    new: float,
) -> tuple[Floats, float]:
    """Lengthen a step that was cut short, as long as D decreases almost linearly."""
    while eta < 1.0 and new <= value + 0.7 * eta * slope:
        eta = min(1.0, 3.0 * eta)
        further = np.maximum(prices + eta * step, dual.lower)
        lower = dual(further)
        if not lower <= value + 0.5 * eta * slope:
            dual(trial)
            break
        trial, new = further, lower
    return trial, new


def _branch_ends(problem: EdgeProblem) -> float:
    """The smallest t at which a branch ends, of the nodes' largest rho."""
    c = 2.0 * float(problem.rho.max(initial=0.0)) - 1.0
    return 1.0 / (1.0 + c) if c > 0.0 else np.inf


def _start(problem: EdgeProblem, w: Floats) -> Floats:
    """Half of each node's largest score, so that exponentials stay in range."""
    n = problem.n_nodes
    row = np.repeat(np.arange(n), np.diff(problem.ptr))
    top = np.full(n, -np.inf)
    np.maximum.at(top, row, w)
    np.maximum.at(top, problem.col, w)
    return np.where(np.isfinite(top), 0.5 * top, 0.0)
