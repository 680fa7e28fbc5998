"""`RecordLinker`: learn from known links, then link two tables one to one, with probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from .._arguments import as_positive, count_threads, generator
from .._lazy import pandas_module
from ..features import Rows
from ..models import BipartiteMatchingCRF
from ..models.base import CertifiedModel, check_options, unchanged_on_failure
from .blocking import candidate_pairs, read_rules
from .comparisons import Comparison, SwappedNames, guess_comparisons, same_dates
from .examples import Examples, ExpectedLinks, pair_input
from .held_out import HeldOut
from .known import known_links, read_known
from .records import as_records, column_names, pair_places, require_columns
from .tuning import choose_alpha
from .unlabelled import expected_links

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POSSIBLE = 0.01  # probability from which on a pair makes its records compete
RECORDS = 20_000  # left records that are learned from without labels, at most
RANDOM_PAIRS = 200_000  # from which the levels of non-matches are counted
ENOUGH = 0.01  # gap of expected links, per record
ALPHA = 0.1  # penalty of weights fitted to expected links, of which there are many
FEW = 100  # known left records: fewer correct less than they disturb, if alpha is "auto"
MORE_CANDIDATES = (
    "Pass blocking rules: columns in which matches agree, such as block=[['surname', 'birth']] "
    "(--block surname+birth); or raise neighbours."
)


@dataclass(frozen=True)
class Links:
    """Probabilities of all candidate pairs of two tables.

    pairs : DataFrame with the columns
        left, right : ids;
        probability : that the two are linked;
        proposed : whether the pair is one of the one-to-one links that `link` chooses;
        margin : how much more probable it is than the best other pair of either record;
        group : number of the group of records that compete for each other
    single_left, single_right : Series, the probability of each record to have no partner
    blocking_recall : share of the links given as known that are candidates without that; None
        where none was given
    """

    pairs: Any
    single_left: Any
    single_right: Any
    blocking_recall: float | None = None

    @property
    def proposed(self) -> Any:
        """The one-to-one links, most probable first."""
        chosen = self.pairs[self.pairs["proposed"]]
        return chosen.sort_values("probability", ascending=False, kind="stable")

    @property
    def review_queue(self) -> Any:
        """All pairs, the most doubtful first: probabilities near 1/2."""
        doubt = (self.pairs["probability"] - 0.5).abs()
        return self.pairs.iloc[np.argsort(doubt.to_numpy(), kind="stable")]

    def thresholds(self, levels: Sequence[float] = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)) -> Any:
        """Expected precision and recall of the proposed links above each probability.

        Expectations under the model. Recall is among the links that candidates allow. Both count
        the links given as known.
        """
        import pandas

        chosen = self.proposed["probability"].to_numpy()
        total = float(self.pairs["probability"].sum())
        rows = []
        for level in levels:
            kept = chosen[chosen >= level]
            rows.append(
                {
                    "threshold": level,
                    "links": kept.size,
                    "expected_precision": float(kept.mean()) if kept.size else np.nan,
                    "expected_recall": float(kept.sum()) / total if total > 0 else np.nan,
                }
            )
        return pandas.DataFrame(rows)


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
        check_options(self.get_params(deep=False))
        rng = generator(self.random_state)
        if isinstance(self.alpha, str) and self.alpha != "auto":
            raise ValueError(f"alpha: expected a number or 'auto', got {self.alpha!r}")
        left, right = as_records(left, "left"), as_records(right, "right")
        partner = np.full(len(left), -2)
        if known is not None:
            listed = read_known(known)
            partner = known_links(listed.rows, left.index, right.index).partner
            reviewed = listed.reviewed()
            if reviewed is not None and (words := reviewed.surprise()):
                warnings.warn(f"known: {words}", stacklevel=2)
        columns = compared_columns(left, right, self.columns)
        with unchanged_on_failure(self):
            self.ids_ = [_ids(table.index) for table in (left, right)]
            self._learn(left, right, columns, partner, rng)
        return self

    def _learn(
        self, left: Any, right: Any, columns: list[str], partner: Ints, rng: np.random.Generator
    ) -> None:
        self.comparisons_ = guess_comparisons(left, right, columns, self.kinds)
        self.feature_names_in_ = np.array(self._feature_names(), dtype=object)
        candidates = self._candidates(left, right)
        rows, cols = _with_known(*candidates, partner, len(right))
        labelled, n_links = np.flatnonzero(partner >= -1), int((partner >= 0).sum())
        self._measure_recall(n_links, candidates[0].size, rows.size)
        if rows.size == 0:
            raise ValueError(
                f"left, right: no pair of {len(left)} x {len(right)} records is a candidate, so "
                f"there is nothing to learn from. {MORE_CANDIDATES}"
            )
        learned = rng.permutation(len(left))[:RECORDS]
        used = np.isin(rows, np.union1d(learned, labelled))
        rows, cols = rows[used], cols[used]
        features = self._features(left, right, rows, cols)
        inside = np.isin(rows, learned)
        # Few known records, or no known one without a partner, tell little about weights: they
        # replace what is expected of them, and that is all.
        few = labelled.size == n_links or (self.alpha == "auto" and labelled.size < FEW)
        is_known = np.where(few & np.isin(rows, labelled), partner[rows] == cols, np.nan)
        start = self._from_tables(
            left, right, rows[inside], cols[inside], features[inside], is_known[inside], rng
        )
        self.alpha_: float | None = None
        self.held_out_: HeldOut | None = None
        if few:
            return
        of_labels = np.isin(rows, labelled)
        features = features[of_labels]
        named = Rows(features, self._feature_names())
        examples = Examples(rows[of_labels], cols[of_labels], named, features @ start, partner)
        self.single_share_ = 1.0 - n_links / labelled.size
        self._fit_examples(examples, rng)
        self.coef_ = start + self.coef_

    def _measure_recall(self, n_links: int, n_candidates: int, n_pairs: int) -> None:
        """The share of the known links that are candidates; pairs include all that are known."""
        self.blocking_recall_ = None if n_links == 0 else 1.0 - (n_pairs - n_candidates) / n_links
        if self.blocking_recall_ == 0.0:
            raise ValueError(
                f"known: none of the {n_links} links is among the {n_candidates} candidate "
                f"pairs, so nothing would be found. {MORE_CANDIDATES}"
            )
        if self.blocking_recall_ is not None and self.blocking_recall_ < 0.9:
            warnings.warn(
                f"known: only {self.blocking_recall_:.0%} of the links are among the candidate "
                f"pairs; the same may hold for links that are not known. {MORE_CANDIDATES}",
                stacklevel=4,
            )

    def _from_tables(
        self, left: Any, right: Any, rows: Ints, cols: Ints, features: Floats, known: Floats,
        rng: Any,
    ) -> Floats:  # fmt: skip
        """Weights, and the share of left records without a partner, from expected links."""
        drawn = [rng.integers(len(table), size=RANDOM_PAIRS) for table in (left, right)]
        at_random = self._levels(self._features(left, right, *drawn))
        records, place = np.unique(rows, return_inverse=True)
        shape = records.size, len(right)

        def marginals(scores: Floats) -> Floats:
            x = pair_input(place, cols, Rows(scores[:, None]), shape)
            own = self._estimator(1.0)
            own._reload(np.ones(1), ["score"], None)
            (chance,) = own.predict_marginals([x], tol=ENOUGH)
            return np.where(np.isnan(known), np.asarray(chance[place, cols]).ravel(), known)

        levels, ends = self._levels(features), (place, cols)
        expected = expected_links(levels, at_random, ends, shape, len(left), marginals)
        self.single_share_ = 1.0 - float(expected.sum()) / max(shape[0], 1)
        x = pair_input(place, cols, Rows(features, self._feature_names()), shape)
        self._adopt(ExpectedLinks.like(self._estimator(ALPHA)).fit([x], [expected]))
        return np.asarray(self.coef_)

    def _levels(self, features: Floats) -> list[Ints]:
        """The level of agreement of pairs in each column."""
        ends = np.cumsum([len(one.feature_names) for one in self.comparisons_])
        parts = np.split(features, ends, axis=1)
        return [one.levels(part) for one, part in zip(self.comparisons_, parts, strict=False)]

    def _fit_examples(self, examples: Examples, rng: Any) -> None:
        """Learn how weights differ from those without labels."""
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
        left, right = as_records(left, "left"), as_records(right, "right")
        for side, table, ids in zip(("left", "right"), (left, right), self.ids_, strict=True):
            _check_ids(table, side, *ids)
        shared_columns(left, right, [one.column for one in self.comparisons_])
        rows, cols = self._candidates(left, right)
        given, recall = None, None
        if known is not None:
            links = known_links(read_known(known).rows, left.index, right.index)
            refused = links.refused @ [len(right), 1]
            open_ = ~links.alone[cols] & ~np.isin(rows * len(right) + cols, refused)
            n_open, n_links = int(open_.sum()), int((links.partner >= 0).sum())
            rows, cols = _with_known(rows[open_], cols[open_], links.partner, len(right))
            recall = 1.0 - (rows.size - n_open) / n_links if n_links else None
            given = [np.where(links.partner > -2, links.partner, np.nan)]
        features = Rows(self._features(left, right, rows, cols))
        x = pair_input(rows, cols, features, (len(left), len(right)))
        model = self._fitted()
        choose = "f1" if precision is None else "map"
        found = model.predict_links([x], choose, precision, known=given)[0]
        return make_links(left, right, rows, cols, found, recall)

    def contributions(self, left: Any, right: Any, pairs: Any) -> Any:
        """Weight times feature of some pairs of two tables, one column for each feature.

        Give the whole tables: how rare a value is depends on all records.

        Parameters
        ----------
        pairs : DataFrame with the columns left and right, ids
        """
        import pandas

        check_is_fitted(self, "coef_")
        left, right = as_records(left, "left"), as_records(right, "right")
        rows, cols = pair_places(pairs, left.index, right.index)
        terms = self._features(left, right, rows, cols) * self.coef_
        return pandas.DataFrame(terms, columns=self.feature_names_in_)

    # ------------------------------------------------------------------ parts
    def _candidates(self, left: Any, right: Any) -> tuple[Ints, Ints]:
        columns = [one.column for one in self.comparisons_]
        rules = [column for rule in read_rules(self.block) for column in rule]
        used = shared_columns(left, right, [*columns, *rules])
        right = same_dates(self._for_tables(left, right), right)
        kinds = {one.column: one.kind for one in self.comparisons_}
        tables, n_jobs = (left[used], right[used]), count_threads(self.n_jobs)
        return candidate_pairs(*tables, self.block, self.neighbours, kinds, n_jobs)

    def _for_tables(self, left: Any, right: Any) -> list[Comparison]:
        return [one.for_tables(left, right) for one in self.comparisons_]

    def _feature_names(self) -> list[str]:
        return [name for one in self.comparisons_ for name in one.feature_names] + ["link"]

    def _features(self, left: Any, right: Any, rows: Ints, cols: Ints) -> Floats:
        """Comparisons of all columns, and a constant: the log-odds of a link as such."""
        out = np.ones((rows.size, len(self._feature_names())))
        at = 0
        swapped = SwappedNames.of(self.comparisons_, left, right).among(rows, cols)
        for one in self._for_tables(left, right):
            sides, equal = (left[one.column], right[one.column]), swapped.get(one.column, False)
            part = one.features(*sides, rows, cols, equal)
            out[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        return out

    def _estimator(self, alpha: float) -> BipartiteMatchingCRF:
        return BipartiteMatchingCRF(
            alpha=alpha, rho=self.rho, tol=self.tol, solver=self.solver, n_jobs=self.n_jobs,
            verbose=self.verbose, perfect=False, fit_intercept=False,
        )  # fmt: skip

    def _fitted(self) -> BipartiteMatchingCRF:
        """The estimator with the learned weights."""
        check_is_fitted(self, "coef_")
        found = self._estimator(1.0)
        found._reload(self.coef_, self.feature_names_in_.tolist(), None)
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
        self.feature_names_in_ = np.array(self._feature_names(), dtype=object)


# ---------------------------------------------------------------------- reading
def shared_columns(left: Any, right: Any, columns: Sequence[str] | None) -> list[str]:
    """The compared columns; both tables must have them."""
    if columns is None:
        columns = [name for name in left.columns if name in right.columns]
        if not columns:
            raise ValueError(
                f"the tables have no column in common: {list(left.columns)} and "
                f"{list(right.columns)}"
            )
    elif not column_names(columns, "columns"):
        raise ValueError("columns: expected at least one, got none")
    require_columns(left, columns, "left")
    require_columns(right, columns, "right")
    return list(dict.fromkeys(columns))


def compared_columns(left: Any, right: Any, columns: Sequence[str] | None) -> list[str]:
    """`shared_columns` without those that are empty in both tables, which a warning names."""
    shared = shared_columns(left, right, columns)
    filled = [one for one in shared if (left[one] != "").any() or (right[one] != "").any()]
    empty = [str(one) for one in shared if one not in filled]
    if not filled:
        raise ValueError(f"columns: all are empty in both tables: {', '.join(empty)}")
    if empty:
        warnings.warn(f"not compared, empty in both tables: {', '.join(empty)}", stacklevel=3)
    return filled


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


# ---------------------------------------------------------------------- describing pairs
def make_links(
    left: Any, right: Any, rows: Ints, cols: Ints, found: Any, blocking_recall: float | None = None
) -> Links:
    """`Links` of candidate pairs from a frame with the columns probability and linked."""
    import pandas

    chance = found["probability"].to_numpy()
    pairs = pandas.DataFrame(
        {
            "left": left.index.to_numpy()[rows],
            "right": right.index.to_numpy()[cols],
            "probability": chance,
            "proposed": found["linked"].to_numpy(),
            "margin": margins(rows, cols, chance),
            "group": _groups(rows, cols, chance, len(left), len(right)),
        }
    )
    single = [
        pandas.Series(np.clip(1.0 - np.bincount(side, chance, len(table)), 0, 1), table.index)
        for side, table in ((rows, left), (cols, right))
    ]
    return Links(pairs, single[0], single[1], blocking_recall)


def margins(rows: Ints, cols: Ints, chance: Floats) -> Floats:
    """The probability of each pair minus that of the best other one of either record."""
    rival = np.zeros(chance.size)
    for side in (rows, cols):
        first, second = np.zeros((2, side.max(initial=-1) + 1))
        np.maximum.at(first, side, chance)
        best = chance == first[side]
        np.maximum.at(second, side, np.where(best, 0.0, chance))
        tied = np.bincount(side[best], minlength=first.size) > 1
        second[tied] = first[tied]
        rival = np.maximum(rival, np.where(best, second[side], first[side]))
    return chance - rival


def _groups(rows: Ints, cols: Ints, chance: Floats, n_left: int, n_right: int) -> Ints:
    """The number of each pair's group: records joined by pairs that are not all but excluded."""
    size = n_left + n_right
    kept = chance >= POSSIBLE
    links = sparse.coo_array(
        (np.ones(kept.sum()), (rows[kept], cols[kept] + n_left)), shape=(size, size)
    )
    return sparse.csgraph.connected_components(links, directed=False)[1][rows].astype(np.int64)
