"""Quality of predicted probabilities and labels.

`events(X, Y)` of an estimator returns whether events happened, their probabilities and weights, in
the order that scikit-learn's metrics take.

Calibration: of the events with probability 0.3, 30 % should happen. `reliability` compares
probabilities with frequencies.

Scorers: `token_accuracy`, `pair_f1`, `neg_log_loss` and `neg_calibration_error` are for `scoring=`
of `cross_val_score` and `GridSearchCV`. They count over all tokens, pixels, nodes or pairs at once;
`score` is a mean over samples.
"""

from .events import Events, as_events
from .reliability import Reliability, reliability
from .scorers import neg_calibration_error, neg_log_loss, pair_f1, token_accuracy

__all__ = [
    "Events",
    "Reliability",
    "as_events",
    "neg_calibration_error",
    "neg_log_loss",
    "pair_f1",
    "reliability",
    "token_accuracy",
]
