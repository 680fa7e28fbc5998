"""What all pictures share: colours that also differ in grey and for the colour-blind, and axes."""

from __future__ import annotations

from typing import Any

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
