"""Block-coordinate Frank-Wolfe on the dual: one MAP call, one block, one step at a time.

`BlockFrankWolfe.paper()` is the block-coordinate algorithm of the paper as printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from .._deadline import is_over
from .._random import generator
from ..algorithms.frank_wolfe import MAX_STEP
from .block_steps import BlockSteps, Sampling, block_step
from .certificate import NEAR, Certificate, certify
from .dual_state import DualState, Start, starting_state
from .frank_wolfe import WeightedAverage, check_option, finished
from .linear_step import LinearStep, WorkingSet, linear_step
from .problem import Block, Problem
from .solver import Monitor, Result, Solver, run

Floats = NDArray[np.float64]

CERTIFICATE_PASSES = 20  # at most between certificates, each of which costs a pass of MAP calls


@dataclass(frozen=True)
class BlockFrankWolfe(Solver):
    """Block-coordinate Frank-Wolfe; `BlockFrankWolfe.paper()` is Algorithm 1 of the paper.

    Parameters
    ----------
    step : "line_search" until the slope has fallen to 5 % (`RTOL`), or "fixed" for 2M/(2M+t),
        t = 1, 2, ...
    sampling : "permuted" passes, "uniform" with replacement, or "gap": proportional to the
        blocks' last known Frank-Wolfe gaps
    averaging : return the weighted average of the iterates' theta, with a certificate of its own
    working_set : vertices kept per block. A step goes to the best of them, without a MAP call,
        where its gap is at least a quarter of the one that the decoder has found last (Osokin et
        al. 2016). For expensive decoders, and for few blocks that are far from the optimum.
    batch : blocks decoded at the same theta, on threads if there are some (`n_jobs`), before
        each makes its step
    start : "near" the observed outputs, at the best of a few mixtures with the interior point, or
        "uniform": the interior point itself, as in the paper
    return_last : return theta(tau) of the last iterate, as in the paper, instead of the one that
        has the best proven bound
    reuse_vertices : with line searches, step to the vertices of a certificate in the next pass
    """

    step: Literal["line_search", "fixed"] = "line_search"
    sampling: Sampling = "permuted"
    averaging: bool = False
    working_set: int = 0
    batch: int = 1
    start: Start = "near"
    return_last: bool = False
    reuse_vertices: bool = True

    name: ClassVar[str] = "bcfw"

    @classmethod
    def paper(cls, *, line_search: bool = False, averaging: bool = False) -> Self:
        """Algorithm 1 of the paper, block version: uniform start, blocks drawn uniformly.

        Steps of 2M/(2M+t) or a line search, each to the MAP vertex at the current theta.
        Certificates, which cost a pass of MAP calls each, do not change the iterates.
        """
        return cls(
            step="line_search" if line_search else "fixed",
            sampling="uniform",
            averaging=averaging,
            start="uniform",
            return_last=True,
            reuse_vertices=False,
        )

    def check(self, problem: Problem) -> None:
        """Needs nothing beyond the block contract."""
        for needed in ("decode", "interior"):
            problem.require(needed, f"solver={type(self).__name__}()")
        check_option("start", self.start, ("near", "uniform"))
        check_option("step", self.step, ("line_search", "fixed"))
        check_option("sampling", self.sampling, ("permuted", "uniform", "gap"))
        if not self.batch >= 1:
            raise ValueError(f"batch: expected at least 1, got {self.batch!r}")

    def solve(self, problem: Problem, tol: float, start: DualState | None = None) -> Result:
        """Minimise the dual of `problem`. One iteration is a pass of M steps.

        Passes that only visit working sets, without oracle calls, are not counted. A step changes
        theta, so steps run one after the other; the oracle calls of a certificate and of a `batch`
        of blocks run on threads, on which the result does not depend. The answers for a
        certificate are the targets of the pass that follows, which makes no calls: each block is
        still where the certificate found it, and a line search along the direction decreases L at
        the current theta.
        """
        self.check(problem)
        monitor = Monitor(self, tol)
        resumed = monitor.resume()
        average = WeightedAverage(problem.n_features)
        known = None if resumed is None else resumed["passes"]
        state = starting_state(problem, start, self.start, known)
        steps = BlockSteps(self, problem, state, generator(self.random_state))
        if known is not None:
            steps.restore(known)

        def loop() -> None:
            sweep, due = 0, 1  # the pass of the next certificate
            if resumed is None:
                share = certify_at(0)
            else:
                sweep, due, share = resumed["place"]
                average.restore(resumed["average"])
            passed = resumed is not None  # checkpoints are written at the end of a pass

            def checkpoint() -> dict[str, Any]:
                place = sweep, due, share
                return {"place": place, "average": vars(average), "passes": steps.checkpoint()}

            while passed or (sweep < monitor.max_iter and not monitor.stopped):
                if not passed:
                    monitor.oracle_calls += steps.sweep(problem, stepped)
                    sweep += steps.idle == 0
                passed = False
                if not is_over():
                    monitor.keep(checkpoint)
                last = sweep == monitor.max_iter or is_over()
                near = share * steps.gap(problem) <= monitor.tolerance
                if sweep >= due or near or last:
                    # Not by the clock, so that results repeat.
                    due = sweep + min(2 * sweep, CERTIFICATE_PASSES)
                    share = certify_at(sweep)

        def certify_at(sweep: int) -> float:
            """The part of the sum of the blocks' gaps that the certified gap is."""
            monitor.oracle_calls += len(problem.blocks)
            state.refresh(problem)
            found = steps.certify(problem, monitor.tolerance)
            monitor.slack = found.slack
            theta = problem.theta(state.r)
            monitor.record(
                sweep,
                theta,
                dual=found.dual(problem, state.r),
                primal=found.primal(problem, theta),
                fw_gap=found.fw_gap,
                average=average.value.copy() if self.averaging and sweep else None,
            )
            return min(monitor.gap / max(steps.gap(problem), 1e-300), 1.0)

        def stepped() -> None:
            if self.averaging:
                average.add(problem.theta(state.r))

        result = run(problem, monitor, loop, lambda: problem.theta(state.r))
        return finished(result, problem, state, monitor, average, self.averaging, self.return_last)

    def bounds(
        self, problem: Problem, state: DualState, known: list[Any], tolerance: float
    ) -> tuple[Certificate, list[LinearStep]]:
        """A certificate at theta(tau), and where blocks would move."""
        return certify(problem, state, known, NEAR * tolerance)

    def target(
        self, problem: Problem, state: DualState, m: int, known: list[Any], gap: float,
        kept: WorkingSet | None,
    ) -> LinearStep:  # fmt: skip
        """The MAP vertex at scores G theta + grad H(tau)."""
        theta = problem.theta(state.r)
        found = linear_step(problem, state, m, theta, known[m], False, kept, 0.25 * gap)
        if found.prices is not None:
            known[m] = found.prices
        return found

    def length(
        self, problem: Problem, block: Block, tau: Floats, towards: LinearStep,
        linear: float, quadratic: float, guess: float, t: int,
    ) -> float:  # fmt: skip
        if self.step == "fixed":
            return min(2.0 * len(problem.blocks) / (2.0 * len(problem.blocks) + t), MAX_STEP)
        return block_step(block, tau, towards, linear, quadratic, guess)
