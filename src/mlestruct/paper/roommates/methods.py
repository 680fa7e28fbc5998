"""The methods that are compared, and how they are tuned.

Whatever has to be chosen is chosen in the same way for every method: train on all training years
but the last, take the choice with the highest AUC on that last one, train again on all of them.
What the perceptron and the SVM learn depends so much on when they stop that a choice need not suit
more data, so the very weights that were best at choosing are evaluated as well ("as chosen").

For the CRF this is alpha (chosen at rho = .95, used at rho = 1 as well). AUC measures rankings and
prefers weights that are shrunk too much, most of all those of rare answers; the weights themselves
are therefore read at the alpha with the largest likelihood of the last training year ("by
likelihood"). For the perceptron it is the number of passes and the decay of its rate (the rate
itself scales its weights and changes nothing else), for the SVM the regularisation and the number
of passes. Both of these decode exactly, by the blossom algorithm.

The regularisation of the SVM is written as lambda/2 |theta|^2 + the mean of the years' hinge
losses, whose loss is the share of wrong roommates; alpha is then lambda times the number of years.
A matching of thousands cannot be predicted without errors, so theta = 0 is nearly the best that
the hinge loss can have. The SVM is therefore shown as the average of its iterates, at its last
iterate, and where its objective was best.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
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
from ..parts import Setting
from .evaluation import Years, auc_of, evaluated

Floats = NDArray[np.float64]
ByPass = dict[int, Floats]
"""Weights after so many passes."""
Fit = Callable[[float, int, Years], ByPass]
"""From the strength of a parameter, the number of passes and the years to train on."""

OURS, BETHE = "MLE, rho=.95", "MLE, rho=1"
LIKELY = "MLE, by likelihood"  # at the alpha with the largest held-out likelihood
PERCEPTRON = "perceptron"
SVM, SVM_LAST, SVM_OPTIMUM = "SVM, averaged", "SVM, last iterate", "SVM, best objective"
CONSTANT, TRUTH = "constant", "truth"
AS_CHOSEN = ", as chosen"  # weights of fewer years, not trained again

RHO = 0.95


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


# ---------------------------------------------------------------------- maximum likelihood
def ours(campus: Campus, setting: Setting) -> dict[str, Any]:
    """Maximum likelihood at the alphas that AUC and likelihood choose."""
    years, tol = Years.of(campus), setting["tol"]
    train, before, last = years[:-1], years[:-2], years[-2:-1]

    def tune() -> tuple[list[Trial], list[float], int]:
        path = alpha_path(before, setting)
        trials = [
            Trial((alpha,), model.coef_, auc_of(train, model.coef_))
            for alpha, model in zip(path.alphas, path.estimators, strict=True)
        ]
        likelihoods = [
            float(model.approximate_log_likelihood(last.X, last.Y)[0]) for model in path.estimators
        ]
        return trials, likelihoods, sum(not model.converged_ for model in path.estimators)

    (trials, likelihoods, unfinished), spent = timed(tune)
    best = best_of(trials)
    (likely,) = trials[int(np.argmax(likelihoods))].choice
    alpha, methods = best.choice[0], {}
    for name, strength, rho in ((OURS, alpha, RHO), (BETHE, alpha, 1.0), (LIKELY, likely, RHO)):
        model = MatchingCRF(alpha=strength, rho=rho, tol=tol)
        _, seconds = timed(partial(fitted, model, train))
        gap = model.duality_gap_ / max(1.0, abs(model.objective_))
        unfinished += not model.converged_
        methods[name] = evaluated(
            years, model.coef_, f"alpha {strength:g}", gap=gap, seconds=seconds
        )
    methods[OURS + AS_CHOSEN] = evaluated(
        years, best.theta, f"alpha {alpha:g}", validation=best.auc
    )
    tuning = {"configurations": len(trials), "seconds": spent}
    return {"methods": methods, "tuning": tuning, "unfinished": unfinished}


def alpha_path(years: Years, setting: Setting) -> Any:
    """Fits from strong to weak regularisation."""
    model = MatchingCRF(rho=RHO, tol=setting["tol"])
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return model.fit_path(years.X, years.Y, setting["alphas"])


def weights_by_alpha(campus: Campus, setting: Setting) -> dict[str, Any]:
    """Weights of differences and AUC in the test year at all alphas."""
    years = Years.of(campus)
    path = alpha_path(years[:-1], setting)
    return {
        "alphas": path.alphas,
        "weights": path.coefs[:, : _differences(years)].tolist(),
        "aucs": [auc_of(years, theta) for theta in path.coefs],
        "unfinished": sum(not model.converged_ for model in path.estimators),
    }


# ---------------------------------------------------------------------- baselines
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
    return tuned(campus, {PERCEPTRON: perceptron_by_pass}, "decay", decays, passes)


def svm(campus: Campus, lambdas: Sequence[float], setting: Setting) -> dict[str, Any]:
    """The structured SVM in its three forms, for all of these lambdas and numbers of passes."""
    forms: dict[str, Fit] = {
        SVM: lambda *config: svm_by_pass(True, *config)[0],
        SVM_LAST: lambda *config: svm_by_pass(False, *config)[0],
        SVM_OPTIMUM: lambda *config: {config[1]: svm_by_pass(False, *config)[1]},
    }
    return tuned(campus, forms, "lambda", lambdas, range(1, setting["svm_passes"] + 1))


def tuned(
    campus: Campus,
    forms: Mapping[str, Fit],
    parameter: str,
    strengths: Sequence[float],
    passes: Sequence[int],
) -> dict[str, Any]:
    """Forms of a method, for all values of its parameter and all numbers of passes."""
    years = Years.of(campus)
    train = years[:-1]

    def tune() -> dict[str, list[Trial]]:
        return {
            form: [
                Trial((strength, count), theta, auc_of(train, theta))
                for strength in strengths
                for count, theta in fit(strength, max(passes), years[:-2]).items()
                if count in passes
            ]
            for form, fit in forms.items()
        }

    tried, spent = timed(tune)
    methods = {}
    for form, trials in tried.items():
        best = best_of(trials)
        strength, count = best.choice[0], int(best.choice[1])
        fitted_by_pass, seconds = timed(partial(forms[form], strength, count, train))
        note = f"{parameter} {strength:g}, {count} {'pass' if count == 1 else 'passes'}"
        methods[form] = evaluated(
            years, fitted_by_pass[max(fitted_by_pass)], note, seconds=seconds, validation=best.auc
        )
        if form != SVM_OPTIMUM:
            methods[form + AS_CHOSEN] = evaluated(years, best.theta, note, validation=best.auc)
    tuning = {"configurations": sum(map(len, tried.values())), "seconds": spent}
    return {"methods": methods, "tuning": tuning}


def perceptron_by_pass(decay: float, passes: int, years: Years) -> ByPass:
    """Averaged weights after each pass."""
    by_pass: ByPass = {}
    crf = MatchingCRF(polytope="exact", random_state=0, callback=_keep_in(by_pass))
    model = StructuredPerceptron(crf, max_iter=passes, decay=decay)
    fitted(model, years)
    return by_pass


def svm_by_pass(
    averaging: bool, strength: float, passes: int, years: Years
) -> tuple[ByPass, Floats]:
    """Weights after the passes at which the objective was measured, and the best of them by it."""
    by_pass: ByPass = {}
    crf = MatchingCRF(
        alpha=strength * len(years),
        polytope="exact",
        max_iter=passes,
        tol=1e-12,  # so that it makes all its passes
        random_state=0,
        callback=_keep_in(by_pass),
    )
    model = StructuredSVM(crf, averaging)
    fitted(model, years)
    return by_pass, model.coef_


def _keep_in(by_pass: ByPass) -> Callable[[Progress], None]:
    """A callback that keeps the weights after every pass that it sees."""

    def keep(progress: Progress) -> None:
        if progress.iteration > 0:
            by_pass[progress.iteration] = progress.theta.copy()

    return keep
