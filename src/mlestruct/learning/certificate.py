"""Certificates: proven bounds of the optimum from what a solver has computed anyway.

From MAP calls alone (`certify`):

* The Frank-Wolfe gap: sum_m w_m <-grad_m L, s_m - tau_m> >= L(tau) - optimum.
* The price bound, if the structure has one: the decoder's dual prices, inserted into the semi-dual
  of log Z_rho, bound A_m from above and so P(theta) from below. Usually far tighter.

From a bundle of evaluations with a marginal oracle (`DualBundle`). Evaluation k of the likelihood
gives feasible marginals with expected moments e_k and entropy h_k. Convex combinations of marginals
are feasible too, and the entropy is concave, so

    L(sum_k w_k tau_k)  <=  R*(target - sum_k w_k e_k) - sum_k w_k h_k

for all weights w on the simplex; R*(r) = |r|^2 / (2 alpha) without an l1 penalty. The right side
needs no tau, only numbers and K-vectors. Errors of single evaluations cancel in the combination, so
its minimum over w is a far better upper bound of the optimum than the best single L(tau_k).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._compile import kernel
from .dual_state import DualState, LinearStep, linear_step
from .penalty import ElasticNet
from .problem import Problem

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Certificate:
    """What one MAP call per block proves.

    log_partition : an upper bound of sum_m w_m A_m
    fw_gap : the Frank-Wolfe gap
    slack : the part of the gap between a decoder's outputs and its upper bounds
    """

    log_partition: float
    fw_gap: float
    slack: float


def certify(
    problem: Problem, state: DualState, theta: Floats, prices: list[Floats | None]
) -> tuple[Certificate, list[LinearStep]]:
    """One MAP call per block at theta; `prices` are warm starts, updated in place.

    A of a block is at most the value at tau plus the gap, by concavity, and the price bound.
    """

    def step(m: int) -> tuple[LinearStep, float]:
        block, tau = problem.blocks[m], state.tau[m]
        found = linear_step(block, tau, theta, prices[m], True)
        upper = float(found.scores @ tau) + block.structure.entropy(tau) + found.gap
        if found.prices is not None:
            upper = min(upper, block.structure.price_bound(found.scores, found.prices, tau))
        return found, upper

    steps, uppers = zip(*problem.each(step, range(len(problem.blocks))), strict=True)
    prices[:] = [step.prices for step in steps]
    gap, slack = ([getattr(step, name) for step in steps] for name in ("gap", "slack"))
    weights = problem.weights
    found = Certificate(float(weights @ uppers), float(weights @ gap), float(weights @ slack))
    return found, list(steps)


class DualBundle:
    """At most `size` evaluations, or means of some, and the weights that minimise the bound."""

    def __init__(self, n_features: int, penalty: ElasticNet, size: int | None = None):
        if size is None:
            size = max(2, min(40, 500_000 // n_features))  # at most 4 MB
        self.penalty, self.size, self.count = penalty, size, 0
        self._residuals = np.empty((size, n_features))  # target - e_k
        self._entropies, self._weights = np.zeros(size), np.zeros(size)
        self._gram = np.zeros((size, size))
        self._bound = np.inf

    def restore(self, known: dict[str, Any]) -> None:
        """Continue from the attributes of another bundle of the same problem."""
        vars(self).update(known)

    def state(self) -> dict[str, Any]:
        """The attributes that change."""
        names = ("count", "_residuals", "_entropies", "_weights", "_gram", "_bound")
        return {name: getattr(self, name) for name in names}

    def add(self, residual: Floats, entropy: float) -> float:
        """Take r_k = target - e_k and h_k of one more evaluation; returns the best bound."""
        if self.count < self.size:
            new = self.count
            self.count += 1
        else:
            new = self._free_row()
        self._residuals[new], self._entropies[new], self._weights[new] = residual, entropy, 0.0
        n = self.count
        if self.penalty.l1:
            return self._shrunk_bound(new)
        products = self._residuals[:n] @ residual / self.penalty.l2
        self._gram[new, :n], self._gram[:n, new] = products, products
        start = self._weights[:n]
        if 0.5 * products[new] - entropy < self._bound:
            start = np.eye(1, n, new)[0]
        gram = np.ascontiguousarray(self._gram[:n, :n])
        self._weights[:n] = minimise_on_simplex(gram, self._entropies[:n], start)
        self._bound = self._value(self._weights[:n])
        return self._bound

    def _value(self, weights: Floats) -> float:
        """The bound at some weights, from the vectors rather than the Gram matrix."""
        n = self.count
        r = weights @ self._residuals[:n]
        return self.penalty.conjugate(r) - float(weights @ self._entropies[:n])

    def _shrunk_bound(self, new: int) -> float:
        """With an l1 penalty R*(r) is the smallest |r - u|^2 / (2 l2) over |u| <= l1.

        Weights and u are minimised in turn; the bound holds at any weights.
        """
        n = self.count
        weights = np.eye(1, n, new)[0]
        best = self._value(weights)
        if self._bound < best:
            weights, best = self._weights[:n].copy(), self._bound
        for _ in range(5):  # weights and u in turn; later turns gain little
            u = self.penalty.clipped(weights @ self._residuals[:n])
            shifted = self._residuals[:n] - u
            gram = shifted @ shifted.T / self.penalty.l2
            found = minimise_on_simplex(gram, self._entropies[:n], weights)
            value = self._value(found)
            if value >= best:
                break
            weights, best = found, value
        self._weights[:n], self._bound = weights, best
        return best

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
def minimise_on_simplex(gram: Floats, linear: Floats, start: Floats) -> Floats:
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
    for _ in range(2000):  # any weights give a bound
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
    total = 0.0
    for k in range(n):
        total += w[k]
    for k in range(n):
        w[k] /= total
    return w
