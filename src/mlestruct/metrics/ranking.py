"""Ranking of pairs by their scores, without decoding: ROC curves, thresholds, candidates.

Scores come as a symmetric (n, n) array, whose diagonal is ignored, as a rectangular
(n_rows, n_cols) array where rows are paired with columns, or as a SciPy sparse matrix of either
kind whose stored entries, zeros included, are the allowed pairs. In arrays -inf marks pairs that
are not allowed. A square matrix is taken for symmetric unless `bipartite=True`.

`partner` has the partner of each node (bipartite: the column of each row), -1 for single ones;
where a function needs the pairs only, these are accepted too, as `mlestruct.labels.check_pairs`
takes them.
"""

from __future__ import annotations

import numbers
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..labels import check_partners, read_pairs
from .pair_tables import PairTable, read_tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

__all__ = [
    "PairROC",
    "Rejection",
    "flag_pairs",
    "pair_auc",
    "pair_roc",
    "rank_of_partner",
    "top_candidates",
]

NAMES = ("scores", "partner")  # the arguments, in error messages


@dataclass(frozen=True)
class Rejection:
    """Rejecting the pairs with scores below `threshold`: shares of all and of the true pairs."""

    threshold: float
    rejected: float
    lost: float


@dataclass(frozen=True)
class PairROC:
    """ROC curve of scores that separate true pairs from all others.

    A pair is accepted if its score is at least the threshold. The curve has one point per
    distinct score of a true pair and one just above it; between them it is straight or the
    change is in the wrong pairs alone. `auc` is the probability that a true pair scores higher
    than a wrong one, ties counting one half; `sample_aucs` has it for each sample alone (NaN
    where a sample has no true or no wrong pair).
    """

    false_positive_rate: Floats
    true_positive_rate: Floats
    thresholds: Floats
    auc: float
    sample_aucs: Floats
    _scores: Floats = field(repr=False)  # of all pairs, sorted
    _true: Floats = field(repr=False)  # of the true ones, sorted

    def threshold_at(self, *, false_positive_rate: float) -> float:
        """The lowest threshold that accepts at most this share of the wrong pairs."""
        scores, true = self._scores, self._true
        allowed = _part("false_positive_rate", false_positive_rate, scores.size - true.size)

        def is_strict(k: int) -> bool:
            """Whether at most `allowed` wrong pairs score at least scores[k]; rises with k."""
            wrong_below = np.searchsorted(scores, scores[k]) - np.searchsorted(true, scores[k])
            return bool(scores.size - true.size - wrong_below <= allowed)

        at = bisect_left(range(scores.size), True, key=is_strict)
        return float(scores[at]) if at < scores.size else np.inf

    def rejecting(self, *, share: float) -> Rejection:
        """The highest threshold that rejects at most this share of all pairs."""
        at = _part("share", share, self._scores.size)
        return self.rejection(float(self._scores[at]) if at < self._scores.size else np.inf)

    def rejection(self, threshold: float) -> Rejection:
        """The shares of pairs that a threshold rejects."""
        rejected = np.searchsorted(self._scores, threshold) / self._scores.size
        lost = np.searchsorted(self._true, threshold) / self._true.size
        return Rejection(float(threshold), float(rejected), float(lost))


def pair_roc(scores: Any, partner: Any, *, bipartite: bool | None = None) -> PairROC:
    """ROC curve of true pairs among all allowed pairs, each unordered pair counted once.

    Lists of several samples' scores and partners are pooled: all their pairs enter one curve
    with equal weight, so the scores must mean the same in every sample; `sample_aucs` does not
    depend on that.

    Examples
    --------
    >>> scores = np.array([[0, 3, 1, 2], [3, 0, 2, 1], [1, 2, 0, 1], [2, 1, 1, 0]])
    >>> curve = pair_roc(scores, [1, 0, 3, 2])  # pairs 0-1 (score 3) and 2-3 (score 1)
    >>> curve.auc
    0.625
    >>> curve.rejecting(share=0.5)
    Rejection(threshold=2.0, rejected=0.5, lost=0.5)
    """
    values, true = [], []
    for table, name, label in read_tables(scores, partner, NAMES, bipartite, absent=-np.inf):
        _check_scores(table)
        table.check_symmetric()
        pairs = read_pairs(label, *table.sides, name)
        own = table.at(pairs[:, 0], pairs[:, 1])
        if (own == -np.inf).any():
            i, j = pairs[int(np.argmin(own))]
            raise ValueError(
                f"{table.name}: the true pair ({i}, {j}) is not among the allowed ones"
            )
        allowed = table.values()
        values.append(np.sort(allowed[allowed > -np.inf]))
        true.append(np.sort(own))
    sample_aucs = np.array([_auc(v, t) for v, t in zip(values, true, strict=True)])
    everything = values[0] if len(values) == 1 else np.sort(np.concatenate(values))
    hits = np.sort(np.concatenate(true))
    if hits.size == 0 or hits.size == everything.size:
        kind = "true" if hits.size == 0 else "wrong"
        raise ValueError(f"partner: no {kind} pair among {everything.size}, so there is no curve")
    auc = float(sample_aucs[0]) if len(values) == 1 else _auc(everything, hits)
    return PairROC(*_curve(everything, hits), auc, sample_aucs, everything, hits)


def pair_auc(scores: Any, partner: Any, *, bipartite: bool | None = None) -> float:
    """Probability that a true pair scores higher than a wrong one; see `pair_roc`."""
    return pair_roc(scores, partner, bipartite=bipartite).auc


def top_candidates(scores: Any, k: int, *, bipartite: bool | None = None) -> tuple[Ints, Floats]:
    """The k best partners of each node, best first, and their scores; -1 and -inf if fewer.

    Scores need not be symmetric: row i ranks the partners of node i.

    Examples
    --------
    >>> indices, values = top_candidates([[0, 3, 1], [3, 0, 2], [1, 2, 0]], 1)
    >>> indices.ravel().tolist()
    [1, 0, 1]
    """
    if isinstance(k, bool) or not isinstance(k, numbers.Real) or not 1 <= k < 2**31 or k % 1:
        raise ValueError(f"k: expected a whole number >= 1, got {k!r}")
    table = _score_table(scores, bipartite)
    shape = (table.shape[0], int(k))
    indices, values = np.full(shape, -1), np.full(shape, -np.inf)
    for first, block, columns in table.blocks():
        size = min(int(k), block.shape[1])
        best = np.argpartition(-block, size - 1, axis=1)[:, :size] if size else columns[:, :0]
        best = np.sort(best, axis=1)  # equal scores in the order of their columns
        found = np.take_along_axis(block, best, axis=1)
        order = np.argsort(-found, axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1)
        found = np.take_along_axis(found, order, axis=1)
        rows = slice(first, first + block.shape[0])
        values[rows, :size] = found
        named = np.take_along_axis(columns, best, axis=1)
        indices[rows, :size] = np.where(found > -np.inf, named, -1)
    return indices, values


def rank_of_partner(scores: Any, partner: Any, *, bipartite: bool | None = None) -> Floats:
    """Rank of each node's partner among all allowed ones, 1 the best, NaN for single nodes.

    Equal scores share the mean of their ranks. A partner that is not allowed has rank NaN.
    """
    table = _score_table(scores, bipartite)
    who = check_partners(partner, *table.sides, False, "partner")
    target = table.at(np.arange(table.shape[0]), who)
    rank = np.full(table.shape[0], np.nan)
    for first, block, _columns in table.blocks():
        rows = slice(first, first + block.shape[0])
        better = (block > target[rows, None]).sum(axis=1)
        equal = (block == target[rows, None]).sum(axis=1)
        rank[rows] = better + 0.5 * (equal + 1)
    return np.where(target > -np.inf, rank, np.nan)


def flag_pairs(
    scores: Any,
    partner: Any,
    threshold: float | None = None,
    *,
    share: float | None = None,
    bipartite: bool | None = None,
) -> Ints:
    """The pairs of a proposed matching that score below a threshold, worst first.

    `share` in place of `threshold` asks for the worst share of the proposed pairs, such as .1.
    Shape (n_flagged, 2): nodes i < j, or row and column. Pairs that are not allowed come first.
    """
    if (threshold is None) == (share is None):
        raise ValueError("flag_pairs: give either a threshold or a share")
    if threshold is not None and (not isinstance(threshold, numbers.Real) or np.isnan(threshold)):
        raise ValueError(f"threshold: expected a number, got {threshold!r}")
    if share is not None and (not isinstance(share, numbers.Real) or not 0.0 <= share <= 1.0):
        raise ValueError(f"share: expected a number from 0 to 1, got {share!r}")
    table = _score_table(scores, bipartite)
    table.check_symmetric()
    pairs = read_pairs(partner, *table.sides, "partner")
    values = table.at(pairs[:, 0], pairs[:, 1])
    order = np.argsort(values, kind="stable")
    if share is not None:
        return pairs[order[: round(share * order.size)]]
    return pairs[order[values[order] < float(threshold)]]  # type: ignore[arg-type]


def _score_table(scores: Any, bipartite: bool | None) -> PairTable:
    """One checked table of scores."""
    table = PairTable(scores, bipartite, "scores", absent=-np.inf)
    _check_scores(table)
    return table


def _check_scores(table: PairTable) -> None:
    """Raise unless scores are finite, or -inf where a pair is not allowed."""
    for first, block, columns in table.blocks():
        bad = np.argwhere(np.isnan(block) | (block == np.inf))
        if bad.size:
            i, j = first + bad[0, 0], columns[bad[0, 0], bad[0, 1]]
            raise ValueError(
                f"{table.name}: expected finite numbers, or -inf for pairs that are not allowed; "
                f"got {block[tuple(bad[0])]} at ({i}, {j})"
            )


def _auc(scores: Floats, true: Floats) -> float:
    """Mann-Whitney statistic from the sorted scores of all and of the true pairs.

    True pairs are few: one sort of all scores and a binary search per true pair give the number of
    scikit-learn's `roc_auc_score` in a sixth of its time on 3 million pairs.
    """
    n_wrong = scores.size - true.size
    if n_wrong == 0 or true.size == 0:
        return np.nan
    below = [
        np.searchsorted(scores, true, side) - np.searchsorted(true, true, side)
        for side in ("left", "right")
    ]
    return float((below[0] + below[1]).sum() / (2.0 * n_wrong * true.size))


def _curve(scores: Floats, true: Floats) -> tuple[Floats, Floats, Floats]:
    """False and true positive rates at falling thresholds, from 0 to 1."""
    at = np.searchsorted(scores, np.unique(true), "right")  # next larger score, if there is one
    higher = scores[at[at < scores.size]]
    thresholds = np.unique(np.concatenate([true, higher, scores[:1]]))[::-1]
    accepted = scores.size - np.searchsorted(scores, thresholds)
    hits = true.size - np.searchsorted(true, thresholds)
    false_rate = (accepted - hits) / (scores.size - true.size)
    return np.r_[0.0, false_rate], np.r_[0.0, hits / true.size], np.r_[np.inf, thresholds]


def _part(name: str, share: float, size: int) -> int:
    """How many of `size` are a share of them, rounded down (0.29 of 100 are 29)."""
    if not 0 <= share <= 1:
        raise ValueError(f"{name}: expected a share from 0 to 1, got {share!r}")
    return int(share * size * (1.0 + 1e-12))
