"""`RowSoftmax`: every row picks its column on its own, as in a multinomial logit.

The constraint that a column has one partner is ignored in learning and comes back only when an
assignment is decoded. Convex, and the cheapest loss there is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from .base import Batch, MatchingBaseline, ScoreLoss

Floats = NDArray[np.float64]


class RowSoftmax(MatchingBaseline):
    """Conditional logit of each row over the columns, decoded by assignment.

    Minimises  -sum over observed pairs (i, j) of log softmax(scores of row i)_j
    + alpha/2 |theta|^2. Rows without a partner say nothing.

    Parameters
    ----------
    alpha : float
        Regularisation, on the summed loss.
    max_iter : int
        Iterations of L-BFGS.
    tol : float
        Stop when |gradient|^2 / (2 alpha), a bound of the suboptimality, is at most
        tol * max(1, |loss|).

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    objective_ : float, the minimised loss with its penalty
    n_iter_, n_evaluations_ : int
    seconds_ : float
    history_ : list of (seconds, loss), one per iteration
    converged_ : bool

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.baselines.softmax import RowSoftmax
    >>> left = np.random.default_rng(0).normal(size=(10, 5, 2))
    >>> X = [-((a[:, None] - a[None]) ** 2) for a in left]
    >>> model = RowSoftmax(alpha=1.0).fit(X, [np.arange(5)] * 10)
    >>> model.score(X, [np.arange(5)] * 10)
    1.0
    """

    def __init__(self, alpha: float = 1.0, max_iter: int = 1000, tol: float = 1e-6):
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol

    def _score_loss(self, batch: Batch) -> ScoreLoss:
        observed_rows = np.zeros(batch.shape[0] * batch.shape[1], dtype=bool)
        observed_rows[batch.observed // batch.shape[2]] = True
        observed_rows = observed_rows.reshape(batch.shape[:2])

        def loss(scores: Floats) -> tuple[float, Floats]:
            top = scores.max(axis=2)
            weights = np.exp(scores - top[:, :, None])
            totals = weights.sum(axis=2)
            log_totals = (np.log(totals) + top)[observed_rows].sum()
            value = float(log_totals - scores.ravel()[batch.observed].sum())
            gradient = weights * (observed_rows / totals)[:, :, None]
            gradient.ravel()[batch.observed] -= 1.0
            return value, gradient

        return loss

    def _marginals(self, scores: Floats) -> Floats:
        """The softmax of each row; columns need not sum to one."""
        out: Floats = softmax(scores, axis=1)
        return out
