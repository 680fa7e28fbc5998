"""Marginals from few MAP calls: blended pairwise Frank-Wolfe on max <scores, tau> + H(tau).

tau is kept as a mixture of vertices met so far and of the interior point it started from. Between
MAP calls weight is moved from the worst of these to the best, which costs no MAP call, for as long
as that promises more than a new vertex would (Tsuji, Tanaka and Pokutta 2022). Plain Frank-Wolfe
cannot take weight off a vertex other than by shrinking all of tau. That pays once there are enough
vertices to mix, so the first steps are plain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .frank_wolfe import SHORT_STEPS, next_vertex
from .slope_search import minimise_by_slope

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EAGERNESS = 2.0  # a new vertex is asked for once the old ones promise less than gap / this
GATHER = 20.0  # plain steps first: this times the square root of the number of coordinates
MOST_MOVES = 20  # between two MAP calls
LEAST_WEIGHT = 1e-12  # below, a vertex is forgotten


def blended_marginals(
    structure: Any,
    scores: Floats,
    start: Floats,
    tol: float,
    max_iter: int,
    callback: Callable[[int, Floats], Any] | None = None,
) -> tuple[Floats, float, float, int]:
    """(tau, value, upper bound, MAP calls) from an interior point of the polytope.

    `callback(calls, tau)` sees the best point after so many MAP calls; returning True stops.
    """
    mixture = _Mixture(start)
    enough = max(SHORT_STEPS, GATHER * start.shape[0] ** 0.5)
    upper = np.inf
    prices = None
    calls = 0
    while True:
        tau = mixture.tau
        value = float(scores @ tau) + structure.entropy(tau)
        if callback is not None and callback(calls, tau):
            return tau, value, upper, calls
        if calls >= max_iter:
            return tau, value, upper, calls
        direction = scores + structure.entropy_gradient(tau)
        best = next_vertex(structure, direction, tau, prices)
        prices = best.prices
        calls += 1
        gap = max(best.score - float(direction @ tau), 0.0)
        upper = min(upper, value + gap)
        if upper - value <= tol:
            return tau, value, upper, calls
        vertex = best.vertex.dense(tau.shape[0])
        eta = _step(structure, scores, tau, vertex - tau, 1.0)
        if calls <= SHORT_STEPS:
            eta = min(eta, 1.0 / (calls + 1.0))
        if eta <= 0.0:
            return tau, value, upper, calls
        indices = np.asarray(best.vertex.indices, dtype=np.int64)
        mixture.add(indices, np.asarray(best.vertex.values, dtype=np.float64), vertex, eta)
        for _ in range(MOST_MOVES if calls >= enough else 0):
            if not mixture.move(structure, scores, max(gap / EAGERNESS, 0.25 * tol)):
                break


def _step(structure: Any, scores: Floats, tau: Floats, change: Floats, longest: float) -> float:
    """The best share of `longest` times `change` to add to tau, times `longest`."""
    change = longest * change
    linear = float(scores @ change)

    def slope(eta: float) -> float:
        return -linear - float(structure.entropy_gradient(tau + eta * change) @ change)

    return longest * minimise_by_slope(slope, 0.3)


class _Mixture:
    """tau = weight of the start * start + sum of weights * vertices, weights summing to 1."""

    def __init__(self, start: Floats):
        self.start = start
        self.tau = start.copy()
        self.weights = np.ones(1)  # the start first
        self.sizes = np.zeros(0, dtype=np.int64)
        self.indices = np.zeros(0, dtype=np.int64)
        self.values = np.zeros(0)

    def add(self, indices: Ints, values: Floats, dense: Floats, eta: float) -> None:
        """tau <- (1 - eta) tau + eta vertex."""
        self.weights *= 1.0 - eta
        self.tau += eta * (dense - self.tau)
        known = self._find(indices)
        if known is None:
            self.weights = np.append(self.weights, eta)
            self.sizes = np.append(self.sizes, indices.shape[0])
            self.indices = np.concatenate([self.indices, np.sort(indices)])
            self.values = np.concatenate([self.values, values[np.argsort(indices)]])
        else:
            self.weights[known] += eta
        self._forget()

    def _find(self, indices: Ints) -> int | None:
        """The place of a vertex among the weights."""
        wanted = np.sort(indices)
        ends = np.cumsum(self.sizes)
        for k in np.flatnonzero(self.sizes == wanted.shape[0]):
            if np.array_equal(self.indices[ends[k] - self.sizes[k] : ends[k]], wanted):
                return int(k) + 1
        return None

    def _forget(self) -> None:
        """Drop vertices without weight; the start stays."""
        kept = self.weights > LEAST_WEIGHT
        kept[0] = True
        if kept.all():
            return
        each = np.repeat(kept[1:], self.sizes)
        self.indices, self.values = self.indices[each], self.values[each]
        self.sizes, self.weights = self.sizes[kept[1:]], self.weights[kept]

    def _dense(self, k: int) -> Floats:
        if k == 0:
            return self.start
        end = int(self.sizes[:k].sum())
        part = slice(end - int(self.sizes[k - 1]), end)
        out = np.zeros_like(self.tau)
        out[self.indices[part]] = self.values[part]
        return out

    def move(self, structure: Any, scores: Floats, least: float) -> bool:
        """Move weight from the worst part of the mixture to the best, if that promises enough."""
        direction = scores + structure.entropy_gradient(self.tau)
        worth = np.empty(self.weights.shape[0])
        worth[0] = direction @ self.start
        owner = np.repeat(np.arange(self.sizes.shape[0]), self.sizes)
        parts = direction[self.indices] * self.values
        worth[1:] = np.bincount(owner, parts, minlength=self.sizes.shape[0])
        best = int(np.argmax(worth))
        worst = int(np.argmin(np.where(self.weights > 0.0, worth, np.inf)))
        if worth[best] - worth[worst] < least or best == worst:
            return False
        change = self._dense(best) - self._dense(worst)
        eta = _step(structure, scores, self.tau, change, float(self.weights[worst]))
        if eta <= 0.0:
            return False
        self.weights[best] += eta
        self.weights[worst] -= eta
        self.tau += eta * change
        np.maximum(self.tau, 0.0, out=self.tau)
        self._forget()
        return True
