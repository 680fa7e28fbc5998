"""`Links`: the probabilities of the candidate pairs of two tables, and the chosen links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .recall import Recall

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POSSIBLE = 0.01  # probability from which on a pair makes its records compete


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
    rows, cols : places of the records of each pair in the tables
    blocking_recall : share of all links that are among the candidate pairs: of the links given as
        known, or estimated by comparing some records with all others; None if neither has links
    blocking_recall_error : its standard error
    """

    pairs: Any
    single_left: Any
    single_right: Any
    rows: Ints
    cols: Ints
    blocking_recall: float | None = None
    blocking_recall_error: float | None = None

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


def make_links(
    left: Any,
    right: Any,
    rows: Ints,
    cols: Ints,
    chance: Floats,
    linked: Any,
    recall: Recall | None,
) -> Links:  # fmt: skip
    """`Links` between two indexes of ids; `linked` are the chosen pairs."""
    import pandas

    pairs = pandas.DataFrame(
        {
            "left": left.take(rows),
            "right": right.take(cols),
            "probability": chance,
            "proposed": linked,
            "margin": margins(rows, cols, chance),
            "group": _groups(rows, cols, chance, len(left), len(right)),
        }
    )
    single = [
        pandas.Series(np.clip(1.0 - np.bincount(side, chance, len(ids)), 0, 1), ids)
        for side, ids in ((rows, left), (cols, right))
    ]
    return Links(pairs, single[0], single[1], rows, cols, *(recall or ()))


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
