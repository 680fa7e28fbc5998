"""Scores spread so wide that only ties matter: what is left when the best matching's prices go.

With prices u_i + v_j >= w_ij that meet at the best matching, the scores w - u - v are at most 0,
and 0 on the best matching. log Z_rho is smaller by the sum of all prices, marginals are the same.
What then scores far below 0 has no mass: tau is looked for without it. For the bound from above
such scores are raised, which changes log Z_rho by less than rounding, and upwards. How far below 0
depends on the number of nodes: a cycle of pairs shares the loss of one of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contract import Marginals

Floats = NDArray[np.float64]

FAR_OFF = 1.0  # gap from which another bound is tried
WIDE = 150.0  # spread of scores from which it pays
CALM = -40.0  # per node: a pair that raises its score to this times their number has no mass


def is_wide(scores: Floats) -> bool:
    """Whether scores are spread so wide that they should be calmed."""
    return bool(scores.size and scores.max() - scores.min() > WIDE)


def cap_bound(structure: Any, scores: Floats, found: Marginals) -> Marginals:
    """A bound that is far off replaced by the best score plus the largest entropy.

    log Z_rho <= max <scores, tau> + max H = the best score + log Z_rho at scores of 0.
    """
    if not found.gap > FAR_OFF:
        return found
    zero = structure.marginals_as_given(np.zeros_like(scores), None, 1e-3).upper_bound
    cap = float(structure.decode(scores).score) + zero
    return replace(found, upper_bound=min(found.upper_bound, max(cap, found.value)))


def calm_marginals(structure: Any, scores: Floats, warm: Any, tol: float) -> Marginals | None:
    """Marginals at wide scores, through calmed ones; None if that does not help.

    It does not where staying single is all but ruled out: then these coordinates cannot be dropped.
    """
    calmed, constant, prices = structure.without_prices(scores)
    if calmed is None:
        return None
    lowest = CALM * max(structure.n_nodes, 4)
    if (calmed[structure.n_scored :] < lowest).any():
        return None
    known = structure.repriced(warm, None if prices is None else -prices)
    found = structure.marginals_as_given(np.maximum(calmed, lowest), known, tol)
    tau, value, steps = found.tau, found.value, found.iterations
    keep = calmed[: structure.n_scored] > lowest
    # What has no mass is to have none at all, since its score is so low; a softened entropy has no
    # smaller form, and its marginals are an intermediate result.
    if not keep.all() and not structure.is_softened:
        smaller, places = structure.restricted(keep)
        inner = smaller.marginals_as_given(calmed[places], None, tol)
        tau = np.zeros_like(scores)
        tau[places] = inner.tau
        value, steps = inner.value, steps + inner.iterations
    upper = max(found.upper_bound, value)
    state = structure.repriced(found.warm, prices)
    return Marginals(tau, value + constant, upper + constant, state, steps)
