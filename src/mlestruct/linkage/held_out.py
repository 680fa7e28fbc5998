"""Quality of links predicted for samples that were left out of learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import auc, roc_curve

from ..metrics import reliability
from ..metrics.events import Events, join_events
from ..metrics.scorers import binary_log_loss


@dataclass(frozen=True)
class HeldOut:
    """Quality of held-out predictions; plain types, so that model files can hold it.

    The events are the pairs of positive probability and the pairs that happened.

    score : the estimator's own score, a mean over samples
    events : number of events
    log_loss : mean of -log(probability of the outcome of an event)
    ece, ece_if_calibrated : as in `Reliability`
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
        y, p, w = join_events(samples)
        possible = (p > 0.0) | y
        events = Events(y[possible], p[possible], w[possible])
        found = reliability(*events)
        full = found.count > 0
        names = ("predicted", "observed", "lower", "upper", "count")
        bins = {name: getattr(found, name)[full].tolist() for name in names}
        area, false, true = _curve(events)
        return cls(
            score=float(score), events=float(found.count.sum()), log_loss=binary_log_loss(events),
            ece=found.ece, ece_if_calibrated=found.ece_if_calibrated, **bins, auc=area,
            false_positive_rate=false, true_positive_rate=true,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain types, from which `HeldOut(**...)` makes the same."""
        return asdict(self)


def _curve(events: Events) -> tuple[float | None, list[float], list[float]]:
    """Area and points of the ROC curve."""
    happened, p, weight = events
    if happened.all() or not happened.any():
        return None, [], []
    false, true, _ = roc_curve(happened, p, sample_weight=weight)
    area = float(auc(false, true))
    # A hundred points are stored, evenly along the curve, whose ends are kept.
    along = np.linspace(0.0, 2.0, 100)
    kept = np.unique(np.searchsorted(false + true, along).clip(0, false.size - 1))
    return area, false[kept].tolist(), true[kept].tolist()
