"""`MultiLabelCRF`: several yes/no answers per sample, predicted jointly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from .._arrays import check_unmasked
from .._deadline import in_time
from .._random import generator
from ..exceptions import TooLargeToCount
from ..features.multi_label import MultiLabelFeatures
from ..features.rows import DenseRows, FeatureRows, SparseRows
from ..labels.label_sets import LabelSets
from ..learning.checkpoint import Checkpoint
from ..learning.problem import Block, DualProblem
from ..learning.result import Progress
from ..metrics.events import Events, as_events
from ..structures.contract import Vertex
from .binary import CONSTANT_SCALE, BinaryEstimator, all_pairs, check_agreement, read_graph
from .expected_f1 import expected_f1_sets
from .k_best import most_probable_sets
from .neighbourhoods import select_neighbourhoods
from .validation import (
    check_count,
    check_finite,
    check_positive,
    check_ratio,
    check_share,
    check_weights,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DECISIONS = ("map", "marginal", "f1")


class JointPrediction(NamedTuple):
    """Most probable label sets, best first.

    labels : ndarray of shape (n_samples, k, n_labels)
    probabilities : ndarray of shape (n_samples, k)
    """

    labels: NDArray[Any]
    probabilities: Floats


class WithOffset(NamedTuple):
    """Features of training samples, and scores of their labels that are not learned."""

    features: Any
    offset: Any


class Part(NamedTuple):
    """Scores of some samples, and what is known of them."""

    fields: Floats
    couplings: Floats
    known: Ints | None


class MultiLabelCRF(ClassifierMixin, BinaryEstimator):
    """Multi-label classification with coupled labels, by maximum likelihood.

        p(y | x)  ~  exp( sum_l y_l (w_l . x + b_l) + sum over edges of y_i y_j c_ij )

    Parameters
    ----------
    graph : "full", "tree", "none", "l1", or array of shape (n_edges, 2)
        Which labels are coupled: all pairs, the pairs of a Chow-Liu tree, none (independent
        logistic regressions), those that l1-penalised logistic regressions of every label on the
        others and on its prediction from the features select, or the listed pairs.
    alpha : float
        Regularisation alpha/2 |theta|^2 on the summed log-likelihood; intercepts are divided by 10.
    couplings : "constant" or "features"
        Whether c_ij is a number or, as w_l . x + b_l, depends on the features.
    fit_intercept : bool
    inference : "auto", "exact" or "reweighted"
        "exact": marginals and likelihoods by a junction tree. "reweighted": the tree-reweighted
        entropy, whose likelihood bounds the exact one from below. "auto": exact where tables of one
        sample have at most 2^20 entries (any tree; 20 labels that are all coupled).
    rho : "auto", "uniform", float or array of shape (n_edges,)
        Edge weights of the reweighted entropy, as in `GraphCRF`. Anything but "auto" asks for
        reweighted marginals.
    decision : "map", "marginal" or "f1"
        What `predict` returns: the most probable set, all labels of probability above
        `threshold`, or the set of the largest expected F1 for independent labels of these
        probabilities.
    threshold : float
    solver : "auto", "lbfgs", or a solver object; reweighted marginals also "bcfw", "fw"
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter, max_time, l1_ratio, warm_start, callback, n_jobs, random_state, verbose :
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
    objective_, duality_gap_, converged_, history_, n_iter_, n_oracle_calls_, solver_ :
        as in `GraphCRF`
    n_features_in_, feature_names_in_

    Notes
    -----
    X has the shape (n_samples, n_features), dense or SciPy sparse. Y has the shape (n_samples,
    n_labels); entries are 0 and 1, or two classes per column. Features of similar scale help.

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
        graph: Any = "full",
        alpha: float = 1.0,
        couplings: str = "constant",
        fit_intercept: bool = True,
        inference: str = "auto",
        rho: Any = "auto",
        decision: str = "map",
        threshold: float = 0.5,
        solver: Any = "auto",
        tol: float = 1e-3,
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
        self.couplings = couplings
        self.fit_intercept = fit_intercept
        self.inference = inference
        self.rho = rho
        self.decision = decision
        self.threshold = threshold
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
        y: Any,
        sample_weight: Any = None,
        *,
        offset: Any = None,
        checkpoint: str | Path | Checkpoint | None = None,
    ) -> MultiLabelCRF:
        """Learn from features X, (n_samples, n_features), and answers y, (n_samples, n_labels).

        offset : array of shape (n_samples, n_labels) or (n_labels,), optional
            Log-odds of the second class that are known beforehand: added to w_l . x + b_l and
            not learned. Methods for new samples take theirs.
        checkpoint : folder or `Checkpoint`, optional
            Where the state of the fit is kept, to continue from.
        """
        given = X if offset is None else WithOffset(X, offset)
        super().fit(given, y, sample_weight, checkpoint=checkpoint)
        return self

    def build_problem(
        self, X: Any, Y: Any, sample_weight: Any = None, *, separate: bool = False
    ) -> DualProblem:
        """The learning problem; learns the classes and the graph.

        With `separate` every sample is a block of its own; else those of equal weight share some.
        """
        X, offset = X if isinstance(X, WithOffset) else (X, None)
        check_positive(self.tol, "tol")
        alpha = check_positive(self.alpha, "alpha")
        kinds = ("constant", "features")
        if self.couplings not in kinds:
            raise ValueError(f"couplings: expected one of {list(kinds)}, got {self.couplings!r}")
        self._check_decision()
        if Y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        features = self._read_features(X)
        check_finite(features.data if sparse.issparse(features) else features, "X")
        label_sets = LabelSets.learn(Y)
        states = label_sets.encode(Y)
        if states.shape[0] != features.shape[0]:
            raise ValueError(f"X has {features.shape[0]} samples but Y has {states.shape[0]} rows")
        self._take_classes(label_sets)
        weights = check_weights(sample_weight, states.shape[0])
        shift = _read_offset(offset, *states.shape)
        pairs = all_pairs(states.shape[1])
        graph = self._choose_graph(
            states, weights, pairs, lambda: self._select(features, states, weights, shift)
        )
        self._take_graph(graph)
        blocks = self._blocks(features, states, weights, separate, shift)
        return DualProblem(blocks, alpha, check_ratio(self.l1_ratio))

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

    def _select(self, X: Any, states: Ints, weights: Floats, offset: Floats | None) -> Ints:
        """Edges that an l1 penalty selects beside what the features predict."""
        apart = clone(self).set_params(graph="none", warm_start=False, callback=None)
        predictions = apart.fit(X, states, weights, offset=offset)._scores(X, offset)[0]
        return select_neighbourhoods(
            states, weights, predictions=predictions, n_jobs=self.n_threads()
        )

    def _take_classes(self, label_sets: LabelSets) -> None:
        self._label_sets = label_sets
        self.classes_: Any = label_sets.classes[0] if label_sets.flat else label_sets.classes

    def _blocks(
        self, X: Any, Y: Any, weights: Floats, separate: bool, offset: Floats | None = None
    ) -> list[Block]:
        graph, n_labels, blocks = self._model.graph, Y.shape[1], []
        for weight in np.unique(weights[weights > 0]):
            of_weight = np.flatnonzero(weights == weight)
            parts = list(of_weight[:, None])
            if not separate:
                parts = [of_weight[c] for c in self._model.chunks(len(of_weight))]
            for part in in_time(parts, "the samples of X"):
                states = Y[part]
                both = states[:, graph.tail] * states[:, graph.head]
                tau = np.concatenate([states.ravel(), both.ravel()]).astype(np.float64)
                on = np.flatnonzero(tau)
                space = self._model.space(part.size)
                features = self._features(X[part], n_labels, CONSTANT_SCALE)
                shift = None
                if offset is not None:
                    shift = np.concatenate([offset[part].ravel(), np.zeros(both.size)])
                blocks.append(Block(space, features, Vertex(on, tau[on]), float(weight), shift))
        return blocks

    def _features(self, X: Any, n_labels: int, constant: float = 1.0) -> MultiLabelFeatures:
        rows = _rows(X, constant if self.fit_intercept else None)
        edge_rows = rows if self.couplings == "features" else None
        return MultiLabelFeatures(rows, n_labels, self._model.graph.n_edges, edge_rows)

    def _prepare(self, X: Any) -> list[Block]:
        nothing = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))
        return [
            Block(
                self._model.space(c.stop - c.start),
                self._features(X[c], len(self._label_sets)),
                nothing,
            )
            for c in self._model.chunks(X.shape[0])
        ]

    def _full_coef(self, theta: Floats) -> Floats:
        """Weights of the constant 1 instead of the scaled one."""
        if not self.fit_intercept:
            return theta
        size = self.n_features_in_ + 1
        scales = np.where(np.arange(theta.size) % size == size - 1, CONSTANT_SCALE, 1.0)
        if self.couplings == "constant":
            scales[len(self._label_sets) * size :] = 1.0
        return theta * scales

    # ------------------------------------------------------------------ what was learned
    @property
    def _weights(self) -> tuple[Floats, Floats]:
        check_is_fitted(self, "coef_")
        n_weights = len(self._label_sets) * (self.n_features_in_ + bool(self.fit_intercept))
        fields = self.coef_[:n_weights].reshape(len(self._label_sets), -1)
        size = fields.shape[1] if self.couplings == "features" else 1
        return fields, self.coef_[n_weights:].reshape(self.edges_.shape[0], size)

    @property
    def node_coef_(self) -> Floats:
        """Weights of the features, shape (n_labels, n_features)."""
        return self._weights[0][:, : self.n_features_in_]

    @property
    def intercept_(self) -> Floats:
        """Shape (n_labels,)."""
        if not self.fit_intercept:
            return np.zeros(len(self._label_sets))
        return self._weights[0][:, -1]

    @property
    def edge_coef_(self) -> Floats:
        """Couplings, shape (n_edges,); by features (n_edges, n_features + 1), the last constant."""
        found = self._weights[1]
        return found[:, 0] if self.couplings == "constant" else found

    def named_coef(self) -> dict[str, float]:
        """Learned weights by name: "label:feature", and "label-label" of coupled ones."""
        fields, couplings = self._weights
        given = getattr(self, "feature_names_in_", None)
        names = list(given) if given is not None else [f"x{k}" for k in range(self.n_features_in_)]
        names += ["1"] * bool(self.fit_intercept)
        found = {
            f"{label}:{name}": float(fields[label, k])
            for label in range(len(fields))
            for k, name in enumerate(names)
        }
        for (i, j), row in zip(self.edges_.tolist(), couplings, strict=True):
            suffixes = [""] if self.couplings == "constant" else [f":{name}" for name in names]
            found |= {f"{i}-{j}{s}": float(value) for s, value in zip(suffixes, row, strict=True)}
        return found

    def _learned_names(self) -> tuple[list[str], dict[str, Any] | None]:
        given = getattr(self, "feature_names_in_", None)
        layout = {
            "classes": self._label_sets.to_list(),
            "flat": self._label_sets.flat,
            "edges": self.edges_.tolist(),
            "n_features": self.n_features_in_,
        }
        return [] if given is None else [str(name) for name in given], layout

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        assert layout is not None
        self.coef_ = coef
        self.n_features_in_ = layout["n_features"]
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._take_classes(LabelSets(layout["classes"], layout["flat"]))
        self._take_graph(read_graph(layout["edges"], len(self._label_sets)))

    # ------------------------------------------------------------------ prediction
    def _scores(self, X: Any, offset: Any = None) -> tuple[Floats, Floats]:
        """Fields (n_samples, n_labels) and couplings, (n_samples, n_edges) or (1, n_edges)."""
        check_is_fitted(self, "coef_")
        features = self._read_features(X, reset=False)
        n_labels = len(self._label_sets)
        fields, couplings = self._features(features, n_labels).fields_and_couplings(self.coef_)
        shift = _read_offset(offset, fields.shape[0], n_labels)
        return fields if shift is None else fields + shift, couplings

    def _parts(self, X: Any, known: Any, offset: Any) -> list[Part]:
        """Scores of samples and what is known of them, in chunks for threads."""
        fields, couplings = self._scores(X, offset)
        return self._split(fields, couplings, self._known(known, fields.shape[0]))

    def _known(self, known: Any, n_samples: int) -> Ints | None:
        if known is None:
            return None
        states = self._label_sets.encode(known, "known", partly=True)
        if states.shape[0] != n_samples:
            raise ValueError(f"known has {states.shape[0]} rows, but X has {n_samples} samples")
        return states

    def _split(self, fields: Floats, couplings: Floats, known: Ints | None) -> list[Part]:
        """Chunks of samples, for threads."""
        return [
            Part(
                fields[c],
                couplings if couplings.shape[0] == 1 else couplings[c],
                None if known is None else known[c],
            )
            for c in self._model.chunks(fields.shape[0])
        ]

    def predict(self, X: Any, known: Any = None, *, offset: Any = None) -> Any:
        """The labels of each sample, chosen as `decision` says; shape (n_samples, n_labels).

        known : array of shape (n_samples, n_labels), optional
            Answers that are given, -1 (or NaN, None) elsewhere; the others are predicted from them.
        offset : array of shape (n_samples, n_labels) or (n_labels,), optional, as in `fit`
        """
        self._check_decision()
        if self.decision == "map":
            parts = self._parts(X, known, offset)
            found = self._each(lambda p: self._model.best(p.fields, p.couplings, p.known)[0], parts)
            states = np.concatenate(found)
        else:
            p = self._probabilities(X, known, offset)
            f1 = self.decision == "f1"
            states = expected_f1_sets(p) if f1 else (p > self.threshold).astype(np.int64)
        return self._label_sets.decode(states)

    def _check_decision(self) -> None:
        """In `fit` and in `predict`, as a fitted model may be told to decide otherwise."""
        if self.decision not in DECISIONS:
            raise ValueError(f"decision: expected one of {list(DECISIONS)}, got {self.decision!r}")
        check_share(self.threshold, "threshold")

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
        """P(second class) of every label, shape (n_samples, n_labels).

        known, offset : as in `predict`; probabilities are those given the known answers
        tol : gap to which reweighted marginals are solved, per label
        method, options : of `mlestruct.inference.marginals`; "auto" is what `inference` says

        A model of one label, fitted to y of shape (n_samples,), gives those of both classes.
        """
        p = self._probabilities(X, known, offset, tol, method, options)
        return np.concatenate([1.0 - p, p], axis=1) if self._label_sets.flat else p

    predict_marginals = predict_proba

    def _probabilities(
        self,
        X: Any,
        known: Any,
        offset: Any,
        tol: float = 1e-6,
        method: str = "auto",
        options: dict[str, Any] | None = None,
    ) -> Floats:
        """P(second class), shape (n_samples, n_labels)."""
        parts = self._parts(X, known, offset)
        chosen = check_positive(tol, "tol"), method, options or {}
        return np.concatenate(self._each(lambda p: self._node_marginals(*p, *chosen), parts))

    def predict_joint(
        self, X: Any, k: int = 5, known: Any = None, *, offset: Any = None
    ) -> JointPrediction:
        """The k most probable label sets of each sample and their probabilities.

        Where fewer than k sets are possible the rest has probability 0. Needs exact inference.
        """
        parts = self._parts(X, known, offset)
        tree = self._exact_tree("predict_joint")
        count = min(check_count(k, "k"), 2 ** len(self._label_sets))

        def one(part: Part) -> tuple[Ints, Floats]:
            return most_probable_sets(tree, part.fields, part.couplings, part.known, count)

        found = self._each(one, parts)
        states, probabilities = (np.concatenate(side) for side in zip(*found, strict=True))
        return JointPrediction(self._label_sets.decode(states), probabilities)

    def sample(
        self,
        X: Any,
        n_samples: int = 1,
        *,
        known: Any = None,
        offset: Any = None,
        random_state: Any = None,
    ) -> NDArray[Any]:
        """Label sets drawn from p(y | x), shape (n_samples, len(X), n_labels); exact inference.

        `known` and `offset` are as in `predict`.
        """
        fields, couplings = self._scores(X, offset)
        given = self._known(known, fields.shape[0])
        tree, rng = self._exact_tree("sample"), generator(random_state)
        count = check_count(n_samples, "n_samples")
        drawn = [tree.sample(fields, couplings, rng, given) for _ in range(count)]
        return self._label_sets.decode(np.stack(drawn))

    def _exact_tree(self, purpose: str) -> Any:
        if self._model.tree is None:
            raise TooLargeToCount(
                f"{purpose} needs exact inference, and this model has reweighted marginals (graph "
                f"of {self.edges_.shape[0]} edges, inference={self.inference!r}); a sparser graph, "
                "such as graph='tree', allows it"
            )
        return self._model.tree

    # ------------------------------------------------------------------ evaluation
    def log_likelihood(self, X: Any, Y: Any, *, known: Any = None, offset: Any = None) -> Floats:
        """Exact log p(y | x) of each sample; see `log_likelihood_bounds` where it is not known.

        With `known` answers, as in `predict`, log p of the others given these; Y must agree.
        """
        self._exact_tree("log_likelihood")
        return self.log_likelihood_bounds(X, Y, known=known, offset=offset)[0]

    def log_likelihood_bounds(
        self, X: Any, Y: Any, tol: float = 1e-6, *, known: Any = None, offset: Any = None
    ) -> tuple[Floats, Floats]:
        """Proven bounds of log p(y | x) of each sample; equal with exact inference.

        `tol` is the gap to which the bounds of log Z are solved, per label; `known` and `offset`
        are as in `log_likelihood`.
        """
        fields, couplings = self._scores(X, offset)
        states = self._label_sets.encode(Y)
        if states.shape[0] != fields.shape[0]:
            raise ValueError(f"X has {fields.shape[0]} samples but Y has {states.shape[0]} rows")
        given = self._known(known, fields.shape[0])
        if given is not None:
            check_agreement(given, states)
        tol = check_positive(tol, "tol")

        def bounds(part: Part) -> tuple[Floats, Floats]:
            return self._model.log_partition_bounds(part.fields, part.couplings, tol, part.known)

        scores = self._model.scores_of(states, fields, couplings)
        return self._bounds_of(scores, bounds, self._split(fields, couplings, given))

    def approximate_log_likelihood(
        self, X: Any, Y: Any, tol: float = 1e-6, *, known: Any = None, offset: Any = None
    ) -> Floats:
        """The lower one of `log_likelihood_bounds`: what `fit` maximises, without the penalty."""
        return self.log_likelihood_bounds(X, Y, tol, known=known, offset=offset)[0]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """1 - mean Hamming loss: the share of labels that are predicted correctly."""
        found = self._label_sets.encode(self.predict(X, offset=offset))
        states = self._label_sets.encode(y, "y")
        if states.shape != found.shape:
            raise ValueError(f"X has {found.shape[0]} samples but y has {states.shape[0]} rows")
        return float(np.average((found == states).mean(axis=1), weights=sample_weight))

    def events(self, X: Any, Y: Any, *, offset: Any = None) -> Events:
        """Which labels were observed and their probabilities, for scikit-learn's metrics."""
        states = self._label_sets.encode(Y)
        return as_events(states, self._probabilities(X, None, offset))


def _rows(X: Any, constant: float | None) -> FeatureRows:
    """Features of samples as rows, with a constant one if there is an intercept."""
    if constant is None:
        return SparseRows(X) if sparse.issparse(X) else DenseRows(X)
    column = np.full((X.shape[0], 1), constant, dtype=X.dtype)
    if sparse.issparse(X):
        return SparseRows(sparse.hstack([X, sparse.csr_array(column)], format="csr"))
    return DenseRows(np.concatenate([X, column], axis=1))


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
