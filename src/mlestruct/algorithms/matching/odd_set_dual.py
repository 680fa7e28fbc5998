"""Marginals over the matching polytope: the local oracle, with a price on every odd set in the way.

    g(z) = log Z_local(w - sum_S z_S 1_{E(S)}) + sum_S z_S (|S| - 1) / 2,   z >= 0,

bounds log Z_rho over the matching polytope from above, for any odd sets S; its gradient is what
the sets have left. It is minimised over the sets known so far; then sets that its marginals
violate join, until there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]

ROUNDS = 30  # of adding sets
EVALUATIONS = 60  # of the local oracle in one round
MOST_CALLS = 300  # of the local oracle in all


@dataclass
class OddSets:
    """Odd sets met so far, as columns over the scored coordinates, and their prices."""

    inside: list[Floats] = field(default_factory=list)  # 1 for edges within the set
    room: list[float] = field(default_factory=list)  # (|S| - 1) / 2
    prices: Floats = field(default_factory=lambda: np.zeros(0))


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
) -> OddSetSolution:
    """Minimise g, adding sets as they are needed.

    local : (scores, warm, tol) -> `Marginals` over the local polytope
    separate : tau -> violated sets, each as (edges within it, its room); none proves feasibility
    known : sets of an earlier call with their prices
    """
    sets = OddSets(list(known.inside), list(known.room), known.prices.copy())
    n_scored = sets.inside[0].shape[0] if sets.inside else 0
    highest = 10.0 + 2.0 * float(np.ptp(scores)) if scores.size else 0.0  # that a price can be
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
        room = np.array(sets.room)
        best = min(best, answer.upper_bound + float(z @ room))
        filled = np.array([inside @ answer.tau[:n_scored] for inside in sets.inside])
        return answer.value + float(z @ room), room - filled

    for _ in range(ROUNDS):
        if sets.inside:
            found = minimize(
                evaluate, sets.prices, jac=True, method="L-BFGS-B",
                bounds=[(0.0, highest)] * len(sets.inside),
                options={"maxfun": EVALUATIONS, "ftol": 1e-15, "gtol": min(1e-3 * tol, 1e-7)},
            )  # fmt: skip
            sets.prices = found.x
        evaluate(sets.prices)
        violated = separate(answer.tau)
        new = [
            (inside, room)
            for inside, room in violated
            if not any(np.array_equal(inside, other) for other in sets.inside)
        ]
        proven = not new
        if proven or calls >= MOST_CALLS:
            break
        n_scored = new[0][0].shape[0]
        # Sets that cost nothing need not be kept.
        kept = [k for k, price in enumerate(sets.prices) if price > 0.0]
        sets = OddSets(
            [sets.inside[k] for k in kept] + [inside for inside, _ in new],
            [sets.room[k] for k in kept] + [room for _, room in new],
            np.concatenate([sets.prices[kept], np.zeros(len(new))]),
        )
    return OddSetSolution(answer.tau, proven, best, sets, warm, calls)
