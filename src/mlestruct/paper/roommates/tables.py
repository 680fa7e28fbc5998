"""The tables of the experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contract import Table
from .methods import LIKELY, OURS, PERCEPTRON, SVM, SVM_LAST
from .published import ITEMS, SHARED, STRONG
from .quality import RATES, curve_rates
from .results import OURS_TUNED, SVM_TUNED, CampusResult, Entry, generated
from .weights import by_question, planted, published_ranks, ranks, same_order, shared_ranks, stacked

CHOSEN = {OURS_TUNED: (OURS,), PERCEPTRON: (PERCEPTRON,), SVM_TUNED: (SVM, SVM_LAST)}


def all_tables(campuses: Sequence[CampusResult]) -> list[Table]:
    """What is shown first, then what is only written."""
    tables = [methods_table(campuses), tuning_table(campuses)]
    known = generated(campuses)
    if known:
        tables += [weights_table(known), published_table(known), alpha_table(known)]
    tables += [own_weights_table(campus) for campus in campuses if campus not in known]
    return [*tables, campus_table(campuses), curve_table(campuses), theta_table(campuses)]


# ---------------------------------------------------------------------- methods
def methods_in(campuses: Sequence[CampusResult]) -> list[str]:
    """Methods that all campuses have: those without a truth have none of its entries."""
    return [name for name in campuses[0].entries if all(name in c.entries for c in campuses)]


def methods_table(campuses: Sequence[CampusResult]) -> Table:
    rows = []
    for name in methods_in(campuses):
        entries = [campus.entries[name] for campus in campuses]
        aucs = [entry.auc for entry in entries]
        rows.append(
            [
                name, _mean(aucs, 4), f"{min(aucs):.4f} to {max(aucs):.4f}",
                *(_mean([entry.accepted[k] for entry in entries], 4) for k in range(len(RATES))),
                _mean([entry.rank for entry in entries], 1),
                _mean([entry.hamming for entry in entries], 4),
                _seconds(entries),
            ]
        )  # fmt: skip
    head = ["method", "AUC", "range", *(f"accepted at {rate:g}" for rate in RATES)]
    return Table(
        "methods",
        f"In a year not seen, {_means_of(campuses)}: AUC over all pairs; share of roommates "
        "accepted together with that share of other pairs; mean rank of the roommate; share of "
        "students whom the best matching gives a wrong roommate; CPU seconds of the last fit",
        [*head, "rank", "Hamming error", "CPU s"],
        rows,
    )


def _means_of(campuses: Sequence[CampusResult]) -> str:
    return "one campus" if len(campuses) == 1 else f"means of {len(campuses)} campuses"


def _mean(values: Sequence[float], digits: int) -> float:
    return round(float(np.mean(values)), digits)


def _seconds(entries: Sequence[Entry]) -> float | str:
    spent = [entry.seconds for entry in entries if entry.seconds is not None]
    return _mean(spent, 2) if spent else ""


def campus_table(campuses: Sequence[CampusResult]) -> Table:
    rows = [
        [
            campus.name, name, entry.auc, *entry.accepted, entry.rank, entry.hamming,
            entry.validation, entry.seconds, entry.note,
        ]
        for campus in campuses
        for name, entry in campus.entries.items()
    ]  # fmt: skip
    head = ["campus", "method", "AUC", *(f"accepted at {rate:g}" for rate in RATES)]
    head += ["rank", "Hamming error", "AUC when chosen", "CPU s", "chosen"]
    return Table("campuses", "All methods on all campuses", head, rows, shown=False)


def curve_table(campuses: Sequence[CampusResult]) -> Table:
    rows = [
        [campus.name, name, rate, share]
        for campus in campuses
        for name, entry in campus.entries.items()
        for rate, share in zip(curve_rates().tolist(), entry.curve.tolist(), strict=True)
    ]
    head = ["campus", "method", "false positive rate", "true positive rate"]
    return Table("curves", "ROC curves", head, rows, shown=False)


def theta_table(campuses: Sequence[CampusResult]) -> Table:
    rows = [
        [campus.name, name, place, weight]
        for campus in campuses
        for name, entry in campus.entries.items()
        for place, weight in enumerate(entry.theta.tolist())
    ]
    head = ["campus", "method", "feature", "weight"]
    return Table("all_weights", "All weights of all methods", head, rows, shown=False)


# ---------------------------------------------------------------------- tuning
def tuning_table(campuses: Sequence[CampusResult]) -> Table:
    rows = []
    for name, methods in CHOSEN.items():
        tuned = [campus.tuning[name] for campus in campuses]
        notes = "; ".join(
            " / ".join(campus.entries[method].note for method in methods) for campus in campuses
        )
        spent = _mean([one.seconds for one in tuned], 1)
        rows.append([name, tuned[0].configurations, spent, notes])
    return Table(
        "tuning",
        "Configurations tried on each campus, CPU seconds of that (mean), and what was chosen "
        "(SVM: averaged / last iterate)",
        ["method", "configurations", "CPU s", "chosen, campus by campus"],
        rows,
    )


# ---------------------------------------------------------------------- weights
def weights_table(campuses: Sequence[CampusResult]) -> Table:
    learned, truth = stacked(campuses), planted(campuses)
    mean = learned.mean(axis=0)
    by_auc = stacked(campuses, OURS).mean(axis=0)
    true_ranks, found_ranks = ranks(truth), ranks(mean)
    rows = [
        [
            campuses[0].questions[q], round(float(truth[q]), 3), true_ranks[q],
            round(float(mean[q]), 3), found_ranks[q],
            f"{learned[:, q].min():.3f} to {learned[:, q].max():.3f}", round(float(by_auc[q]), 3),
        ]
        for q in np.argsort(truth, kind="stable")
    ]  # fmt: skip
    return Table(
        "weights",
        f"Weights per level of difference, {_means_of(campuses)}: true and learned at the alpha "
        "that the likelihood chooses, with ranks (1: agreement matters most), and at the alpha "
        "that AUC chooses",
        ["question", "true", "rank", "learned", "rank of learned", "range", "learned, AUC's alpha"],
        rows,
    )


def published_table(campuses: Sequence[CampusResult]) -> Table:
    truth = by_question(campuses, planted(campuses))
    mean = by_question(campuses, stacked(campuses).mean(axis=0))
    printed = published_ranks()
    true_ranks, found_ranks = shared_ranks(truth.__getitem__), shared_ranks(mean.__getitem__)
    rows: list[list[Any]] = []
    for item in sorted(ITEMS, key=lambda item: item.rank):
        row: list[Any] = [item.name, item.weight, item.rank]
        name = item.question
        if name is None:
            rows.append([*row, "", "", "", "", ""])
            continue
        ranked = [printed[name], true_ranks[name], found_ranks[name]]
        rows.append([*row, *ranked, round(truth[name], 3), round(mean[name], 3)])
    return Table(
        "published_weights",
        "The paper's weights (its data are not public) beside those of generated campuses; the "
        f"three ranks are among the {len(SHARED)} questions that both surveys have",
        ["question", "published", "rank of 14", "published rank", "true rank", "learned rank",
         "true weight", "learned weight"],
        rows,
    )  # fmt: skip


def own_weights_table(campus: CampusResult) -> Table:
    weights = campus.weights()
    rows = [
        [campus.questions[q], round(float(weights[q]), 4), rank + 1]
        for rank, q in enumerate(np.argsort(weights, kind="stable"))
    ]
    title = f"Weights per level of difference, {campus.name}, {LIKELY}"
    return Table("own_weights", title, ["question", "weight", "rank"], rows)


# ---------------------------------------------------------------------- by alpha
def alpha_table(campuses: Sequence[CampusResult]) -> Table:
    """Regularisation shrinks weights of rare answers most: few pairs differ in smoking."""
    questions, truth = campuses[0].questions, planted(campuses)
    paths = np.array([campus.path["weights"] for campus in campuses])
    aucs = np.array([campus.path["aucs"] for campus in campuses])
    places = [questions.index(name) for name in STRONG]
    rows: list[list[Any]] = []
    for k, alpha in enumerate(campuses[0].path["alphas"]):
        kept = sum(same_order(path[k], truth, questions) for path in paths)
        mean = paths[:, k].mean(axis=0)
        cells = [round(float(mean[q]), 3) for q in places]
        rows.append([alpha, *cells, f"{kept} of {len(paths)}", _mean(aucs[:, k].tolist(), 4)])
    rows.append(["true", *(round(float(truth[q]), 3) for q in places), "", ""])
    return Table(
        "alpha",
        "Strong questions by alpha (means), campuses on which they have their true order, and "
        "AUC in the test year",
        ["alpha", *STRONG, "true order", "AUC"],
        rows,
    )
