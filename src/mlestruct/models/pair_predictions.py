"""What fitted models of matchings are asked: matchings, their pairs and probabilities of pairs."""

from __future__ import annotations

import copy
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arguments import check_same_length
from ..inference.link_sets import links_at_precision, links_of_largest_f1
from ..learning.problem import Block
from ..metrics.events import Events, as_events, join_events
from ..structures.matchings.space import MatchingSpace, check_counts
from .pairs import PairSample, naming, read_label
from .sample_estimator import SampleEstimator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Prepared(NamedTuple):
    """A sample, its matchings, and the block of the matchings that agree with known links."""

    sample: PairSample
    space: MatchingSpace
    block: Block


class PairPredictions(SampleEstimator):
    """Answers of estimators that prepare samples as matchings of pairs."""

    perfect: Any

    _tol = _likelihood_tol = 1e-7

    @abstractmethod
    def _space_in_time(self, sample: PairSample, rho: Any, where: str) -> MatchingSpace:
        """The matchings of a sample; errors name it."""

    # ------------------------------------------------------------------ prediction
    def predict(self, X: Any, *, known: Any = None) -> list[Any]:
        """The most probable matching (MAP) of each sample.

        `known` holds for each sample what is given of its matching, or None: partners with NaN
        if they are not known (-1 is single), a matrix of 1 (pair), 0 (no pair) and NaN, known
        pairs of shape (n_pairs, 2), or known links between the ids of a data frame.

        Returns
        -------
        list of int arrays: the partner of every node (of every row if there are two sides),
        -1 for single; with capacities above 1 the pairs, shape (n_pairs, 2)
        """
        return super().predict(X, known=known)

    def _output(self, query: Prepared, label: Any) -> Any:
        if isinstance(label, list):  # drawn with capacities above 1: they differ in size
            return [_label(one, query.sample) for one in label]
        if query.space.is_simple and label.ndim == 2:
            return np.array([_label(one, query.sample) for one in label])
        return _label(label, query.sample)

    def _table(self, query: Prepared, tau: Floats) -> Any:
        return query.sample.table(tau)

    def _best(self, block: Block) -> Any:
        """The best matching as the block's structure has it; ties are broken at random."""
        scores = block.scores(self.coef_)
        return block.structure.best_label(
            block.structure.break_ties(scores, _tie_seed(block, scores))
        )

    def _losses(self, X: Any, Y: Any) -> Any:
        losses = []
        for sample, found, pairs in self._compared(X, Y):
            if found.ndim == 2:
                total = found.shape[0] + pairs.shape[0]
                losses.append(1.0 - 2.0 * _common(found, pairs) / total if total else 0.0)
                continue
            partner = np.full(sample.shape[0], -1, dtype=np.int64)
            partner[pairs[:, 0]] = pairs[:, 1]
            if sample.is_group:
                partner[pairs[:, 1]] = pairs[:, 0]
            losses.append(float(np.mean(found != partner)))
        return losses

    def score(self, X: Any, Y: Any) -> float:
        """1 - mean Hamming loss per sample: the share of nodes with the right partner.

        Pairs (capacities above 1) are compared as sets: twice the number of common pairs over
        the number of all.
        """
        return super().score(X, Y)

    def pair_scores(self, X: Any) -> list[Any]:
        """The score <coef_, features> (plus offset) of every pair, per sample.

        Differences of scores are log-odds: larger means more likely to be a pair, all else equal.

        Returns
        -------
        list of arrays of shape (n_rows, n_cols), -inf for pairs that are not allowed; a SciPy
        sparse matrix for samples whose mask was one
        """

        def one(prepared: Prepared) -> Any:
            return prepared.sample.table(prepared.block.scores(self.coef_), -np.inf)

        return self._each(one, self._queries(X))

    def _pair_counts(self, X: Any, Y: Any) -> tuple[int, int, int]:
        """Numbers of correct, of predicted and of observed pairs, over all samples."""
        common = predicted = observed = 0
        for sample, label, pairs in self._compared(X, Y):
            found = label if label.ndim == 2 else _pairs(label, sample.is_group)
            common += _common(found, pairs)
            predicted, observed = predicted + len(found), observed + len(pairs)
        return common, predicted, observed

    def _compared(self, X: Any, Y: Any) -> Iterator[tuple[PairSample, Any, Ints]]:
        """Samples, what is predicted of them, and the observed pairs."""
        queries = self._queries(X)
        truth = self._truth(queries, Y)
        found = self._each(lambda one: self._output(one, self._best(one.block)), queries)
        return zip((one.sample for one in queries), found, truth, strict=True)

    # ------------------------------------------------------------------ probabilities
    def predict_links(
        self,
        X: Any,
        choose: str = "map",
        precision: float | None = None,
        *,
        known: Any = None,
        tol: float | None = None,
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
            raise ValueError(f"`choose` must be 'map' or 'f1'; got {choose!r}.")
        if precision is not None and choose != "map":
            raise ValueError("choose: give either choose='f1' or a precision, not both")
        prepared = self._queries(X, known)
        found = self._marginals(prepared, tol, method, options)
        loose = copy.copy(self)
        loose.perfect = False

        def one(m: int) -> Any:
            sample, _, block = prepared[m]
            probability = np.clip(found[m][: sample.graph.n_edges], 0.0, 1.0)
            if precision is None and choose == "map":
                indices = block.structure.encode(self._best(block)).indices
                edges = indices[indices < probability.size]
            else:
                space = loose._space_in_time(sample, 0.5, f"X[{m}]")
                if precision is None:
                    edges = links_of_largest_f1(space, probability).edges
                else:
                    edges = links_at_precision(space, probability, precision)[0].edges
            linked = np.zeros(probability.size, dtype=bool)
            linked[edges] = True
            return sample.link_frame(probability, linked)

        return self._each(one, range(len(prepared)))

    def events(
        self,
        X: Any,
        Y: Any,
        tol: float | None = None,
        method: str = "auto",
        *,
        known: Any = None,
        **options: Any,
    ) -> Events:
        """Which pairs were observed and their probabilities, for scikit-learn's metrics.

        Every allowed pair is an event; the others, which have probability 0, are one event weighted
        by their number (two if some of them were observed): give the weights as `sample_weight`.
        The other arguments are passed to `predict_marginals`.
        """
        queries = self._queries(X, known)
        found = self._marginals(queries, tol, method, options)
        samples = [one.sample for one in queries]
        return join_events(map(_pair_events, samples, self._truth(queries, Y), found))

    def _truth(self, prepared: Sequence[Prepared], Y: Any) -> list[Ints]:
        """The observed pairs of each sample, also outside the candidate pairs."""
        found = []
        for m, label in enumerate(check_same_length(prepared, Y)):
            sample, space, _ = prepared[m]
            read = read_label(label, sample, f"Y[{m}]")
            if not read.whole:
                raise ValueError(f"Y[{m}]: found NaN; single nodes are -1")
            n_rows = None if sample.is_group else sample.shape[0]
            ends = read.pairs + [0, n_rows or 0]
            used = np.bincount(ends.ravel(), minlength=space.n_nodes)
            with naming(f"Y[{m}]"):
                check_counts(used, space.capacity, np.ones(used.size, dtype=bool), n_rows)
            found.append(read.pairs)
        return found


def _tie_seed(block: Block, scores: Floats) -> int:
    """A seed that depends on what a sample is, not on its place in X.

    It is computed from some of its scores or, if all are equal, from its features.
    """
    if scores.size and scores[0] == scores[-1] and (scores == scores[0]).all():
        scores = block.scores(np.sin(np.arange(1.0, block.features.n_features + 1.0)))
    return zlib.crc32(np.ascontiguousarray(scores[:: max(scores.size // 64, 1)]).data)


def _label(found: Ints, sample: PairSample) -> Ints:
    """A label of a space, whose nodes may be rows, then columns, as pairs or partners."""
    n_rows = sample.shape[0]
    if sample.is_group or found.shape == (n_rows,):
        return found
    if found.ndim == 2:
        return found - np.array([0, n_rows])
    partner = found[:n_rows]  # of all nodes, if some have a capacity of 0
    return np.where(partner < 0, -1, partner - n_rows)


def _pairs(partner: Ints, group: bool) -> Ints:
    """The pairs of a label: (row, column), or nodes i < j of a group."""
    rows = np.flatnonzero(partner > np.arange(partner.size) if group else partner >= 0)
    return np.stack([rows, partner[rows]], axis=1)


def _common(one: Ints, other: Ints) -> int:
    """The number of pairs in both."""
    both = np.concatenate([one, other])
    return int(both.shape[0] - np.unique(both, axis=0).shape[0])


def _pair_events(sample: PairSample, pairs: Ints, tau: Floats) -> Events:
    """Allowed pairs one by one; the others, which have probability 0, as events with weights."""
    graph, (n, m) = sample.graph, sample.shape
    edges = graph.edge_between(pairs[:, 0], pairs[:, 1])
    happened = np.zeros(graph.n_edges, dtype=bool)
    happened[edges[edges >= 0]] = True
    missed = np.count_nonzero(edges < 0)
    others = (n * (n - 1) // 2 if sample.is_group else n * m) - graph.n_edges - missed
    rest = [(y, count) for y, count in ((False, others), (True, missed)) if count]
    return as_events(
        np.append(happened, [y for y, _ in rest]),
        np.append(tau[: graph.n_edges], np.zeros(len(rest))),
        np.append(np.ones(graph.n_edges), [count for _, count in rest]),
    )
