"""`BipartiteMatchingCRF`: learn to match the items of two sides from past matchings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..learning.result import Progress
from .matching_base import MatchingProbabilities
from .matching_blocks import BipartiteBlocks


class BipartiteMatchingCRF(BipartiteBlocks, MatchingProbabilities):
    """Conditional random field over matchings of two sides.

    p(y | x) is proportional to exp(sum over pairs (i, j) of y of <theta, features of (i, j)>).
    theta maximises the approximate log-likelihood of the observed matchings minus
    alpha/2 |theta|^2, with a duality-gap certificate.

    Parameters
    ----------
    alpha : float
        Regularisation, on the summed log-likelihood (the paper's lambda).
    rho : float, array of shape (n_rows + n_cols,), or pair (of rows, of columns)
        Reweighting of the entropy, 0.5 to 1: 1 is the Bethe approximation, 0.5 gives an upper
        bound of the partition function. The default is close to Bethe but keeps the likelihood
        smooth, which Bethe's is not under weak regularisation.
    solver : "auto", "newton", "lbfgs", "bcfw", "fw", or a solver object
        "fw" and "bcfw" need only MAP decoding; `learning.BlockFrankWolfe.paper()` is the
        algorithm as printed in the paper.
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter : int
        Iterations (for "bcfw": passes over the samples).
    max_time : float, optional
        Seconds after which to stop, set-up included.
    perfect : bool, "rows" or "columns"
        True: every node of the smaller side is matched. "rows", "columns": every node of that
        side is, whatever the sizes. False: any node may stay single. Staying
        single scores 0; `fit_intercept` learns what being matched scores on top.
    capacity : int, array of shape (n_rows + n_cols,), or pair (of rows, of columns)
        Number of partners of each node. Above 1 (papers with three reviewers, reviewers with up
        to six papers: capacity=(3, 6)) labels are pairs; with perfect=True the side with less
        capacity in total is filled and the other one uses at most its own (say perfect="rows" if
        it must be the rows), and rho is set: 0 at
        nodes of capacity above 1, 1/2 at the others.
    fit_intercept : bool
        Where nodes may stay single (perfect=False), learn a constant of every pair, the last of
        `coef_`, unless a feature is constant already. Staying single scores 0.
    standardize : bool
        Penalise the weights of standardised features; `coef_` is in the original units.
    feature_names : sequence of str, optional
    l1_ratio : float
        Share of the penalty on the absolute values of the weights, 0 to less than 1; then some
        weights are 0. The penalty is alpha * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2).
    warm_start : bool
        Start from the previous fit of this object.
    callback : callable, optional
        Called with a `Progress` at every certificate; returning True stops.
    n_jobs : int, optional
        Threads over samples. Speeds up large samples; small ones are limited by Python.
    random_state : int, RandomState, Generator or None
    verbose : int
        1 shows a progress bar with the gap.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    objective_ : float, an upper bound of the best attainable value of the (regularised,
        approximate) log-likelihood
    duality_gap_ : float, absolute: coef_ is within it of that best value
    converged_ : bool
    history_ : History with seconds, oracle_calls, dual, primal, gap, fw_gap; `.to_frame()`
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    X is a sequence of samples, each an array of shape (n_rows, n_cols, n_features), a feature map
    (`TableFeatures`, `LazyFeatures`, ...) or a `PairInput` with a mask or offsets. Sizes may
    differ between samples. Y holds for each sample the partner column of every row, -1 for rows
    that stay single; with capacities above 1 the pairs (row, column), shape (n_pairs, 2), or a
    boolean or SciPy sparse matrix of shape (n_rows, n_cols). Samples that share one X object are
    merged into one weighted block.

    Features should be of similar scale, since one alpha penalises all weights, or use
    `standardize`. alpha acts on the summed likelihood: with ten times the samples, ten times the
    alpha has the same effect.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import BipartiteMatchingCRF
    >>> rng = np.random.default_rng(0)
    >>> left, noise = rng.normal(size=(20, 6, 2)), rng.normal(size=(20, 6, 2))
    >>> right = left + 0.3 * noise
    >>> X = [-(a[:, None] - b[None]) ** 2 for a, b in zip(left, right)]
    >>> Y = [np.arange(6)] * 20
    >>> model = BipartiteMatchingCRF(alpha=1.0).fit(X, Y)
    >>> bool(model.converged_), bool((model.coef_ > 0).all())
    (True, True)
    >>> tau = model.predict_marginals(X)[0]
    >>> bool(np.allclose(tau.sum(axis=1), 1.0))
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        rho: Any = 0.95,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        perfect: bool | str = True,
        capacity: Any = 1,
        fit_intercept: bool = True,
        standardize: bool = False,
        feature_names: Sequence[str] | None = None,
        l1_ratio: float = 0.0,
        warm_start: bool = False,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.rho = rho
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.perfect = perfect
        self.capacity = capacity
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.feature_names = feature_names
        self.l1_ratio = l1_ratio
        self.warm_start = warm_start
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
