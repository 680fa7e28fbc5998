"""Yes/no answers: `MultiLabelCRF` beside scikit-learn, `IsingMRF` beside pseudo-likelihood.

    python -m benchmarks.multi_label [--quick]

* digits: features are the pixels of the upper half, labels are 12 patches of the lower half.
* tumours: features are the 10 mean measurements of scikit-learn's breast-cancer data, labels
  whether the 10 worst ones are above their medians.
* generated: `make_multilabel_classification`, 10 classes.

Half of the samples train, a quarter chooses the penalty from five by joint log-likelihood, a
quarter tests. Ten classifier chains of random orders; their likelihoods are averaged.

Ising models: 2,000 states of 9 variables, drawn exactly. Pseudo-likelihood is one logistic
regression a variable, the two estimates of a coupling averaged. Gaps to the maximum of the exact
likelihood, which BFGS finds over all 512 states.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks.measuring import command, show, timed
from mlestruct import IsingMRF, MultiLabelCRF

ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)
TINY = 1e-12


def digits() -> tuple[Any, Any]:
    drawn = load_digits().images
    lower = drawn[:, 4:, 1:7].reshape(-1, 4, 3, 2).mean(axis=3)
    return drawn[:, :4].reshape(len(drawn), -1), (lower.reshape(len(drawn), -1) > 6).astype(int)


def tumours() -> tuple[Any, Any]:
    table = load_breast_cancer().data
    return table[:, :10], (table[:, 20:] > np.median(table[:, 20:], axis=0)).astype(int)


def generated() -> tuple[Any, Any]:
    return make_multilabel_classification(
        1500, 20, n_classes=10, n_labels=3, allow_unlabeled=True, random_state=0
    )


# ---------------------------------------------------------------------- methods
def log_chance(p: Any, Y: Any) -> Any:
    """Logarithm of the probability of the observed answers."""
    return np.log(np.clip(np.where(Y == 1, p, 1 - p), TINY, 1.0))


class Independent:
    """One logistic regression a label."""

    def __init__(self, alpha: float):
        self.model = MultiOutputClassifier(LogisticRegression(C=1 / alpha, max_iter=2000))

    def fit(self, X: Any, Y: Any) -> Any:
        self.model.fit(X, Y)
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.stack([found[:, 1] for found in self.model.predict_proba(X)], axis=1)

    def log_likelihood(self, X: Any, Y: Any) -> Any:
        return log_chance(self.predict_proba(X), Y).sum(axis=1)


class Chains:
    """Ten classifier chains of random orders."""

    def __init__(self, alpha: float):
        base = LogisticRegression(C=1 / alpha, max_iter=2000)
        self.models = [ClassifierChain(base, order="random", random_state=k) for k in range(10)]

    def fit(self, X: Any, Y: Any) -> Any:
        for model in self.models:
            model.fit(X, Y)
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.mean([model.predict_proba(X) for model in self.models], axis=0)

    def log_likelihood(self, X: Any, Y: Any) -> Any:
        """By the chain rule, every label given the true ones before it."""
        totals = np.zeros((len(self.models), len(X)))
        for total, model in zip(totals, self.models, strict=True):
            for k, (label, own) in enumerate(zip(model.order_, model.estimators_, strict=True)):
                p = own.predict_proba(np.hstack([X, Y[:, model.order_[:k]]]))[:, 1]
                total += log_chance(p, Y[:, label])
        return logsumexp(totals, axis=0) - np.log(len(self.models))


METHODS: dict[str, Callable[[float], Any]] = {
    "logistic regressions": Independent,
    "ten classifier chains": Chains,
    "`MultiLabelCRF`, tree": lambda alpha: MultiLabelCRF(alpha, "tree"),
    "`MultiLabelCRF`, all pairs": lambda alpha: MultiLabelCRF(alpha, "full"),
}


def compare(name: str, X: Any, Y: Any, alphas: tuple[float, ...]) -> list[list[Any]]:
    """A row for every method."""
    order = np.random.default_rng(0).permutation(len(X))
    parts = np.split(order, [len(order) // 2, 3 * len(order) // 4])
    scaler = StandardScaler().fit(X[parts[0]])
    train, validate, test = ((scaler.transform(X[part]), Y[part]) for part in parts)
    rows, base = [], 0.0
    for method, make in METHODS.items():
        make(alphas[0]).fit(*train)  # compiles
        fits = [timed(lambda: make(alpha).fit(*train)) for alpha in alphas]  # noqa: B023
        k = int(np.argmax([model.log_likelihood(*validate).mean() for _, model in fits]))
        seconds, model = fits[k]
        base = base or seconds
        p = model.predict_proba(test[0])
        rows.append([name, method, f"{alphas[k]:g}", float(((p > 0.5) != test[1]).mean()),
                     float(((p > 0.5) == test[1]).all(axis=1).mean()),
                     float(model.log_likelihood(*test).mean()), seconds / base])  # fmt: skip
    return rows


# ---------------------------------------------------------------------- Ising models
def pseudo_likelihood(states: Any, edges: Any, alpha: float) -> Any:
    n = states.shape[1]
    fields, couplings = np.zeros(n), np.zeros(len(edges))
    for i in range(n):
        at = np.flatnonzero((edges == i).any(axis=1))
        model = LogisticRegression(C=1 / alpha, tol=1e-8, max_iter=1000)
        model.fit(states[:, edges[at].sum(axis=1) - i], states[:, i])
        fields[i] = model.intercept_[0]
        couplings[at] += 0.5 * model.coef_[0]
    return np.concatenate([fields, couplings])


def ising(n: int, n_frames: int, alpha: float = 0.01) -> list[list[Any]]:
    """Gaps of two graphs to the maximum of the exact likelihood."""
    pairs, rows = np.array(list(combinations(range(n), 2))), []
    answers = np.array(list(product([0, 1], repeat=n)))
    for name, share in (("a third of all pairs", 3), ("all pairs", 1)):
        rng = np.random.default_rng(n)
        ring = [(i, (i + 1) % n) for i in range(n)]  # every variable has neighbours
        drawn = [*map(tuple, rng.permutation(pairs)[: len(pairs) // share].tolist()), *ring]
        edges = np.array(sorted({(min(pair), max(pair)) for pair in drawn}))
        design = np.hstack([answers, answers[:, edges[:, 0]] * answers[:, edges[:, 1]]])
        truth = np.concatenate([rng.normal(-1, 0.5, n), rng.normal(0, 1.0, len(edges))])
        chance = np.exp(design @ truth - logsumexp(design @ truth))
        drawn = rng.choice(len(chance), n_frames, p=chance)
        mean, states = design[drawn].mean(axis=0), answers[drawn]
        penalty = np.where(np.arange(truth.size) < n, 0.01, 1.0) * alpha / n_frames

        def loss(theta: Any, mean: Any = mean, own: Any = penalty, d: Any = design) -> Any:
            log_z = logsumexp(d @ theta)
            value = log_z - theta @ mean + own / 2 @ theta**2
            return value, np.exp(d @ theta - log_z) @ d - mean + own * theta

        best = minimize(loss, np.zeros(truth.size), jac=True, method="BFGS", options={"gtol": 1e-8})
        IsingMRF(alpha, edges).fit(states)  # compiles
        ours, model = timed(lambda e=edges, s=states: IsingMRF(alpha, e).fit(s))
        theirs, theta = timed(lambda e=edges, s=states: pseudo_likelihood(s, e, alpha))
        for method, found, ratio in (("`IsingMRF`", model.coef_, ours / theirs),
                                     ("pseudo-likelihood", theta, 1.0)):  # fmt: skip
            gap = float(loss(found)[0] - best.fun)
            rows.append([name, method, gap, float(np.abs(found - best.x).max()), ratio])
    return rows


def run(quick: bool) -> None:
    sets = {"digits": digits, "tumours": tumours, "generated": generated}
    rows = []
    for name, draw in sets.items():
        X, Y = draw()
        if quick:
            X, Y = X[:120], Y[:120, :5]
        rows += compare(name, X, Y, (1.0, 10.0) if quick else ALPHAS)
        if quick:
            break
    show(
        "Labels of new samples",
        ["data", "method", "alpha", "Hamming loss", "all labels right", "joint log-likelihood",
         "CPU time of the fit, logistic = 1"],
        rows,
    )  # fmt: skip
    show(
        "Gaps to the maximum of the exact likelihood: of the log-likelihood of a state, and of the "
        "parameter that is furthest off",
        ["graph", "method", "log-likelihood", "parameter", "CPU time, pseudo-likelihood = 1"],
        ising(5 if quick else 9, 2_000),
    )


main = command(__doc__, run)

if __name__ == "__main__":
    main()
