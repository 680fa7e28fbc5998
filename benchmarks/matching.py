"""Learning assignments: `BipartiteMatchingCRF` beside a row-wise softmax and Sinkhorn.

    python -m benchmarks.matching [--quick]

Landmarks of two views of a solid, 30 x 30 pairs with 60 features. The rivals are written in NumPy
and fitted by SciPy's L-BFGS with the same penalty:

* the row-wise softmax ignores that two rows cannot have the same partner;
* Sinkhorn (inverse entropic optimal transport): 20 normalisations of rows and columns; converged,
  its objective is the one of rho = 1/2.

Every method chooses alpha from four on held-out pairs. Errors and log losses are of other pairs;
predictions are assignments with the largest sum of scores.

The second table has the error of marginals at given scores: the largest error of a pair, beside the
exact probabilities by enumeration of all 720 assignments of 6 x 6.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import log_softmax
from scipy.special import softmax as normalised

from benchmarks.measuring import command, show, timed
from mlestruct import BipartiteMatchingCRF
from mlestruct.datasets import LandmarkSequence, frame_pairs, make_landmark_sequence
from mlestruct.inference import marginals
from mlestruct.structures import BipartiteMatching

ALPHAS = (1e3, 1e2, 1e1, 1.0)


def landmarks(n_samples: int, gap: int = 20) -> list[tuple[Any, Any]]:
    """Pairs to learn from, to choose alpha by, and to test with, in a common scale."""
    parts = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        turn = make_landmark_sequence(n_frames=n_samples + gap, noise=0.015, random_state=0)
        noisy = turn.points + 0.01 * rng.normal(size=turn.points.shape)
        pairs = frame_pairs(LandmarkSequence(noisy), gap, random_state=seed)
        parts.append((np.array(pairs.X), np.array(pairs.Y)))
    scale = parts[0][0].std(axis=(0, 1, 2)).mean()
    return [(X / scale, Y) for X, Y in parts]


def softmax(scores: Any) -> tuple[Any, Any]:
    """Logarithms of probabilities of every row, and log Z of every table."""
    log_p = log_softmax(scores, axis=2)
    return log_p, (scores - log_p).mean(axis=2).sum(axis=1)


def sinkhorn(scores: Any) -> tuple[Any, Any]:
    """Logarithms of the matrix after 20 normalisations, and the value of the transport problem."""
    log_p = scores
    for _ in range(20):
        log_p = log_softmax(log_softmax(log_p, axis=2), axis=1)
    return log_p, (np.exp(log_p) * (scores - log_p)).sum(axis=(1, 2))


def fitted(answer: Callable[[Any], tuple[Any, Any]], X: Any, Y: Any, alpha: float) -> Any:
    """Weights that maximise the penalised likelihood."""
    truth = np.eye(X.shape[2])[Y]

    def loss(theta: Any) -> tuple[float, Any]:
        scores = X @ theta
        log_p, log_z = answer(scores)
        value = log_z.sum() - (truth * scores).sum() + alpha / 2 * theta @ theta
        return value, np.tensordot(np.exp(log_p) - truth, X, 3) + alpha * theta

    found = minimize(loss, np.zeros(X.shape[3]), jac=True, method="L-BFGS-B",
                     options={"ftol": 1e-9, "maxiter": 1000})  # fmt: skip
    return found.x


class Rival:
    """The two methods that are used here of an estimator."""

    def __init__(self, answer: Callable[[Any], tuple[Any, Any]], alpha: float):
        self.answer, self.alpha = answer, alpha

    def fit(self, X: Any, Y: Any) -> Rival:
        self.coef_ = fitted(self.answer, X, Y, self.alpha)
        return self

    def predict_marginals(self, X: Any) -> Any:
        return np.exp(self.answer(X @ self.coef_)[0])


METHODS: dict[str, Callable[[float], Any]] = {
    "`BipartiteMatchingCRF`, rho = .95": lambda alpha: BipartiteMatchingCRF(alpha=alpha),
    "`BipartiteMatchingCRF`, rho = .5": lambda alpha: BipartiteMatchingCRF(alpha=alpha, rho=0.5),
    "row-wise softmax": lambda alpha: Rival(softmax, alpha),
    "Sinkhorn": lambda alpha: Rival(sinkhorn, alpha),
}


def log_loss(tables: Any, Y: Any) -> float:
    """Mean over pairs of -log of the probability of what is true of the pair."""
    tables = np.clip(np.array(tables), 1e-12, 1.0 - 1e-12)
    truth = np.eye(tables.shape[2])[Y]
    return float(-np.log(np.where(truth == 1, tables, 1.0 - tables)).mean())


def errors_of_marginals(spread: float, n_tables: int, n: int = 6) -> list[float]:
    """Means over tables of the largest error of a pair: rho = .5, .95 and 1, row-wise softmax."""
    rng = np.random.default_rng(0)
    outputs = np.array([np.eye(n)[list(own)] for own in permutations(range(n))])
    errors = []
    for _ in range(n_tables):
        scores = spread * rng.normal(size=(n, n))
        exact = np.tensordot(normalised((outputs * scores).sum(axis=(1, 2))), outputs, 1)
        tables = [marginals(BipartiteMatching((n, n), rho), scores.ravel(), tol=1e-8).tau
                  for rho in (0.5, 0.95, 1.0)]  # fmt: skip
        tables.append(normalised(scores, axis=1))
        errors.append([np.abs(np.reshape(tau, (n, n)) - exact).max() for tau in tables])
    return list(np.mean(errors, axis=0))


def run(quick: bool) -> None:
    train, held_out, test = landmarks(6 if quick else 60)
    for make in METHODS.values():
        for alpha in ALPHAS:
            make(alpha).fit(train[0][:4], train[1][:4]).predict_marginals(train[0][:4])  # compiles
    rows, seconds = [], {}
    for name, make in METHODS.items():
        seconds[name], models = timed(lambda: [make(alpha).fit(*train) for alpha in ALPHAS])  # noqa: B023
        losses = [log_loss(model.predict_marginals(held_out[0]), held_out[1]) for model in models]
        best = models[int(np.argmin(losses))]
        tables = np.array(best.predict_marginals(test[0]))
        columns = [linear_sum_assignment(x @ best.coef_, maximize=True)[1] for x in test[0]]
        excess = np.abs(tables.sum(axis=1) - 1.0).mean()
        rows.append([name, f"{best.alpha:g}", float(np.mean(np.array(columns) != test[1])),
                     log_loss(tables, test[1]), float(excess)])  # fmt: skip
    for row in rows:
        row.append(seconds[row[0]] / seconds["Sinkhorn"])
    show(
        f"{len(train[0])} samples of 30 x 30 landmarks, 60 features, fitted at four alphas; "
        "column sums of probabilities should be 1",
        ["", "alpha", "wrong pairs", "log loss", "error of column sums",
         "CPU time of the fits, Sinkhorn = 1"],
        rows,
    )  # fmt: skip
    spreads, n_tables = ((1.0,), 2) if quick else ((0.5, 1.0, 2.0, 4.0), 50)
    show(
        f"Largest error of the probability of a pair, mean of {n_tables} random tables of 6 x 6 "
        "scores with this standard deviation; rho = .5 is Sinkhorn's",
        ["standard deviation", "rho = .5", "rho = .95", "rho = 1", "row-wise softmax"],
        [[f"{spread:g}", *errors_of_marginals(spread, n_tables)] for spread in spreads],
    )


main = command(__doc__, run)

if __name__ == "__main__":
    main()
