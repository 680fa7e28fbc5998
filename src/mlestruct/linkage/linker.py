"""`RecordLinker`: learn weights from two tables, then link them one to one, with probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._arguments import as_count, as_positive, count_threads, generator
from .._lazy import pandas_module
from ..features import Rows
from ..models import BipartiteMatchingCRF
from ..models.base import CertifiedModel, check_options, unchanged_on_failure
from .blocking import read_rules
from .comparisons import Comparison, guess_comparisons
from .examples import Examples, ExpectedLinks, pair_input
from .held_out import HeldOut
from .known import KnownLinks, known_links, read_known
from .links import Links, make_links
from .prepared import PreparedTables, compared_columns, feature_names, shared_columns, some
from .progress import begin, stages
from .recall import MORE_CANDIDATES, Recall, estimated_recall, recall_of_known
from .records import as_records, pair_places
from .tuning import choose_alpha
from .unlabelled import expected_links

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RECORDS = 5_000  # left records that are learned from without labels, at most
RANDOM_PAIRS = 200_000  # from which the levels of non-matches are counted
ENOUGH = 0.01  # gap of expected links, per record
EXACT = 1e-5  # gap of links, per record: probabilities are right to a hundredth
ALPHA = 0.1  # penalty of weights fitted to expected links, of which there are many
FEW = 100  # known left records: fewer correct less than they disturb, if alpha is "auto"


class RecordLinker(CertifiedModel):
    """One-to-one links between the records of two tables, learned from known ones or without.

    A conditional random field over matchings of candidate pairs in which records may stay
    single: two records that compete for the same third one lower each other's probability. It
    starts from what the tables tell without labels; known links, if there are any, correct it.

    Parameters
    ----------
    columns : compared columns; default: all that both tables have. Those that are empty in both
        are left out
    kinds : kinds of columns where they are not to be guessed, {"phone": "text"}
    block : rules, each a column or a list of columns in all of which candidates agree; pairs of any
        rule are compared. By default candidates share rare words or several frequent ones
    neighbours : maximum number of candidates that a record chooses (not used with `block`)
    alpha : penalty of the difference of weights from those learned without known links, or "auto":
        by cross-validated likelihood of the known links
    rho, tol, solver, n_jobs, verbose : as in `BipartiteMatchingCRF`
    random_state : of the folds, of records and pairs drawn at random

    Attributes
    ----------
    comparisons_ : list of `Comparison`
    coef_, feature_names_in_ : weights of the features of a pair
    alpha_ : the penalty that was used; None if too little is known for one
    held_out_ : quality in cross-validation; None if alpha was given, or few records are known
    single_share_ : share of the left records that have no partner: of the known ones, or that
        expected if little is known; probabilities hold for tables in which it is as large
    blocking_recall_ : share of the known links that are among the candidates; None without any
    ids_ : the name of the index of each table, and whether it was 0, 1, 2, ...
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        kinds: dict[str, str] | None = None,
        block: Sequence[Any] = (),
        neighbours: int = 10,
        alpha: float | str = "auto",
        rho: float = 0.95,
        tol: float = 1e-3,
        solver: Any = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        self.columns = columns
        self.kinds = kinds
        self.block = block
        self.neighbours = neighbours
        self.alpha = alpha
        self.rho = rho
        self.tol = tol
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning
    def fit(self, left: Any, right: Any, known: Any = None) -> RecordLinker:
        """Learn weights from the tables, and from known links if there are any.

        Parameters
        ----------
        left, right : DataFrames, indexed by ids; "" is missing, too
        known : DataFrame of two columns or list of pairs, an id of each table; none on one side: no
            partner there. Several such tables may be in a list, [links, review]. A further column
            "checked" of the DataFrame has yes (true, 1) for links, no (false, 0) for pairs that are
            none, and nothing for rows that do not count, as a warning says. Of a pair that is none
            something is learned only if the partner of its left record is known. List records
            without a partner, too, in all a hundred: fewer, and links alone, correct little
        """
        with stages(bool(self.verbose)):
            self._fit(self._new_tables(left, right), known)
        return self

    def fit_link(
        self, left: Any, right: Any, known: Any = None, precision: float | None = None
    ) -> Links:
        """`fit`, then `link` of the same tables, which are prepared once."""
        with stages(bool(self.verbose)):
            tables = self._new_tables(left, right)
            self._fit(tables, known)
            return self._link(tables, precision, known)

    def _new_tables(self, left: Any, right: Any) -> PreparedTables:
        """Tables to learn from, whose columns are guessed."""
        check_options(self.get_params(deep=False))
        if isinstance(self.alpha, str) and self.alpha != "auto":
            raise ValueError(f"alpha: expected a number or 'auto', got {self.alpha!r}")
        begin("reading columns")
        left, right = as_records(left, "left"), as_records(right, "right")
        columns = compared_columns(left, right, self.columns)
        comparisons = guess_comparisons(some(left), some(right), columns, self.kinds)
        return self._prepared(left, right, comparisons)

    def _fit(self, tables: PreparedTables, known: Any) -> None:
        left, right = tables.left, tables.right
        partner = np.full(len(left), -2)
        if known is not None:
            listed = read_known(known)
            partner = known_links(listed.rows, left.index, right.index).partner
            reviewed = listed.reviewed()
            if reviewed is not None and (words := reviewed.surprise()):
                warnings.warn(f"known: {words}", stacklevel=3)
        with unchanged_on_failure(self):
            self.ids_ = [_ids(table.index) for table in (left, right)]
            self.comparisons_ = tables.comparisons
            self.feature_names_in_ = np.array(tables.feature_names, dtype=object)
            self._learn(tables, partner, generator(self.random_state))

    def _learn(self, tables: PreparedTables, partner: Ints, rng: np.random.Generator) -> None:
        n_left, n_right = len(tables.left), len(tables.right)
        rows, cols = _with_known(*tables.candidates, partner, n_right)
        labelled, n_links = np.flatnonzero(partner >= -1), int((partner >= 0).sum())
        n_candidates = tables.candidates[0].size
        recall = recall_of_known(n_links, rows.size - n_candidates, n_candidates)
        self.blocking_recall_ = None if recall is None else recall.share
        if rows.size == 0:
            raise ValueError(
                f"left, right: no pair of {n_left} x {n_right} records is a candidate, so "
                f"there is nothing to learn from. {MORE_CANDIDATES}"
            )
        learned = rng.permutation(n_left)[:RECORDS]
        used = np.isin(rows, np.union1d(learned, labelled))
        rows, cols = rows[used], cols[used]
        features = np.concatenate(tables.in_slices(lambda one: one, rows, cols))
        inside = np.isin(rows, learned)
        # Few known records, or no known one without a partner, tell little about weights: they
        # replace what is expected of them, and that is all.
        few = labelled.size == n_links or (self.alpha == "auto" and labelled.size < FEW)
        is_known = np.where(few & np.isin(rows, labelled), partner[rows] == cols, np.nan)
        start = self._from_tables(
            tables, rows[inside], cols[inside], features[inside], is_known[inside], rng
        )
        self.alpha_: float | None = None
        self.held_out_: HeldOut | None = None
        if few:
            return
        of_labels = np.isin(rows, labelled)
        features = features[of_labels]
        named = Rows(features, tables.feature_names)
        examples = Examples(rows[of_labels], cols[of_labels], named, features @ start, partner)
        self.single_share_ = 1.0 - n_links / labelled.size
        self._fit_examples(examples, rng)
        self.coef_ = start + self.coef_

    def _from_tables(
        self, tables: PreparedTables, rows: Ints, cols: Ints, features: Floats, known: Floats,
        rng: Any,
    ) -> Floats:  # fmt: skip
        """Weights, and the share of left records without a partner, from expected links."""
        drawn = [rng.integers(len(side), size=RANDOM_PAIRS) for side in (tables.left, tables.right)]
        at_random = self._levels(np.concatenate(tables.in_slices(lambda one: one, *drawn)))
        records, place = np.unique(rows, return_inverse=True)
        shape = records.size, len(tables.right)
        is_taken = np.bincount(cols[known == 1.0], minlength=shape[1]) > 0

        def marginals(scores: Floats) -> Floats:
            x = pair_input(place, cols, Rows(scores[:, None]), shape)
            (chance,) = self._of_scores().predict_marginals([x], tol=ENOUGH)
            expected = np.where(is_taken[cols], 0.0, np.asarray(chance[place, cols]).ravel())
            return np.where(np.isnan(known), expected, known)

        begin("learning without labels")
        levels, ends = self._levels(features), (place, cols)
        expected = expected_links(levels, at_random, ends, shape, len(tables.left), marginals)
        self.single_share_ = 1.0 - float(expected.sum()) / max(shape[0], 1)
        begin("fitting weights")
        x = pair_input(place, cols, Rows(features, tables.feature_names), shape)
        self._adopt(ExpectedLinks.like(self._estimator(ALPHA)).fit([x], [expected]))
        return np.asarray(self.coef_)

    def _levels(self, features: Floats) -> list[Ints]:
        """The level of agreement of pairs in each column."""
        ends = np.cumsum([len(one.feature_names) for one in self.comparisons_])
        parts = np.split(features, ends, axis=1)
        return [one.levels(part) for one, part in zip(self.comparisons_, parts, strict=False)]

    def _fit_examples(self, examples: Examples, rng: Any) -> None:
        """Learn how weights differ from those without labels."""
        begin("learning from known links")
        estimator = self._estimator(1.0)
        if self.alpha != "auto":
            self.alpha_ = as_positive(self.alpha, "alpha")
        else:
            samples = [examples.of(part).sample() for part in examples.thirds(rng)]
            self.alpha_, self.held_out_ = choose_alpha(
                estimator, [x for x, _ in samples], [y for _, y in samples]
            )
        x, y = examples.sample()
        self._adopt(estimator.set_params(alpha=self.alpha_).fit([x], [y]))

    # ------------------------------------------------------------------ linking
    def link(
        self, left: Any, right: Any, precision: float | None = None, known: Any = None
    ) -> Links:
        """Probabilities of all candidate pairs of two tables, and the proposed one-to-one links.

        Parameters
        ----------
        left, right : DataFrames as in `fit`
        precision : propose as many expected correct links as this expected precision allows;
            default: the links of largest expected F1
        known : links that are given, as in `fit`; pairs among them that are no candidates become
            some, those that are none are no candidates, and others get the probabilities that
            they have given these
        """
        check_is_fitted(self, "coef_")
        with stages(bool(self.verbose)):
            return self._link(self._old_tables(left, right), precision, known)

    def _old_tables(self, left: Any, right: Any) -> PreparedTables:
        """Tables with the columns of those that the linker has learned from."""
        begin("reading columns")
        left, right = as_records(left, "left"), as_records(right, "right")
        for side, table, ids in zip(("left", "right"), (left, right), self.ids_, strict=True):
            _check_ids(table, side, *ids)
        shared_columns(left, right, [one.column for one in self.comparisons_])
        comparisons = [one.for_tables(some(left), some(right)) for one in self.comparisons_]
        return self._prepared(left, right, comparisons)

    def _link(self, tables: PreparedTables, precision: float | None, known: Any) -> Links:
        ids = tables.left.index, tables.right.index
        shape = (len(ids[0]), len(ids[1]))
        rows, cols = tables.candidates
        given, recall = None, None
        if known is not None:
            links = known_links(read_known(known).rows, *ids)
            rows, cols, recall = _given_links(rows, cols, links, shape[1])
            given = [np.where(links.partner > -2, links.partner, np.nan)]
        scores = tables.scores(self.coef_, rows, cols)
        begin("marginals")
        x = pair_input(rows, cols, Rows(scores[:, None]), shape)
        choose = "f1" if precision is None else "map"
        found = self._of_scores().predict_links([x], choose, precision, known=given, tol=EXACT)[0]
        chance = found["probability"].to_numpy()
        if recall is None:
            rng = generator(self.random_state)
            recall = estimated_recall(tables, (rows, cols), chance, self.coef_, rng)
        begin("sorting pairs")
        return make_links(*ids, rows, cols, chance, found["linked"].to_numpy(), recall)

    def contributions(self, left: Any, right: Any, pairs: Any) -> Any:
        """Weight times feature of some pairs of two tables, one column for each feature.

        Give the whole tables: how rare a value is depends on all records.

        Parameters
        ----------
        pairs : DataFrame with the columns left and right, ids
        """
        import pandas

        check_is_fitted(self, "coef_")
        tables = self._old_tables(left, right)
        rows, cols = pair_places(pairs, tables.left.index, tables.right.index)
        terms = tables.features(rows, cols) * self.coef_
        return pandas.DataFrame(terms, columns=self.feature_names_in_)

    # ------------------------------------------------------------------ parts
    def _prepared(self, left: Any, right: Any, comparisons: list[Comparison]) -> PreparedTables:
        rules = read_rules(self.block)
        named = [column for rule in rules for column in rule]
        shared_columns(left, right, [*(one.column for one in comparisons), *named])
        neighbours = as_count(self.neighbours, "neighbours")
        n_jobs = count_threads(self.n_jobs)
        return PreparedTables(left, right, comparisons, rules, neighbours, n_jobs)

    def _estimator(self, alpha: float) -> BipartiteMatchingCRF:
        return BipartiteMatchingCRF(
            alpha=alpha, rho=self.rho, tol=self.tol, solver=self.solver, n_jobs=self.n_jobs,
            verbose=self.verbose, perfect=False, fit_intercept=False,
        )  # fmt: skip

    def _of_scores(self) -> BipartiteMatchingCRF:
        """The estimator whose only feature is the score of a pair."""
        found = self._estimator(1.0)
        found._reload(np.ones(1), ["score"], None)
        return found

    def named_coef(self) -> dict[str, float]:
        """Learned weights by feature name."""
        check_is_fitted(self, "coef_")
        return dict(zip(self.feature_names_in_.tolist(), self.coef_.tolist(), strict=True))

    # ------------------------------------------------------------------ files
    def _learned_names(self) -> tuple[list[str], dict[str, Any]]:
        return self.feature_names_in_.tolist(), {
            "comparisons": [one.to_list() for one in self.comparisons_],
            "blocking_recall": self.blocking_recall_,
            "single_share": self.single_share_,
            "ids": self.ids_,
            "alpha": self.alpha_,
            "held_out": None if self.held_out_ is None else self.held_out_.to_dict(),
        }

    def _reload(self, coef: Floats, names: list[str], layout: dict[str, Any] | None) -> None:
        stored = layout or {}
        self.comparisons_ = [Comparison(*one) for one in stored["comparisons"]]
        self.blocking_recall_ = stored["blocking_recall"]
        self.single_share_ = stored["single_share"]
        self.ids_ = [tuple(one) for one in stored["ids"]]
        held_out = stored["held_out"]
        self.alpha_ = stored["alpha"]
        self.held_out_ = None if held_out is None else HeldOut(**held_out)
        self.coef_ = coef
        self.feature_names_in_ = np.array(feature_names(self.comparisons_), dtype=object)


def _ids(index: Any) -> tuple[str | None, bool]:
    """The name of an index, and whether it only counts rows."""
    name = index.name if isinstance(index.name, str) else None
    return name, name is None and index.equals(pandas_module().RangeIndex(len(index)))


def _check_ids(table: Any, side: str, name: str | None, counted: bool) -> None:
    """Raise if ids are no longer the index of a table, as they were in `fit`."""
    now, counts = _ids(table.index)
    if (counts and not counted) or (now != name and name in table.columns):
        column = name if name in table.columns else "..."
        raise ValueError(
            f"{side}: its index is {table.index[:3].tolist()}, not ids as in `fit`; use "
            f"table.set_index({column!r})"
        )


def _with_known(rows: Ints, cols: Ints, partner: Ints, n_right: int) -> tuple[Ints, Ints]:
    """Candidate pairs and known ones, sorted."""
    linked = np.flatnonzero(partner >= 0)
    keys = np.concatenate([rows * n_right + cols, linked * n_right + partner[linked]])
    keys = np.unique(keys)
    return keys // n_right, keys % n_right


def _given_links(
    rows: Ints, cols: Ints, links: KnownLinks, n_right: int
) -> tuple[Ints, Ints, Recall | None]:
    """Pairs that may be links given known ones; the recall of candidates."""
    refused = links.refused @ [n_right, 1]
    open_ = ~links.alone[cols] & ~np.isin(rows * n_right + cols, refused)
    n_open, n_links = int(open_.sum()), int((links.partner >= 0).sum())
    rows, cols = _with_known(rows[open_], cols[open_], links.partner, n_right)
    share = None if n_links == 0 else 1.0 - (rows.size - n_open) / n_links
    return rows, cols, None if share is None else Recall.of(share, n_links)
