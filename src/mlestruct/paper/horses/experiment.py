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
from .evaluation import decoded, double_loop_part, method_part, picture_part
from .methods import METHODS
from .results import (
    DOUBLE_LOOP,
    ITERATIONS,
    RIVAL,
    Results,
    claims,
    comparisons,
    mean_error,
)

HORSES = {
    "data": REAL, "train": 200, "test": 128, "max_side": 200, "hog": True, "alpha": 3420.0,
    "budget": 250.0, "picture": 206, "halvings": 6, "between": 4,
    "double_loop": {
        "data": {"train": 20, "max_side": 80}, "rates": [0.1, 0.01, 1e-3, 1e-4, 1e-5],
        "seconds": 30.0,
        "pixels_per_alpha": 6_127_600,
    },
}  # fmt: skip
LARGE = {
    "data": GENERATED, "train": 60, "test": 30, "shape": [[90, 110], [120, 150]], "seed": 0,
    "hog": False, "alpha": 400.0, "budget": 120.0, "picture": 60, "halvings": 6, "between": 4,
    "double_loop": {
        "data": {"train": 10}, "rates": [0.1, 0.01, 1e-3, 1e-4, 1e-5], "seconds": 30.0,
        "pixels_per_alpha": 800_000,
    },
}  # fmt: skip
SMALL = {
    "data": GENERATED, "why": "quick", "train": 12, "test": 6, "shape": [[36, 44], [46, 54]],
    "seed": 0, "hog": False, "alpha": 20.0, "budget": 1.2, "picture": 12, "halvings": 4,
    "between": 1,
    "double_loop": {
        "data": {"train": 4}, "rates": [0.01, 1e-3], "seconds": 1.0, "pixels_per_alpha": 24_000,
    },
}  # fmt: skip


class Horses(Experiment):
    """The first 200 pictures train, the other 128 test; 4-connected binary grids, alpha = 3420."""

    name = "horses"
    title = "Grid CRFs on the Weizmann horses: gap and test error by time, picture 207"
    place = "section on grid CRFs, both figures"
    solvers = (
        "bcfw is Algorithm 1, BlockFrankWolfe.paper(), bcfw-wavg the weighted average of its "
        "iterates and bcfw-search the same with line searches; auto is L-BFGS over marginals; "
        "trw10, trw20 and trw40 are TruncatedTRW of mlestruct.baselines after Domke (2013): its "
        "sweeps go forwards and back over the grid, L-BFGS is SciPy's, and gradients are those of "
        "converged messages, not backpropagated through the sweeps; pictures and features are made "
        "anew."
    )

    def setting(self, quick: bool) -> Setting:
        """Budget and moments are CPU seconds."""
        reason = "" if quick else why_not_real()
        setting = SMALL if quick else {**LARGE, "why": reason} if reason else HORSES
        return with_moments({**setting, "budget": self.budget or setting["budget"]})

    def parts(self, setting: Setting) -> Sequence[Part]:
        methods = [Part(method, partial(method_part, setting, method)) for method in METHODS]
        return [
            Part("picture", partial(picture_part, setting)),
            *methods,
            Part(DOUBLE_LOOP, partial(double_loop_part, setting)),
        ]

    def outcome(self, setting: Setting, found: Mapping[str, Any]) -> Outcome:
        results = Results(setting, found)
        real = setting["data"] == REAL
        return Outcome(
            summary(results),
            tables(results),
            [progress_picture(results), marginals(results, real)],
            comparisons(results) if real else (),
            claims(results),
        )


def with_moments(setting: Setting) -> Setting:
    """With the certificate that is wanted and the moments that follow from the budget.

    The budget is halved "halvings" times for the first moment; the picture that is shown is
    evaluated more often, "between" times for each halving.
    """
    budget, halvings, between = setting["budget"], setting["halvings"], setting["between"]
    moments = {budget / 2.0**k for k in range(halvings + 1)}
    fine = {budget / 2.0 ** (k / between) for k in range(halvings * between + 1)}
    return {
        **setting,
        "tol": 1e-3,
        "moments": sorted(moments),
        "path": sorted(fine),
        "shown": [fraction * budget for fraction in (1 / 16, 1 / 4, 1.0)],
        "iterations": list(ITERATIONS),
    }


def summary(results: Results) -> list[str]:
    setting, errors = results.setting, results.end("auto")["errors"]
    place = 1 + sum(error < errors[results.picture_in_test] for error in errors)
    return [
        f"{setting['train']} training pictures with {results.found['auto']['pixels']:,} pixels, "
        f"{setting['test']} test pictures; times are CPU seconds of one thread, at most "
        f"{setting['budget']:g} for each method. {results.picture_name.capitalize()} is number "
        f"{place} of {len(errors)} from the easiest (errors of auto)."
    ]


MARGINALS = "marginals above 1/2"


def tables(results: Results) -> list[Table]:
    end = (
        "At the end of each method: distance of its own objective and of its weights from the "
        "optimum, relative; mean share of wrong pixels of the test pictures"
    )
    rows: list[list[Any]] = []
    for name, curve in results.curves.items():
        shot = results.end(name)
        row = [name, round(shot["cpu"], 2), shot["iteration"], results.distance(name)]
        row += [results.certified_gap(name), results.suboptimality(name), mean_error(shot)]
        row += [curve["end"]["map_error"], mean_error(results.end(name, "path"))]
        rows.append([*row, results.ended(name)])
    head = ["method", "CPU s", "iteration", "objective", "certified gap", "weights",
            f"error, {MARGINALS}", "error, MAP labelling", results.picture_name,
            "ended by itself"]  # fmt: skip
    return [Table("methods", end, head, rows), picture_by_time(results)]


def picture_by_time(results: Results) -> Table:
    """Errors on the shown picture, a row for each moment and a column for each curve."""
    moments = results.setting["moments"]
    columns = {
        name: [mean_error(results.at(name, cpu, "path")) for cpu in moments]
        for name in results.curves
    }
    title = f"{results.picture_name}: share of wrong pixels, {MARGINALS}"
    seconds = [round(cpu, 2) for cpu in moments]
    return Table.of("picture-by-time", title, {"CPU s": seconds, **columns})


def progress_picture(results: Results) -> Picture:
    """Distance of the objective from the optimum, and test error, against time."""
    figure = new_figure(11.2, 4.6)
    left, right = figure.subplots(1, 2)
    for k, (name, curve) in enumerate(results.curves.items()):
        seconds, distances = results.values(name)
        looks = style(k, name) | {"marker": "", "label": name}
        left.plot(seconds, np.abs(distances), **looks)
        rows = np.array(curve["certificates"]).reshape(-1, 4)
        gaps = (rows[:, 2] - rows[:, 3]) / results.scale
        left.plot(rows[:, 0], gaps, color=looks["color"], linestyle=":", linewidth=1.4)
    plot_errors(right, results)
    left.set_yscale("log")
    time_axis(left, "(a) distance of the objective from the optimum, relative")
    time_axis(right, "(b) test error, mean over pictures")
    figure.legend(
        *right.get_legend_handles_labels(), loc="outside lower center", ncols=8, fontsize=9,
        frameon=False,
    )  # fmt: skip
    return Picture(
        "progress",
        "(a) Difference of each method's objective to the midpoint of the best bounds, relative: "
        "L(tau) of the iterates of bcfw, the best L of auto, the truncated likelihood of trw; "
        "dotted: the gap that a method proves by itself. (b) Mean share of wrong pixels of the "
        f"test pictures, {MARGINALS}.",
        figure,
    )


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
    colour = ("black", GREY, *(COLOURS[c] for c in (1, 4, 3, 5, 2, 0)))[k]
    return {
        "color": colour, "marker": "os^v<>DP"[k], "markersize": 4.5, "linewidth": 1.4,
        "label": label,
    }  # fmt: skip


def plot_errors(axes: Any, results: Results) -> None:
    """Errors by time; of the method without steps a level."""
    for k, (name, curve) in enumerate(results.curves.items()):
        errors = [mean_error(shot) for shot in curve["snapshots"]]
        if name == "unary":
            axes.axhline(errors[-1], color=style(k, name)["color"], linestyle="--", label=name)
        else:
            axes.plot([shot["cpu"] for shot in curve["snapshots"]], errors, **style(k, name))
    axes.set_yscale("log")


def time_axis(axes: Any, title: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("CPU seconds")
    clean_axes(axes, title)
