"""Block-coordinate descent on the dual: one oracle call, one block, one step at a time.

`BlockFrankWolfe` moves a block's tau towards the MAP vertex; `BlockFrankWolfe.paper()` is the
block-coordinate algorithm of the paper as printed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from .._threads import Each, threaded_map
from ..algorithms.frank_wolfe import MAX_STEP
from ..exceptions import MissingCapability
from .block_steps import BlockRules, BlockSteps, Sampling, block_step
from .certificate import NEAR, Certificate, certify
from .dual_state import DualState, Start, start
from .frank_wolfe import WeightedAverage, check_option, finished
from .linear_step import LinearStep, WorkingSet, linear_step
from .partitioned_passes import PartitionedPasses
from .problem import Block, DualProblem
from .result import Monitor, Result, Stopping, run

Floats = NDArray[np.float64]

CERTIFICATE_PASSES = 20  # at most between certificates, each of which costs a pass of MAP calls


class BlockCoordinateDescent(BlockRules):
    """The loop that both solvers share; they differ in the target of a step."""

    averaging: bool = False
    start: Start = "near"
    return_last: bool = False

    def check(self, problem: DualProblem) -> None:
        """Needs nothing beyond the block contract."""
        for block in problem.blocks:
            for needed in ("decode", "interior"):
                block.structure.require(needed, f"solver={self.name!r}")
        check_option("start", self.start, ("near", "uniform"))
        check_option("sampling", self.sampling, ("permuted", "uniform", "gap"))
        if not self.batch >= 1:
            raise ValueError(f"batch: expected at least 1, got {self.batch!r}")
        if self.averaging and problem.is_remote:
            raise MissingCapability("averaging=True takes samples in one place, not in partitions")

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: Any = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Minimise the dual of `problem`. One iteration is a pass of M steps.

        Passes that only visit working sets, without oracle calls, are not counted. A step changes
        theta, so steps run one after the other; the oracle calls of a certificate and of a `batch`
        of blocks run on `n_jobs` threads, on which the result does not depend. The answers for a
        certificate are the targets of the pass that follows, which makes no calls: each block is
        still where the certificate found it, and a line search along the direction decreases L at
        the current theta. Partitions make their passes at the same time (`PartitionedPasses`).
        """
        self.check(problem)
        rng = random_state if random_state is not None else np.random.default_rng()
        monitor = Monitor(stopping, self.name)
        resumed = monitor.resume()
        average = WeightedAverage(problem.n_features)
        n_calls = sum(block.n_observations for block in problem.blocks)

        def loop() -> Any:
            sweep, due = 0, 1  # the pass of the next certificate
            if resumed is None:
                share = certify_at(0)
            else:
                sweep, due, share = resumed["place"]
                average.restore(resumed["average"])
            passed = resumed is not None  # checkpoints are written at the end of a pass

            def checkpoint() -> dict[str, Any]:
                place = sweep, due, share
                return {"place": place, "average": vars(average), "passes": passes.checkpoint()}

            while passed or (sweep < stopping.max_iter and not monitor.stopped):
                if not passed:
                    decoded, calls = passes.sweep()
                    monitor.oracle_calls += calls
                    sweep += decoded
                passed = False
                if not monitor.out_of_time():
                    monitor.keep(checkpoint)
                last = sweep == stopping.max_iter or monitor.out_of_time()
                near = share * passes.gap <= monitor.tolerance
                if sweep >= due or near or last:
                    # Not by the clock, so that results repeat.
                    due = sweep + min(2 * sweep, CERTIFICATE_PASSES)
                    share = certify_at(sweep)
            return passes.state

        def certify_at(sweep: int) -> float:
            """The part of the sum of the blocks' gaps that the certified gap is."""
            monitor.oracle_calls += n_calls
            found = passes.certify(monitor.tolerance)
            monitor.slack = found.slack
            theta = problem.theta(passes.r)
            monitor.record(
                sweep,
                theta,
                dual=found.dual(problem, passes.r),
                primal=found.primal(problem, theta),
                fw_gap=found.fw_gap,
                average=average.value.copy() if self.averaging and sweep else None,
            )
            return min(monitor.gap / max(passes.gap, 1e-300), 1.0)

        def stepped() -> None:
            if self.averaging:
                average.add(problem.theta(passes.r))

        known = None if resumed is None else resumed["passes"]
        with threaded_map(n_jobs, len(problem.blocks)) as each:
            passes: Passes
            if problem.is_remote:
                passes = PartitionedPasses(self, problem, rng, each, self.start, warm, known)
            else:
                own = start(problem, warm, self.start, known)
                steps = BlockSteps(self, problem, own, rng)
                passes = _Passes(steps, problem, each, stepped, monitor.out_of_time, known)
            result = run(problem, monitor, loop, lambda: problem.theta(passes.r), n_jobs)
        return finished(
            result, problem, passes.state, monitor, average, self.averaging, self.return_last
        )


class Passes(Protocol):
    """Where blocks are, and what the loop asks of them.

    state : the argument `warm` with which a solver continues
    """

    @property
    def state(self) -> Any: ...

    @property
    def r(self) -> Floats: ...

    @property
    def gap(self) -> float:
        """The sum of the blocks' gaps, as far as they are known."""

    def certify(self, tolerance: float) -> Certificate: ...

    def sweep(self) -> tuple[bool, int]:
        """A pass over all blocks: whether it has used a new oracle call, and how many it made."""

    def checkpoint(self) -> dict[str, Any]: ...


class _Passes:
    """All blocks in this process."""

    def __init__(
        self, steps: BlockSteps, problem: DualProblem, each: Each, stepped: Callable[[], None],
        out_of_time: Callable[[], bool], known: dict[str, Any] | None,
    ):  # fmt: skip
        self._steps, self._problem, self._each = steps, problem, each
        self._stepped, self._out_of_time = stepped, out_of_time
        self.checkpoint = steps.checkpoint
        if known is not None:
            steps.restore(known)

    @property
    def state(self) -> DualState:
        return self._steps.state

    @property
    def r(self) -> Floats:
        return self._steps.state.r

    @property
    def gap(self) -> float:
        return self._steps.gap(self._problem)

    def certify(self, tolerance: float) -> Certificate:
        self._steps.state.refresh(self._problem)
        return self._steps.certify(self._problem, tolerance, self._each)

    def sweep(self) -> tuple[bool, int]:
        arguments = self._problem, self._each, self._stepped, self._out_of_time
        calls = self._steps.sweep(*arguments)
        return self._steps.idle == 0, calls


@dataclass(frozen=True)
class BlockFrankWolfe(BlockCoordinateDescent):
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

    name = "bcfw"

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

    @property
    def reuses_targets(self) -> bool:  # type: ignore[override]
        """Steps of fixed length need vertices at the current theta."""
        return self.reuse_vertices and self.step == "line_search"

    def check(self, problem: DualProblem) -> None:
        super().check(problem)
        check_option("step", self.step, ("line_search", "fixed"))
        if self.step == "fixed" and problem.is_remote:
            raise MissingCapability(
                "step='fixed' takes samples in one place, not in partitions; use 'line_search'"
            )

    def bounds(
        self, problem: DualProblem, state: DualState, known: list[Any],
        tolerance: float, each: Each,
    ) -> tuple[Certificate, list[LinearStep]]:  # fmt: skip
        return certify(problem, state, known, NEAR * tolerance, each)

    def target(
        self, problem: DualProblem, state: DualState, m: int, known: list[Any], gap: float,
        kept: WorkingSet | None,
    ) -> LinearStep:  # fmt: skip
        """The MAP vertex at scores G theta + grad H(tau)."""
        theta = problem.theta(state.r)
        found = linear_step(problem, state, m, theta, known[m], False, kept, 0.25 * gap)
        if found.prices is not None:
            known[m] = found.prices
        return found

    def length(
        self, problem: DualProblem, block: Block, tau: Floats, towards: LinearStep,
        linear: float, quadratic: float, guess: float, t: int,
    ) -> float:  # fmt: skip
        if self.step == "fixed":
            return min(2.0 * len(problem.blocks) / (2.0 * len(problem.blocks) + t), MAX_STEP)
        return block_step(block, tau, towards, linear, quadratic, guess)
