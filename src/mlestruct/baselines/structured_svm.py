"""`StructuredSVM`: the margin-rescaled hinge loss over the outputs of any estimator.

Block-coordinate Frank-Wolfe: one loss-augmented MAP call, one block, exact line searches
(Lacoste-Julien, Jaggi, Schmidt and Pletscher 2013). Blocks keep the outputs decoded so far, so that
after each pass their weights are improved without decoding (see `planes`). The objective and
its dual are in `hinge_dual`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import Each, threaded_map
from ..learning.frank_wolfe import WeightedAverage
from ..learning.problem import DualProblem
from ..learning.result import Monitor, Result, Stopping, run
from .hinge_dual import HingeDual
from .learner import RegularizedLearner

Floats = NDArray[np.float64]


class StructuredSVM(RegularizedLearner):
    """Maximum-margin learning of structured outputs, by MAP decoding alone.

    Minimises  alpha/2 |theta|^2 + sum over samples of max over outputs y' of
    [share of nodes that y' labels otherwise than y, minus by how much y outscores y'].
    It learns scores, so there are no probabilities.

    Parameters
    ----------
    estimator : a CRF estimator, not fitted
        Its output space, features and decoder are used, and its `alpha` (on the summed hinge
        loss), `tol` (stop when the duality gap is at most tol * max(1, objective)), `max_iter`
        (passes over the samples), `max_time`, `callback`, `n_jobs` (threads over samples for
        certificates and predictions; steps run one after the other), `random_state`, `verbose`.
    averaging : bool
        Return the weighted average of the iterates, which generalises better early on.

    Attributes
    ----------
    estimator_ : a clone of the estimator with the learned weights
    coef_ : ndarray of shape (n_features,)
    objective_ : float, the regularised hinge loss at coef_
    duality_gap_ : float, absolute: objective_ is within it of the smallest one
    converged_ : bool
    history_ : History; `dual` and `primal` are minus the best bounds of the smallest objective
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    The loss of a sample is at most 1 while its score is a sum over parts, so that the alpha of a
    given effect grows with the square of the samples' size.

    Where the estimator decodes over a relaxation (grids and graphs with cycles, groups with
    polytope="local"), the most violating output may be fractional: the hinge loss is then an upper
    bound of the exact one.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import BipartiteMatchingCRF
    >>> from mlestruct.baselines import StructuredSVM
    >>> left = np.random.default_rng(0).normal(size=(10, 5, 2))
    >>> X, Y = [-((a[:, None] - a[None]) ** 2) for a in left], [np.arange(5)] * 10
    >>> machine = StructuredSVM(BipartiteMatchingCRF(alpha=0.1, random_state=0)).fit(X, Y)
    >>> machine.converged_, machine.score(X, Y)
    (True, 1.0)
    """

    def __init__(self, estimator: Any, averaging: bool = False):
        self.estimator = estimator
        self.averaging = averaging

    def _algorithm(self) -> HingeFrankWolfe:
        if self.averaging not in (True, False):
            raise ValueError(f"averaging must be True or False, got {self.averaging!r}")
        return HingeFrankWolfe(bool(self.averaging))


@dataclass(frozen=True)
class HingeFrankWolfe:
    """Minimises the regularised hinge loss of all blocks.

    averaging : return the mean of the iterates after all block steps, the k-th weighted by k
    memory : number of outputs that a block keeps

    Without it the best theta that was certified is returned: an iterate or, where iterates get
    worse, their average.

    A certificate costs a MAP call per block. It is computed when the sum of the block gaps of a
    pass is within `tol`, and otherwise after an increasing number of passes, ten at the most. It
    belongs to the theta that is returned: its objective minus the best dual value.
    """

    averaging: bool = False
    memory: int = 30

    name = "bcfw"

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: HingeDual | None = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Minimise; `warm` is the state of an earlier result on the same data.

        Signs are those of a maximisation, as everywhere in the history: `dual` is minus the best
        dual value and `primal` minus the smallest hinge objective. Only certificates use threads.
        """
        rng = random_state if random_state is not None else np.random.default_rng()
        dual = HingeDual(problem, self.memory) if warm is None else warm.with_alpha(problem)
        with threaded_map(n_jobs, len(problem.blocks)) as each:
            descent = _Descent(dual, Monitor(stopping, self.name), self.averaging, each)

            def loop() -> None:
                descent.run(rng, warm is not None)

            result = run(problem, descent.monitor, loop, lambda: dual.theta, n_jobs)
        if self.averaging and descent.latest is not None and not result.converged:
            theta, value = descent.latest  # the latest average, not the best one
            result.use(theta, -value)
        result.objective = -result.primal
        result.state = dual
        return result


class _Descent:
    """One run: the dual point, the average of the iterates, and the last certificate."""

    def __init__(self, dual: HingeDual, monitor: Monitor, averaging: bool, each: Each):
        self.dual, self.monitor, self.averaging, self.each = dual, monitor, averaging, each
        self.average = WeightedAverage(dual.problem.n_features)
        self.n_blocks = len(dual.problem.blocks)
        self.latest: tuple[Floats, float] | None = None  # certified last

    def run(self, rng: np.random.Generator, warm: bool) -> None:
        """Passes over the blocks until the monitor stops them."""
        monitor, stopping = self.monitor, self.monitor.stopping
        if self.certify(0) if warm else _record_zero(monitor, self.dual):
            return
        due = 1
        for iteration in range(1, stopping.max_iter + 1):
            gap = self.one_pass(rng)
            near = gap <= monitor.tolerance and not self.averaging
            final = iteration == stopping.max_iter or monitor.out_of_time()
            if near or final or iteration >= due:
                # A certificate costs a pass: later ones are further apart, up to ten passes.
                due = iteration + min(max(iteration // 2, 1), 10)
                if self.certify(iteration):
                    return

    def one_pass(self, rng: np.random.Generator) -> float:
        """A step of every block; the sum of their gaps, each before its step."""
        total = 0.0
        for m in rng.permutation(self.n_blocks).tolist():
            total += self.dual.step(m)
            self.average.add(self.dual.theta)
            self.monitor.oracle_calls += 1
            if self.monitor.out_of_time():
                break
        self.dual.refresh()
        return total

    def certify(self, iteration: int) -> bool:
        """Bounds of the optimum; True if the solver should stop."""
        mean = self.average.value.copy()
        theta = mean if self.averaging and iteration else self.dual.theta
        value = self.objective(theta)
        if not self.averaging and iteration and value >= -self.monitor.primal:
            # Under weak regularisation iterates oscillate; their average is often better.
            of_mean = self.objective(mean)
            theta, value = (mean, of_mean) if of_mean < value else (theta, value)
        self.latest = theta, value
        return self.monitor.record(iteration, theta, dual=-self.dual.value(), primal=-value)

    def objective(self, theta: Floats) -> float:
        self.monitor.oracle_calls += self.n_blocks
        return self.dual.objective(theta, self.each)


def _record_zero(monitor: Monitor, dual: HingeDual) -> bool:
    """The bounds at theta = 0, where no decoding is needed: a share is at most 1."""
    problem = dual.problem
    shares = all(block.offset is None for block in problem.blocks)
    objective = float(problem.weights.sum()) if shares else np.inf
    return monitor.record(0, dual.theta, dual=-dual.value(), primal=-objective)
