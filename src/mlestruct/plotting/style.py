"""What all pictures share: colours that also differ in grey and for the colour-blind, and axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import as_floats

# Okabe and Ito's colours; dashes and markers help as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (7, 2, 2, 2)), (0, (2, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P")
GREY = "#8c8c8c"
GRID = "#e6e6e6"


def new_figure(width: float, height: float) -> Any:
    """A white figure; matplotlib is loaded only now."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.set_facecolor("white")
    return figure


def clean_axes(axes: Any, title: str | None = None, grid: str | None = "both") -> None:
    """No frame at the top and on the right; `grid` is the axis with grid lines."""
    if grid is not None:
        axes.grid(True, axis=grid, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if title is not None:
        axes.set_title(title, loc="left", fontsize=10.5)


def no_axes(axes: Any, title: str) -> None:
    """For a picture of points or pixels."""
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(title, fontsize=9.5, loc="left")


def plot_band(
    axes: Any,
    x: Sequence[float],
    values: ArrayLike,
    label: str,
    k: int,
    quartiles: bool = False,
) -> None:
    """The k-th curve of several: its mean over repetitions, and their range as a band.

    Parameters
    ----------
    values : array of shape (n_repetitions, len(x)), or (len(x),)
    quartiles : the median and a band of quartiles instead
    """
    table = checked(values, x)
    middle, low, high = table.mean(axis=0), table.min(axis=0), table.max(axis=0)
    if quartiles:
        low, middle, high = np.percentile(table, [25, 50, 75], axis=0)
    colour = COLOURS[k % len(COLOURS)]
    axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0.0)
    # The first is broad and below, so that it shows beside curves that hide it.
    axes.plot(
        x, middle, color=colour, linestyle=DASHES[k % len(DASHES)], label=label,
        linewidth=1.7 if k else 3.2, marker=MARKERS[k % len(MARKERS)],
        markersize=5.0 if k else 7.5, markeredgecolor="white", zorder=5 + k,
    )  # fmt: skip


def checked(values: ArrayLike, x: Sequence[float]) -> NDArray[np.float64]:
    """Repetitions of a curve as an array of shape (n_repetitions, len(x))."""
    table = np.atleast_2d(as_floats(values, "values"))
    if table.ndim != 2 or table.shape[1] != len(x):
        raise ValueError(f"expected values of shape (n_repetitions, {len(x)}), got {table.shape}")
    return table
