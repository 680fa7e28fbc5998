"""`Deduplicator`: clusters of the records of one table that are the same, with probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClusterMixin

from .._arguments import as_count, generator
from .._lazy import pandas_module
from ..features import Rows
from ..models import MatchingCRF, PairInput
from .clusters import bounded_clusters
from .comparisons import guess_comparisons
from .expected_duplicates import ExpectedDuplicates, of_couples, of_pairs
from .known import KnownRow, read_known
from .linker import ENOUGH, RANDOM_PAIRS, RecordLinker
from .prepared import PreparedTables, compared_columns, some
from .recall import MORE_CANDIDATES
from .records import as_records

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SURE = 40.0  # log-odds of known pairs


class Deduplicator(ClusterMixin, BaseEstimator):
    """Clusters of the records of one table that are the same person or thing.

    Candidates and comparisons are those of `RecordLinker`. Without labels, expectation-maximisation
    finds how pairs of duplicates, of related records (households) and of others agree in each
    column. Then clusters follow from the probabilities of pairs by average linkage.

    Parameters
    ----------
    size : maximum number of records of a cluster. If it is 2, records compete: probabilities are
        marginals of matchings within the table. Otherwise each pair has a probability by itself
    columns, kinds, block, neighbours, n_jobs, random_state : as in `RecordLinker`

    Attributes
    ----------
    labels_ : ndarray, the number of each record's cluster
    pairs_ : DataFrame with the columns
        left, right : ids of candidate pairs;
        probability : that they are duplicates;
        same_cluster : whether they are in one cluster;
        conflict : whether the cluster contradicts the probability: not above 1/2 in one cluster, or
        above 1/2 in two
    comparisons_ : list of `Comparison`

    Examples
    --------
    >>> import pandas as pd
    >>> from mlestruct.datasets import make_people
    >>> from mlestruct.linkage import Deduplicator
    >>> left, right, links = make_people(100, random_state=0)
    >>> people = pd.concat([left, right])
    >>> found = Deduplicator(size=2).fit(people)
    >>> bool(75 <= found.pairs_["same_cluster"].sum() <= 85)  # there are 80
    True
    """

    def __init__(
        self,
        size: int = 10,
        columns: Sequence[str] | None = None,
        kinds: dict[str, str] | None = None,
        block: Sequence[Any] = (),
        neighbours: int = 10,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ):
        self.size = size
        self.columns = columns
        self.kinds = kinds
        self.block = block
        self.neighbours = neighbours
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, table: Any, known: Any = None) -> Deduplicator:
        """Find the duplicates of a table.

        Parameters
        ----------
        table : DataFrame, indexed by ids; "" is missing, too
        known : pairs of ids of this table, as in `RecordLinker.fit`: links, pairs that are none
            ("checked" is no), and ids without a duplicate, beside an empty cell
        """
        as_count(self.size, "size", 2)
        rng = generator(self.random_state)
        table = as_records(table, "table")
        linker = RecordLinker(
            columns=self.columns, kinds=self.kinds, block=self.block, n_jobs=self.n_jobs,
            neighbours=as_count(self.neighbours, "neighbours") + 1,  # each finds itself, too
        )  # fmt: skip
        columns = compared_columns(table, table, self.columns)
        linker.comparisons_ = guess_comparisons(some(table), some(table), columns, self.kinds)
        tables = linker._prepared(table, table, linker.comparisons_)
        rows = [] if known is None else read_known(known).rows
        given = known_pairs(rows, table.index)
        ends, bias = _candidates(tables, given)
        if ends[0].size == 0:
            raise ValueError(
                f"table: no pair of {len(table)} records is a candidate. {MORE_CANDIDATES}"
            )
        chance = self._probabilities(linker, tables, ends, bias, rng)
        self.labels_ = bounded_clusters(*ends, chance, len(table), self.size, bias < 0)
        same = self.labels_[ends[0]] == self.labels_[ends[1]]
        self.pairs_ = pandas_module().DataFrame(
            {
                "left": table.index.to_numpy()[ends[0]],
                "right": table.index.to_numpy()[ends[1]],
                "probability": chance,
                "same_cluster": same,
                "conflict": same != (chance > 0.5),
            }
        )
        self.comparisons_ = linker.comparisons_
        return self

    def _probabilities(
        self, linker: RecordLinker, tables: PreparedTables, ends: tuple[Ints, Ints], bias: Floats,
        rng: Any,
    ) -> Floats:  # fmt: skip
        """Of pairs to be duplicates, given the bias of the known ones."""
        n = len(tables.left)
        one, other = rng.integers(n, size=(2, RANDOM_PAIRS))
        drawn = one != other
        levels, at_random = (
            linker._levels(np.concatenate(tables.in_slices(lambda features: features, *pairs)))
            for pairs in (ends, (one[drawn], other[drawn]))
        )
        model = ExpectedDuplicates(levels, at_random, ends, n)

        def couples(scores: Floats) -> Floats:
            both = np.concatenate(ends), np.concatenate(ends[::-1])
            mask = sparse.csr_array((np.ones(both[0].size, dtype=bool), both), shape=(n, n))
            own = MatchingCRF(rho=0.95, perfect=False, fit_intercept=False, n_jobs=self.n_jobs)
            own._reload(np.ones(1), ["score"], None)
            x = PairInput(Rows((scores + bias)[:, None]), mask=mask)
            (found,) = own.predict_marginals([x], tol=ENOUGH)
            return np.clip(np.asarray(found[ends]).ravel(), 0.0, 1.0)

        # Couples tell duplicates from related records even if each record may have several.
        chance = model.learn(couples, of_couples)
        if self.size > 2:
            model.forget_competition()
            chance = model.learn(lambda scores: expit(scores + bias), of_pairs)
        return chance


def _candidates(
    tables: PreparedTables, given: dict[tuple[int, int], bool]
) -> tuple[tuple[Ints, Ints], Floats]:
    """Pairs i < j, known links among them, and what is added to their log-odds."""
    n = len(tables.left)
    rows, cols = tables.candidates
    keys = np.minimum(rows, cols) * n + np.maximum(rows, cols)
    links = [i * n + j for (i, j), is_link in given.items() if is_link and i >= 0]
    keys = np.unique(np.concatenate([keys[rows != cols], np.array(links, dtype=np.int64)]))
    ends = keys // n, keys % n
    bias = np.zeros(keys.size)
    alone = [j for i, j in given if i < 0]
    bias[np.isin(ends[0], alone) | np.isin(ends[1], alone)] = -SURE
    for (i, j), is_link in given.items():
        if i >= 0:
            bias[keys == i * n + j] = SURE if is_link else -SURE
    return ends, bias


def known_pairs(rows: Iterable[KnownRow], index: Any) -> dict[tuple[int, int], bool]:
    """Whether known pairs of places i < j are links; (-1, i) is a record without a duplicate."""
    place = {key: k for k, key in enumerate(index)}
    found: dict[tuple[int, int], bool] = {}
    first: dict[tuple[int, int], KnownRow] = {}
    linked: set[int] = set()
    for row in rows:
        for key in (row.left, row.right):
            if key != "" and key not in place:
                some = ", ".join(map(repr, index[:3]))
                raise ValueError(
                    f"{row.where}, row {row.row}: the table has no id {key!r}; its index begins "
                    f"with {some}"
                )
        low, high = sorted(place.get(key, -1) for key in (row.left, row.right))
        if low == high:
            raise ValueError(f"{row.where}, row {row.row}: {row.left!r} is beside itself")
        if found.setdefault((low, high), row.is_link) != row.is_link:
            raise ValueError(
                f"{row.where}, row {row.row}: {row.left!r} and {row.right!r} are a link and none; "
                f"see row {first[low, high].row} of {first[low, high].where}"
            )
        first.setdefault((low, high), row)
        linked |= {low, high} if row.is_link and low >= 0 else set()
    for low, high in found:
        if low < 0 and high in linked:
            raise ValueError(
                f"{first[low, high].where}, row {first[low, high].row}: {index[high]!r} has no "
                "duplicate here, and one in another row"
            )
    return found
