"""The experiment: what decides it, its parts, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from ...datasets import generate_campus
from ..contract import Experiment, Outcome, Part, Setting
from . import methods
from .data import Cohort, Years, campus_names, load, own_files
from .published import TRIED

LAMBDAS = {
    TRIED: [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3],
    "lambda above 1000": [1e4, 1e5, 1e6, 1e7, 1e8, 1e9],
}
LARGE = {
    "students": 2400,
    "seeds": [0, 1, 2],
    "alphas": [1000.0, 300.0, 100.0, 30.0, 10.0, 3.0],
    "tol": 1e-6,  # relative
    "perceptron_passes": [1, 2, 3, 5, 10, 20, 30, 60, 100],
    "perceptron_decays": [0.0, 0.1, 1.0, 10.0],
    "svm_lambdas": LAMBDAS,
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
    "svm_lambdas": {
        TRIED: [1e-4, 1e-1, 1e2],
        "lambda above 1000": [1e4, 1e6],
    },
    "svm_passes": 9,
    "warm_up": False,
}


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
        from .report import report

        return report(setting, found)


Work = Callable[[Cohort], Any]


def families(setting: Setting) -> dict[str, Work]:
    """What is done with each campus."""
    work: dict[str, Work] = {
        "nothing learned": methods.others,
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
        methods.svm_stops(1e4, 2, some, averaging=True)
