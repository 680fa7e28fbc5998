"""What the baselines share: dense samples in, assignments out, L-BFGS on a penalised loss.

A baseline differs from the others only in its loss of the scores and in what it calls marginals;
features, penalty, stopping rule and decoding are the same for all.
"""

from __future__ import annotations

import time
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linear_sum_assignment, minimize
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..labels import check_partners
from ..models.pairs import read_sample
from ..models.validation import check_positive, check_same_length, check_samples

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ScoreLoss = Callable[[Floats], tuple[float, Floats]]
"""From scores of shape (n_samples, n_rows, n_cols) to the summed loss and its gradient."""


@dataclass(frozen=True)
class Batch:
    """Training samples of one shape, so that losses may be computed for all of them at once.

    features : ndarray of shape (n_samples * n_rows * n_cols, n_features)
    shape : (n_samples, n_rows, n_cols)
    observed : ndarray of shape (n_samples * min(n_rows, n_cols),), the observed pairs as indices
        into the flattened scores
    """

    features: Floats
    shape: tuple[int, int, int]
    observed: Ints


class MatchingBaseline(BaseEstimator, metaclass=ABCMeta):
    """Base of the baselines: minimise  sum of losses + alpha/2 |theta|^2  over theta.

    Subclasses store `alpha`, `max_iter` and `tol`, and say what the loss of the scores is.

    Notes
    -----
    X is a sequence of arrays of shape (n_rows, n_cols, n_features) whose sizes may differ. Y holds
    for each sample the partner column of every row; every node of the smaller side has a partner,
    rows left over have -1.

    `tol` bounds |gradient|^2 / (2 alpha) relative to max(1, |loss|). For a convex loss that is a
    bound of the suboptimality, the same promise as the `tol` of the library's own estimators.
    """

    alpha: float
    max_iter: int
    tol: float

    @abstractmethod
    def _score_loss(self, batch: Batch) -> ScoreLoss:
        """The loss of one batch as a function of its scores; it may keep state between calls."""

    @abstractmethod
    def _marginals(self, scores: Floats) -> Floats:
        """Probabilities of the pairs of one sample, both of shape (n_rows, n_cols)."""

    def _check_parameters(self) -> None:
        """Raise if a parameter is out of range. Subclasses check their own, then these."""
        check_positive(self.alpha, "alpha")
        check_positive(self.tol, "tol")
        check_count(self.max_iter, "max_iter")

    # ------------------------------------------------------------------ fitting
    def fit(self, X: Any, Y: Any) -> Any:
        """Learn `coef_` from samples X and their observed matchings Y.

        Returns
        -------
        self
        """
        self._check_parameters()
        samples = check_samples(X)
        batches = _read_batches(samples, check_same_length(samples, Y))
        self.n_features_in_ = batches[0].features.shape[1]
        parts = [(batch, self._score_loss(batch)) for batch in batches]
        self._minimise(parts)
        self._summarise([loss for _, loss in parts])
        return self

    def _summarise(self, losses: Sequence[ScoreLoss]) -> None:
        """Keep what the losses have to tell after the fit; the last call was at `coef_`."""

    def _minimise(self, parts: Sequence[tuple[Batch, ScoreLoss]]) -> None:
        alpha = float(self.alpha)
        start = time.perf_counter()
        history: list[tuple[float, float]] = []
        last: dict[str, Any] = {}

        def evaluate(theta: Floats) -> tuple[float, Floats]:
            loss = 0.5 * alpha * float(theta @ theta)
            gradient = alpha * theta
            for batch, score_loss in parts:
                value, slope = score_loss((batch.features @ theta).reshape(batch.shape))
                loss += value
                gradient += slope.ravel() @ batch.features
            last.update(theta=theta.copy(), loss=loss, gradient=gradient)
            if not history:
                history.append((time.perf_counter() - start, loss))
            return loss, gradient

        def small(loss: float, gradient: Floats) -> bool:
            bound = float(gradient @ gradient) / (2.0 * alpha)
            return bound <= float(self.tol) * max(1.0, abs(loss))

        def callback(intermediate_result: OptimizeResult) -> None:
            history.append((time.perf_counter() - start, float(intermediate_result.fun)))
            # The step just accepted is the one evaluated last.
            if small(last["loss"], last["gradient"]):
                raise StopIteration

        found = minimize(
            evaluate,
            np.zeros(self.n_features_in_),
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            # `small` is the only stopping rule but for max_iter and a line search that can not
            # improve the loss in floating point.
            options={
                "maxiter": int(self.max_iter),
                "maxfun": 20 * int(self.max_iter),
                "maxcor": 20,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
        if not np.array_equal(found.x, last["theta"]):
            evaluate(found.x)
        self.coef_ = found.x
        self.objective_ = float(last["loss"])
        self.n_iter_ = int(found.nit)
        self.n_evaluations_ = int(found.nfev)
        self.seconds_ = time.perf_counter() - start
        self.history_ = history
        self.converged_ = small(last["loss"], last["gradient"])
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__}: stopped after {self.n_iter_} iterations without meeting "
                f"tol={self.tol:g} ({found.message}). Raise max_iter or loosen tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    # ------------------------------------------------------------------ prediction
    def _scores(self, X: Any) -> list[Floats]:
        check_is_fitted(self, "coef_")
        tables = []
        for m, x in enumerate(check_samples(X)):
            matrix, shape = _read_dense(x, f"X[{m}]")
            if matrix.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X[{m}] has {matrix.shape[1]} features, but {type(self).__name__} was "
                    f"fitted with {self.n_features_in_}"
                )
            tables.append((matrix @ self.coef_).reshape(shape))
        return tables

    def predict(self, X: Any) -> list[Ints]:
        """The matching of the largest total score of each sample.

        Returns
        -------
        list of ndarray of shape (n_rows,), the partner column of every row, -1 for rows left over.
        """
        return [_assign(scores) for scores in self._scores(X)]

    def predict_marginals(self, X: Any) -> list[Floats]:
        """The model's probability of every pair, per sample of shape (n_rows, n_cols)."""
        return [self._marginals(scores) for scores in self._scores(X)]

    def score(self, X: Any, Y: Any) -> float:
        """1 - mean Hamming loss per sample."""
        samples = check_samples(X)
        labels = check_same_length(samples, Y)
        losses = []
        for m, (found, label) in enumerate(zip(self.predict(samples), labels, strict=True)):
            truth = np.asarray(label)
            if truth.shape != found.shape:
                raise ValueError(f"Y[{m}]: expected shape {found.shape}, got {truth.shape}")
            losses.append(float(np.mean(found != truth)))
        return 1.0 - float(np.mean(losses))


def check_count(value: Any, name: str) -> int:
    """`value` as a positive int."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def _read_dense(x: Any, where: str) -> tuple[Floats, tuple[int, int]]:
    """Features of shape (n_rows * n_cols, n_features) of a complete sample, and its shape."""
    sample = read_sample(x, where)
    matrix = sample.features.matrix
    if matrix is None or sample.offset is not None or not sample.graph.is_complete:
        raise ValueError(
            f"{where}: baselines take dense arrays of shape (n_rows, n_cols, n_features) in which "
            "every pair is allowed, without mask or offset"
        )
    return matrix, (sample.graph.n_rows, sample.graph.n_cols)


def _read_batches(samples: Sequence[Any], labels: Sequence[Any]) -> list[Batch]:
    """Validated samples, gathered by shape."""
    gathered: dict[tuple[int, int], list[tuple[Floats, Ints]]] = {}
    n_features = 0
    for m, (x, label) in enumerate(zip(samples, labels, strict=True)):
        matrix, (n_rows, n_cols) = _read_dense(x, f"X[{m}]")
        if m == 0:
            n_features = matrix.shape[1]
        elif matrix.shape[1] != n_features:
            raise ValueError(f"X[{m}] has {matrix.shape[1]} features, X[0] has {n_features}")
        partner = check_partners(label, n_rows, n_cols, True, f"Y[{m}]")
        rows = np.flatnonzero(partner >= 0)
        pairs = rows * n_cols + partner[rows]
        gathered.setdefault((n_rows, n_cols), []).append((matrix, pairs))
    batches = []
    for (n_rows, n_cols), members in gathered.items():
        observed = [pairs + k * n_rows * n_cols for k, (_, pairs) in enumerate(members)]
        batches.append(
            Batch(
                np.concatenate([matrix for matrix, _ in members]),
                (len(members), n_rows, n_cols),
                np.concatenate(observed),
            )
        )
    return batches


def _assign(scores: Floats) -> Ints:
    partner = np.full(scores.shape[0], -1, dtype=np.int64)
    rows, cols = linear_sum_assignment(scores, maximize=True)
    partner[rows] = cols
    return partner
