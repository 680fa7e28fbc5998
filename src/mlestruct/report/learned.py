"""What a model learned and how good it is: weights in plain words, held-out quality."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..metrics import HeldOut
from ..models.tuned import TunedModel
from . import page as html
from .figures import ACCENT, INK, axes, figure

SURE = 1.96  # standard errors: 95 % of a normal distribution


def weights(model: TunedModel, meaning: Callable[[str], str], what: str = "a pair") -> str:
    """The strongest weights, with their errors and what they mean for `what`."""
    names, coef = zip(*model.named_coef().items(), strict=True)
    errors = model.coef_error_
    order = np.argsort(-np.abs(coef), kind="stable")[:40]
    rows = []
    for k in order:
        error = None if errors is None else float(errors[k])
        row: list[Any] = [meaning(names[k]), _effect(coef[k], error, what), round(coef[k], 2)]
        rows.append(row if error is None else [*row, f"± {SURE * error:.2f}"])
    note = f"The {len(rows)} strongest of {len(coef)} weights, in units of log-odds. "
    if errors is None:
        note += "How exact they are is not known: this kind of model has no covariance of features."
    else:
        note += "± is a 95 % interval, from the curvature of the likelihood at the optimum."
    columns = ["where", "then", "weight", *([] if errors is None else ["±"])]
    return html.section("What counts", html.paragraph(note, "soft"), html.table(columns, rows))


def _effect(weight: float, error: float | None, what: str) -> str:
    """The direction of a weight in plain words."""
    times = float(np.exp(min(abs(weight), 50.0)))
    if times < 1.05:
        return "no difference"
    factor = f"{times:.0f}" if times >= 10 else f"{times:.1f}"
    words = f"{what} has {factor} times the odds"
    if weight < 0:
        words = f"{what} has 1/{factor} of the odds"
    if error is not None and abs(weight) < SURE * error:
        words += " (may be chance)"
    return words


def held_out(model: TunedModel, score: str) -> str:
    """Accuracy, ROC curve and calibration in cross-validation."""
    found = model.held_out_
    if found is None:
        words = "Not known: the penalty was given, so nothing was left out of the learning. Learn "
        return html.section("How well it predicts", html.paragraph(words + "with --alpha auto."))
    words = f"In cross-validation {100 * found.score:.1f} % of {score}. "
    if found.auc is not None:
        words += (
            f"What is true has a higher probability than what is not in {100 * found.auc:.1f} % of "
            "the cases. "
        )
    words += (
        f"Probabilities are off by {100 * found.ece:.2g} percentage points on average "
        f"(by chance alone up to {100 * found.ece_if_calibrated:.2g}); the log loss is "
        f"{found.log_loss:.4g} per event."
    )
    return html.section(
        "How well it predicts", html.paragraph(words), f'<div class="side">{_plots(found)}</div>'
    )


def _plots(found: HeldOut) -> str:
    drawn, plot = axes(4.2, 3.4)
    plot.plot([0, 1], [0, 1], color=INK, lw=0.8, ls=":")
    middle = np.array(found.observed)
    low, high = middle - np.array(found.lower), np.array(found.upper) - middle
    errors = np.clip([low, high], 0.0, None)
    plot.errorbar(found.predicted, middle, yerr=errors, fmt="o-", ms=4, lw=1.2, color=ACCENT)
    plot.set_xlabel("probability")
    plot.set_ylabel("how often it was true")
    out = figure(drawn, "Calibration: points on the dotted line are right on average")
    if found.auc is None:
        return out
    drawn, plot = axes(4.2, 3.4)
    plot.plot([0, 1], [0, 1], color=INK, lw=0.8, ls=":")
    plot.plot(found.false_positive_rate, found.true_positive_rate, color=ACCENT, lw=1.6)
    plot.set_xlabel("share of what is false above a threshold")
    plot.set_ylabel("share of what is true")
    return out + figure(drawn, f"ROC curve, area {found.auc:.3f}")
