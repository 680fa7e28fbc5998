"""The published losses of the house and the hotel, and ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .contract import Comparison, Verdict
from .landmark_results import Loss, digit_of, is_whole, remark
from .landmarks import GAPS, N_LANDMARKS, name_of

PAPER = name_of(1.0)
CHOSEN = "rho chosen"
HINGE = "hinge"
PERCEPTRON = "perceptron"

PUBLISHED = {  # as printed, at gaps of 0, 10, ..., 90
    "hotel": {
        "FW": (
            "0.0", "0.0", "0.0049", "0.020", "0.023", "0.0614", "0.13", "0.17", "0.24", "0.33",
        ),
        "lin.+l.": (
            "0.0", "0.0022", "0.0049", "0.020", "0.013", "0.050", "0.12", "0.15", "0.19", "0.30",
        ),
    },
    "house": {
        "FW": (
            "0", "0.0040", "0.0022", "0.0049", "0.0", "0.017", "0.041", "0.051", "0.080", "0.12",
        ),
        "lin.+l.": (
            "0.0", "0.0", "0.0022", "0.0", "0.0", "0.022", "0.051", "0.067", "0.14", "0.11",
        ),
    },
}  # fmt: skip
COLUMN_OF = {"FW": PAPER, "lin.+l.": HINGE}  # of ours that a published one is compared with
N_FRAMES = {"hotel": 101, "house": 111}

Losses = dict[str, dict[int, dict[str, Loss]]]  # by sequence, gap and column


def compared(
    gaps: Sequence[int], losses: Losses, means: Mapping[str, Mapping[str, Loss]]
) -> list[Comparison]:
    """All published losses beside ours, and the means over gaps."""
    rows = []
    for name, published in PUBLISHED.items():
        for theirs, printed in published.items():
            column = COLUMN_OF[theirs]
            for gap, text in zip(gaps, printed, strict=True):
                rows.append(
                    _comparison(f"{name}, gap {gap}", float(text), digit_of(text), column,
                                losses[name][gap])
                )  # fmt: skip
            mean = float(np.mean([float(text) for text in printed]))
            digit = float(np.mean([digit_of(text) for text in printed]))
            rows.append(_comparison(f"{name}, mean over gaps", mean, digit, column, means[name]))
    return rows


def _comparison(
    where: str, published: float, digit: float, column: str, by_column: Mapping[str, Loss]
) -> Comparison:
    ours = by_column[column]
    instead = {CHOSEN: by_column[CHOSEN]} if column == PAPER else {}
    return Comparison(
        what=f"{where}: loss, {'hinge' if column == HINGE else 'CRF at rho = 1'}",
        published=published,
        ours=ours.mean,
        digit=digit,
        spread=ours.range,
        whose="rival" if column == HINGE else "ours",
        remark=remark(published, digit, ours, instead),
    )


def whole_losses() -> dict[str, Any]:
    """How many published losses are whole numbers of landmarks, by the size of the test set."""
    counts = {"a third of the pairs, rounded down": 0, "one pair fewer": 0, "one pair more": 0}
    total = 0
    for name, published in PUBLISHED.items():
        for k, gap in enumerate(GAPS):
            third = (N_FRAMES[name] - gap) // 3
            for printed in published.values():
                total += 1
                for size, key in zip((third, third - 1, third + 1), counts, strict=True):
                    counts[key] += is_whole(printed[k], size, N_LANDMARKS)
    return {"number": total, "whole numbers of landmarks in": counts}


def verdicts(means: Mapping[str, Mapping[str, Loss]]) -> list[Verdict]:
    published = {
        name: {key: float(np.mean([float(x) for x in texts])) for key, texts in columns.items()}
        for name, columns in PUBLISHED.items()
    }
    widest = max(abs(columns["FW"] - columns["lin.+l."]) for columns in published.values())
    ours = {name: (m[PAPER].mean, m[CHOSEN].mean, m[HINGE].mean) for name, m in means.items()}
    said = "; ".join(
        f"{name} {paper:.4f} at rho = 1, {chosen:.4f} with rho chosen, hinge {hinge:.4f}"
        for name, (paper, chosen, hinge) in ours.items()
    )
    apart = max(abs(paper - hinge) for paper, _, hinge in ours.values())
    house, hotel = ours["house"], ours["hotel"]
    return [
        Verdict(
            "The CRF and the hinge loss perform comparably: their means over gaps differ by no "
            f"more than the published ones, {widest:.4f}",
            apart <= widest,
            said,
        ),
        Verdict("On the house the CRF is slightly better", house[0] <= house[2], said),
        Verdict("On the hotel the hinge loss is slightly better", hotel[2] <= hotel[0], said),
    ]
