"""`GroupMatcher`: pairs within one group, or one a year, from answers to a questionnaire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..features import QuestionnairePairs
from ..linkage.records import as_records, pair_places, require_columns
from ..models import MatchingCRF
from ..models.failed_fits import unchanged_on_failure
from ..models.tuned import TunedMatching
from .matches import Matches, best_pairs, read_pairs, split
from .questions import Question, guess_questions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class GroupMatcher(TunedMatching):
    """Pairs of people who answered the same questions, learned from known pairs.

    A conditional random field over matchings within each group. Features of a pair are the
    differences of ordered answers and indicators of two answers.

    Parameters
    ----------
    group : column that says which people can be paired at all, such as the year; default: all
    columns : questions; default: all columns that look like one
    kinds : kinds of questions where they are not to be guessed, see `guess_questions`
    singles : True: people may stay without a partner, and in a group that has pairs those who are
        in none did. False: everyone gets a partner, and such people are not learned from.
    alpha : penalty of the weights, or "auto": by cross-validated likelihood
    rho, tol, max_time, n_jobs, verbose : as in `MatchingCRF`
    random_state : of the folds

    Attributes
    ----------
    questions_ : list of `Question`
    coef_, feature_names_in_ : weights of the features of a pair
    coef_error_ : standard errors of the weights; None where there are too many pairs of people
    alpha_ : the penalty that was used
    held_out_ : quality in cross-validation; None if alpha was given
    """

    def __init__(
        self,
        group: str | None = None,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
        singles: bool = False,
        alpha: float | str = "auto",
        rho: float = 0.95,
        tol: float = 1e-3,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        self.group = group
        self.columns = columns
        self.kinds = kinds
        self.singles = singles
        self.alpha = alpha
        self.rho = rho
        self.tol = tol
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning
    def fit(self, people: Any, pairs: Any) -> GroupMatcher:
        """Learn weights from known pairs.

        Parameters
        ----------
        people : DataFrame, indexed by ids; "" is missing, too
        pairs : DataFrame whose first two columns are ids of people of the same group
        """
        people = as_records(people, "people")
        groups = self._groups(people)
        ends = read_pairs(pairs, people.index)
        self._check_ends(people, ends)
        questions = people.drop(columns=[self.group] if self.group else [])
        with unchanged_on_failure(self):
            self.questions_ = guess_questions(questions, self.columns, self.kinds)
            self.feature_names_in_ = np.array(self._feature_names(), dtype=object)
            partner = np.full(len(people), -1, dtype=np.int64)
            partner[ends[:, 0]], partner[ends[:, 1]] = ends[:, 1], ends[:, 0]
            labelled = [own for own in groups if (partner[own] >= 0).any()]
            if not self.singles:
                labelled = [own[partner[own] >= 0] for own in labelled]
            if sum(own.size for own in labelled) < 4:
                raise ValueError(
                    f"pairs: at least 2 pairs are needed to learn from, got {len(ends)}"
                )
            samples = [self._sample(people, partner, own) for own in labelled]
            folds = None
            if self.alpha == "auto" and len(samples) == 1:
                folds = _columns(
                    [self._sample(people, partner, p) for p in self._parts(partner, labelled[0])]
                )
            self._fit_tuned(*_columns(samples), folds)
        return self

    def _check_ends(self, people: Any, ends: Ints) -> None:
        if self.group:
            groups = people[self.group].to_numpy()
            apart = groups[ends[:, 0]] != groups[ends[:, 1]]
            if apart.any():
                one, other = (
                    f"{people.index[k]!r} ({self.group} {groups[k]})"
                    for k in ends[int(np.argmax(apart))]
                )
                raise ValueError(f"pairs: {one} and {other} are not of the same group")

    def _parts(self, partner: Ints, own: Ints) -> list[Ints]:
        """The people of one group in three parts; partners stay together."""
        heads = own[(partner[own] < 0) | (partner[own] > own)]
        found = []
        for part in split(heads.size, 3, self.random_state):
            mates = partner[heads[part]]
            found.append(np.sort(np.concatenate([heads[part], mates[mates >= 0]])))
        return [part for part in found if part.size > 1]

    def _groups(self, people: Any) -> list[Ints]:
        """Places of the people of each group, in the order of the groups' first people."""
        if self.group is None:
            return [np.arange(len(people))]
        if self.group not in people.columns:
            raise ValueError(
                f"group: there is no column {self.group!r} among {list(people.columns)}"
            )
        values = people[self.group].to_numpy()
        if "" in values:
            one = people.index[values == ""].tolist()[0]
            raise ValueError(f"group: id {one!r} has none in {self.group!r}")
        return [np.flatnonzero(values == value) for value in dict.fromkeys(values.tolist())]

    def _sample(self, people: Any, partner: Ints, own: Ints) -> tuple[QuestionnairePairs, Ints]:
        place = np.full(len(people) + 1, -1, dtype=np.int64)
        place[own] = np.arange(own.size)
        return self._pairs(people.iloc[own]), place[partner[own]]

    # ------------------------------------------------------------------ matching
    def match(self, people: Any, top: int = 5) -> Matches:
        """Propose pairs within each group, everyone with the `top` most probable candidates.

        Of an odd number one has to stay alone: all take part in a draw for an empty place, with
        the score of two people who answered nothing.
        """
        import pandas

        check_is_fitted(self, "coef_")
        people = as_records(people, "people")
        require_columns(people, (q.column for q in self.questions_), "people")
        model = self._fitted()
        found, alone = [], pandas.Series(1.0, people.index)
        for own in self._groups(people):
            if own.size < 2:
                continue
            ids = people.index[own]
            odd = own.size % 2 == 1 and not self.singles
            x = self._pairs(people.iloc[own], empty_place=odd)
            table = np.asarray(model.predict_marginals([x])[0])[: own.size, : own.size]
            partner = model.predict([x])[0][: own.size]
            proposed = np.flatnonzero((partner >= 0) & (partner < own.size))
            pairs = np.stack([proposed, partner[proposed]], axis=1)
            found.append(best_pairs(ids, ids, table, pairs, top))
            alone[ids] = np.clip(1.0 - table.sum(axis=1), 0.0, 1.0)
        if not found:
            raise ValueError("no group has two people")
        return Matches(pandas.concat(found, ignore_index=True), alone)

    def contributions(self, people: Any, pairs: Any) -> Any:
        """What each question adds to the scores of some pairs, one column for each question.

        Parameters
        ----------
        pairs : DataFrame with the columns left and right, ids
        """
        import pandas

        check_is_fitted(self, "coef_")
        people = as_records(people, "people")
        row, col = pair_places(pairs, people.index, people.index)
        size = self.coef_.size - self._intercept
        terms = self._pairs(people).rows(row, col) * self.coef_[:size]
        owner = np.array([column for column, _ in self._described()])
        columns = [q.column for q in self.questions_]
        return pandas.DataFrame({name: terms[:, owner == name].sum(axis=1) for name in columns})

    # ------------------------------------------------------------------ parts
    def _pairs(self, people: Any, empty_place: bool = False) -> QuestionnairePairs:
        answers = np.column_stack([q.encode(people[q.column]) for q in self.questions_])
        if empty_place:
            answers = np.vstack([answers, np.full(answers.shape[1], np.nan)])
        names = [q.column for q in self.questions_]
        return QuestionnairePairs(
            answers, [len(q.labels) for q in self.questions_], names,
            ordinal=[k for k, q in enumerate(self.questions_) if q.kind != "category"],
            interactions=[k for k, q in enumerate(self.questions_) if q.kind != "number"],
        )  # fmt: skip

    def _described(self) -> list[tuple[str, str]]:
        """The column and the name of each feature, in the order of `QuestionnairePairs`."""
        ordered = [q.column for q in self.questions_ if q.kind != "category"]
        return [(column, f"{column}: difference") for column in ordered] + [
            (q.column, f"{q.column}: {one} and {other}")
            for q in self.questions_
            if q.kind != "number"
            for k, one in enumerate(q.labels)
            for other in q.labels[k:]
        ]

    def _feature_names(self) -> list[str]:
        return [name for _, name in self._described()]

    def _estimator(self, alpha: float) -> MatchingCRF:
        return self._matching(MatchingCRF, alpha, perfect=not self.singles)

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any]]:
        names, layout = super()._learned_names()
        questions = [[q.column, q.kind, list(q.answers)] for q in self.questions_]
        return names, {"questions": questions, **layout}

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        stored = layout or {}
        self.questions_ = [Question(c, kind, tuple(a)) for c, kind, a in stored["questions"]]
        super()._reload(coef, names, stored)


def _columns(samples: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [x for x, _ in samples], [y for _, y in samples]
