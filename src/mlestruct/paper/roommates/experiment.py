"""The experiment: what decides it, its parts, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...datasets import generate_campus
from ...plotting.roommates import plot_question_weights, plot_roc_curves
from ..contract import Experiment, Outcome, Part, Picture, Setting
from . import methods, results
from .data import Cohort, Years, campus_names, load, own_files
from .evaluation import curve_rates
from .methods import CONSTANT, EARLIER, OURS, PERCEPTRON, SVM, TRUTH
from .results import SHARED, TRIED, Campuses, generated, mean_of, planted, stacked
from .tables import all_tables

ABOVE = "lambda above 1000"
LARGE = {
    "students": 2400,
    "seeds": [0, 1, 2],
    "alphas": [1000.0, 300.0, 100.0, 30.0, 10.0, 3.0],
    "tol": 1e-6,  # relative
    "perceptron_passes": [1, 2, 3, 5, 10, 20, 30, 60, 100],
    "perceptron_decays": [0.0, 0.1, 1.0, 10.0],
    "svm_lambdas": {
        TRIED: [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3],
        ABOVE: [1e4, 1e5, 1e6, 1e7, 1e8, 1e9],
    },
    "svm_passes": 13,
    "warm_up": True,
}
SMALL = {
    "students": 160,
    "seeds": [0],
    "alphas": [100.0, 30.0, 10.0, 3.0, 1.0],
    "tol": 1e-6,
    "perceptron_passes": [1, 3, 10, 30],
    "perceptron_decays": [0.0, 1.0],
    "svm_lambdas": {TRIED: [1e-4, 1e-1, 1e2], ABOVE: [1e4, 1e6]},
    "svm_passes": 9,
    "warm_up": False,
}
CURVES = (OURS, TRUTH, PERCEPTRON + EARLIER, PERCEPTRON, SVM + EARLIER, SVM, CONSTANT)


class Roommates(Experiment):
    """Who chose to live with whom, learned from answers to 14 questions.

    The last year of a campus is the test, all earlier ones train.
    """

    name = "roommates"
    title = "Roommates: which questions count, and how well roommates are told from other pairs"
    place = "section on unipartite perfect matchings, table and figure; appendix, table of weights"

    def setting(self, quick: bool) -> Setting:
        """The paper's records cannot be had: campuses are generated, one for each seed."""
        if quick:
            return {"data": "generated", "why": "quick", "own": None, **SMALL}
        own, why = own_files()
        data = "generated" if own is None else "generated, and own files"
        return {"data": data, "why": why, "own": own, **LARGE}

    def parts(self, setting: Setting) -> Sequence[Part]:
        """Families of methods, campus by campus."""
        return [
            Part(f"{campus}, {family}", partial(_work, campus, setting, work))
            for campus in campus_names(setting)
            for family, work in families(setting).items()
        ]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        campuses = results.read_results(setting, found)
        quick = setting["why"] == "quick"
        sizes = [n for campus in campuses for n in campus.students]
        known = [name for name in CURVES if all(name in c.entries for c in campuses)]
        return Outcome(
            summary=[
                f"{len(campuses)} campuses of {min(sizes)} to {max(sizes)} students a year, the "
                "last year of each to test.",
                "AUC over all pairs: "
                + ", ".join(f"{mean_of(campuses, name):.3f} ({name})" for name in known),
            ],
            tables=all_tables(campuses),
            pictures=pictures(campuses, known),
            comparisons=[] if quick else results.comparisons(campuses),
            claims=results.claims(campuses, timed=not quick),
            numbers={
                "aucs": {name: [c.auc(name) for c in campuses] for name in known},
                "students": [campus.students for campus in campuses],
                "fits without a certificate": sum(campus.unfinished for campus in campuses),
            },
        )


Work = Callable[[Cohort], Any]


def families(setting: Setting) -> dict[str, Work]:
    """What is done with each campus."""
    work: dict[str, Work] = {
        "nothing learned": methods.not_learned,
        "ours": partial(methods.ours, setting=setting),
        "weights by alpha": partial(methods.weights_by_alpha, setting=setting),
        "perceptron": partial(methods.perceptron, setting=setting),
    }
    for region, lambdas in setting["svm_lambdas"].items():
        work[f"SVM, {region}"] = partial(methods.svm, lambdas=lambdas, setting=setting)
    return work


def _work(campus: str, setting: Setting, work: Work) -> Any:
    if setting["warm_up"]:
        warm_up()
    return work(load(campus, setting))


@lru_cache(maxsize=1)
def warm_up() -> None:
    """Compile (or load) what is timed, on few students."""
    years = Years.of(generate_campus([180, 20, 20], random_state=0))
    for some in (years[:1], years[1:]):
        methods.fitted(methods.MatchingCRF(), some)
        methods.perceptron_stops(0.0, 2, some)
        methods.svm_stops(True, 1e4, 2, some)


def pictures(campuses: Campuses, drawn: Sequence[str]) -> list[Picture]:
    curves = {
        f"{name}, AUC {mean_of(campuses, name):.3f}": np.mean(
            [campus.entries[name]["curve"] for campus in campuses], axis=0
        )
        for name in drawn
    }
    some = "one campus" if len(campuses) == 1 else f"the mean of {len(campuses)} campuses"
    found = [
        Picture(
            "roc",
            f"Roommates told from other pairs in a year not seen, {some}: all rates, and low rates "
            "of false positives on a log scale. 'as chosen': the weights that were best at "
            "choosing, from all training years but the last.",
            plot_roc_curves(curve_rates(), curves),
        )
    ]
    known = generated(campuses)
    if known:
        found.append(
            Picture(
                "weights",
                "Weights per level of difference, learned and true, and the paper's own, which "
                "were learned from other students.",
                plot_question_weights(known[0].questions, stacked(known), planted(known), SHARED),
            )
        )
    return found
