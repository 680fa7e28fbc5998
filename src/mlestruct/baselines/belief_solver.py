"""L-BFGS on the approximate likelihood, with gradients from belief propagation.

The classical double loop: messages to convergence, then one step of the learner, starting the next
messages from the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from ..learning.history import Monitor, Stopping
from ..learning.problem import Block, DualProblem
from ..learning.result import Result, run
from ..structures import BipartiteMatching
from .block_messages import BlockMessages, open_part

Floats = NDArray[np.float64]

MEMORY = 20  # steps that L-BFGS remembers


@dataclass
class BeliefState:
    """Where a fit ended."""

    theta: Floats
    blocks: list[BlockMessages] = field(default_factory=list)

    @property
    def open_runs(self) -> int:
        """Blocks whose messages had not converged at the last theta."""
        return sum(not block.converged for block in self.blocks)


@dataclass(frozen=True)
class BeliefLBFGS:
    """Maximises the likelihood of matchings of two sides under one rho.

    max_sweeps : int, over the messages of a block at every theta
    bp_tol : float, messages have converged when no belief moves by more than this in a sweep
    """

    max_sweeps: int
    bp_tol: float

    name = "belief_propagation"

    def messages(self, blocks: Sequence[Block]) -> list[BlockMessages]:
        """Fresh messages of every block; raises where there can be none."""
        cores = {}
        found = []
        for m, block in enumerate(blocks):
            structure = block.structure
            if not isinstance(structure, BipartiteMatching):
                raise ValueError(
                    f"sample {m}: capacities other than 1 are beyond this message passing; use "
                    "BipartiteMatchingCRF"
                )
            if id(structure) not in cores:
                cores[id(structure)] = open_part(structure)
            rho = float(structure.rho_rows[0])
            found.append(
                BlockMessages(block, cores[id(structure)], rho, self.max_sweeps, self.bp_tol)
            )
        return found

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: BeliefState | None = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Maximise P; `warm` is the state of an earlier result on the same blocks.

        Bounds are those of exact marginals: they hold as far as messages have converged.
        """
        monitor = Monitor(stopping, self.name)
        state = BeliefState(np.zeros(problem.n_features), self.messages(problem.blocks))
        if warm is not None:
            state.theta = warm.theta.copy()
            for block, earlier in zip(state.blocks, warm.blocks, strict=True):
                block.start_from(earlier)
        n_threads = min(n_jobs or 1, len(state.blocks))
        pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None
        likelihood = Likelihood(problem, state.blocks, pool)

        def record(iteration: int) -> bool:
            state.theta = likelihood.theta
            primal = -likelihood.loss
            monitor.oracle_calls = likelihood.calls
            monitor.forget_bounds()  # those of other messages
            return monitor.record(
                iteration, state.theta, dual=primal + likelihood.slack, primal=primal
            )

        def loop() -> None:
            likelihood(state.theta)
            if not record(0):
                self._climb(likelihood, state.theta, monitor, record)

        try:
            result = run(problem, monitor, loop, lambda: state.theta, n_jobs)
        finally:
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)
        result.state = state
        return result

    def _climb(
        self,
        likelihood: Likelihood,
        start: Floats,
        monitor: Monitor,
        record: Callable[[int], bool],
    ) -> None:
        """Iterations of L-BFGS until `record` says stop."""

        def callback(intermediate_result: OptimizeResult) -> None:
            # The step just accepted is the one evaluated last.
            if record(monitor.iterations + 1):
                raise StopIteration

        limit = monitor.stopping.max_iter
        found = minimize(
            likelihood,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            # `record` is the only stopping rule but for max_iter and a line search that can not
            # improve the loss in floating point.
            options={
                "maxiter": limit,
                "maxfun": 20 * limit,
                "maxcor": MEMORY,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
        if not np.array_equal(found.x, likelihood.theta):
            likelihood(found.x)
            record(monitor.iterations)


class Likelihood:
    """Minus the penalised likelihood and its gradient; remembers the last evaluation.

    Attributes
    ----------
    slack : float, |gradient|^2 / (2 alpha), a bound of the suboptimality
    calls : int, runs of belief propagation
    """

    def __init__(
        self,
        problem: DualProblem,
        blocks: Sequence[BlockMessages],
        pool: ThreadPoolExecutor | None,
    ):
        self.problem, self.blocks = problem, blocks
        self._each = map if pool is None else pool.map
        self.theta = np.zeros(0)
        self.gradient = np.zeros(0)
        self.loss = np.inf
        self.calls = 0

    @property
    def slack(self) -> float:
        return float(self.gradient @ self.gradient) / (2.0 * self.problem.alpha)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        if not np.array_equal(theta, self.theta):
            problem = self.problem
            answers = list(self._each(lambda block: block(theta), self.blocks))
            expected = problem.weights @ np.array([moments for _, moments in answers])
            log_partition = float(problem.weights @ np.array([log_z for log_z, _ in answers]))
            self.loss = -problem.primal(theta, log_partition)
            self.gradient = problem.alpha * theta - problem.target + expected
            self.theta = theta.copy()
            self.calls += len(self.blocks)
        return self.loss, self.gradient.copy()
