"""Marginals from MAP calls alone: Frank-Wolfe on max <scores, tau> + H(tau).

For polytopes that only a decoder knows. The gap is a certificate: H is concave, so its value plus
the gap bounds log Z_rho from above.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_STEP = 1.0 - 1e-9


def frank_wolfe_marginals(
    structure: Any, scores: Floats, start: Floats, tol: float, max_iter: int
) -> tuple[Floats, float, float, int]:
    """(tau, value, upper bound, iterations) from an interior point of the polytope.

    `structure` has `decode` and `stepping_entropy`.
    """
    entropy = structure.stepping_entropy
    tau = start.copy()
    upper, guess = np.inf, 0.1
    prices = None
    iterations = 0
    while True:
        value = float(scores @ tau) + entropy(tau)
        direction, sums = entropy.add_gradient(tau, scores)
        best = structure.decode(direction, prices)
        prices = best.prices
        gap = best.score - float(direction @ tau)
        upper = min(upper, value + max(gap, 0.0))
        if upper - value <= tol or iterations >= max_iter:
            return tau, value, upper, iterations
        iterations += 1
        gain = best.vertex.dot(scores) - float(scores @ tau)
        eta = entropy.line_search(tau, best.vertex, sums, -gain, 0.0, guess, MAX_STEP, 0.05)
        if eta <= 0.0:
            return tau, value, upper, iterations
        guess = max(eta, 1e-6)
        entropy.move(tau, best.vertex, eta)
