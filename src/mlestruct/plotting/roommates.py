"""A picture of roommates learned from questionnaires: how well pairs are told apart, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..ranking import PairROC

Floats = NDArray[np.float64]

# Okabe and Ito's colours, which readers with colour-blindness tell apart; dashes help as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (7, 2, 2, 2)), (0, (2, 2)))
LEARNED = COLOURS[0]
TRUE = COLOURS[1]
GREY = "#8c8c8c"
LEAST_RATE = 1e-4  # of false positives shown


def plot_roommates(
    curves: Mapping[str, PairROC],
    questions: Sequence[str],
    learned: ArrayLike,
    truth: ArrayLike | None = None,
) -> Any:
    """ROC curves with the low false-positive rates spread out, and the weights of differences.

    Parameters
    ----------
    curves : name of each method and its curve, the most important first
    questions : names, one per weight
    learned : array of shape (n_questions,), or (n_repetitions, n_questions) to show the spread
    truth : array of shape (n_questions,), optional, the weights behind generated data

    Returns
    -------
    matplotlib figure
    """
    from matplotlib.figure import Figure

    weights = np.atleast_2d(np.asarray(learned, dtype=np.float64))
    true = None if truth is None else np.asarray(truth, dtype=np.float64)
    for name, found in (("learned", weights[0]), ("truth", true)):
        if found is not None and found.shape != (len(questions),):
            raise ValueError(f"{name}: expected {len(questions)} weights, got {found.shape}")
    figure = Figure(figsize=(12.0, 5.2), layout="constrained")
    figure.set_facecolor("white")
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1.0])
    _plot_curves(left, curves)
    _plot_weights(right, questions, weights, true)
    return figure


def _plot_curves(axes: Any, curves: Mapping[str, PairROC]) -> None:
    rates = np.geomspace(LEAST_RATE, 1.0, 200)
    axes.plot(rates, rates, color=GREY, linewidth=1.0, label="chance, AUC 0.500")
    for k, (name, roc) in enumerate(curves.items()):
        axes.plot(
            np.maximum(roc.false_positive_rate, 1e-12),
            roc.true_positive_rate,
            color=COLOURS[k % len(COLOURS)],
            linestyle=DASHES[k % len(DASHES)],
            linewidth=2.4 if k == 0 else 1.8,
            label=f"{name}, AUC {roc.auc:.3f}",
            zorder=10 - k,
        )
    axes.set_xscale("log")
    axes.set_xlim(LEAST_RATE, 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("share of other pairs accepted (log scale)")
    axes.set_ylabel("share of roommates accepted")
    axes.set_title("Telling roommates from other pairs in a year not seen", loc="left", fontsize=11)
    axes.grid(True, color="#e6e6e6", linewidth=0.7)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[1:] + handles[:1], labels[1:] + labels[:1], frameon=False, fontsize=9)
    _clean(axes)


def _plot_weights(
    axes: Any, questions: Sequence[str], weights: Floats, truth: Floats | None
) -> None:
    """A row per question, the strongest on top; a bar joins what is learned to the truth."""
    mean = weights.mean(axis=0)
    order = np.argsort(mean if truth is None else truth, kind="stable")[::-1]
    rows = np.arange(len(questions))
    axes.axvline(0.0, color=GREY, linewidth=0.8, zorder=0)
    if truth is not None:
        axes.hlines(rows, truth[order], mean[order], color="#cfcfcf", linewidth=3.0, zorder=1)
    if weights.shape[0] > 1:
        low, high = weights.min(axis=0)[order], weights.max(axis=0)[order]
        axes.hlines(rows, low, high, color=LEARNED, linewidth=1.2, zorder=2)
    if truth is not None:
        axes.scatter(
            truth[order], rows, s=62, marker="D", facecolor="white", edgecolor=TRUE,
            linewidth=1.8, zorder=3, label="true",
        )  # fmt: skip
    several = f", mean and range of {weights.shape[0]}" if weights.shape[0] > 1 else ""
    axes.scatter(mean[order], rows, s=50, color=LEARNED, zorder=4, label=f"learned{several}")
    axes.set_yticks(rows, [questions[q] for q in order])
    axes.set_xlabel("weight per level of difference (negative: agreement matters)")
    axes.set_title("What counts when choosing a roommate", loc="left", fontsize=11)
    axes.grid(True, axis="x", color="#e6e6e6", linewidth=0.7)
    axes.legend(frameon=False, fontsize=9, loc="lower left")
    axes.tick_params(axis="y", length=0)
    _clean(axes)


def _clean(axes: Any) -> None:
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
