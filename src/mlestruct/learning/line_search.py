"""Exact line search on the dual along a block's Frank-Wolfe direction.

With a = G'(s - tau) and r = sum w G'(y - tau) the quadratic part of L(tau + eta (s - tau)) is
known from two inner products; only the entropy is evaluated per trial. The step is capped below 1
because a vertex has infinite entropy gradient.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..algorithms.frank_wolfe import MAX_STEP, RTOL
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
    eta = block.structure.stepping_entropy.line_search(
        tau, vertex, towards.sums, linear / weight, quadratic / weight, guess, MAX_STEP, RTOL
    )
    return float(eta)
