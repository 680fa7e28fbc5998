"""What the parts have found, campus by campus; weights of differences and their ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ..contract import Setting
from .data import OWN, campus_names
from .methods import CONSTANT, EARLIER, LIKELY, OURS, PERCEPTRON, SVM, SVM_LAST, SVM_OPTIMUM

Floats = NDArray[np.float64]

TRIED = "lambda up to 1000"  # of the SVM's lambdas, those that the paper tried
REFITTED = (PERCEPTRON, SVM, SVM_LAST)
RIVALS = (CONSTANT, *REFITTED, *(name + EARLIER for name in REFITTED), SVM_OPTIMUM)
IN_RANGE = ", lambda as published"  # the best of the lambdas that the paper tried
STRONG = ("smoking", "personality", "bed time")  # said to need the closest agreement


@dataclass(frozen=True)
class CampusResult:
    """All methods on one campus.

    planted : the true weights of differences, if known
    entries : by method, what `evaluated` returned; "seconds" (CPU seconds of the last fit) and
        "validation" (AUC in the last training year, by which it was chosen) where there are any
    tuning : by family of methods, how many configurations were tried, and in how many CPU seconds
    path : weights of differences and AUC by alpha
    """

    name: str
    students: list[int]
    questions: list[str]
    planted: Floats | None
    entries: dict[str, dict[str, Any]]
    tuning: dict[str, tuple[int, float]]
    path: Mapping[str, Any]
    unfinished: int

    def auc(self, method: str) -> float:
        return float(self.entries[method]["auc"])

    @property
    def margin(self) -> float:
        """How far the AUC of ours is above the highest of the others."""
        return self.auc(OURS) - max(map(self.auc, RIVALS))

    def weights(self, method: str = LIKELY) -> Floats:
        """Learned weights of differences."""
        return np.array(self.entries[method]["theta"][: len(self.questions)])


Campuses = Sequence[CampusResult]


def read_results(setting: Setting, found: Mapping[str, Any]) -> list[CampusResult]:
    """The results of all campuses."""
    return [_read_campus(name, setting, found) for name in campus_names(setting)]


def _read_campus(name: str, setting: Setting, found: Mapping[str, Any]) -> CampusResult:
    known = found[f"{name}, nothing learned"]
    ours, path = found[f"{name}, ours"], found[f"{name}, weights by alpha"]
    perceptron = found[f"{name}, perceptron"]
    machines = {region: found[f"{name}, SVM, {region}"] for region in setting["svm_lambdas"]}
    families = {"MLE": [ours], PERCEPTRON: [perceptron], "SVM": list(machines.values())}
    return CampusResult(
        name=name,
        students=known["students"],
        questions=known["questions"],
        planted=None if known["planted"] is None else np.array(known["planted"]),
        entries={
            **ours["methods"],
            **perceptron["methods"],
            **_machine_entries({region: part["methods"] for region, part in machines.items()}),
            **known["methods"],
        },
        tuning={
            family: (
                sum(part["tuning"]["configurations"] for part in parts),
                sum(part["tuning"]["seconds"] for part in parts),
            )
            for family, parts in families.items()
        },
        path=path,
        unfinished=ours["unfinished"] + path["unfinished"],
    )


def _machine_entries(regions: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each form of the SVM where it was best at choosing, and for the lambdas of the paper."""
    entries: dict[str, dict[str, Any]] = {}
    for name in (SVM, SVM_LAST, SVM_OPTIMUM):
        best = max(regions.values(), key=lambda methods: methods[name]["validation"])
        entries |= {form: best[form] for form in (name, name + EARLIER) if form in best}
        entries[name + IN_RANGE] = regions[TRIED][name]
    return entries


def generated(campuses: Campuses) -> list[CampusResult]:
    return [campus for campus in campuses if campus.name != OWN]


def mean_of(campuses: Campuses, method: str, key: str = "auc") -> float:
    return float(np.mean([campus.entries[method][key] for campus in campuses]))


# ---------------------------------------------------------------------- weights of differences
def stacked(campuses: Campuses, method: str = LIKELY) -> Floats:
    """Learned weights of differences, shape (n_campuses, n_questions)."""
    return np.array([campus.weights(method) for campus in campuses])


def planted(campuses: Campuses) -> Floats:
    """The true ones, which are the same on all generated campuses."""
    weights = campuses[0].planted
    assert weights is not None
    return weights


def ranks(weights: Sequence[float] | Floats) -> list[int]:
    """1 for the most negative weight; equal ones share the first of their ranks."""
    return [int(rank) for rank in rankdata(np.round(weights, 12), method="min")]


def same_order(weights: Floats, truth: Floats, questions: Sequence[str]) -> bool:
    """Whether the strong questions have their true order."""
    places = [list(questions).index(name) for name in STRONG]
    return ranks(weights[places]) == ranks(truth[places])
