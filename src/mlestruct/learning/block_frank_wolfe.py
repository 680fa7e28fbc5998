"""Block-coordinate Frank-Wolfe: one MAP call, one block, one step at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..algorithms.frank_wolfe import MAX_STEP
from .averaging import WeightedAverage
from .certificate import certify, certify_theta, linear_step
from .frank_wolfe import check_option
from .history import Monitor, Stopping
from .line_search import block_step
from .problem import DualProblem, DualState, start
from .result import Result, run

Floats = NDArray[np.float64]

CERTIFICATE_PASSES = 10  # at most between certificates, each of which costs a pass


@dataclass(frozen=True)
class BlockFrankWolfe:
    """The paper's block-coordinate algorithm.

    Parameters
    ----------
    step : "line_search", or "fixed" for 2M/(2M+t) starting at t = 1
    sampling : "permuted" passes, "uniform" with replacement, or "gap": proportional to the
        blocks' last known Frank-Wolfe gaps
    averaging : return the weighted average of the iterates' theta, which has a certificate only
        where the structure has a `price_bound`
    """

    step: Literal["line_search", "fixed"] = "line_search"
    sampling: Literal["permuted", "uniform", "gap"] = "permuted"
    averaging: bool = False

    name = "bcfw"

    def check(self, problem: DualProblem) -> None:
        """Needs nothing beyond the block contract."""
        check_option("step", self.step, ("line_search", "fixed"))
        check_option("sampling", self.sampling, ("permuted", "uniform", "gap"))

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: DualState | None = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Minimise the dual of `problem`. One iteration is a pass of M steps.

        A step changes theta, so steps run one after the other and `n_jobs` has no effect.
        """
        rng = random_state if random_state is not None else np.random.default_rng()
        monitor = Monitor(stopping, self.name)
        state = start(problem, warm)
        average = WeightedAverage(problem.n_features)
        n_blocks = len(problem.blocks)
        prices: list[Floats | None] = [None] * n_blocks

        def loop() -> DualState:
            guesses = np.full(n_blocks, 0.05)
            found, _ = certify(problem, state, prices)
            monitor.oracle_calls += n_blocks
            gaps = found.block_gaps
            theta = problem.theta(state.r)
            if monitor.record(0, theta, dual=found.dual, primal=found.primal, fw_gap=found.fw_gap):
                return state
            t = 0
            due = 1  # pass of the next certificate
            for sweep in range(1, stopping.max_iter + 1):
                for m in sampled(self.sampling, rng, n_blocks, gaps):
                    t += 1
                    gaps[m] = self._step(problem, state, m, t, prices, guesses)
                    monitor.oracle_calls += 1
                    average.add(state.r / problem.alpha)
                    if monitor.out_of_time():
                        break
                if not (sweep >= due or sweep == stopping.max_iter or monitor.out_of_time()):
                    continue
                due = certificate_after(sweep)
                state.refresh(problem)
                found, _ = certify(problem, state, prices)
                monitor.oracle_calls += n_blocks
                gaps = found.block_gaps
                theta = problem.theta(state.r)
                mean = average.value.copy() if self.averaging else None
                if monitor.record(
                    sweep,
                    theta,
                    dual=found.dual,
                    primal=found.primal,
                    fw_gap=found.fw_gap,
                    average=mean,
                ):
                    break
            return state

        result = run(problem, monitor, loop, lambda: problem.theta(state.r))
        if self.averaging and monitor.iterations:
            result.use(average.value, certify_theta(problem, state, prices, average.value))
        result.state = state
        return result

    def _step(
        self,
        problem: DualProblem,
        state: DualState,
        m: int,
        t: int,
        prices: list[Floats | None],
        guesses: Floats,
    ) -> float:
        """One MAP call and one step of block m; returns the block's Frank-Wolfe gap before it."""
        block = problem.blocks[m]
        tau = state.tau[m]
        theta = state.r / problem.alpha
        linear = linear_step(problem, state, m, theta, prices[m], False)
        if linear.prices is not None:
            prices[m] = linear.prices
        change = block.weight * (block.moments_at(linear.vertex) - state.moments[m])
        if self.step == "fixed":
            eta = min(2.0 * len(problem.blocks) / (2.0 * len(problem.blocks) + t), MAX_STEP)
        else:
            eta = block_step(
                block,
                tau,
                linear,
                -float(state.r @ change) / problem.alpha,
                float(change @ change) / problem.alpha,
                guesses[m],
            )
            guesses[m] = max(eta, 1e-6)
        if eta > 0.0:
            block.structure.stepping_entropy.move(tau, linear.vertex, eta)
            state.moments[m] += eta / block.weight * change
            state.r -= eta * change
        return linear.gap


def sampled(sampling: str, rng: np.random.Generator, n_blocks: int, gaps: Floats) -> list[int]:
    """Blocks of the next pass."""
    if sampling == "permuted":
        return rng.permutation(n_blocks).tolist()
    if sampling == "uniform":
        return rng.integers(n_blocks, size=n_blocks).tolist()
    weights = np.maximum(gaps, 0.0) + 1e-12 + 1e-3 * np.mean(np.abs(gaps))
    return rng.choice(n_blocks, size=n_blocks, p=weights / weights.sum()).tolist()


def certificate_after(sweep: int) -> int:
    """The pass of the next certificate; independent of time, so that runs are reproducible."""
    return sweep + min(max(sweep // 2, 1), CERTIFICATE_PASSES)
