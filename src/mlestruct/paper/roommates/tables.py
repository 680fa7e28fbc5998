"""The tables of the experiment."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contract import Table
from . import results
from .evaluation import RATES, curve_rates
from .methods import LIKELY, OURS, PERCEPTRON, SVM, SVM_LAST
from .results import ITEMS, SHARED, STRONG, Campuses, CampusResult, planted, ranks, stacked

CHOSEN = {"MLE": (OURS,), PERCEPTRON: (PERCEPTRON,), "SVM": (SVM, SVM_LAST)}
ACCEPTED = [f"accepted at {rate:g}" for rate in RATES]


def all_tables(campuses: Campuses) -> list[Table]:
    """What is shown first, then what is only written."""
    known = results.generated(campuses)
    some = "one campus" if len(campuses) == 1 else f"means of {len(campuses)} campuses"
    return [
        methods_table(campuses, some),
        tuning_table(campuses),
        *(
            [weights_table(known, some), published_table(known), alpha_table(known)]
            if known
            else []
        ),
        *(own_weights_table(campus) for campus in campuses if campus not in known),
        *long_tables(campuses),
    ]


def methods_table(campuses: Campuses, some: str) -> Table:
    """Methods that all campuses have: those without a truth have none of its entries."""
    rows = []
    for name in campuses[0].entries:
        entries = [campus.entries[name] for campus in campuses if name in campus.entries]
        if len(entries) < len(campuses):
            continue
        aucs, ranked, wrong = ([e[key] for e in entries] for key in ("auc", "rank", "hamming"))
        shares = np.mean([entry["accepted"] for entry in entries], axis=0)
        spent = [entry["seconds"] for entry in entries if entry.get("seconds") is not None]
        row = [
            name,
            np.mean(aucs).round(4),
            f"{min(aucs):.4f} to {max(aucs):.4f}",
            *shares.round(4),
        ]
        row += [np.mean(ranked).round(1), np.mean(wrong).round(4)]
        rows.append([*row, np.mean(spent).round(2) if spent else ""])
    return Table(
        "methods",
        f"In a year not seen, {some}: AUC over all pairs; share of roommates accepted together "
        "with that share of other pairs; mean rank of the roommate; share of students whom the "
        "best matching gives a wrong roommate; CPU seconds of the last fit",
        ["method", "AUC", "range", *ACCEPTED, "rank", "Hamming error", "CPU s"],
        rows,
    )


def tuning_table(campuses: Campuses) -> Table:
    rows = []
    for name, methods in CHOSEN.items():
        spent = np.mean([campus.tuning[name][1] for campus in campuses]).round(1)
        notes = [" / ".join(campus.entries[m]["note"] for m in methods) for campus in campuses]
        rows.append([name, campuses[0].tuning[name][0], spent, "; ".join(notes)])
    title = (
        "Configurations tried on each campus, CPU seconds of that (mean), and what was chosen "
        "(SVM: averaged / last iterate)"
    )
    head = ["method", "configurations", "CPU s", "chosen, campus by campus"]
    return Table("tuning", title, head, rows)


# ---------------------------------------------------------------------- weights
def weights_table(campuses: Campuses, some: str) -> Table:
    learned, truth = stacked(campuses), planted(campuses)
    mean, order = learned.mean(axis=0), np.argsort(truth, kind="stable")
    ends = zip(learned.min(axis=0)[order], learned.max(axis=0)[order], strict=True)
    columns: dict[str, Any] = {
        "question": [campuses[0].questions[q] for q in order],
        "true": truth[order].round(3),
        "rank": ranks(truth)[order],
        "learned": mean[order].round(3),
        "rank of learned": ranks(mean)[order],
        "range": [f"{low:.3f} to {high:.3f}" for low, high in ends],
        "learned, AUC's alpha": stacked(campuses, OURS).mean(axis=0)[order].round(3),
    }
    title = (
        f"Weights per level of difference, {some}: true and learned at the alpha that the "
        "likelihood chooses, with ranks (1: agreement matters most), and at the alpha that AUC "
        "chooses"
    )
    return Table.of("weights", title, columns)


def published_table(campuses: Campuses) -> Table:
    places = [campuses[0].questions.index(name) for name in SHARED]
    truth, mean = planted(campuses)[places], stacked(campuses).mean(axis=0)[places]
    ranked = [ranks(np.array(list(SHARED.values()))), ranks(truth), ranks(mean)]
    shared = dict(
        zip(SHARED, zip(*ranked, truth.round(3), mean.round(3), strict=True), strict=True)
    )
    rows = [
        [item.name, item.weight, item.rank, *shared.get(str(item.question), [""] * 5)]
        for item in sorted(ITEMS, key=lambda item: item.rank)
    ]
    title = (
        "The paper's weights (its data are not public) beside those of generated campuses; the "
        f"three ranks are among the {len(SHARED)} questions that both surveys have"
    )
    head = ["question", "published", "rank of 14", "published rank", "true rank", "learned rank"]
    return Table("published_weights", title, [*head, "true weight", "learned weight"], rows)


def alpha_table(campuses: Campuses) -> Table:
    """Regularisation shrinks weights of rare answers most: few pairs differ in smoking."""
    truth, places = planted(campuses), [campuses[0].questions.index(name) for name in STRONG]
    paths = np.array([campus.path["weights"] for campus in campuses])[:, :, places]
    aucs = np.mean([campus.path["aucs"] for campus in campuses], axis=0)
    rows: list[list[Any]] = []
    for alpha, weights, auc in zip(
        campuses[0].path["alphas"], paths.swapaxes(0, 1), aucs, strict=True
    ):
        kept = sum((ranks(row) == ranks(truth[places])).all() for row in weights)
        mean = weights.mean(axis=0).round(3)
        rows.append([alpha, *mean, f"{kept} of {len(weights)}", auc.round(4)])
    rows.append(["true", *truth[places].round(3), "", ""])
    title = (
        "Strong questions by alpha (means), campuses on which they have their true order, and AUC "
        "in the test year"
    )
    return Table("alpha", title, ["alpha", *STRONG, "true order", "AUC"], rows)


def own_weights_table(campus: CampusResult) -> Table:
    order = np.argsort(campus.weights(), kind="stable")
    columns: dict[str, Any] = {
        "question": [campus.questions[q] for q in order],
        "weight": campus.weights()[order].round(4),
        "rank": range(1, len(order) + 1),
    }
    title = f"Weights per level of difference, {campus.name}, {LIKELY}"
    return Table.of("own_weights", title, columns)


# ---------------------------------------------------------------------- only written
def long_tables(campuses: Campuses) -> list[Table]:
    entries = [(c.name, name, entry) for c in campuses for name, entry in c.entries.items()]
    keys = ("rank", "hamming", "validation", "seconds", "note")
    found = [[*at, e["auc"], *e["accepted"], *map(e.get, keys)] for *at, e in entries]
    rates = curve_rates()
    curves = [[*at, *point] for *at, e in entries for point in zip(rates, e["curve"], strict=True)]
    weights = [[*at, place, w] for *at, e in entries for place, w in enumerate(e["theta"])]
    head = ["campus", "method"]
    columns = [
        *head,
        "AUC",
        *ACCEPTED,
        "rank",
        "Hamming error",
        "AUC when chosen",
        "CPU s",
        "chosen",
    ]
    points = [*head, "false positive rate", "true positive rate"]
    return [
        Table("campuses", "All methods on all campuses", columns, found, shown=False),
        Table("curves", "ROC curves", points, curves, shown=False),
        Table("all_weights", "All weights", [*head, "feature", "weight"], weights, shown=False),
    ]
