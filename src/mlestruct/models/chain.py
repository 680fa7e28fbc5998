"""`ChainCRF`: learn to label sequences from labelled ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_samples, count_threads
from .._running import in_time, one_blas_thread
from ..features.labellings import SequenceFeatures
from ..features.rows import Rows
from ..learning.problem import Block, Problem
from ..learning.workers import Parts
from ..structures.sequences import Sequences
from .base import check_columns, column_names
from .labelling import (
    UNKNOWN,
    LabellingEstimator,
    Labels,
    Shaped,
    States,
    observed_in,
    split_offsets,
)
from .tokens import Tokens, Vocabulary, read_forbidden, read_tokens, split_edges

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
        Regularisation, on the summed log-likelihood. crfsuite's penalty c2 is alpha / 2.
    state_features : "all" or "observed"
        Which pairs of a state and a feature have a weight: all, or the pairs that occur in
        training; the others are 0. crfsuite's feature.possible_states = True and False. Features
        that a dictionary or a sparse matrix stores occur, even with the value 0 or False.
    transitions : "all" or "observed"
        The same for pairs of neighbouring states: crfsuite's feature.possible_transitions.
    forbidden_transitions : "BIO", or list of pairs of labels (from, to), optional
        Sequences with these neighbours have probability 0, in `fit` and in predictions; None as
        `from` stands for the beginning. "BIO": I-x follows only B-x or I-x. "observed" transitions,
        by contrast, forbid nothing: the weights of the others are 0. Samples whose length or
        `known` labels leave no allowed sequence are an error; `log_likelihood` of labels that are
        not allowed is -inf.
    fit_intercept : bool
        Learn a constant for each state, unless a feature is constant already. By default there is
        none, as in crfsuite: scores of transitions say how frequent states are.
    standardize, l1_ratio, tol, max_iter, random_state, verbose
        As in `GraphCRF`.
    solver : solver object, optional
        By default `LBFGS()`. `FrankWolfe()` and `BlockFrankWolfe()` need only Viterbi decoding;
        `BlockFrankWolfe.paper()` is the algorithm as printed in the paper.
    n_jobs : int, optional
        Threads over groups of sequences.

    Attributes
    ----------
    node_coef_ : ndarray of shape (n_states, C)
    transition_coef_ : ndarray of shape (n_states, n_states), from row to column
    edge_coef_ : ndarray of shape (n_states, n_states, D), if there are edge features
    coef_ : all of them in a row
    classes_ : ndarray of shape (n_states,), the label of each state
    state_features_, transition_features_ : dict, the weights that are not 0 by (feature, label) and
        by (label, next label)
    objective_, objective_bound_, duality_gap_, certified_, converged_, history_, n_iter_,
    n_oracle_calls_, solver_, n_features_in_, feature_names_in_ : as in `GraphCRF`

    Notes
    -----
    X is a sequence of samples, each an array, data frame or SciPy sparse matrix (T, C), a list or
    tuple of T dictionaries or lists of strings as sklearn-crfsuite takes them, or a pair (one of
    these, edge features of shape (T-1, D)); edge features replace the constant 1 whose weights are
    the transition scores, so give them a constant column if transitions matter by themselves. In
    dictionaries {"word": "Main", "length": 4} is the feature word:Main with value 1 and length with
    4; False counts as 0, nested dictionaries are joined by colons, and features that were not
    there in training are ignored.

    Y holds for each sample an array (T,) of labels, integers or strings. Tokens whose label is None
    or NaN are left out of the likelihood, and the chain is cut there; None in place of an array
    means that no label of the sample is known. Predictions cover all tokens. Empty sequences
    have empty labels. alpha acts on the summed likelihood: with ten times the samples, ten times
    the alpha has the same effect.

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
        state_features: str = "all",
        transitions: str = "all",
        forbidden_transitions: Any = None,
        fit_intercept: bool = False,
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
        self.state_features = state_features
        self.transitions = transitions
        self.forbidden_transitions = forbidden_transitions
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.l1_ratio = l1_ratio
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning
    def _problem(self, X: Any, Y: Any, sample_weight: Any = None, classes: Any = None) -> Problem:
        for name in ("state_features", "transitions"):
            value, why = getattr(self, name), None
            if value not in ("all", "observed"):
                raise ValueError(f"`{name}` must be 'all' or 'observed'; got {value!r}.")
            if self._missing == "marginalise":
                why = "missing='marginalise' sums over all states"
            if isinstance(X, Parts):
                why = "parts do not know each other's samples"
            if value == "observed" and why:
                raise ValueError(f"{why}: pass {name}='all', not 'observed'")
        return super()._problem(X, Y, sample_weight, classes)

    def _blocks(
        self, X: Sequence[Any], Y: Sequence[Any], weights: Floats, classes: Any
    ) -> list[Block]:
        X, given = split_offsets(X)
        vocabulary = Vocabulary()
        tokens = read_tokens(X, vocabulary, learn=True)
        if vocabulary and self.state_features == "all":
            tokens.nodes.eliminate_zeros()
        labels = Labels(Y, tokens.shapes, "Y", self._part)
        states = States.learn(labels, classes)
        layout = {
            "classes": states.classes.tolist(),
            "n_node_features": tokens.nodes.shape[1],
            "n_edge_features": tokens.n_edge_features,
            "missing": self._missing,
            "names": bool(vocabulary),
        }
        self._restore(layout, list(vocabulary) or column_names(split_edges(X)[0]))
        self._forbidden = read_forbidden(self.forbidden_transitions, self.classes_, learn=True)
        tokens = self._with_offsets(tokens, given)
        encoded = self._states.encode(labels)
        if self._forbidden is not None:
            self._forbidden.check(encoded, "Y")
        return self._blocks_of(self._pieces(tokens, np.concatenate(encoded), weights))

    def _pieces(
        self, tokens: Tokens, states: Ints, weights: Floats
    ) -> list[tuple[Tokens, Ints, float]]:
        """Tokens that form a block, their states and their weight.

        The likelihood of chains side by side is the sum of theirs, so large blocks save the work of
        handling small ones: samples of equal weight form one for each share of a thread. Solvers
        that visit samples one by one get a block for each.
        """
        owner = np.repeat(np.arange(weights.size), tokens.lengths)
        learned = states != UNKNOWN
        if self._missing == "marginalise":
            learned = np.bincount(owner, learned, weights.size)[owner] > 0
        sizes = np.bincount(owner, learned, weights.size)
        used = np.flatnonzero((sizes > 0) & (weights > 0))
        if not used.size:
            raise ValueError("Y: no sample of positive weight has a known label")
        share = used
        if not self._one_block_per_sample:
            n_threads = count_threads(self.n_jobs)
            n_shares = 1 if n_threads == 1 else 2 * n_threads
            share = ((np.cumsum(sizes) - sizes)[used] * n_shares // sizes.sum()).astype(np.int64)
        groups: dict[tuple[float, int], list[int]] = {}
        for m, *key in zip(used.tolist(), weights[used].tolist(), share.tolist(), strict=True):
            groups.setdefault((key[0], key[1]), []).append(m)
        out = []
        for (weight, _), group in groups.items():
            first, stop = group[0], group[-1] + 1
            own = slice(*tokens.starts[[first, stop]].tolist())
            kept = learned[own]
            if len(group) < stop - first:
                kept = kept & np.isin(owner[own], group)
            out.append((tokens.part(first, stop).where(kept), states[own][kept], weight))
        return out

    def _blocks_of(self, pieces: Sequence[tuple[Tokens, Ints, float]]) -> list[Block]:
        """Blocks with the features that all of them decide."""
        rows = self._prepared(
            [self._rows(tokens) for tokens, _, _ in pieces], [weight for _, _, weight in pieces]
        )
        features = [SequenceFeatures(*own, len(self._states)) for own in rows]
        if "observed" in (self.state_features, self.transitions):
            pairs = zip(features, pieces, strict=True)
            occurring = np.logical_or.reduce([f.occurring(y, t.tails) for f, (t, y, _) in pairs])
            cut = len(self._states) * rows[0][0].n_features
            occurring[:cut] |= self.state_features == "all"
            occurring[cut:] |= self.transitions == "all"
            kept = np.flatnonzero(occurring)
            features = [SequenceFeatures(*own, len(self._states), kept) for own in rows]
        self._map = features[0].without_rows()
        spaces: dict[bytes, Sequences] = {}  # sequences of one length share theirs
        out = []
        for own, (tokens, states, weight) in zip(features, pieces, strict=True):
            key = tokens.lengths.tobytes()
            space = spaces[key] if key in spaces else spaces.setdefault(key, self._space(tokens))
            offset = None if tokens.offset is None else tokens.offset.scores(space)
            block = Block(space, own, weight=weight, offset=offset)
            out.append(observed_in(block, states))
        return out

    def _rows(self, tokens: Tokens) -> tuple[Rows, Rows]:
        """Features of tokens and edges."""
        edges = Rows.ones(tokens.tails.size) if tokens.edges is None else Rows(tokens.edges)
        return Rows(tokens.nodes), edges

    def _space(self, tokens: Tokens) -> Sequences:
        """The labellings of the sequences that are not empty."""
        return Sequences(tokens.lengths[tokens.lengths > 0], len(self._states))

    def _with_offsets(self, tokens: Tokens, given: Sequence[Any]) -> Tokens:
        """Tokens with their own offsets, and the offsets of forbidden transitions."""
        found = tokens.with_offsets(given, len(self._states))
        if self._forbidden is None:
            return found
        self._forbidden.check_lengths(found)
        return self._forbidden.add_to(found)

    # ------------------------------------------------------------------ what was learned
    @property
    def _layout(self) -> dict[str, Any]:
        return {**super()._layout, "names": self._vocabulary is not None}

    def _restore(self, layout: dict[str, Any], names: Sequence[str] | None) -> None:
        super()._restore(layout, names)
        self._forbidden = read_forbidden(self.forbidden_transitions, self.classes_)
        self._vocabulary = Vocabulary(self.feature_names_in_) if layout.get("names") else None

    @property
    def transition_coef_(self) -> Floats:
        """Scores of transitions from row to column, shape (n_states, n_states)."""
        if self._n_edge_features is not None:
            raise AttributeError("there are edge features: their weights are edge_coef_")
        return self.edge_coef_[:, :, 0]

    @property
    def state_features_(self) -> dict[tuple[str, Any], float]:
        """Weights of states that are not 0, by (feature, label), as in sklearn-crfsuite."""
        return _entries(self.node_coef_.T, self.feature_names_in_, self.classes_)

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """Weights of transitions that are not 0, by (label, next label), as in sklearn-crfsuite."""
        return _entries(self.transition_coef_, self.classes_, self.classes_)

    # ------------------------------------------------------------------ prediction
    def _read(self, X: Any) -> Tokens:
        """New samples, checked against what was fitted."""
        check_is_fitted(self, "coef_")
        X, given = split_offsets(check_samples(X))
        tokens = read_tokens(X, self._vocabulary, learn=False)
        if not tokens.starts[-1]:
            return tokens
        if self._vocabulary is None:  # which has ordered the features itself
            check_columns(split_edges(X)[0], self.feature_names_in_.tolist())
        found = tokens.nodes.shape[1], tokens.n_edge_features
        fitted = self.n_features_in_, self._n_edge_features
        for size, expected, kind in zip(found, fitted, ("", "edge "), strict=True):
            if size != expected:
                raise ValueError(
                    f"X[0] has {size or 'no'} {kind}features, but ChainCRF was fitted with "
                    f"{expected or 'none'}"
                )
        return self._with_offsets(tokens, given)

    def _block(self, tokens: Tokens) -> Block:
        """New sequences side by side, with the features that were learned."""
        nodes, edges = self._rows(tokens)
        nodes = nodes.with_constant() if self._intercept else nodes
        space = self._space(tokens)
        offset = None if tokens.offset is None else tokens.offset.scores(space)
        return Block(space, SequenceFeatures(nodes, edges, len(self._states)), offset=offset)

    def _shaped(self, X: Any) -> list[Shaped]:
        tokens = self._read(X)
        if not tokens.lengths.all():
            m = int(np.argmin(tokens.lengths))
            raise ValueError(f"X[{m}]: is an empty sequence; leave it out")
        listed = in_time(enumerate(tokens.shapes), "the sequences of X")
        return [Shaped(self._block(tokens.part(m, m + 1)), shape) for m, shape in listed]

    def _read_labels(
        self, Y: Any, shapes: Sequence[tuple[int, ...]], name: str = "Y", others: bool = False
    ) -> list[Ints]:
        states = super()._read_labels(Y, shapes, name, others)
        if self._forbidden is not None and name == "known":
            self._forbidden.check(states, name)
        return states

    def _per_sample(
        self, X: Any, function: Callable[[Any], NDArray[Any]], nothing: NDArray[Any]
    ) -> list[NDArray[Any]]:
        """Results of `function` on blocks of samples, by sample; `nothing` if all are empty."""
        tokens, values = self._read(X), nothing
        if tokens.starts[-1]:
            # Sparse features take no BLAS.
            with nullcontext() if issparse(tokens.nodes) else one_blas_thread():
                parts = [tokens.part(*ends) for ends in self._shares(tokens)]
                found = self._each(lambda part: function(self._block(part)), parts)
            values = np.concatenate(found)
        return [values[a:b] for a, b in pairwise(tokens.starts.tolist())]

    def _shares(self, tokens: Tokens) -> list[tuple[int, int]]:
        """Neighbouring samples, about as many tokens for each thread that has enough to do."""
        ends, n_threads = tokens.starts, count_threads(self.n_jobs)
        if ends[-1] * len(self._states) ** 2 < FEW_STEPS:
            n_threads = 1
        cuts = np.searchsorted(ends, ends[-1] * np.arange(n_threads) / n_threads).tolist()
        return [(a, b) for a, b in pairwise([*cuts, len(ends) - 1]) if ends[b] > ends[a]]

    def predict(self, X: Any, *, known: Any = None) -> list[NDArray[Any]]:
        """The most probable labels (MAP) of each sample, arrays of shape (T,).

        They are the labels of the most probable sequence as a whole. The most probable label of a
        single token, the largest number in its row of `predict_marginals`, may be another one.

        `known` has the known labels, shaped as Y, None for unknown labels, or None for a
        whole sample; all others are predicted given these.
        """
        if known is not None:
            return super().predict(X, known=known)
        check_is_fitted(self, "coef_")
        return self._per_sample(
            X,
            lambda b: self.classes_[b.structure.best_states(b.features, self.coef_, b.offset)],
            self.classes_[:0],
        )

    def predict_marginals(
        self,
        X: Any,
        tol: float | None = None,
        method: str = "auto",
        *,
        known: Any = None,
        **options: Any,
    ) -> list[Any]:
        """The probability of every state of every token, arrays of shape (T, n_states).

        They are given the `known` labels, as in `predict`.

        "auto" and "exact" are exact at any size, whatever `tol`. `method` may also be "fw" (from
        Viterbi calls alone, to a certified gap of `tol` per token) or "perturb", with the options
        of `mlestruct.inference.marginals`.
        """
        check_is_fitted(self, "coef_")
        if method in ("auto", "exact") and not options and known is None:
            return self._per_sample(
                X,
                lambda b: b.structure.state_probabilities(b.features, self.coef_, b.offset),
                np.zeros((0, len(self._states))),
            )
        return super().predict_marginals(X, tol, method, known=known, **options)

    # ------------------------------------------------------------------ likelihood
    def log_likelihood(self, X: Any, Y: Any, *, known: Any = None) -> Floats:
        """Exact log p(y | x) of each sample, shape (n_samples,).

        Chains are cut at tokens whose label is not known, or these are summed over, as `missing`
        of `fit` says. With `known` labels, as in `predict`, log p of the others given these; Y may
        have them too, and must agree. It is -inf if `forbidden_transitions` leave no sequence
        that has the labels.
        """
        tokens = self._read(X)
        found = self._observations(Y, known, tokens.shapes)
        if known is None and self._missing == "drop":
            values = self._log_likelihoods(tokens, np.concatenate([own for own, _ in found]))
        else:
            values = super().log_likelihood(X, Y, known=known)
        if self._forbidden is not None:
            values[[self._forbidden.problem(own) is not None for own, _ in found]] = -np.inf
        return values

    def _labelled(self, X: Any, Y: Any, known: Any) -> list[Block | None]:
        tokens, blocks = self._read(X), []
        for m, (states, fixed) in enumerate(self._observations(Y, known, tokens.shapes)):
            kept = (states != UNKNOWN) | (self._missing == "marginalise")
            block = self._block(tokens.part(m, m + 1).where(kept)) if kept.any() else None
            if block is not None:
                given = None if fixed is None else fixed[kept]
                block = observed_in(block, states[kept], given)
            blocks.append(block)
        return blocks

    def _log_likelihoods(self, tokens: Tokens, states: Ints) -> Floats:
        """log p of the labelled pieces of each sample, all handled together."""
        kept, n_samples = states != UNKNOWN, tokens.lengths.size
        if not kept.any():
            return np.zeros(n_samples)
        pieces = tokens.where(kept)
        owner = np.repeat(np.arange(n_samples), tokens.lengths)[kept][pieces.begins]
        block: Any = self._block(pieces)
        with one_blas_thread():
            found = block.structure.log_likelihoods(
                block.features, self.coef_, states[kept], block.offset
            )
        return np.bincount(owner, found, n_samples).astype(np.float64)

    def approximate_log_likelihood(
        self, X: Any, Y: Any, tol: float | None = None, *, known: Any = None
    ) -> Floats:
        """`log_likelihood`: on chains what `fit` maximises is exact, whatever `tol`."""
        return self.log_likelihood(X, Y, known=known)

    def log_likelihood_bounds(
        self, X: Any, Y: Any, tol: float | None = None, *, known: Any = None
    ) -> tuple[Floats, Floats]:
        """`log_likelihood` twice: on chains both bounds are the exact value, whatever `tol`."""
        exact = self.log_likelihood(X, Y, known=known)
        return exact, exact.copy()


def _entries(
    table: Floats, rows: NDArray[Any], columns: NDArray[Any]
) -> dict[tuple[Any, Any], float]:
    """The entries of a table that are not 0, by the names of row and column."""
    names, others = rows.tolist(), columns.tolist()
    found = np.argwhere(table != 0.0).tolist()
    return {(names[a], others[b]): float(table[a, b]) for a, b in found}
