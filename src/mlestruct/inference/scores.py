"""Reading a question: scores of a structure in any of the forms people have them in, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..structures.contract import Structure, StructureLike, as_structure

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Query:
    """Scores of all coordinates of `structure`, log Z being larger by `constant`.

    `asked` is the structure that was given; `kept` are the coordinates of it that are left where
    -inf forbids some, None if all are. `has_forbidden` is True if scores still contain -inf.
    """

    structure: Structure
    scores: Floats
    constant: float
    asked: Structure
    kept: Ints | None = None
    has_forbidden: bool = False

    def restore(self, tau: Floats) -> Floats:
        """Marginals of the structure that was given."""
        if self.kept is None:
            return tau
        out = np.zeros(self.asked.n_coordinates)
        out[self.kept] = tau
        return out

    def require_finite(self, what: str) -> None:
        """Raise if a method cannot handle forbidden states."""
        if self.has_forbidden:
            raise ValueError(
                f"scores: contain -inf, which {what} cannot handle here (matchings and chains may "
                "have forbidden pairs and states); use a large negative score, or for labellings "
                "of small graphs method='exact'"
            )


def read_query(structure: StructureLike, scores: Any) -> Query:
    """Scores in one of the forms that `marginals` describes, checked."""
    space = as_structure(structure)
    space.require_feasible()
    values, constant = space.read_scores(scores)
    wrong = np.isnan(values) | np.isposinf(values)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"scores: coordinate {k} is {values[k]}; scores must be finite, or -inf for what is "
            "forbidden"
        )
    forbidden = np.isneginf(values)
    largest = float(np.abs(values[~forbidden]).max(initial=0.0))
    if not np.isfinite(largest * values.size):
        raise ValueError(f"scores: as large as {largest:g}, so that sums of them overflow")
    if not forbidden.any():
        return Query(space, values, constant, space)
    if not space.offers("restricted"):
        return Query(space, values, constant, space, has_forbidden=True)
    if forbidden[space.n_scored :].any():
        raise ValueError(
            "scores: -inf for staying single; nodes that must be matched are said by `perfect` "
            "when the structure is made"
        )
    smaller, kept = space.restricted(~forbidden[: space.n_scored])
    smaller.require_feasible()
    return Query(smaller, values[kept], constant, space, kept)
