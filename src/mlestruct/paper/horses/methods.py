"""The methods that are compared, each on one thread; a method gives one curve or more.

auto       the default solver, until its certificate
unary      no edges: logistic regression on all training pixels with the same node features and
           the same penalty (alpha/4 |w|^2 on the difference w of the two states' weights)
bcfw       the paper's algorithm, fixed steps, and from the same run
bcfw-wavg  the weighted average of its iterates
trw10/40   L-BFGS on a likelihood truncated after 10 or 40 sweeps of message passing
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ...models import GridCRF
from .traces import Trace, TracedBlockFrankWolfe
from .unary import unary_weights

METHODS = ("auto", "unary", "bcfw", "trw10", "trw40")
CURVES = ("auto", "unary", "bcfw", "bcfw-wavg", "trw10", "trw40")
TRUNCATED = "trw"

Masks = Sequence[NDArray[np.int64]]


@dataclass(frozen=True)
class Run:
    """The curves of a method, and whether it ended by its own criterion."""

    traces: dict[str, Trace]
    converged: bool


def run(method: str, X: Sequence[Any], Y: Masks, alpha: float, tol: float, budget: float) -> Run:
    """Fit by one of `METHODS`, for at most about `budget` CPU seconds."""
    with warnings.catch_warnings(), threadpool_limits(limits=1, user_api="blas"):
        warnings.simplefilter("ignore", ConvergenceWarning)  # `Run.converged` tells
        if method == "auto":
            return _auto(X, Y, alpha, tol, budget)
        if method == "unary":
            return _unary(X, Y, alpha)
        if method == "bcfw":
            return _bcfw(X, Y, alpha, tol, budget)
        return _truncated(X, Y, alpha, budget, int(method.removeprefix(TRUNCATED)))


def _auto(X: Sequence[Any], Y: Masks, alpha: float, tol: float, budget: float) -> Run:
    trace = Trace(budget)
    model = GridCRF(alpha=alpha, tol=tol, callback=trace).fit(X, Y)
    return Run({"auto": trace.ending_with(model.coef_)}, model.converged_)


def _unary(X: Sequence[Any], Y: Masks, alpha: float) -> Run:
    trace = Trace()
    trace.keep(unary_weights(X, Y, alpha), 1)
    return Run({"unary": trace}, True)


def _bcfw(X: Sequence[Any], Y: Masks, alpha: float, tol: float, budget: float) -> Run:
    iterates = Trace(budget)
    solver = TracedBlockFrankWolfe(step="fixed", iterates=iterates)
    model = GridCRF(
        alpha=alpha, solver=solver, tol=tol, max_iter=10**6, callback=iterates, random_state=0
    ).fit(X, Y)
    average = solver.average[0].value if solver.average else model.coef_
    traces = {"bcfw": iterates, "bcfw-wavg": solver.averages.ending_with(average)}
    return Run(traces, model.converged_)


def _truncated(X: Sequence[Any], Y: Masks, alpha: float, budget: float, n_sweeps: int) -> Run:
    from ...baselines import TruncatedTRW

    trace = Trace(budget)
    model = TruncatedTRW(alpha=alpha, n_sweeps=n_sweeps, callback=trace).fit(X, Y)
    name = f"{TRUNCATED}{n_sweeps}"
    return Run({name: trace.ending_with(model.coef_)}, model.converged_)
