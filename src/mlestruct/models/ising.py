"""`IsingMRF`: the joint distribution of many yes/no variables, on a graph that may be learned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from ..exceptions import TooLargeToCount
from ..features.scores import ScoreFeatures
from ..inference.sampling import sample
from ..learning.checkpoint import Checkpoint
from ..learning.problem import Block, DualProblem
from ..learning.result import Progress
from ..structures.contract import Vertex
from ..structures.graphs.pairwise import PairwiseGraph
from ..structures.labellings.repeated import RepeatedBinary
from .binary import CONSTANT_SCALE, BinaryEstimator, check_agreement, read_graph
from .ising_variables import UNKNOWN, Variables, distinct, read_binary, read_frames
from .neighbourhoods import RULES, Neighbourhoods, select_neighbourhoods
from .validation import check_count, check_positive, check_ratio, check_share, check_weights

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class IsingMRF(BinaryEstimator):
    """A pairwise model of binary variables, by maximum likelihood.

        p(x)  ~  exp( sum_i h_i x_i + sum over edges of J_ij x_i x_j ),    x in {0, 1}

    Parameters
    ----------
    graph : "l1", "full", "tree", "none", or array of shape (n_edges, 2)
        "l1": neighbours selected by l1-penalised logistic regressions, one per variable. "full":
        all pairs. "tree": a Chow-Liu tree. "none": independent variables.
    alpha : float
        Regularisation alpha/2 (|J|^2 + |h/10|^2) on the summed log-likelihood. With `l1_ratio` it
        is alpha (l1_ratio (|J|_1 + |h/10|_1) + (1 - l1_ratio)/2 (|J|^2 + |h/10|^2)).
    l1 : float
        Penalty of the regressions, in units of the one that leaves 95 % of independent variables
        without neighbours. Smaller selects more.
    density : float, optional
        Keep only this share of all pairs, the strongest that were selected.
    rule : "both" or "either"
        Whether both regressions of a pair must select it.
    time_span : int
        Frames that a row of the model covers: with 2 or more, earlier states of all neurons are
        variables too, which may be coupled to those of the current frame.
    inference : "auto", "exact" or "reweighted"
        "exact": junction tree. "reweighted": tree-reweighted entropy, whose likelihood bounds the
        exact one from below. "auto": exact where tables have at most 2^20 entries.
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
    variables_ : Variables, which variable is what: neurons, earlier states, stimuli
    is_exact_ : bool, whether the likelihood is exact
    neighbourhoods_ : Neighbourhoods, only with graph="l1"
    objective_, duality_gap_, converged_, history_, n_iter_, n_oracle_calls_, solver_ :
        as in `GraphCRF`

    Notes
    -----
    The cost of a fit does not depend on the number of frames beyond one pass over them, that of the
    regressions on the number of different frames.

    Without regularisation reweighted likelihood has a closed form: J_ij is rho_ij times the log
    odds ratio of the pair (Wainwright, Jaakkola and Willsky 2003). It does not account for paths
    through other variables; the graph does.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import IsingMRF
    >>> rng = np.random.default_rng(0)
    >>> Y = (rng.random((2000, 6)) < 0.2).astype(int)
    >>> Y[:, 1] |= Y[:, 0]
    >>> model = IsingMRF().fit(Y)
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
        density: float | None = None,
        rule: str = "both",
        time_span: int = 1,
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
        self.density = density
        self.rule = rule
        self.time_span = time_span
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
    def fit(  # type: ignore[override]
        self,
        Y: Any,
        stimuli: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> IsingMRF:
        """Learn from a matrix of 0 and 1.

        Parameters
        ----------
        Y : array or sparse matrix of shape (n_frames, n_neurons)
        stimuli : array of shape (n_frames, n_stimuli), optional
            More variables, which prediction may leave unknown.
        sample_weight : array of shape (n_frames,), optional
        checkpoint : folder or `Checkpoint`, optional
            Where the state of the fit is kept, to continue from.
        """
        super().fit(Y, stimuli, sample_weight, checkpoint=checkpoint)
        return self

    def build_problem(
        self, X: Any, Y: Any = None, sample_weight: Any = None, *, separate: bool = False
    ) -> DualProblem:
        """The learning problem of frames X and stimuli Y; learns the graph."""
        alpha = check_positive(self.alpha, "alpha")
        check_positive(self.tol, "tol")
        self._check_selection()
        frames, stimuli = read_frames(X, Y)
        span = check_count(self.time_span, "time_span")
        self.variables_ = Variables(
            frames.shape[1], 0 if stimuli is None else stimuli.shape[1], span
        )
        self.n_features_in_ = frames.shape[1]
        table = self.variables_.table(frames, stimuli)
        weights = check_weights(sample_weight, frames.shape[0])[span - 1 :]
        check_weights(weights, weights.size)  # not all 0: the first frames have no row of their own
        states, counts = distinct(table, weights)
        pairs = np.argwhere(np.triu(self.variables_.allowed))
        graph = self._choose_graph(states, counts, pairs, lambda: self._select(states, counts))
        self._take_graph(graph)
        blocks = self._blocks(table, None, weights, separate)
        return DualProblem(blocks, alpha, check_ratio(self.l1_ratio))

    def _check_selection(self) -> None:
        """Raise where a parameter of the search for a graph is none, also where it is not used."""
        check_positive(self.l1, "l1")
        if self.rule not in RULES:
            raise ValueError(f"rule: expected one of {list(RULES)}, got {self.rule!r}")
        if self.density is not None:
            check_share(self.density, "density")

    def _select(self, states: Ints, weights: Floats) -> Ints:
        self.neighbourhoods_: Neighbourhoods = select_neighbourhoods(
            states, weights, self.l1, self.variables_.allowed, n_jobs=self.n_threads()
        )
        return self.neighbourhoods_.edges(self.rule, self.density)

    def _blocks(self, X: Any, Y: Any, weights: Floats, separate: bool) -> list[Block]:
        """All frames have the same scores: one block, whose observation is their mean."""
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
        n = len(self.variables_)
        return np.where(np.arange(n + self.edges_.shape[0]) < n, CONSTANT_SCALE, 1.0)

    def _full_coef(self, theta: Floats) -> Floats:
        return theta * self._scales()

    # ------------------------------------------------------------------ what was learned
    @property
    def fields_(self) -> Floats:
        """h, shape (n_variables,)."""
        check_is_fitted(self, "coef_")
        return self.coef_[: len(self.variables_)]

    @property
    def couplings_(self) -> Floats:
        """J, shape (n_edges,)."""
        check_is_fitted(self, "coef_")
        return self.coef_[len(self.variables_) :]

    def coupling_matrix(self) -> Floats:
        """J as a symmetric matrix of shape (n_variables, n_variables)."""
        n = len(self.variables_)
        matrix = np.zeros((n, n))
        i, j = self.edges_.T
        matrix[i, j] = matrix[j, i] = self.couplings_
        return matrix

    def node_strengths(self) -> Floats:
        """Sum of couplings of every neuron to current neurons, shape (n_neurons,)."""
        n = self.variables_.n_neurons
        return self.coupling_matrix()[:n, :n].sum(axis=1)

    def named_coef(self) -> dict[str, float]:
        """Learned weights by name: "variable", and "variable-variable" of coupled ones."""
        names = self.variables_.names
        pairs = [f"{names[i]}-{names[j]}" for i, j in self.edges_.tolist()]
        return dict(zip(names + pairs, self.coef_.tolist(), strict=True))

    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        of = self.variables_
        sizes = [of.n_neurons, of.n_stimuli, of.time_span]
        layout = {"variables": sizes, "edges": self.edges_.tolist()}
        if "neighbourhoods_" in vars(self):
            layout["neighbourhoods"] = self.neighbourhoods_.to_list()
        return [], layout

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        assert layout is not None
        self.coef_ = coef
        n_neurons, n_stimuli, time_span = layout["variables"]
        # Before anything is made in these sizes: files may be hostile.
        if n_neurons * time_span + n_stimuli + len(layout["edges"]) != coef.size:
            raise ValueError(f"{coef.size} weights do not fit {layout['variables']} variables")
        self.variables_ = Variables(n_neurons, n_stimuli, time_span)
        self.n_features_in_ = self.variables_.n_neurons
        self._take_graph(read_graph(layout["edges"], len(self.variables_)))
        if "neighbourhoods" in layout:
            found = Neighbourhoods.from_list(layout["neighbourhoods"], len(self.variables_))
            self.neighbourhoods_ = found

    # ------------------------------------------------------------------ questions
    def _table(self, Y: Any, stimuli: Any) -> Ints:
        """States of all variables in every row; stimuli unknown if they are not given."""
        check_is_fitted(self, "coef_")
        return self.variables_.table(*read_frames(Y, stimuli, self.variables_))

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
        n = len(self.variables_)
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
        states = read_binary(np.where(hidden, 0, given), "known", len(self.variables_))
        states[hidden] = UNKNOWN
        return states

    def predict_stimuli(self, Y: Any) -> Floats:
        """P(stimulus | neurons) in every frame, shape (n_frames - time_span + 1, n_stimuli)."""
        table = self._table(Y, None)
        if not self.variables_.n_stimuli:
            raise ValueError("predict_stimuli: the model was fitted without stimuli")
        return self.predict_marginals(table)[:, self.variables_.is_stimulus]

    def predict_neurons(self, Y: Any, stimuli: Any = None) -> Floats:
        """P(neuron = 1 | all other variables), shape (n_frames - time_span + 1, n_neurons).

        Without `stimuli` these are taken to be off.
        """
        return np.asarray(expit(self.log_odds(Y, stimuli)))

    def log_odds(self, Y: Any, stimuli: Any = None) -> Floats:
        """log P(neuron = 1 | others) - log P(neuron = 0 | others); as `predict_neurons`."""
        table = np.maximum(self._table(Y, stimuli), 0).astype(np.float64)
        n = self.variables_.n_neurons
        return np.asarray(self.fields_[:n] + table @ self.coupling_matrix()[:, :n])

    def sample(self, n_samples: int = 1, *, random_state: Any = None, **options: Any) -> Ints:
        """Rows drawn from the model, shape (n_samples, n_variables).

        `options` are those of `mlestruct.inference.sample`.
        """
        check_is_fitted(self, "coef_")
        space = self._model.approximate(1)
        drawn = sample(space, self.coef_, n_samples, random_state=random_state, **options)
        return np.asarray(drawn.labels)

    # ------------------------------------------------------------------ evaluation
    def _current(self, table: Ints) -> tuple[RepeatedBinary, Floats, Floats, Floats]:
        """The model of the current frame given earlier ones: graph, fields, couplings, scores.

        Fields have one row if they are the same for all rows of `table`.
        """
        now = self.variables_.lag == 0
        if now.all():
            fields, couplings = self.fields_[None], self.couplings_[None]
            return self._model, fields, couplings, self._model.scores_of(table, fields, couplings)
        number = np.cumsum(now) - 1
        tail, head = self.edges_.T
        kept = now[tail] & now[head]
        graph = PairwiseGraph(int(now.sum()), number[self.edges_[kept]])
        rho = self.rho if np.ndim(self.rho) == 0 else np.asarray(self.rho)[kept]
        model = RepeatedBinary(graph, rho, self.inference)
        fields = self.fields_[now] + table[:, ~now] @ self.coupling_matrix()[~now][:, now]
        couplings = self.couplings_[kept][None]
        return model, fields, couplings, model.scores_of(table[:, now], fields, couplings)

    def log_likelihood_bounds(
        self, Y: Any, stimuli: Any = None, tol: float = 1e-6, *, known: Any = None
    ) -> tuple[Floats, Floats]:
        """Proven bounds of log p of every frame, given those before it; equal if exact.

        With time_span 1 frames are independent. `tol` is the gap to which the bounds of log Z are
        solved, per variable. With `known` states, as in `predict_marginals`, log p of the others
        given these, for example of neurons given stimuli; they must agree with Y and stimuli.

        Returns
        -------
        lower, upper : ndarrays of shape (n_frames - time_span + 1,)
        """
        table = self._complete(Y, stimuli)
        model, fields, couplings, scores = self._current(table)
        given = None
        if known is not None:
            given = self._known(known)
            if given.shape != table.shape:
                raise ValueError(f"known: expected shape {table.shape}, got {given.shape}")
            check_agreement(given, table)
            given = given[:, self.variables_.lag == 0]
            fields = np.broadcast_to(fields, given.shape)
        tol = check_positive(tol, "tol")

        def bounds(part: slice) -> tuple[Floats, Floats]:
            own = None if given is None else given[part]
            return model.log_partition_bounds(fields[part], couplings, tol, own)

        return self._bounds_of(scores, bounds, model.chunks(fields.shape[0]))

    def log_likelihood(self, Y: Any, stimuli: Any = None, *, known: Any = None) -> Floats:
        """Exact log p of every frame given those before it; needs exact inference.

        `known` is as in `log_likelihood_bounds`.
        """
        table = self._complete(Y, stimuli)
        if self._current(table)[0].tree is None:
            raise TooLargeToCount(
                f"log_likelihood needs exact inference, and the graph of {self.edges_.shape[0]} "
                "edges has too large a treewidth; use log_likelihood_bounds"
            )
        return self.log_likelihood_bounds(Y, stimuli, known=known)[0]

    def score(self, Y: Any, stimuli: Any = None) -> float:  # type: ignore[override]
        """Mean over frames of a lower bound of log p, given the frames before; exact if exact.

        What to choose models by, on held-out frames.
        """
        model, fields, couplings, scores = self._current(self._complete(Y, stimuli))

        def log_partition(part: slice) -> float:
            n = part.stop - part.start
            flat = [fields[part].ravel(), np.broadcast_to(couplings, (n, couplings.size)).ravel()]
            wanted = 1e-4 * n * model.graph.n_nodes
            return float(model.space(n).marginals(np.concatenate(flat), None, wanted).upper_bound)

        total = sum(self._each(log_partition, model.chunks(fields.shape[0])))
        return float(scores.mean() - total / fields.shape[0])

    def _complete(self, Y: Any, stimuli: Any) -> Ints:
        table = self._table(Y, stimuli)
        if self.variables_.n_stimuli and stimuli is None:
            raise ValueError(
                f"stimuli: the model has {self.variables_.n_stimuli}; pass their states"
            )
        return table
