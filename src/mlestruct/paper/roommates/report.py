"""What is told: tables, pictures, comparisons and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...plotting.roommates import plot_question_weights, plot_roc_curves
from ..contract import Outcome, Picture, Setting
from .comparisons import all_comparisons
from .methods import CONSTANT, EARLIER, OURS, PERCEPTRON, SVM, TRUTH
from .published import ITEMS, SHARED
from .quality import curve_rates
from .results import CampusResult, generated, read_results
from .tables import all_tables
from .verdicts import all_verdicts, mean_auc
from .weights import by_question, planted, stacked

CURVES = (OURS, TRUTH, PERCEPTRON + EARLIER, PERCEPTRON, SVM + EARLIER, SVM, CONSTANT)
Campuses = Sequence[CampusResult]


def report(setting: Setting, found: Mapping[str, Any]) -> Outcome:
    """The outcome, from the results of all parts."""
    campuses = read_results(setting, found)
    quick = setting["why"] == "quick"
    return Outcome(
        summary=summary(setting, campuses),
        tables=all_tables(campuses),
        pictures=pictures(campuses),
        comparisons=[] if quick else all_comparisons(campuses),
        verdicts=all_verdicts(campuses, timed=not quick),
        numbers={
            "aucs": {name: [c.entries[name].auc for c in campuses] for name in CURVES
                     if all(name in c.entries for c in campuses)},
            "students": [campus.students for campus in campuses],
            "fits without a certificate": sum(campus.unfinished for campus in campuses),
        },
    )  # fmt: skip


def summary(setting: Setting, campuses: Campuses) -> list[str]:
    sizes = [n for campus in campuses for n in campus.students]
    told = [
        f"Data: {setting['data']} ({setting['why']}); {len(campuses)} "
        f"{'campus' if len(campuses) == 1 else 'campuses'}, {min(sizes)} to {max(sizes)} students "
        "a year, the last year of each to test.",
        f"AUC over all pairs: {mean_auc(campuses, OURS):.3f} (MLE), "
        f"{mean_auc(campuses, CONSTANT):.3f} (constant weights), "
        f"{mean_auc(campuses, PERCEPTRON):.3f} (perceptron), {mean_auc(campuses, SVM):.3f} (SVM). "
        "What the last two learn depends on when they stop: with the years on which their passes "
        f"were chosen alone they reach {mean_auc(campuses, PERCEPTRON + EARLIER):.3f} and "
        f"{mean_auc(campuses, SVM + EARLIER):.3f}, MLE {mean_auc(campuses, OURS + EARLIER):.3f}.",
    ]
    known = generated(campuses)
    if known:
        told.append(f"The true weights have an AUC of {mean_auc(known, TRUTH):.3f}. {scale(known)}")
    unfinished = sum(campus.unfinished for campus in campuses)
    if unfinished:
        told.append(f"{unfinished} maximum-likelihood fits did not reach their tolerance.")
    return told


def scale(campuses: Campuses) -> str:
    """How the planted weights relate to the published ones."""
    truth = by_question(campuses, planted(campuses))
    factors = [
        truth[item.question] / item.weight
        for item in SHARED
        if item.question is not None and truth[item.question] != 0.0
    ]
    low, high = min(factors), max(factors)
    zero = [item.name for item in SHARED if truth[str(item.question)] == 0.0]
    return (
        "What was planted follows the paper's table: of the questions that both surveys have, "
        f"{len(factors)} have {low:.0f} to {high:.0f} times the published weight, and "
        f"{' and '.join(zero)} none. The order that is found is therefore a test of learning, not "
        "evidence about students."
    )


# ---------------------------------------------------------------------- pictures
def pictures(campuses: Campuses) -> list[Picture]:
    shown = [name for name in CURVES if all(name in campus.entries for campus in campuses)]
    curves = {
        f"{name}, AUC {mean_auc(campuses, name):.3f}": np.mean(
            [campus.entries[name].curve for campus in campuses], axis=0
        )
        for name in shown
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
        published = {str(item.question): item.weight for item in ITEMS if item.question}
        found.append(
            Picture(
                "weights",
                "Weights per level of difference, learned and true, and the paper's own, which "
                "were learned from other students.",
                plot_question_weights(
                    known[0].questions, stacked(known), planted(known), published
                ),
            )
        )
    return found
