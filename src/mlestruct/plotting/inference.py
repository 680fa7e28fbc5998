"""Pictures of inference: likelihoods and their bounds, errors of marginals, and speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .roommates import COLOURS, DASHES, GREY

Floats = NDArray[np.float64]
Curves = Mapping[str, ArrayLike]

MARKERS = ("o", "s", "D", "^", "v", "P")
LIKELIHOODS = {"Bethe": 0, "exact": 2, "RW": 1}  # and their colours
GRID = "#e6e6e6"
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
    figure = _figure(11.0, 9.2)
    grid = figure.subplots(
        3, len(true), squeeze=False, sharex=True, height_ratios=[1.0, 0.72, 1.0]
    )  # fmt: skip
    for k, (name, curves) in enumerate(true.items()):
        top, middle, bottom = grid[:, k]
        tables = {kind: _table(curves[kind], sizes) for kind in LIKELIHOODS}
        for kind in ("exact", "Bethe", "RW"):
            _plot_range(top, sizes, tables[kind], f"at the {kind} estimate", LIKELIHOODS[kind])
            if kind != "exact":
                short = np.maximum(tables["exact"] - tables[kind], 1e-16)
                _plot_range(middle, sizes, short, f"{kind} estimate", LIKELIHOODS[kind])
        middle.set_yscale("log")
        _plot_sandwich(bottom, sizes, optima[name], "optimum")
        _title(top, f"({'ab'[k]}) {name}: exact likelihood of the estimates" if k < 2 else name)
        _title(middle, "how far they are below the exact optimum")
        _title(bottom, f"({'cd'[k]}) {name}: optimal values" if k < 2 else name)
        bottom.set_xlabel("samples (lines: means, bands: range of repetitions)")
    for row, label in zip(
        grid[:, 0],
        ("log-likelihood per sample", "difference (log scale)", "log-likelihood per sample"),
        strict=True,
    ):
        row.set_ylabel(label)
    for axes in grid.ravel():
        _sizes_axis(axes, sizes)
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
    figure = _figure(11.0, 7.4)
    grid = figure.subplots(len(bounds), n_columns, squeeze=False, sharex=True, sharey="row")
    for row, (name, estimates) in zip(grid, bounds.items(), strict=True):
        row[0].set_ylabel("log-likelihood per sample")
        for axes, (estimate, curves) in zip(row, estimates.items(), strict=False):
            _plot_sandwich(axes, sizes, curves, "likelihood")
            _title(axes, f"{name}, at the {estimate} estimate")
            _sizes_axis(axes, sizes)
    for axes in grid[-1]:
        axes.set_xlabel("samples (lines: means, bands: range of repetitions)")
    grid[0, 0].legend(frameon=False, fontsize=9, loc="best")
    return figure


def _plot_sandwich(axes: Any, sizes: Sequence[int], curves: Curves, what: str) -> None:
    tables = {kind: _table(curves[kind], sizes) for kind in LIKELIHOODS}
    low, high = tables["RW"].mean(axis=0), tables["Bethe"].mean(axis=0)
    axes.fill_between(sizes, low, high, color="#000000", alpha=0.05, linewidth=0.0)
    for kind, colour in LIKELIHOODS.items():
        _plot_range(axes, sizes, tables[kind], f"{kind} {what}", colour)


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
    limits : the errors of methods after many calls, arrays of shape (n_graphs, n_betas)

    Returns
    -------
    matplotlib figure
    """
    figure = _figure(5.0 * (len(traces) + 1), 4.8)
    panels = figure.subplots(1, len(traces) + 1, squeeze=False)[0]
    names = list(dict.fromkeys([m for curves in traces.values() for m in curves] + list(limits)))
    colours = {name: k for k, name in enumerate(names)}
    for k, (axes, (title, curves)) in enumerate(zip(panels, traces.items(), strict=False)):
        for name, table in curves.items():
            _plot_quartiles(axes, calls, _table(table, calls), name, colours[name])
        axes.set_xlabel("MAP calls")
        _title(axes, f"({chr(97 + k)}) {title}")
    last = panels[-1]
    for name, table in limits.items():
        _plot_quartiles(last, betas, _table(table, betas), name, colours[name])
    last.set_xlabel("inverse temperature")
    _title(last, f"({chr(97 + len(traces))}) after many calls, by temperature")
    panels[0].set_ylabel("largest error of a marginal (median, quartiles)")
    for axes in panels:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.legend(frameon=False, fontsize=8.5, loc="best")
        _clean(axes)
    return figure


# ---------------------------------------------------------------------- speed
def plot_speed(
    levels: Sequence[float],
    microseconds: Mapping[str, Curves],
    reached: Mapping[str, Mapping[str, Sequence[bool]]],
    ratios: Curves,
    at_most: Mapping[str, Sequence[bool]],
    published: Curves,
) -> Any:
    """Time to reach an error, a panel per problem, and a ratio of times beside a published one.

    Parameters
    ----------
    levels : errors, from large to small
    microseconds : for each problem, each method's times, of shape (n_levels,)
    reached : the same with whether the level was reached; if not, the time is what was spent
    ratios : for each problem the ratio that is compared, of shape (n_levels,)
    at_most : the same with whether the ratio is only known to be at most this
    published : the ratio as published, for problems where it is known

    Returns
    -------
    matplotlib figure
    """
    n_columns = 3 if len(microseconds) > 2 else len(microseconds) + 1
    n_rows = -(-(len(microseconds) + 1) // n_columns)
    figure = _figure(4.3 * n_columns, 3.7 * n_rows)
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    places = np.arange(len(levels), dtype=np.float64)
    names = [f"{level:g}" for level in levels]
    shared = None
    for axes, (problem, methods) in zip(panels, microseconds.items(), strict=False):
        if shared is not None:
            axes.sharey(shared)
        shared = shared or axes
        for k, (method, times) in enumerate(methods.items()):
            _plot_times(axes, places, _row(times, levels), reached[problem][method], method, k)
        axes.set_yscale("log")
        axes.set_xticks(places, names)
        axes.set_xlabel("largest error of a marginal")
        _title(axes, problem)
        _clean(axes)
    for axes in panels[: len(microseconds) : n_columns]:
        axes.set_ylabel("CPU microseconds")
    low, high = panels[0].get_ylim()
    panels[0].set_ylim(low, ARROW * high)  # shared by all
    _join_legends(panels[0], panels[: len(microseconds)])
    _plot_ratios(panels[len(microseconds)], places, names, ratios, at_most, published)
    for axes in panels[len(microseconds) + 1 :]:
        axes.set_visible(False)
    return figure


def _plot_times(
    axes: Any, places: Floats, times: Floats, reached: Sequence[bool], label: str, k: int
) -> None:
    """A line with a point per level; hollow with an arrow where it was not reached."""
    colour = COLOURS[k]
    done = np.asarray(reached, dtype=bool)
    axes.plot(places, times, color=colour, linestyle=DASHES[k], linewidth=1.8, zorder=10 - k)
    axes.plot(
        places[done], times[done], color=colour, marker=MARKERS[k], markersize=7, linestyle="none",
        markeredgecolor="white", label=label, zorder=20 - k,
    )  # fmt: skip
    if not done.all():
        axes.plot(
            places[~done], times[~done], color=colour, marker=MARKERS[k], markersize=7,
            linestyle="none", markerfacecolor="white", label=label + NOT_REACHED,
            zorder=20 - k,
        )  # fmt: skip
        for x, y in zip(places[~done], times[~done], strict=True):
            _arrow(axes, x, y, ARROW, colour)


def _arrow(axes: Any, x: float, y: float, factor: float, colour: str) -> None:
    """From a point to `factor` times its height."""
    axes.annotate(
        "", (x, y * factor), (x, y * factor**0.2),
        arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.2}, annotation_clip=False,
    )  # fmt: skip


def _plot_ratios(
    axes: Any,
    places: Floats,
    names: Sequence[str],
    ratios: Curves,
    at_most: Mapping[str, Sequence[bool]],
    published: Curves,
) -> None:
    axes.axhline(1.0, color=GREY, linewidth=1.0, zorder=1)
    for k, (problem, values) in enumerate(ratios.items()):
        style = {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}
        axes.plot(places, values, linewidth=1.8, markersize=6, label=problem, **style)
        for x, y, bound in zip(places, _row(values, names), at_most[problem], strict=True):
            if bound:
                _arrow(axes, x, y, 1.0 / ARROW, style["color"])
        if problem in published:
            axes.plot(
                places, published[problem], linestyle=":", linewidth=1.4, markersize=5,
                markerfacecolor="white", **style,
            )  # fmt: skip
    if published:
        axes.plot([], [], color=GREY, linestyle=":", marker="o", markerfacecolor="white",
                  label="published")  # fmt: skip
    axes.set_yscale("log")
    axes.set_xticks(places, names)
    axes.set_xlabel("largest error of a marginal")
    _title(axes, "time of BP / time of FW (above 1: FW is faster)")
    low, high = axes.get_ylim()
    axes.set_ylim(low * (low / high) ** 0.25, high)  # room for the legend
    axes.legend(frameon=False, fontsize=8.5, ncols=3, loc="lower center")
    _clean(axes)


def _join_legends(place: Any, panels: Sequence[Any]) -> None:
    """One legend with everything that any of the panels shows."""
    shown: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            shown.setdefault(label, handle)
    order = sorted(shown, key=lambda label: label.endswith(NOT_REACHED))
    place.legend([shown[label] for label in order], order, frameon=False, fontsize=8.5)


# ---------------------------------------------------------------------- shared
def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.set_facecolor("white")
    return figure


def _table(values: ArrayLike, places: Sequence[float]) -> Floats:
    table = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if table.ndim != 2 or table.shape[1] != len(places):
        raise ValueError(
            f"expected values of shape (n_repetitions, {len(places)}), got {table.shape}"
        )
    return table


def _row(values: ArrayLike, places: Sequence[Any]) -> Floats:
    row = np.asarray(values, dtype=np.float64)
    if row.shape != (len(places),):
        raise ValueError(f"expected values of shape ({len(places)},), got {row.shape}")
    return row


def _plot_range(axes: Any, x: Sequence[float], table: Floats, label: str, k: int) -> None:
    """The mean of repetitions, and their range as a band."""
    _plot_band(axes, x, table.mean(axis=0), table.min(axis=0), table.max(axis=0), label, k)


def _plot_quartiles(axes: Any, x: Sequence[float], table: Floats, label: str, k: int) -> None:
    low, middle, high = np.percentile(np.maximum(table, 1e-16), [25, 50, 75], axis=0)
    _plot_band(axes, x, middle, low, high, label, k)


def _plot_band(
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


def _sizes_axis(axes: Any, sizes: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(sizes), [str(n) for n in sizes])
    axes.minorticks_off()
    _clean(axes)


def _title(axes: Any, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=10.5)


def _clean(axes: Any) -> None:
    axes.grid(True, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
