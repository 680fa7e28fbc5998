"""What the paper says of roommates, beside what was measured on generated campuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..contract import Claim, Comparison
from .evaluation import curve_rates
from .methods import CONSTANT, EARLIER, LIKELY, OURS, PERCEPTRON, SVM
from .results import (
    IN_RANGE,
    REFITTED,
    RIVALS,
    STRONG,
    Campuses,
    generated,
    mean_of,
    planted,
    ranks,
    same_order,
    stacked,
)

LOW_RATES = (1e-4, 1e-1)  # of false positives, where curves are compared
WEAK = ("cleanliness", "study hours", "study location")  # said to be among the least important


@dataclass(frozen=True)
class Item:
    """A question of the paper's survey, its weight and rank there, and what corresponds to it in
    the generated survey, if anything does."""

    name: str
    weight: float
    rank: int
    question: str | None


ITEMS = (
    Item("bed time", -0.0296, 3, "bed time"),
    Item("wake time", -0.0218, 4, "wake time"),
    Item("rising sophomore", 0.0, 10, None),
    Item("cleanliness", -0.0056, 7, "cleanliness"),
    Item("smoking", -0.0484, 1, "smoking"),
    Item("sleeping habits", -0.0025, 8, "sleeping"),
    Item("overnight guests", -0.0097, 6, "overnight guests"),
    Item("personality", -0.037, 2, "personality"),
    Item("study hours", 0.0131, 12, "study hours"),
    Item("study location", -0.0006, 9, "study location"),
    Item("audio or video while studying", -0.0133, 5, "audio while studying"),
    Item("single-sex floor (1)", 0.2277, 14, None),
    Item("single-sex floor (2)", 0.0518, 13, None),
    Item("allow in Brownstone", 0.0, 10, None),
)
SHARED = {item.question: item.weight for item in ITEMS if item.question is not None}


# ---------------------------------------------------------------------- published numbers
def comparisons(campuses: Campuses) -> list[Comparison]:
    """The structured SVM at the best lambda of the paper's range, and the weights of questions."""
    found = []
    for what, key, published, digit in (
        ("AUC", "auc", 0.504, 1e-3),
        ("Hamming error", "hamming", 0.9992, 1e-4),
    ):
        ours = [campus.entries[SVM + IN_RANGE][key] for campus in campuses]
        found.append(
            Comparison(
                f"{what} of the structured SVM", published, float(np.mean(ours)), "none", digit,
                (min(ours), max(ours)), "rival",
                f"other data: {mean_of(campuses, CONSTANT, key):.4f} with constant weights",
            )
        )  # fmt: skip
    known = generated(campuses)
    for item in ITEMS if known else ():
        mean, spread, note = None, None, "no such question in the generated survey"
        if item.question is not None:
            k = known[0].questions.index(item.question)
            column, true = stacked(known)[:, k], planted(known)[k]
            mean, spread = float(column.mean()), (float(column.min()), float(column.max()))
            note = f"other data: the true weight is {true:.3f}"
        what = f"weight of a difference in {item.name}"
        found.append(Comparison(what, item.weight, mean, "none", 1e-4, spread, note=note))
    return found


# ---------------------------------------------------------------------- claims
def claims(campuses: Campuses, timed: bool = True) -> list[Claim]:
    """`timed` says whether CPU times mean something, which those of tiny problems do not."""
    known = generated(campuses)
    return [
        highest_auc(campuses),
        dominates(campuses, "the constant weights", (CONSTANT,)),
        dominates(campuses, "perceptron and SVM", REFITTED),
        dominates(
            campuses,
            "perceptron and SVM as chosen (trained on fewer years)",
            [name + EARLIER for name in REFITTED],
        ),
        *(
            below_constant(campuses, name + form, f"{name}, {words}")
            for name in (PERCEPTRON, SVM)
            for form, words in (("", "trained again on all years"), (EARLIER, "as chosen"))
        ),
        better_than_chance(campuses),
        *([tuned_as_much(campuses)] if timed else []),
        Claim(
            "Whole matchings are not predicted: most roommates are missed (Hamming error above .9)",
            min(campus.entries[OURS]["hamming"] for campus in campuses) > 0.9,
            f"mean {mean_of(campuses, OURS, 'hamming'):.4f}",
        ),
        *(strong_questions(known) if known else []),
        *([weak_questions(known)] if known else []),
    ]


def highest_auc(campuses: Campuses) -> Claim:
    means = ", ".join(f"{name} {mean_of(campuses, name):.4f}" for name in (OURS, *RIVALS))
    margin = min(campus.margin for campus in campuses)
    return Claim(
        "MLE has a higher AUC than the constant weights, the perceptron and the SVM, on all "
        "campuses and in all their forms",
        margin > 0.0,
        f"mean AUC {means}; the smallest margin on a campus is {margin:+.4f}",
    )


def rates_within(low: float, high: float) -> NDArray[np.int64]:
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
    pairs = [(campus.auc(SVM + IN_RANGE), campus.auc(OURS)) for campus in campuses]
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
    questions, truth = campuses[0].questions, planted(campuses)
    found = []
    for method, words in ((LIKELY, "the likelihood"), (OURS, "AUC")):
        learned = stacked(campuses, method)
        first = [{questions[q] for q in np.argsort(row)[: len(STRONG)]} for row in learned]
        kept = sum(names == set(STRONG) for names in first)
        ordered = sum(same_order(row, truth, questions) for row in learned)
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
    found = ranks(stacked(campuses).mean(axis=0))
    places = {name: found[questions.index(name)] for name in WEAK}
    return Claim(
        f"{', '.join(WEAK)} are among the least important (rank {len(questions) // 2} or below)",
        min(places.values()) >= len(questions) // 2,
        f"ranks of the mean weights among {len(questions)}: "
        + ", ".join(f"{name} {place}" for name, place in places.items()),
    )
