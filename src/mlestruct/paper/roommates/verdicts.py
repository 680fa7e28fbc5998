"""What the paper says of roommates, and whether the measurements bear it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..contract import Verdict
from .methods import CONSTANT, EARLIER, LIKELY, OURS, PERCEPTRON, SVM, TRUTH
from .published import STRONG, WEAK
from .quality import curve_rates
from .results import IN_RANGE, OURS_TUNED, REFITTED, RIVALS, CampusResult, generated
from .weights import planted, ranks, same_order, stacked

LOW_RATES = (1e-4, 1e-1)  # of false positives, where curves are compared
ENOUGH = 1e-3  # below this rate curves are made of a few roommates

EXACTLY = 1.0 - 1e-9  # rates are rounded

Campuses = Sequence[CampusResult]
Ints = NDArray[np.int64]


def all_verdicts(campuses: Campuses, timed: bool = True) -> list[Verdict]:
    """`timed` says whether CPU times mean something, which those of tiny problems do not."""
    verdicts = [
        highest_auc(campuses),
        *low_false_positives(campuses),
        *rivals_below_constant(campuses),
        better_than_chance(campuses),
        *([tuned_as_much(campuses)] if timed else []),
        no_high_accuracy(campuses),
    ]
    known = generated(campuses)
    if known:
        verdicts += [*strong_questions(known), weak_questions(known)]
    return verdicts


def mean_auc(campuses: Campuses, name: str) -> float:
    return float(np.mean([campus.entries[name].auc for campus in campuses]))


def highest_auc(campuses: Campuses) -> Verdict:
    margins = [
        campus.entries[OURS].auc - campus.entries[campus.best_rival].auc for campus in campuses
    ]
    closest = campuses[int(np.argmin(margins))]
    means = ", ".join(f"{name} {mean_auc(campuses, name):.4f}" for name in RIVALS)
    return Verdict(
        "MLE has a higher AUC than the constant weights, the perceptron and the SVM, "
        "on all campuses and in all their forms",
        min(margins) > 0.0,
        f"Mean AUC {mean_auc(campuses, OURS):.4f}; {means}. The smallest margin is "
        f"{min(margins):+.4f}, on {closest.name} over {closest.best_rival}.",
    )


# ---------------------------------------------------------------------- low false positives
def rates_within(low: float, high: float) -> Ints:
    """The points of a curve from one rate to another, the latter left out."""
    rates = curve_rates()
    return np.flatnonzero((rates >= low * EXACTLY) & (rates < high * EXACTLY))


@dataclass(frozen=True)
class Shortfall:
    """At how many of the rates of all campuses a curve is below another, and by how much."""

    below: int
    total: int
    worst: float

    def __str__(self) -> str:
        said = f"below at {self.below} of {self.total} rates"
        most = f", by {self.worst:.4f} of the roommates at most"
        return said + most if self.below else said


def shortfall(campuses: Campuses, rivals: Sequence[str], rates: tuple[float, float]) -> Shortfall:
    """How far our curve is below the highest of theirs."""
    at = rates_within(*rates)
    short = np.array(
        [
            np.max([campus.entries[name].curve[at] for name in rivals], axis=0)
            - campus.entries[OURS].curve[at]
            for campus in campuses
        ]
    )
    return Shortfall(int((short > 1e-12).sum()), short.size, max(float(short.max()), 0.0))


def low_false_positives(campuses: Campuses) -> list[Verdict]:
    return [
        _dominates(campuses, "the constant weights", (CONSTANT,)),
        _dominates(campuses, "perceptron and SVM", REFITTED),
        _dominates(
            campuses,
            "perceptron and SVM as chosen (trained on fewer years)",
            tuple(name + EARLIER for name in REFITTED),
        ),
    ]


def _dominates(campuses: Campuses, whom: str, rivals: Sequence[str]) -> Verdict:
    """Whether our curve is nowhere below any of theirs."""
    low = shortfall(campuses, rivals, LOW_RATES)
    enough = shortfall(campuses, rivals, (ENOUGH, LOW_RATES[1]))
    return Verdict(
        f"MLE dominates {whom} at low false-positive rates ({LOW_RATES[0]:g} to {LOW_RATES[1]:g})",
        low.below == 0,
        f"It is {low}. From {ENOUGH:g} on, below which curves are made of a few roommates, it is "
        f"{enough}.",
    )


# ---------------------------------------------------------------------- rivals
def rivals_below_constant(campuses: Campuses) -> list[Verdict]:
    return [
        _below_constant(campuses, name, form, words)
        for name in (PERCEPTRON, SVM)
        for form, words in (("", "trained again on all years"), (EARLIER, "as chosen"))
    ]


def _below_constant(campuses: Campuses, name: str, form: str, words: str) -> Verdict:
    pairs = [(c.entries[name + form].auc, c.entries[CONSTANT].auc) for c in campuses]
    below = sum(rival < constant for rival, constant in pairs)
    told = "; ".join(f"{rival:.4f} against {constant:.4f}" for rival, constant in pairs)
    return Verdict(
        f"The AUC of the {name}, {words}, is below that of the constant weights",
        below == len(pairs),
        f"On {below} of {len(pairs)} campuses: {told}.",
    )


def better_than_chance(campuses: Campuses) -> Verdict:
    name = SVM + IN_RANGE
    held = all(0.5 < c.entries[name].auc < c.entries[OURS].auc for c in campuses)
    told = "; ".join(
        f"{c.entries[name].auc:.4f} against {c.entries[OURS].auc:.4f}" for c in campuses
    )
    return Verdict(
        "The SVM at the best lambda of the paper's range is better than random guessing, but "
        "worse than MLE",
        held,
        f"AUC {told}.",
    )


def tuned_as_much(campuses: Campuses) -> Verdict:
    """The paper speaks of extensive tuning."""
    held, said = True, []
    for name in campuses[0].tuning:
        counts = [campus.tuning[name].configurations for campus in campuses]
        seconds = [campus.tuning[name].seconds for campus in campuses]
        said.append(f"{name}: {counts[0]} configurations, {np.mean(seconds):.1f} CPU s")
        held = held and all(
            campus.tuning[name].configurations >= campus.tuning[OURS_TUNED].configurations
            and campus.tuning[name].seconds >= campus.tuning[OURS_TUNED].seconds
            for campus in campuses
        )
    return Verdict(
        "The perceptron and the SVM were tuned over at least as many configurations and for at "
        "least as much CPU time as MLE, on every campus",
        held,
        "; ".join(said) + " (mean per campus).",
    )


def no_high_accuracy(campuses: Campuses) -> Verdict:
    errors = [campus.entries[OURS].hamming for campus in campuses]
    known = [c.entries[TRUTH].hamming for c in campuses if TRUTH in c.entries]
    truth = f"; the true weights: {np.mean(known):.4f}" if known else ""
    return Verdict(
        "Whole matchings are not predicted: most roommates are missed (Hamming error above .9)",
        min(errors) > 0.9,
        f"Mean {np.mean(errors):.4f}{truth}.",
    )


# ---------------------------------------------------------------------- questions
def strong_questions(campuses: Campuses) -> list[Verdict]:
    questions, truth = campuses[0].questions, planted(campuses)
    names = ", ".join(STRONG)
    verdicts = []
    for method, words in ((LIKELY, "the likelihood"), (OURS, "AUC")):
        learned = stacked(campuses, method)
        first = [{questions[q] for q in np.argsort(row)[: len(STRONG)]} for row in learned]
        kept = sum(found == set(STRONG) for found in first)
        ordered = sum(same_order(row, truth, questions) for row in learned)
        near = np.mean([np.corrcoef(ranks(row), ranks(truth))[0, 1] for row in learned])
        verdicts.append(
            Verdict(
                f"{names} require the closest agreement, at the alpha that {words} chooses",
                kept == len(learned),
                f"They come first on {kept} of {len(learned)} campuses, in the true order on "
                f"{ordered}; the rank correlation of all weights with the truth is {near:.3f} "
                "on average.",
            )
        )
    return verdicts


def weak_questions(campuses: Campuses) -> Verdict:
    """Half of all questions, as in the paper's ranking."""
    questions = campuses[0].questions
    found = ranks(stacked(campuses).mean(axis=0))
    places = {name: found[questions.index(name)] for name in WEAK}
    told = ", ".join(f"{name} {place}" for name, place in places.items())
    return Verdict(
        f"{', '.join(WEAK)} are among the least important (rank {len(questions) // 2} or below)",
        min(places.values()) >= len(questions) // 2,
        f"Ranks of the mean weights among {len(questions)}: {told}.",
    )
