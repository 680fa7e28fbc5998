"""The experiment: what decides it, its parts, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...plotting.segmentation import plot_segmentation
from ...plotting.style import COLOURS, GREY, clean_axes, new_figure
from ..contract import Experiment, Outcome, Picture, Table
from ..parts import Part, Setting
from .data import GENERATED, REAL, why_not_real
from .evaluation import decoded, method_part, picture_part
from .methods import METHODS
from .results import (
    BCFW_ERRORS,
    HOURS,
    ITERATIONS,
    KINDS,
    MINUTES,
    PAPER,
    RIVAL,
    RIVAL_ERRORS,
    RIVAL_HOURS,
    Results,
    claims,
    comparisons,
    mean_error,
    picture_error,
)

HORSES = {
    "data": REAL, "train": 200, "test": 128, "max_side": 200, "hog": True, "alpha": 3420.0,
    "budget": 600.0, "picture": 206, "halvings": 6, "between": 4,
}  # fmt: skip
LARGE = {
    "data": GENERATED, "train": 60, "test": 30, "shape": [[90, 110], [120, 150]], "seed": 0,
    "hog": False, "alpha": 400.0, "budget": 120.0, "picture": 60, "halvings": 6, "between": 4,
}  # fmt: skip
SMALL = {
    "data": GENERATED, "why": "quick", "train": 12, "test": 6, "shape": [[36, 44], [46, 54]],
    "seed": 0, "hog": False, "alpha": 20.0, "budget": 1.2, "picture": 12, "halvings": 4,
    "between": 1,
}  # fmt: skip


class Horses(Experiment):
    """Weizmann horses: telling the pixels of a horse from those around it.

    The first 200 pictures train, the other 128 test; 4-connected binary grids, alpha = 3420.
    """

    name = "horses"
    title = "Grid CRFs on the Weizmann horses: gap and test error by time, picture 207"
    place = "section on grid CRFs, both figures"

    def setting(self, quick: bool) -> Setting:
        """Budget and moments are CPU seconds."""
        if quick:
            return with_moments(SMALL)
        reason = why_not_real()
        return with_moments({**LARGE, "why": reason} if reason else HORSES)

    def parts(self, setting: Setting) -> Sequence[Part]:
        methods = [Part(method, partial(method_part, setting, method)) for method in METHODS]
        return [Part("picture", partial(picture_part, setting)), *methods]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        results = Results(setting, found)
        real, shares = setting["data"] == REAL, found["picture"]["shares"]
        return Outcome(
            summary(results),
            tables(results),
            [progress_picture(results), path_picture(results, real), marginals(results, real)],
            comparisons(results) if real else (),
            claims(results),
            {
                "optimum at most": results.best_dual,
                "auto reached (CPU s, wall s)": results.reached,
                "share of figure in the picture shown": shares[results.picture_in_test],
            },
        )


def with_moments(setting: Setting) -> Setting:
    """With the certificate that is wanted and the moments that follow from the budget.

    The budget is halved "halvings" times for the first moment; the picture that is shown is
    evaluated more often, "between" times for each halving.
    """
    budget, halvings, between = setting["budget"], setting["halvings"], setting["between"]
    moments = {budget / 2.0**k for k in range(halvings + 1)}
    fine = {budget / 2.0 ** (k / between) for k in range(halvings * between + 1)}
    published = {60.0 * MINUTES} if setting["data"] == REAL else set()
    return {
        **setting,
        "tol": 1e-3,
        "moments": sorted(moments | published),
        "path": sorted(fine | published),
        "shown": [fraction * budget for fraction in (1 / 16, 1 / 4, 1.0)],
        "iterations": list(ITERATIONS),
    }


def summary(results: Results) -> list[str]:
    setting, end, reached = results.setting, results.end("auto"), results.reached
    errors, index = end["marginal_errors"], results.picture_in_test
    low, high = np.quantile(errors, [0.1, 0.9])
    place = 1 + sum(error < errors[index] for error in errors)
    return [
        f"{setting['train']} training pictures with {results.found['auto']['pixels']:,} pixels, "
        f"{setting['test']} test pictures; times are CPU seconds of one thread.",
        f"auto: no certificate within {end['cpu']:.3g} s."
        if reached is None
        else f"auto: a certified relative gap of {setting['tol']:g} after {reached[0]:.3g} s.",
        f"Pictures differ: eight of ten have errors of {low:.3f} to {high:.3f} with auto; "
        f"{results.picture_name} has {errors[index]:.3f}, number {place} of "
        f"{len(errors)} from the easiest.",
    ]


# ---------------------------------------------------------------------- tables
def tables(results: Results) -> list[Table]:
    end = "At the end of each method (test errors: mean share of wrong pixels)"
    found = [methods_at(results, np.inf, "methods", end)]
    if results.reached is not None:
        cpu = results.reached[0]
        title = f"After the {cpu:.3g} CPU s that auto takes: the last weights evaluated by then"
        found.append(methods_at(results, cpu, "equal-time", title))
    return [*found, picture_by_time(results)]


def methods_at(results: Results, cpu: float, name: str, title: str) -> Table:
    """Distances from the optimum and errors of the weights that methods have at a moment."""
    rows: list[list[Any]] = []
    for curve in results.curves:
        memory, shot = results.found[results.method_of[curve]]["memory_gb"], results.at(curve, cpu)
        row: list[float | None] = [None] * 6
        if shot is not None:
            distances = results.certified_gap(curve, shot["cpu"]), results.suboptimality(shot)
            errors = [mean_error(shot, kind) for kind in KINDS]
            row = [round(shot["cpu"], 2), shot["iteration"], *distances, *errors]
        shown = picture_error(results.at(curve, cpu, "path"))
        ended = results.ended(curve) and shot == results.end(curve)
        rows.append([curve, *row, shown, ended, None if memory is None else round(memory, 2)])
    errors_of = [*(f"error, {words}" for words in KINDS.values()), results.picture_name]
    head = ["method", "CPU s", "iteration", "certified gap", "from the optimum", *errors_of]
    return Table(name, title, [*head, "ended by itself", "GB"], rows)


def picture_by_time(results: Results) -> Table:
    """Errors on the shown picture, a row for each moment and a column for each curve."""
    moments = results.setting["moments"]
    columns = {
        name: [picture_error(results.at(name, cpu, "path")) for cpu in moments]
        for name in results.curves
    }
    title = f"{results.picture_name}: share of wrong pixels, {KINDS['marginal']}"
    seconds = [round(cpu, 2) for cpu in moments]
    return Table.of("picture-by-time", title, {"CPU s": seconds, **columns})


# ---------------------------------------------------------------------- pictures
def progress_picture(results: Results) -> Picture:
    """Distance from the optimum and test error against time."""
    figure = new_figure(11.2, 4.6)
    left, right = figure.subplots(1, 2)
    for k, (name, curve) in enumerate(results.curves.items()):
        if name == "unary":  # has no steps
            continue
        shots, rows = curve["snapshots"], np.array(curve["certificates"]).reshape(-1, 4)
        seconds = [shot["cpu"] for shot in shots]
        left.plot(seconds, [results.suboptimality(shot) for shot in shots], **style(k, name))
        gaps = (rows[:, 2] - rows[:, 3]) / results.scale
        left.plot(rows[:, 0], gaps, color=style(k, name)["color"], linestyle=":", linewidth=1.4)
    plot_errors(right, results, "snapshots")
    left.set_yscale("log")
    time_axis(left, "(a) distance from the optimum, relative (dotted: proven by the method)")
    time_axis(right, "(b) test error, mean over pictures")
    legend(figure, right, 6)
    return Picture(
        "progress",
        "(a) Distance of the likelihood from its optimum, relative to the optimum's size; dotted: "
        "the gap that a method proves by itself. (b) Mean share of wrong pixels of the test "
        f"pictures, {KINDS['marginal']}.",
        figure,
    )


def path_picture(results: Results, real: bool) -> Picture:
    """Error of one picture against time, and what was published of it."""
    figure = new_figure(7.2, 4.6)
    axes = figure.subplots()
    plot_errors(axes, results, "path")
    caption = f"Share of wrong pixels of {results.picture_name} by time, {KINDS['marginal']}."
    if real:
        caption += " Hollow: published, at the times of another machine."
        hours = (MINUTES / 60, HOURS, RIVAL_HOURS)
        for name, errors in ((PAPER, BCFW_ERRORS), (RIVAL, RIVAL_ERRORS)):
            looks = style(list(results.curves).index(name), f"{name}, published")
            seconds = [3600 * h for h in hours[: len(errors)]]
            axes.plot(seconds, errors, **looks, linestyle="--", markerfacecolor="white")
    time_axis(axes, "share of wrong pixels of one picture")
    legend(figure, axes, 4)
    return Picture("picture-path", caption, figure)


def marginals(results: Results, real: bool) -> Picture:
    """Marginals after equal times."""
    stored = results.found["picture"]
    columns = {
        name: [None if one is None else decoded(one) for one in results.curves[name]["shown"]]
        for name in ("auto", "bcfw", "bcfw-wavg", RIVAL)
    }
    rows = [f"{cpu:.3g} CPU s" for cpu in results.setting["shown"]]
    figure = plot_segmentation(decoded(stored["image"]), columns, decoded(stored["mask"]), rows)
    caption = f"Marginals of {results.picture_name} after equal times; the line is the truth."
    return Picture("picture", caption, figure, shows_data=real)


def style(k: int, label: str) -> dict[str, Any]:
    colour = ("black", GREY, *(COLOURS[c] for c in (1, 4, 5, 0)))[k]
    return {
        "color": colour, "marker": "os^v<>"[k], "markersize": 4.5, "linewidth": 1.4, "label": label,
    }  # fmt: skip


def plot_errors(axes: Any, results: Results, where: str) -> None:
    """Errors by time; of the method without steps a level."""
    for k, (name, curve) in enumerate(results.curves.items()):
        if where == "path":
            errors = [point["marginal_error"] for point in curve["path"]]
        else:
            errors = [mean_error(shot) for shot in curve["snapshots"]]
        if name == "unary":
            axes.axhline(errors[-1], color=style(k, name)["color"], linestyle="--", label=name)
        else:
            axes.plot([point["cpu"] for point in curve[where]], errors, **style(k, name))
    axes.set_yscale("log")
    plain_ticks(axes.yaxis, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))


def time_axis(axes: Any, title: str) -> None:
    axes.set_xscale("log")
    plain_ticks(axes.xaxis, (1.0, 2.0, 5.0))
    axes.set_xlabel("CPU seconds")
    clean_axes(axes, title)


def plain_ticks(axis: Any, digits: Sequence[float]) -> None:
    """Numbers instead of powers on a logarithmic axis."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def legend(figure: Any, axes: Any, columns: int) -> None:
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=9,
        frameon=False,
    )  # fmt: skip
