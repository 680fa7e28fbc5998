"""Predictions for data that were left out of learning, beside what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import auc, roc_curve

from .reliability import Events, compare_events


@dataclass(frozen=True)
class HeldOut:
    """What held-out predictions are worth; plain types, so that model files can hold it.

    score : the estimator's own score, a mean over samples
    events : number of probabilities that were compared with what happened
    log_loss, ece, ece_if_calibrated : as in `Reliability`
    predicted, observed, lower, upper, count : bins of `Reliability` that are not empty
    auc : area below the ROC curve of the probabilities, None if all events or none happened
    false_positive_rate, true_positive_rate : points of the curve, at most 100
    """

    score: float
    events: float
    log_loss: float
    ece: float
    ece_if_calibrated: float
    predicted: list[float]
    observed: list[float]
    lower: list[float]
    upper: list[float]
    count: list[float]
    auc: float | None
    false_positive_rate: list[float]
    true_positive_rate: list[float]

    @classmethod
    def of(cls, score: float, samples: Sequence[Events]) -> HeldOut:
        """From the events of all samples that were left out."""
        found = compare_events(list(samples), 10, "uniform", 0.95, "samples")
        full = found.count > 0
        names = ("predicted", "observed", "lower", "upper", "count")
        bins = {name: getattr(found, name)[full].tolist() for name in names}
        area, false, true = _curve(samples)
        return cls(
            score=float(score), events=found.n, log_loss=found.log_loss, ece=found.ece,
            ece_if_calibrated=found.ece_if_calibrated, **bins, auc=area,
            false_positive_rate=false, true_positive_rate=true,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain types, from which `HeldOut(**...)` makes the same."""
        return asdict(self)


def _curve(samples: Sequence[Events]) -> tuple[float | None, list[float], list[float]]:
    """Area and points of the ROC curve of weighted events."""
    values, happened, weight = (np.concatenate(part) for part in zip(*samples, strict=True))
    counted = weight > 0
    if happened[counted].all() or not happened[counted].any():
        return None, [], []
    false, true, _ = roc_curve(happened[counted], values[counted], sample_weight=weight[counted])
    area = float(auc(false, true))
    # A hundred points are stored, evenly along the curve, whose ends are kept.
    along = np.linspace(0.0, 2.0, 100)
    kept = np.unique(np.searchsorted(false + true, along).clip(0, false.size - 1))
    return area, false[kept].tolist(), true[kept].tolist()
