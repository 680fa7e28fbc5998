"""Marginals over the matching polytope: the local oracle with dual variables of odd sets.

    g(z) = log Z_local(w - sum_S z_S 1_{E(S)}) + sum_S z_S (|S| - 1) / 2,   z >= 0,

bounds log Z_rho over the matching polytope from above, for any odd sets S; its gradient is the
slack of the odd-set constraints. It is minimised over the sets known so far; then the sets that its
marginals violate are added, until there are none (cutting planes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..._deadline import is_over

Floats = NDArray[np.float64]


@dataclass
class OddSets:
    """Known odd sets as vectors over the scored coordinates, and their dual variables."""

    inside: list[Floats] = field(default_factory=list)  # (n_scored,), 1 for edges within the set
    max_edges: list[float] = field(default_factory=list)  # (|S| - 1) / 2
    prices: Floats = field(default_factory=lambda: np.zeros(0))  # (n_sets,)


@dataclass
class OddSetSolution:
    """Marginals and a bound of the maximum.

    `proven` says that they satisfy all odd sets, up to what they violate of the known ones.
    """

    tau: Floats
    proven: bool
    upper_bound: float
    sets: OddSets
    warm: Any
    iterations: int


def solve(
    local: Callable[[Floats, Any, float], Any],
    separate: Callable[[Floats], list[tuple[Floats, float]]],
    scores: Floats,
    known: OddSets,
    warm: Any,
    tol: float,
    max_calls: int = 300,
) -> OddSetSolution:
    """Minimise g, adding sets that are violated.

    local : (scores, warm, tol) -> `Marginals` over the local polytope
    separate : tau -> violated sets, each as (edges within it, max_edges); none proves feasibility
    known : sets of an earlier call with their prices
    max_calls : of the local oracle, after which no sets are added
    """
    sets = OddSets(list(known.inside), list(known.max_edges), known.prices.copy())
    n_scored = sets.inside[0].shape[0] if sets.inside else 0
    highest = 10.0 + 2.0 * float(np.ptp(scores)) if scores.size else 0.0  # bound of the prices
    best = np.inf
    calls = 0
    answer: Any = None
    proven = False

    def evaluate(z: Floats) -> tuple[float, Floats]:
        nonlocal answer, warm, best, calls
        w = scores.copy()
        for price, inside in zip(z, sets.inside, strict=True):
            w[:n_scored] -= price * inside
        answer = local(w, warm, 0.1 * tol)
        warm = answer.warm
        calls += 1
        max_edges = np.array(sets.max_edges)
        best = min(best, answer.upper_bound + float(z @ max_edges))
        filled = np.array([inside @ answer.tau[:n_scored] for inside in sets.inside])
        return answer.value + float(z @ max_edges), max_edges - filled

    while True:
        if sets.inside:
            found = minimize(
                evaluate, sets.prices, jac=True, method="L-BFGS-B",
                bounds=[(0.0, highest)] * len(sets.inside),
                options={"maxfun": 60, "ftol": 1e-15, "gtol": min(1e-3 * tol, 1e-7)},
            )  # fmt: skip
            sets.prices = found.x
        evaluate(sets.prices)
        violated = separate(answer.tau)
        new = [
            (inside, max_edges)
            for inside, max_edges in violated
            if not any(np.array_equal(inside, other) for other in sets.inside)
        ]
        proven = not new
        if proven or calls >= max_calls or is_over():
            break
        n_scored = new[0][0].shape[0]
        # Sets with a price of 0 are dropped.
        kept = [k for k, price in enumerate(sets.prices) if price > 0.0]
        sets = OddSets(
            [sets.inside[k] for k in kept] + [inside for inside, _ in new],
            [sets.max_edges[k] for k in kept] + [max_edges for _, max_edges in new],
            np.concatenate([sets.prices[kept], np.zeros(len(new))]),
        )
    return OddSetSolution(answer.tau, proven, best, sets, warm, calls)
