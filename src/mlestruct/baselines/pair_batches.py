"""Bipartite samples for losses of dense score tables: what `RowSoftmax` and Sinkhorn share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..learning.problem import Block, DualProblem
from ..learning.result import Result, Stopping
from ..structures import BipartiteMatching
from .lbfgs import minimise
from .learner import RegularizedLearner

Floats = NDArray[np.float64]

ScoreLoss = Callable[[Floats], tuple[float, Floats]]
"""From scores of shape (n_samples, n_rows, n_cols) to the summed loss and its gradient."""


@dataclass(frozen=True)
class Batch:
    """Training samples of one shape, so that losses may be computed for all of them at once.

    features : ndarray of shape (n_samples * n_rows * n_cols, n_features)
    observed : ndarray of shape (n_samples, n_rows, n_cols), the sample's weight at observed pairs
    """

    features: Floats
    observed: Floats


class ScoreLossLearner(RegularizedLearner):
    """Minimises  sum of losses + alpha/2 |theta|^2  over theta, by L-BFGS.

    Subclasses define the loss of the scores and the marginals. The estimator is a
    `BipartiteMatchingCRF`; samples are dense arrays of shape (n_rows, n_cols, n_features).
    """

    estimator_: Any

    @abstractmethod
    def _score_loss(self, batch: Batch) -> ScoreLoss:
        """The loss of one batch as a function of its scores."""

    @abstractmethod
    def _marginals(self, scores: Floats) -> Floats:
        """Probabilities of the pairs of one sample, both of shape (n_rows, n_cols)."""

    def _algorithm(self) -> ScoreLBFGS:
        return ScoreLBFGS(type(self).__name__, self._score_loss)

    def predict_marginals(self, X: Any) -> list[Floats]:
        """The model's probability of every pair, per sample of shape (n_rows, n_cols)."""
        check_is_fitted(self, "estimator_")
        return [self._marginals(scores) for scores in self.estimator_.pair_scores(X)]


@dataclass(frozen=True)
class ScoreLBFGS:
    """L-BFGS on the summed losses of all batches; its warm state is a theta."""

    name: str
    score_loss: Callable[[Batch], ScoreLoss]

    def solve(
        self,
        problem: DualProblem,
        stopping: Stopping,
        warm: Floats | None = None,
        random_state: np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> Result:
        """Minimise; the gap is |gradient|^2 / (2 alpha), a bound if the loss is convex."""
        batches = make_batches(problem.blocks)
        parts = [(batch, self.score_loss(batch)) for batch in batches]

        def loss(theta: Floats) -> tuple[float, Floats]:
            total, gradient = 0.0, np.zeros_like(theta)
            for batch, score_loss in parts:
                value, slope = score_loss((batch.features @ theta).reshape(batch.observed.shape))
                total += value
                gradient += slope.ravel() @ batch.features
            return total, gradient

        result = minimise(problem, loss, stopping, self.name, warm, n_jobs)
        result.objective = -result.primal
        result.state = result.theta
        return result


def plain_matching(block: Block, m: int) -> BipartiteMatching:
    """The output space of a block, if it has two sides and one partner per node."""
    if not isinstance(block.structure, BipartiteMatching):
        raise ValueError(
            f"sample {m}: expected a matching of two sides with at most one partner per node; "
            "capacities other than 1 need BipartiteMatchingCRF itself"
        )
    return block.structure


def make_batches(blocks: Sequence[Block]) -> list[Batch]:
    """The blocks of complete samples, gathered by shape."""
    gathered: dict[tuple[int, int], list[tuple[Floats, Floats]]] = {}
    for m, block in enumerate(blocks):
        graph, matrix = plain_matching(block, m).graph, block.features.matrix
        if matrix is None or block.offset is not None or not graph.is_complete:
            raise ValueError(
                f"sample {m}: expected a dense array of shape (n_rows, n_cols, n_features) in "
                "which every pair is allowed, without mask or offset"
            )
        observed = np.zeros(block.structure.n_coordinates)
        observed[block.observed.indices] = block.weight * block.observed.values
        table = observed[: graph.n_edges].reshape(graph.shape)
        gathered.setdefault(graph.shape, []).append((matrix, table))
    return [
        Batch(np.concatenate([x for x, _ in members]), np.stack([table for _, table in members]))
        for members in gathered.values()
    ]
