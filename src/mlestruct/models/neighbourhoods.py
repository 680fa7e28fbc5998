"""Structure search by l1 neighbourhood selection (Ravikumar, Wainwright and Lafferty 2010).

A logistic regression of every variable on all others, with an l1 penalty, selects its neighbours.
Columns are scaled to unit variance. The penalty of variable i is

    l1 * z * sqrt(n p_i (1 - p_i)),    z = normal quantile of 1 - FALSE_POSITIVES / (2 (n_vars - 1))

with p_i its rate: if all variables are independent, l1 = 1 leaves a variable without neighbours
with a probability of about 1 - FALSE_POSITIVES.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from .._deadline import check_time
from .._threads import threaded_map

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FALSE_POSITIVES = 0.05  # expected share of variables with a neighbour if all are independent
INTERCEPT_SCALING = 100.0  # liblinear penalises the intercept, divided by this
RULES = ("both", "either")

# scikit-learn 1.8 replaced penalty="l1" by l1_ratio=1.
_L1: dict[str, Any] = (
    {"penalty": "l1"}
    if inspect.signature(LogisticRegression).parameters["penalty"].default == "l2"
    else {"l1_ratio": 1.0}
)


class Neighbourhoods:
    """Coefficients of all regressions, and the graphs that follow from them.

    Attributes
    ----------
    coefficients : ndarray of shape (n_variables, n_variables)
        Row i holds those of the regression of variable i, on columns of unit variance.
    """

    def __init__(self, coefficients: Floats):
        self.coefficients = coefficients

    def to_list(self) -> list[list[float]]:
        """Row, column and value of every coefficient that is not 0, in plain types."""
        i, j = np.nonzero(self.coefficients)
        return np.column_stack([i, j, self.coefficients[i, j]]).tolist()

    @classmethod
    def from_list(cls, entries: list[list[float]], n_variables: int) -> Neighbourhoods:
        """Inverse of `to_list`."""
        coefficients = np.zeros((n_variables, n_variables))
        for i, j, value in entries:
            coefficients[int(i), int(j)] = value
        return cls(coefficients)

    def edges(self, rule: str = "both", density: float | None = None) -> Ints:
        """Edges (i, j), i < j: the strongest `density` of all pairs, or all that are selected.

        rule : "both" or "either"
            Whether both regressions of a pair must select it. Its strength is the smaller or the
            larger of the two coefficients.
        """
        size = np.abs(self.coefficients)
        combine = np.minimum if rule == "both" else np.maximum
        strength = combine(size, size.T)
        i, j = np.triu_indices(strength.shape[0], 1)
        found = strength[i, j]
        order = np.argsort(-found, kind="stable")
        limit = found.size if density is None else round(density * found.size)
        kept = np.sort(order[: min(limit, int((found > 0).sum()))])
        return np.stack([i[kept], j[kept]], axis=1).astype(np.int64)


def select_neighbourhoods(
    states: Any,
    weights: Floats,
    l1: float = 1.0,
    allowed: Bools | None = None,
    predictions: Floats | None = None,
    n_jobs: int = 1,
) -> Neighbourhoods:
    """Regress every variable on the others.

    Parameters
    ----------
    states : integer array of shape (n_frames, n_variables), 0 and 1
    weights : array of shape (n_frames,)
    l1 : the penalty in units of the one above
    allowed : boolean array of shape (n_variables, n_variables), optional
        Pairs that may be neighbours; symmetric.
    predictions : array of shape (n_frames, n_variables), optional
        What is known of every variable without the others, such as log odds given features; a
        column of its regression that is hardly penalised.
    n_jobs : threads over variables
    """
    n_variables, total = states.shape[1], float(weights.sum())
    rates = weights @ states / total
    spread = np.sqrt(rates * (1.0 - rates))
    varies = spread > 0.0
    columns = sparse.csc_array(states * np.where(varies, 1.0 / np.where(varies, spread, 1.0), 0.0))
    quantile = float(norm.isf(FALSE_POSITIVES / (2.0 * max(n_variables - 1, 1))))
    possible = np.outer(varies, varies) & ~np.eye(n_variables, dtype=bool)
    if allowed is not None:
        possible &= allowed
    # The gradient without neighbours: where it is below the penalty, no neighbour is selected.
    slopes = total * np.abs(_correlations(states, weights, rates)) * spread[:, None]
    found = np.zeros((n_variables, n_variables))

    def regress(i: int) -> None:
        check_time("the neighbours of all variables")
        others = np.flatnonzero(possible[i])
        penalty = l1 * quantile * np.sqrt(total) * spread[i]
        reached = predictions is not None or (slopes[i, others] > penalty).any()
        if others.size == 0 or not reached:
            return
        regression = LogisticRegression(
            **_L1,
            C=1.0 / penalty,
            solver="liblinear",
            intercept_scaling=INTERCEPT_SCALING,
            tol=1e-4,
        )
        design = columns[:, others]
        if predictions is not None:
            design = sparse.hstack([design, INTERCEPT_SCALING * predictions[:, i : i + 1]])
        regression.fit(design.tocsr(), states[:, i], weights)
        found[i, others] = regression.coef_[0, : others.size]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # more neighbours than frames can tell
        with threaded_map(n_jobs, n_variables) as each:
            list(each(regress, range(n_variables)))
    return Neighbourhoods(found)


def _correlations(states: Any, weights: Floats, rates: Floats) -> Floats:
    """Of all pairs of variables; 0 for those that do not vary."""
    on = sparse.csr_array(states.astype(np.float64))
    second = (on.T @ (on * weights[:, None])).toarray() / weights.sum()
    covariance = second - np.outer(rates, rates)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    size = np.outer(deviation, deviation)
    return np.divide(covariance, size, out=np.zeros_like(size), where=size > 0)
