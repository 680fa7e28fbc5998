"""Exact line search on the dual along a block's Frank-Wolfe direction.

With a = G'(s - tau) and r = sum w G'(y - tau) the quadratic part of L(tau + eta (s - tau)) is
known from two inner products; only the entropy is evaluated per trial. The step is capped below 1
because a vertex has infinite entropy gradient.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..algorithms.slope_search import MAX_STEP, RTOL, minimise_by_slope
from .certificate import LinearStep
from .problem import Block

Floats = NDArray[np.float64]


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
