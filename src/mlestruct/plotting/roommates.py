"""A picture of roommates learned from questionnaires: how well pairs are told apart, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..metrics import PairROC
from .style import COLOURS, DASHES, GREY, clean_axes, new_figure

Floats = NDArray[np.float64]

CURVE_COLOURS = (*COLOURS, "#000000")
LEARNED = COLOURS[0]
TRUE = COLOURS[1]
LOW_RATES = (1e-4, 1e-1)  # of false positives in the panel of low ones


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
    weights = np.atleast_2d(np.asarray(learned, dtype=np.float64))
    true = None if truth is None else np.asarray(truth, dtype=np.float64)
    _check_weights(questions, weights, true)
    figure = new_figure(12.0, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1.0])
    _plot_curves(left, curves)
    _plot_weights(right, questions, weights, true)
    return figure


def plot_roc_curves(rates: ArrayLike, curves: Mapping[str, ArrayLike]) -> Any:
    """ROC curves on two scales: all false-positive rates, and the low ones on a log scale.

    Parameters
    ----------
    rates : array of shape (n_points,), rising false-positive rates from 0 to 1
    curves : label of each method and its true-positive rates, the most important first

    Returns
    -------
    matplotlib figure
    """
    false = np.asarray(rates, dtype=np.float64)
    figure = new_figure(12.0, 5.2)
    left, right = figure.subplots(1, 2)
    low = (false >= LOW_RATES[0]) & (false <= LOW_RATES[1] * (1.0 + 1e-9))
    highest = 0.0
    for axes in (left, right):
        axes.plot(false, false, color=GREY, linewidth=1.0, label="chance, AUC 0.500")
    for k, (label, values) in enumerate(curves.items()):
        true = np.asarray(values, dtype=np.float64)
        if true.shape != false.shape:
            raise ValueError(f"{label}: expected {false.size} rates, got {true.shape}")
        for axes in (left, right):
            _plot_curve(axes, k, false, true, label)
        highest = max(highest, float(true[low].max(initial=0.0)))
    left.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="share of other pairs accepted")
    left.set_title("Telling roommates from other pairs in a year not seen", loc="left", fontsize=11)
    right.set_xscale("log")
    right.set(xlim=LOW_RATES, ylim=(0.0, 1.05 * highest or 1.0))
    right.set_xlabel("share of other pairs accepted (log scale)")
    right.set_title("Low rates of false positives", loc="left", fontsize=11)
    for axes in (left, right):
        axes.set_ylabel("share of roommates accepted")
        clean_axes(axes)
    _legend_with_chance_last(left, loc="lower right")
    return figure


def _check_weights(questions: Sequence[str], weights: Floats, true: Floats | None) -> None:
    for name, found in (("learned", weights[0]), ("truth", true)):
        if found is not None and found.shape != (len(questions),):
            raise ValueError(f"{name}: expected {len(questions)} weights, got {found.shape}")


def _plot_curve(axes: Any, k: int, false: Floats, true: Floats, label: str) -> None:
    """The k-th of several curves."""
    axes.plot(
        np.maximum(false, 1e-12),
        true,
        color=CURVE_COLOURS[k % len(CURVE_COLOURS)],
        linestyle=DASHES[k % len(DASHES)],
        linewidth=2.4 if k == 0 else 1.8,
        label=label,
        zorder=10 - k,
    )


def _legend_with_chance_last(axes: Any, **options: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[1:] + handles[:1], labels[1:] + labels[:1], frameon=False, fontsize=9, **options
    )


def _plot_curves(axes: Any, curves: Mapping[str, PairROC]) -> None:
    rates = np.geomspace(LOW_RATES[0], 1.0, 200)
    axes.plot(rates, rates, color=GREY, linewidth=1.0, label="chance, AUC 0.500")
    for k, (name, roc) in enumerate(curves.items()):
        label = f"{name}, AUC {roc.auc:.3f}"
        _plot_curve(axes, k, roc.false_positive_rate, roc.true_positive_rate, label)
    axes.set_xscale("log")
    axes.set_xlim(LOW_RATES[0], 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("share of other pairs accepted (log scale)")
    axes.set_ylabel("share of roommates accepted")
    axes.set_title("Telling roommates from other pairs in a year not seen", loc="left", fontsize=11)
    _legend_with_chance_last(axes)
    clean_axes(axes)


def _plot_weights(
    axes: Any, questions: Sequence[str], weights: Floats, truth: Floats | None
) -> list[int]:
    """A row per question, the strongest on top; a bar joins what is learned to the truth.

    Returns the questions in the order of the rows, from the bottom.
    """
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
    axes.legend(frameon=False, fontsize=9, loc="lower left")
    axes.tick_params(axis="y", length=0)
    clean_axes(axes, grid="x")
    return [int(q) for q in order]
