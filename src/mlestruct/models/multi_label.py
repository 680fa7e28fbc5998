"""`MultiLabelCRF`: several yes/no answers per sample, predicted jointly."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from .._arguments import (
    as_count,
    check_unmasked,
    check_weights,
    count_threads,
    generator,
)
from .._running import in_time
from ..algorithms.pairwise.junction_tree import BinaryJunctionTree
from ..features.multi_label import MultiLabelFeatures
from ..features.rows import Rows, check_finite
from ..learning.checkpoint import Checkpoint
from ..learning.problem import Block, ElasticNet, Problem
from ..metrics.events import Events, as_events
from .binary import (
    CONSTANT_SCALE,
    UNKNOWN,
    Answers,
    BinaryEstimator,
    Bounds,
    Part,
    select_neighbourhoods,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHOICES = {"couplings": ("constant", "features"), "decision": ("map", "marginal", "f1")}


class JointPrediction(NamedTuple):
    """Most probable label sets, best first.

    labels : ndarray of shape (n_samples, k, n_labels)
    probabilities : ndarray of shape (n_samples, k)
    """

    labels: NDArray[Any]
    probabilities: Floats


class MultiLabelCRF(ClassifierMixin, BinaryEstimator):
    """Multi-label classification with coupled labels, by maximum likelihood.

        p(y | x)  ~  exp( sum_l y_l (w_l . x + b_l) + sum over edges of y_i y_j c_ij )

    Parameters
    ----------
    alpha : float
        Regularisation alpha/2 |theta|^2 on the summed log-likelihood; intercepts are divided by 10.
    graph : "full", "tree", "none", "l1", or array of shape (n_edges, 2)
        Which labels are coupled: all pairs, the pairs of a Chow-Liu tree, none (independent
        logistic regressions), the pairs that l1-penalised logistic regressions of every label on
        the others and on its prediction from the features select, or the listed pairs.
    couplings : "constant" or "features"
        Whether c_ij is a number or, as w_l . x + b_l, depends on the features.
    inference : "auto", "exact" or "reweighted"
        "exact": marginals and likelihoods by a junction tree. "reweighted": the tree-reweighted
        entropy, whose likelihood bounds the exact one from below. "auto": exact if tables of one
        sample have at most 2^20 entries (any tree; 20 labels that are all coupled).
    decision : "map", "marginal" or "f1"
        What `predict` returns: the most probable set, all labels of probability above 1/2, or the
        set of the largest expected F1 for independent labels of these probabilities. For another
        threshold compare `predict_proba` with it.
    fit_intercept : bool
    l1_ratio, tol, max_iter, solver, n_jobs, random_state, verbose :
        as in `GraphCRF`

    Attributes
    ----------
    coef_ : ndarray, all weights in a row
    node_coef_ : ndarray of shape (n_labels, n_features)
    intercept_ : ndarray of shape (n_labels,)
    edges_ : ndarray of shape (n_edges, 2), the coupled labels
    edge_coef_ : ndarray of shape (n_edges,), or (n_edges, n_features + 1) by features
    classes_ : list of the two classes of every label
    is_exact_ : bool, whether marginals and likelihoods are exact
    objective_, objective_bound_, duality_gap_, certified_, converged_, history_, n_iter_,
    n_oracle_calls_, solver_ :
        as in `GraphCRF`
    n_features_in_, feature_names_in_

    Notes
    -----
    X has the shape (n_samples, n_features), dense or SciPy sparse. Y has the shape (n_samples,
    n_labels); entries are 0 and 1, or two classes per column. Features of similar scale help.

    Methods for samples take `known`, answers that are given (-1, NaN or None elsewhere), and
    `offset`, as in `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import MultiLabelCRF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> first = X[:, 0] > 0
    >>> Y = np.stack([first, first ^ (rng.random(300) < 0.1)], axis=1).astype(int)
    >>> model = MultiLabelCRF(alpha=1.0).fit(X, Y)
    >>> model.edge_coef_.shape, bool(model.edge_coef_[0] > 1)
    ((1,), True)
    >>> model.predict_proba([[0.0, 0, 0]]).shape
    (1, 2)
    >>> bool(model.predict_proba([[0.0, 0, 0]], known=[[-1, 1]])[0, 0] > 0.7)
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        graph: Any = "full",
        couplings: str = "constant",
        inference: str = "auto",
        decision: str = "map",
        fit_intercept: bool = True,
        l1_ratio: float = 0.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        solver: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.graph = graph
        self.couplings = couplings
        self.inference = inference
        self.decision = decision
        self.fit_intercept = fit_intercept
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    # ------------------------------------------------------------------ learning
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        start: Any = None,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> MultiLabelCRF:
        """Learn from features X, (n_samples, n_features), and answers y, (n_samples, n_labels).

        offset : array of shape (n_samples, n_labels) or (n_labels,), optional
            Log-odds of the second class that are known beforehand: added to w_l . x + b_l and
            not learned. Methods for new samples take theirs.
        start, checkpoint : optional, as in `GraphCRF.fit`
        """
        # The columns of y show their classes: `_problem` takes the offset in the place of these.
        self._fit(X, y, sample_weight, offset, start, checkpoint)
        return self

    def _problem(self, X: Any, Y: Any, sample_weight: Any = None, offset: Any = None) -> Problem:
        """The learning problem; learns the classes and the graph."""
        penalty = ElasticNet(self.alpha, self.l1_ratio)
        self._check_choices()
        if Y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X = self._read_features(X)
        check_finite(X.data if sparse.issparse(X) else X, "X")
        self._take_answers(Answers.learn(Y))
        n, n_labels = X.shape[0], len(self._answers)
        states = self._answers.encode(Y, "Y", n)
        weights, shift = check_weights(sample_weight, n), _read_offset(offset, n, n_labels)

        def select() -> Ints:
            """Edges that an l1 penalty selects beside what the features predict."""
            apart = clone(self).set_params(graph="none", solver=None)
            fields, _ = apart.fit(X, states, weights, offset=shift)._scores(X, shift)
            return select_neighbourhoods(
                states, weights, predictions=fields, n_jobs=count_threads(self.n_jobs)
            )

        self._choose_graph(states, weights, select)
        blocks = self._blocks(X, states, weights, shift)
        return Problem(blocks, penalty.alpha, penalty.l1_ratio, count_threads(self.n_jobs))

    def _check_choices(self) -> None:
        """In `fit` and in `predict`, as a fitted model may be told to decide otherwise."""
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}` must be one of {list(choices)}; got {getattr(self, name)!r}."
                )

    def _read_features(self, X: Any, reset: bool = True) -> Any:
        """X as scikit-learn reads it, dense or CSR; its errors do not always name X."""
        check_unmasked(X, "X")
        kinds = [np.float64, np.float32]
        try:
            return validate_data(self, X, accept_sparse="csr", dtype=kinds, reset=reset)
        except (TypeError, ValueError, OverflowError) as error:
            if "X" in str(error):
                raise
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"X: {error}") from None

    def _take_answers(self, answers: Answers) -> None:
        self._answers = answers
        self.classes_: Any = answers.classes[0] if answers.flat else answers.classes

    def _blocks(self, X: Any, Y: Any, weights: Floats, offset: Any) -> list[Block]:
        """Blocks of samples of equal weight."""
        graph, blocks = self._model.graph, []
        design = _with_constant(X) if self.fit_intercept else X
        for weight in np.unique(weights[weights > 0]):
            of_weight = np.flatnonzero(weights == weight)
            parts = list(of_weight[:, None])
            if not self._one_block_per_sample:
                parts = [of_weight[c] for c in self._model.chunks(len(of_weight))]
            for part in in_time(parts, "the samples of X"):
                states, rows = Y[part], Rows(design[part])
                by_sample = rows if self.couplings == "features" else None
                features = MultiLabelFeatures(rows, Y.shape[1], graph.n_edges, by_sample)
                shift = None
                if offset is not None:
                    shift = self._model.scores(offset[part], np.zeros((1, graph.n_edges)))
                space = self._model.space(part.size)
                observed = space.encode(states.ravel())
                blocks.append(Block(space, features, observed, float(weight), shift))
        return blocks

    def _constants(self) -> Floats:
        size = self.n_features_in_ + bool(self.fit_intercept)
        row = np.where(np.arange(size) < self.n_features_in_, 1.0, CONSTANT_SCALE)
        edges = row if self.couplings == "features" else np.ones(1)
        return np.concatenate([np.tile(row, len(self._answers)), np.tile(edges, len(self.edges_))])

    # ------------------------------------------------------------------ what was learned
    @property
    def _weights(self) -> tuple[Floats, Floats]:
        """Weights of labels and of couplings, the constant last if there is one."""
        check_is_fitted(self, "coef_")
        size = self.n_features_in_ + bool(self.fit_intercept)
        fields, couplings = np.split(self.coef_, [len(self._answers) * size])
        by_features = self.couplings == "features"
        return fields.reshape(-1, size), couplings.reshape(-1, size if by_features else 1)

    @property
    def node_coef_(self) -> Floats:
        """Weights of the features, shape (n_labels, n_features)."""
        return self._weights[0][:, : self.n_features_in_]

    @property
    def intercept_(self) -> Floats:
        """Shape (n_labels,)."""
        fields = self._weights[0]
        return fields[:, -1] if self.fit_intercept else np.zeros(len(fields))

    @property
    def edge_coef_(self) -> Floats:
        """Couplings, shape (n_edges,); by features (n_edges, n_features + 1), the last constant."""
        found = self._weights[1]
        return found[:, 0] if self.couplings == "constant" else found

    def named_coef(self, names: Sequence[str] | None = None) -> dict[str, float]:
        """Learned weights by name: "label:feature", and "label-label" of coupled ones.

        names : of the features, instead of `feature_names_in_`
        """
        check_is_fitted(self, "coef_")
        default = self._frame_names() or [f"x{k}" for k in range(self.n_features_in_)]
        own = self._own_names(default if names is None else names)
        own += ["1"] * bool(self.fit_intercept)
        suffixes = [""] if self.couplings == "constant" else [f":{name}" for name in own]
        found = [f"{label}:{name}" for label in range(len(self._answers)) for name in own]
        found += [f"{i}-{j}{suffix}" for i, j in self.edges_.tolist() for suffix in suffixes]
        return dict(zip(found, self.coef_.tolist(), strict=True))

    def _frame_names(self) -> list[str]:
        return [str(name) for name in getattr(self, "feature_names_in_", [])]

    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        return self._frame_names(), {
            "classes": self._answers.to_list(),
            "flat": self._answers.flat,
            "edges": self.edges_.tolist(),
            "n_features": self.n_features_in_,
        }

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        assert layout is not None
        self.coef_ = coef
        self.n_features_in_ = layout["n_features"]
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._take_answers(Answers(layout["classes"], layout["flat"]))
        self._take_edges(layout["edges"])

    # ------------------------------------------------------------------ prediction
    def _scores(self, X: Any, offset: Any = None) -> tuple[Floats, Floats]:
        """Fields (n_samples, n_labels) and couplings, (n_samples, n_edges) or (1, n_edges)."""
        fields, couplings = self._weights
        X = self._read_features(X, reset=False)
        shift = _read_offset(offset, X.shape[0], len(fields))
        constant = self.couplings == "constant"
        found = self._linear(X, fields)
        return (
            found if shift is None else found + shift,
            couplings.T if constant else self._linear(X, couplings),
        )

    def _linear(self, X: Any, weights: Floats) -> Floats:
        """Products of features and weights, whose constant comes last."""
        found = np.asarray(X @ np.ascontiguousarray(weights[:, : X.shape[1]].T))
        return found + weights[:, -1] if self.fit_intercept else found

    def _given(self, X: Any, known: Any, offset: Any) -> Part:
        """Scores of samples and what is known of them."""
        fields, couplings = self._scores(X, offset)
        if known is not None:
            known = self._answers.encode(known, "known", len(fields), partly=True)
        return fields, couplings, known

    def predict(self, X: Any, known: Any = None, *, offset: Any = None) -> Any:
        """The labels of each sample, chosen as `decision` says; shape (n_samples, n_labels)."""
        states = self._decide(self._given(X, known, offset))
        return self._answers.decode(states)

    def _decide(self, samples: Part) -> Ints:
        self._check_choices()
        if self.decision == "map":
            found = self._each(lambda part: self._model.best(*part)[0], self._parts(*samples))
            return np.concatenate(found)
        p = self._node_marginals(*samples)
        return expected_f1_sets(p) if self.decision == "f1" else (p > 0.5).astype(np.int64)

    def predict_proba(
        self,
        X: Any,
        known: Any = None,
        tol: float = 1e-6,
        method: str = "auto",
        *,
        offset: Any = None,
        **options: Any,
    ) -> Floats:
        """P(second class) of every label given the known answers, shape (n_samples, n_labels).

        tol : gap to which reweighted marginals are solved, per label
        method, options : of `mlestruct.inference.marginals`; "auto" is what `inference` says

        A model of one label, fitted to Y of shape (n_samples,), gives both classes.
        """
        p = self._node_marginals(*self._given(X, known, offset), tol, method, options)
        return np.concatenate([1.0 - p, p], axis=1) if self._answers.flat else p

    predict_marginals = predict_proba  # the name that all estimators have

    def predict_joint(
        self, X: Any, k: int = 5, known: Any = None, *, offset: Any = None
    ) -> JointPrediction:
        """The k most probable label sets of each sample and their probabilities.

        If fewer than k sets are possible the rest has probability 0. Needs exact inference.
        """
        samples = self._given(X, known, offset)
        tree = self._exact_tree("predict_joint")
        count = min(as_count(k, "k"), 2 ** len(self._answers))
        parts = self._parts(*samples)
        found = self._each(lambda part: most_probable_sets(tree, *part, count), parts)
        states, probabilities = (np.concatenate(side) for side in zip(*found, strict=True))
        return JointPrediction(self._answers.decode(states), probabilities)

    def sample(
        self,
        X: Any,
        n_samples: int = 1,
        *,
        known: Any = None,
        offset: Any = None,
        random_state: Any = None,
    ) -> NDArray[Any]:
        """Label sets drawn from p(y | x), shape (n_samples, len(X), n_labels); exact inference."""
        fields, couplings, given = self._given(X, known, offset)
        tree, rng = self._exact_tree("sample"), generator(random_state)
        count = as_count(n_samples, "n_samples")
        drawn = [tree.sample(fields, couplings, rng, given) for _ in range(count)]
        return self._answers.decode(np.stack(drawn))

    # ------------------------------------------------------------------ evaluation
    def log_likelihood(self, X: Any, Y: Any, *, known: Any = None, offset: Any = None) -> Floats:
        """Exact log p(y | x) of each sample; given `known` answers, log p of the others."""
        check_is_fitted(self, "coef_")
        self._exact_tree("log_likelihood")
        return self.log_likelihood_bounds(X, Y, known=known, offset=offset)[0]

    def log_likelihood_bounds(
        self, X: Any, Y: Any, tol: float = 1e-6, *, known: Any = None, offset: Any = None
    ) -> Bounds:
        """Proven bounds of log p(y | x) of each sample; equal with exact inference.

        `tol` is the gap to which the bounds of log Z are solved, per label. Given `known` answers,
        which must agree with Y, log p of the others.
        """
        samples = self._given(X, known, offset)
        states = self._answers.encode(Y, "Y", len(samples[0]))
        return self._likelihood_bounds(states, *samples, tol)

    def approximate_log_likelihood(
        self, X: Any, Y: Any, tol: float = 1e-6, *, known: Any = None, offset: Any = None
    ) -> Floats:
        """The lower one of `log_likelihood_bounds`: what `fit` maximises, without the penalty."""
        return self.log_likelihood_bounds(X, Y, tol, known=known, offset=offset)[0]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """1 - mean Hamming loss: the share of labels that are predicted correctly."""
        found = self._decide(self._given(X, None, offset))
        right = (found == self._answers.encode(y, "y", len(found))).mean(axis=1)
        return float(np.average(right, weights=sample_weight))

    def events(self, X: Any, Y: Any, *, offset: Any = None) -> Events:
        """Which labels were observed and their probabilities, for scikit-learn's metrics."""
        samples = self._given(X, None, offset)
        states = self._answers.encode(Y, "Y", len(samples[0]))
        return as_events(states, self._node_marginals(*samples))


def _with_constant(X: Any) -> Any:
    """Features and a constant column, dense or sparse."""
    column = np.full((X.shape[0], 1), CONSTANT_SCALE, dtype=X.dtype)
    if sparse.issparse(X):
        return sparse.hstack([X, sparse.csr_array(column)], format="csr")
    return np.concatenate([X, column], axis=1)


def _read_offset(offset: Any, n_samples: int, n_labels: int) -> Floats | None:
    """Offsets of all samples, shape (n_samples, n_labels)."""
    if offset is None:
        return None
    array = np.asarray(offset, dtype=np.float64)
    shape = (n_samples, n_labels)
    flat = n_labels == 1 and array.shape == (n_samples,)
    if array.shape not in (shape, (n_labels,)) and not flat:
        raise ValueError(f"offset: expected shape {shape} or ({n_labels},), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("offset: must be finite; for an answer that is certain use known")
    return np.broadcast_to(array[:, None] if flat else array, shape)


# ---------------------------------------------------------------------- decisions
def most_probable_sets(
    tree: BinaryJunctionTree, fields: Floats, couplings: Floats, known: Ints | None, k: int
) -> tuple[Ints, Floats]:
    """States of shape (n_samples, k, n_nodes), best first, and probabilities (n_samples, k).

    After the best labelling of a part of all labellings is taken, the rest of the part splits into
    those that agree with it on the first nodes and differ at the next one (Lawler 1972).
    Where known states leave fewer than k labellings, the rest repeats the best with probability 0.
    """
    n = fields.shape[0]
    start = np.full(fields.shape, UNKNOWN, dtype=np.int64) if known is None else known
    log_z = tree.marginals(fields, couplings, known).log_partition
    first, scores = tree.best(fields, couplings, known)
    # Parts by sample: (-score, number, states, what is fixed, nodes that may still differ).
    heaps: list[list[Any]] = [
        [(-scores[m], 0, first[m], start[m], np.flatnonzero(start[m] == UNKNOWN))] for m in range(n)
    ]
    states, probabilities = np.repeat(first[:, None], k, axis=1), np.zeros((n, k))
    number = 0
    for rank in range(k):
        owners, fixed, remaining = [], [], []
        for m, heap in enumerate(in_time(heaps, "the most probable labellings")):
            if not heap:
                continue
            score, _, found, given, free = heapq.heappop(heap)
            states[m, rank], probabilities[m, rank] = found, np.exp(min(-score - log_z[m], 0.0))
            if rank + 1 == k:
                continue
            given = given.copy()
            for place, node in enumerate(free):
                part = given.copy()
                part[node] = 1 - found[node]
                given[node] = found[node]
                owners.append(m)
                fixed.append(part)
                remaining.append(free[place + 1 :])
        if not owners:
            continue
        parts = np.array(fixed)
        own = couplings if couplings.shape[0] == 1 else couplings[owners]
        best, scores = tree.best(fields[owners], own, parts)
        found_parts = zip(owners, best, scores, parts, remaining, strict=True)
        for m, labels, score, part, free in in_time(found_parts, "the most probable labellings"):
            number += 1
            heapq.heappush(heaps[m], (-score, number, labels, part, free))
    return states, probabilities


def expected_f1_sets(p: Floats) -> Ints:
    """The set of labels with the largest expected F1, for each row of probabilities.

    F1 of a predicted set against the true one is 2 |both| / (|predicted| + |true|), and 1 if both
    are empty. With independent labels the best set of k labels has the k most probable ones;
    its expectation follows from the distribution of the number of other true labels (Ye, Chai, Lee
    and Chieu 2012).

    >>> expected_f1_sets(np.array([[0.4, 0.35, 0.05], [0.9, 0.1, 0.1]]))
    array([[1, 1, 0],
           [1, 0, 0]])
    """
    n, size = p.shape
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    best, chosen = np.prod(1.0 - p, axis=1), np.zeros(n, dtype=np.int64)  # the empty set
    inside = np.zeros((n, size + 1))  # distribution of the number of true labels in the set
    inside[:, 0] = 1.0
    for k in range(1, size + 1):
        inside = _with_label(inside, ranked[:, k - 1])
        outside = np.zeros((n, size + 1))
        outside[:, 0] = 1.0
        for j in range(k, size):
            outside = _with_label(outside, ranked[:, j])
        hits, misses = np.arange(k + 1), np.arange(size - k + 1)
        f1 = 2.0 * hits[:, None] / (k + hits[:, None] + misses[None, :])
        value = np.einsum("na,ab,nb->n", inside[:, : k + 1], f1, outside[:, : size - k + 1])
        better = value > best
        best[better], chosen[better] = value[better], k
    rank = np.argsort(order, axis=1)
    return (rank < chosen[:, None]).astype(np.int64)


def _with_label(counts: Floats, p: Floats) -> Floats:
    """The distribution of a count after one more label of probability p."""
    found = counts * (1.0 - p)[:, None]
    found[:, 1:] += counts[:, :-1] * p[:, None]
    return found
