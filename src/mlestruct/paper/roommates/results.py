"""What the parts have found, campus by campus, and what the paper says of roommates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ..contract import Claim, Comparison, listed
from ..parts import Setting
from .evaluation import curve_rates
from .methods import AS_CHOSEN, CONSTANT, LIKELY, OURS, PERCEPTRON, SVM, SVM_LAST, SVM_OPTIMUM

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PAPER_LAMBDAS = "lambda up to 1000"  # of the SVM's lambdas, those that the paper tried
REFITTED = (PERCEPTRON, SVM, SVM_LAST)
RIVALS = (CONSTANT, *REFITTED, *(name + AS_CHOSEN for name in REFITTED), SVM_OPTIMUM)
PAPER_RANGE = ", lambda as published"  # the best of the lambdas that the paper tried
LOW_RATES = (1e-4, 1e-1)  # of false positives, where curves are compared
STRONG = ("smoking", "personality", "bed time")  # said to need the closest agreement
WEAK = ("cleanliness", "study hours", "study location")  # said to be among the least important

PUBLISHED = {  # by question of the paper's survey: its weight, and its name in the generated one
    "bed time": (-0.0296, "bed time"),
    "wake time": (-0.0218, "wake time"),
    "rising sophomore": (0.0, None),
    "cleanliness": (-0.0056, "cleanliness"),
    "smoking": (-0.0484, "smoking"),
    "sleeping habits": (-0.0025, "sleeping"),
    "overnight guests": (-0.0097, "overnight guests"),
    "personality": (-0.037, "personality"),
    "study hours": (0.0131, "study hours"),
    "study location": (-0.0006, "study location"),
    "audio or video while studying": (-0.0133, "audio while studying"),
    "single-sex floor (1)": (0.2277, None),
    "single-sex floor (2)": (0.0518, None),
    "allow in Brownstone": (0.0, None),
}
SHARED = {name: weight for weight, name in PUBLISHED.values() if name is not None}


class CampusResult:
    """All methods on one campus.

    true_weights : of differences, the same on all campuses
    entries : by method, what `evaluated` returned; "seconds" (CPU seconds of the last fit) and
        "validation" (AUC in the last training year, by which it was chosen) where there are any
    tuning : by family of methods, how many configurations were tried, and in how many CPU seconds
    path : weights of differences and AUC by alpha
    unfinished : fits without the wanted certificate
    """

    def __init__(self, name: str, setting: Setting, found: Mapping[str, Any]):
        known = found[f"{name}, nothing learned"]
        ours, perceptron = found[f"{name}, ours"], found[f"{name}, perceptron"]
        svms = {region: found[f"{name}, SVM, {region}"] for region in setting["svm_lambdas"]}
        families = {"MLE": [ours], PERCEPTRON: [perceptron], "SVM": list(svms.values())}
        self.students: list[int] = known["students"]
        self.questions: list[str] = known["questions"]
        self.true_weights = np.array(known["true_weights"])
        self.entries: dict[str, dict[str, Any]] = {
            **ours["methods"],
            **perceptron["methods"],
            **_svm_entries({region: part["methods"] for region, part in svms.items()}),
            **known["methods"],
        }
        self.tuning = {
            family: [sum(p["tuning"][key] for p in parts) for key in ("configurations", "seconds")]
            for family, parts in families.items()
        }
        self.path: Mapping[str, Any] = found[f"{name}, weights by alpha"]
        self.unfinished: int = ours["unfinished"] + self.path["unfinished"]

    def auc(self, method: str) -> float:
        return float(self.entries[method]["auc"])


Campuses = Sequence[CampusResult]


def campus_names(setting: Setting) -> list[str]:
    return [f"campus {seed + 1}" for seed in setting["seeds"]]


def read_results(setting: Setting, found: Mapping[str, Any]) -> list[CampusResult]:
    return [CampusResult(name, setting, found) for name in campus_names(setting)]


def _svm_entries(regions: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each form of the SVM where it was best at choosing, and for the lambdas of the paper."""
    entries: dict[str, dict[str, Any]] = {}
    for name in (SVM, SVM_LAST, SVM_OPTIMUM):
        best = max(regions.values(), key=lambda methods: methods[name]["validation"])
        entries |= {form: best[form] for form in (name, name + AS_CHOSEN) if form in best}
        entries[name + PAPER_RANGE] = regions[PAPER_LAMBDAS][name]
    return entries


def mean_of(campuses: Campuses, method: str, key: str = "auc") -> float:
    return float(np.mean([campus.entries[method][key] for campus in campuses]))


# ---------------------------------------------------------------------- weights of differences
def learned_weights(campuses: Campuses, method: str = LIKELY) -> Floats:
    """Learned weights of differences, shape (n_campuses, n_questions)."""
    n_questions = len(campuses[0].questions)
    return np.array([campus.entries[method]["theta"][:n_questions] for campus in campuses])


def ranks(weights: Floats) -> Ints:
    """1 for the most negative weight; equal ones share the first of their ranks."""
    return np.asarray(rankdata(np.round(weights, 12), method="min"), dtype=np.int64)


# ---------------------------------------------------------------------- published numbers
def comparisons(campuses: Campuses) -> list[Comparison]:
    """The structured SVM at the best lambda of the paper's range, and the weights of questions."""
    found = []
    for what, key, published, digit in (
        ("AUC", "auc", 0.504, 1e-3),
        ("Hamming error", "hamming", 0.9992, 1e-4),
    ):
        ours = [campus.entries[SVM + PAPER_RANGE][key] for campus in campuses]
        found.append(
            Comparison(
                f"{what} of the structured SVM", published, float(np.mean(ours)), "none", digit,
                (min(ours), max(ours)), "rival",
                f"other data: {mean_of(campuses, CONSTANT, key):.4f} with constant weights",
            )
        )  # fmt: skip
    for name, (weight, question) in PUBLISHED.items():
        mean, spread, note = None, None, "no such question in the generated survey"
        if question is not None:
            k = campuses[0].questions.index(question)
            column = learned_weights(campuses)[:, k]
            mean, spread = float(column.mean()), (float(column.min()), float(column.max()))
            note = f"other data: the true weight is {campuses[0].true_weights[k]:.3f}"
        what = f"weight of a difference in {name}"
        found.append(Comparison(what, weight, mean, "none", 1e-4, spread, note=note))
    return found


# ---------------------------------------------------------------------- claims
def claims(campuses: Campuses, timed: bool = True) -> list[Claim]:
    """`timed` says whether CPU times mean something, which those of tiny problems do not."""
    return [
        highest_auc(campuses),
        dominates(campuses, "the constant weights", (CONSTANT,)),
        dominates(campuses, "perceptron and SVM", REFITTED),
        dominates(
            campuses,
            "perceptron and SVM as chosen (trained on fewer years)",
            [name + AS_CHOSEN for name in REFITTED],
        ),
        *(
            below_constant(campuses, name + form, f"{name}, {words}")
            for name in (PERCEPTRON, SVM)
            for form, words in (("", "trained again on all years"), (AS_CHOSEN, "as chosen"))
        ),
        better_than_chance(campuses),
        *([tuned_as_much(campuses)] if timed else []),
        Claim(
            "Whole matchings are not predicted: most roommates are missed (Hamming error above .9)",
            min(campus.entries[OURS]["hamming"] for campus in campuses) > 0.9,
            f"mean {mean_of(campuses, OURS, 'hamming'):.4f}",
        ),
        *strong_questions(campuses),
        weak_questions(campuses),
    ]


def highest_auc(campuses: Campuses) -> Claim:
    means = listed({name: mean_of(campuses, name) for name in (OURS, *RIVALS)}, ".4f")
    margin = min(campus.auc(OURS) - max(map(campus.auc, RIVALS)) for campus in campuses)
    return Claim(
        "MLE has a higher AUC than the constant weights, the perceptron and the SVM, on all "
        "campuses and in all their forms",
        margin > 0.0,
        f"mean AUC {means}; the smallest margin on a campus is {margin:+.4f}",
    )


def rates_within(low: float, high: float) -> Ints:
    """The points of a curve from one rate to another, the latter left out; rates are rounded."""
    rates = curve_rates() * (1.0 + 1e-9)
    return np.flatnonzero((rates >= low) & (rates < high))


def dominates(campuses: Campuses, whom: str, rivals: Sequence[str]) -> Claim:
    """Whether our curve is nowhere below any of theirs."""
    at = rates_within(*LOW_RATES)
    short = np.array(
        [
            np.max([campus.entries[name]["curve"] for name in rivals], axis=0)[at]
            - np.array(campus.entries[OURS]["curve"])[at]
            for campus in campuses
        ]
    )
    below = int((short > 1e-12).sum())
    return Claim(
        f"MLE dominates {whom} at low false-positive rates ({LOW_RATES[0]:g} to {LOW_RATES[1]:g})",
        below == 0,
        f"below at {below} of {short.size} rates, by {max(short.max(), 0.0):.4f} of the roommates "
        "at most",
    )


def below_constant(campuses: Campuses, name: str, words: str) -> Claim:
    below = [campus.auc(name) < campus.auc(CONSTANT) for campus in campuses]
    return Claim(
        f"The AUC of the {words}, is below that of the constant weights",
        all(below),
        f"on {sum(below)} of {len(below)} campuses; {mean_of(campuses, name):.4f} against "
        f"{mean_of(campuses, CONSTANT):.4f} in the mean",
    )


def better_than_chance(campuses: Campuses) -> Claim:
    pairs = [(campus.auc(SVM + PAPER_RANGE), campus.auc(OURS)) for campus in campuses]
    return Claim(
        "The SVM at the best lambda of the paper's range is better than random guessing, but "
        "worse than MLE",
        all(0.5 < rival < ours for rival, ours in pairs),
        "AUC " + "; ".join(f"{rival:.4f} against {ours:.4f}" for rival, ours in pairs),
    )


def tuned_as_much(campuses: Campuses) -> Claim:
    """The paper speaks of extensive tuning."""
    means = {
        name: np.mean([campus.tuning[name] for campus in campuses], axis=0)
        for name in campuses[0].tuning
    }
    return Claim(
        "The perceptron and the SVM were tuned over at least as many configurations and for at "
        "least as much CPU time as MLE, on every campus",
        all(
            np.greater_equal(spent, campus.tuning["MLE"]).all()
            for campus in campuses
            for spent in campus.tuning.values()
        ),
        "; ".join(
            f"{name}: {n:.0f} configurations, {s:.1f} CPU s" for name, (n, s) in means.items()
        )
        + " (mean per campus)",
    )


def strong_questions(campuses: Campuses) -> list[Claim]:
    questions, truth = campuses[0].questions, campuses[0].true_weights
    strong = [questions.index(name) for name in STRONG]
    found = []
    for method, words in ((LIKELY, "the likelihood"), (OURS, "AUC")):
        learned = learned_weights(campuses, method)
        kept = sum(set(np.argsort(row)[: len(strong)]) == set(strong) for row in learned)
        ordered = sum((ranks(row[strong]) == ranks(truth[strong])).all() for row in learned)
        near = np.mean([np.corrcoef(ranks(row), ranks(truth))[0, 1] for row in learned])
        found.append(
            Claim(
                f"{', '.join(STRONG)} require the closest agreement, at the alpha that {words} "
                "chooses",
                kept == len(learned),
                f"they come first on {kept} of {len(learned)} campuses, in the true order on "
                f"{ordered}; the rank correlation of all weights with the truth is {near:.3f}",
            )
        )
    return found


def weak_questions(campuses: Campuses) -> Claim:
    """Half of all questions, as in the paper's ranking."""
    questions = campuses[0].questions
    found = ranks(learned_weights(campuses).mean(axis=0))
    places = {name: found[questions.index(name)] for name in WEAK}
    return Claim(
        f"{', '.join(WEAK)} are among the least important (rank {len(questions) // 2} or below)",
        min(places.values()) >= len(questions) // 2,
        f"ranks of the mean weights among {len(questions)}: "
        + ", ".join(f"{name} {place}" for name, place in places.items()),
    )
