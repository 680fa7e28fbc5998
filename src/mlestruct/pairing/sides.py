"""`SideMatcher`: pairs between two tables whose records have capacities: papers and reviewers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..linkage.comparisons import Comparison, guess_comparisons, read_numbers
from ..linkage.records import as_records, pair_places, require_columns
from ..models import BipartiteMatchingCRF, PairInput
from ..models.failed_fits import unchanged_on_failure
from ..models.tuned import TunedMatching
from .matches import Matches, best_pairs, check_capacities, read_pairs, split
from .questions import Question, guess_questions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class SideMatcher(TunedMatching):
    """Pairs between the records of two tables, learned from known pairs.

    Columns that both tables have are compared (`mlestruct.linkage.Comparison`). All others are
    combined: a pair has a feature for each answer on the right, and for each two answers, one on
    each side.

    Parameters
    ----------
    columns : columns to use; default: all that look like a question
    kinds : kinds of columns where they are not to be guessed: of those that both tables have
        text, number, date or category, of others as in `guess_questions`
    capacity : partners of a record of the right table at most: a number, or the column that has it
    left_capacity : partners of a record of the left table, likewise
    singles : True: left records may have fewer partners than that, and those of which no pair is
        known had none. False: they get as many, and such records are not learned from.
    alpha : penalty of the weights, or "auto": by cross-validated likelihood
    rho, tol, max_time, n_jobs, verbose : as in `BipartiteMatchingCRF`
    random_state : of the folds

    Attributes
    ----------
    comparisons_ : list of `Comparison`, of columns that both tables have
    questions_ : two lists of `Question`, of the other columns of each table
    coef_, feature_names_in_, coef_error_, alpha_, held_out_ : as in `GroupMatcher`
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
        capacity: int | str = 1,
        left_capacity: int | str = 1,
        singles: bool = False,
        alpha: float | str = "auto",
        rho: float = 0.95,
        tol: float = 1e-3,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        self.columns = columns
        self.kinds = kinds
        self.capacity = capacity
        self.left_capacity = left_capacity
        self.singles = singles
        self.alpha = alpha
        self.rho = rho
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning
    def fit(self, left: Any, right: Any, pairs: Any) -> SideMatcher:
        """Learn weights from known pairs.

        Parameters
        ----------
        left, right : DataFrames, indexed by ids; "" is missing, too
        pairs : DataFrame whose first two columns are an id of each table
        """
        left, right = as_records(left, "left"), as_records(right, "right")
        ends = read_pairs(pairs, left.index, right.index)
        rows, cols = self.capacities(left, right)
        labelled = np.unique(ends[:, 0])
        if labelled.size < 2:
            raise ValueError(f"pairs: at least 2 left records are needed, got {labelled.size}")
        used = np.bincount(ends[:, 0], minlength=len(left))
        check_capacities(used[labelled], rows[labelled], left.index[labelled], not self.singles)
        check_capacities(np.bincount(ends[:, 1], minlength=len(right)), cols, right.index, False)
        if self.singles:
            labelled = np.arange(len(left))
        with unchanged_on_failure(self):
            self._read_columns(left, right)
            self.feature_names_in_ = np.array(self._feature_names(), dtype=object)
            features = self._features(left.iloc[labelled], right)
            whole = self._sample(features, np.arange(labelled.size), labelled, ends, rows, cols)
            folds = None
            if self.alpha == "auto":
                parts = split(labelled.size, 3, self.random_state)
                found = [self._sample(features, part, labelled, ends, rows, cols) for part in parts]
                folds = [x for x, _ in found], [y for _, y in found]
            self._fit_tuned([whole[0]], [whole[1]], folds)
        return self

    def _sample(
        self, features: Floats, part: Ints, labelled: Ints, ends: Ints, rows: Ints, cols: Ints
    ) -> tuple[PairInput, Ints]:
        """The problem of some of the labelled left records and all right ones."""
        own = labelled[part]
        mine = ends[np.isin(ends[:, 0], own)]
        links = np.stack([np.searchsorted(own, mine[:, 0]), mine[:, 1]], axis=1)
        return self._input(features[part], rows[own], cols), self._label(links, own.size)

    def _label(self, links: Ints, n_left: int) -> Ints:
        """Pairs; partners of the left records where nothing has a capacity above 1."""
        if self._several:
            return links
        partner = np.full(n_left, -1, dtype=np.int64)
        partner[links[:, 0]] = links[:, 1]
        return partner

    def capacities(self, left: Any, right: Any) -> tuple[Ints, Ints]:
        """Partners of each record of both tables, from a number or a column."""
        found = []
        for name, given, table in (
            ("left_capacity", self.left_capacity, left),
            ("capacity", self.capacity, right),
        ):
            if given in table.columns:
                numbers = read_numbers(table[given].tolist())
                wrong = ~(np.isfinite(numbers) & (numbers >= 0) & (numbers == np.floor(numbers)))
                if wrong.any():
                    k = int(np.argmax(wrong))
                    raise ValueError(
                        f"column {given!r} of id {table.index[k]!r}: expected a whole number, got "
                        f"{table[given].iloc[k]!r}"
                    )
                found.append(numbers.astype(np.int64))
            elif str(given).isdigit() and int(given) > 0:
                found.append(np.full(len(table), int(given), dtype=np.int64))
            else:
                raise ValueError(
                    f"{name}: expected a positive number or one of the columns "
                    f"{list(table.columns)}, got {given!r}"
                )
        return found[0], found[1]

    @property
    def _several(self) -> bool:
        """Whether some record may have several partners, so that labels are pairs."""
        return str(self.capacity) != "1" or str(self.left_capacity) != "1"

    # ------------------------------------------------------------------ matching
    def match(self, left: Any, right: Any, top: int = 5, used: Ints | None = None) -> Matches:
        """Propose partners of the left records, each with the `top` most probable candidates.

        `used` are partners that records of the right table have already, shape (n_right,).
        """
        import pandas

        check_is_fitted(self, "coef_")
        left, right = as_records(left, "left"), as_records(right, "right")
        shared = [one.column for one in self.comparisons_]
        for side, table, own in zip(("left", "right"), (left, right), self.questions_, strict=True):
            require_columns(table, [*shared, *(q.column for q in own)], side)
        rows, cols = self.capacities(left, right)
        model = self._fitted()
        used = np.zeros_like(cols) if used is None else used
        check_capacities(used, cols, right.index, False, "used")
        x = self._input(self._features(left, right), rows, cols - used)
        table = np.asarray(model.predict_marginals([x])[0])
        found = model.predict([x])[0]
        if found.ndim == 1:
            found = np.stack([np.flatnonzero(found >= 0), found[found >= 0]], axis=1)
        alone = np.clip(1.0 - table.sum(axis=1), 0.0, 1.0)
        alone = pandas.Series(np.where(self.singles & (rows > 1), np.nan, alone), left.index)
        return Matches(best_pairs(left.index, right.index, table, found, top), alone)

    def contributions(self, left: Any, right: Any, pairs: Any) -> Any:
        """What each column adds to the scores of some pairs, one column for each.

        Combinations of two columns count half for each of them.
        """
        import pandas

        check_is_fitted(self, "coef_")
        left, right = as_records(left, "left"), as_records(right, "right")
        row, col = pair_places(pairs, left.index, right.index)
        size = self.coef_.size - self._intercept
        terms = self._features(left, right)[row, col] * self.coef_[:size]
        found: dict[str, Floats] = {}
        for term, (owners, _) in zip(terms.T, self._described(), strict=True):
            for name in owners:
                found[name] = found.get(name, np.zeros_like(term)) + term / len(owners)
        return pandas.DataFrame(found)

    # ------------------------------------------------------------------ features
    def _read_columns(self, left: Any, right: Any) -> None:
        """Which columns are compared, which are combined, and how."""
        kinds, wanted = dict(self.kinds or {}), self.columns
        used = [name for name in (self.left_capacity, self.capacity) if isinstance(name, str)]
        for name in (*(wanted or ()), *kinds):
            if name not in left.columns and name not in right.columns:
                raise ValueError(f"neither table has a column {name!r}")
        tables = [
            table.drop(columns=[n for n in used if n in table.columns]) for table in (left, right)
        ]
        names = [[n for n in t.columns if wanted is None or n in wanted] for t in tables]
        shared = [name for name in names[0] if name in names[1]]
        self.comparisons_ = guess_comparisons(
            left, right, shared, {name: kind for name, kind in kinds.items() if name in shared}
        )
        self.questions_ = []
        for table, own in zip(tables, names, strict=True):
            rest = [name for name in own if name not in shared]
            given = {name: kind for name, kind in kinds.items() if name in rest}
            try:
                named = None if wanted is None else rest
                found = guess_questions(table[rest], named, given) if rest else []
            except ValueError:
                if given or wanted is not None:
                    raise
                found = []
            self.questions_.append(found)
        if not self.comparisons_ and not self.questions_[1]:
            raise ValueError(
                "nothing to learn from: the tables have no column in common, and no column of the "
                "right one is a question"
            )

    def _indicators(self, table: Any, questions: list[Question]) -> Floats:
        """0/1 of each answer to each question, shape (n, n_answers)."""
        parts = []
        for question in questions:
            levels = question.encode(table[question.column])
            parts.append((levels[:, None] == np.arange(len(question.labels))).astype(np.float64))
        return np.hstack(parts) if parts else np.zeros((len(table), 0))

    def _features(self, left: Any, right: Any) -> Floats:
        """Features of all pairs, shape (n_left, n_right, n_features)."""
        n, m, size = len(left), len(right), len(self._described())
        if n * m * size > 100_000_000:  # 800 MB
            raise ValueError(
                f"{n} x {m} pairs with {size} features are too many; use fewer columns, or "
                "mlestruct link, which compares only candidate pairs"
            )
        out = np.empty((n, m, size))
        rows, cols = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
        at = 0
        for one in self.comparisons_:
            own = one.for_tables(left, right)
            part = own.features(left[one.column], right[one.column], rows, cols)
            out[:, :, at : at + part.shape[1]] = part.reshape(n, m, -1)
            at += part.shape[1]
        mine, other = (
            self._indicators(table, questions)
            for table, questions in zip((left, right), self.questions_, strict=True)
        )
        both = np.hstack([np.ones((n, 1)), mine])
        out[:, :, at:] = (both[:, None, :, None] * other[None, :, None, :]).reshape(n, m, -1)
        return out

    def _described(self) -> list[tuple[list[str], str]]:
        """The columns and the name of each feature."""
        found = [([one.column], name) for one in self.comparisons_ for name in one.feature_names]
        mine, other = (
            [(q.column, f"{q.column} {label}") for q in side for label in q.labels]
            for side in self.questions_
        )
        found += [([column], name) for column, name in other]
        found += [
            ([own, column], f"{first} and {second}")
            for own, first in mine
            for column, second in other
        ]
        return found

    def _feature_names(self) -> list[str]:
        return [name for _, name in self._described()]

    # ------------------------------------------------------------------ parts
    def _input(self, features: Floats, rows: Ints, cols: Ints) -> PairInput:
        capacity = (rows, cols) if self._several else None
        return PairInput(features, capacity=capacity)

    def _estimator(self, alpha: float) -> BipartiteMatchingCRF:
        perfect = False if self.singles else "rows"
        return self._matching(BipartiteMatchingCRF, alpha, perfect=perfect)

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any]]:
        names, layout = super()._learned_names()
        comparisons = [one.to_list() for one in self.comparisons_]
        questions = [
            [[q.column, q.kind, list(q.answers)] for q in side] for side in self.questions_
        ]
        return names, {"comparisons": comparisons, "questions": questions, **layout}

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        stored = layout or {}
        self.comparisons_ = [Comparison(*one) for one in stored["comparisons"]]
        self.questions_ = [
            [Question(c, kind, tuple(a)) for c, kind, a in side] for side in stored["questions"]
        ]
        super()._reload(coef, names, stored)
