"""Pictures of recordings and Ising models: coupled neurons, rasters, ROC curves of stimuli."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import as_count, as_floats, as_places, as_table
from ..metrics.event_auc import event_auc
from .style import COLOURS, DASHES, GREY, clean_axes, new_figure, no_axes

MOST_NODES = 1_000_000  # of a picture


def plot_couplings(
    edges: ArrayLike,
    couplings: ArrayLike,
    coords: ArrayLike | None = None,
    groups: Sequence[ArrayLike] = (),
    n_nodes: int | None = None,
    ax: Any = None,
    path: Any = None,
) -> Any:
    """Nodes at their positions, joined by their couplings.

    The width of a line is the strength of a coupling, its colour the sign: blue lines attract,
    orange ones repel.

    Parameters
    ----------
    edges : array of shape (n_edges, 2)
    couplings : array of shape (n_edges,)
    coords : array of shape (n_nodes, 2), optional; by default nodes are on a circle
    groups : sequence of arrays of nodes, such as ensembles; each gets a colour
    n_nodes : int, optional; needed only without coords, for nodes that have no edge
    ax, path : axes to draw on; file to write the figure to

    Returns
    -------
    matplotlib figure
    """
    from matplotlib.collections import LineCollection

    most = MOST_NODES
    if coords is not None:
        places = as_table(coords, "coords", "n_nodes", "2 or more")[:, :2]
        most = len(places) - 1
    found = as_floats(edges, "edges")
    pairs = as_places(found if found.size else np.zeros((0, 2)), "edges", 0, most, "n_edges", 2)
    strengths = as_table(couplings, "couplings", len(pairs))
    members = [as_places(one, f"groups[{k}]", 0, most, "n") for k, one in enumerate(groups)]
    if coords is None:
        least = 1 if n_nodes is None else as_count(n_nodes, "n_nodes")
        count = max([least, *(int(nodes.max(initial=-1)) + 1 for nodes in (pairs, *members))])
        angle = 2.0 * np.pi * np.arange(count) / count
        places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if ax is None:
        ax = new_figure(6.0, 6.0).add_subplot()
    order = np.argsort(np.abs(strengths))
    largest = np.abs(strengths).max(initial=1e-12)
    ax.add_collection(
        LineCollection(
            [places[pair] for pair in pairs[order]],
            linewidths=0.2 + 4.0 * np.abs(strengths[order]) / largest,
            colors=[COLOURS[0] if value > 0 else COLOURS[1] for value in strengths[order]],
            alpha=0.45,
        )
    )
    ax.scatter(*places.T, s=26, color="white", edgecolors=GREY, linewidths=1.0, zorder=3)
    for k, group in enumerate(members):
        ax.scatter(
            *places[group].T, s=56, color=COLOURS[(k + 2) % len(COLOURS)], edgecolors="white",
            linewidths=0.9, zorder=4, label=f"ensemble {k}",
        )  # fmt: skip
    if members:
        ax.legend(frameon=False, fontsize=9, loc="upper right")
    no_axes(ax, f"{len(pairs)} couplings, the strongest {largest if len(pairs) else 0.0:.2f}")
    return _finished(ax.figure.figure, path)


def plot_raster(
    spikes: ArrayLike,
    stimuli: ArrayLike,
    predictions: ArrayLike | None = None,
    frames: slice = slice(None),
    path: Any = None,
) -> Any:
    """Spikes of all neurons over time; below, each stimulus and its predicted probability.

    Parameters
    ----------
    spikes : array of shape (n_frames, n_neurons)
    stimuli : array of shape (n_frames, n_stimuli)
    predictions : array of shape (n_frames, n_stimuli), optional
    frames : the part to draw
    path : file to write the figure to
    """
    active = as_table(spikes, "spikes", "n_frames", "n_neurons")
    shown = as_table(stimuli, "stimuli", len(active), "n_stimuli")
    guessed = None
    if predictions is not None:
        guessed = as_table(predictions, "predictions", *shown.shape)[frames]
    active, shown = active[frames], shown[frames]
    n_stimuli = shown.shape[1]
    figure = new_figure(9.0, 3.4 + 0.8 * n_stimuli)
    grid = figure.add_gridspec(1 + n_stimuli, 1, height_ratios=[3.2] + [0.8] * n_stimuli)
    raster = figure.add_subplot(grid[0])
    time, neuron = np.nonzero(active)
    raster.scatter(time, neuron, s=3.0, marker="|", color="black", linewidths=0.7)
    raster.set(ylabel="neuron", xlim=(-0.5, active.shape[0] - 0.5))
    clean_axes(raster, grid=None)
    for s in range(n_stimuli):
        axes = figure.add_subplot(grid[1 + s], sharex=raster)
        axes.fill_between(
            np.arange(len(shown)), shown[:, s], step="mid", color=GREY, alpha=0.35, linewidth=0.0
        )
        if guessed is not None:
            axes.plot(guessed[:, s], color=COLOURS[s % len(COLOURS)], linewidth=1.1)
        axes.set(ylim=(-0.04, 1.04), ylabel=f"stimulus {s}")
        clean_axes(axes, grid=None)
    figure.axes[-1].set_xlabel("frame")
    return _finished(figure, path)


def plot_stimulus_roc(
    scores: ArrayLike, stimuli: ArrayLike, ax: Any = None, path: Any = None
) -> Any:
    """ROC curve of the prediction of every stimulus.

    Parameters
    ----------
    scores : array of shape (n_frames, n_stimuli), such as probabilities
    stimuli : array of shape (n_frames, n_stimuli), 0 and 1
    """
    values = as_table(scores, "scores", "n_frames", "n_stimuli")
    shown = as_places(stimuli, "stimuli", 0, 1, *values.shape)
    if ax is None:
        ax = new_figure(4.6, 4.6).add_subplot()
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, label="chance")
    for s in range(shown.shape[1]):
        true, false = _roc(values[:, s], shown[:, s] == 1)
        area = float(event_auc(values[:, s], shown[:, s])[0, 0])
        ax.plot(
            false, true, color=COLOURS[s % len(COLOURS)], linestyle=DASHES[s % len(DASHES)],
            linewidth=1.8, label=f"stimulus {s}, AUC {area:.3f}",
        )  # fmt: skip
    ax.set(xlabel="false positives", ylabel="true positives", aspect="equal")
    ax.legend(frameon=False, fontsize=9, loc="lower right")
    clean_axes(ax)
    return _finished(ax.figure.figure, path)


def _roc(values: Any, happened: Any) -> tuple[Any, Any]:
    """Shares of frames with and without the event whose value is above each threshold."""
    order = np.argsort(-values, kind="stable")
    last = np.append(np.flatnonzero(np.diff(values[order])), len(values) - 1)
    with_event = np.cumsum(happened[order])[last]
    without = np.cumsum(~happened[order])[last]
    return (
        np.append(0.0, with_event / max(with_event[-1], 1)),
        np.append(0.0, without / max(without[-1], 1)),
    )


def _finished(figure: Any, path: Any) -> Any:
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
