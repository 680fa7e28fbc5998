"""House and hotel: matching hand-labelled landmarks of two frames (the paper's graph matchings).

At every gap between frames: the CRF at the paper's rho = 1, at .95 and at 1/2, with rho chosen by
cross-validation as well, the structured hinge loss ("linear + learning") and an averaged
perceptron, all on the same features, -(difference of shape-context bins)^2, and tuned alike (see
`landmarks`). Losses are shares of wrongly matched landmarks in test pairs, averaged over the three
thirds of the pairs that can be the test set. Which pairs were tested for the published numbers is
not known; that they were a third of all can be told from their digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .contract import Experiment, Outcome, Part, Picture, Setting, Table
from .figures.landmarks import plot_losses_by_gap
from .house_hotel_published import (
    CHOSEN,
    HINGE,
    PAPER,
    PERCEPTRON,
    PUBLISHED,
    Losses,
    compared,
    verdicts,
    whole_losses,
)
from .landmark_results import Loss, best_of, loss_of, mean_of
from .landmarks import (
    GAPS,
    common_setting,
    configurations,
    is_real,
    landmarks_of,
    name_of,
    tuned_losses,
)

RHOS = (0.5, 0.95, 1.0)
COLUMNS = (PAPER, name_of(0.95), name_of(0.5), CHOSEN, HINGE, PERCEPTRON)


class HouseHotel(Experiment):
    name: ClassVar[str] = "house-hotel"
    title: ClassVar[str] = "Landmark matching: test loss by gap between frames"
    place: ClassVar[str] = "graph matchings, table of the hotel and the house"

    def setting(self, quick: bool) -> Setting:
        setting = common_setting(quick, ["hotel", "house"])
        return setting | {
            "gaps": [8, 14] if quick else list(GAPS),
            "methods": [*(name_of(rho) for rho in RHOS), HINGE, PERCEPTRON],
        }

    def parts(self, setting: Setting) -> Sequence[Part]:
        """One per sequence, gap and method."""
        return [
            Part(part_name(name, gap, method), partial(tuned_losses, setting, name, gap, method))
            for name in setting["sequences"]
            for gap in setting["gaps"]
            for method in setting["methods"]
        ]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        losses = gathered(setting, found)
        means = {name: column_means(by_gap) for name, by_gap in losses.items()}
        real = is_real(setting)
        effort = efforts(setting, found)
        return Outcome(
            summary=[*_summary(setting, means), *_effort_sentence(effort)],
            tables=[
                *(_loss_table(name, losses[name], means[name], real) for name in losses),
                _effort_table(effort),
                _protocol_table(means),
                _raw_table(setting, found),
            ],
            pictures=[_picture(setting, losses, real)],
            comparisons=compared(setting["gaps"], losses, means) if real else [],
            verdicts=verdicts(means) if real else [],
            numbers={
                "means": {
                    name: {column: loss.mean for column, loss in by_column.items()}
                    for name, by_column in means.items()
                },
                **({"published losses": whole_losses()} if real else {}),
            },
        )


def part_name(name: str, gap: int, method: str) -> str:
    return f"{name}, gap {gap}, {method}"


# ---------------------------------------------------------------------- what was found
def gathered(setting: Setting, found: Mapping[str, Any]) -> Losses:
    """Losses of all columns, those of the CRF with rho chosen among them."""
    losses: Losses = {}
    n_landmarks = landmarks_of(setting)
    for name in setting["sequences"]:
        losses[name] = {}
        for gap in setting["gaps"]:
            results = {m: found[part_name(name, gap, m)] for m in setting["methods"]}
            by_rho = {m: result for m, result in results.items() if m.startswith("rho")}
            every = {m: loss_of(result, n_landmarks) for m, result in results.items()}
            every[CHOSEN] = best_of(by_rho, n_landmarks)
            losses[name][gap] = {column: every[column] for column in COLUMNS if column in every}
    return losses


def column_means(by_gap: Mapping[int, Mapping[str, Loss]]) -> dict[str, Loss]:
    """The mean over gaps of every column."""
    columns = next(iter(by_gap.values()))
    return {c: mean_of([by_column[c] for by_column in by_gap.values()]) for c in columns}


def efforts(setting: Setting, found: Mapping[str, Any]) -> list[list[Any]]:
    """Of every method: configurations, fits, fits short of their tolerance, CPU seconds."""
    rows = []
    for method in setting["methods"]:
        results = [
            found[part_name(name, gap, method)]
            for name in setting["sequences"]
            for gap in setting["gaps"]
        ]
        totals = [sum(result[key] for result in results) for key in ("fits", "unconverged")]
        seconds = sum(result["seconds"] for result in results)
        rows.append([method, len(configurations(setting, method)), *totals, seconds])
    return rows


# ---------------------------------------------------------------------- shown
def _summary(setting: Setting, means: Mapping[str, Mapping[str, Loss]]) -> list[str]:
    sentences = []
    if not is_real(setting):
        sentences.append(f"Generated scenes, since {setting['why']}: not the published task.")
    for name, by_column in means.items():
        said = ", ".join(f"{column} {loss.mean:.4f}" for column, loss in by_column.items())
        sentences.append(f"{name}, mean loss over gaps and test thirds: {said}.")
    if is_real(setting):
        whole = whole_losses()
        counts = whole["whole numbers of landmarks in"]
        listed = ", ".join(f"{count} for {size}" for size, count in counts.items())
        sentences.append(
            f"Of {whole['number']} published losses, these are whole numbers of landmarks, by the "
            f"size of the test set: {listed}."
        )
    return sentences


def _effort_sentence(effort: Sequence[Sequence[Any]]) -> list[str]:
    said = ", ".join(f"{row[0]} {row[1]} ({row[4]:.0f} s)" for row in effort)
    short, fits = sum(row[3] for row in effort), sum(row[2] for row in effort)
    return [
        f"Configurations tried for each test third (CPU seconds in all): {said}. {short} of {fits} "
        "fits stopped short of their tolerance."
    ]


def _loss_table(
    name: str, by_gap: Mapping[int, Mapping[str, Loss]], means: Mapping[str, Loss], real: bool
) -> Table:
    published = PUBLISHED[name] if real else {}
    rows: list[list[Any]] = []
    for k, (gap, by_column) in enumerate(by_gap.items()):
        theirs = [float(texts[k]) for texts in published.values()]
        rows.append([gap, *(loss.mean for loss in by_column.values()), *theirs])
    theirs = [float(np.mean([float(x) for x in texts])) for texts in published.values()]
    rows.append(["mean", *(loss.mean for loss in means.values()), *theirs])
    return Table(
        f"loss-{name}",
        f"{name}: mean Hamming loss on test pairs by gap",
        ["gap", *means, *(f"published {key}" for key in published)],
        rows,
    )


def _effort_table(effort: Sequence[Sequence[Any]]) -> Table:
    head = ["method", "configurations", "fits", "short of tolerance", "CPU seconds"]
    return Table("effort", "What tuning took, over all gaps and thirds", head, effort)


def _protocol_table(means: Mapping[str, Mapping[str, Loss]]) -> Table:
    rows = [
        [name, column, loss.mean, *loss.range, loss.role_mean, min(loss.roles), max(loss.roles)]
        for name, by_column in means.items()
        for column, loss in by_column.items()
    ]
    head = [
        "sequence", "method", "fit on two thirds", "lowest", "highest",
        "fit on one third", "lowest ", "highest ",
    ]  # fmt: skip
    title = (
        "Mean loss over gaps: cross-validation over two thirds and a fit on both (three test "
        "thirds), or a fit on one third, chosen on another (six roles)"
    )
    return Table("protocols", title, head, rows)


def _raw_table(setting: Setting, found: Mapping[str, Any]) -> Table:
    rows = []
    for name in setting["sequences"]:
        for gap in setting["gaps"]:
            for method in setting["methods"]:
                result = found[part_name(name, gap, method)]
                for third, chosen in enumerate(result["chosen"]):
                    said = " ".join(f"{key}={value:.4g}" for key, value in chosen.items())
                    rows.append(
                        [name, gap, method, third, result["sizes"][third], said,
                         result["validation"][third], result["test"][third]]
                    )  # fmt: skip
    head = ["sequence", "gap", "method", "test third", "test pairs", "chosen", "validation", "test"]
    return Table("thirds", "Every test third", head, rows, shown=False)


def _picture(setting: Setting, losses: Losses, real: bool) -> Picture:
    columns = {PAPER: "CRF, rho = 1", CHOSEN: "CRF, rho chosen", HINGE: "hinge loss",
               PERCEPTRON: "averaged perceptron"}  # fmt: skip
    curves = {
        name: {
            label: np.array([by_gap[gap][column].thirds for gap in by_gap]).T
            for column, label in columns.items()
        }
        for name, by_gap in losses.items()
    }
    published = {
        name: {f"published, {key}": [float(x) for x in texts] for key, texts in columns.items()}
        for name, columns in (PUBLISHED.items() if real else ())
    }
    return Picture(
        "loss-by-gap",
        "Test loss by the gap between frames: means over the test thirds, and their range"
        + ("; crosses are published values." if real else "."),
        plot_losses_by_gap(setting["gaps"], curves, published),
    )
