"""`RowSoftmax`: every row picks its column on its own, as in a multinomial logit.

Learning ignores the constraint that a column has one partner; only decoding respects it. Convex,
and cheap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from .pair_batches import Batch, ScoreLoss, ScoreLossLearner

Floats = NDArray[np.float64]


class RowSoftmax(ScoreLossLearner):
    """Conditional logit of each row over the columns, decoded by assignment.

    Minimises  -sum over observed pairs (i, j) of log softmax(scores of row i)_j
    + alpha/2 |theta|^2. Rows without a partner do not enter the loss.

    Parameters
    ----------
    estimator : a BipartiteMatchingCRF, not fitted
        Its features and decoder are used, and its `alpha` (on the summed loss), `tol` (stop when
        |gradient|^2 / (2 alpha), a bound of the suboptimality, is at most tol * max(1, objective)),
        `max_iter` (iterations of L-BFGS), `max_time`, `callback`, `verbose`.

    Attributes
    ----------
    estimator_ : a clone of the estimator with the learned weights
    coef_ : ndarray of shape (n_features,)
    objective_ : float, the minimised loss with its penalty
    duality_gap_ : float, |gradient|^2 / (2 alpha)
    converged_ : bool
    history_ : History; `primal` is minus the loss, `dual` minus its lower bound, at each iteration
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import BipartiteMatchingCRF
    >>> from mlestruct.baselines import RowSoftmax
    >>> left = np.random.default_rng(0).normal(size=(10, 5, 2))
    >>> X = [-((a[:, None] - a[None]) ** 2) for a in left]
    >>> model = RowSoftmax(BipartiteMatchingCRF(alpha=1.0)).fit(X, [np.arange(5)] * 10)
    >>> model.score(X, [np.arange(5)] * 10)
    1.0
    """

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def _score_loss(self, batch: Batch) -> ScoreLoss:
        observed = batch.observed
        of_rows = observed.sum(axis=2)

        def loss(scores: Floats) -> tuple[float, Floats]:
            top = scores.max(axis=2)
            weights = np.exp(scores - top[:, :, None])
            totals = weights.sum(axis=2)
            value = float((of_rows * (np.log(totals) + top)).sum() - (observed * scores).sum())
            gradient = weights * (of_rows / totals)[:, :, None]
            gradient -= observed
            return value, gradient

        return loss

    def _marginals(self, scores: Floats) -> Floats:
        """The softmax of each row; columns need not sum to one."""
        out: Floats = softmax(scores, axis=1)
        return out
