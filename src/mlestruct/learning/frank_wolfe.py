"""Batch Frank-Wolfe on the dual: one MAP call per block, then one common step.

What the block-coordinate version has in common with it is here, too: which theta is returned, and
the weighted averaging of iterates.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from .._deadline import check_time, time_limit
from ..algorithms.frank_wolfe import MAX_STEP, minimise_by_slope
from ..exceptions import OutOfTimeError
from .certificate import NEAR, certify, certify_theta
from .dual_state import DualState, Start, starting_state
from .problem import Problem
from .solver import Monitor, Result, Solver, run

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """Frank-Wolfe over all blocks at once; `FrankWolfe.paper()` is Algorithm 1 of the paper.

    Parameters
    ----------
    step : "line_search" until the slope has fallen to 5 % (`RTOL`), or "fixed" for 2/(t+2),
        t = 1, 2, ...
    start : "near" the observed outputs, at the best of a few mixtures with the interior point, or
        "uniform": the interior point itself, as in the paper
    return_last : return theta(tau) of the last iterate, as in the paper, instead of the one that
        has the best proven bound
    averaging : return the weighted average of the iterates' theta, with a certificate of its own
    """

    step: Literal["line_search", "fixed"] = "line_search"
    averaging: bool = False
    start: Start = "near"
    return_last: bool = False

    name: ClassVar[str] = "fw"

    @classmethod
    def paper(cls, *, line_search: bool = False, averaging: bool = False) -> Self:
        """Algorithm 1 of the paper, batch: uniform start, steps 2/(t+2) or a line search."""
        return cls(
            step="line_search" if line_search else "fixed",
            averaging=averaging,
            start="uniform",
            return_last=True,
        )

    def check(self, problem: Problem) -> None:
        """Needs nothing beyond the block contract."""
        for needed in ("decode", "interior"):
            problem.require(needed, f"solver={type(self).__name__}()")
        check_option("step", self.step, ("line_search", "fixed"))
        check_option("start", self.start, ("near", "uniform"))

    def solve(self, problem: Problem, tol: float, start: DualState | None = None) -> Result:
        """Minimise the dual of `problem`; `start` is the state of an earlier result."""
        self.check(problem)
        monitor = Monitor(self, tol)
        known = monitor.resume()
        state = starting_state(problem, start, self.start, known)
        average = WeightedAverage(problem.n_features)
        prices: list[Floats | None] = [None] * len(problem.blocks)
        first, first_eta = 0, 0.1
        if known is not None:
            first, first_eta, prices = known["t"], known["eta"], known["prices"]
            average.restore(known["average"])

        def checkpoint(t: int, eta: float) -> dict[str, Any]:
            mutable = {"state": vars(state), "average": vars(average), "prices": prices}
            return {**mutable, "t": t, "eta": eta}

        def loop() -> None:
            eta = first_eta
            for t in range(first, monitor.max_iter + 1):
                monitor.keep(partial(checkpoint, t, eta))
                near = NEAR * monitor.tolerance
                found, steps = certify(problem, state, prices, near)
                monitor.oracle_calls += len(steps)
                monitor.slack = found.slack
                theta = problem.theta(state.r)
                if t > 0:
                    average.add(theta)
                stop = monitor.record(
                    t,
                    theta,
                    dual=found.dual(problem, state.r),
                    primal=found.primal(problem, theta),
                    fw_gap=found.fw_gap,
                    average=average.value.copy() if self.averaging and t > 0 else None,
                )
                if stop or t == monitor.max_iter:
                    break
                vertices = [s.vertex for s in steps]
                targets = np.array(
                    [b.moments_at(v) for b, v in zip(problem.blocks, vertices, strict=True)]
                )
                if self.step == "fixed":
                    eta = 2.0 / (t + 3.0)
                else:
                    eta = _common_step(problem, state, vertices, targets, eta)
                if eta == 0.0:
                    break
                for m, block in enumerate(problem.blocks):
                    block.structure.stepping_entropy.move(state.tau[m], vertices[m], eta)
                state.moments += eta * (targets - state.moments)
                state.refresh(problem)

        result = run(problem, monitor, loop, lambda: problem.theta(state.r))
        return finished(result, problem, state, monitor, average, self.averaging, self.return_last)


def _common_step(
    problem: Problem, state: DualState, vertices: list, targets: Floats, guess: float
) -> float:
    """The line search along the joint direction of all blocks."""
    change = problem.weights @ (targets - state.moments)
    # The second-order term is that of R*, an upper bound of it where there is an l1 penalty.
    linear = -float(problem.theta(state.r) @ change)
    quadratic = float(change @ change) / problem.penalty.l2
    directions = [v.dense(t.shape[0]) - t for v, t in zip(vertices, state.tau, strict=True)]
    for block, d in zip(problem.blocks, directions, strict=True):
        if block.offset is not None:
            linear -= block.weight * float(block.offset @ d)

    def slope(eta: float) -> float:
        check_time("a line search")
        total = linear + quadratic * eta
        for block, tau, d in zip(problem.blocks, state.tau, directions, strict=True):
            total -= block.weight * float(block.structure.entropy_gradient(tau + eta * d) @ d)
        return total

    return min(minimise_by_slope(slope, guess), MAX_STEP)


def finished(
    result: Result, problem: Problem, state: Any, monitor: Monitor,
    average: WeightedAverage, averaging: bool, return_last: bool,
) -> Result:  # fmt: skip
    """The result with its state, and with the theta that the solver is to return."""
    limit = monitor.solver.max_time
    if averaging and monitor.iterations:
        primal = -np.inf
        if not result.interrupted:
            spare = None if limit is None else 0.05 * limit + 0.1
            with suppress(OutOfTimeError), time_limit(spare):
                primal = certify_theta(problem, state, average.value, 0.1 * result.tolerance)
                result.oracle_calls += len(problem.blocks)
        result.use(average.value, primal)
    elif return_last and monitor.latest is not None:
        result.use(*monitor.latest)
    result.state = state
    return result


def check_option(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise unless an option has one of its values."""
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {allowed}, got {value!r}")


class WeightedAverage:
    """theta_bar <- k/(k+2) theta_bar + 2/(k+2) theta for k = 0, 1, ...; later ones count more."""

    def __init__(self, size: int):
        self.value = np.zeros(size)
        self.count = 0

    def add(self, theta: Floats) -> None:
        self.value += 2.0 / (self.count + 2.0) * (theta - self.value)
        self.count += 1

    def restore(self, known: dict[str, Any]) -> None:
        """Continue from the attributes of another one."""
        self.value, self.count = known["value"], known["count"]
