"""Pictures of matched point sets: the assignment, and what the model believes about a point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._arguments import as_places, as_table
from .style import new_figure, no_axes

if TYPE_CHECKING:
    from ..datasets.scenes import Solid

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RIGHT = "#4c78a8"
WRONG = "#d62728"
POINT = "#333333"
HIDDEN = "#c9c3b8"


def _placed(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Both sets, the right one moved by 1.45 widths of the wider one."""
    width = max(np.ptp(left[:, 0]), np.ptp(right[:, 0]), 1e-12)
    moved = right - right.min(axis=0) + left.min(axis=0) + [1.45 * width, 0.0]
    return left, moved


def plot_drawings(
    axes: Any, left: Floats, right: Floats, truth: Ints, solid: Solid | None = None
) -> tuple[Floats, Floats]:
    """Both point sets, as drawings of a solid object if it is given, whose points are the left
    ones; returns where the points of both sides were drawn."""
    a, b = _placed(left, right)
    for points, order in ((a, np.arange(len(a))), (b, truth)):
        if solid is not None:
            _draw(axes, points[order], solid)
        axes.scatter(points[:, 0], points[:, 1], s=12, color=POINT, zorder=3)
    return a, b


def _draw(axes: Any, points: Floats, solid: Solid) -> None:
    """Faces that are turned away by their lines, then the others."""
    for wanted in (False, True):
        for face, colour in zip(solid.faces, solid.colours, strict=True):
            x, y = points[list(face)].T
            seen = bool(x @ np.roll(y, -1) > y @ np.roll(x, -1))  # counter-clockwise
            if seen == wanted:
                axes.fill(
                    x, y, facecolor=colour if seen else "none",
                    edgecolor=POINT if seen else HIDDEN, linewidth=1.3 if seen else 0.8,
                    joinstyle="round", zorder=2 if seen else 1,
                )  # fmt: skip


def plot_assignment(
    axes: Any, left: Floats, right: Floats, predicted: Ints, truth: Ints, solid: Solid | None
) -> None:
    """Predicted pairs as lines between the two point sets, wrong ones in red."""
    a, b = plot_drawings(axes, left, right, truth, solid)
    wrong = predicted != truth
    for i in np.argsort(wrong):  # wrong ones on top
        j = predicted[i]
        if j < 0:
            continue
        axes.plot(
            [a[i, 0], b[j, 0]],
            [a[i, 1], b[j, 1]],
            color=WRONG if wrong[i] else RIGHT,
            linewidth=1.6 if wrong[i] else 0.8,
            alpha=0.95 if wrong[i] else 0.5,
            solid_capstyle="round",
            zorder=4 if wrong[i] else 2.5,
        )
    no_axes(axes, f"Predicted assignment: {int(wrong.sum())} of {len(truth)} wrong (red)")


def plot_marginals(
    axes: Any,
    left: Floats,
    right: Floats,
    marginals: Floats,
    point: int,
    truth: Ints,
    title: str,
    solid: Solid | None,
) -> None:
    """The pseudo-marginals of one left point, drawn to all right points.

    Width and colour show the probability; the true partner is ringed, if there is one.
    """
    from matplotlib import colormaps

    a, b = plot_drawings(axes, left, right, truth, solid)
    shade = colormaps["viridis_r"]
    row = np.clip(marginals[point], 0.0, 1.0)
    for j in np.argsort(row):
        p = float(row[j])
        axes.plot(
            [a[point, 0], b[j, 0]],
            [a[point, 1], b[j, 1]],
            color=shade(0.25 + 0.6 * p),
            linewidth=0.4 + 4.0 * p,
            alpha=0.15 + 0.85 * min(1.0, 4.0 * p),
            solid_capstyle="round",
            zorder=2.5,
        )
    axes.scatter(*a[point], s=60, color=POINT, zorder=4)
    if truth[point] >= 0:
        ring = b[truth[point]]
        axes.scatter(*ring, s=130, facecolors="none", edgecolors=WRONG, linewidths=1.8, zorder=4)
    _label(axes, b, row)
    no_axes(axes, title)


def _label(axes: Any, at: Floats, row: Floats) -> None:
    """The largest probabilities beside their points, one below the other if these are close."""
    labelled = [j for j in np.argsort(row)[::-1][:2] if row[j] > 0.02]
    near = np.array([0.2, 0.08]) * np.ptp(at, axis=0)
    crowded = len(labelled) == 2 and bool((np.abs(at[labelled[0]] - at[labelled[1]]) < near).all())
    highest = max((float(at[j][1]) for j in labelled), default=0.0)
    frame = {"boxstyle": "round,pad=0.1", "facecolor": "white", "alpha": 0.8, "linewidth": 0}
    for j in labelled:
        shift = 0 if not crowded else 7 if at[j][1] == highest else -9
        axes.annotate(
            f"{row[j]:.2f}", at[j], textcoords="offset points", fontsize=8.5,
            xytext=(10, shift - 3), zorder=6, bbox=frame,
        )  # fmt: skip


def plot_mismatch(
    left: Floats,
    right: Floats,
    predicted: Ints,
    truth: Ints,
    marginals: Floats,
    solid: Solid | None = None,
) -> Any:
    """A figure of one matching: the assignment, a confident point and an uncertain one.

    The confident point is the right one with the highest probability; the uncertain one is the
    wrongly matched point whose second partner has the highest probability (or, if none is wrong,
    the point with the lowest probability of its partner).

    Parameters
    ----------
    left, right : arrays of shape (n, 2)
    predicted, truth : partner of every left point, -1 for none
    marginals : array of shape (n_left, n_right)
    solid : drawn on both sides
    """
    left, right = as_table(left, "left", "n", 2), as_table(right, "right", "n", 2)
    predicted, truth = (
        as_places(given, name, -1, len(right) - 1, len(left))
        for given, name in ((predicted, "predicted"), (truth, "truth"))
    )
    marginals = as_table(marginals, "marginals", len(left), len(right))
    every = np.column_stack([marginals, 1.0 - marginals.sum(axis=1)])  # -1: no partner
    chosen, right_one = (every[np.arange(len(truth)), y] for y in (predicted, truth))
    wrong = predicted != truth
    confident = int(np.argmax(np.where(wrong, -1.0, chosen)))
    second = np.sort(marginals, axis=1)[:, -2]
    uncertain = int(np.argmax(wrong + second if wrong.any() else 1.0 - chosen))
    note = "wrongly" if wrong[uncertain] else "rightly"
    figure = new_figure(10.0, 7.4)
    panels = figure.subplot_mosaic("AA;BC", height_ratios=(1.55, 1.0))
    plot_assignment(panels["A"], left, right, predicted, truth, solid)
    for panel, point, title in (
        (
            "B",
            confident,
            f"Sure: probability {chosen[confident]:.2f} for the true partner (ringed)",
        ),
        (
            "C",
            uncertain,
            f"Unsure, {note} matched: {right_one[uncertain]:.2f} for the true "
            f"partner,\n{chosen[uncertain]:.2f} for the predicted one",
        ),
    ):
        plot_marginals(panels[panel], left, right, marginals, point, truth, title, solid)
    return figure
