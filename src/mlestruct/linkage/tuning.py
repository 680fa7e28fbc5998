"""The penalty of a linkage, chosen by the cross-validated likelihood of the known links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .held_out import HeldOut

ALPHAS = tuple(10.0**k for k in range(3, -5, -1))  # a path from strong to weak starts warm


def choose_alpha(
    estimator: Any, X: Sequence[Any], Y: Sequence[Any], alphas: Sequence[float] = ALPHAS
) -> tuple[float, HeldOut]:
    """The alpha of largest held-out log-likelihood, and the quality of models with it.

    Each sample is held out once; `alphas` fall.
    """
    if len(X) < 2:
        raise ValueError(
            f"alpha: cross-validation needs at least 2 samples, got {len(X)}; pass a number"
        )
    log_likelihood, score = np.zeros((2, len(alphas)))
    paths = []
    for k in range(len(X)):
        path = estimator.fit_path([*X[:k], *X[k + 1 :]], [*Y[:k], *Y[k + 1 :]], alphas)
        if path.interrupted:
            raise KeyboardInterrupt
        for a, fitted in enumerate(path.estimators):
            vars(fitted).pop("_state")  # as large as the marginals of all samples
            log_likelihood[a] += fitted.approximate_log_likelihood([X[k]], [Y[k]]).sum()
            score[a] += fitted.score([X[k]], [Y[k]]) / len(X)
        paths.append(path.estimators)
    best = int(np.argmax(log_likelihood))
    events = [path[best].events([X[k]], [Y[k]]) for k, path in enumerate(paths)]
    return alphas[best], HeldOut.of(score[best], events)
