"""Marginals from MAP calls alone: Frank-Wolfe on max <scores, tau> + H(tau).

For polytopes that only a decoder knows. The gap is a certificate: H is concave, so its value plus
the gap bounds log Z_rho from above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .slope_search import MAX_STEP, RTOL, minimise_by_slope

Floats = NDArray[np.float64]

SHORT_STEPS = 50  # steps whose length is limited
WORSE = 1e-9  # of all terms, by which rounding may make a vertex worse than the current point


def frank_wolfe_marginals(
    structure: Any,
    scores: Floats,
    start: Floats,
    tol: float,
    max_iter: int,
    callback: Callable[[int, Floats], Any] | None = None,
) -> tuple[Floats, float, float, int]:
    """(tau, value, upper bound, MAP calls) from an interior point of the polytope.

    The last MAP call only serves the bound. The first steps are no longer than 1 / (step + 1), so
    that the weight of the start goes down slowly: at rho near 1 a line search may go all the way to
    the first vertex, where all other pairs have no mass and have to be found again, one by one.
    `callback(calls, tau)` sees every point and the MAP calls that led to it; returning True stops.
    """
    entropy = getattr(structure, "stepping_entropy", None) or _Entropy(structure)
    tau = start.copy()
    upper, guess = np.inf, 0.1
    prices = None
    iterations = 0
    while True:
        value = float(scores @ tau) + entropy(tau)
        stop = callback is not None and bool(callback(iterations, tau))
        direction, sums = entropy.add_gradient(tau, scores)
        best = next_vertex(structure, direction, tau, prices)
        prices = best.prices
        gap = best.score - float(direction @ tau)
        upper = min(upper, value + max(gap, 0.0))
        if upper - value <= tol or iterations >= max_iter or stop:
            return tau, value, upper, iterations + 1
        iterations += 1
        gain = best.vertex.dot(scores) - float(scores @ tau)
        eta = entropy.line_search(tau, best.vertex, sums, -gain, 0.0, guess, MAX_STEP, RTOL)
        if eta <= 0.0:
            return tau, value, upper, iterations
        guess = max(eta, 1e-6)
        if iterations <= SHORT_STEPS:
            eta = min(eta, 1.0 / (iterations + 1.0))
        entropy.move(tau, best.vertex, eta)


def next_vertex(structure: Any, direction: Floats, tau: Floats, prices: Any) -> Any:
    """A MAP call, checked: the vertex is to score at least as much as tau does.

    Prices of the last call are handed on where the decoder has returned some.
    """
    best = structure.decode(direction) if prices is None else structure.decode(direction, prices)
    here = float(direction @ tau)
    size = float(np.abs(direction) @ np.abs(tau)) + abs(best.score)
    if not best.score >= here - WORSE * size:
        raise ValueError(
            f"{type(structure).__name__}.decode: its vertex scores {best.score:.6g}, less than the "
            f"current point with {here:.6g}; decode must maximise over the polytope, interior() "
            "lie inside of it, and entropy_gradient be the gradient of entropy"
        )
    return best


def checked_start(structure: Any) -> Floats:
    """interior() of a structure, of the right length."""
    start = np.array(structure.interior(), dtype=np.float64)
    if start.shape != (structure.n_coordinates,):
        raise ValueError(
            f"{type(structure).__name__}.interior: expected shape ({structure.n_coordinates},), "
            f"got {start.shape}"
        )
    return start


class _Entropy:
    """Line searches of a structure that has only its entropy and the gradient."""

    def __init__(self, structure: Any):
        self._structure = structure

    def __call__(self, tau: Floats) -> float:
        return float(self._structure.entropy(tau))

    def add_gradient(self, tau: Floats, scores: Floats) -> tuple[Floats, None]:
        return scores + self._structure.entropy_gradient(tau), None

    def line_search(
        self, tau: Floats, vertex: Any, sums: None, linear: float, quadratic: float,
        guess: float, max_step: float, rtol: float,
    ) -> float:  # fmt: skip
        direction = vertex.dense(tau.shape[0]) - tau

        def slope(eta: float) -> float:
            gradient = self._structure.entropy_gradient(tau + eta * direction)
            return linear + quadratic * eta - float(gradient @ direction)

        return minimise_by_slope(slope, guess)

    @staticmethod
    def move(tau: Floats, vertex: Any, eta: float) -> None:
        tau *= 1.0 - eta
        tau[vertex.indices] += eta * vertex.values
