"""Choosing alpha by cross-validated likelihood, along regularisation paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold

from ..metrics import HeldOut

ALPHAS = tuple(10.0**k for k in range(-2, 4))


class AlphaChoice(NamedTuple):
    """The alpha of largest held-out log-likelihood, and what models with it are worth.

    alpha : the best of the given ones
    log_likelihood : held out, per sample
    score : held out, the estimator's own (1 - Hamming loss)
    held_out : calibration and ROC curve of the held-out probabilities
    """

    alpha: float
    log_likelihood: float
    score: float
    held_out: HeldOut


def choose_alpha(
    estimator: Any,
    X: Sequence[Any],
    Y: Sequence[Any],
    alphas: Sequence[float] = ALPHAS,
    n_folds: int = 3,
    random_state: Any = 0,
) -> AlphaChoice:
    """Cross-validate `alphas` on samples X with outputs Y; one warm-started path per fold."""
    if len(X) < 2:
        raise ValueError(
            f"alpha: to choose it by cross-validation needs at least 2 samples, got {len(X)}; give "
            "a number"
        )
    if len(X) != len(Y):
        raise ValueError(f"Y: expected {len(X)} outputs, one per sample, got {len(Y)}")
    if isinstance(random_state, np.random.Generator):  # which scikit-learn does not take
        random_state = int(random_state.integers(2**31))
    folds = KFold(min(n_folds, len(X)), shuffle=True, random_state=random_state)
    order = sorted(alphas, reverse=True)
    found = np.zeros((len(order), 2))
    paths = []
    for train, test in folds.split(np.arange(len(X))):
        seen, unseen = ([[side[m] for m in part] for side in (X, Y)] for part in (train, test))
        path = estimator.fit_path(*seen, order)
        if path.interrupted:
            raise KeyboardInterrupt
        for k, fitted in enumerate(path.estimators):
            vars(fitted).pop("_state")  # as large as the marginals of all samples
            found[k, 0] += fitted.approximate_log_likelihood(*unseen).sum()
            found[k, 1] += len(test) * fitted.score(*unseen)
        paths.append((path.estimators, unseen))
    best = int(np.argmax(found[:, 0]))
    log_likelihood, score = (found[best] / len(X)).tolist()
    events = [one for path, unseen in paths for one in path[best].held_out_events(*unseen)]
    return AlphaChoice(order[best], log_likelihood, score, HeldOut.of(score, events))
