"""Algorithm 1 of the paper: Frank-Wolfe on the dual, on all blocks at once or on one at a time.

    s_m    = argmax over vertices of <G_m theta(tau) + o_m + grad H(tau_m), s>      (a MAP call)
    tau_m <- (1 - eta) tau_m + eta s_m,   eta = 2 / (t + 2) or 2M / (2M + t), or by line search

from the interior point of each block. `FullyCorrective` needs far fewer MAP calls.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .._arguments import generator
from .._running import check_time, is_over, time_limit
from ..algorithms.frank_wolfe import MAX_STEP, RTOL, minimise_by_slope
from ..exceptions import OutOfTimeError
from .certificate import DualState, LinearStep, certify, linear_step
from .problem import Problem
from .solver import Monitor, Result, Solver, run

Floats = NDArray[np.float64]

PASSES = 20  # at most between certificates of BlockFrankWolfe, each of which costs a pass


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """Batch Frank-Wolfe: one MAP call per block, then one common step.

    It returns theta(tau) of the last iterate, or of the one that has reached the tolerance.

    Parameters
    ----------
    step : "fixed" for 2 / (t + 2), t = 1, 2, ..., or "line_search" (to 5 % of the slope)
    averaging : return the weighted average of the iterates' theta, with a certificate of its own
    max_iter, max_time, callback, verbose, random_state, checkpoint :
        the budget, as in `Solver`
    """

    step: Literal["line_search", "fixed"] = "line_search"
    averaging: bool = False

    name: ClassVar[str] = "fw"
    first_guess: ClassVar[float] = 0.1  # of the line search

    def check(self, problem: Problem) -> None:
        """Needs nothing beyond the block contract."""
        for needed in ("decode", "interior"):
            problem.require(needed, f"solver={type(self).__name__}()")
        if self.step not in ("fixed", "line_search"):
            raise ValueError(f"`step` must be 'fixed' or 'line_search'; got {self.step!r}.")

    def solve(self, problem: Problem, tol: float, start: DualState | None = None) -> Result:
        """Minimise the dual; one iteration is a pass over all blocks."""
        self.check(problem)
        monitor = Monitor(self, tol, problem.has_bound)
        at = Iterate(problem, self, start, monitor.resume())

        def loop() -> None:
            while True:
                monitor.keep(at.checkpoint)
                steps: list[LinearStep] = []
                last = at.passes >= monitor.max_iter or is_over()
                if at.passes >= at.due or last:
                    at.due = self._next_certificate(at.passes)
                    steps = self._certify(problem, at, monitor)
                    if last or monitor.stopped:
                        return
                if not self._pass(problem, at, steps, monitor):
                    return
                at.passes += 1

        result = run(problem, monitor, loop, lambda: problem.theta(at.state.r))
        if self.averaging and at.average.count:
            result.use(at.average.value, self._bound_of_average(problem, at, result))
        elif monitor.latest is not None and not monitor.converged:
            result.use(*monitor.latest)
        result.state = at.state
        return result

    def _next_certificate(self, passes: int) -> int:
        return passes + 1

    def _certify(self, problem: Problem, at: Iterate, monitor: Monitor) -> list[LinearStep]:
        """Record the bounds at theta(tau); the MAP calls are also the targets of a batch step."""
        at.state.refresh(problem)
        theta = problem.theta(at.state.r)
        found, steps = certify(problem, at.state, theta, at.prices)
        monitor.oracle_calls += len(steps)
        monitor.slack = found.slack
        monitor.record(
            at.passes,
            theta,
            dual=at.state.dual(problem),
            primal=problem.primal(theta, found.log_partition),
            fw_gap=found.fw_gap,
            average=at.average.value.copy() if self.averaging and at.passes else None,
            rounding=problem.rounding(
                theta, problem.weights @ at.state.moments, abs(found.log_partition)
            ),
        )
        return steps

    def _pass(
        self, problem: Problem, at: Iterate, steps: list[LinearStep], monitor: Monitor
    ) -> bool:
        """The common step of all blocks; False if there is none that decreases L."""
        state, vertices = at.state, [step.vertex for step in steps]
        pairs = zip(problem.blocks, vertices, strict=True)
        targets = np.array([block.moments_at(vertex) for block, vertex in pairs])
        eta = 2.0 / (at.passes + 3.0)
        if self.step == "line_search":
            eta = at.guesses[0] = common_step(problem, state, steps, targets, at.guesses[0])
        for block, tau, vertex in zip(problem.blocks, state.tau, vertices, strict=True):
            block.structure.stepping_entropy.move(tau, vertex, eta)
        state.moments += eta * (targets - state.moments)
        state.refresh(problem)
        at.average.add(problem.theta(state.r))
        return eta > 0.0

    def _bound_of_average(self, problem: Problem, at: Iterate, result: Result) -> float:
        """A lower bound of P at the average, if there is time for one more pass."""
        if result.interrupted:
            return -np.inf
        theta, spare = at.average.value, None
        if self.max_time is not None:
            spare = 0.05 * self.max_time + 0.1
        with suppress(OutOfTimeError), time_limit(spare):
            if problem.has_marginals:
                upper = problem.expect(theta, 0.1 * result.tolerance).upper
            else:
                upper = certify(problem, at.state, theta, at.prices)[0].log_partition
            result.oracle_calls += len(problem.blocks)
            return problem.primal(theta, upper)
        return -np.inf


@dataclass(frozen=True)
class BlockFrankWolfe(FrankWolfe):
    """Block-coordinate Frank-Wolfe: one MAP call, one step of a block drawn at random.

    An iteration is a pass of M steps. Certificates cost a pass of MAP calls each and do not change
    the iterates.

    Parameters
    ----------
    step : "fixed" for 2M / (2M + t), t = 1, 2, ..., or "line_search" until the slope has fallen to
        5 %
    averaging : return the weighted average of the iterates' theta, with a certificate of its own
    max_iter, max_time, callback, verbose, random_state, checkpoint :
        the budget, as in `Solver`
    """

    name: ClassVar[str] = "bcfw"
    first_guess: ClassVar[float] = 0.05
    one_block_per_sample: ClassVar[bool] = True

    def _next_certificate(self, passes: int) -> int:
        return passes + max(1, min(2 * passes, PASSES))

    def _pass(
        self, problem: Problem, at: Iterate, steps: list[LinearStep], monitor: Monitor
    ) -> bool:
        size = len(problem.blocks)
        for m in at.rng.integers(size, size=size).tolist():
            at.steps += 1
            self._step(problem, at, m)
            monitor.oracle_calls += 1
            at.average.add(problem.theta(at.state.r))
            if is_over():
                break
        return True

    def _step(self, problem: Problem, at: Iterate, m: int) -> None:
        state, block = at.state, problem.blocks[m]
        tau, size = state.tau[m], len(problem.blocks)
        towards = linear_step(block, tau, problem.theta(state.r), at.prices[m])
        if towards.prices is not None:
            at.prices[m] = towards.prices
        change = block.moments_at(towards.vertex) - state.moments[m]
        eta = min(2.0 * size / (2.0 * size + at.steps), MAX_STEP)
        if self.step == "line_search":
            scale = 1.0 / problem.penalty.l2
            linear = -scale * float(problem.penalty.soft(state.r) @ change)
            if block.offset is not None:
                linear -= towards.vertex.dot(block.offset) - float(block.offset @ tau)
            bend = scale * block.weight * float(change @ change)
            eta = block.structure.stepping_entropy.line_search(
                tau, towards.vertex, towards.sums, linear, bend, at.guesses[m], MAX_STEP, RTOL
            )
            at.guesses[m] = min(max(eta, 1e-6), 1.0)
        block.structure.stepping_entropy.move(tau, towards.vertex, eta)
        state.moments[m] += eta * change
        state.r -= block.weight * eta * change


def common_step(
    problem: Problem, state: DualState, steps: list[LinearStep], targets: Floats, guess: float
) -> float:
    """The line search along the joint direction of all blocks."""
    change = problem.weights @ (targets - state.moments)
    # The second-order term is that of R*, an upper bound of it with an l1 penalty.
    linear = -float(problem.theta(state.r) @ change)
    bend = float(change @ change) / problem.penalty.l2
    ways = [s.vertex.dense(t.shape[0]) - t for s, t in zip(steps, state.tau, strict=True)]
    for block, way in zip(problem.blocks, ways, strict=True):
        if block.offset is not None:
            linear -= block.weight * float(block.offset @ way)

    def slope(eta: float) -> float:
        check_time("a line search")
        total = linear + bend * eta
        for block, tau, way in zip(problem.blocks, state.tau, ways, strict=True):
            total -= block.weight * float(block.structure.entropy_gradient(tau + eta * way) @ way)
        return total

    return min(minimise_by_slope(slope, guess), MAX_STEP)


class Iterate:
    """All that the next steps depend on, beside the problem.

    passes, steps : so far; `due` is the pass of the next certificate
    guesses : of each block's step length; the common one is the first
    prices : of each block's decoder, if it has any
    """

    def __init__(
        self,
        problem: Problem,
        solver: FrankWolfe,
        warm: DualState | None,
        known: dict[str, Any] | None,
    ):
        size = len(problem.blocks)
        self.rng, self.average = generator(solver.random_state), WeightedAverage(problem.n_features)
        self.passes = self.steps = self.due = 0
        self.guesses = np.full(size, solver.first_guess)
        self.prices: list[Floats | None] = [None] * size
        if known is None:
            self.state = DualState.first(problem, warm)
            return
        self.state = DualState.restored(problem, known.pop("state"))
        self.rng.bit_generator.state = known.pop("rng")
        vars(self.average).update(known.pop("average"))
        vars(self).update(known)

    def checkpoint(self) -> dict[str, Any]:
        own = {"state": vars(self.state), "average": vars(self.average)}
        return {**vars(self), **own, "rng": self.rng.bit_generator.state}


class WeightedAverage:
    """theta_bar <- k/(k+2) theta_bar + 2/(k+2) theta for k = 0, 1, ...; later ones count more."""

    def __init__(self, size: int):
        self.value = np.zeros(size)
        self.count = 0

    def add(self, theta: Floats) -> None:
        self.value += 2.0 / (self.count + 2.0) * (theta - self.value)
        self.count += 1
