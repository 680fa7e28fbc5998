"""The methods that are compared, and how they are tuned.

Whatever has to be chosen is chosen in the same way for every method: train on all training years
but the last, take the choice with the highest AUC on that last one, train again on all of them.
What the perceptron and the SVM learn depends so much on when they stop that a choice need not suit
more data, so the very weights that were best at choosing are evaluated as well ("as chosen").

For the CRF this is alpha; "as published" is a fit of its own, over the polytope of matchings, at
the paper's rho = 1 and alpha = 100. For the perceptron it is the number of passes and the decay of
its rate (the rate itself scales its weights and changes nothing else), for the SVM, the average of
its iterates, the regularisation and the number of passes. Both decode by the blossom algorithm.

The regularisation of the SVM is written as lambda/2 |theta|^2 + the mean of the years' hinge
losses, whose loss is the share of wrong roommates; alpha is then lambda times the number of years.
A matching of thousands cannot be predicted without errors, so theta = 0 is nearly the best that
the hinge loss can have.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ...baselines import StructuredPerceptron, StructuredSVM
from ...datasets import Campus
from ...learning.result import Progress
from ...models import MatchingCRF
from ..algorithm_one import solved_by_each
from ..parts import Setting
from .evaluation import Years, auc_of, evaluated

Floats = NDArray[np.float64]
ByPass = dict[int, Floats]
"""Weights after so many passes."""
Fit = Callable[[float, int, Years], ByPass]
"""From the strength of a parameter, the number of passes and the years to train on."""

PUBLISHED = "MLE, as published"  # matching polytope, rho = 1, alpha = 100
OURS = "MLE, rho=.95"
PERCEPTRON = "perceptron"
SVM = "SVM"
CONSTANT, TRUTH = "constant", "truth"
AS_CHOSEN = ", as chosen"  # weights of fewer years, not trained again


@dataclass(frozen=True)
class Trial:
    """A configuration that was tried, its weights, and their AUC in the last training year."""

    choice: tuple[float, ...]
    theta: Floats
    auc: float


def best_of(trials: Sequence[Trial]) -> Trial:
    """The first of those with the highest AUC."""
    return max(trials, key=lambda trial: trial.auc)


def fitted(model: Any, years: Years) -> Any:
    """The baselines stop after their passes, which is as it should be."""
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return model.fit(years.X, years.Y)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result and the CPU seconds that it took."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def ours(campus: Campus, setting: Setting) -> dict[str, Any]:
    """Maximum likelihood as published, and at the alpha that AUC chooses."""
    years, tol = Years.of(campus), setting["tol"]
    train = years[:-1]

    model = MatchingCRF(rho=0.95, tol=tol)

    def tune() -> list[Trial]:
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            path = model.fit_path(years[:-2].X, years[:-2].Y, setting["alphas"])
        return [
            Trial((alpha,), each.coef_, auc_of(train, each.coef_))
            for alpha, each in zip(path.alphas, path.estimators, strict=True)
        ]

    trials, spent = timed(tune)
    best, methods = best_of(trials), {}
    model.set_params(alpha=best.choice[0])
    for name, each in {PUBLISHED: published_model(tol), OURS: model}.items():
        _, seconds = timed(partial(fitted, each, train))
        tuned_over = f" of {len(trials)}, {spent:.0f} s" if name == OURS else ""
        note = f"alpha {each.alpha:g}{tuned_over}"
        methods[name] = evaluated(years, each.coef_, note, seconds=seconds)
    methods[OURS + AS_CHOSEN] = evaluated(years, best.theta, validation=best.auc)
    return {"methods": methods}


def published_model(tol: float) -> MatchingCRF:
    """The paper's model: exact decoding, rho = 1, lambda = 100."""
    return MatchingCRF(alpha=100.0, rho=1.0, polytope="exact", tol=tol)


def algorithms(campus: Campus, setting: Setting) -> dict[str, Any]:
    """Algorithm 1 beside auto on the paper's model."""
    train = Years.of(campus)[:-1]
    seconds = setting["algorithms"]["seconds"]
    return solved_by_each(published_model(setting["tol"]), train.X, train.Y, seconds)


def not_learned(campus: Campus) -> dict[str, Any]:
    """Weight -1 for every difference and 0 for all else; the truth."""
    years = Years.of(campus)
    constant = np.where(np.arange(years.X[0].n_features) < _differences(years), -1.0, 0.0)
    truth = np.asarray(campus.true_theta)
    shortest = years.X[0].shortest_equivalent(truth)
    return {
        "methods": {
            CONSTANT: evaluated(years, constant),
            TRUTH: evaluated(years, truth),
        },
        "questions": [question.name for question in campus.questions],
        "students": [len(partner) for partner in years.Y],
        "true_weights": shortest[: _differences(years)].tolist(),
    }


def _differences(years: Years) -> int:
    return int(years.X[0].ordinal.sum())


def perceptron(campus: Campus, setting: Setting) -> dict[str, Any]:
    """The averaged perceptron, for all decays and numbers of passes."""
    decays, passes = setting["perceptron_decays"], setting["perceptron_passes"]
    return tuned(campus, PERCEPTRON, perceptron_by_pass, "decay", decays, passes)


def svm(campus: Campus, lambdas: Sequence[float], setting: Setting) -> dict[str, Any]:
    """The structured SVM, for all of these lambdas and numbers of passes."""
    passes = range(1, setting["svm_passes"] + 1)
    return tuned(campus, SVM, svm_by_pass, "lambda", lambdas, passes)


def tuned(
    campus: Campus,
    name: str,
    fit: Fit,
    parameter: str,
    strengths: Sequence[float],
    passes: Sequence[int],
) -> dict[str, Any]:
    """A method for all values of its parameter and all numbers of passes."""
    years = Years.of(campus)
    train = years[:-1]

    def tune() -> list[Trial]:
        return [
            Trial((strength, count), theta, auc_of(train, theta))
            for strength in strengths
            for count, theta in fit(strength, max(passes), years[:-2]).items()
            if count in passes
        ]

    tried, spent = timed(tune)
    best = best_of(tried)
    strength, count = best.choice[0], int(best.choice[1])
    by_pass, seconds = timed(partial(fit, strength, count, train))
    note = f"{parameter} {strength:g}, passes {count} of {len(tried)}, {spent:.0f} s"
    kept = {"validation": best.auc}
    methods = {
        name: evaluated(years, by_pass[max(by_pass)], note, seconds=seconds, **kept),
        name + AS_CHOSEN: evaluated(years, best.theta, note, **kept),
    }
    return {"methods": methods}


def perceptron_by_pass(decay: float, passes: int, years: Years) -> ByPass:
    """Averaged weights after each pass."""
    by_pass: ByPass = {}
    crf = MatchingCRF(polytope="exact", random_state=0, callback=_keep_in(by_pass))
    model = StructuredPerceptron(crf, max_iter=passes, decay=decay)
    fitted(model, years)
    return by_pass


def svm_by_pass(strength: float, passes: int, years: Years) -> ByPass:
    """Averaged weights after the passes at which the objective was measured."""
    by_pass: ByPass = {}
    crf = MatchingCRF(
        alpha=strength * len(years),
        polytope="exact",
        max_iter=passes,
        tol=1e-12,  # so that it makes all its passes
        random_state=0,
        callback=_keep_in(by_pass),
    )
    fitted(StructuredSVM(crf, averaging=True), years)
    return by_pass


def _keep_in(by_pass: ByPass) -> Callable[[Progress], None]:
    """A callback that keeps the weights after every pass that it sees."""

    def keep(progress: Progress) -> None:
        if progress.iteration > 0:
            by_pass[progress.iteration] = progress.theta.copy()

    return keep
