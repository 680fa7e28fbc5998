"""Marginals at scores spread very wide, through reduced scores.

With dual prices u_i + v_j >= w_ij that are tight on the best matching, the reduced scores
w - u - v are at most 0, and 0 on the best matching. log Z_rho is smaller by the sum of all prices,
marginals are the same. Pairs whose reduced score is far below 0 have no mass: tau is computed
without them. For the upper bound such scores are raised, which changes log Z_rho by less than
rounding, and upwards. How far below 0 depends on the number of nodes: a cycle of pairs shares the
loss of one of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..._deadline import is_over
from ..contract import Decoding, Marginals

Floats = NDArray[np.float64]


class PricedMatching(Protocol):
    """Members of a matching structure that reduced scores need."""

    @property
    def n_scored(self) -> int: ...

    @property
    def n_nodes(self) -> int: ...

    def decode(self, scores: Floats) -> Decoding: ...

    def direct_marginals(self, scores: Floats, warm: Any, tol: float) -> Marginals:
        """Marginals of scores of any spread, without reducing them."""

    def reduced_scores(self, scores: Floats) -> tuple[Floats | None, float, Floats | None]:
        """Scores minus the prices of the best matching, the sum of these, those of columns."""

    def repriced(self, warm: Any, prices: Floats | None) -> Any:
        """A solver's state for scores to which column prices are added."""

    def local_restricted(self, keep: NDArray[np.bool_]) -> tuple[Any, NDArray[np.int64]]:
        """The local polytope of some of the pairs, and the place of its coordinates in this one."""


def is_wide(scores: Floats) -> bool:
    """Whether scores are spread so wide that the direct oracle loses digits."""
    return bool(scores.size and scores.max() - scores.min() > 150.0)


def cap_bound(structure: PricedMatching, scores: Floats, found: Marginals, tol: float) -> Marginals:
    """`found`, an upper bound far above what was asked for replaced by a simple one.

    log Z_rho <= max <scores, tau> + max H = the best score + log Z_rho at scores of 0. At the end
    of the time the bound stays as it is: the marginals are the answer.
    """
    if not found.gap > max(1.0, tol) or is_over():
        return found
    zero = structure.direct_marginals(np.zeros_like(scores), None, 1e-3).upper_bound
    cap = float(structure.decode(scores).score) + zero
    return replace(found, upper_bound=min(found.upper_bound, max(cap, found.value)))


def reduced_marginals(
    structure: PricedMatching, scores: Floats, warm: Any, tol: float
) -> Marginals | None:
    """Marginals at wide scores, through reduced ones; None where these do not help.

    They do not where staying single is all but ruled out: these coordinates cannot be dropped.
    """
    reduced, constant, prices = structure.reduced_scores(scores)
    if reduced is None:
        return None
    lowest = -40.0 * max(structure.n_nodes, 4)  # exp(-40) is less than rounding
    if (reduced[structure.n_scored :] < lowest).any():
        return None
    known = structure.repriced(warm, None if prices is None else -prices)
    found = structure.direct_marginals(np.maximum(reduced, lowest), known, tol)
    tau, value, steps = found.tau, found.value, found.iterations
    keep = reduced[: structure.n_scored] > lowest
    # Pairs without mass have exactly none, since their score is so low.
    if not keep.all():
        smaller, places = structure.local_restricted(keep)
        inner = smaller.direct_marginals(reduced[places], None, tol)
        tau = np.zeros_like(scores)
        tau[places] = inner.tau
        value, steps = inner.value, steps + inner.iterations
    upper = max(found.upper_bound, value)
    state = structure.repriced(found.warm, prices)
    return Marginals(tau, value + constant, upper + constant, state, steps)
