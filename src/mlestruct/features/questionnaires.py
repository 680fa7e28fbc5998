"""Features of pairs of people who answered the same questionnaire.

Every feature of a pair depends on two answers to one question, so it is a small symmetric table,
and the score of a pair is x_i' B x_j with x_i the 0/1 indicators of what person i answered. Scores
look up one number per question, and moments count pairs of answers: no array of shape
(n, n, n_features) exists. Compiled loops do both as fast as one thread of BLAS.

Second moments follow from the counts N = X'X alone, because sums over pairs of people factorise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._lazy import cached_property
from . import _questionnaire_kernels as kernels
from .contract import FeatureMap, PairGraph
from .rows import LARGEST_GRAM, gram_step

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Choice = bool | Sequence[Any] | None


class QuestionnairePairs(FeatureMap):
    """Differences and combinations of two people's answers, for every pair or those of a graph.

    For each question a pair has the feature |a - b|, in units of levels: a negative weight means
    that agreement raises the score. It also has one indicator for each unordered pair of answers.
    First come all differences, then the indicators, question by question: 0-0, 0-1, ..., 1-1, ...

    Someone who left a question empty (NaN, None) has no indicator for it and difference 0. A column
    of zeros makes a constant feature, which matchings with single people (perfect=False) need.

    Parameters
    ----------
    answers : array or DataFrame of shape (n, n_questions)
        Whole numbers from 0.
    levels : number of possible answers to each question
        Default: the largest answer found plus one. State it when there are several samples, which
        must agree.
    names : names of the questions; default: the columns of a DataFrame, else q0, q1, ...
    ordinal : questions with a difference, as True (all), False, names or positions
    interactions : questions with indicators, likewise
    graph : allowed pairs (i, j), i < j
        Default: all, in the order (0, 1), (0, 2), ..., (1, 2), ...

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct.features.questionnaires import QuestionnairePairs
    >>> pairs = QuestionnairePairs([[0, 4], [1, 1], [0, 2]], names=["smoking", "bed time"])
    >>> pairs.feature_names[:4]
    ['|smoking|', '|bed time|', 'smoking: 0-0', 'smoking: 0-1']
    >>> theta = np.zeros(pairs.n_features)
    >>> theta[:2] = -1.0
    >>> pairs.scores(theta)
    array([-4., -2., -2.])
    """

    largest_matrix = 2_000_000  # numbers: 16 MB; the compiled loops are faster than larger products

    def __init__(
        self,
        answers: ArrayLike,
        levels: Sequence[int] | None = None,
        names: Sequence[str] | None = None,
        ordinal: Choice = None,
        interactions: Choice = None,
        graph: PairGraph | None = None,
    ):
        try:
            table = np.asarray(answers)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"answers: expected an array: {error}") from None
        if np.ma.is_masked(answers):
            raise ValueError("answers: found masked entries; give -1 or NaN where they are missing")
        if table.ndim != 2 or 0 in table.shape:
            raise ValueError(f"answers: expected shape (n, n_questions), got {table.shape}")
        n, n_questions = table.shape
        if names is None:
            names = getattr(answers, "columns", [f"q{q}" for q in range(n_questions)])
        self.names = [str(name) for name in names]
        if len(self.names) != n_questions or len(set(self.names)) != n_questions:
            raise ValueError(
                f"names: expected {n_questions} different names, one per question, got {self.names}"
            )
        self.answers = _whole_numbers(table, self.names)  # -1 where missing
        self.levels = _levels(levels, self.answers, self.names)
        self.ordinal = _chosen("ordinal", ordinal, self.names)
        self.interactions = _chosen("interactions", interactions, self.names)
        self.shape: tuple[int, int] = (n, n)
        self.graph = graph
        if graph is not None and graph.shape != self.shape:
            raise ValueError(f"graph: expected {n} nodes, one per person, got {graph.shape[0]}")
        self.n_scored = n * (n - 1) // 2 if graph is None else int(graph.n_edges)
        ends = np.cumsum(np.where(self.interactions, self.levels * (self.levels + 1) // 2, 0))
        self._first = int(self.ordinal.sum()) + np.concatenate([[0], ends])  # indicators of q
        self._difference = np.cumsum(self.ordinal) - 1  # place of |q|
        self.n_features = int(self._first[-1])
        if self.n_features == 0:
            raise ValueError("ordinal and interactions: no question has any feature")
        self._start = np.concatenate([[0], np.cumsum(self.levels)])  # answers to all questions
        self._position = np.where(
            self.answers < 0, self._start[-1], self.answers + self._start[:-1]
        )

    def on_pairs(self, graph: PairGraph, *, one_group: bool = True) -> QuestionnairePairs:
        """The same features on the pairs of `graph` only."""
        if self.graph is not None or graph.is_complete or not one_group:
            return self
        return QuestionnairePairs(
            np.where(self.answers < 0, np.nan, self.answers),
            self.levels.tolist(),
            self.names,
            np.flatnonzero(self.ordinal).tolist(),
            np.flatnonzero(self.interactions).tolist(),
            graph,
        )

    @property
    def feature_names(self) -> list[str]:  # type: ignore[override]
        """A name for each weight: "|smoking|" for differences, "smoking: 0-1" for indicators."""
        found = [f"|{name}|" for name, use in zip(self.names, self.ordinal, strict=True) if use]
        for q in np.flatnonzero(self.interactions):
            found += [
                f"{self.names[q]}: {a}-{b}"
                for a, b in zip(*_upper(int(self.levels[q])), strict=True)
            ]
        return found

    def scores(self, theta: Floats) -> Floats:
        table = self._table(_vector("theta", theta, self.n_features))
        out = np.empty(self.n_scored)
        if self.graph is not None:
            kernels.pair_scores(*self._all_ends, self._position, table, out)
            return out
        kernels.packed_scores(self._position, table, out)
        return out

    def moments(self, tau: Floats) -> Floats:
        tau = _vector("tau", tau, self.n_scored)
        if self.graph is not None:
            return self._counted(*self._all_ends, tau)
        counts = np.zeros((self._start[-1] + 1, self._start[-1] + 1))
        kernels.packed_counts(self._position, tau, counts)
        return self._contracted(counts)

    def moments_at(self, indices: Ints, values: Floats) -> Floats:
        places = np.asarray(indices, dtype=np.int64)
        if places.size and not 0 <= places.min() <= places.max() < self.n_scored:
            raise IndexError(f"indices: expected 0 to {self.n_scored - 1}")
        return self._counted(*self._ends(places), _vector("values", values, places.size))

    @cached_property
    def matrix(self) -> Floats | None:  # type: ignore[override]
        """The features as an array (n_scored, n_features) where that is small, else None."""
        if self.n_scored * self.n_features > self.largest_matrix:
            return None
        return self.rows(*self._all_ends)

    def shortest_equivalent(self, theta: Floats) -> Floats:
        """The shortest weights that give perfect matchings the same probabilities as `theta`.

        Weights are not unique: the difference of binary answers is the indicator 0-1, and scores
        u_i + u_j are the same in every perfect matching. A ridge penalty selects the shortest of
        all equivalent weights, so learned weights are to be compared with this form of the true
        ones. Exact if everyone has answered every question.
        """
        out = np.zeros(self.n_features)
        for q, levels in enumerate(self.levels):
            places, tables = self._question_tables(q)
            centre = np.eye(levels) - 1.0 / levels  # takes u_a + u_b out of a table
            effect = (centre @ tables @ centre).reshape(len(places), levels**2).T
            out[places] = np.linalg.pinv(effect, rcond=1e-10) @ (effect @ theta[places])
        return out

    def importance(self, theta: Floats) -> dict[str, float]:
        """The standard deviation of what each question adds to a pair's score.

        Over all pairs of people, without the part that depends on one of the two only. A question
        to which most give the same answer has little importance, however large its weights are.
        """
        out = {}
        for q, name in enumerate(self.names):
            places, tables = self._question_tables(q)
            added = np.tensordot(np.asarray(theta, dtype=np.float64)[places], tables, 1)
            known = self.answers[self.answers[:, q] >= 0, q]
            share = np.bincount(known, minlength=int(self.levels[q])) / max(known.size, 1)
            mean = added @ share
            added = added - mean[:, None] - mean[None] + share @ mean
            out[name] = float(np.sqrt(share @ added**2 @ share))
        return out

    def second_moments(self) -> list[tuple[Floats, Floats]]:
        """The curvature of the log-likelihood of perfect matchings at theta = 0: gram and scale.

        The part u_i + u_j of a feature is the same in every perfect matching, so it is projected
        out. Scale times gram is then the exact covariance on a complete graph, where
        P(ij) = 1 / (n - 1) and P(ij, kl) = 1 / ((n - 1) (n - 3)). On other graphs it is an estimate
        with the mean degree in place of n - 1.
        """
        gram = self._complete_gram() if self.graph is None else self._graph_gram()
        degree = 2.0 * self.n_scored / self.shape[0]
        scale = (degree - 1.0) / (degree * (degree - 2.0)) if degree > 2.5 else 1.0
        return [(gram, np.array([scale]))]

    @cached_property
    def _indicators(self) -> Floats:
        """X: one row per person, one column per question and answer."""
        found = np.zeros((self.shape[0], self._start[-1] + 1))
        np.put_along_axis(found, self._position, 1.0, axis=1)
        return np.ascontiguousarray(found[:, :-1])

    @cached_property
    def _ptr(self) -> Ints:
        """Edges _ptr[i]:_ptr[i+1] belong to person i, the smaller end."""
        if self.graph is not None:
            return np.asarray(self.graph.ptr, dtype=np.int64)
        return np.concatenate([[0], np.cumsum(np.arange(self.shape[0] - 1, -1, -1))])

    def _ends(self, indices: Ints) -> tuple[Ints, Ints]:
        row = np.searchsorted(self._ptr, indices, side="right") - 1
        if self.graph is None:
            return row, indices - self._ptr[row] + row + 1
        return row, np.asarray(self.graph.col, dtype=np.int64)[indices]

    @cached_property
    def _all_ends(self) -> tuple[Ints, Ints]:
        return self._ends(np.arange(self.n_scored))

    def _table(self, theta: Floats) -> Floats:
        """B: what each two answers contribute to a score; a last row and column for missing."""
        table = np.zeros((self._start[-1] + 1, self._start[-1] + 1))
        for q, levels in enumerate(self.levels):
            a, b = _upper(int(levels))
            values = np.zeros(a.size)
            if self.ordinal[q]:
                values += theta[self._difference[q]] * (b - a)
            if self.interactions[q]:
                values += theta[self._first[q] : self._first[q + 1]]
            start = self._start[q]
            table[start + a, start + b] = table[start + b, start + a] = values
        return table

    def _contracted(self, counts: Floats) -> Floats:
        """Moments from the total weight of pairs with given answers; the adjoint of _table."""
        out = np.zeros(self.n_features)
        for q, levels in enumerate(self.levels):
            a, b = _upper(int(levels))
            start = self._start[q]
            values = counts[start + a, start + b] + (a < b) * counts[start + b, start + a]
            if self.ordinal[q]:
                out[self._difference[q]] = values @ (b - a)
            if self.interactions[q]:
                out[self._first[q] : self._first[q + 1]] = values
        return out

    def _counted(self, row: Ints, col: Ints, values: Floats) -> Floats:
        counts = np.zeros((self._start[-1] + 1, self._start[-1] + 1))
        kernels.pair_counts(row, col, self._position, values, counts)
        return self._contracted(counts)

    def rows(self, row: Ints, col: Ints) -> Floats:
        """The features of some pairs, shape (len(row), n_features)."""
        out = np.zeros((row.size, self.n_features))
        for q, levels in enumerate(self.levels):
            a, b = np.sort(self.answers[[row, col], q], axis=0)
            known = np.flatnonzero(a >= 0)
            a, b = a[known], b[known]
            if self.ordinal[q]:
                out[known, self._difference[q]] = b - a
            if self.interactions[q]:
                out[known, self._first[q] + a * levels - a * (a + 1) // 2 + b] = 1.0
        return out

    def _question_tables(self, q: int) -> tuple[Ints, Floats]:
        """Places of the features of question q, and their tables, shape (_, levels, levels)."""
        levels = int(self.levels[q])
        places, tables = [], []
        a, b = _upper(levels)
        if self.ordinal[q]:
            places.append(self._difference[q : q + 1])
            tables.append(np.abs(np.subtract.outer(np.arange(levels), np.arange(levels)))[None])
        if self.interactions[q]:
            places.append(np.arange(self._first[q], self._first[q + 1]))
            indicators = np.zeros((a.size, levels, levels))
            indicators[np.arange(a.size), a, b] = indicators[np.arange(a.size), b, a] = 1.0
            tables.append(indicators)
        if not places:
            return np.zeros(0, dtype=np.int64), np.zeros((0, levels, levels))
        return np.concatenate(places), np.concatenate(tables).astype(np.float64)

    def _complete_gram(self) -> Floats:
        """Sum over all pairs of the features' products, without their part u_i + u_j.

        With a feature's table F, sum_{i,j} (x_i' F x_j) (x_i' F' x_j) = <F, N F' N'>. The node
        effects solve ((n - 2) I + 1 1') u = r with r the features summed over each person's pairs.
        """
        n, K = self.shape[0], self.n_features
        if n < 3:
            return np.zeros((K, K))
        X = self._indicators
        counts, size = X.T @ X, X.sum(axis=0)
        blocks = [slice(a, b) for a, b in zip(self._start, self._start[1:], strict=False)]
        parts = [self._question_tables(q) for q in range(len(blocks))]
        itself, owed = np.zeros((2, X.shape[1], K))  # of a pair of i with i; r = X owed
        for block, (places, tables) in zip(blocks, parts, strict=True):
            itself[block, places] = np.diagonal(tables, axis1=1, axis2=2).T
            owed[block, places] = (tables @ size[block]).T
        owed -= itself
        total = size @ owed
        if K > LARGEST_GRAM:
            gram = np.zeros(K)
            for block, (places, tables) in zip(blocks, parts, strict=True):
                gram[places] = np.einsum("kab,a,b->k", tables**2, size[block], size[block])
            gram -= np.einsum("ak,ab,bk->k", itself, counts, itself, optimize=True)
            explained = np.einsum("ak,ab,bk->k", owed, counts, owed, optimize=True)
            return np.maximum(gram / 2.0 - (explained - total**2 / (2 * n - 2)) / (n - 2), 0.0)
        gram = np.empty((K, K))
        for one, (places, tables) in zip(blocks, parts, strict=True):
            for other, (those, theirs) in zip(blocks, parts, strict=True):
                N = counts[one, other]
                moved = (N @ theirs @ N.T).reshape(len(theirs), N.shape[0] ** 2)
                gram[np.ix_(places, those)] = tables.reshape(len(tables), -1) @ moved.T
        gram -= itself.T @ counts @ itself
        explained = owed.T @ counts @ owed - np.outer(total, total) / (2 * n - 2)
        gram = gram / 2.0 - explained / (n - 2)
        return (gram + gram.T) / 2.0

    def _graph_gram(self) -> Floats:
        """The same on the pairs of a graph, from residuals: it is positive semi-definite."""
        n, K = self.shape[0], self.n_features
        row, col = self._all_ends
        upper = sparse.csr_array((np.ones(row.size), (row, col)), shape=(n, n))
        neighbours = sparse.csr_array(upper + upper.T)
        degree = np.maximum(neighbours.sum(axis=1), 1.0)[:, None]
        effects = np.zeros((n, K))
        summed = self._summed(neighbours @ self._indicators)
        for _ in range(12):  # (D + A) u = r; the spectrum of D^-1 (D + A) lies in [0, 2]
            effects += 0.5 * (summed - neighbours @ effects) / degree - 0.5 * effects
        step = gram_step(row.size)
        some_row, some_col = row[::step], col[::step]
        gram = np.zeros(K) if K > LARGEST_GRAM else np.zeros((K, K))
        for e in range(0, some_row.size, 2048):
            i, j = some_row[e : e + 2048], some_col[e : e + 2048]
            left_over = self.rows(i, j) - effects[i] - effects[j]
            gram += (left_over**2).sum(axis=0) if gram.ndim == 1 else left_over.T @ left_over
        return gram * (row.size / max(some_row.size, 1))

    def _summed(self, around: Floats) -> Floats:
        """Features summed over each person's pairs, from the answers counted among neighbours."""
        out = np.zeros((self.shape[0], self.n_features))
        for q in range(len(self.levels)):
            places, tables = self._question_tables(q)
            known = np.flatnonzero(self.answers[:, q] >= 0)
            near = around[known, self._start[q] : self._start[q + 1]]
            for a in range(int(self.levels[q])):
                mine = self.answers[known, q] == a
                out[np.ix_(known[mine], places)] = near[mine] @ tables[:, a].T
        return out


def _vector(name: str, values: Floats, size: int) -> Floats:
    """`values` with a checked shape: compiled loops do not check bounds."""
    found = np.ascontiguousarray(values, dtype=np.float64)
    if found.shape != (size,):
        raise ValueError(f"{name}: expected shape ({size},), got {found.shape}")
    return found


@lru_cache(maxsize=64)
def _upper(levels: int) -> tuple[Ints, Ints]:
    """Unordered pairs of answers, a <= b."""
    a, b = np.triu_indices(levels)
    return a.astype(np.int64), b.astype(np.int64)


def _whole_numbers(table: NDArray[Any], names: list[str]) -> Ints:
    """Answers as integers with -1 where missing."""
    out = np.empty(table.shape, dtype=np.int64)
    for q, name in enumerate(names):
        column = table[:, q]
        if column.dtype == object:
            column = np.array([_number(value, name) for value in column])
        elif column.dtype.kind not in "biuf":
            raise _unfit(name, column[0])
        values = column.astype(np.float64)
        missing = np.isnan(values)
        wrong = ~missing & ((values < 0) | (values != np.floor(values)) | np.isinf(values))
        if wrong.any():
            raise _unfit(name, column[np.flatnonzero(wrong)[0]])
        out[:, q] = np.where(missing, -1.0, values)
    return out


def _number(value: Any, name: str) -> float:
    """A cell of a table of mixed types; pandas' markers of missing values are found by name."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return float("nan")
    if isinstance(value, int | float | np.number | np.bool_):
        return float(value)
    raise _unfit(name, value)


def _unfit(name: str, value: Any) -> ValueError:
    found = value.item() if isinstance(value, np.generic) else value
    return ValueError(
        f"answers: question {name!r}: expected whole numbers from 0, or NaN for none, got {found!r}"
    )


def _levels(levels: Sequence[int] | None, answers: Ints, names: list[str]) -> Ints:
    highest = answers.max(axis=0)
    found = np.maximum(highest + 1, 1) if levels is None else np.asarray(levels)
    if found.shape != (len(names),) or found.dtype.kind not in "iu" or found.min() < 1:
        raise ValueError(
            f"levels: expected {len(names)} whole numbers from 1, one per question, got {levels!r}"
        )
    most = 1000  # more are measurements or years, not answers
    if found.max() > most:
        q = int(found.argmax())
        raise ValueError(
            f"answers: question {names[q]!r} has {found[q]} levels, at most {most} are "
            "supported: group its answers"
        )
    beyond = np.flatnonzero(highest >= found)
    if beyond.size:
        q = int(beyond[0])
        raise ValueError(
            f"answers: question {names[q]!r} has {found[q]} levels, 0 to {found[q] - 1}, "
            f"got {highest[q]}"
        )
    return found.astype(np.int64)


def _chosen(argument: str, choice: Choice, names: list[str]) -> NDArray[np.bool_]:
    if choice is None or isinstance(choice, bool):
        return np.full(len(names), choice is not False)
    if isinstance(choice, str):
        choice = [choice]
    out = np.zeros(len(names), dtype=bool)
    for item in choice:
        is_place = isinstance(item, int | np.integer) and not isinstance(item, bool)
        if is_place and 0 <= item < len(names):
            out[item] = True
        elif isinstance(item, str) and item in names:
            out[names.index(item)] = True
        else:
            raise ValueError(
                f"{argument}: expected True, False, or names or positions among the "
                f"{len(names)} questions, got {item!r}"
            )
    return out
