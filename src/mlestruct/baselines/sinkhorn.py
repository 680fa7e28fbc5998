"""`UnrolledSinkhorn`: learning through a fixed number of Sinkhorn normalisations.

Scores S become P = exp(S - u - v), where one step sets the row potentials
u = logsumexp(S - v) over columns and then the column potentials v = logsumexp(S - u) over rows.
The loss -sum log P of the observed pairs is differentiated through all steps, by hand in reverse.

In scaling form, with K = exp(S), x = exp(-u) and y = exp(-v), a step is two matrix-vector products
and its share of the gradient is K times a matrix of rank two, so no exponential is taken inside
the loop. Samples whose scores spread too widely for that are treated with logsumexp instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ..models.validation import check_count
from .pair_batches import Batch, ScoreLBFGS, ScoreLoss, ScoreLossLearner

Floats = NDArray[np.float64]
Trajectory = tuple[Floats, Floats]
"""Row potentials (n_steps, M, n) and column potentials (n_steps + 1, M, n), the first ones 0."""

# Scalings spread no wider than K does, so products of two of them and K stay within 1e+-308.
SCALING_SPREAD = 230.0


class UnrolledSinkhorn(ScoreLossLearner):
    """Matching by Sinkhorn layers trained end to end.

    Minimises  -sum over observed pairs of log P + alpha/2 |theta|^2, P being what `n_steps`
    normalisations make of the scores. The loss is smooth but not convex in general.

    Parameters
    ----------
    estimator : a BipartiteMatchingCRF, not fitted
        Its features and decoder are used, and its `alpha` (on the summed loss), `tol` (stop when
        |gradient|^2 / (2 alpha) is at most tol * max(1, objective)), `max_iter` (iterations of
        L-BFGS), `max_time`, `callback`, `verbose`.
    n_steps : int
        Normalisations of rows and then columns.

    Attributes
    ----------
    As in `RowSoftmax`; duality_gap_ = |gradient|^2 / (2 alpha) is no bound where the loss is not
    convex.

    Notes
    -----
    The smaller side of a rectangular sample is filled up with dummy nodes of score 0, which are
    normalised with the rest and do not enter the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import BipartiteMatchingCRF
    >>> from mlestruct.baselines import UnrolledSinkhorn
    >>> left = np.random.default_rng(0).normal(size=(10, 5, 2))
    >>> X = [-((a[:, None] - a[None]) ** 2) for a in left]
    >>> model = UnrolledSinkhorn(BipartiteMatchingCRF(alpha=1.0)).fit(X, [np.arange(5)] * 10)
    >>> P = model.predict_marginals(X)[0]
    >>> bool(np.allclose(P.sum(axis=0), 1.0))
    True
    """

    def __init__(self, estimator: Any, n_steps: int = 20):
        self.estimator = estimator
        self.n_steps = n_steps

    def _algorithm(self) -> ScoreLBFGS:
        check_count(self.n_steps, "n_steps")
        return super()._algorithm()

    def _score_loss(self, batch: Batch) -> ScoreLoss:
        _, n_rows, n_cols = batch.observed.shape
        observed = _pad(batch.observed)

        def loss(scores: Floats) -> tuple[float, Floats]:
            value, gradient = sinkhorn_loss(_pad(scores), observed, self.n_steps)
            return value, gradient[:, :n_rows, :n_cols]

        return loss

    def _marginals(self, scores: Floats) -> Floats:
        """P after `n_steps`: columns sum to one, rows nearly so (dummy nodes included)."""
        return sinkhorn(scores, self.n_steps)


def sinkhorn(scores: Any, n_steps: int) -> Floats:
    """P of shape (n_rows, n_cols) after `n_steps` normalisations of rows and then columns."""
    table = np.asarray(scores, dtype=np.float64)
    square = _pad(table[None])
    row_potentials, col_potentials = _forward(square, n_steps)
    logs = square[0] - row_potentials[-1, 0, :, None] - col_potentials[-1, 0]
    out: Floats = np.exp(logs[: table.shape[0], : table.shape[1]])
    return out


def sinkhorn_loss(scores: Floats, observed: Floats, n_steps: int) -> tuple[float, Floats]:
    """-sum of `observed` * log P, and its gradient in the scores.

    Parameters
    ----------
    scores, observed : ndarrays of shape (n_samples, n, n)
    n_steps : int

    Returns
    -------
    loss : float
    gradient : ndarray of shape (n_samples, n, n)
    """
    on_rows, on_cols = observed.sum(axis=2), observed.sum(axis=1)
    # A constant added to a row only moves its potential; largest scores of 0 can not overflow.
    shifted = scores - scores.max(axis=2, keepdims=True)
    narrow = shifted.min(axis=(1, 2)) >= -SCALING_SPREAD
    gradient = np.empty_like(scores)
    value = -float((shifted * observed).sum())
    for part, pull_back in ((narrow, _pull_back_scaled), (~narrow, _pull_back_logs)):
        if not part.any():
            continue
        table = shifted[part]
        path = _forward(table, n_steps)
        value += float((on_rows[part] * path[0][-1]).sum() + (on_cols[part] * path[1][-1]).sum())
        gradient[part] = pull_back(table, path, on_rows[part], on_cols[part])
    gradient -= observed
    return value, gradient


def _forward(scores: Floats, n_steps: int) -> Trajectory:
    """Potentials after every step, for scores of shape (M, n, n)."""
    shift = scores.max(axis=2)
    shifted = scores - shift[:, :, None]
    row_potentials = np.empty((n_steps, *shift.shape))
    col_potentials = np.zeros((n_steps + 1, *shift.shape))
    if shifted.min() >= -SCALING_SPREAD:
        kernel = np.exp(shifted)
        y = np.ones(shift.shape)
        for t in range(n_steps):
            row_totals = _times(kernel, y)
            x = 1.0 / row_totals
            col_totals = _times(kernel.swapaxes(1, 2), x)
            y = 1.0 / col_totals
            row_potentials[t], col_potentials[t + 1] = row_totals, col_totals
        np.log(row_potentials, out=row_potentials)
        np.log(col_potentials[1:], out=col_potentials[1:])
    else:
        for t in range(n_steps):
            row_potentials[t] = logsumexp(shifted - col_potentials[t][:, None, :], axis=2)
            col_potentials[t + 1] = logsumexp(shifted - row_potentials[t][:, :, None], axis=1)
    row_potentials += shift
    return row_potentials, col_potentials


def _pull_back_scaled(scores: Floats, path: Trajectory, on_rows: Floats, on_cols: Floats) -> Floats:
    """Gradient of  <on_rows, u> + <on_cols, v>  (the last potentials) in the scores.

    The derivative of a logsumexp is a normalised row or column of K, scaled; the terms of all
    steps are gathered as factors of low rank and multiplied once.
    """
    kernel = np.exp(scores)
    xs, ys = np.exp(-path[0]), np.exp(-path[1])
    n_steps, n_samples, n = xs.shape
    left = np.empty((n_samples, 2 * n_steps, n))
    right = np.empty((n_samples, 2 * n_steps, n))
    rows, cols = on_rows, on_cols
    for t in range(n_steps - 1, -1, -1):
        weighted = ys[t + 1] * cols
        rows = rows - xs[t] * _times(kernel, weighted)
        left[:, 2 * t], right[:, 2 * t] = xs[t], weighted
        weighted = xs[t] * rows
        left[:, 2 * t + 1], right[:, 2 * t + 1] = weighted, ys[t]
        cols = -ys[t] * _times(kernel.swapaxes(1, 2), weighted)
        rows = np.zeros_like(on_rows)  # earlier row potentials reach the loss through v only
    out: Floats = kernel * (left.swapaxes(1, 2) @ right)
    return out


def _pull_back_logs(scores: Floats, path: Trajectory, on_rows: Floats, on_cols: Floats) -> Floats:
    """As `_pull_back_scaled`, for scores of any spread."""
    row_potentials, col_potentials = path
    gradient = np.zeros_like(scores)
    rows, cols = on_rows, on_cols
    for t in range(row_potentials.shape[0] - 1, -1, -1):
        rest = scores - row_potentials[t][:, :, None]
        term = np.exp(rest - col_potentials[t + 1][:, None, :]) * cols[:, None, :]
        gradient += term
        rows = rows - term.sum(axis=2)
        term = np.exp(rest - col_potentials[t][:, None, :]) * rows[:, :, None]
        gradient += term
        cols = -term.sum(axis=1)
        rows = np.zeros_like(on_rows)
    return gradient


def _times(matrices: Floats, vectors: Floats) -> Floats:
    """Matrix-vector products of shape (M, n)."""
    out: Floats = (matrices @ vectors[:, :, None])[:, :, 0]
    return out


def _pad(tables: Floats) -> Floats:
    """Tables of shape (M, n_rows, n_cols) made square with zeros."""
    n_samples, n_rows, n_cols = tables.shape
    if n_rows == n_cols:
        return tables
    n = max(n_rows, n_cols)
    square = np.zeros((n_samples, n, n))
    square[:, :n_rows, :n_cols] = tables
    return square
