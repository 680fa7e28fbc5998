"""`IsingMRF`: the joint distribution of many yes/no variables, on a graph that may be learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._arguments import as_positive, check_weights, count_threads
from ..features.multi_label import MultiLabelFeatures
from ..features.rows import Rows
from ..inference.sampling import sample
from ..learning.checkpoint import Checkpoint
from ..learning.problem import Block, ElasticNet, Problem
from .binary import (
    CONSTANT_SCALE,
    UNKNOWN,
    Answers,
    BinaryEstimator,
    Bounds,
    read_table,
    select_neighbourhoods,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class IsingMRF(BinaryEstimator):
    """A pairwise model of binary variables, by maximum likelihood.

        p(x)  ~  exp( sum_i h_i x_i + sum over edges of J_ij x_i x_j ),    x in {0, 1}

    Parameters
    ----------
    alpha : float
        Regularisation alpha/2 (|J|^2 + |h/10|^2) on the summed log-likelihood. With `l1_ratio` it
        is alpha (l1_ratio (|J|_1 + |h/10|_1) + (1 - l1_ratio)/2 (|J|^2 + |h/10|^2)).
    graph : "l1", "full", "tree", "none", or array of shape (n_edges, 2)
        "l1": neighbours selected by l1-penalised logistic regressions, one per variable; a pair is
        an edge if both regressions select it. "full": all pairs. "tree": a Chow-Liu tree. "none":
        independent variables.
    l1 : float
        Penalty of the regressions. With 1, a variable that is independent of all others has no
        neighbour with probability 0.95. Smaller values select more edges.
    inference : "auto", "exact" or "reweighted"
        "exact": junction tree. "reweighted": tree-reweighted entropy, whose likelihood bounds the
        exact one from below. "auto": exact if tables have at most 2^20 entries.
    l1_ratio, tol, max_iter, solver, n_jobs, random_state, verbose :
        as in `GraphCRF`

    Attributes
    ----------
    fields_ : ndarray of shape (n_variables,), h
    edges_ : ndarray of shape (n_edges, 2)
    couplings_ : ndarray of shape (n_edges,), J
    coef_ : h, then J
    is_exact_ : bool, whether the likelihood is exact
    objective_, objective_bound_, duality_gap_, certified_, converged_, history_, n_iter_,
    n_oracle_calls_, solver_ :
        as in `GraphCRF`

    Notes
    -----
    The cost of a step does not depend on the number of rows. Without regularisation reweighted
    likelihood has a closed form: J_ij is rho_ij times the log odds ratio of the pair (Wainwright,
    Jaakkola and Willsky 2003). It does not account for paths through other variables; the graph
    does.

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
        alpha: float = 1.0,
        graph: Any = "l1",
        l1: float = 1.0,
        inference: str = "auto",
        l1_ratio: float = 0.0,
        tol: float = 1e-6,
        max_iter: int = 1000,
        solver: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.graph = graph
        self.l1 = l1
        self.inference = inference
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning
    def fit(
        self,
        X: Any,
        Y: Any = None,
        sample_weight: Any = None,
        *,
        start: Any = None,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> IsingMRF:
        """Learn from a matrix of 0 and 1.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_variables)
        Y : None
            Not used; scikit-learn's pipelines and searches pass it.
        sample_weight : array of shape (n_samples,), optional
        start, checkpoint : optional, as in `GraphCRF.fit`
        """
        super().fit(X, None, sample_weight, start=start, checkpoint=checkpoint)
        return self

    def _problem(
        self, X: Any, Y: Any = None, sample_weight: Any = None, classes: Any = None
    ) -> Problem:
        """The learning problem of the rows of X; learns the graph."""
        penalty, l1 = ElasticNet(self.alpha, self.l1_ratio), as_positive(self.l1, "l1")
        n_threads = count_threads(self.n_jobs)
        table = read_table(X, "X", flat=False)
        if not len(table):
            raise ValueError("X: expected at least one row, got none")
        self._take_size(table.shape[1])
        table = self._read(table)
        weights = check_weights(sample_weight, len(table))
        rows = distinct(table, weights)
        self._choose_graph(*rows, lambda: select_neighbourhoods(*rows, l1, n_jobs=n_threads))
        blocks = self._blocks(table, None, weights, None)
        return Problem(blocks, penalty.alpha, penalty.l1_ratio, n_threads)

    def _blocks(self, X: Any, Y: Any, weights: Floats, classes: Any) -> list[Block]:
        """All rows have the same scores: one block, whose observation is their mean."""
        graph, total = self._model.graph, float(weights.sum())
        on = X.astype(np.float64)
        second = (on * weights[:, None]).T @ on / total
        means = np.diag(second), second[graph.tail, graph.head]
        mean = np.concatenate(means)
        features = MultiLabelFeatures(
            Rows([[CONSTANT_SCALE]]), graph.n_nodes, graph.n_edges, variances=mean * (1.0 - mean)
        )
        return [Block(self._model.space(1), features, self._model.point(*means), total)]

    def _constants(self) -> Floats:
        return np.repeat([CONSTANT_SCALE, 1.0], [self.n_features_in_, len(self.edges_)])

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

    def named_coef(self, names: Sequence[str] | None = None) -> dict[str, float]:
        """Learned weights by name: "variable", and "variable-variable" of coupled ones."""
        check_is_fitted(self, "coef_")
        default = [f"x{i}" for i in range(self.n_features_in_)]
        names = self._own_names(default if names is None else names)
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
        self._take_size(n)
        self._take_edges(layout["edges"])

    def _take_size(self, n_variables: int) -> None:
        self.n_features_in_, self._answers = n_variables, Answers([(0, 1)] * n_variables)

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
        fields, couplings = self.fields_, self.couplings_[None]
        if known is None:
            known = np.full((1, fields.size), UNKNOWN)
        states = self._answers.encode(known, "known", partly=True)
        every = np.broadcast_to(fields, states.shape)
        return self._node_marginals(every, couplings, states, tol, method, options)

    def sample(self, n_samples: int = 1, *, random_state: Any = None, **options: Any) -> Ints:
        """Rows drawn from the model, shape (n_samples, n_variables).

        `options` are passed to `mlestruct.inference.sample`.
        """
        check_is_fitted(self, "coef_")
        space, scores = self._model.query(self.fields_[None], self.couplings_[None])
        drawn = sample(space, scores, n_samples, random_state=random_state, **options)
        return np.asarray(drawn.labels)

    # ------------------------------------------------------------------ evaluation
    def log_likelihood_bounds(self, X: Any, tol: float = 1e-6, *, known: Any = None) -> Bounds:
        """Proven bounds of log p of every row of X, shape (n_samples,) each; equal if exact.

        `tol` is the gap to which the bounds of log Z are solved, per variable. With `known`
        states, as in `predict_marginals`, log p of the other variables given these; they must
        agree with X.
        """
        fields, couplings = self.fields_[None], self.couplings_[None]
        table = self._read(X)
        if known is not None:
            known = self._answers.encode(known, "known", len(table), partly=True)
        return self._likelihood_bounds(table, fields, couplings, known, tol)

    def log_likelihood(self, X: Any, *, known: Any = None) -> Floats:
        """Exact log p of every row; needs exact inference. `known`: `log_likelihood_bounds`."""
        check_is_fitted(self, "coef_")
        self._exact_tree("log_likelihood")
        return self.log_likelihood_bounds(X, known=known)[0]

    def score(self, X: Any, Y: Any = None) -> float:
        """Mean over rows of log p if inference is exact, else of its proven lower bound."""
        return float(self.log_likelihood_bounds(X, tol=1e-4)[0].mean())

    def _read(self, X: Any) -> Ints:
        """A matrix of 0 and 1, dense or sparse, as integers."""
        check_is_fitted(self, "n_features_in_")
        return self._answers.encode(X, "X")


def distinct(table: Ints, weights: Floats) -> tuple[Ints, Floats]:
    """Different rows and their total weights: most rows of sparse activity are equal."""
    packed = np.packbits(table.astype(bool), axis=1)
    _, first, group = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return table[first], np.bincount(group.ravel(), weights, first.size).astype(np.float64)
