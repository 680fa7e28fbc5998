"""`MatchingCRF`: learn pairs within one group from observed pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..learning.result import Progress
from .matching_base import MatchingProbabilities
from .matching_blocks import GroupBlocks


class MatchingCRF(GroupBlocks, MatchingProbabilities):
    """Conditional random field over matchings within one group: roommates, tournaments, swaps.

    p(y | x) is proportional to exp(sum over pairs {i, j} of y of <theta, features of {i, j}>).
    theta maximises the approximate log-likelihood of the observed matchings minus
    alpha/2 |theta|^2, with a duality-gap certificate.

    Parameters
    ----------
    alpha : float
        Regularisation, on the summed log-likelihood (the paper's lambda).
    rho : float, or array of shape (n_nodes,)
        Reweighting of the entropy, 0.5 to 1: 1 is the Bethe approximation, 0.5 gives an upper
        bound of the partition function. On general graphs the Bethe value is no bound.
    polytope : "local" or "exact"
        "local" asks only that every node's probabilities sum to one: fast, with a marginal oracle.
        "exact" also rules out what only fractional matchings can do (three people all pairing up
        with each other), by a blossom decoder. In large groups with mild preferences the two have
        the same optimum, and fits take the same time. On sparse graphs of more than 250 nodes
        "exact" has no quick marginals: "auto" is then Frank-Wolfe, and "local" far ahead.
    perfect : bool
        True: every node is matched; the number of nodes is even. False: any node may stay single,
        which scores 0; `fit_intercept` learns what being matched scores on top.
    capacity : int, or array of shape (n_nodes,)
        Number of partners of each node (at most, if not perfect). Above 1 labels are pairs, the
        polytope is local, and rho is set: 0 at nodes of capacity above 1, 1/2 at the others.
    solver : "auto", "newton", "lbfgs", "bcfw", "fw", or a solver object
        "fw" and "bcfw" need only MAP decoding; `learning.BlockFrankWolfe.paper()` is the
        algorithm as printed in the paper.
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter : int
        Iterations (for "bcfw": passes over the samples).
    max_time : float, optional
        Seconds after which to stop, set-up included.
    fit_intercept : bool
        Where nodes may stay single (perfect=False), learn a constant of every pair, the last of
        `coef_`, unless a feature is constant already. Staying single scores 0.
    standardize : bool
        Penalise the weights of standardised features; `coef_` is in the original units.
    feature_names : sequence of str, optional
        Default: the names that the samples' feature map has, if any.
    l1_ratio : float
        Share of the penalty on the absolute values of the weights, 0 to less than 1; then some
        weights are 0. The penalty is alpha * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2).
    warm_start : bool
        Start from the previous fit of this object.
    callback : callable, optional
        Called with a `Progress` at every certificate; returning True stops.
    n_jobs : int, optional
        Threads over samples.
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
    X is a sequence of samples, each a symmetric array of shape (n, n, n_features) (the diagonal is
    ignored, a pair whose features are all -inf is forbidden), an `EdgeList` of allowed pairs, a
    feature map (`QuestionnairePairs`, ...), or a `PairInput` with a mask or offsets. Y holds for
    each sample the partner of every node, -1 for single ones; with capacities above 1 the pairs,
    shape (n_pairs, 2), or a symmetric boolean or SciPy sparse matrix.

    alpha acts on the summed likelihood: with ten times the samples, ten times the alpha has the
    same effect.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import MatchingCRF
    >>> rng = np.random.default_rng(0)
    >>> tastes = rng.normal(size=(10, 8, 2))
    >>> X = [-np.abs(t[:, None] - t[None]) for t in tastes]
    >>> near = MatchingCRF().fit(X, [np.array([1, 0, 3, 2, 5, 4, 7, 6])] * 10)  # chance pairs
    >>> Y = [np.array(partner) for partner in near.predict([5 * x for x in X])]
    >>> model = MatchingCRF(alpha=0.1).fit(X, Y)
    >>> bool(model.converged_)
    True
    >>> tau = model.predict_marginals(X)[0]
    >>> bool(np.allclose(tau, tau.T) and np.allclose(tau.sum(axis=1), 1.0))
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        rho: Any = 0.95,
        polytope: str = "local",
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        perfect: bool = True,
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
        self.polytope = polytope
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
