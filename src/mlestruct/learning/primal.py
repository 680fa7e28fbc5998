"""Certified likelihood ascent on theta, for structures with a marginal oracle.

The loop of the solvers `newton` and `lbfgs`, which add their directions. Where P has
kinks (rho near 1, weak regularisation) the ascent stalls; the solver then continues with smooth
surrogates (`majorize`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import Each, threaded_map
from ..exceptions import OutOfTimeError
from .ascent import (
    TRIALS,
    Direction,
    Evaluation,
    Evaluator,
    Pair,
    PrimalState,
    climb,
)
from .certificate import DualBundle
from .majorize import majorize
from .problem import DualProblem
from .result import Monitor, Result, Stopping, run

Floats = NDArray[np.float64]


class PrimalSolver:
    """The common part of `Newton` and `LBFGS`."""

    name: str
    patience = 1  # multiplies the iterations within which the gap must halve

    def check(self, problem: DualProblem) -> None:
        """Raise MissingCapability unless every block has a marginal oracle."""
        for block in problem.blocks:
            block.structure.require("marginals", f"solver={self.name!r}")

    def directions(
        self, problem: DualProblem, pairs: Sequence[Pair] = (), each: Each = map
    ) -> Direction:
        """A function from evaluations, in the order they are accepted, to ascent directions.

        `pairs` are steps of an earlier run that L-BFGS can start from; `each` maps over blocks.
        """
        raise NotImplementedError

    def warm_up(
        self, problem: DualProblem, current: PrimalState, monitor: Monitor, each: Each
    ) -> None:
        """Move `current` to a better start, if there is a cheap way."""

    def oracle_tolerance(self, monitor: Monitor, slope: float) -> float:
        """The requested total oracle gap: a small part of the expected progress."""
        return max(0.05 * monitor.tolerance, 0.01 * min(monitor.gap, max(slope, 0.0)))

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: PrimalState | None = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Maximise P; `warm` is the state of an earlier result."""
        self.check(problem)
        monitor = Monitor(stopping, self.name)
        n_blocks = len(problem.blocks)
        cold = warm is None
        if warm is None:
            warm = PrimalState(np.zeros(problem.n_features), [None] * n_blocks)
        current = PrimalState(warm.theta.copy(), list(warm.warm))
        known = monitor.resume() or {}

        def loop() -> PrimalState:
            if cold and not known:
                self.warm_up(problem, current, monitor, each)
            evaluate = Evaluator(problem, current.warm, each, monitor.out_of_time)
            with contextlib.suppress(OutOfTimeError):
                stopped = False
                if "surrogate" not in known:
                    stopped = self._ascend(problem, evaluate, monitor, current, known.get("ascent"))
                if not stopped and problem.has_surrogates:
                    rest = known.get("surrogate")
                    majorize(self.directions, problem, monitor, current, each, rest)
            return current

        with threaded_map(n_jobs, n_blocks) as each:
            result = run(problem, monitor, loop, lambda: current.theta, n_jobs)
        current.pairs = ()  # of this alpha only
        result.state = current
        return result

    def _ascend(
        self,
        problem: DualProblem,
        evaluate: Evaluator,
        monitor: Monitor,
        current: PrimalState,
        known: dict[str, Any] | None = None,
    ) -> bool:
        """Ascend until a stopping rule holds (True) or the ascent stalls (False).

        `known` is the state of a checkpoint.
        """
        earlier = monitor.oracle_calls
        bundle = DualBundle(problem.n_features, problem.penalty)
        bundle.add(np.zeros(problem.n_features), 0.0)  # the observed output: its entropy is >= 0

        proven = all(block.structure.has_bound for block in problem.blocks)

        def record(iteration: int, at: Evaluation) -> bool:
            current.theta, current.warm = at.theta, [found.warm for found in at.marginals]
            monitor.oracle_calls = earlier + evaluate.calls
            if not proven:  # the gap only measures how far theta is from stationary
                monitor.forget_bounds()
                return monitor.record(iteration, at.theta, dual=at.dual, primal=at.primal)
            entropy = problem.penalty.conjugate(at.residual) - at.dual
            dual = min(at.dual, bundle.add(at.residual, entropy))
            return monitor.record(iteration, at.theta, dual=dual, primal=at.primal)

        sharpness, sharpened, iteration, first, last = [1.0], 0, 0, 0, None
        if known is None:
            at = evaluate(current.theta, 1e-2)
            evaluate.accept(at)
            if record(iteration, at):
                return True
            gaps = [monitor.gap]
        else:
            at = Evaluation.restored(problem, known["at"])
            evaluate.accept(at)
            current.theta, current.warm = at.theta, evaluate.warm
            current.pairs = [Pair(*pair) for pair in known["pairs"]]
            bundle.restore(known["bundle"])
            sharpness, sharpened, iteration, first, last, gaps = known["place"]
        kinked = problem.has_surrogates  # then majorisation takes over where ascent stalls
        for attempt in range(first, 3):  # a failed line search: again with sharper marginals
            direction = self.directions(problem, current.pairs, evaluate.each)
            direction.last, last = last, None
            current.pairs = direction.pairs
            steps = climb(
                at,
                evaluate,
                direction,
                lambda slope: sharpness[0] * self.oracle_tolerance(monitor, slope),
                monitor.out_of_time,
                8 if kinked else TRIALS,  # at a kink shorter steps gain nothing
            )
            for at in steps:
                iteration += 1
                if record(iteration, at) or iteration >= monitor.stopping.max_iter:
                    return True
                gaps.append(monitor.gap)
                before = iteration - self.patience
                if before >= sharpened and gaps[-1] > 0.8 * gaps[before]:
                    # Errors of the marginals enter the dual value through R*(r).
                    sharpness[0] = max(0.1 * sharpness[0], 1e-8)
                    sharpened = iteration
                if kinked and self._stalled(gaps):
                    return False
                place = sharpness, sharpened, iteration, attempt, direction.last, gaps
                monitor.keep(partial(_checkpoint, at, current.pairs, bundle, place))
            if monitor.out_of_time():
                return True
            if kinked:
                return False
            for _ in range(20):  # warm-started
                at = evaluate(at.theta, 0.01 * monitor.tolerance)
                evaluate.accept(at)
                if record(iteration, at):
                    return True
                if at.oracle_gap <= 0.01 * monitor.tolerance:
                    break
            current.pairs = ()
        return False

    def _stalled(self, gaps: list[float]) -> bool:
        """Whether the gap did not halve in a window of iterations, as it happens at kinks."""
        window = 4 * self.patience
        return len(gaps) > window and gaps[-1] > 0.5 * gaps[-1 - window]


def _checkpoint(
    at: Evaluation, pairs: Sequence[Pair], bundle: DualBundle, place: tuple[Any, ...]
) -> dict[str, Any]:
    """What an ascent continues from."""
    steps = [tuple(pair) for pair in pairs]
    return {"ascent": {"at": vars(at), "pairs": steps, "bundle": bundle.state(), "place": place}}
