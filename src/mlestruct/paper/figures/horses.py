"""Pictures of learning over time: distance from the optimum, and errors of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# Okabe and Ito's colours, which readers with colour-blindness tell apart; markers help as well.
COLOURS = ("#000000", "#8c8c8c", "#D55E00", "#E69F00", "#56B4E9", "#0072B2")
MARKERS = "os^v<>"
GRID = "#e6e6e6"


@dataclass(frozen=True)
class TimeCurve:
    """What a method is worth at some moments.

    seconds, errors : arrays of the same length
    shortfalls : distances from the optimum at the same moments
    certificate : seconds, and the gaps that the method itself had proven
    """

    seconds: ArrayLike
    errors: ArrayLike
    shortfalls: ArrayLike = ()
    certificate: tuple[ArrayLike, ArrayLike] = ((), ())


@dataclass(frozen=True)
class PublishedPoint:
    """An error that was published, of the method `curve`."""

    curve: str
    seconds: float
    error: float


def plot_progress(curves: Mapping[str, TimeCurve], baseline: str | None = None) -> Any:
    """Distance from the optimum and test error against time.

    Parameters
    ----------
    curves : by name of the method
    baseline : the curve that is drawn as a level, because its method has no steps

    Returns
    -------
    matplotlib figure
    """
    figure, (left, right) = _figure(2)
    for k, (name, curve) in enumerate(curves.items()):
        if name == baseline:
            continue
        style = _style(k, name)
        left.plot(curve.seconds, curve.shortfalls, **style)
        at, gaps = (np.asarray(values, dtype=np.float64) for values in curve.certificate)
        left.plot(at, gaps, color=style["color"], linestyle=":", linewidth=1.4)
    left.set_yscale("log")
    _plot_errors(right, curves, baseline)
    _title(left, "(a) distance from the optimum, relative (dotted: proven by the method)")
    _title(right, "(b) test error, mean over pictures")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=6,
                  fontsize=9, frameon=False)  # fmt: skip
    return figure


def plot_path(
    curves: Mapping[str, TimeCurve],
    baseline: str | None = None,
    published: Sequence[PublishedPoint] = (),
) -> Any:
    """Error of one picture against time, and what was published of it.

    Parameters
    ----------
    curves, baseline : as in `plot_progress`
    published : drawn hollow, in the colour of their curve

    Returns
    -------
    matplotlib figure
    """
    figure, (axes,) = _figure(1)
    _plot_errors(axes, curves, baseline)
    order = list(curves)
    for name in dict.fromkeys(point.curve for point in published):
        points = [point for point in published if point.curve == name]
        axes.plot(
            [point.seconds for point in points],
            [point.error for point in points],
            **(_style(order.index(name), f"{name}, published") | {"linestyle": "--"}),
            markerfacecolor="white",
        )
    _title(axes, "share of wrong pixels of one picture")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  fontsize=9, frameon=False)  # fmt: skip
    return figure


def _plot_errors(axes: Any, curves: Mapping[str, TimeCurve], baseline: str | None) -> None:
    for k, (name, curve) in enumerate(curves.items()):
        if name == baseline:
            level = float(np.asarray(curve.errors)[-1])
            axes.axhline(level, color=COLOURS[k % len(COLOURS)], linestyle="--", label=name)
        else:
            axes.plot(curve.seconds, curve.errors, **_style(k, name))
    axes.set_yscale("log")
    _plain_ticks(axes.yaxis, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))


def _style(k: int, label: str) -> dict[str, Any]:
    return {
        "color": COLOURS[k % len(COLOURS)],
        "marker": MARKERS[k % len(MARKERS)],
        "markersize": 4.5,
        "linewidth": 1.4,
        "label": label,
    }


def _figure(n_axes: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6 * n_axes if n_axes > 1 else 7.2, 4.6), layout="constrained")
    figure.set_facecolor("white")
    grid = list(figure.subplots(1, n_axes, squeeze=False)[0])
    for axes in grid:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, (1.0, 2.0, 5.0))
        axes.set_xlabel("CPU seconds")
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid


def _plain_ticks(axis: Any, digits: Sequence[float]) -> None:
    """Numbers instead of powers on a logarithmic axis."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def _title(axes: Any, text: str) -> None:
    axes.set_title(text, fontsize=10, loc="left")
