"""The averaged structured perceptron (Collins 2002).

After each MAP call the weights move by the difference of observed and predicted moments; the mean
of all iterates is the result. No regularisation and no certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..learning.history import Monitor, Stopping
from ..learning.problem import DualProblem
from ..learning.result import Result, run
from ..structures.contract import Vertex

Floats = NDArray[np.float64]


@dataclass
class PerceptronState:
    """The last iterate, the sum and the number of all, and how many steps changed theta."""

    theta: Floats
    total: Floats
    count: int = 0
    updates: int = 0

    @property
    def average(self) -> Floats:
        return self.total / max(self.count, 1)


@dataclass(frozen=True)
class AveragedPerceptron:
    """Passes over the blocks in random order, until one is without mistakes.

    rate : float, learning rate of the first pass
    decay : float, pass t (from 0) has the rate  rate / (1 + decay * t)

    Over a relaxation the decoder may return a fractional vertex. It scores at least as much as
    the observed output, which is all that a step needs.
    """

    rate: float = 1.0
    decay: float = 0.0

    name = "perceptron"

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: PerceptronState | None = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Learn; in the history `dual` is the smallest number of mistakes of a pass so far.

        Steps run one after the other, so `n_jobs` has no effect.
        """
        rng = random_state if random_state is not None else np.random.default_rng()
        monitor = Monitor(stopping, self.name)
        size, n_blocks = problem.n_features, len(problem.blocks)
        state = warm or PerceptronState(np.zeros(size), np.zeros(size))

        def loop() -> PerceptronState:
            monitor.record(0, state.average, dual=float(n_blocks), primal=0.0)
            for sweep in range(stopping.max_iter):
                rate, mistakes, done = self.rate / (1.0 + self.decay * sweep), 0, 0
                for m in rng.permutation(n_blocks).tolist():
                    mistakes += _step(problem, state, m, rate)
                    monitor.oracle_calls += 1
                    done += 1
                    if monitor.out_of_time():
                        break
                found = float(mistakes) if done == n_blocks else np.inf
                if monitor.record(sweep + 1, state.average, dual=found, primal=0.0):
                    break
            return state

        result = run(problem, monitor, loop, lambda: state.average)
        result.theta, result.state = state.average, state
        result.primal = result.gap = np.nan  # there is nothing to compare with
        return result


def _step(problem: DualProblem, state: PerceptronState, m: int, rate: float) -> bool:
    """Decode block m, step, and say whether it was a mistake."""
    block = problem.blocks[m]
    vertex = block.structure.decode(block.scores(state.theta)).vertex
    mistake = not _same(vertex, block.observed)
    if mistake:
        change = problem.observed_moments[m] - block.moments_at(vertex)
        state.theta += rate * block.weight * change
        state.updates += 1
    state.total += state.theta
    state.count += 1
    return mistake


def _same(one: Vertex, other: Vertex) -> bool:
    """Whether two vertices are the same point."""
    if one.indices.shape != other.indices.shape:
        return False
    first, second = np.argsort(one.indices), np.argsort(other.indices)
    return bool(
        np.array_equal(one.indices[first], other.indices[second])
        and np.array_equal(one.values[first], other.values[second])
    )
