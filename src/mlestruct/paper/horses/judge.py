"""What weights are worth: errors on test pictures, and their likelihood. Nothing is timed here."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ...algorithms.pairwise.grid_message_passing import in_linear_range
from ...learning import DualProblem
from ...models import GridCRF
from .data import Data

Floats = NDArray[np.float64]

SWEEPS = 30  # of message passing
FEW_SWEEPS = 5  # where scores are so large that sweeps are slow, and marginals all but 0 and 1


class Judge:
    """Predictions and likelihood of any weights.

    Works on blocks instead of calling the estimator, to bound the sweeps: weights far from the
    optimum would take thousands, and their errors do not depend on the last digits.
    """

    def __init__(self, data: Data):
        self.data = data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fitted to know the two states
            self.model = GridCRF(alpha=data.setting["alpha"], max_iter=1).fit(*data.tiny())

    def marginals(self, image: Any, theta: Floats) -> Floats:
        """P(figure) of every pixel."""
        block = self.model._prepare([self.data.sample(image)])[0]
        found = self._marginals(block, block.scores(theta), 1e-4)
        out: Floats = found.tau[: block.structure.graph.n_nodes].reshape(image.shape[:2])
        return out

    def errors(self, indices: Sequence[int], thetas: Sequence[Floats]) -> Floats:
        """Shares of wrong pixels, MAP and marginals, shape (n_pictures, n_thetas, 2)."""
        return np.array(self.each(lambda k: self._errors_of(k, thetas), indices))

    def path(self, index: int, thetas: Sequence[Floats]) -> Floats:
        """The same for many weights and one picture, shape (n_thetas, 2)."""
        return np.array(self.each(lambda theta: self._errors_of(index, [theta])[0], thetas))

    def _errors_of(self, index: int, thetas: Sequence[Floats]) -> list[tuple[float, float]]:
        images, masks = self.data.pictures([index])
        block = self.model._prepare([self.data.sample(images[0])])[0]
        truth = masks[0].ravel()
        found = []
        for theta in thetas:
            scores = block.scores(theta)
            label = block.structure.best_label(scores)
            above = self._marginals(block, scores, 1e-4).tau[: truth.shape[0]] > 0.5
            found.append((float(np.mean(label != truth)), float(np.mean(above != truth))))
        return found

    def problem(self, X: Sequence[Any], Y: Sequence[Any]) -> DualProblem:
        return self.model.build_problem(X, Y)

    def likelihood(self, problem: DualProblem, theta: Floats) -> float:
        """A proven lower bound of P(theta), the regularised approximate log-likelihood."""

        def log_partition(block: Any) -> float:
            bound = self._marginals(block, block.scores(theta), 1e-6).upper_bound
            return float(block.weight * bound)

        return float(problem.primal(theta, sum(self.each(log_partition, problem.blocks))))

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """On all cores."""
        with (
            threadpool_limits(limits=1, user_api="blas"),
            ThreadPoolExecutor(os.cpu_count()) as pool,
        ):
            return list(pool.map(function, items))

    def _marginals(self, block: Any, scores: Floats, tol: float) -> Any:
        structure = block.structure
        n_sweeps = SWEEPS if in_linear_range(structure.graph.grid_shape, scores) else FEW_SWEEPS
        return structure.marginals(scores, None, tol * structure.n_coordinates, n_sweeps)
