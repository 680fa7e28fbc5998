"""What pair scores are good for without decoding: rejecting bad pairs, suggesting candidates.

Scores come as a symmetric (n, n) array, whose diagonal is ignored, as a rectangular
(n_rows, n_cols) array where rows are paired with columns, or as a SciPy sparse matrix of either
kind whose stored entries, zeros included, are the allowed pairs. In arrays -inf marks pairs that
are not allowed. A square matrix is taken for symmetric unless `bipartite=True`.

`partner` has the partner of each person (bipartite: the column of each row), -1 for singles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

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

BLOCK = 1 << 21  # entries looked at together, to keep copies small
EXACTLY = 1 + 1e-12  # so that 0.29 * 100 is 29
SYMMETRIC = 1e-8  # relative to the largest score


@dataclass(frozen=True)
class Rejection:
    """Rejecting the pairs with scores below `threshold`: shares of all and of the true pairs."""

    threshold: float
    rejected: float
    lost: float


@dataclass(frozen=True)
class PairROC:
    """How well scores tell true pairs from all others.

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
        share = _share("false_positive_rate", false_positive_rate)
        n_wrong = self._scores.size - self._true.size
        # Wrong pairs accepted at the scores in order: a falling sequence, bisected.
        low, high = 0, self._scores.size
        while low < high:
            middle = (low + high) // 2
            if self._wrong_from(self._scores[middle]) <= share * n_wrong * EXACTLY:
                high = middle
            else:
                low = middle + 1
        return float(self._scores[low]) if low < self._scores.size else np.inf

    def rejecting(self, *, share: float) -> Rejection:
        """The highest threshold that rejects at most this share of all pairs."""
        size = self._scores.size
        at = int(_share("share", share) * size * EXACTLY)
        return self.rejection(float(self._scores[at]) if at < size else np.inf)

    def rejection(self, threshold: float) -> Rejection:
        """What a threshold does."""
        rejected = np.searchsorted(self._scores, threshold) / self._scores.size
        lost = np.searchsorted(self._true, threshold) / self._true.size
        return Rejection(float(threshold), float(rejected), float(lost))

    def _wrong_from(self, score: float) -> int:
        below = np.searchsorted(self._scores, score) - np.searchsorted(self._true, score)
        return int(self._scores.size - self._true.size - below)


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
    samples = list(_samples(scores, partner))
    values, true = [], []
    for name, sample_scores, sample_partner in samples:
        table = _Table(sample_scores, bipartite, name, symmetric=True)
        values.append(np.sort(table.values()))
        true.append(np.sort(_true_scores(table, sample_partner)))
    sample_aucs = np.array([_auc(v, t) for v, t in zip(values, true, strict=True)])
    everything = values[0] if len(values) == 1 else np.sort(np.concatenate(values))
    hits = np.sort(np.concatenate(true))
    if hits.size == 0 or hits.size == everything.size:
        kind = "true" if hits.size == 0 else "wrong"
        raise ValueError(f"partner: no {kind} pair among {everything.size}, so there is no curve")
    auc = float(sample_aucs[0]) if len(samples) == 1 else _auc(everything, hits)
    return PairROC(*_curve(everything, hits), auc, sample_aucs, everything, hits)


def pair_auc(scores: Any, partner: Any, *, bipartite: bool | None = None) -> float:
    """Probability that a true pair scores higher than a wrong one; see `pair_roc`."""
    return pair_roc(scores, partner, bipartite=bipartite).auc


def top_candidates(scores: Any, k: int, *, bipartite: bool | None = None) -> tuple[Ints, Floats]:
    """Each person's k best partners, best first, and their scores; -1 and -inf if there are fewer.

    Scores need not be symmetric: row i is how person i would rank the others.

    Examples
    --------
    >>> indices, values = top_candidates([[0, 3, 1], [3, 0, 2], [1, 2, 0]], 1)
    >>> indices.ravel().tolist()
    [1, 0, 1]
    """
    if k != int(k) or k < 1:
        raise ValueError(f"k: expected a whole number >= 1, got {k!r}")
    table = _Table(scores, bipartite)
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


def rank_of_partner(scores: Any, partner: ArrayLike, *, bipartite: bool | None = None) -> Floats:
    """Rank of each person's partner among all allowed ones, 1 the best, NaN for singles.

    Equal scores share the mean of their ranks. A partner who is not allowed has rank NaN.
    """
    table = _Table(scores, bipartite)
    who = _partners(table, partner)
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
    partner: ArrayLike,
    threshold: float | None = None,
    *,
    share: float | None = None,
    bipartite: bool | None = None,
) -> Ints:
    """The pairs of a proposed matching that score below a threshold, worst first.

    `share` in place of `threshold` asks for the worst share of the proposed pairs, such as .1.
    Shape (n_flagged, 2): persons i < j, or row and column. Pairs that are not allowed come first.
    """
    if (threshold is None) == (share is None):
        raise ValueError("flag_pairs: give either a threshold or a share")
    if threshold is not None and np.isnan(threshold):
        raise ValueError("threshold: expected a number, got NaN")
    if share is not None and not 0.0 <= share <= 1.0:
        raise ValueError(f"share: expected a number from 0 to 1, got {share!r}")
    table = _Table(scores, bipartite, symmetric=True)
    pairs = _pairs(table, _partners(table, partner))
    values = table.at(pairs[:, 0], pairs[:, 1])
    order = np.argsort(values, kind="stable")
    if share is not None:
        return pairs[order[: round(share * order.size)]]
    return pairs[order[values[order] < float(threshold)]]  # type: ignore[arg-type]


class _Table:
    """Scores of any of the accepted kinds, checked."""

    def __init__(
        self, scores: Any, bipartite: bool | None, name: str = "scores", symmetric: bool = False
    ) -> None:
        self.name = name
        self.sparse = sp.issparse(scores)
        if self.sparse:
            table = scores.tocsr(copy=True)
            table.sum_duplicates()
        else:
            table = np.asarray(scores)
        if table.ndim != 2 or table.dtype.kind not in "fiub":
            raise ValueError(
                f"{name}: expected a matrix of numbers, got {table.dtype} of shape {table.shape}"
            )
        n, m = self.shape = table.shape
        if bipartite is False and n != m:
            raise ValueError(f"{name}: expected a square matrix, got {n} x {m}")
        self.square = n == m and not bipartite
        self.table = table
        self._check_numbers()
        if self.square and symmetric:
            self._check_symmetry()

    def _check_numbers(self) -> None:
        for first, block, columns in self.blocks():
            bad = np.argwhere(np.isnan(block) | (block == np.inf))
            if bad.size:
                i, j = first + bad[0, 0], columns[bad[0, 0], bad[0, 1]]
                raise ValueError(
                    f"{self.name}: expected finite numbers, or -inf for pairs that are not "
                    f"allowed; got {block[tuple(bad[0])]} at ({i}, {j})"
                )

    def _check_symmetry(self) -> None:
        table = self.table
        worst, where, largest = 0.0, (0, 0), 0.0
        if self.sparse:
            pattern = sp.csr_matrix((np.ones(table.nnz), table.indices, table.indptr), table.shape)
            lone = (pattern - pattern.T).tocoo()
            lone.eliminate_zeros()
            if lone.nnz:
                raise ValueError(
                    f"{self.name}: not symmetric: ({lone.row[0]}, {lone.col[0]}) or its mirror "
                    "image is not stored. Store every pair twice (scores + scores.T), "
                    "or pass bipartite=True if rows and columns are different persons"
                )
            other = table.T.tocsr()
            other.sort_indices()
            gap = _gap(table.data, other.data)
            gap[table.indices == np.repeat(np.arange(self.shape[0]), np.diff(table.indptr))] = 0
            largest = _largest(table.data)
            if gap.size:
                at = int(gap.argmax())
                row = int(np.searchsorted(table.indptr, at, side="right")) - 1
                worst, where = float(gap[at]), (row, int(table.indices[at]))
        else:
            step = max(BLOCK // max(self.shape[1], 1), 1)
            for first in range(0, self.shape[0], step):
                rows = slice(first, first + step)
                gap = _gap(table[rows].astype(np.float64), table[:, rows].T.astype(np.float64))
                gap[np.arange(gap.shape[0]), first + np.arange(gap.shape[0])] = 0
                i, j = divmod(int(gap.argmax()), gap.shape[1])
                if gap[i, j] > worst:
                    worst, where = float(gap[i, j]), (first + i, j)
                largest = max(largest, _largest(table[rows]))
        if worst > SYMMETRIC * largest:
            i, j = where
            raise ValueError(
                f"{self.name}: expected a symmetric matrix, but entries ({i}, {j}) and ({j}, {i}) "
                f"differ by {worst:.3g}. Symmetrise it, for instance 0.5 * (scores + scores.T), "
                "or pass bipartite=True if rows and columns are different persons"
            )

    def blocks(self) -> Iterator[tuple[int, Floats, Ints]]:
        """Rows in blocks (first row, scores, their columns), -inf where nothing is allowed."""
        n, m = self.shape
        if not self.sparse:
            step = max(BLOCK // max(m, 1), 1)
            for first in range(0, n, step):
                block = self.table[first : first + step].astype(np.float64)
                size = block.shape[0]
                if self.square:
                    block[np.arange(size), first + np.arange(size)] = -np.inf
                yield first, block, np.broadcast_to(np.arange(m), block.shape)
            return
        table, first = self.table, 0
        length = np.diff(table.indptr)
        while first < n:
            # As many rows as fit when padded to the longest of them.
            width = np.maximum.accumulate(length[first:])
            size = max(int((width * np.arange(1, width.size + 1) <= BLOCK).sum()), 1)
            rows = np.arange(first, first + size)
            here = np.arange(width[size - 1])
            inside = here < length[rows, None]
            at = np.where(inside, table.indptr[rows, None] + here, 0)
            columns = np.where(inside, table.indices[at], -1) if table.nnz else at
            block = np.where(inside, table.data[at], -np.inf) if table.nnz else at.astype(float)
            if self.square:
                block[columns == rows[:, None]] = -np.inf
            yield first, block, columns.astype(np.int64)
            first += size

    def values(self) -> Floats:
        """Scores of all allowed pairs, unordered pairs once."""
        if self.sparse:
            kept = sp.triu(self.table, 1).data if self.square else self.table.data
        else:
            kept = (
                self.table[np.triu(np.ones(self.shape, np.bool_), 1)] if self.square else self.table
            )
        kept = np.asarray(kept, np.float64).ravel()
        return kept[kept > -np.inf]

    def at(self, rows: Ints, cols: Ints) -> Floats:
        """Scores of single pairs; -inf for those not allowed, and where the column is -1."""
        found = np.full(rows.shape, -np.inf)
        real = cols >= 0
        rows, cols = rows[real], cols[real]
        if not self.sparse:
            found[real] = self.table[rows, cols]
        elif rows.size and self.table.nnz:
            m = self.shape[1]
            stored = np.repeat(np.arange(self.shape[0]), np.diff(self.table.indptr)) * m
            stored += self.table.indices
            at = np.minimum(np.searchsorted(stored, rows * m + cols), stored.size - 1)
            hit = stored[at] == rows * m + cols
            found[real] = np.where(hit, self.table.data[at], -np.inf)
        return found


def _gap(a: Floats, b: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # -inf on both sides
        return np.where(a == b, 0.0, np.abs(a - b))


def _largest(values: NDArray[Any]) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _samples(scores: Any, partner: Any) -> Iterator[tuple[str, Any, Any]]:
    """One sample, or the samples of a list."""
    several = isinstance(scores, Sequence) and any(
        sp.issparse(item) or np.ndim(item) == 2 for item in scores
    )
    if not several:
        yield "scores", scores, partner
        return
    if len(scores) != len(partner):
        raise ValueError(f"partner: expected {len(scores)} samples like scores, got {len(partner)}")
    for k, item in enumerate(scores):
        yield f"scores[{k}]", item, partner[k]


def _partners(table: _Table, partner: ArrayLike) -> Ints:
    name = table.name.replace("scores", "partner")
    n, m = table.shape
    who = np.asarray(partner)
    if who.shape != (n,) or who.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: expected {n} integers, one per row of the scores, -1 for singles; "
            f"got {who.dtype} of shape {who.shape}"
        )
    who = who.astype(np.int64)
    wrong = np.flatnonzero((who < -1) | (who >= m))
    if wrong.size:
        raise ValueError(f"{name}: expected -1 .. {m - 1}, got {who[wrong[0]]} at {wrong[0]}")
    paired = np.flatnonzero(who >= 0)
    if table.square:
        wrong = paired[(who[who[paired]] != paired) | (who[paired] == paired)]
        if wrong.size:
            i = wrong[0]
            j = who[i]
            if i == j:
                raise ValueError(f"{name}: person {i} has itself as partner; -1 marks singles")
            raise ValueError(
                f"{name}: person {i} has partner {j}, but person {j} has {who[j]}; expected {i}"
            )
    else:
        _cols, first = np.unique(who[paired], return_index=True)
        again = np.setdiff1d(np.arange(paired.size), first)
        if again.size:
            i = paired[again[0]]
            raise ValueError(
                f"{name}: column {who[i]} is the partner of row {i} and of an earlier row; "
                "expected every column once at most"
            )
    return who


def _pairs(table: _Table, who: Ints) -> Ints:
    i = np.flatnonzero(who > np.arange(who.size)) if table.square else np.flatnonzero(who >= 0)
    return np.stack([i, who[i]], axis=1)


def _true_scores(table: _Table, partner: ArrayLike) -> Floats:
    pairs = _pairs(table, _partners(table, partner))
    values = table.at(pairs[:, 0], pairs[:, 1])
    missing = np.flatnonzero(values == -np.inf)
    if missing.size:
        i, j = pairs[missing[0]]
        raise ValueError(f"{table.name}: the true pair ({i}, {j}) is not among the allowed ones")
    return values


def _auc(scores: Floats, true: Floats) -> float:
    """Mann-Whitney statistic from the sorted scores of all and of the true pairs."""
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


def _share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a share from 0 to 1, got {value!r}")
    return float(value)
