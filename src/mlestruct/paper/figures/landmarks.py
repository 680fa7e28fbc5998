"""Charts of landmark matching: loss by the gap between frames, and by rho."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...plotting.style import COLOURS, GREY
from ._curves import clean, new_figure, plot_range, row_of, set_title, table_of

PUBLISHED_MARKERS = ("x", "+", "1")


def plot_losses_by_gap(
    gaps: Sequence[int],
    curves: Mapping[str, Mapping[str, ArrayLike]],
    published: Mapping[str, Mapping[str, ArrayLike]] | None = None,
) -> Any:
    """One chart per sequence: the mean over test sets of every method, and their range.

    Parameters
    ----------
    gaps : between frames
    curves : by sequence and label, losses of shape (n_test_sets, n_gaps), the most important first
    published : by sequence and label, losses of shape (n_gaps,), drawn as points

    Returns
    -------
    matplotlib figure
    """
    if not curves:
        raise ValueError("curves: expected at least one sequence, got none")
    figure = new_figure(5.6 * len(curves), 4.4)
    every = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, (name, by_label) in zip(every, curves.items(), strict=True):
        for k, (label, values) in enumerate(by_label.items()):
            plot_range(axes, gaps, table_of(values, gaps), label, k)
        for k, (label, values) in enumerate((published or {}).get(name, {}).items()):
            _plot_published(axes, gaps, row_of(values, gaps), label, k)
        axes.set_xlabel("gap between frames")
        axes.set_ylabel("share of landmarks matched wrongly")
        axes.set_ylim(bottom=0.0)
        axes.set_xticks(list(gaps))
        set_title(axes, name)
        clean(axes)
    every[0].legend(frameon=False, fontsize=8.5)
    return figure


def plot_losses_by_rho(
    rhos: Sequence[float],
    curves: Mapping[str, ArrayLike],
    published: Mapping[str, ArrayLike] | None = None,
) -> Any:
    """Losses by rho: means over test sets and their range.

    Parameters
    ----------
    curves : by label, losses of shape (n_test_sets, n_rhos)
    published : by label, losses of shape (n_rhos,), drawn as points
    """
    figure = new_figure(6.2, 4.2)
    axes = figure.subplots()
    for k, (label, values) in enumerate(curves.items()):
        plot_range(axes, rhos, table_of(values, rhos), label, k)
    for k, (label, values) in enumerate((published or {}).items()):
        _plot_published(axes, rhos, row_of(values, rhos), label, k)
    axes.set_xlabel("rho")
    axes.set_ylabel("share of landmarks matched wrongly")
    axes.set_ylim(bottom=0.0)
    axes.set_xticks(list(rhos))
    clean(axes)
    axes.legend(frameon=False, fontsize=8.5)
    return figure


def plot_sureness(sure: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Any:
    """How sure predictions were that turned out right or wrong: shares by marginal.

    Parameters
    ----------
    sure : by label, the marginals of the predicted partners of landmarks matched rightly, and of
        those matched wrongly
    """
    figure = new_figure(4.2 * len(sure), 3.6)
    every = figure.subplots(1, len(sure), squeeze=False, sharey=True)[0]
    edges = np.linspace(0.0, 1.0, 11)
    for axes, (label, (right, wrong)) in zip(every, sure.items(), strict=True):
        for k, (values, said) in enumerate(((right, "right"), (wrong, "wrong"))):
            row = np.asarray(values, dtype=np.float64)
            weights = np.full(row.shape, 1.0 / max(row.size, 1))
            axes.hist(
                row, edges, weights=weights, color=COLOURS[k], alpha=0.65,
                label=f"{said} ({row.size})",
            )  # fmt: skip
        axes.set_xlabel("marginal of the predicted partner")
        set_title(axes, label)
        clean(axes)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left")
    every[0].set_ylabel("share of landmarks")
    return figure


def _plot_published(axes: Any, places: Sequence[float], row: Any, label: str, k: int) -> None:
    axes.plot(
        places, row, linestyle="none", marker=PUBLISHED_MARKERS[k % len(PUBLISHED_MARKERS)],
        color="black" if k == 0 else GREY, markersize=8.0, markeredgewidth=1.8, label=label,
        zorder=20,
    )  # fmt: skip
