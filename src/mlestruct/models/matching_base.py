"""The base of the estimators of matchings: prediction, ranking and probabilities of pairs."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..inference.link_sets import links_at_precision, links_of_largest_f1
from ..labels import check_pairs, check_partners, read_pairs
from ..learning.problem import Block
from ..metrics import Events, pair_events
from .base import StructuredEstimator
from .matching_blocks import (
    BipartiteBlocks,
    MatchingBlocks,
    link_frame,
    matching_structure,
    pair_table,
    read_links,
)
from .pairs import PairSample
from .partitioned import over_partitions
from .probabilities import (
    approximate_value,
    block_samples,
    certified_marginals,
    exact_log_likelihood,
    likelihood_bounds,
    seeded,
)
from .validation import check_same_length, check_samples

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T")


class MatchingEstimator(MatchingBlocks, StructuredEstimator):
    """Estimators with a score for every pair."""

    def _fitting(self, X: Any, rho: Any, known: Any = None) -> list[tuple[Block, PairSample]]:
        """Blocks of new samples, checked against the fitted features, with the samples."""
        check_is_fitted(self, "coef_")
        prepared = self._make_blocks(check_samples(X), rho)
        self._check_features([block for block, _ in prepared])
        if known is None:
            return prepared
        given = check_same_length(prepared, known, "known")
        out = []
        for m, (block, sample) in enumerate(prepared):
            if given[m] is not None:
                where = f"known[{m}]"
                values = self._known_values(sample, given[m], where)
                block = replace(block, structure=self._given(block.structure, values, where))
            out.append((block, sample))
        return out

    @property
    def intercept_(self) -> float:
        """What every pair scores beside its features, the last of `coef_`; 0 without it."""
        check_is_fitted(self, "coef_")
        return float(self.coef_[-1]) if self._intercept else 0.0

    @over_partitions
    def predict(self, X: Any, *, known: Any = None) -> list[Any]:
        """The most probable matching (MAP) of each sample.

        `known` holds for each sample what is given of its matching, or None: partners with NaN
        where they are not known (-1 is single), a matrix of 1 (pair), 0 (no pair) and NaN, known
        pairs of shape (n_pairs, 2), or known links between the ids of a data frame.

        Returns
        -------
        list of int arrays: the partner of every node (of every row where there are two sides),
        -1 for single; with capacities above 1 the pairs, shape (n_pairs, 2)
        """
        prepared = self._fitting(X, self.rho, known)
        return self._each(lambda pair: self._label(self._best(pair[0]), pair[1]), prepared)

    def _best(self, block: Block) -> Any:
        """The most probable matching as the block's structure has it; ties are broken at random."""
        scores = block.scores(self.coef_)
        return block.structure.best_label(
            block.structure.break_ties(scores, _tie_seed(block, scores))
        )

    def score(self, X: Any, Y: Any) -> float:
        """1 - mean Hamming loss per sample: the share of nodes with the right partner.

        Pairs (capacities above 1) are compared as sets: twice the number of common pairs over
        that of all.
        """
        return super().score(X, Y)

    def _read_truth(self, X: Any, Y: Any) -> tuple[list[PairSample], list[Any]]:
        """Validated samples and their observed matchings, links of ids as pairs of positions."""
        samples = self._samples(check_samples(X))
        labels = check_same_length(samples, Y)
        return samples, [read_links(labels[m], x, f"Y[{m}]") for m, x in enumerate(samples)]

    @over_partitions
    def _losses(self, X: Any, Y: Any) -> Any:
        samples, labels = self._read_truth(X, Y)
        losses = []
        for m, (found, label) in enumerate(zip(self.predict(X), labels, strict=True)):
            sample = samples[m]
            if found.ndim == 2:
                losses.append(self._pair_loss(found, label, sample, f"Y[{m}]"))
            else:
                truth = check_partners(label, *sample.sides, False, f"Y[{m}]")
                losses.append(float(np.mean(found != truth)))
        return losses

    def _pair_loss(self, found: Ints, label: Any, sample: PairSample, where: str) -> float:
        truth = check_pairs(label, *sample.sides, where)
        total = found.shape[0] + truth.shape[0]
        both = np.concatenate([found, truth])
        common = total - np.unique(both, axis=0).shape[0]
        return 1.0 - 2.0 * common / total if total else 0.0

    def pair_scores(self, X: Any) -> list[Any]:
        """The score <coef_, features> (plus offset) of every pair, per sample.

        Differences of scores are log-odds: larger means more likely to be a pair, all else equal.

        Returns
        -------
        list of arrays of shape (n_rows, n_cols), -inf where a pair is not allowed; a SciPy sparse
        matrix for samples whose mask was one
        """
        return self._each(
            lambda prepared: pair_table(prepared[1], prepared[0].scores(self.coef_), -np.inf),
            self._fitting(X, self.rho),
        )

    def decision_function(self, X: Any) -> list[Any]:
        """`pair_scores` under the name that scikit-learn has for it."""
        return self.pair_scores(X)

    def pair_counts(self, X: Any, Y: Any) -> tuple[int, int, int]:
        """Numbers of correct, of predicted and of observed pairs, over all samples."""
        samples, labels = self._read_truth(X, Y)
        counts = np.zeros(3, dtype=np.int64)
        for m, found in enumerate(self.predict(X)):
            sides = samples[m].sides
            pairs = [read_pairs(y, *sides, f"Y[{m}]") for y in (found, labels[m])]
            both = np.concatenate(pairs)
            common = both.shape[0] - np.unique(both, axis=0).shape[0]
            counts += [common, pairs[0].shape[0], pairs[1].shape[0]]
        return int(counts[0]), int(counts[1]), int(counts[2])


def _tie_seed(block: Block, scores: Floats) -> int:
    """A seed that depends on what a sample is, not on its place in X.

    It is computed from some of its scores or, if all are equal, from its features.
    """
    if scores.size and scores[0] == scores[-1] and (scores == scores[0]).all():
        scores = block.scores(np.sin(np.arange(1.0, block.features.n_features + 1.0)))
    return zlib.crc32(np.ascontiguousarray(scores[:: max(scores.size // 64, 1)]).data)


class MatchingProbabilities(MatchingEstimator):
    """Estimators that are conditional random fields."""

    @over_partitions
    def predict_marginals(
        self, X: Any, tol: float = 1e-7, method: str = "auto", *, known: Any = None, **options: Any
    ) -> list[Any]:
        """Pseudo-marginal probability of every pair, per sample, given what is `known`.

        `method` is one of `mlestruct.inference.marginals`: "auto", "fw" (from MAP calls alone),
        "bp", "perturb" or, for small samples, "exact"; `options` are those of the method.

        Returns
        -------
        list of ndarray of shape (n_rows, n_cols), symmetric within one group; a SciPy sparse
        matrix for samples whose mask was one. Where nodes may stay single, 1 minus a row's sum is
        its probability to do so. `tol` is the certified gap of each log-partition function, per
        node.
        """
        prepared = self._fitting(X, self.rho, known)
        options = seeded(options, method, self.random_state)
        blocks = [block for block, _ in prepared]
        found = certified_marginals(blocks, self.coef_, tol, method, options, self._each)
        return [pair_table(sample, tau) for (_, sample), tau in zip(prepared, found, strict=True)]

    def predict_proba(self, X: Any, **options: Any) -> list[Any]:
        """`predict_marginals` under the name that scikit-learn has for it."""
        return self.predict_marginals(X, **options)

    @over_partitions
    def predict_links(
        self,
        X: Any,
        choose: str = "map",
        precision: float | None = None,
        *,
        known: Any = None,
        tol: float = 1e-7,
        method: str = "auto",
        **options: Any,
    ) -> list[Any]:
        """Every allowed pair with its probability, and whether it belongs to the chosen links.

        Chosen links form a matching. The sum of their probabilities is the expected number of
        correct ones, the mean of their probabilities the expected precision.

        Parameters
        ----------
        choose : "map", the most probable matching, as `predict`; or "f1", the links with the
            largest expected F1, 2 * expected correct / (number chosen + expected number of links)
        precision : float, optional
            Choose instead as many expected correct links as possible at this expected precision.
        known : as in `predict`, what is given of each matching
        tol, method, options : as in `predict_marginals`

        Returns
        -------
        list of data frames with the columns "probability" and "linked". For samples made by
        `PairInput.from_frame` or `EdgeList.from_frame` one row for each row of that frame, with
        its index and its columns of ids; else a pandas frame with the positions of both nodes.
        """
        if choose not in ("map", "f1"):
            raise ValueError(f"choose: expected 'map' or 'f1', got {choose!r}")
        if precision is not None and choose != "map":
            raise ValueError("choose: give either choose='f1' or a precision, not both")
        prepared = self._fitting(X, self.rho, known)
        options = seeded(options, method, self.random_state)
        blocks = [block for block, _ in prepared]
        found = certified_marginals(blocks, self.coef_, tol, method, options, self._each)
        loose = copy.copy(self)
        loose.perfect = False

        def one(m: int) -> Any:
            (block, sample), tau = prepared[m], found[m]
            probability = np.clip(tau[: sample.graph.n_edges], 0.0, 1.0)
            if precision is None and choose == "map":
                indices = block.structure.encode(self._best(block)).indices
                edges = indices[indices < probability.size]
            else:
                space = loose._structure(sample, 0.5, m)
                if precision is None:
                    edges = links_of_largest_f1(space, probability).edges
                else:
                    edges = links_at_precision(space, probability, precision)[0].edges
            linked = np.zeros(probability.size, dtype=bool)
            linked[edges] = True
            return link_frame(sample, probability, linked)

        return self._each(one, range(len(prepared)))

    def sample(
        self,
        X: Any,
        n_samples: int = 1,
        method: str = "auto",
        *,
        known: Any = None,
        random_state: Any = None,
        **options: Any,
    ) -> list[Any]:
        """Matchings drawn from p(y | x; coef_) itself, without approximation, per sample.

        Parameters
        ----------
        method : "auto", "exact" or "mcmc", as in `mlestruct.inference.sample`
        known : what is given of the matchings, as in `predict`
        random_state : int, Generator or None

        Returns
        -------
        list of int arrays of shape (n_samples, n_nodes), each row a label as `predict` gives them;
        with capacities above 1 lists of n_samples arrays of pairs
        """
        prepared = self._fitting(X, self.rho, known)
        blocks = [block for block, _ in prepared]
        found = block_samples(
            blocks, self.coef_, n_samples, method, random_state, options, self._each
        )
        out: list[Any] = []
        for (block, sample), drawn in zip(prepared, found, strict=True):
            labels = [self._label(label, sample) for label in drawn.labels]
            simple = matching_structure(block.structure).is_simple
            out.append(np.array(labels) if simple else labels)
        return out

    def events(self, X: Any, Y: Any, **options: Any) -> Events:
        """Which pairs were observed and their probabilities, for scikit-learn's metrics.

        See `mlestruct.metrics.pair_events`; `options` are those of `predict_marginals`.
        """
        _, labels = self._read_truth(X, Y)
        tables = self.predict_marginals(X, **options)
        return pair_events(tables, labels, bipartite=isinstance(self, BipartiteBlocks))

    @over_partitions
    def approximate_log_likelihood(
        self, X: Any, Y: Any, tol: float = 1e-7, *, known: Any = None
    ) -> Floats:
        """<scores, y> - log Z_rho of each sample: what `fit` maximises, without the penalty.

        Use it to choose alpha on held-out samples; at rho = 1/2 it is a lower bound of the exact
        log-likelihood. Partners in Y that are not known (NaN) are summed over; `known` is as in
        `predict`. Values of different rho are not comparable: take `log_likelihood` of small
        samples, or `log_likelihood_bounds`. `tol` is the certified gap per node.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.array(
            self._of_labels(
                X, Y, known, self.rho, lambda block: approximate_value(block, self.coef_, tol)
            )
        )

    def _of_labels(
        self, X: Any, Y: Any, known: Any, rho: Any, function: Callable[[Block], T]
    ) -> list[T]:
        """`function` of what was observed of each sample, given what is known."""
        samples = check_samples(X)
        labels = check_same_length(samples, Y)
        prepared = self._fitting(samples, rho)
        given = (
            [None] * len(samples) if known is None else check_same_length(samples, known, "known")
        )

        def one(m: int) -> T:
            block, sample = prepared[m]
            values = None
            if given[m] is not None:
                values = self._known_values(sample, given[m], f"known[{m}]")
            return function(self._observed(block, sample, labels[m], f"Y[{m}]", values))

        return self._each(one, range(len(prepared)))

    @over_partitions
    def log_likelihood(self, X: Any, Y: Any, *, known: Any = None) -> Floats:
        """Exact log p(y | x; coef_) of each sample, by counting matchings; small samples only.

        With what is `known`, as in `predict`, log p of the rest given this; Y must agree.

        Returns
        -------
        ndarray of shape (n_samples,)
        """

        def one(block: Block) -> float:
            return exact_log_likelihood(block, self.coef_)

        return np.array(self._of_labels(X, Y, known, self.rho, one))

    @over_partitions
    def log_likelihood_bounds(
        self, X: Any, Y: Any, tol: float = 1e-9, *, known: Any = None
    ) -> tuple[Floats, Floats]:
        """Proven bounds of the exact log p(y | x; coef_) of each sample, whatever rho was.

        rho = 1/2 bounds log Z from above in every graph. From below, the Bethe value (rho = 1)
        does in bipartite graphs, which makes a narrow interval. In general graphs it does not;
        there the bound is the Bethe value of a cut into two sides, or comes from matchings around
        the best one, and from the best one alone with capacities above 1: valid, but wide. See
        `mlestruct.inference.log_partition_bounds`.

        Returns
        -------
        lower, upper : ndarrays of shape (n_samples,)
        """

        def one(block: Block) -> tuple[float, float]:
            return likelihood_bounds(block, self.coef_, tol)

        bounds = self._of_labels(X, Y, known, 0.5, one)
        return np.array([low for low, _ in bounds]), np.array([high for _, high in bounds])
