"""Are predicted probabilities right? Of the events given probability 0.3, 30 % should happen.

`reliability` compares probabilities of single events with what happened. `pair_reliability` and
`state_reliability` make such events from what `predict_marginals` returns and observed labels.

The decomposition of the Brier score is that of Murphy (1973), the interval of an observed
frequency that of Wilson (1927). The intervals and `ece_if_calibrated` suppose independent events.
Those of one matching or one labelling depend on each other, so frequencies can vary more than the
intervals say.
"""

from .pair_reliability import pair_reliability
from .reliability import Reliability, reliability
from .state_reliability import state_reliability

__all__ = ["Reliability", "pair_reliability", "reliability", "state_reliability"]
