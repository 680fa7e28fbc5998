"""What the parts have found, campus by campus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..contract import Setting
from .data import campus_names, is_generated
from .methods import CONSTANT, EARLIER, LIKELY, PERCEPTRON, SVM, SVM_LAST, SVM_OPTIMUM
from .published import TRIED

Floats = NDArray[np.float64]

REFITTED = (PERCEPTRON, SVM, SVM_LAST)
RIVALS = (CONSTANT, *REFITTED, *(name + EARLIER for name in REFITTED), SVM_OPTIMUM)
IN_RANGE = ", lambda as published"  # the best of the lambdas that the paper tried
OURS_TUNED, SVM_TUNED = "MLE", "SVM"  # in the table of tuning


@dataclass(frozen=True)
class Entry:
    """A method on one campus: its weights, what was chosen, what it cost and what it is worth.

    seconds : CPU seconds of the last fit, None where nothing was fitted
    validation : AUC in the last training year, by which it was chosen
    """

    theta: Floats
    note: str
    seconds: float | None
    validation: float | None
    auc: float
    accepted: list[float]
    rank: float
    hamming: float
    curve: Floats

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Entry:
        return cls(
            np.array(found["theta"]), found["note"], found.get("seconds"), found.get("validation"),
            found["auc"], found["accepted"], found["rank"], found["hamming"],
            np.array(found["curve"]),
        )  # fmt: skip


@dataclass(frozen=True)
class Tuning:
    """How many configurations a method could choose from, and the CPU seconds of trying them."""

    configurations: int
    seconds: float

    def __add__(self, other: Tuning) -> Tuning:
        return Tuning(
            self.configurations + other.configurations, self.seconds + other.seconds
        )  # fmt: skip


@dataclass(frozen=True)
class CampusResult:
    """All methods on one campus. `planted` are the true weights of differences, if known."""

    name: str
    students: list[int]
    questions: list[str]
    planted: Floats | None
    entries: dict[str, Entry]
    tuning: dict[str, Tuning]
    path: Mapping[str, Any]
    unfinished: int

    @property
    def best_rival(self) -> str:
        """The rival of the highest AUC."""
        return max(RIVALS, key=lambda name: self.entries[name].auc)

    def weights(self, method: str = LIKELY) -> Floats:
        """Learned weights of differences."""
        return self.entries[method].theta[: len(self.questions)]


def read_results(setting: Setting, found: Mapping[str, Any]) -> list[CampusResult]:
    """The results of all campuses."""
    return [_read_campus(name, setting, found) for name in campus_names(setting)]


def generated(campuses: Sequence[CampusResult]) -> list[CampusResult]:
    return [campus for campus in campuses if is_generated(campus.name)]


def _read_campus(name: str, setting: Setting, found: Mapping[str, Any]) -> CampusResult:
    known = found[f"{name}, nothing learned"]
    ours, path = found[f"{name}, ours"], found[f"{name}, weights by alpha"]
    perceptron = found[f"{name}, perceptron"]
    machines = {region: found[f"{name}, SVM, {region}"] for region in setting["svm_lambdas"]}
    entries = _entries(ours) | _entries(perceptron) | _machine_entries(machines)
    tuned = [_tuning(machine) for machine in machines.values()]
    return CampusResult(
        name=name,
        students=known["students"],
        questions=known["questions"],
        planted=None if known["planted"] is None else np.array(known["planted"]),
        entries=entries | _entries(known),
        tuning={
            OURS_TUNED: _tuning(ours),
            PERCEPTRON: _tuning(perceptron),
            SVM_TUNED: sum(tuned[1:], tuned[0]),
        },
        path=path,
        unfinished=ours["unfinished"] + path["unfinished"],
    )


def _entries(part: Mapping[str, Any]) -> dict[str, Entry]:
    return {name: Entry.read(value) for name, value in part["methods"].items()}


def _machine_entries(machines: Mapping[str, Any]) -> dict[str, Entry]:
    """Each form of the SVM where it was best at choosing, and for the lambdas of the paper."""
    read = {region: _entries(machine) for region, machine in machines.items()}
    entries = {}
    for name in (SVM, SVM_LAST, SVM_OPTIMUM):
        best = max(read, key=lambda region: read[region][name].validation or 0.0)
        for form in (name, name + EARLIER):
            if form in read[best]:
                entries[form] = read[best][form]
        entries[name + IN_RANGE] = read[TRIED][name]
    return entries


def _tuning(part: Mapping[str, Any]) -> Tuning:
    return Tuning(part["tuning"]["configurations"], part["tuning"]["seconds"])
