"""The tables of the experiment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..contract import Table
from .claims import ITEMS, SHARED
from .evaluation import RATES, curve_rates
from .methods import LIKELY, OURS, PERCEPTRON, SVM, SVM_LAST
from .results import (
    STRONG,
    Campuses,
    CampusResult,
    generated,
    mean_of,
    planted,
    ranks,
    same_order,
    stacked,
)

CHOSEN = {"MLE": (OURS,), PERCEPTRON: (PERCEPTRON,), "SVM": (SVM, SVM_LAST)}
ACCEPTED = [f"accepted at {rate:g}" for rate in RATES]


def all_tables(campuses: Campuses) -> list[Table]:
    """What is shown first, then what is only written."""
    tables = [methods_table(campuses), tuning_table(campuses)]
    known = generated(campuses)
    if known:
        tables += [weights_table(known), published_table(known), alpha_table(known)]
    tables += [own_weights_table(campus) for campus in campuses if campus not in known]
    return [*tables, *long_tables(campuses)]


def _means_of(campuses: Campuses) -> str:
    return "one campus" if len(campuses) == 1 else f"means of {len(campuses)} campuses"


def methods_table(campuses: Campuses) -> Table:
    """Methods that all campuses have: those without a truth have none of its entries."""
    rows = []
    for name in campuses[0].entries:
        entries = [campus.entries[name] for campus in campuses if name in campus.entries]
        if len(entries) < len(campuses):
            continue
        aucs = [entry["auc"] for entry in entries]
        shares = np.mean([entry["accepted"] for entry in entries], axis=0)
        spent = [entry["seconds"] for entry in entries if entry.get("seconds") is not None]
        rows.append(
            [
                name,
                round(float(np.mean(aucs)), 4),
                f"{min(aucs):.4f} to {max(aucs):.4f}",
                *(round(float(share), 4) for share in shares),
                round(mean_of(campuses, name, "rank"), 1),
                round(mean_of(campuses, name, "hamming"), 4),
                round(float(np.mean(spent)), 2) if spent else "",
            ]
        )
    return Table(
        "methods",
        f"In a year not seen, {_means_of(campuses)}: AUC over all pairs; share of roommates "
        "accepted together with that share of other pairs; mean rank of the roommate; share of "
        "students whom the best matching gives a wrong roommate; CPU seconds of the last fit",
        ["method", "AUC", "range", *ACCEPTED, "rank", "Hamming error", "CPU s"],
        rows,
    )


def tuning_table(campuses: Campuses) -> Table:
    rows = []
    for name, methods in CHOSEN.items():
        spent = round(float(np.mean([campus.tuning[name][1] for campus in campuses])), 1)
        notes = [" / ".join(campus.entries[m]["note"] for m in methods) for campus in campuses]
        rows.append([name, campuses[0].tuning[name][0], spent, "; ".join(notes)])
    return Table(
        "tuning",
        "Configurations tried on each campus, CPU seconds of that (mean), and what was chosen "
        "(SVM: averaged / last iterate)",
        ["method", "configurations", "CPU s", "chosen, campus by campus"],
        rows,
    )


# ---------------------------------------------------------------------- weights
def _rounded(values: Iterable[float], digits: int = 3) -> list[float]:
    return [round(float(value), digits) for value in values]


def weights_table(campuses: Campuses) -> Table:
    learned, truth = stacked(campuses), planted(campuses)
    mean, by_auc = learned.mean(axis=0), stacked(campuses, OURS).mean(axis=0)
    true_ranks, found_ranks = ranks(truth), ranks(mean)
    rows = []
    for q in np.argsort(truth, kind="stable"):
        true, found, other = _rounded((truth[q], mean[q], by_auc[q]))
        spread = f"{learned[:, q].min():.3f} to {learned[:, q].max():.3f}"
        name = campuses[0].questions[q]
        rows.append([name, true, true_ranks[q], found, found_ranks[q], spread, other])
    return Table(
        "weights",
        f"Weights per level of difference, {_means_of(campuses)}: true and learned at the alpha "
        "that the likelihood chooses, with ranks (1: agreement matters most), and at the alpha "
        "that AUC chooses",
        ["question", "true", "rank", "learned", "rank of learned", "range", "learned, AUC's alpha"],
        rows,
    )


def published_table(campuses: Campuses) -> Table:
    places = [campuses[0].questions.index(name) for name in SHARED]
    truth, mean = planted(campuses)[places], stacked(campuses).mean(axis=0)[places]
    columns = (ranks(list(SHARED.values())), ranks(truth), ranks(mean), _rounded(truth),
               _rounded(mean))  # fmt: skip
    shared = dict(zip(SHARED, zip(*columns, strict=True), strict=True))
    rows: list[list[Any]] = [
        [item.name, item.weight, item.rank, *shared.get(str(item.question), [""] * 5)]
        for item in sorted(ITEMS, key=lambda item: item.rank)
    ]
    return Table(
        "published_weights",
        "The paper's weights (its data are not public) beside those of generated campuses; the "
        f"three ranks are among the {len(SHARED)} questions that both surveys have",
        ["question", "published", "rank of 14", "published rank", "true rank", "learned rank",
         "true weight", "learned weight"],
        rows,
    )  # fmt: skip


def alpha_table(campuses: Campuses) -> Table:
    """Regularisation shrinks weights of rare answers most: few pairs differ in smoking."""
    questions, truth = campuses[0].questions, planted(campuses)
    paths = np.array([campus.path["weights"] for campus in campuses])
    aucs = np.mean([campus.path["aucs"] for campus in campuses], axis=0)
    places = [questions.index(name) for name in STRONG]
    rows: list[list[Any]] = []
    for k, alpha in enumerate(campuses[0].path["alphas"]):
        kept = sum(same_order(path[k], truth, questions) for path in paths)
        mean = _rounded(paths[:, k].mean(axis=0)[places])
        rows.append([alpha, *mean, f"{kept} of {len(paths)}", round(float(aucs[k]), 4)])
    rows.append(["true", *_rounded(truth[places]), "", ""])
    return Table(
        "alpha",
        "Strong questions by alpha (means), campuses on which they have their true order, and "
        "AUC in the test year",
        ["alpha", *STRONG, "true order", "AUC"],
        rows,
    )


def own_weights_table(campus: CampusResult) -> Table:
    weights = campus.weights()
    rows = [
        [campus.questions[q], round(float(weights[q]), 4), rank + 1]
        for rank, q in enumerate(np.argsort(weights, kind="stable"))
    ]
    title = f"Weights per level of difference, {campus.name}, {LIKELY}"
    return Table("own_weights", title, ["question", "weight", "rank"], rows)


# ---------------------------------------------------------------------- only written
def long_tables(campuses: Campuses) -> list[Table]:
    entries = [
        (campus.name, name, entry)
        for campus in campuses
        for name, entry in campus.entries.items()
    ]  # fmt: skip
    rows = [
        [campus, name, one["auc"], *one["accepted"], one["rank"], one["hamming"],
         one.get("validation"), one.get("seconds"), one["note"]]
        for campus, name, one in entries
    ]  # fmt: skip
    rates = curve_rates().tolist()
    return [
        Table(
            "campuses", "All methods on all campuses",
            ["campus", "method", "AUC", *ACCEPTED, "rank", "Hamming error", "AUC when chosen",
             "CPU s", "chosen"],
            rows, shown=False,
        ),
        Table(
            "curves", "ROC curves",
            ["campus", "method", "false positive rate", "true positive rate"],
            [[*at, *point] for *at, e in entries for point in zip(rates, e["curve"], strict=True)],
            shown=False,
        ),
        Table(
            "all_weights", "All weights of all methods",
            ["campus", "method", "feature", "weight"],
            [[*at, place, w] for *at, e in entries for place, w in enumerate(e["theta"])],
            shown=False,
        ),
    ]  # fmt: skip
