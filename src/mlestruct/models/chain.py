"""`ChainCRF`: learn to label sequences from labelled ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._deadline import in_time
from ..features.contract import Columns, FeatureMap
from ..features.dictionaries import Vocabulary, describes_tokens
from ..labels import UNKNOWN
from ..learning.block_frank_wolfe import BlockCoordinateDescent
from ..learning.problem import Block
from ..learning.result import Progress, one_blas_thread
from ..structures.sequences import Sequences
from .labelling import LabellingEstimator, observed_in
from .node_input import NodeInput, split_offsets, with_offsets
from .partitioned import over_partitions
from .probabilities import exact_log_likelihood
from .tokens import (
    Forest,
    Piece,
    Tokens,
    cut,
    forest,
    node_tables,
    read_sequences,
    with_stand_ins,
)
from .transitions import Forbidden, read_forbidden
from .validation import (
    check_columns,
    check_positive,
    check_same_length,
    check_samples,
    column_names,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Pairs of states of neighbouring tokens, a nanosecond each: below, reading and waiting for the GIL
# take longer than what threads share.
FEW_STEPS = 10**8


class ChainCRF(LabellingEstimator):
    """Conditional random field over label sequences (linear chain).

    p(y | x) is proportional to exp(sum over tokens t of <F[y_t], x_t> + sum over neighbours of
    G[y_t, y_t+1]). The weights maximise the log-likelihood of the observed sequences minus
    alpha/2 |weights|^2, with a duality-gap certificate. On chains the Bethe entropy (rho = 1) is
    exact, so likelihoods and marginals are exact as well and there is no rho to choose.

    Parameters
    ----------
    alpha : float
        Regularisation, on the summed log-likelihood.
    solver : "auto", "lbfgs", "bcfw", "fw", or a solver object
        "fw" and "bcfw" need only Viterbi decoding; `learning.BlockFrankWolfe.paper()` is the
        algorithm as printed in the paper.
    tol : float
        Stop when the duality gap is at most tol * max(1, |objective|).
    max_iter : int
        Iterations (for "bcfw": passes over the samples).
    max_time : float, optional
        Seconds after which to stop, set-up included.
    n_states : int, optional
        The states are 0 .. n_states-1, whether they occur in Y or not; by default those that do.
    unknown : int, str or NaN, optional
        The label that means "not known", beside None. By default -1 where the other labels are
        0, 1, ... without a gap; a warning tells if that was assumed.
    missing : "drop" or "marginalise"
        What becomes of tokens without a label: left out of the likelihood, with their edges; or
        summed over, which learns from log Z(x, labels) - log Z(x) by rounds of certified fits that
        start from the first (`likelihood_path_` has its value after each).
    fit_intercept : bool
        Learn a constant for each state, unless a feature is constant already. By default there is
        none, as in crfsuite: scores of transitions say how frequent states are.
    standardize : bool
        Penalise the weights of standardised features: divided by their standard deviation, those of
        nodes also centred if there are constants. `coef_` is in the original units.
    feature_names : sequence of str, optional
        Names of the C columns of X; dictionaries bring their own.
    state_features : "all" or "observed"
        Which pairs of a state and a feature have a weight: all, or those that occur in the training
        data; the others are 0. crfsuite's feature.possible_states = True and False. What a
        dictionary or a sparse matrix stores occurs, even with the value 0 or False.
    transitions : "all" or "observed"
        The same for pairs of neighbouring states: crfsuite's feature.possible_transitions.
    forbidden_transitions : "BIO" (or "IOB2"), or list of pairs of labels (from, to), optional
        Sequences with such neighbours have probability 0, in `fit` as in predictions; None as
        `from` stands for the beginning. "BIO": I-x follows only B-x or I-x. "observed" transitions,
        by contrast, forbid nothing: the weights of the others are 0. Samples whose length or
        `known` labels leave no allowed sequence are an error, in `fit` as in predictions;
        `log_likelihood` of labels that are not allowed is -inf.
    l1_ratio : float
        Share of the penalty on the absolute values of the weights, 0 to less than 1; then some
        weights are 0. The penalty is alpha * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2).
    warm_start : bool
        Start from the previous fit of this object.
    callback : callable, optional
        Called with a `Progress` at every certificate; returning True stops.
    n_jobs : int, optional
        Threads over groups of sequences.
    random_state : int, RandomState, Generator or None
    verbose : int
        1 shows a progress bar with the gap.

    Attributes
    ----------
    node_coef_ : ndarray of shape (n_states, C)
    transition_coef_ : ndarray of shape (n_states, n_states), from row to column
    edge_coef_ : ndarray of shape (n_states, n_states, D), where there are edge features
    coef_ : all of them in a row
    classes_ : ndarray of shape (n_states,), the label of each state
    state_features_, transition_features_ : dict, the weights that are not 0 by (feature, label) and
        by (label, next label)
    objective_ : float, an upper bound of the best attainable regularised log-likelihood
    duality_gap_ : float, absolute: coef_ is within it of that best value
    converged_ : bool
    history_ : History with seconds, oracle_calls, dual, primal, gap, fw_gap; `.to_frame()`
    n_iter_, n_oracle_calls_, solver_, n_features_in_, feature_names_in_

    Notes
    -----
    X is a sequence of samples, each an array, data frame or SciPy sparse matrix (T, C), a list or
    tuple of T dictionaries or lists of strings as sklearn-crfsuite takes them, or a pair (one of
    these, edge features of shape (T-1, D)); edge features replace the constant 1 whose weights are
    the transition scores, so give them a constant column if transitions matter by themselves. In
    dictionaries {"word": "Main", "length": 4} is the feature word:Main with value 1 and length with
    4; False counts as absent, nested dictionaries are joined by colons, and features that were not
    there in training are ignored. crfsuite's penalty c2 is alpha / 2.

    Y holds for each sample an array (T,) of labels, integers or strings. Tokens whose label is
    `unknown` are left out of the likelihood, and the chain is cut there; None in place of an array
    means that no label of the sample is known. Predictions cover all tokens. Empty sequences
    have empty labels, and nothing is learned from them. alpha acts on the summed likelihood: with
    ten times the samples, ten times the alpha has the same effect.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import ChainCRF
    >>> rng = np.random.default_rng(0)
    >>> Y = [np.repeat(rng.integers(3, size=4), 3) for _ in range(30)]
    >>> X = [np.eye(3)[y] + 0.5 * rng.normal(size=(12, 3)) for y in Y]
    >>> model = ChainCRF(alpha=1.0).fit(X, Y)
    >>> bool(model.converged_), bool((np.diag(model.transition_coef_) > 0).all())
    (True, True)
    >>> model.score(X, Y) > 0.8
    True
    """

    _part, _entries = "token", "label sequences"

    def __init__(
        self,
        alpha: float = 1.0,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_states: int | None = None,
        unknown: Any = None,
        missing: str = "drop",
        fit_intercept: bool = False,
        standardize: bool = False,
        feature_names: Sequence[str] | None = None,
        state_features: str = "all",
        transitions: str = "all",
        forbidden_transitions: Any = None,
        l1_ratio: float = 0.0,
        warm_start: bool = False,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.alpha = alpha
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_states = n_states
        self.unknown = unknown
        self.missing = missing
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.feature_names = feature_names
        self.state_features = state_features
        self.transitions = transitions
        self.forbidden_transitions = forbidden_transitions
        self.l1_ratio = l1_ratio
        self.warm_start = warm_start
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ blocks
    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, separate: bool
    ) -> list[Block]:
        options = {"state_features": self.state_features, "transitions": self.transitions}
        for name, value in options.items():
            if value not in ("all", "observed"):
                raise ValueError(f"{name}: expected 'all' or 'observed', got {value!r}")
        X, Y = _without_empty(X, Y)
        vocabulary = Vocabulary(self._agreement["names"] if self._in_partition else ())
        observed_only = self.state_features == "observed"
        X, offsets = split_offsets(X)
        samples = read_sequences(X, vocabulary, learn=True, keep_zeros=observed_only)
        for m, label in enumerate(Y):
            if np.isscalar(label):
                raise ValueError(
                    f"Y[{m}]: expected a label for every token of X[{m}], got the one label "
                    f"{label!r:.60}"
                )
        states = self._learn_states(Y)
        forbidden = read_forbidden(self.forbidden_transitions, states, learn=True)
        samples = _with_offsets(samples, offsets, forbidden, len(states))
        labels = states.encode_all(Y, [tokens.length for tokens in samples], "Y")
        if forbidden is not None:
            for m, own in enumerate(labels):
                forbidden.check(own, f"Y[{m}]", states.classes)
        if self._marginalises() and "observed" in options.values():
            raise ValueError("missing='marginalise' sums over all states: no 'observed' weights")
        pieces = self._pieces(samples, labels)
        self._restore(
            {
                "classes": states.to_list(),
                "n_node_features": int(samples[0].nodes.shape[1]),
                "n_edge_features": samples[0].n_edge_features,
                "names": list(vocabulary.columns) or None,
                "columns": None if vocabulary.columns else column_names(node_tables(X)),
            }
        )
        self._states = states
        forests = []
        known: dict[tuple[int, ...], Sequences] = {}  # sequences of one length share their space
        occurring: list[Bools] = []
        for group in self._groups(pieces, weights, separate):
            parts = [piece for m in group for piece in pieces[m]]
            tokens = [piece.tokens for piece in parts]
            found = forest(tokens, len(states), known)
            labelling = np.concatenate([piece.states for piece in parts])
            if "observed" in options.values():
                occurring.append(found.features.occurring(labelling, found.chains.tails))
            forests.append((found, labelling, weights[group[0]]))
        if not forests and not self._in_partition:
            raise ValueError("Y: no sample of positive weight has a known label")
        self._kept = self._weights_in(occurring) if occurring else None
        out = []
        for found, labelling, weight in forests:
            if self._kept is not None:
                found = found._replace(features=found.features.restricted(self._kept))
            out.append(observed_in(found.block(weight), labelling))
        return out

    def survey(self, X: Any, Y: Any) -> Any:
        """The labels and the names of features that occur."""
        if "observed" in (self.state_features, self.transitions):
            raise ValueError(
                "state_features='observed' and transitions='observed' are for samples in one place"
            )
        vocabulary = Vocabulary()
        samples, _ = split_offsets(with_stand_ins(X)[0])
        if describes_tokens(samples[0]):
            vocabulary.read(samples, learn=True)
        return {**super().survey(X, Y), "names": list(vocabulary.columns)}

    def agreement(self, surveys: Sequence[Any]) -> Any:
        names = dict.fromkeys(name for found in surveys for name in found["names"])
        return {**super().agreement(surveys), "names": list(names)}

    def _pieces(self, samples: Sequence[Tokens], labels: Sequence[Ints]) -> list[list[Piece]]:
        """What is learned from each sequence: all of it, or the pieces that have labels."""
        pairs = in_time(zip(samples, labels, strict=True), "the sequences of X")
        hidden, whole = self._marginalises(), np.concatenate(labels).min() != UNKNOWN
        if not (hidden or whole):
            return [cut(tokens, states) for tokens, states in pairs]
        return [
            [Piece(tokens, states, slice(0, tokens.length))]
            if whole or (states != UNKNOWN).any()
            else []
            for tokens, states in pairs
        ]

    def _ends(self, x: Any, n_nodes: int) -> tuple[Ints, Ints]:
        return np.arange(n_nodes - 1), np.arange(1, n_nodes)

    def _weights_in(self, occurring: Sequence[Bools]) -> Ints:
        """The weights that are learned: those that occur in some block, or all of a kind."""
        n_node_weights = len(self.classes_) * self.n_features_in_
        kept = np.logical_or.reduce(occurring)
        kept[:n_node_weights] |= self.state_features == "all"
        kept[n_node_weights:] |= self.transitions == "all"
        return np.flatnonzero(kept)

    def _with_constant(self, features: Any) -> FeatureMap:
        constant = super()._with_constant(features)
        self._kept = constant.kept  # type: ignore[attr-defined]
        return constant

    def _transformation(self, columns: Sequence[Columns]) -> sparse.csr_array:
        every = super()._transformation(columns)
        return every if self._kept is None else every[self._kept][:, self._kept]

    def _full_coef(self, theta: Floats) -> Floats:
        learned = super()._full_coef(theta)
        if self._kept is None:
            return learned
        n_edge_weights = len(self.classes_) ** 2 * (self._n_edge_features or 1)
        n_columns = self.n_features_in_ + self._intercept
        coef = np.zeros(len(self.classes_) * n_columns + n_edge_weights)
        coef[self._kept] = learned
        return coef

    # ------------------------------------------------------------------ names of features
    @property
    def _layout(self) -> dict[str, Any]:
        names = None if self._vocabulary is None else list(self._vocabulary.columns)
        return {**super()._layout, "names": names}

    def _restore(self, layout: dict[str, Any]) -> None:
        super()._restore(layout)
        self._forbidden = read_forbidden(self.forbidden_transitions, self._states)
        names = layout.get("names")  # those that came with the features, as in dictionaries
        self._vocabulary = None if names is None else Vocabulary(names)
        if names is not None:
            if self.feature_names is not None:
                raise ValueError("feature_names: the features in dictionaries have names already")
            self.feature_names_in_ = np.array(names, dtype=object)

    def _groups(
        self, pieces: Sequence[Sequence[Piece]], weights: Floats, separate: bool
    ) -> list[list[int]]:
        """Samples that form one block: equally weighted ones in about equal shares.

        The likelihood of chains side by side is the sum of theirs, so large blocks save the work of
        handling small ones. Block-coordinate solvers use a block per sample.
        """
        by_block = isinstance(self.solver, BlockCoordinateDescent)
        one_each = separate or by_block or self.solver == "bcfw"
        n_threads = self.n_threads()
        n_shares = 1 if n_threads == 1 else 2 * n_threads
        groups: dict[tuple[float, int], list[int]] = {}
        sizes = np.array([sum(len(piece.states) for piece in parts) for parts in pieces])
        used = (sizes > 0) & (weights > 0)
        before = np.cumsum(sizes) - sizes
        share = before * n_shares // max(int(sizes.sum()), 1)
        for m in np.flatnonzero(used).tolist():
            key = (float(weights[m]), m if one_each else int(share[m]))
            groups.setdefault(key, []).append(m)
        return list(groups.values())

    # ------------------------------------------------------------------ what was learned
    @property
    def transition_coef_(self) -> Floats:
        """Scores of transitions from row to column, shape (n_states, n_states)."""
        if self.edge_coef_.shape[2] != 1 or self._n_edge_features is not None:
            raise AttributeError("there are edge features: their weights are edge_coef_")
        return self.edge_coef_[:, :, 0]

    @property
    def state_features_(self) -> dict[tuple[str, Any], float]:
        """Weights of states that are not 0, by (feature, label), as in sklearn-crfsuite."""
        labels, coef = self.classes_.tolist(), self.node_coef_
        names = self.feature_names_in_.tolist()
        found = np.argwhere(coef.T != 0.0).tolist()
        return {(names[k], labels[a]): float(coef[a, k]) for k, a in found}

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """Weights of transitions that are not 0, by (label, next label), as in sklearn-crfsuite."""
        labels, coef = self.classes_.tolist(), self.transition_coef_
        found = np.argwhere(coef != 0.0).tolist()
        return {(labels[a], labels[b]): float(coef[a, b]) for a, b in found}

    # ------------------------------------------------------------------ prediction
    def _read(self, X: Any) -> list[Tokens]:
        """New samples, checked against what was fitted."""
        check_is_fitted(self, "coef_")
        X, offsets = split_offsets(check_samples(X))
        samples = read_sequences(X, self._vocabulary, learn=False)
        if self._vocabulary is None:  # which has ordered the features itself
            check_columns(node_tables(X), self.feature_names_in_.tolist())
        found = samples[0].nodes.shape[1], samples[0].n_edge_features
        fitted = self.n_features_in_, self._n_edge_features
        for size, expected, kind in zip(found, fitted, ("", "edge "), strict=True):
            if size != expected:
                raise ValueError(
                    f"X[0] has {size or 'no'} {kind}features, but ChainCRF was fitted with "
                    f"{expected or 'none'}"
                )
        return _with_offsets(samples, offsets, self._forbidden, len(self._states))

    def _forest(self, pieces: Sequence[Tokens]) -> Forest:
        """New sequences side by side, with the features that were learned."""
        found = forest(pieces, len(self.classes_))
        return found._replace(features=found.features.with_constant()) if self._intercept else found

    def _read_known(self, label: Any, m: int, shape: tuple[int, ...]) -> Ints:
        states = super()._read_known(label, m, shape)
        if self._forbidden is not None:
            self._forbidden.check(states, f"known[{m}]", self.classes_)
        return states

    def _shaped(self, X: Any) -> list[tuple[Block, tuple[int, ...]]]:
        listed = in_time(self._read(X), "the sequences of X")
        return [(self._forest([tokens]).block(), (tokens.length,)) for tokens in listed]

    def _per_sample(
        self,
        X: Any,
        function: Callable[[Forest], NDArray[Any]],
        nothing: Callable[[], NDArray[Any]],
    ) -> list[NDArray[Any]]:
        """Results of `function` on the tokens of each sample, `nothing` of those without tokens.

        Samples are handled together.
        """
        X, empty = with_stand_ins(check_samples(X))
        if len(empty) == len(X):
            check_is_fitted(self, "coef_")
            return [nothing()] * len(X)
        samples = self._read(X)

        def one(group: list[Tokens]) -> list[NDArray[Any]]:
            found = self._forest(group)
            values, starts = function(found), found.chains.starts.tolist()
            return [values[a:b] for a, b in pairwise(starts)]

        # Sparse features take no BLAS.
        dense = isinstance(samples[0].nodes, np.ndarray)
        with one_blas_thread() if dense else nullcontext():
            out = list(chain.from_iterable(self._each(one, self._shares(samples))))
        for m in empty:
            out[m] = nothing()
        return out

    def _shares(self, samples: list[Tokens]) -> list[list[Tokens]]:
        """Neighbouring samples, about as many tokens for each thread that has enough to do."""
        n_threads = min(self.n_threads(), len(samples))
        if n_threads == 1:
            return [samples]
        ends = np.cumsum([tokens.length for tokens in samples])
        if ends[-1] * len(self.classes_) ** 2 < FEW_STEPS:
            return [samples]
        cuts = np.searchsorted(ends, ends[-1] * np.arange(n_threads + 1) / n_threads).tolist()
        cuts[-1] = len(samples)
        return [samples[a:b] for a, b in pairwise(cuts) if b > a]

    @over_partitions
    def predict(self, X: Any, *, known: Any = None) -> list[NDArray[Any]]:
        """The most probable labels (MAP) of each sample, arrays of shape (T,).

        They are the labels of the most probable sequence as a whole. The most probable label of a
        single token, the largest number in its row of `predict_marginals`, may be another one.

        `known` holds labels that are given, shaped as Y, `unknown` (or None) where they are not, or
        None for a whole sample; all others are predicted given these.
        """
        if known is not None:
            blocks = [block for block, _ in self._given(X, known)]
            found = self._each(lambda b: b.structure.best_label(b.scores(self.coef_)), blocks)
            return [self._states.decode(states) for states in found]
        return self._per_sample(
            X,
            lambda f: self._states.decode(f.chains.best_states(f.features, self.coef_, f.offset)),
            lambda: self.classes_[:0],
        )

    def decision_function(self, X: Any) -> list[Any]:
        weights = np.ascontiguousarray(self._split_coef[0].T)

        def node_scores(found: Forest) -> Floats:
            scores = found.features.nodes.scores(weights)
            if found.offset is None:
                return scores
            return scores + found.chains.score_tables(found.offset)[0]

        return self._per_sample(X, node_scores, lambda: np.zeros((0, len(self.classes_))))

    @over_partitions
    def predict_marginals(
        self,
        X: Any,
        tol: float = 1e-3,
        method: str = "auto",
        *,
        as_dicts: bool = False,
        known: Any = None,
        **options: Any,
    ) -> list[Any]:
        """The probability of every state of every token, arrays of shape (T, n_states).

        They are given the `known` labels, as in `predict`.
        With `as_dicts`, as in sklearn-crfsuite, a list of T dictionaries {label: probability}.

        "auto" and "exact" are exact at any size, whatever `tol`. `method` may also be "fw" (from
        Viterbi calls alone, to a certified gap of `tol` per token) or "perturb", with the options
        of `mlestruct.inference.marginals`.
        """
        if as_dicts:
            labels = self.classes_.tolist()
            tables = self.predict_marginals(X, tol, method, known=known, **options)
            return [
                [dict(zip(labels, row, strict=True)) for row in table.tolist()] for table in tables
            ]
        if method in ("auto", "exact") and not options and known is None:
            check_positive(tol, "tol")
            return self._per_sample(
                X,
                lambda f: f.chains.state_probabilities(f.features, self.coef_, f.offset),
                lambda: np.zeros((0, len(self.classes_))),
            )
        return self._marginals(X, tol, method, known, options)

    @over_partitions
    def approximate_log_likelihood(
        self, X: Any, Y: Any, tol: float = 1e-6, *, known: Any = None
    ) -> Floats:
        """`log_likelihood`: on chains what `fit` maximises is exact, whatever `tol`."""
        return self.log_likelihood(X, Y, known=known)

    @over_partitions
    def log_likelihood(self, X: Any, Y: Any, *, known: Any = None) -> Floats:
        """Exact log p(y | x) of each sample, shape (n_samples,).

        Chains are cut at tokens whose label is not known, or these are summed over, as `missing`
        says. With `known` labels, as in `predict`, log p of the others given these; Y may have
        them too, and must agree. It is -inf where `forbidden_transitions` leave no sequence that
        has the labels.
        """
        check_is_fitted(self, "coef_")
        samples = check_samples(X)
        labels = check_same_length(samples, Y, entries=self._entries)
        X, Y = _without_empty(samples, labels)
        samples = self._read(X)
        found = self._observations(Y, known, [(tokens.length,) for tokens in samples])
        observed = [states for states, _ in found]
        pieces, impossible = self._pieces(samples, observed), self._impossible(observed)
        if known is None and not self._marginalises():
            return np.where(impossible, -np.inf, self._log_likelihoods(pieces))

        def one(m: int) -> float:
            total, given = 0.0, found[m][1]
            for tokens, own, at in pieces[m]:
                fixed = None if given is None else given[at]
                block = observed_in(self._forest([tokens]).block(), own, fixed)
                total += exact_log_likelihood(block, self.coef_)
            return total

        return np.where(impossible, -np.inf, self._each(one, range(len(samples))))

    def _impossible(self, labels: Sequence[Ints]) -> Bools:
        """Which samples have labels of probability 0, as forbidden transitions have."""
        if self._forbidden is None:
            return np.zeros(len(labels), dtype=np.bool_)
        return np.array([not self._forbidden.allows(own, self.classes_) for own in labels])

    def _log_likelihoods(self, pieces: Sequence[Sequence[Piece]]) -> Floats:
        """log p of the labelled pieces of each sample, all handled together."""
        owner = [m for m, parts in enumerate(pieces) for _ in parts]
        if not owner:
            return np.zeros(len(pieces))
        parts = [part for parts in pieces for part in parts]
        chains, features, offset = self._forest([part.tokens for part in parts])
        states = np.concatenate([part.states for part in parts])
        with one_blas_thread():
            found = chains.log_likelihoods(features, self.coef_, states, offset)
        return np.bincount(owner, found, len(pieces)).astype(np.float64)

    @over_partitions
    def log_likelihood_bounds(
        self, X: Any, Y: Any, tol: float = 1e-6, *, known: Any = None
    ) -> tuple[Floats, Floats]:
        """`log_likelihood` twice: on chains both bounds are the exact value, whatever `tol`."""
        exact = self.log_likelihood(X, Y, known=known)
        return exact, exact.copy()


def _without_empty(X: Sequence[Any], Y: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Samples and labels; of empty samples a stand-in without labels, which counts for nothing."""
    samples, empty = with_stand_ins(X)
    if not empty:
        return samples, list(Y)
    if len(empty) == len(samples):
        raise ValueError("X: every sequence is empty")
    labels = list(Y)
    for m in empty:
        if labels[m] is not None and np.size(labels[m]) > 0:
            raise ValueError(f"Y[{m}]: {np.size(labels[m])} labels for an empty sequence")
        labels[m] = None
    return samples, labels


def _with_offsets(
    samples: Sequence[Tokens],
    given: Sequence[NodeInput | None],
    forbidden: Forbidden | None,
    n_states: int,
) -> list[Tokens]:
    """Samples with the offsets that came with them, and those of forbidden transitions."""
    has_any = any(own is not None for own in given)
    found = with_offsets(samples, given, n_states) if has_any else list(samples)
    if forbidden is None:
        return found
    for m, one in enumerate(found):
        forbidden.check_length(one.length, f"X[{m}]")
    return [one._replace(offset=forbidden.add_to(one.offset, one.length)) for one in found]
