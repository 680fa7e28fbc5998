"""Majorise-minimise on the dual, for entropies with little or no strong concavity.

The entropy contains the convex term c (1-t) log(1-t). With c near 1 it can cancel all concavity,
log Z_rho has kinks, and ascent on theta stalls. A structure's `concave_surrogate` keeps c at a
safe level and replaces the rest by its tangent at the last marginals, an offset on the scores:
a concave minorant of the entropy, so a majorant of L that touches it at those marginals. Each
such problem is smooth; L decreases monotonically, and the certificate is that of the original
problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import Each
from .ascent import Direction, Evaluation, Evaluator, PrimalState, climb
from .problem import DualProblem, Surrogate
from .result import Monitor

Floats = NDArray[np.float64]


def majorize(
    directions: Callable[..., Direction],
    problem: DualProblem,
    monitor: Monitor,
    current: PrimalState,
    each: Each,
    known: dict[str, Any] | None = None,
) -> None:
    """Continue from `current`, which is updated along; records certificates in `monitor`.

    `directions` makes the ascent directions of each surrogate; `known` is a checkpoint's state.
    """
    share = 1.0
    if known is not None:
        share = known["share"]
        current.theta, current.warm = known["current"]
    surrogates = [block.surrogate(share) for block in problem.blocks]
    offsets = [form.offset(None) for form in surrogates]
    smooth_warm: list[Any] = [None] * len(surrogates)
    theta = current.theta if monitor.theta is None else monitor.theta
    iteration = monitor.iterations
    stalled = 0
    if known is not None:
        theta, smooth_warm, offsets, stalled = known["place"]
    while iteration < monitor.stopping.max_iter:
        forms = zip(surrogates, offsets, strict=True)
        surrogate = problem.with_blocks([form.block(offset) for form, offset in forms])
        evaluate = Evaluator(surrogate, smooth_warm, each, monitor.out_of_time)
        at, steps = _minimise(directions, surrogate, evaluate, theta, monitor)
        iteration += max(steps, 1)
        theta, smooth_warm = at.theta, [found.warm for found in at.marginals]
        truth = Evaluator(problem, smooth_warm, each, monitor.out_of_time)
        exact = truth(theta, 0.02 * monitor.tolerance)
        dual = min(exact.dual, _true_dual(problem, surrogates, at, each))
        current.theta, current.warm = theta, [found.warm for found in exact.marginals]
        monitor.oracle_calls += evaluate.calls + truth.calls
        before = monitor.gap
        if monitor.record(iteration, theta, dual=dual, primal=exact.primal):
            return
        stalled = stalled + 1 if monitor.gap > 0.95 * before else 0
        if stalled == 10:  # rounding allows no more
            return
        if monitor.gap > 0.6 * before and share > 0.01:
            # Surrogates closer to the entropy converge in fewer rounds.
            share *= 0.5
            surrogates = [block.surrogate(share) for block in problem.blocks]
        offsets = list(each(lambda form, own: form.offset(own), surrogates, at.marginals))
        place = theta, smooth_warm, offsets, stalled
        monitor.keep(partial(_checkpoint, share, (current.theta, current.warm), place))


def _checkpoint(share: float, current: tuple[Any, ...], place: tuple[Any, ...]) -> dict[str, Any]:
    """What the rounds continue from."""
    return {"surrogate": {"share": share, "current": current, "place": place}}


def _minimise(
    directions: Callable[..., Direction],
    surrogate: DualProblem,
    evaluate: Evaluator,
    theta: Floats,
    monitor: Monitor,
    max_steps: int = 60,
    trials: int = 8,
) -> tuple[Evaluation, int]:
    """Solve one surrogate to a small part of the gap that is left in the true problem."""
    wanted = max(0.02 * monitor.gap, 0.1 * monitor.tolerance)
    at = start = evaluate(theta, 0.1 * wanted)
    evaluate.accept(start)
    best, steps = start.dual, 0
    for at in climb(
        start,
        evaluate,
        directions(surrogate, each=evaluate.each),
        lambda slope: max(0.05 * wanted, 0.01 * min(max(slope, 0.0), 100.0 * wanted)),
        monitor.out_of_time,
        trials,
    ):
        steps += 1
        best = min(best, at.dual)
        done = best - at.primal <= wanted or steps == max_steps
        if done or monitor.out_of_time():
            break
    return at, steps


def _true_dual(
    problem: DualProblem, surrogates: Sequence[Surrogate], at: Evaluation, each: Each
) -> float:
    """L of the true problem at the marginals of a surrogate's solution."""
    terms = list(each(lambda form, found: form.dual_terms(found), surrogates, at.marginals))
    r = problem.target - problem.weights @ [moments for moments, _ in terms]
    return problem.penalty.conjugate(r) + float(problem.weights @ [term for _, term in terms])
