"""The penalty of a linkage, chosen by the cross-validated likelihood of the known links."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .held_out import HeldOut

ALPHAS = tuple(10.0**k for k in range(3, -5, -1))  # a path from strong to weak starts warm
GAIN = 0.1  # of the log-likelihood of all samples, for which a grid is extended
RANGE = 1e-8, 1e6


def choose_alpha(
    estimator: Any, X: Sequence[Any], Y: Sequence[Any], alphas: Sequence[float] = ALPHAS
) -> tuple[float, HeldOut]:
    """The alpha of largest held-out log-likelihood, and the quality of models with it.

    Each sample is held out once; `alphas` fall. If the best is at an end, the grid is extended.
    """
    if len(X) < 2:
        raise ValueError(
            f"alpha: cross-validation needs at least 2 samples, got {len(X)}; pass a number"
        )
    fits: dict[float, list[Any]] = {}
    found: dict[float, float] = {}
    best = None
    while len(alphas):
        fits |= _left_out(estimator, X, Y, alphas)
        for alpha in alphas:
            held_out = zip(fits[alpha], X, Y, strict=True)
            found[alpha] = sum(m.approximate_log_likelihood([x], [y]).sum() for m, x, y in held_out)
        top = max(found, key=lambda alpha: found[alpha])
        if best is not None and found[top] - found[best] < GAIN:
            break
        best, alphas = top, _beyond(top, found)
    assert best is not None
    samples = list(zip(fits[best], X, Y, strict=True))
    score = float(np.mean([model.score([x], [y]) for model, x, y in samples]))
    return best, HeldOut.of(score, [model.events([x], [y]) for model, x, y in samples])


def _beyond(best: float, tried: Iterable[float]) -> tuple[float, ...]:
    """Two more values if the best is the smallest or the largest one."""
    low, high = min(tried), max(tried)
    if best == low > RANGE[0]:
        return best / 10.0, best / 100.0
    return (best * 100.0, best * 10.0) if best == high < RANGE[1] else ()


def _left_out(
    estimator: Any, X: Sequence[Any], Y: Sequence[Any], alphas: Sequence[float]
) -> dict[float, list[Any]]:
    """Models with each alpha, fitted without each sample."""
    fits: dict[float, list[Any]] = {alpha: [] for alpha in alphas}
    for k in range(len(X)):
        path = estimator.fit_path([*X[:k], *X[k + 1 :]], [*Y[:k], *Y[k + 1 :]], alphas)
        if path.interrupted:
            raise KeyboardInterrupt
        for alpha, fitted in zip(alphas, path.estimators, strict=True):
            vars(fitted).pop("_state")  # as large as the marginals of all samples
            fits[alpha].append(fitted)
    return fits
