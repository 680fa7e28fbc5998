"""Pictures of matched point sets: the assignment, and what the model believes about a point."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .style import new_figure, no_axes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RIGHT = "#4c78a8"
WRONG = "#d62728"
POINT = "#333333"


def _placed(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Both sets, the right one moved by 1.45 widths of the wider one."""
    width = max(np.ptp(left[:, 0]), np.ptp(right[:, 0]), 1e-12)
    moved = right - right.min(axis=0) + left.min(axis=0) + [1.45 * width, 0.0]
    return left, moved


def plot_assignment(
    axes: Any, left: Floats, right: Floats, predicted: Ints, truth: Ints, title: str | None = None
) -> None:
    """Predicted pairs as lines between the two point sets, wrong ones in red.

    Parameters
    ----------
    axes : matplotlib axes
    left, right : arrays of shape (n, 2)
    predicted, truth : partner of every left point
    """
    a, b = _placed(left, right)
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
            alpha=0.95 if wrong[i] else 0.55,
            solid_capstyle="round",
        )
    for points in (a, b):
        axes.scatter(points[:, 0], points[:, 1], s=16, color=POINT, zorder=3)
    default = f"Predicted assignment: {int(wrong.sum())} of {len(truth)} wrong (red)"
    no_axes(axes, title if title is not None else default)


def plot_marginals(
    axes: Any, left: Floats, right: Floats, marginals: Floats, point: int, truth: int, title: str
) -> None:
    """The pseudo-marginals of one left point, drawn to all right points.

    Width and colour show the probability; the true partner is ringed.
    """
    from matplotlib import colormaps
    from matplotlib.colors import PowerNorm

    a, b = _placed(left, right)
    norm = PowerNorm(0.5, vmin=0.0, vmax=1.0)
    shade = colormaps["turbo"]
    row = marginals[point]
    for j in np.argsort(row):
        p = float(row[j])
        axes.plot(
            [a[point, 0], b[j, 0]],
            [a[point, 1], b[j, 1]],
            color=shade(0.08 + 0.84 * float(norm(p))),
            linewidth=0.5 + 4.0 * p,
            alpha=0.25 + 0.75 * min(1.0, 3.0 * p),
            solid_capstyle="round",
        )
    for points in (a, b):
        axes.scatter(points[:, 0], points[:, 1], s=14, color=POINT, zorder=3)
    axes.scatter(*a[point], s=60, color=POINT, zorder=4)
    axes.scatter(*b[truth], s=130, facecolors="none", edgecolors="black", linewidths=1.6, zorder=4)
    _label(axes, b, row)
    no_axes(axes, title)


def _label(axes: Any, at: Floats, row: Floats) -> None:
    """The largest probabilities beside their points, on the left if there is one on the right."""
    labelled = [j for j in np.argsort(row)[::-1][:3] if row[j] > 0.02]
    near = np.array([0.12, 0.05]) * np.ptp(at, axis=0)  # where labels would overlap
    for j in labelled:
        beside = [at[k] - at[j] for k in labelled if k != j]
        crowded = any(0.0 <= dx < near[0] and abs(dy) < near[1] for dx, dy in beside)
        axes.annotate(
            f"{row[j]:.2f}", at[j], textcoords="offset points", fontsize=8,
            xytext=(-8 if crowded else 8, -3), ha="right" if crowded else "left",
        )  # fmt: skip


def plot_mismatch(
    left: Floats, right: Floats, predicted: Ints, truth: Ints, marginals: Floats
) -> Any:
    """A figure of one matching: the assignment, a confident point and an uncertain one.

    The confident point is the right one with the highest probability; the uncertain one is the
    wrongly matched point whose second partner has the highest probability (or, if none is wrong,
    the point with the lowest probability of its partner).
    """
    chosen = marginals[np.arange(len(truth)), predicted]
    wrong = predicted != truth
    confident = int(np.argmax(np.where(wrong, -1.0, chosen)))
    second = np.sort(marginals, axis=1)[:, -2]
    uncertain = int(np.argmax(wrong + second if wrong.any() else 1.0 - chosen))
    figure = new_figure(9.0, 10.5)
    axes = figure.subplots(3, 1)
    plot_assignment(axes[0], left, right, predicted, truth)
    plot_marginals(
        axes[1], left, right, marginals, confident, int(truth[confident]),
        f"A confident point: probability {chosen[confident]:.2f} on its partner (ringed)",
    )  # fmt: skip
    note = "wrongly matched" if wrong[uncertain] else "rightly matched"
    plot_marginals(
        axes[2], left, right, marginals, uncertain, int(truth[uncertain]),
        f"An uncertain point, {note}: {marginals[uncertain, truth[uncertain]]:.2f} on its true "
        f"partner (ringed), {chosen[uncertain]:.2f} on the predicted one",
    )  # fmt: skip
    return figure
