"""Multi-label classification: `MultiLabelCRF` beside scikit-learn and a structured SVM.

    python -m benchmarks.multi_label                 # three sets, about five minutes
    python -m benchmarks.multi_label --sets digits   # one of them
    python -m benchmarks.record multi_label          # the tables of docs/yes_no_answers.md

* digits: scikit-learn's digits. Features are the pixels of the upper half, labels are 12 patches of
  the lower half, dark or not.
* tumours: scikit-learn's breast-cancer data. Features are the 10 mean measurements, labels whether
  the 10 worst ones are above their medians.
* generated: `make_multilabel_classification`, 10 classes.

Every method chooses its penalty from the same five on the same validation samples: those with
probabilities by their joint log-likelihood, the structured SVM by its Hamming loss. Classifier
chains are ten of random orders; their probabilities are averaged, and so are their likelihoods.
Half of the samples train, a quarter each validates and tests. Seconds are CPU time of the fit with
the chosen penalty.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.record import show
from mlestruct import MultiLabelCRF
from mlestruct.baselines import StructuredSVM
from mlestruct.metrics import reliability

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)
N_CHAINS = 10
TINY = 1e-12


def digits() -> tuple[Floats, Ints]:
    """Upper halves, and 4 x 3 patches of the lower halves."""
    images = load_digits().images
    lower = images[:, 4:, 1:7].reshape(-1, 4, 3, 2).mean(axis=3)
    return images[:, :4].reshape(len(images), -1), (lower.reshape(len(images), -1) > 6).astype(int)


def tumours() -> tuple[Floats, Ints]:
    """Mean measurements, and which of the worst ones are above their medians."""
    table = load_breast_cancer().data
    return table[:, :10], (table[:, 20:] > np.median(table[:, 20:], axis=0)).astype(int)


def generated() -> tuple[Floats, Ints]:
    """Bags of words of several classes."""
    X, Y = make_multilabel_classification(
        1500, 20, n_classes=10, n_labels=3, allow_unlabeled=True, random_state=0
    )
    return X, Y


SETS: dict[str, Callable[[], tuple[Floats, Ints]]] = {
    "digits": digits, "tumours": tumours, "generated": generated,
}  # fmt: skip


@dataclass
class Answer:
    """Predictions of one fitted method."""

    labels: Ints
    probabilities: Floats | None = None
    log_likelihood: Floats | None = None


Method = Callable[[float, Floats, Ints], Callable[[Floats, Ints], Answer]]


def independent(alpha: float, X: Floats, Y: Ints) -> Callable[[Floats, Ints], Answer]:
    """One logistic regression per label."""
    fitted = MultiOutputClassifier(LogisticRegression(C=1 / alpha, max_iter=2000)).fit(X, Y)

    def answer(X: Floats, Y: Ints) -> Answer:
        p = np.stack([found[:, 1] for found in fitted.predict_proba(X)], axis=1)
        chosen = np.clip(np.where(Y == 1, p, 1 - p), TINY, 1.0)
        return Answer((p > 0.5).astype(int), p, np.log(chosen).sum(axis=1))

    return answer


def chains(alpha: float, X: Floats, Y: Ints) -> Callable[[Floats, Ints], Answer]:
    """Ten classifier chains of random orders."""
    base = LogisticRegression(C=1 / alpha, max_iter=2000)
    fitted = [
        ClassifierChain(base, order="random", random_state=k).fit(X, Y) for k in range(N_CHAINS)
    ]

    def answer(X: Floats, Y: Ints) -> Answer:
        p = np.mean([chain.predict_proba(X) for chain in fitted], axis=0)
        joint = logsumexp([chain_likelihood(chain, X, Y) for chain in fitted], axis=0)
        return Answer((p > 0.5).astype(int), p, joint - np.log(N_CHAINS))

    return answer


def chain_likelihood(chain: ClassifierChain, X: Floats, Y: Ints) -> Floats:
    """log p(y | x) by the chain rule, every label given the true ones before it."""
    total = np.zeros(len(X))
    for k, (label, model) in enumerate(zip(chain.order_, chain.estimators_, strict=True)):
        p = model.predict_proba(np.hstack([X, Y[:, chain.order_[:k]]]))[:, 1]
        total += np.log(np.clip(np.where(Y[:, label] == 1, p, 1 - p), TINY, 1.0))
    return total


def crf(graph: str, decision: str) -> Method:
    """`MultiLabelCRF`."""

    def fit(alpha: float, X: Floats, Y: Ints) -> Callable[[Floats, Ints], Answer]:
        fitted = MultiLabelCRF(graph, alpha, decision=decision).fit(X, Y)
        return lambda X, Y: Answer(
            fitted.predict(X), fitted.predict_proba(X), fitted.log_likelihood(X, Y)
        )

    return fit


def svm(alpha: float, X: Floats, Y: Ints) -> Callable[[Floats, Ints], Answer]:
    """The structured SVM of the complete graph; it has no probabilities."""
    fitted = StructuredSVM(MultiLabelCRF("full", alpha, tol=0.01, max_iter=50)).fit(X, Y)
    return lambda X, Y: Answer(np.asarray(fitted.predict(X)))


METHODS: dict[str, Method] = {
    "logistic": independent,
    "10 chains": chains,
    "CRF tree, marginals": crf("tree", "marginal"),
    "CRF full, marginals": crf("full", "marginal"),
    "CRF full, MAP": crf("full", "map"),
    "structured SVM": svm,
}


def split(X: Floats, Y: Ints, n_samples: int | None) -> list[tuple[Floats, Ints]]:
    """Training, validation and test samples, scaled by the first."""
    order = np.random.default_rng(0).permutation(len(X))[:n_samples]
    half, quarter = len(order) // 2, len(order) // 4
    parts = [order[:half], order[half : half + quarter], order[half + quarter :]]
    scaler = StandardScaler().fit(X[parts[0]])
    return [(scaler.transform(X[part]), Y[part]) for part in parts]


def measure(
    name: str, n_samples: int | None, alphas: Sequence[float]
) -> dict[str, dict[str, float]]:
    """Results of all methods on one set."""
    train, validate, test = split(*SETS[name](), n_samples)
    rows = {}
    for method, fit in METHODS.items():
        best, quality = alphas[0], -np.inf
        for alpha in alphas:
            answer = fit(alpha, *train)(*validate)
            found = -hamming(answer, validate[1])
            if answer.log_likelihood is not None:
                found = float(answer.log_likelihood.mean())
            if found > quality:
                best, quality = alpha, found
        start = time.process_time()
        fitted = fit(best, *train)
        seconds = time.process_time() - start
        answer = fitted(*test)
        p, joint = answer.probabilities, answer.log_likelihood
        rows[method] = {
            "alpha": best,
            "hamming": hamming(answer, test[1]),
            "subset": float((answer.labels == test[1]).all(axis=1).mean()),
            "likelihood": np.nan if joint is None else float(joint.mean()),
            "ece": np.nan if p is None else reliability(p.ravel(), test[1].ravel()).ece,
            "seconds": seconds,
        }  # fmt: skip
    return rows


def hamming(answer: Answer, Y: Ints) -> float:
    return float((answer.labels != Y).mean())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--samples", type=int, help="at most, of each set")
    parser.add_argument("--alphas", nargs="+", type=float, default=list(ALPHAS))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.sets:
        X, Y = SETS[name]()
        with threadpool_limits(1):  # threads that wait for small products count as CPU time
            rows = measure(name, options.samples, options.alphas)
        show(
            f"{name}: {len(X)} samples, {X.shape[1]} features, {Y.shape[1]} labels",
            ["", "alpha", "Hamming loss", "all labels right", "joint log-likelihood",
             "calibration error", "CPU s"],
            [[method, f"{row['alpha']:g}", row["hamming"], row["subset"], row["likelihood"],
              row["ece"], row["seconds"]] for method, row in rows.items()],
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
