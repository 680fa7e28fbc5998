"""Certificates: proven bounds of the optimum from what a solver has computed anyway.

From MAP calls alone, for the Frank-Wolfe solvers (`certify`):

* The classical Frank-Wolfe gap: sum_m w_m <-grad_m L, s_m - tau_m> >= L(tau) - optimum.
* The price bound, where the structure has one: the decoder's dual prices, inserted into the
  semi-dual of log Z_rho, bound A_m from above and so P(theta) from below. Usually far tighter.

From a bundle of evaluations with a marginal oracle (`DualBundle`). Evaluation k of the likelihood
gives feasible marginals with expected moments e_k and entropy h_k. Convex combinations of marginals
are feasible too, and the entropy is concave, so

    L(sum_k w_k tau_k)  <=  |target - sum_k w_k e_k|^2 / (2 alpha) - sum_k w_k h_k

for all weights w on the simplex. The right side needs no tau, only numbers and K-vectors. Errors of
single evaluations cancel in the combination, so its minimum over w is a far better upper bound of
the optimum than the best single L(tau_k).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._compile import kernel
from ..structures.contract import Vertex
from .problem import DualProblem, DualState

Floats = NDArray[np.float64]

ITERATIONS = 2000  # of the bundle's quadratic program


@dataclass
class LinearStep:
    """The Frank-Wolfe subproblem of one block: its vertex, gap and prices."""

    vertex: Vertex
    gap: float
    scores: Floats
    prices: Floats | None
    sums: Any  # of the entropy, reused by the line search


def linear_step(
    problem: DualProblem,
    state: DualState,
    m: int,
    theta: Floats,
    warm: Floats | None,
    want_prices: bool,
) -> LinearStep:
    """Maximise <G theta + o + grad H(tau_m), s> over the polytope of block m: one MAP call."""
    block = problem.blocks[m]
    structure, tau = block.structure, state.tau[m]
    scores = block.scores(theta)
    direction, sums = structure.stepping_entropy.add_gradient(tau, scores)
    if structure.offers("price_bound"):
        found = structure.decode(direction, warm, prices=want_prices)
    else:
        found = structure.decode(direction)
    gap = found.score - float(direction @ tau)
    return LinearStep(found.vertex, gap, scores, found.prices, sums)


def certify_theta(
    problem: DualProblem, state: DualState, prices: list[Floats | None], theta: Floats
) -> float:
    """A lower bound of P at any theta from prices found elsewhere; -inf if there is none."""
    log_partition = 0.0
    for block, tau, known in zip(problem.blocks, state.tau, prices, strict=True):
        if known is None or not block.structure.offers("price_bound"):
            return -np.inf
        bound = block.structure.price_bound(block.scores(theta), known, tau)
        log_partition += block.weight * bound
    return problem.primal(theta, log_partition)


@dataclass
class Certificate:
    """Bounds at one state: L(tau), a lower bound of P(theta(tau)), and the Frank-Wolfe gap."""

    dual: float
    primal: float
    fw_gap: float
    block_gaps: Floats


def certify(
    problem: DualProblem, state: DualState, prices: list[Floats | None]
) -> tuple[Certificate, list[LinearStep]]:
    """One MAP call per block at theta(tau); `prices` are warm starts, updated in place."""
    theta = problem.theta(state.r)
    steps = []
    log_partition = 0.0
    for m, block in enumerate(problem.blocks):
        step = linear_step(problem, state, m, theta, prices[m], True)
        steps.append(step)
        if step.prices is None:
            log_partition = np.inf
        else:
            prices[m] = step.prices
            tau = state.tau[m]
            bound = block.structure.price_bound(step.scores, step.prices, tau)
            # By concavity, A is also at most the value at tau plus the Frank-Wolfe gap.
            attained = float(step.scores @ tau) + state.entropies[m] + block.offset_gap(tau)
            log_partition += block.weight * min(bound, attained + max(step.gap, 0.0))
    gaps = np.array([step.gap for step in steps])
    primal = problem.primal(theta, log_partition) if np.isfinite(log_partition) else -np.inf
    return Certificate(state.dual(problem), primal, float(problem.weights @ gaps), gaps), steps


class DualBundle:
    """The last `size` evaluations and the weights that minimise the bound."""

    def __init__(self, target: Floats, alpha: float, size: int = 40):
        self.target, self.alpha, self.size = target, alpha, size
        self._residuals = np.zeros((0, target.shape[0]))  # target - e_k
        self._entropies = np.zeros(0)
        self._gram = np.zeros((0, 0))
        self._weights = np.zeros(0)

    def add(self, residual: Floats, entropy: float) -> float:
        """Take r_k = target - e_k and h_k of one more evaluation; returns the best bound."""
        if self._weights.shape[0] >= self.size:
            self._forget()
        products = self._residuals @ residual / self.alpha
        n = products.shape[0]
        gram = np.empty((n + 1, n + 1))
        gram[:n, :n], gram[n, :n], gram[:n, n] = self._gram, products, products
        gram[n, n] = float(residual @ residual) / self.alpha
        self._gram = gram
        self._residuals = np.vstack([self._residuals, residual])
        self._entropies = np.append(self._entropies, entropy)
        start = np.zeros(n + 1)
        if n == 0 or 0.5 * gram[n, n] - entropy < self._value(np.append(self._weights, 0.0)):
            start[n] = 1.0
        else:
            start[:n] = self._weights
        self._weights = minimise_on_simplex(gram, self._entropies, start, ITERATIONS)
        return self._value(self._weights)

    def _value(self, weights: Floats) -> float:
        """The bound itself, recomputed from the vectors rather than the Gram matrix."""
        r = weights @ self._residuals
        return float(r @ r) / (2.0 * self.alpha) - float(weights @ self._entropies)

    def _forget(self) -> None:
        """Drop an evaluation without weight, or the oldest."""
        k = int(np.argmin(self._weights))
        kept = np.arange(self._weights.shape[0]) != k
        weights = self._weights[kept]
        self._weights = weights / weights.sum()
        self._residuals, self._entropies = self._residuals[kept], self._entropies[kept]
        self._gram = self._gram[np.ix_(kept, kept)]


@kernel
def minimise_on_simplex(gram: Floats, linear: Floats, start: Floats, iterations: int) -> Floats:
    """Minimise w' gram w / 2 - linear' w over the simplex by pairwise Frank-Wolfe steps."""
    n = start.shape[0]
    w = start.copy()
    slope = np.empty(n)
    scale = 1e-300
    for k in range(n):
        total = -linear[k]
        for q in range(n):
            total += gram[k, q] * w[q]
        slope[k] = total
        scale = max(scale, abs(total))
    for _ in range(iterations):
        to = 0
        away = -1
        for k in range(n):
            if slope[k] < slope[to]:
                to = k
            if w[k] > 0.0 and (away < 0 or slope[k] > slope[away]):
                away = k
        descent = slope[away] - slope[to]
        if descent <= 1e-14 * scale:
            break
        curvature = gram[to, to] + gram[away, away] - 2.0 * gram[to, away]
        step = w[away]
        if curvature > 0.0:
            step = min(step, descent / curvature)
        w[to] += step
        w[away] = max(w[away] - step, 0.0)
        for k in range(n):
            slope[k] += step * (gram[k, to] - gram[k, away])
    return w / w.sum()
