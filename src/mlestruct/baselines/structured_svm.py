"""`StructuredSVM`: the margin-rescaled hinge loss over the outputs of any estimator.

    primal   alpha/2 |theta|^2 + sum_m w_m max over y of [ loss_m(y) - <theta, G_m' (y_m - y)> ]
    dual     sum_m loss_m - |r|^2 / (2 alpha),   r = sum_m r_m,   theta = r / alpha

Block-coordinate Frank-Wolfe: one loss-augmented MAP call, one block, exact line searches
(Lacoste-Julien, Jaggi, Schmidt and Pletscher 2013). A block's dual point is a mean of outputs, of
which only the loss and r_m = w_m G_m' (y_m - y) are kept. Blocks keep the outputs decoded so far;
after each pass their weights are improved without decoding (see `planes`).

The loss of an output is the share of its nodes that are wrong. If the decoder works on a
relaxation, y runs over its vertices, some of which may be fractional: the hinge loss is then an
upper bound of the one over outputs, and the certificate is for the minimum of this bound.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._arguments import generator
from .._running import is_over
from ..learning.frank_wolfe import WeightedAverage
from ..learning.problem import Block, Problem
from ..learning.solver import Monitor, Result, Solver, run
from .planes import Planes

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class StructuredSVM(Solver):
    """Maximum-margin learning of structured outputs, by MAP decoding alone.

    Minimises  alpha/2 |theta|^2 + sum over samples of max over outputs y' of
    [share of nodes that y' labels otherwise than y, minus by how much y outscores y'].
    It learns scores, so marginals of the model have no meaning.

    Parameters
    ----------
    averaging : bool
        Return the weighted average of the iterates, which generalises better early on. Otherwise
        the best theta that was certified is returned: an iterate or, if iterates get worse, their
        average.
    memory : int
        Number of outputs that a block keeps.
    max_iter, max_time, callback, verbose, random_state :
        the budget, as in `Solver`; an iteration is a pass over the samples. There is no checkpoint.

    Notes
    -----
    `objective_` of the estimator is minus the regularised hinge loss at `coef_`, so that larger is
    better, as in likelihood learning; `duality_gap_` bounds its distance from the optimum.
    The loss of a sample is at most 1 while its score is a sum over parts, so that the alpha of a
    given effect grows with the square of the samples' size.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import BipartiteMatchingCRF
    >>> from mlestruct.baselines import StructuredSVM
    >>> left = np.random.default_rng(0).normal(size=(10, 5, 2))
    >>> X, Y = [-((a[:, None] - a[None]) ** 2) for a in left], [np.arange(5)] * 10
    >>> machine = BipartiteMatchingCRF(alpha=0.1, solver=StructuredSVM(), random_state=0).fit(X, Y)
    >>> machine.converged_, machine.score(X, Y)
    (True, 1.0)
    """

    averaging: bool = False
    memory: int = 30
    checkpoint: None = field(default=None, init=False)

    name: ClassVar[str] = "structured_svm"
    one_block_per_sample: ClassVar[bool] = True

    def check(self, problem: Problem) -> None:
        problem.require("hamming_loss", "solver=StructuredSVM()")
        if problem.penalty.l1:
            raise ValueError("`l1_ratio` must be 0 with solver=StructuredSVM().")

    def solve(self, problem: Problem, tol: float, start: HingeDual | None = None) -> Result:
        """Minimise; `start` is the state of another result on the same data."""
        self.check(problem)
        dual = HingeDual(problem, self.memory) if start is None else start.moved(problem)
        descent = _Descent(dual, Monitor(self, tol), self.averaging)
        rng = generator(self.random_state)

        def loop() -> None:
            descent.run(rng, start is not None)

        result = run(problem, descent.monitor, loop, lambda: dual.theta)
        if self.averaging and descent.latest is not None and not result.converged:
            theta, value = descent.latest  # the latest average, not the best one
            result.use(theta, -value)
        result.state = dual
        return result


class HingeDual:
    """A dual point: outputs of every block and their weights, at most `memory` per block."""

    def __init__(self, problem: Problem, memory: int):
        self.problem = problem
        self.planes = Planes(len(problem.blocks), problem.n_features, memory)
        self.wrong = [_share_of_wrong_nodes(block) for block in problem.blocks]

    def moved(self, problem: Problem) -> HingeDual:
        """The same dual point for the same data, maybe under another alpha."""
        other = copy.copy(self)
        other.problem, other.planes = problem, self.planes.copy()
        return other

    @property
    def theta(self) -> Floats:
        return self.planes.total / self.problem.alpha

    def value(self) -> float:
        """The dual value, a lower bound of the smallest objective."""
        return self.planes.value(self.problem.alpha)

    def refresh(self) -> None:
        """Improve the weights of all planes, and remove accumulated rounding."""
        self.planes.improve(self.problem.alpha)
        self.planes.refresh()

    def _most_violating(self, m: int, theta: Floats) -> tuple[Floats, float]:
        """The most violating output of block m at theta: its r_m, and its loss.

        Known offsets of the scores count as part of the loss.
        """
        block = self.problem.blocks[m]
        constant, scores = self.wrong[m]
        vertex = block.structure.decode(block.scores(theta) + scores).vertex
        residual = self.problem.observed_moments[m] - block.moments_at(vertex)
        loss = constant + vertex.dot(scores)
        if block.offset is not None:
            loss += vertex.dot(block.offset) - block.observed.dot(block.offset)
        return block.weight * residual, block.weight * loss

    def objective(self, theta: Floats) -> float:
        """The primal objective at theta; one decoding per block."""

        def hinge(m: int) -> float:
            part, loss = self._most_violating(m, theta)
            return loss - float(part @ theta)

        total = sum(self.problem.each(hinge, range(len(self.problem.blocks))))
        return float(0.5 * self.problem.alpha * (theta @ theta) + total)

    def step(self, m: int) -> float:
        """Decode block m and move it towards its most violating outputs.

        Returns the block's gap before the step: the sum over all blocks at one theta is that
        between primal and dual.
        """
        theta, planes = self.theta, self.planes
        part, loss = self._most_violating(m, theta)
        gap = loss - planes.loss(m) - float((part - planes.parts[m]) @ theta)
        if gap <= 0.0:
            return 0.0
        planes.add(m, part, loss, self.problem.alpha)
        return gap


class _Descent:
    """One run: the dual point, the average of the iterates, and the last certificate."""

    def __init__(self, dual: HingeDual, monitor: Monitor, averaging: bool):
        self.dual, self.monitor, self.averaging = dual, monitor, averaging
        self.average = WeightedAverage(dual.problem.n_features)
        self.n_blocks = len(dual.problem.blocks)
        self.latest: tuple[Floats, float] | None = None  # certified last

    def run(self, rng: np.random.Generator, warm: bool) -> None:
        """Passes over the blocks until the monitor stops them."""
        monitor = self.monitor
        if self.certify(0) if warm else _record_zero(monitor, self.dual):
            return
        due = 1
        for iteration in range(1, monitor.max_iter + 1):
            gap = self.one_pass(rng)
            near = gap <= monitor.tolerance and not self.averaging
            final = iteration == monitor.max_iter or is_over()
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
            if is_over():
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
        return self.dual.objective(theta)


def _record_zero(monitor: Monitor, dual: HingeDual) -> bool:
    """The bounds at theta = 0, where no decoding is needed: a share is at most 1."""
    problem = dual.problem
    shares = all(block.offset is None for block in problem.blocks)
    objective = float(problem.weights.sum()) if shares else np.inf
    return monitor.record(0, dual.theta, dual=-dual.value(), primal=-objective)


def _share_of_wrong_nodes(block: Block) -> tuple[float, Floats]:
    """The loss of an output y of the block as constant + <scores, y>."""
    structure = block.structure
    constant, scores = structure.hamming_loss(block.observed)
    own = constant + block.observed.dot(scores)
    if abs(own) > 1e-9:
        raise ValueError(
            f"{type(structure).__name__}: the observed output has a loss of {own:.3g} against "
            "itself. If nodes with a capacity above 1 may use less of it, the share of wrong "
            "partners is not linear; fill all capacities (perfect=True) or use a CRF"
        )
    return constant, scores
