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
LARGEST_BUNDLE = 40  # evaluations
BUNDLE_NUMBERS = 1_000_000  # numbers of all its evaluations, 8 MB


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
    """At most `size` evaluations, or means of some, and the weights that minimise the bound."""

    def __init__(self, n_features: int, alpha: float, size: int | None = None):
        if size is None:
            size = max(2, min(LARGEST_BUNDLE, BUNDLE_NUMBERS // n_features))
        self.alpha, self.size, self.count = alpha, size, 0
        self._residuals = np.empty((size, n_features))  # target - e_k
        self._entropies, self._weights = np.zeros(size), np.zeros(size)
        self._gram = np.zeros((size, size))
        self._bound = np.inf

    def add(self, residual: Floats, entropy: float) -> float:
        """Take r_k = target - e_k and h_k of one more evaluation; returns the best bound."""
        if self.count < self.size:
            new = self.count
            self.count += 1
        else:
            new = self._free_row()
        self._residuals[new], self._entropies[new], self._weights[new] = residual, entropy, 0.0
        n = self.count
        products = self._residuals[:n] @ residual / self.alpha
        self._gram[new, :n], self._gram[:n, new] = products, products
        start = self._weights[:n]
        if 0.5 * products[new] - entropy < self._bound:
            start = np.eye(1, n, new)[0]
        gram = np.ascontiguousarray(self._gram[:n, :n])
        self._weights[:n] = minimise_on_simplex(gram, self._entropies[:n], start, ITERATIONS)
        # Recomputed from the vectors rather than the Gram matrix.
        r = self._weights[:n] @ self._residuals[:n]
        self._bound = float(r @ r) / (2.0 * self.alpha) - float(self._weights @ self._entropies)
        return self._bound

    def _free_row(self) -> int:
        """The evaluation of smallest weight is dropped; its weight goes to a mean with the next."""
        k, other = np.argsort(self._weights, kind="stable")[:2].tolist()
        total = float(self._weights[k] + self._weights[other])
        if self._weights[k] > 0.0:
            share = float(self._weights[k]) / total
            for values in (self._residuals, self._entropies, self._gram, self._gram.T):
                values[other] += share * (values[k] - values[other])
            self._weights[other] = total
        return k


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
