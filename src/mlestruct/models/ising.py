"""`IsingMRF`: the joint distribution of many yes/no variables, on a graph that may be learned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from .._arrays import check_unmasked
from ..exceptions import TooLargeToCount
from ..features.scores import ScoreFeatures
from ..inference.sampling import sample
from ..labels import UNKNOWN
from ..learning.checkpoint import Checkpoint
from ..learning.problem import Block, DualProblem
from ..learning.result import Progress
from ..structures.contract import Vertex
from .binary import CONSTANT_SCALE, BinaryEstimator, all_pairs, check_agreement, read_graph
from .neighbourhoods import select_neighbourhoods
from .validation import check_positive, check_ratio, check_weights

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class IsingMRF(BinaryEstimator):
    """A pairwise model of binary variables, by maximum likelihood.

        p(x)  ~  exp( sum_i h_i x_i + sum over edges of J_ij x_i x_j ),    x in {0, 1}

    Parameters
    ----------
    graph : "l1", "full", "tree", "none", or array of shape (n_edges, 2)
        "l1": neighbours selected by l1-penalised logistic regressions, one per variable; a pair is
        an edge if both regressions select it. "full": all pairs. "tree": a Chow-Liu tree. "none":
        independent variables.
    alpha : float
        Regularisation alpha/2 (|J|^2 + |h/10|^2) on the summed log-likelihood. With `l1_ratio` it
        is alpha (l1_ratio (|J|_1 + |h/10|_1) + (1 - l1_ratio)/2 (|J|^2 + |h/10|^2)).
    l1 : float
        Penalty of the regressions. With 1, a variable that is independent of all others has no
        neighbour with probability 0.95. Smaller values select more edges.
    inference : "auto", "exact" or "reweighted"
        "exact": junction tree. "reweighted": tree-reweighted entropy, whose likelihood bounds the
        exact one from below. "auto": exact if tables have at most 2^20 entries.
    rho : "auto", "uniform", float or array of shape (n_edges,)
        Edge weights of the reweighted entropy, as in `GraphCRF`.
    solver : "auto", "lbfgs", "fw", or a solver object
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter, max_time, l1_ratio, warm_start, callback, n_jobs, random_state, verbose :
        as in `GraphCRF`

    Attributes
    ----------
    fields_ : ndarray of shape (n_variables,), h
    edges_ : ndarray of shape (n_edges, 2)
    couplings_ : ndarray of shape (n_edges,), J
    coef_ : h, then J
    is_exact_ : bool, whether the likelihood is exact
    objective_, duality_gap_, converged_, history_, n_iter_, n_oracle_calls_, solver_ :
        as in `GraphCRF`

    Notes
    -----
    After one pass over the rows, the cost of a step does not depend on their number. The cost of
    the regressions depends on the number of different rows.

    Without regularisation reweighted likelihood has a closed form: J_ij is rho_ij times the log
    odds ratio of the pair (Wainwright, Jaakkola and Willsky 2003). It does not account for paths
    through other variables; the graph does.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import IsingMRF
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((2000, 6)) < 0.2).astype(int)
    >>> X[:, 1] |= X[:, 0]
    >>> model = IsingMRF().fit(X)
    >>> model.edges_.tolist(), bool(model.couplings_[0] > 2)
    ([[0, 1]], True)
    >>> model.predict_marginals(known=[[-1, 0, -1, -1, -1, -1]])[0, 0] < 0.02
    np.True_
    """

    def __init__(
        self,
        graph: Any = "l1",
        alpha: float = 1.0,
        l1: float = 1.0,
        inference: str = "auto",
        rho: Any = "auto",
        solver: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        max_time: float | None = None,
        l1_ratio: float = 0.0,
        warm_start: bool = False,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.graph = graph
        self.alpha = alpha
        self.l1 = l1
        self.inference = inference
        self.rho = rho
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.l1_ratio = l1_ratio
        self.warm_start = warm_start
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> IsingMRF:
        """Learn from a matrix of 0 and 1.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_variables)
        y : None
            Not used; scikit-learn's pipelines and searches pass it.
        sample_weight : array of shape (n_samples,), optional
        checkpoint : folder or `Checkpoint`, optional
            Where the state of the fit is kept, to continue from.
        """
        super().fit(X, None, sample_weight, checkpoint=checkpoint)
        return self

    def build_problem(
        self, X: Any, Y: Any = None, sample_weight: Any = None, *, separate: bool = False
    ) -> DualProblem:
        """The learning problem of the rows of X; learns the graph."""
        alpha = check_positive(self.alpha, "alpha")
        check_positive(self.tol, "tol")
        check_positive(self.l1, "l1")
        table = read_binary(X, "X")
        self.n_features_in_ = n = table.shape[1]
        weights = check_weights(sample_weight, table.shape[0])
        states, counts = distinct(table, weights)
        graph = self._choose_graph(
            states,
            counts,
            all_pairs(n),
            lambda: select_neighbourhoods(states, counts, self.l1, n_jobs=self.n_threads()),
        )
        self._take_graph(graph)
        blocks = self._blocks(table, None, weights, separate)
        return DualProblem(blocks, alpha, check_ratio(self.l1_ratio))

    def _blocks(self, X: Any, Y: Any, weights: Floats, separate: bool) -> list[Block]:
        """All rows have the same scores: one block, whose observation is their mean."""
        graph, total = self._model.graph, float(weights.sum())
        on = X.astype(np.float64)
        second = (on * weights[:, None]).T @ on / total
        mean = np.concatenate([np.diag(second), second[graph.tail, graph.head]])
        features = ScoreFeatures(mean * (1.0 - mean), self._scales())
        observed = Vertex(np.arange(mean.size), mean)
        return [Block(self._model.space(1), features, observed, total)]

    def _prepare(self, X: Any) -> list[Block]:
        raise NotImplementedError("IsingMRF has no features, so no blocks of new samples")

    def _scales(self) -> Floats:
        """Scores over weights: fields are penalised less than couplings."""
        n = self.n_features_in_
        return np.where(np.arange(n + self.edges_.shape[0]) < n, CONSTANT_SCALE, 1.0)

    def _full_coef(self, theta: Floats) -> Floats:
        return theta * self._scales()

    # ------------------------------------------------------------------ what was learned
    @property
    def fields_(self) -> Floats:
        """h, shape (n_variables,)."""
        check_is_fitted(self, "coef_")
        return self.coef_[: self.n_features_in_]

    @property
    def couplings_(self) -> Floats:
        """J, shape (n_edges,)."""
        check_is_fitted(self, "coef_")
        return self.coef_[self.n_features_in_ :]

    def coupling_matrix(self) -> Floats:
        """J as a symmetric matrix of shape (n_variables, n_variables).

        `fields_ + X @ coupling_matrix()` are the log-odds of every variable given all others.
        """
        matrix = np.zeros((self.fields_.size, self.fields_.size))
        i, j = self.edges_.T
        matrix[i, j] = matrix[j, i] = self.couplings_
        return matrix

    def named_coef(self) -> dict[str, float]:
        """Learned weights by name: "variable", and "variable-variable" of coupled ones."""
        names = [f"x{i}" for i in range(self.n_features_in_)]
        pairs = [f"{names[i]}-{names[j]}" for i, j in self.edges_.tolist()]
        return dict(zip(names + pairs, self.coef_.tolist(), strict=True))

    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        return [], {"n_variables": self.n_features_in_, "edges": self.edges_.tolist()}

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        assert layout is not None
        self.coef_ = coef
        n = layout["n_variables"]
        if n + len(layout["edges"]) != coef.size:  # before making arrays: files may be hostile
            raise ValueError(f"{coef.size} weights do not fit {n} variables")
        self.n_features_in_ = n
        self._take_graph(read_graph(layout["edges"], n))

    # ------------------------------------------------------------------ questions
    def predict_marginals(
        self, known: Any = None, tol: float = 1e-6, method: str = "auto", **options: Any
    ) -> Floats:
        """P(variable = 1) given some of them, shape (n_rows, n_variables).

        known : array of shape (n_rows, n_variables), optional
            States that are given, -1 elsewhere; by default nothing is known, and there is one row.
        tol : gap to which reweighted marginals are solved, per variable
        method, options : of `mlestruct.inference.marginals`; "auto" is what `inference` says
        """
        check_is_fitted(self, "coef_")
        n = self.n_features_in_
        states = np.full((1, n), UNKNOWN) if known is None else self._known(known)
        tol = check_positive(tol, "tol")
        couplings = self.couplings_[None]

        def one(part: slice) -> Floats:
            fields = np.broadcast_to(self.fields_, (part.stop - part.start, n))
            return self._node_marginals(fields, couplings, states[part], tol, method, options)

        return np.concatenate(self._each(one, self._model.chunks(states.shape[0])))

    def _known(self, known: Any) -> Ints:
        """States of all variables in every row, -1 where they are not known."""
        given = np.asarray(known)
        hidden = np.isnan(given) if given.dtype.kind == "f" else given == UNKNOWN
        hidden = hidden | (given == UNKNOWN)
        states = read_binary(np.where(hidden, 0, given), "known", self.n_features_in_)
        states[hidden] = UNKNOWN
        return states

    def sample(self, n_samples: int = 1, *, random_state: Any = None, **options: Any) -> Ints:
        """Rows drawn from the model, shape (n_samples, n_variables).

        `options` are those of `mlestruct.inference.sample`.
        """
        check_is_fitted(self, "coef_")
        space = self._model.approximate(1)
        drawn = sample(space, self.coef_, n_samples, random_state=random_state, **options)
        return np.asarray(drawn.labels)

    # ------------------------------------------------------------------ evaluation
    def log_likelihood_bounds(
        self, X: Any, tol: float = 1e-6, *, known: Any = None
    ) -> tuple[Floats, Floats]:
        """Proven bounds of log p of every row of X, shape (n_samples,) each; equal if exact.

        `tol` is the gap to which the bounds of log Z are solved, per variable. With `known`
        states, as in `predict_marginals`, log p of the other variables given these; they must
        agree with X.
        """
        table = self._read(X)
        fields, couplings, given = self.fields_[None], self.couplings_[None], None
        scores = self._model.scores_of(table, fields, couplings)
        if known is not None:
            given = self._known(known)
            if given.shape != table.shape:
                raise ValueError(f"known: expected shape {table.shape}, got {given.shape}")
            check_agreement(given, table)
            fields = np.broadcast_to(fields, given.shape)
        tol = check_positive(tol, "tol")

        def bounds(part: slice) -> tuple[Floats, Floats]:
            own = None if given is None else given[part]
            return self._model.log_partition_bounds(fields[part], couplings, tol, own)

        return self._bounds_of(scores, bounds, self._model.chunks(fields.shape[0]))

    def log_likelihood(self, X: Any, *, known: Any = None) -> Floats:
        """Exact log p of every row; needs exact inference. `known`: `log_likelihood_bounds`."""
        check_is_fitted(self, "coef_")
        if not self.is_exact_:
            raise TooLargeToCount(
                f"log_likelihood needs exact inference, and the graph of {self.edges_.shape[0]} "
                "edges has too large a treewidth; use log_likelihood_bounds"
            )
        return self.log_likelihood_bounds(X, known=known)[0]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean over rows of log p if inference is exact, else of its proven lower bound."""
        return float(self.log_likelihood_bounds(X, tol=1e-4)[0].mean())

    def _read(self, X: Any) -> Ints:
        check_is_fitted(self, "coef_")
        return read_binary(X, "X", self.n_features_in_)


def read_binary(table: Any, name: str, n_columns: int | None = None) -> Ints:
    """A matrix of 0 and 1, dense or sparse, as integers."""
    if issparse(table):
        table = table.toarray()
    check_unmasked(table, name)
    array = np.asarray(table)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name}: expected a matrix of samples x variables, got {array.shape}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected 0 and 1, got dtype {array.dtype}")
    wrong = ~np.isin(array, (0, 1))
    if wrong.any():
        t, i = np.argwhere(wrong)[0]
        raise ValueError(
            f"{name}[{t}, {i}] is {array[t, i].item()!r}, expected 0 or 1. Pass a threshold, such "
            f"as {name} > 0."
        )
    if n_columns is not None and array.shape[1] != n_columns:
        raise ValueError(f"{name}: expected {n_columns} columns, got {array.shape[1]}")
    return array.astype(np.int64)


def distinct(table: Ints, weights: Floats) -> tuple[Ints, Floats]:
    """Different rows and their total weights: most rows of sparse activity are equal."""
    packed = np.packbits(table.astype(bool), axis=1)
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return table[first], np.bincount(group.ravel(), weights, first.size).astype(np.float64)
