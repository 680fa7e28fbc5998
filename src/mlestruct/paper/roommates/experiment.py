"""The experiment: what decides it, its parts, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...datasets import Campus, generate_campus
from ...plotting.roommates import plot_roc_curves
from ..algorithm_one import algorithms_table, same_optimum
from ..contract import Experiment, Outcome, Picture, Table
from ..parts import Part, Setting
from . import methods, results
from .evaluation import Years, curve_rates, load
from .methods import AS_CHOSEN, CONSTANT, OURS, PERCEPTRON, SVM, TRUTH
from .results import (
    PAPER_LAMBDAS,
    PUBLISHED,
    SHARED,
    Campuses,
    learned_weights,
    mean_of,
    ranks,
)

ABOVE = "lambda above 1000"
LARGE = {
    "students": 2400,
    "seeds": [0, 1, 2],
    "alphas": [1000.0, 300.0, 100.0, 30.0, 10.0, 3.0],
    "tol": 1e-6,  # relative
    "perceptron_passes": [1, 2, 3, 5, 10, 20, 30, 60, 100],
    "perceptron_decays": [0.0, 0.1, 1.0, 10.0],
    "svm_lambdas": {
        PAPER_LAMBDAS: [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3],
        ABOVE: [1e4, 1e5, 1e6, 1e7, 1e8, 1e9],
    },
    "svm_passes": 13,
    "algorithms": {"seconds": 60.0},
}
SMALL = {
    "students": 160,
    "seeds": [0],
    "alphas": [100.0, 30.0, 10.0, 3.0, 1.0],
    "tol": 1e-6,
    "perceptron_passes": [1, 3, 10, 30],
    "perceptron_decays": [0.0, 1.0],
    "svm_lambdas": {PAPER_LAMBDAS: [1e-4, 1e-1, 1e2], ABOVE: [1e4, 1e6]},
    "svm_passes": 9,
    "algorithms": {"seconds": 2.0},
}
CURVES = (
    methods.PUBLISHED,
    OURS,
    TRUTH,
    PERCEPTRON + AS_CHOSEN,
    PERCEPTRON,
    SVM + AS_CHOSEN,
    SVM,
    CONSTANT,
)
PROBLEM = "campus 1, as published"


class Roommates(Experiment):
    """Who chose to live with whom, learned from answers to 14 questions.

    The last year of a campus is the test, all earlier ones train.
    """

    name = "roommates"
    title = "Roommates: which questions count, and how well roommates are told from other pairs"
    place = "section on unipartite perfect matchings, table and figure; appendix, table of weights"
    solvers = (
        "all CRFs by auto (L-BFGS over marginals), 'as published' over the matching polytope; "
        "Algorithm 1 solves that problem of the first campus beside it (the table of algorithms); "
        "the SVM is block-coordinate Frank-Wolfe and the perceptron the averaged one of "
        "mlestruct.baselines, not the authors' programs; both decode by the blossom algorithm."
    )

    def setting(self, quick: bool) -> Setting:
        """The paper's records cannot be had: campuses are generated, one for each seed."""
        if quick:
            return {"data": "generated", "why": "quick", **SMALL}
        return {"data": "generated", "why": "the paper's records are not public", **LARGE}

    def parts(self, setting: Setting) -> Sequence[Part]:
        """Families of methods, campus by campus."""
        names = results.campus_names(setting)
        beside = partial(methods.algorithms, setting=setting)
        return [
            *(
                Part(f"{campus}, {family}", partial(_work, campus, setting, work))
                for campus in names
                for family, work in families(setting).items()
            ),
            Part("algorithms", partial(_work, names[0], setting, beside)),
        ]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        campuses = results.read_results(setting, found)
        quick = setting["why"] == "quick"
        sizes = [n for campus in campuses for n in campus.students]
        return Outcome(
            summary=[
                f"{len(campuses)} campuses of {min(sizes)} to {max(sizes)} students a year, the "
                "last year of each to test.",
            ],
            tables=[
                methods_table(campuses),
                weights_table(campuses),
                algorithms_table(PROBLEM, found["algorithms"]),
            ],
            pictures=pictures(campuses),
            comparisons=[] if quick else results.comparisons(campuses),
            claims=[
                *results.claims(campuses),
                same_optimum(PROBLEM, found["algorithms"]),
            ],
        )


Work = Callable[[Campus], Any]


def families(setting: Setting) -> dict[str, Work]:
    """What is done with each campus."""
    work: dict[str, Work] = {
        "nothing learned": methods.not_learned,
        "ours": partial(methods.ours, setting=setting),
        "perceptron": partial(methods.perceptron, setting=setting),
    }
    for region, lambdas in setting["svm_lambdas"].items():
        work[f"SVM, {region}"] = partial(methods.svm, lambdas=lambdas, setting=setting)
    return work


def _work(campus: str, setting: Setting, work: Work) -> Any:
    warm_up()
    return work(load(campus, setting["students"]))


@lru_cache(maxsize=1)
def warm_up() -> None:
    """Compile (or load) what is timed, on few students."""
    years = Years.of(generate_campus([180, 20, 20], random_state=0))
    for some in (years[:1], years[1:]):
        methods.fitted(methods.MatchingCRF(), some)
        methods.perceptron_by_pass(0.0, 2, some)
        methods.svm_by_pass(1e4, 2, some)


def over(campuses: Campuses) -> str:
    return "one campus" if len(campuses) == 1 else f"means of {len(campuses)} campuses"


def methods_table(campuses: Campuses) -> Table:
    rows = []
    for name in campuses[0].entries:
        entries = [campus.entries[name] for campus in campuses]
        aucs, wrong = ([entry[key] for entry in entries] for key in ("auc", "hamming"))
        spent = [entry["seconds"] for entry in entries if entry.get("seconds") is not None]
        row = [name, np.mean(aucs).round(4), f"{min(aucs):.4f} to {max(aucs):.4f}"]
        row += [np.mean(wrong).round(4), np.mean(spent).round(2) if spent else ""]
        rows.append([*row, "; ".join(dict.fromkeys(entry["note"] for entry in entries))])
    return Table(
        "methods",
        f"In a year not seen, {over(campuses)}: AUC over all pairs; share of students whom the "
        "best matching gives a wrong roommate; CPU seconds of the last fit; what was chosen, of "
        "how many configurations and after how many CPU seconds",
        ["method", "AUC", "range", "Hamming error", "CPU s", "chosen"],
        rows,
    )


def weights_table(campuses: Campuses) -> Table:
    learned, truth = learned_weights(campuses), campuses[0].true_weights
    mean, order = learned.mean(axis=0), np.argsort(truth, kind="stable")
    ends = zip(learned.min(axis=0)[order], learned.max(axis=0)[order], strict=True)
    names = [campuses[0].questions[q] for q in order]
    places = ranks(np.array([weight for weight, _ in PUBLISHED.values()]))
    place_of = {name: int(k) for (_, name), k in zip(PUBLISHED.values(), places, strict=True)}
    columns: dict[str, Any] = {
        "question": names,
        "true": truth[order].round(3),
        "rank": ranks(truth)[order],
        "learned": mean[order].round(3),
        "rank of learned": ranks(mean)[order],
        "range": [f"{low:.3f} to {high:.3f}" for low, high in ends],
        "published": [SHARED.get(name) for name in names],
        "rank of published": [place_of.get(name) for name in names],
    }
    title = (
        f"Weights per level of difference, {over(campuses)}: true and learned by the published "
        "model, with ranks (1: agreement matters most); those of the paper, from other students, "
        f"with ranks among its {len(PUBLISHED)}"
    )
    return Table.of("weights", title, columns)


def pictures(campuses: Campuses) -> list[Picture]:
    curves = {
        f"{name}, AUC {mean_of(campuses, name):.3f}": np.mean(
            [campus.entries[name]["curve"] for campus in campuses], axis=0
        )
        for name in CURVES
    }
    return [
        Picture(
            "roc",
            f"Roommates told from other pairs in a year not seen, {over(campuses)}: all rates, and "
            "low rates of false positives on a log scale. 'as chosen': the weights that were best "
            "at choosing, from all training years but the last.",
            plot_roc_curves(curve_rates(), curves),
        ),
    ]
