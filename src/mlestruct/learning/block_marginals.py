"""Block-coordinate descent on the dual towards marginals instead of vertices.

The block step of `bcfw` moves tau_m towards the MAP vertex. Where a marginal oracle exists, the
maximiser of <scores, tau> + H(tau) at the current theta is a better target: it is the optimum of
the block at fixed theta (stochastic dual coordinate ascent). Near the optimum, where MAP problems
are degenerate, such a step decreases the dual many times more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..structures.contract import Marginals, Vertex
from .block_frank_wolfe import certificate_after, sampled
from .certificate import LinearStep
from .frank_wolfe import check_option
from .history import Monitor, Stopping
from .line_search import block_step
from .problem import DualProblem, DualState, start
from .result import Result, run

Floats = NDArray[np.float64]

ACCURACY = 0.1  # requested oracle gap, relative to the block's duality gap


@dataclass(frozen=True)
class BlockMarginals:
    """One oracle call, one block, one step with exact line search at a time.

    Parameters
    ----------
    sampling : "permuted" passes, "uniform" with replacement, or "gap": proportional to the
        blocks' last known duality gaps
    """

    sampling: Literal["permuted", "uniform", "gap"] = "permuted"

    name = "block_marginals"

    def check(self, problem: DualProblem) -> None:
        """Raise MissingCapability unless every block has a marginal oracle."""
        check_option("sampling", self.sampling, ("permuted", "uniform", "gap"))
        for block in problem.blocks:
            block.structure.require("marginals", f"solver={self.name!r}")

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
        self.check(problem)
        rng = random_state if random_state is not None else np.random.default_rng()
        monitor = Monitor(stopping, self.name)
        state = start(problem, warm)
        n_blocks = len(problem.blocks)
        known: list[Any] = [None] * n_blocks

        def loop() -> DualState:
            steps = np.full(n_blocks, 0.5)
            gaps = self._certify(problem, state, known, monitor, 0)
            due = 1
            for sweep in range(1, stopping.max_iter + 1):
                if monitor.stopped:
                    break
                for m in sampled(self.sampling, rng, n_blocks, gaps):
                    gaps[m] = self._step(problem, state, m, known, gaps[m], steps)
                    monitor.oracle_calls += 1
                    if monitor.out_of_time():
                        break
                if sweep >= due or sweep == stopping.max_iter or monitor.out_of_time():
                    due = certificate_after(sweep)
                    state.refresh(problem)
                    gaps = self._certify(problem, state, known, monitor, sweep)
            return state

        result = run(problem, monitor, loop, lambda: problem.theta(state.r))
        result.state = state
        return result

    def _certify(
        self,
        problem: DualProblem,
        state: DualState,
        known: list[Any],
        monitor: Monitor,
        iteration: int,
    ) -> Floats:
        """One oracle call per block at theta(tau): bounds of P there; returns the blocks' gaps."""
        theta = problem.theta(state.r)
        gaps = np.empty(len(problem.blocks))
        log_partition = 0.0
        for m, block in enumerate(problem.blocks):
            scores = block.scores(theta)
            wanted = ACCURACY * monitor.tolerance / len(problem.blocks)
            found = block.structure.marginals(scores, known[m], wanted)
            known[m] = found.warm
            gaps[m] = self._gap(found, scores, state, m, block)
            log_partition += block.weight * found.upper_bound
        monitor.oracle_calls += len(problem.blocks)
        monitor.record(
            iteration,
            theta,
            dual=state.dual(problem),
            primal=problem.primal(theta, log_partition),
        )
        return gaps

    @staticmethod
    def _gap(found: Marginals, scores: Floats, state: DualState, m: int, block: Any) -> float:
        """A(scores) - <scores, tau_m> - H(tau_m), from above."""
        entropy = state.entropies[m] + block.offset_gap(state.tau[m])
        return found.upper_bound - float(scores @ state.tau[m]) - entropy

    def _step(
        self,
        problem: DualProblem,
        state: DualState,
        m: int,
        known: list[Any],
        gap: float,
        steps: Floats,
    ) -> float:
        """One oracle call and one step of block m; returns the block's gap before it."""
        block = problem.blocks[m]
        tau = state.tau[m]
        scores = block.scores(state.r / problem.alpha)
        found = block.structure.marginals(scores, known[m], ACCURACY * max(gap, 1e-12))
        known[m] = found.warm
        gap = self._gap(found, scores, state, m, block)
        target = Vertex(np.arange(tau.shape[0]), found.tau)
        change = block.weight * (block.moments(found.tau) - state.moments[m])
        sums = block.structure.stepping_entropy.add_gradient(tau, scores)[1]
        eta = block_step(
            block,
            tau,
            LinearStep(target, gap, scores, None, sums),
            -float(state.r @ change) / problem.alpha,
            float(change @ change) / problem.alpha,
            steps[m],
        )
        steps[m] = min(max(eta, 1e-3), 0.999)
        if eta > 0.0:
            block.structure.stepping_entropy.move(tau, target, eta)
            state.moments[m] += eta / block.weight * change
            state.r -= eta * change
            state.entropies[m] = block.structure.entropy(tau) - block.offset_gap(tau)
        return gap
