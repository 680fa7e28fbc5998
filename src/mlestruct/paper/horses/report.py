"""What the experiment has found: summary, tables, pictures, comparisons, verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...plotting.segmentation import plot_segmentation
from ..contract import Outcome, Picture, Setting
from ..figures.horses import PublishedPoint, TimeCurve, plot_path, plot_progress
from .comparisons import comparisons
from .data import REAL
from .packing import unpacked
from .published import BCFW, DOMKE, RIVAL
from .results import KINDS, Results, mean_error, picture_error, rank
from .tables import tables
from .verdicts import verdicts

DRAWN = ("auto", "bcfw", "bcfw-wavg", RIVAL)  # in the figure of marginals
HOUR = 3600.0


def outcome(setting: Setting, found: Mapping[str, Any]) -> Outcome:
    results = Results(setting, found)
    real = setting["data"] == REAL
    return Outcome(
        summary(results),
        tables(results),
        [progress_picture(results), path_picture(results, real), marginal_picture(results, real)],
        comparisons(results) if real else (),
        verdicts(results),
        numbers(results),
    )


# ---------------------------------------------------------------------- words and numbers
def summary(results: Results) -> list[str]:
    """A few sentences."""
    end, reached = results.end("auto"), results.reached
    pixels = results.found["auto"]["pixels"]
    memory = results.memory("auto")
    said = [
        f"Data: {results.setting['data']}; "
        f"{results.setting['train']} training pictures with {pixels:,} pixels, "
        f"{results.setting['test']} test pictures; times are CPU seconds of one thread."
    ]
    if reached is None:
        said.append(f"auto: no certificate within {end['cpu']:.3g} s.")
    else:
        room = "" if memory is None else f" and {memory:.2g} GB of memory, features included"
        said.append(
            f"auto: a certified relative gap of {results.setting['tol']:g} after "
            f"{reached[0]:.3g} s{room}; {_others(results, reached[0])}."
        )
    unary = results.end("unary")
    margins = ", ".join(
        f"{mean_error(end, kind):.4f} ({words}, {mean_error(unary, kind):.4f} without edges)"
        for kind, words in KINDS.items()
    )
    said.append(f"Mean test error of auto: {margins}.")
    errors = end["marginal_errors"]
    low, high = np.quantile(errors, [0.1, 0.9])
    own = errors[results.picture_in_test]
    said.append(
        f"Pictures differ: eight of ten have errors of {low:.3f} to {high:.3f}; "
        f"{results.picture_name} has {own:.3f}, number "
        f"{rank(errors, results.picture_in_test)} of {len(errors)} from the easiest."
    )
    return said


def _others(results: Results, cpu: float) -> str:
    """How far the others are from the optimum after the same time."""
    said = []
    for name in results.curves:
        if name in ("auto", "unary"):
            continue
        known = results.at(name, cpu)
        far = None if known is None else results.shortfall(known)
        said.append(f"{name} nothing yet" if far is None else f"{name} {far:.2g}")
    return "distance from the optimum after the same time: " + ", ".join(said)


def numbers(results: Results) -> dict[str, Any]:
    """What else belongs into the file."""
    return {
        "optimum at most": results.best_dual,
        "auto reached (CPU s, wall s)": results.reached,
        "share of figure in the picture shown": results.share_of_figure,
        "methods stopped by the budget": [
            method for method, part in results.found.items() if part.get("converged") is False
        ],
        "certificates": {name: curve["certificates"] for name, curve in results.curves.items()},
    }


# ---------------------------------------------------------------------- pictures
def progress_picture(results: Results) -> Picture:
    curves = {}
    for name, curve in results.curves.items():
        shots = curve["snapshots"]
        rows = np.array(curve["certificates"]).reshape(-1, 4)
        curves[name] = TimeCurve(
            [shot["cpu"] for shot in shots],
            [mean_error(shot) for shot in shots],
            [_or_nan(results.shortfall(shot)) for shot in shots],
            (rows[:, 0], (rows[:, 2] - rows[:, 3]) / results.scale),
        )
    caption = (
        "(a) Distance of the likelihood from its optimum, relative to the optimum's size; dotted: "
        "the gap that a method proves by itself. (b) Mean share of wrong pixels of the test "
        f"pictures, {KINDS['marginal']}."
    )
    return Picture("progress", caption, plot_progress(curves, "unary"))


def path_picture(results: Results, real: bool) -> Picture:
    curves = {
        name: TimeCurve(
            [s["cpu"] for s in curve["path"]], [picture_error(s) for s in curve["path"]]
        )
        for name, curve in results.curves.items()
    }
    published = [
        PublishedPoint(name, HOUR * point.hours, point.error)
        for name, points in (("bcfw", BCFW), (RIVAL, DOMKE))
        for point in (points if real else ())
    ]
    caption = f"Share of wrong pixels of {results.picture_name} by time, {KINDS['marginal']}."
    if published:
        caption += " Hollow: published, at the times of another machine."
    return Picture("picture-path", caption, plot_path(curves, "unary", published))


def marginal_picture(results: Results, real: bool) -> Picture:
    """Marginals after equal times."""
    stored = results.found["picture"]
    columns = {
        name: [None if one is None else unpacked(one) for one in results.curves[name]["shown"]]
        for name in DRAWN
    }
    rows = [f"{cpu:.3g} CPU s" for cpu in results.setting["shown"]]
    figure = plot_segmentation(unpacked(stored["image"]), columns, unpacked(stored["mask"]), rows)
    caption = f"Marginals of {results.picture_name} after equal times; the line is the truth."
    return Picture("picture", caption, figure, shows_data=real)


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value
