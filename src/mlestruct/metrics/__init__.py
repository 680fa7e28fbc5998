"""Quality of predicted probabilities and scores: calibration and ranking.

Calibration: of the events with probability 0.3, 30 % should happen. `reliability` compares
probabilities of single events with what happened. `pair_reliability` and `state_reliability` make
such events from what `predict_marginals` returns and observed labels. The decomposition of the
Brier score is that of Murphy (1973), the interval of an observed frequency that of Wilson (1927).
The intervals and `ece_if_calibrated` suppose independent events. Those of one matching or one
labelling depend on each other, so frequencies can vary more than the intervals say.

Ranking: how well scores separate true pairs from all others, without decoding. `pair_roc` and
`pair_auc` give the ROC curve and the area below it, `rank_of_partner` the rank of the true
partner, `top_candidates` the best partners, `flag_pairs` the pairs of a proposal to look at again.

Scoring: `token_accuracy`, `pair_f1`, `neg_log_loss` and `neg_calibration_error` take an estimator,
X and Y, as `scoring=` of `cross_val_score` and `GridSearchCV`. They count over all tokens, pixels,
nodes or pairs at once, where `score` is a mean over samples.
"""

from .expected_f1 import expected_f1_sets
from .held_out import HeldOut
from .pair_reliability import pair_events, pair_reliability
from .ranking import (
    PairROC,
    Rejection,
    flag_pairs,
    pair_auc,
    pair_roc,
    rank_of_partner,
    top_candidates,
)
from .reliability import Reliability, reliability
from .scorers import neg_calibration_error, neg_log_loss, pair_f1, token_accuracy
from .state_reliability import state_events, state_reliability

__all__ = [
    "HeldOut",
    "PairROC",
    "Rejection",
    "Reliability",
    "expected_f1_sets",
    "flag_pairs",
    "neg_calibration_error",
    "neg_log_loss",
    "pair_auc",
    "pair_events",
    "pair_f1",
    "pair_reliability",
    "pair_roc",
    "rank_of_partner",
    "reliability",
    "state_events",
    "state_reliability",
    "token_accuracy",
    "top_candidates",
]
