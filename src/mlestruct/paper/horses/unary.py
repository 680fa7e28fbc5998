"""The model without edges: logistic regression on all pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ...features.rows import DenseRows

Floats = NDArray[np.float64]


def unary_weights(X: Sequence[Any], Y: Sequence[NDArray[np.int64]], alpha: float) -> Floats:
    """The weights of a CRF without edges, whose two weight vectors are -w/2 and w/2."""
    rows = [DenseRows(nodes.reshape(-1, nodes.shape[2])) for nodes, _ in X]
    w = logistic_regression(rows, [y.ravel() for y in Y], alpha)
    n_edge_features = sum(part.n_features for part in X[0][1])
    return np.concatenate([-0.5 * w, 0.5 * w, np.zeros(4 * n_edge_features)])


def logistic_regression(
    rows: Sequence[DenseRows],
    labels: Sequence[NDArray[np.int64]],
    alpha: float,
    rtol: float = 1e-6,
) -> Floats:
    """Weights minimising the logistic loss of all rows + alpha/4 |w|^2, by Newton's method.

    The loss is certain to be within a part `rtol` of the least: |gradient|^2 / alpha bounds it.
    """
    w = last = np.zeros(rows[0].n_features)
    least = np.inf
    for _ in range(100):
        loss, gradient = 0.25 * alpha * float(w @ w), 0.5 * alpha * w
        hessian = 0.5 * alpha * np.eye(w.shape[0])
        for part, label in zip(rows, labels, strict=True):
            scores = part.scores(w)
            p = expit(scores)
            loss += float(np.logaddexp(0.0, scores).sum() - scores[label == 1].sum())
            gradient = gradient + part.moments(p - label)
            spread = (p * (1.0 - p)).astype(part.matrix.dtype)
            hessian += part.matrix.T @ (part.matrix * spread[:, None])
        if loss > least:  # too far
            w = 0.5 * (w + last)
            continue
        if gradient @ gradient <= rtol * alpha * loss:
            break
        last, least = w, loss
        w = w - np.linalg.solve(hessian, gradient)
    return w
