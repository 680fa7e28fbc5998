"""`StructuredPerceptron`: the averaged perceptron over the outputs of any estimator (Collins 2002).

After each MAP call the weights move by the difference of observed and predicted moments; the mean
of all iterates is the result. No regularisation, no probabilities and no certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..learning.problem import DualProblem
from ..learning.result import Monitor, Result, Stopping, run
from ..models.validation import check_count, check_positive
from ..structures.contract import Vertex
from .learner import Learner

Floats = NDArray[np.float64]


class StructuredPerceptron(Learner):
    """Averaged perceptron over structured outputs, by MAP decoding alone.

    Parameters
    ----------
    estimator : a CRF estimator, not fitted
        Its output space, features and decoder are used, and its `max_time`, `callback`, `n_jobs`
        (threads over samples for predictions; steps run one after the other), `random_state`,
        `verbose`. There is no penalty, so its `alpha` and `tol` have no effect.
    max_iter : int, passes over the samples, in random order; one without mistakes is the last
    rate : float, learning rate of the first pass
    decay : float, pass t (from 0) has the rate  rate / (1 + decay * t)

    Attributes
    ----------
    estimator_ : a clone of the estimator with the learned weights
    coef_ : ndarray of shape (n_features,), the mean of the weights after every step
    last_coef_ : ndarray of shape (n_features,), the weights after the last step
    objective_ : float, the smallest number of samples that were wrong in a pass
    converged_ : bool, whether a pass was without mistakes: `last_coef_` then makes none
    n_updates_ : int, steps that changed the weights
    history_ : History; `dual` is the smallest number of mistakes of a pass so far
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    A `sample_weight` scales the steps of its sample. Where the estimator decodes over a relaxation,
    a step may go towards a fractional vertex.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import GridCRF
    >>> from mlestruct.baselines import StructuredPerceptron
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.kron(rng.integers(2, size=(2, 2)), np.ones((4, 4), int)) for _ in range(5)]
    >>> X = [np.stack([np.ones((8, 8)), y + 0.5 * rng.normal(size=(8, 8))], axis=-1) for y in Y]
    >>> StructuredPerceptron(GridCRF(random_state=0)).fit(X, Y).score(X, Y) > 0.95
    True
    """

    def __init__(self, estimator: Any, max_iter: int = 30, rate: float = 1.0, decay: float = 0.0):
        self.estimator = estimator
        self.max_iter = max_iter
        self.rate = rate
        self.decay = decay

    def _algorithm(self) -> AveragedPerceptron:
        rate = check_positive(self.rate, "rate")
        decay = float(self.decay)
        if not decay >= 0.0:
            raise ValueError(f"decay must be at least 0, got {self.decay!r}")
        return AveragedPerceptron(rate, decay)

    def _stopping(self) -> Stopping:
        # The number of mistakes is a whole number: any tol below 1 waits for none at all.
        max_iter = check_count(self.max_iter, "max_iter")
        return replace(super()._stopping(), max_iter=max_iter, tol=0.5)

    def _keep(self, result: Result, tol: float) -> None:
        separated = result.converged
        result.converged = not result.interrupted  # mistakes that remain are no failure
        super()._keep(result, tol)
        self.converged_ = separated
        self.last_coef_ = self._full_coef(result.state.theta)
        self.n_updates_ = result.state.updates


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
        result.primal = result.gap = np.nan  # there are no bounds
        return result


def _step(problem: DualProblem, state: PerceptronState, m: int, rate: float) -> bool:
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
