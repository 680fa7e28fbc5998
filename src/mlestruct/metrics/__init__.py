"""Quality of predicted probabilities and labels.

`events(X, Y)` of an estimator returns whether events happened, their probabilities and weights, in
the order that scikit-learn's metrics take.

Calibration: of the events with probability 0.3, 30 % should happen. `reliability` compares
probabilities with frequencies.

Scorers: `token_accuracy`, `pair_f1`, `neg_log_loss` and `neg_calibration_error` are for `scoring=`
of `cross_val_score` and `GridSearchCV`. They count over all tokens, pixels, nodes or pairs at once;
`score` is a mean over samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from .calibration import Reliability, reliability
    from .events import Events, as_events, join_events
    from .scorers import neg_calibration_error, neg_log_loss, pair_f1, token_accuracy

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "Events": ".events",
        "Reliability": ".calibration",
        "as_events": ".events",
        "join_events": ".events",
        "neg_calibration_error": ".scorers",
        "neg_log_loss": ".scorers",
        "pair_f1": ".scorers",
        "reliability": ".calibration",
        "token_accuracy": ".scorers",
    },
)
