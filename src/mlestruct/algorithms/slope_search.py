"""Minimising a convex function of one step length by its slope."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MAX_STEP = 1.0 - 1e-9  # a vertex has an infinite entropy gradient
RTOL = 0.05  # stop when the slope has fallen to this fraction of its start


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
