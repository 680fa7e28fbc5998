"""Sections about the model of a linkage: weights in words, held-out quality, certificate."""

from __future__ import annotations

import numpy as np

from . import html
from .held_out import HeldOut
from .html import ACCENT, INK
from .linker import RecordLinker

MEANINGS = {
    "similarity": "{} is similar (fully)",
    "common words": "{} has words in common (all)",
    "common letters": "{} has rare letters in a row in common (all)",
    "equal": "{} is the same",
    "equal and rare": "{} is the same, per unit of rarity",
    "close": "{} is close (fully)",
    "same year": "{} is of the same year",
    "day and month swapped": "{} has day and month swapped",
    "missing": "{} is missing on a side",
}


def weights(linker: RecordLinker) -> str:
    """The strongest weights and what they mean for a link."""
    coef = linker.named_coef()
    strongest = sorted(coef.items(), key=lambda item: -abs(item[1]))[:40]
    rows = [(meaning(name), effect(weight), round(weight, 2)) for name, weight in strongest]
    note = f"The {len(rows)} strongest of {len(coef)} weights, in units of log-odds."
    return html.section(
        "What counts", html.paragraph(note, "soft"), html.table(["where", "then", "weight"], rows)
    )


def meaning(name: str) -> str:
    """A feature in words."""
    column, _, kind = name.rpartition(": ")
    return MEANINGS[kind].format(column) if column else "any two candidates, before all comparisons"


def effect(weight: float) -> str:
    """A weight in words."""
    times = float(np.exp(min(abs(weight), 50.0)))
    if times < 1.05:
        return "no difference"
    factor = f"{times:.0f}" if times >= 10 else f"{times:.1f}"
    odds = f"1/{factor} of" if weight < 0 else f"{factor} times"
    return f"a link has {odds} the odds"


def held_out(linker: RecordLinker) -> str:
    """Accuracy, calibration and ROC curve in cross-validation."""
    title, found = "How well it predicts", linker.held_out_
    if found is None:
        words = (
            "Not known: no known links were held out. Give at least 100 records with --known, "
            "some without a partner, and leave --alpha auto."
        )
        return html.section(title, html.paragraph(words))
    words = f"In cross-validation {100 * found.score:.1f} % of left records with the right answer"
    if found.auc is not None:
        words += (
            f". A true link has a higher probability than a false one in {100 * found.auc:.1f} % "
            "of the cases"
        )
    words += (
        f". Probabilities are off by {100 * found.ece:.2g} percentage points on average "
        f"(by chance alone up to {100 * found.ece_if_calibrated:.2g}); the log loss is "
        f"{found.log_loss:.4g} per pair."
    )
    return html.section(title, html.paragraph(words), f'<div class="side">{_curves(found)}</div>')


def _curves(found: HeldOut) -> str:
    drawn, axes = html.plot(4.2, 3.4, ("probability", "how often it was true"))
    axes.plot([0, 1], [0, 1], color=INK, lw=0.8, ls=":")
    middle = np.array(found.observed)
    low, high = middle - np.array(found.lower), np.array(found.upper) - middle
    errors = np.clip([low, high], 0.0, None)
    axes.errorbar(found.predicted, middle, yerr=errors, fmt="o-", ms=4, lw=1.2, color=ACCENT)
    out = html.picture(drawn, "Calibration: points on the dotted line are right on average")
    if found.auc is None:
        return out
    drawn, axes = html.plot(4.2, 3.4, ("false positive rate", "true positive rate"))
    axes.plot([0, 1], [0, 1], color=INK, lw=0.8, ls=":")
    axes.plot(found.false_positive_rate, found.true_positive_rate, color=ACCENT, lw=1.6)
    return out + html.picture(drawn, f"ROC curve, area {found.auc:.3f}")


def convergence(linker: RecordLinker) -> str:
    """The certified gap by time."""
    history = linker.history_
    drawn, axes = html.plot(6.0, 2.8, ("seconds", "duality gap"))
    gap = np.array(history.gap, dtype=float)
    shown = np.isfinite(gap) & (gap > 0)
    axes.semilogy(np.array(history.seconds)[shown], gap[shown], marker="o", ms=3, color=ACCENT)
    words = (
        f"The penalised log-likelihood of the candidate pairs has a proven relative gap of "
        f"{linker.duality_gap_ / max(1.0, abs(linker.objective_)):.1g} to its optimum "
        f"({linker.n_iter_} iterations of {linker.solver_})."
    )
    if not linker.converged_:
        words += " The fit stopped before it reached its tolerance."
    picture = html.picture(drawn, "Certified duality gap by time")
    return html.section("How far from the optimum", html.paragraph(words), picture)
