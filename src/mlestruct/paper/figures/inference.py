"""Pictures of inference: likelihoods and their bounds, errors of marginals, and speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...plotting.style import COLOURS, DASHES, GREY
from ._curves import (
    MARKERS,
    SMALLEST,
    clean,
    new_figure,
    plot_quartiles,
    plot_range,
    row_of,
    set_title,
    sizes_axis,
    table_of,
)

Floats = NDArray[np.float64]
Curves = Mapping[str, ArrayLike]

LIKELIHOODS = {"Bethe": 0, "exact": 2, "RW": 1}  # and their colours
NOT_REACHED = ", not yet reached"
ARROW = 2.6  # how much higher an arrow ends than it begins, on a log scale


# ---------------------------------------------------------------------- likelihoods
def plot_likelihoods(
    sizes: Sequence[int], true: Mapping[str, Curves], optima: Mapping[str, Curves]
) -> Any:
    """What estimates are worth, how much they fall short, and the bounds of the best likelihood.

    Parameters
    ----------
    sizes : numbers of samples
    true : for each problem (a column of the picture), the exact likelihood per sample at the
        estimates "exact", "Bethe" and "RW", arrays of shape (n_repetitions, n_sizes)
    optima : for each problem, the optimal values of the three likelihoods, of the same shape

    Returns
    -------
    matplotlib figure
    """
    figure = new_figure(11.0, 9.2)
    grid = figure.subplots(
        3, len(true), squeeze=False, sharex=True, height_ratios=[1.0, 0.72, 1.0]
    )  # fmt: skip
    for k, (name, curves) in enumerate(true.items()):
        top, middle, bottom = grid[:, k]
        tables = {kind: table_of(curves[kind], sizes) for kind in LIKELIHOODS}
        for kind in ("exact", "Bethe", "RW"):
            plot_range(top, sizes, tables[kind], f"at the {kind} estimate", LIKELIHOODS[kind])
            if kind != "exact":
                short = np.maximum(tables["exact"] - tables[kind], SMALLEST)
                plot_range(middle, sizes, short, f"{kind} estimate", LIKELIHOODS[kind])
        middle.set_yscale("log")
        _plot_sandwich(bottom, sizes, optima[name], "optimum")
        set_title(top, f"({'ab'[k]}) {name}: exact likelihood of the estimates" if k < 2 else name)
        set_title(middle, "how far they are below the exact optimum")
        set_title(bottom, f"({'cd'[k]}) {name}: optimal values" if k < 2 else name)
        bottom.set_xlabel("samples (lines: means, bands: range of repetitions)")
    for row, label in zip(
        grid[:, 0],
        ("log-likelihood per sample", "difference (log scale)", "log-likelihood per sample"),
        strict=True,
    ):
        row.set_ylabel(label)
    for axes in grid.ravel():
        sizes_axis(axes, sizes)
        axes.legend(frameon=False, fontsize=9, loc="best")
    return figure


def plot_cross_bounds(sizes: Sequence[int], bounds: Mapping[str, Mapping[str, Curves]]) -> Any:
    """The three likelihoods at the same weights, a panel per problem (row) and estimate (column).

    Parameters
    ----------
    sizes : numbers of samples
    bounds : for each problem and each estimate, the likelihoods "RW", "exact" and "Bethe" there,
        arrays of shape (n_repetitions, n_sizes)

    Returns
    -------
    matplotlib figure
    """
    n_columns = max(len(estimates) for estimates in bounds.values())
    figure = new_figure(11.0, 7.4)
    grid = figure.subplots(len(bounds), n_columns, squeeze=False, sharex=True, sharey="row")
    for row, (name, estimates) in zip(grid, bounds.items(), strict=True):
        row[0].set_ylabel("log-likelihood per sample")
        for axes, (estimate, curves) in zip(row, estimates.items(), strict=False):
            _plot_sandwich(axes, sizes, curves, "likelihood")
            set_title(axes, f"{name}, at the {estimate} estimate")
            sizes_axis(axes, sizes)
    for axes in grid[-1]:
        axes.set_xlabel("samples (lines: means, bands: range of repetitions)")
    grid[0, 0].legend(frameon=False, fontsize=9, loc="best")
    return figure


def _plot_sandwich(axes: Any, sizes: Sequence[int], curves: Curves, what: str) -> None:
    tables = {kind: table_of(curves[kind], sizes) for kind in LIKELIHOODS}
    low, high = tables["RW"].mean(axis=0), tables["Bethe"].mean(axis=0)
    axes.fill_between(sizes, low, high, color="#000000", alpha=0.05, linewidth=0.0)
    for kind, colour in LIKELIHOODS.items():
        plot_range(axes, sizes, tables[kind], f"{kind} {what}", colour)


# ---------------------------------------------------------------------- errors by MAP calls
def plot_map_calls(
    calls: Sequence[int],
    traces: Mapping[str, Curves],
    betas: Sequence[float],
    limits: Curves,
) -> Any:
    """Errors of marginals against MAP calls, and after many of them against temperature.

    Parameters
    ----------
    calls : numbers of MAP calls
    traces : for each panel, the methods' errors, arrays of shape (n_graphs, n_calls)
    betas : inverse temperatures
    limits : the errors of methods after many calls, arrays of shape (n_graphs, n_betas); those
        without traces are pale and below the others

    Returns
    -------
    matplotlib figure
    """
    figure = new_figure(3.8 * (len(traces) + 1), 4.2)
    panels = figure.subplots(1, len(traces) + 1, squeeze=False)[0]
    names = list(dict.fromkeys([m for curves in traces.values() for m in curves] + list(limits)))
    colours = {name: k for k, name in enumerate(names)}
    for k, (axes, (title, curves)) in enumerate(zip(panels, traces.items(), strict=False)):
        for name, table in curves.items():
            plot_quartiles(axes, calls, table_of(table, calls), name, colours[name])
        axes.set_xlabel("MAP calls")
        set_title(axes, f"({chr(97 + k)}) {title}")
    last = panels[-1]
    for name, table in limits.items():
        if any(name in curves for curves in traces.values()):
            plot_quartiles(last, betas, table_of(table, betas), name, colours[name])
        else:
            _plot_pale(last, betas, table_of(table, betas), name, colours[name])
    last.set_xlabel("inverse temperature")
    set_title(last, f"({chr(97 + len(traces))}) after many calls")
    panels[0].set_ylabel("largest error of a marginal")
    for axes in panels:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.legend(frameon=False, fontsize=8.5, loc="best")
        clean(axes)
    return figure


def _plot_pale(axes: Any, x: Sequence[float], table: Floats, label: str, k: int) -> None:
    """The median only, as a broad line that does not hide others."""
    median = np.median(np.maximum(table, SMALLEST), axis=0)
    colour = COLOURS[k % len(COLOURS)]
    axes.plot(x, median, color=colour, alpha=0.5, linewidth=5.0, label=label, zorder=3)


# ---------------------------------------------------------------------- speed
def plot_speed(
    levels: Sequence[float],
    microseconds: Mapping[str, Curves],
    reached: Mapping[str, Mapping[str, Sequence[bool]]],
    ratios: Mapping[str, Curves],
    published: Curves,
) -> Any:
    """Time to reach an error, and how many times as fast as another method; a column per problem.

    Parameters
    ----------
    levels : errors, from large to small
    microseconds : for each problem, each method's times, of shape (n_levels,)
    reached : the same with whether the level was reached; if not, the time is what was spent
    ratios : for each problem, some methods' speed relative to another, of shape (n_levels,)
    published : such a ratio as published, for problems where it is known

    Returns
    -------
    matplotlib figure
    """
    n_columns = len(microseconds)
    figure = new_figure(1.0 + 2.1 * n_columns, 6.4)
    grid = figure.subplots(2, n_columns, squeeze=False, sharex=True, sharey="row")
    places = np.arange(len(levels), dtype=np.float64)
    names = dict.fromkeys(method for curves in microseconds.values() for method in curves)
    colours = {method: k for k, method in enumerate(names)}
    for (top, bottom), (problem, methods) in zip(grid.T, microseconds.items(), strict=True):
        for method, times in methods.items():
            done = np.asarray(reached[problem][method], dtype=bool)
            _plot_times(top, places, row_of(times, levels), done, method, colours[method])
        bottom.axhline(1.0, color=GREY, linewidth=1.0, zorder=1)
        if problem in published:
            known = row_of(published[problem], levels)
            bottom.plot(
                places, known, color=GREY, linestyle="-", linewidth=3.0, marker="o",
                markersize=7, markerfacecolor="white", label="FW, published",
            )  # fmt: skip
        for method, values in ratios[problem].items():
            done = np.asarray(reached[problem][method], dtype=bool)
            row = row_of(values, levels)
            _plot_times(bottom, places, row, done, method, colours[method], 1.0 / ARROW)
        set_title(top, problem)
        bottom.set_xlabel("largest error")
    for axes in grid.ravel():
        axes.set_yscale("log")
        axes.set_xticks(places, [f"{level:g}" for level in levels])
        axes.margins(x=0.12, y=0.14)
        clean(axes)
    grid[0, 0].set_ylabel("CPU microseconds")
    grid[1, 0].set_ylabel("times as fast as BP")
    _legend_below(figure, grid.ravel())
    return figure


def _plot_times(
    axes: Any,
    places: Floats,
    times: Floats,
    reached: NDArray[np.bool_],
    label: str,
    k: int,
    arrow: float = ARROW,
) -> None:
    """A line with a point per level; hollow with an arrow where it was not reached."""
    colour = COLOURS[k]
    style = {"color": colour, "marker": MARKERS[k], "markersize": 6.5, "zorder": 20 - k}
    axes.plot(
        places, times, color=colour, linestyle=DASHES[k], linewidth=1.8, zorder=10 - k
    )  # fmt: skip
    axes.plot(
        places[reached], times[reached], linestyle="none", markeredgecolor="white", label=label,
        **style,
    )  # fmt: skip
    if reached.all():
        return
    axes.plot(
        places[~reached], times[~reached], linestyle="none", markerfacecolor="white",
        label=label + NOT_REACHED, **style,
    )  # fmt: skip
    for x, y in zip(places[~reached], times[~reached], strict=True):
        axes.annotate(
            "", (x, y * arrow), (x, y * arrow**0.2), annotation_clip=False,
            arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.2},
        )  # fmt: skip


def _legend_below(figure: Any, panels: Sequence[Any]) -> None:
    """One legend with everything that any of the panels shows."""
    shown: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    order = sorted(shown, key=lambda label: label.endswith(NOT_REACHED))
    figure.legend(
        [shown[label] for label in order], order, frameon=False, fontsize=9.5,
        loc="outside lower center", ncols=max(1, int(figure.get_figwidth() / 1.8)),
    )  # fmt: skip
