"""Structure search by l1 neighbourhood selection (Ravikumar, Wainwright and Lafferty 2010).

A logistic regression of every variable on all others, with an l1 penalty, selects its neighbours.
Two variables are joined by an edge if each is selected as a neighbour of the other.
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

FALSE_POSITIVES = 0.05  # expected share of variables with a neighbour if all are independent
INTERCEPT_SCALING = 100.0  # liblinear penalises the intercept, divided by this

# scikit-learn 1.8 replaced penalty="l1" by l1_ratio=1.
_L1: dict[str, Any] = (
    {"penalty": "l1"}
    if inspect.signature(LogisticRegression).parameters["penalty"].default == "l2"
    else {"l1_ratio": 1.0}
)


def select_neighbourhoods(
    states: Any,
    weights: Floats,
    l1: float = 1.0,
    predictions: Floats | None = None,
    n_jobs: int = 1,
) -> Ints:
    """Edges (i, j), i < j: the pairs that the regressions of both variables select.

    Parameters
    ----------
    states : integer array of shape (n_frames, n_variables), 0 and 1
    weights : array of shape (n_frames,)
    l1 : the penalty in units of the one above
    predictions : array of shape (n_frames, n_variables), optional
        What is known of every variable without the others, such as log odds given features; a
        column of its regression that is hardly penalised.
    n_jobs : threads over variables
    """
    n_variables, total = states.shape[1], float(weights.sum())
    on = sparse.csr_array(states.astype(np.float64))
    both = (on.T @ (on * weights[:, None])).toarray()
    rates = np.diag(both) / total
    spread = np.sqrt(np.maximum(rates * (1.0 - rates), 0.0))
    varies = spread > 1e-7  # more than rounding
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
    columns = sparse.csc_array(on * scale)
    quantile = float(norm.isf(FALSE_POSITIVES / (2.0 * max(n_variables - 1, 1))))
    # The gradient without neighbours: where it is below the penalty, no neighbour is selected.
    slopes = np.abs(both - total * np.outer(rates, rates)) * scale
    found = np.zeros((n_variables, n_variables))

    def regress(i: int) -> None:
        check_time("the neighbours of all variables")
        others = np.flatnonzero(varies & (np.arange(n_variables) != i))
        penalty = l1 * quantile * np.sqrt(total) * spread[i]
        reached = predictions is not None or (slopes[i, others] > penalty).any()
        if not varies[i] or others.size == 0 or not reached:
            return
        design = columns[:, others]
        if predictions is not None:
            design = sparse.hstack([design, INTERCEPT_SCALING * predictions[:, i : i + 1]])
        regression = LogisticRegression(
            **_L1,
            C=1.0 / penalty,
            solver="liblinear",
            intercept_scaling=INTERCEPT_SCALING,
            tol=1e-4,
        )
        regression.fit(design.tocsr(), states[:, i], weights)
        found[i, others] = regression.coef_[0, : others.size]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # more neighbours than frames can tell
        with threaded_map(n_jobs, n_variables) as each:
            list(each(regress, range(n_variables)))
    return np.argwhere(np.triu((found != 0) & (found.T != 0))).astype(np.int64)
