"""The paper's numbers beside ours. The data differ: theirs are private, ours are generated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..contract import Comparison
from .methods import CONSTANT, SVM, TRUTH
from .published import (
    ITEMS,
    SHARED,
    SVM_AUC,
    SVM_AUC_DIGIT,
    SVM_HAMMING,
    SVM_HAMMING_DIGIT,
    WEIGHT_DIGIT,
)
from .results import IN_RANGE, CampusResult, generated
from .weights import by_question, planted, published_ranks, shared_ranks, stacked

Campuses = Sequence[CampusResult]


def all_comparisons(campuses: Campuses) -> list[Comparison]:
    known = generated(campuses)
    return [*machine(campuses), *(weights(known) if known else [])]


def machine(campuses: Campuses) -> list[Comparison]:
    """The structured SVM, at the best lambda of the paper's range."""
    entries = [campus.entries[SVM + IN_RANGE] for campus in campuses]
    aucs, errors = [e.auc for e in entries], [e.hamming for e in entries]
    notes = "; ".join(entry.note for entry in entries)
    return [
        Comparison(
            "AUC of the structured SVM",
            SVM_AUC,
            float(np.mean(aucs)),
            better="none",
            digit=SVM_AUC_DIGIT,
            spread=(min(aucs), max(aucs)),
            whose="rival",
            remark="Other data, generated ones: the constant weights have an AUC of "
            f"{_mean(campuses, CONSTANT, 'auc'):.3f} there{_truth(campuses, 'auc')}. "
            f"Chosen: {notes}.",
        ),
        Comparison(
            "Hamming error of the structured SVM",
            SVM_HAMMING,
            float(np.mean(errors)),
            better="none",
            digit=SVM_HAMMING_DIGIT,
            spread=(min(errors), max(errors)),
            whose="rival",
            remark="Other data, generated ones: the constant weights have an error of "
            f"{_mean(campuses, CONSTANT, 'hamming'):.4f} there{_truth(campuses, 'hamming')}.",
        ),
    ]


def _mean(campuses: Campuses, name: str, field: str) -> float:
    return float(np.mean([getattr(campus.entries[name], field) for campus in campuses]))


def _truth(campuses: Campuses, field: str) -> str:
    known = generated(campuses)
    return f", the true weights one of {_mean(known, TRUTH, field):.4f}" if known else ""


def weights(campuses: Campuses) -> list[Comparison]:
    """All published weights; what was planted follows their order, at a scale of its own."""
    learned = stacked(campuses)
    truth = by_question(campuses, planted(campuses))
    mean = by_question(campuses, learned.mean(axis=0))
    printed, found = published_ranks(), shared_ranks(mean.__getitem__)
    comparisons = []
    for item in ITEMS:
        name = item.question
        ours, spread = None, None
        remark = item.absent
        if name is not None:
            column = learned[:, campuses[0].questions.index(name)]
            ours, spread = mean[name], (float(column.min()), float(column.max()))
            same = found[name] == printed[name]
            remark = (
                f"Other data: {_planted(truth[name], item.weight)}. "
                f"Rank {found[name]} of the {len(SHARED)} shared questions, "
                + ("as published." if same else f"published {printed[name]}.")
            )
        comparisons.append(
            Comparison(
                f"weight of a difference in {item.name}",
                item.weight,
                ours,
                better="none",
                digit=WEIGHT_DIGIT,
                spread=spread,
                remark=remark,
            )
        )
    return comparisons


def _planted(weight: float, published: float) -> str:
    if weight == 0.0:
        return "no weight was planted"
    return f"{weight:.3f} was planted, {weight / published:.1f} times the published weight"
