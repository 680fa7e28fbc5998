"""`StructuredPerceptron`: the averaged perceptron over the outputs of any estimator (Collins 2002).

After each MAP call the weights move by the difference of observed and predicted moments; the mean
of all iterates is the result. No regularisation, no probabilities and no certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._arguments import generator
from .._running import is_over
from ..learning.problem import Problem
from ..learning.solver import Monitor, Result, Solver, run
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


@dataclass(frozen=True, kw_only=True)
class StructuredPerceptron(Solver):
    """Averaged perceptron over structured outputs, by MAP decoding alone.

    There is no penalty, so `alpha` and `tol` of the estimator have no effect.

    Parameters
    ----------
    rate : float, learning rate of the first pass
    decay : float, pass t (from 0) has the rate  rate / (1 + decay * t)
    max_iter : int, passes over the samples, in random order; one without mistakes is the last
    max_time, callback, verbose, random_state : the budget, as in `Solver`; no checkpoint

    Notes
    -----
    There is no objective: `objective_` and `duality_gap_` are NaN. `gap` of the history is the
    smallest number of samples that were wrong in a pass. `converged_` is whether a pass was without
    mistakes; mistakes that remain are not a failure. A `sample_weight` scales its sample's steps.
    If the estimator decodes over a relaxation, a step may go towards a fractional vertex: it
    scores at least as much as the observed output, which is all that a step needs.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import GridCRF
    >>> from mlestruct.baselines import StructuredPerceptron
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.kron(rng.integers(2, size=(2, 2)), np.ones((4, 4), int)) for _ in range(5)]
    >>> X = [np.stack([np.ones((8, 8)), y + 0.5 * rng.normal(size=(8, 8))], axis=-1) for y in Y]
    >>> GridCRF(solver=StructuredPerceptron(), random_state=0).fit(X, Y).score(X, Y) > 0.95
    True
    """

    rate: float = 1.0
    decay: float = 0.0
    max_iter: int | None = 30
    checkpoint: None = field(default=None, init=False)

    name: ClassVar[str] = "perceptron"
    one_block_per_sample: ClassVar[bool] = True

    def check(self, problem: Problem) -> None:
        problem.require("decode", "solver=StructuredPerceptron()")
        if problem.penalty.l1:
            raise ValueError("`l1_ratio` must be 0 with solver=StructuredPerceptron().")
        if not (self.rate > 0 and self.decay >= 0):
            raise ValueError(
                "`rate` must be positive and `decay` at least 0; "
                f"got {self.rate!r} and {self.decay!r}."
            )

    def solve(self, problem: Problem, tol: float, start: PerceptronState | None = None) -> Result:
        """Learn; steps run one after the other, on one thread."""
        self.check(problem)
        # Mistakes are whole numbers: 1/2 waits for a pass without any.
        monitor, rng = Monitor(self, 0.5), generator(self.random_state)
        size, n_blocks = problem.n_features, len(problem.blocks)
        state = start or PerceptronState(np.zeros(size), np.zeros(size))

        def loop() -> None:
            monitor.record(0, state.average, dual=float(n_blocks), primal=0.0)
            for sweep in range(monitor.max_iter):
                rate, mistakes, done = self.rate / (1.0 + self.decay * sweep), 0, 0
                for m in rng.permutation(n_blocks).tolist():
                    mistakes += _step(problem, state, m, rate)
                    monitor.oracle_calls += 1
                    done += 1
                    if is_over():
                        break
                found = float(mistakes) if done == n_blocks else np.inf
                if monitor.record(sweep + 1, state.average, dual=found, primal=0.0):
                    break

        result = run(problem, monitor, loop, lambda: state.average)
        result.theta, result.state = state.average, state
        result.objective = result.objective_bound = result.gap = np.nan  # there are no bounds
        result.proven = False
        return result


def _step(problem: Problem, state: PerceptronState, m: int, rate: float) -> bool:
    """Decode block m and step; True if the decoded vertex was wrong."""
    block = problem.blocks[m]
    scores = block.structure.break_ties(block.scores(state.theta), m)  # weights of 0 know nothing
    vertex = block.structure.decode(scores).vertex
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
