"""Reliability diagrams: observed frequencies against predicted probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..metrics import Reliability
from .style import COLOURS, DASHES, GREY, MARKERS, clean_axes, new_figure

HEIGHTS = (3.4, 1.0)  # of the diagram and the counts below it


def plot_reliability(
    results: Mapping[str, Reliability] | Reliability, ax: Any = None, path: Any = None
) -> Any:
    """Observed frequencies against predicted probabilities, with the number of events below.

    Points on the diagonal are calibrated; below it the probabilities are too high, above it too
    low. Bars are the confidence intervals of the frequencies. Empty bins are left out.

    Parameters
    ----------
    results : a result of `mlestruct.metrics.reliability`, or a mapping from names to several of
        them, the most important first
    ax : matplotlib axes, optional
        Its place is divided between the diagram and the counts; by default a new figure.
    path : optional, file to write the figure to

    Returns
    -------
    matplotlib figure
    """
    named = results if isinstance(results, Mapping) else {"": results}
    if not named:
        raise ValueError("results: expected at least one result, got an empty mapping")
    for found in named.values():
        if not isinstance(found, Reliability):
            raise TypeError(
                f"`results` must be a Reliability or a mapping of names to them; got {found!r}."
            )
    if ax is None:
        ax = new_figure(5.6, 6.8).add_subplot()
    below = _divide(ax)
    figure = ax.figure.figure
    _plot_points(ax, named)
    _plot_counts(below, named)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _divide(ax: Any) -> Any:
    """Leave the upper part of its place to `ax` and return axes in the lower part."""
    place = ax.get_subplotspec()
    if place is not None:
        upper, lower = place.subgridspec(2, 1, height_ratios=HEIGHTS, hspace=0.05)
        ax.set_subplotspec(upper)
        return ax.figure.add_subplot(lower, sharex=ax)
    box = ax.get_position()
    height = 0.9 * box.height * HEIGHTS[1] / sum(HEIGHTS)
    top = box.height * HEIGHTS[0] / sum(HEIGHTS)
    ax.set_position([box.x0, box.y1 - top, box.width, top])
    return ax.figure.add_axes([box.x0, box.y0, box.width, height], sharex=ax)


def _plot_points(axes: Any, named: Mapping[str, Reliability]) -> None:
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=1.0, zorder=1, label="calibrated")
    for k, (name, found) in enumerate(named.items()):
        full = found.count > 0
        x, y = found.predicted[full], found.observed[full]
        colour = COLOURS[k % len(COLOURS)]
        order = 30 - 3 * k  # the first one on top
        axes.plot(
            x, y, color=colour, linestyle=DASHES[k % len(DASHES)], linewidth=1.2, alpha=0.55,
            zorder=order,
        )  # fmt: skip
        axes.vlines(
            x, found.lower[full], found.upper[full], color=colour, linewidth=1.6, zorder=order + 1
        )
        axes.plot(
            x,
            y,
            color=colour,
            linestyle="none",
            marker=MARKERS[k % len(MARKERS)],
            markersize=7.0,
            markeredgecolor="white",
            markeredgewidth=0.9,
            label=f"{name}, ECE {found.ece:.4f}" if name else f"ECE {found.ece:.4f}",
            zorder=order + 2,
        )
    axes.set(xlim=(-0.025, 1.025), ylim=(-0.025, 1.025))  # so that points at 0 and 1 are whole
    axes.set_ylabel("observed frequency, with 95% intervals")
    axes.tick_params(labelbottom=False)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[1:] + handles[:1], labels[1:] + labels[:1], frameon=False, fontsize=9,
        loc="best",
    )  # fmt: skip
    clean_axes(axes)


def _plot_counts(axes: Any, named: Mapping[str, Reliability]) -> None:
    # A little below the least count, so that a single event shows.
    least = 0.7 * min(1.0, *(r.count[r.count > 0].min() for r in named.values()))
    for k, found in enumerate(named.values()):
        colour = COLOURS[k % len(COLOURS)]
        count = np.maximum(found.count, least)
        edges = np.linspace(0.0, 1.0, count.size + 1)
        if k == 0:
            axes.stairs(count, edges, baseline=least, fill=True, color=colour, alpha=0.18)
        axes.stairs(
            count, edges, baseline=least, color=colour, linestyle=DASHES[k % len(DASHES)],
            linewidth=1.4, zorder=10 - k,
        )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(bottom=least)
    axes.set_xlabel("predicted probability")
    axes.set_ylabel("events")
    clean_axes(axes)
