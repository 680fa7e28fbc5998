"""Exact line search on the dual along a block's Frank-Wolfe direction.

With a = G'(s - tau) and r = sum w G'(y - tau) the quadratic part of L(tau + eta (s - tau)) is
known from two inner products; only the entropy is evaluated per trial. The step is capped below 1
because a vertex has infinite entropy gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .certificate import LinearStep
from .problem import Block

Floats = NDArray[np.float64]

MAX_STEP = 1.0 - 1e-9
RTOL = 0.05  # stop when the slope has fallen to this fraction of its start


def block_step(
    block: Block,
    tau: Floats,
    towards: LinearStep,
    linear: float,
    quadratic: float,
    guess: float,
) -> float:
    """Step towards a vertex minimising linear*eta + quadratic*eta^2/2 - w*(H + <o, .>).

    `linear` and `quadratic` hold the part of r only, already divided by alpha.
    """
    weight, vertex = block.weight, towards.vertex
    if block.offset is not None:
        linear -= weight * (vertex.dot(block.offset) - float(block.offset @ tau))
    stepping = getattr(block.structure, "stepping_entropy", None)
    if stepping is not None:
        return float(
            stepping.line_search(
                tau,
                vertex,
                towards.sums,
                linear / weight,
                quadratic / weight,
                guess,
                MAX_STEP,
                RTOL,
            )
        )
    direction = vertex.dense(tau.shape[0]) - tau

    def slope(eta: float) -> float:
        gradient = block.structure.entropy_gradient(tau + eta * direction)
        return linear + quadratic * eta - weight * float(gradient @ direction)

    return minimise_by_slope(slope, guess)


def minimise_by_slope(slope: Callable[[float], float], guess: float) -> float:
    """A point of (0, MAX_STEP) where an increasing slope has all but vanished.

    Bisection on a logarithmic bracket with regula falsi: near the boundary Newton steps that are
    judged by their length stop at points that are worse than the start.
    """
    first = slope(0.0)
    if first >= 0.0:
        return 0.0
    low, high = 0.0, MAX_STEP
    slope_low, slope_high = first, np.inf
    eta = min(max(guess, 1e-8), 0.5)
    for _ in range(60):
        value = slope(eta)
        if abs(value) <= -RTOL * first:
            break
        if value > 0.0:
            high, slope_high = eta, value
        else:
            low, slope_low = eta, value
        if np.isfinite(slope_high):
            eta = low - slope_low * (high - low) / (slope_high - slope_low)
            margin = 0.1 * (high - low)
            eta = min(max(eta, low + margin), high - margin)
        else:
            eta = min(4.0 * eta, 0.5 * (eta + high))
        if high - low <= 1e-14 * high:
            break
    return eta
