"""What pictures with curves share: bands over repetitions, axes, titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...plotting.style import COLOURS, DASHES, GRID

Floats = NDArray[np.float64]

MARKERS = ("o", "s", "D", "^", "v", "P")
SMALLEST = 1e-16  # on a log scale


def new_figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.set_facecolor("white")
    return figure


def table_of(values: ArrayLike, places: Sequence[float]) -> Floats:
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if table.ndim != 2 or table.shape[1] != len(places):
        raise ValueError(
            f"expected values of shape (n_repetitions, {len(places)}), got {table.shape}"
        )
    return table


def row_of(values: ArrayLike, places: Sequence[Any]) -> Floats:
    row = np.asarray(values, dtype=np.float64)
    if row.shape != (len(places),):
        raise ValueError(f"expected values of shape ({len(places)},), got {row.shape}")
    return row


def plot_range(axes: Any, x: Sequence[float], table: Floats, label: str, k: int) -> None:
    """The mean of repetitions, and their range as a band."""
    plot_band(axes, x, table.mean(axis=0), table.min(axis=0), table.max(axis=0), label, k)


def plot_quartiles(axes: Any, x: Sequence[float], table: Floats, label: str, k: int) -> None:
    low, middle, high = np.percentile(np.maximum(table, SMALLEST), [25, 50, 75], axis=0)
    plot_band(axes, x, middle, low, high, label, k)


def plot_band(
    axes: Any, x: Sequence[float], middle: Floats, low: Floats, high: Floats, label: str, k: int
) -> None:
    colour = COLOURS[k % len(COLOURS)]
    axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0.0)
    # The first is broad and below, so that it shows beside curves that hide it.
    axes.plot(
        x, middle, color=colour, linestyle=DASHES[k % len(DASHES)], label=label,
        linewidth=1.7 if k else 3.2, marker=MARKERS[k % len(MARKERS)],
        markersize=5.0 if k else 7.5, markeredgecolor="white", zorder=5 + k,
    )  # fmt: skip


def sizes_axis(axes: Any, sizes: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(sizes), [str(n) for n in sizes])
    axes.minorticks_off()
    clean(axes)


def set_title(axes: Any, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10.5)


def clean(axes: Any) -> None:
    axes.grid(True, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
