"""`BipartiteMatchingCRF` and `MatchingCRF`: learn to match from past matchings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.matching.blossom import best_matching
from ..exceptions import InfeasibleError
from ..structures.graphs.simple import SimpleGraph
from ..structures.matchings.bipartite import BipartiteMatching, side_rho
from ..structures.matchings.local import LocalMatching
from ..structures.matchings.matching_polytope import MatchingPolytope
from ..structures.matchings.space import MatchingSpace, node_capacity
from .matching_base import RHO, MatchingEstimator
from .pairs import PairSample

Ints = NDArray[np.int64]


class BipartiteMatchingCRF(MatchingEstimator):
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
        smooth; Bethe's is not under weak regularisation. Capacities above 1 set rho: 0 at nodes
        of capacity above 1, 1/2 at the others.
    perfect : bool, "rows" or "columns"
        True: every node of the smaller side is matched. "rows", "columns": every node of that
        side is, whatever the sizes. False: any node may stay single. Staying
        single scores 0; `fit_intercept` learns the score of being matched on top.
    capacity : int, array of shape (n_rows + n_cols,), or pair (of rows, of columns)
        Number of partners of each node. Above 1 (papers with three reviewers, reviewers with up
        to six papers: capacity=(3, 6)) labels are pairs. With perfect=True the side with less
        capacity in total is filled, and the other one uses at most its own; pass perfect="rows" if
        it must be the rows.
    fit_intercept : bool
        If nodes may stay single (perfect=False), learn a constant of every pair, the last of
        `coef_`, unless a feature is constant already.
    standardize : bool
        Penalise the weights of standardised features; `coef_` is in the original units.
    l1_ratio : float
        Share of the penalty on the absolute values of the weights, 0 to less than 1; then some
        weights are 0. The penalty is alpha * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2).
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter : int
        Maximum number of iterations (of `BlockFrankWolfe`: passes over the samples).
    solver : None or a solver
        None is `LBFGS()`. `BlockFrankWolfe()` and `FrankWolfe()` need only MAP decoding;
        `BlockFrankWolfe.paper()` is the algorithm as printed in the paper. A solver takes time
        limits and callbacks: `solver=LBFGS(max_time=60)`.
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
    X is a sequence of samples, each an array of shape (n_rows, n_cols, n_features) or a
    `PairInput` with a mask, offsets, or features of its own kind. Sizes may differ between samples.
    Y holds for each sample the partner column of every row, -1 for rows that stay single; or the
    pairs (row, column), shape (n_pairs, 2), or a boolean or SciPy sparse matrix of shape
    (n_rows, n_cols). Samples that share one X object are merged into one weighted block.

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

    _group = False

    def __init__(
        self,
        alpha: float = 1.0,
        rho: Any = RHO,
        perfect: bool | str = True,
        capacity: Any = 1,
        fit_intercept: bool = True,
        standardize: bool = False,
        l1_ratio: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        solver: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.rho = rho
        self.perfect = perfect
        self.capacity = capacity
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _space(self, sample: PairSample, rho: Any, capacity: Any) -> MatchingSpace:
        if not (isinstance(self.perfect, bool | np.bool_) or self.perfect in ("rows", "columns")):
            raise TypeError(
                f"perfect must be True, False, 'rows' or 'columns', got {self.perfect!r}"
            )
        rows, cols = _side_capacities(capacity, *sample.shape)
        for side, need, have in (("rows", rows, cols), ("columns", cols, rows)):
            if self.perfect == side and need.sum() > have.sum():
                raise InfeasibleError(
                    f"perfect={side!r}: the {side} need {need.sum()} partners in all, the other "
                    f"side has a capacity of {have.sum()}",
                    list(range(need.shape[0])),
                    side,
                )
        if (rows == 1).all() and (cols == 1).all():
            return BipartiteMatching(sample.graph, rho, bool(self.perfect))
        side_rho(rho, *sample.shape)  # has no effect beyond capacity 1, but must be valid
        self._warn_of_rho()
        # By default the side with less capacity is filled, as in a plain matching.
        smaller = bool(self.perfect) and not isinstance(self.perfect, str)
        full_rows = self.perfect == "rows" or (smaller and rows.sum() <= cols.sum())
        full_cols = self.perfect == "columns" or (smaller and cols.sum() <= rows.sum())
        full = np.repeat([full_rows, full_cols], sample.shape)
        graph = SimpleGraph.from_bipartite(sample.graph)
        try:
            return LocalMatching(graph, 0.5, full, np.concatenate([rows, cols]))
        except InfeasibleError as error:
            raise InfeasibleError(
                f"{error} (nodes from {sample.shape[0]} on are columns)", error.rows, error.side
            ) from None


class MatchingCRF(MatchingEstimator):
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
        bound of the partition function. On general graphs the Bethe value is no bound. Capacities
        above 1 set rho: 0 at nodes of capacity above 1, 1/2 at the others.
    polytope : "local" or "exact"
        "local" asks only that every node's probabilities sum to one: fast, with a marginal oracle.
        "exact" also rules out fractional matchings (three people all pairing up with each other),
        by a blossom decoder. In large groups with mild preferences the two have the same optimum,
        and fits take the same time. On sparse graphs of more than 250 nodes "exact" has no quick
        marginals: the default solver then only decodes, and "local" is far ahead.
    perfect : bool
        True: every node is matched; the number of nodes is even. False: any node may stay single,
        which scores 0; `fit_intercept` learns the score of being matched on top.
    fit_intercept, standardize, l1_ratio, tol, max_iter, solver, n_jobs, random_state, verbose
        As in `BipartiteMatchingCRF`.

    Attributes
    ----------
    coef_, objective_, duality_gap_, converged_, history_, n_iter_, n_oracle_calls_, solver_,
    n_features_in_, feature_names_in_ : as in `BipartiteMatchingCRF`

    Notes
    -----
    X is a sequence of samples, each a symmetric array of shape (n, n, n_features) (the diagonal is
    ignored, a pair whose features are all -inf is forbidden), an `EdgeList` of allowed pairs, or a
    `PairInput` with a mask, offsets, or features of its own kind. Y holds for each sample the
    partner of every node, -1 for single ones; or the pairs, shape (n_pairs, 2), or a symmetric
    boolean or SciPy sparse matrix.

    Nodes with more than one partner are a matter of the sample: `PairInput(x, capacity=2)`.

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

    _group = True

    def __init__(
        self,
        alpha: float = 1.0,
        rho: Any = RHO,
        polytope: str = "local",
        perfect: bool = True,
        fit_intercept: bool = True,
        standardize: bool = False,
        l1_ratio: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        solver: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.rho = rho
        self.polytope = polytope
        self.perfect = perfect
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _space(self, sample: PairSample, rho: Any, capacity: Any) -> MatchingSpace:
        if not isinstance(self.perfect, bool | np.bool_):
            raise TypeError(f"perfect must be True or False, got {self.perfect!r}")
        if self.polytope not in ("local", "exact"):
            raise ValueError(f"polytope: expected 'local' or 'exact', got {self.polytope!r}")
        graph = sample.graph
        capacities = node_capacity(capacity, graph.n_nodes)
        plain = bool((capacities == 1).all())
        if self.polytope == "exact" and not plain:
            raise ValueError("polytope='exact' is for capacity 1; b-matchings need 'local'")
        if self.perfect and capacities.sum() % 2:
            what = f"{graph.n_nodes} nodes" if plain else f"capacities of {capacities.sum()} in all"
            raise InfeasibleError(
                f"{what}: an odd number cannot be matched perfectly; leave a node out, or allow "
                "single nodes by perfect=False",
                [],
                "nodes",
            )
        if self.polytope == "exact":
            return MatchingPolytope(graph, rho, bool(self.perfect))
        if self.perfect and plain and not graph.is_complete:
            best_matching(graph.n_nodes, graph.ptr, graph.col, np.zeros(graph.n_edges))  # or raises
        if not plain:
            self._warn_of_rho()
        return LocalMatching(graph, rho, self.perfect, capacities)


def _side_capacities(capacity: Any, n_rows: int, n_cols: int) -> tuple[Ints, Ints]:
    """Capacities of rows and columns from a number, one array, or a pair of either."""
    if isinstance(capacity, tuple):
        if len(capacity) != 2:
            raise ValueError(
                f"capacity: a tuple must hold (of rows, of columns), got {len(capacity)} parts"
            )
        return node_capacity(capacity[0], n_rows), node_capacity(capacity[1], n_cols)
    both = node_capacity(capacity, n_rows + n_cols)
    return both[:n_rows], both[n_rows:]
