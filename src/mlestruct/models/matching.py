"""`BipartiteMatchingCRF` and `MatchingCRF`: learn to match from past matchings.

A fit turns samples into blocks: a space of matchings, features of its pairs, the observed matching.
What a fitted model is asked is in `pair_predictions.py`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_same_length, check_samples, count_threads
from .._running import check_time, in_time, wait_for
from ..algorithms.matching.blossom import best_matching
from ..exceptions import InfeasibleError
from ..features.rows import Rows
from ..learning.problem import NOTHING, Block
from ..structures.contract import Structure, Vertex
from ..structures.graphs.simple import SimpleGraph
from ..structures.matchings.bipartite import BipartiteMatching, side_rho
from ..structures.matchings.local import LocalMatching
from ..structures.matchings.matching_polytope import MatchingPolytope
from ..structures.matchings.space import MatchingSpace, node_capacity
from .pair_predictions import PairPredictions, Prepared
from .pairs import PairSample, edge_values, naming, read_label, read_sample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RHO = 0.95  # the default: close to Bethe, and smooth
SECONDS = 1.2e-7  # that the set-up of one pair takes: .12 s for a million


class MatchingEstimator(PairPredictions):
    """Conditional random fields with a score for every pair: from samples to blocks."""

    rho: Any
    perfect: Any
    capacity: Any = 1
    fit_intercept: bool
    standardize: bool

    _group: bool

    @abstractmethod
    def _space(self, sample: PairSample, rho: Any, capacity: Any) -> MatchingSpace:
        """The matchings of a sample."""

    def _warn_of_rho(self) -> None:
        """Warn that capacities set rho, unless it was left at its default."""
        if not (np.isscalar(self.rho) and self.rho == RHO):
            warnings.warn(
                f"rho={self.rho!r} has no effect with capacities other than 1: rho is 0 at nodes "
                "of capacity above 1 and 1/2 at the others",
                UserWarning,
                stacklevel=2,
            )

    # ------------------------------------------------------------------ samples
    def _read(self, X: Any) -> list[PairSample]:
        """Validated samples; an object that occurs several times is read once."""
        read: dict[int, PairSample] = {}
        for m, x in enumerate(X):
            if id(x) not in read:
                check_time("reading X")
                read[id(x)] = read_sample(x, f"X[{m}]", self._group)
        return [read[id(x)] for x in X]

    def _all_prepared(self, X: Sequence[Any], rho: Any) -> list[Prepared]:
        """All samples with blocks; equal spaces, features and offsets are shared."""
        samples = self._read(X)
        spaces: dict[Hashable, MatchingSpace] = {}
        blocks: dict[int, Block] = {}
        out = []
        for m, sample in enumerate(samples):
            graph = sample.graph
            key = (sample.shape if graph.is_complete else id(graph), id(sample.capacity))
            if key not in spaces:
                spaces[key] = self._space_in_time(sample, rho, f"X[{m}]")
                # Threads that samples leave idle share out the components of a sample.
                spaces[key].n_jobs = max(1, count_threads(self.n_jobs) // len(samples))
            if id(sample) not in blocks:
                blocks[id(sample)] = self._block(sample, spaces[key])
            out.append(Prepared(sample, spaces[key], blocks[id(sample)]))
        return out

    def _space_in_time(self, sample: PairSample, rho: Any, where: str) -> MatchingSpace:
        """`_space` under the time limit; errors name the sample."""
        check_time("set-up of matchings")
        capacity = self.capacity if sample.capacity is None else sample.capacity
        arguments, seconds = (sample, rho, capacity), SECONDS * sample.graph.n_edges
        with naming(where):
            found: MatchingSpace = wait_for(
                "set-up of matchings", self._space, *arguments, seconds=seconds
            )
        return found

    def _block(self, sample: PairSample, space: MatchingSpace) -> Block:
        """The block without a label: `_observed` adds it."""
        features, offset = sample.features, None
        if self._intercept and isinstance(features, Rows):
            features = features.with_constant()
        if sample.offset is not None:
            offset = np.zeros(space.n_coordinates)
            offset[: space.n_scored] = sample.offset
        return Block(space, features, NOTHING, 1.0, offset)

    # ------------------------------------------------------------------ learning
    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, classes: Any
    ) -> list[Block]:
        self._intercept = False  # of a former fit: `_block` would add its constant
        blocks = []
        for m, prepared in enumerate(self._all_prepared(X, self.rho)):
            check_time("reading Y")
            block = self._observed(prepared, Y[m], f"Y[{m}]")
            blocks.append(replace(block, weight=float(weights[m]), name=f"X[{m}]"))
        if all(block.structure.is_fixed for block in blocks):
            raise ValueError(
                "X: every sample allows only one matching (too few nodes, or all pairs fixed by "
                "masks), so there is nothing to learn"
            )
        in_part = next((block for block in blocks if block.partial is not None), None)
        if in_part is not None and not self.perfect:
            warnings.warn(
                f"{in_part.name.replace('X', 'Y')}: NaN is a partner that is not known, and is "
                "summed over; single nodes are -1",
                UserWarning,
                stacklevel=2,
            )
        # All matchings that fill a side have the same number of pairs: a constant adds the same
        # score to each of them.
        constant = bool(self.fit_intercept) and not self.perfect
        return self._in_solver_units(blocks, constant, bool(self.standardize))

    @property
    def intercept_(self) -> float:
        """The score of every pair beside its features, the last of `coef_`; 0 without it."""
        check_is_fitted(self, "coef_")
        return float(self.coef_[-1]) if self._intercept else 0.0

    def _own_names(self, names: Sequence[str] | None) -> list[str]:
        return super()._own_names(names) + ["intercept"] * self._intercept

    # ------------------------------------------------------------------ labels
    def _values(self, prepared: Prepared, given: Any, where: str, known: bool = False) -> Floats:
        """What a label, or what is `known` of one, says about every edge: 1, 0 or NaN."""
        label = read_label(given, prepared.sample, where, known)
        may_leave_out = not known or (prepared.space.is_simple and not self.perfect)
        return edge_values(label, prepared.sample, where, may_leave_out)

    def _known(self, prepared: list[Prepared], known: Any) -> list[Floats | None]:
        """What is known of every edge of each sample; None if nothing is."""
        if known is None:
            return [None] * len(prepared)
        return [
            None if given is None else self._values(prepared[m], given, f"known[{m}]", True)
            for m, given in enumerate(check_same_length(prepared, known, "known"))
        ]

    def _observed(
        self, prepared: Prepared, label: Any, where: str, known: Floats | None = None
    ) -> Block:
        """The block with a matching observed whole or in part, given the `known` edges."""
        sample, space, block = prepared
        values = self._values(prepared, label, where)
        if known is not None:
            differ = ~np.isnan(values) & ~np.isnan(known) & (values != known)
            if differ.any():
                count = np.count_nonzero(differ)
                raise ValueError(f"{where}: differs from what is known in {count} pairs")
            values = np.where(np.isnan(known), values, known)
            block = replace(block, structure=_agreeing(space, known, where))
        if not np.isnan(values).any():
            n_rows = None if sample.is_group else sample.shape[0]
            with naming(where):
                vertex = space.vertex_of(np.flatnonzero(values), n_rows)
            return replace(block, observed=vertex)
        part = _agreeing(space, values, where)
        return replace(block, observed=Vertex.of(part.interior()), partial=part)

    def _queries(self, X: Any, known: Any = None) -> list[Prepared]:
        check_is_fitted(self, "coef_")
        prepared = self._all_prepared(check_samples(X), self.rho)
        self._check_features([one.block for one in prepared])
        for m, values in enumerate(self._known(prepared, known)):
            if values is not None:
                structure = _agreeing(prepared[m].space, values, f"known[{m}]")
                block = replace(prepared[m].block, structure=structure)
                prepared[m] = prepared[m]._replace(block=block)
        return prepared

    def _labelled(self, X: Any, Y: Any, known: Any) -> list[Block]:
        labels = check_same_length(X, Y)
        queries = self._queries(X)
        given = self._known(queries, known)
        listed = in_time(enumerate(queries), "reading Y")
        return [self._observed(one, labels[m], f"Y[{m}]", given[m]) for m, one in listed]


def _agreeing(space: MatchingSpace, values: Floats, where: str) -> Structure:
    """The matchings that agree with the values of pairs, NaN if they are not known."""
    with naming(where):
        return space.given(values)


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
    objective_ : float, proven value of the (regularised, approximate) log-likelihood at `coef_`
    objective_bound_ : float, proven upper bound of the best value
    duality_gap_ : float, their difference
    certified_ : bool, whether both are proven ("What is proven" in the documentation)
    converged_ : bool, whether the gap is at most tol * max(1, |objective_|)
    history_ : History with seconds, oracle_calls, objective, objective_bound, gap, fw_gap;
        `.to_frame()`
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
        bound of the partition function. On general graphs the Bethe value is not a bound.
        Capacities above 1 set rho: 0 at nodes of capacity above 1, 1/2 at the others.
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
    coef_, objective_, objective_bound_, duality_gap_, certified_, converged_, history_, n_iter_,
    n_oracle_calls_, solver_, n_features_in_, feature_names_in_ : as in `BipartiteMatchingCRF`

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
            raise ValueError(f"`polytope` must be 'local' or 'exact'; got {self.polytope!r}.")
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
