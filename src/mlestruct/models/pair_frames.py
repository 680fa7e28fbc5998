"""Candidate pairs as rows of a data frame: from ids to the numbering of a sample, and back.

Any data frame will do whose columns are read by `frame[name]` and listed by `frame.columns`, and
whose class makes one from a dictionary of columns: those of pandas and polars.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairFrame:
    """The ids of a sample, and the pair in each row of the frame from which it was made.

    Attributes
    ----------
    left : sequence, ids of the rows of the sample (of its nodes, if there is one group)
    right : sequence, ids of its columns; None if there is one group
    pairs : ndarray of shape (n_pairs, 2), positions of the ids in each row of the frame
    ids : the two columns with the ids; None if these are the frame's index
    origin : the frame's class and, for pandas, its index
    """

    left: Sequence[Hashable]
    right: Sequence[Hashable] | None
    pairs: Ints
    ids: tuple[Any, Any] | None
    origin: tuple[type, Any]

    @classmethod
    def of_positions(cls, pairs: Ints, shape: tuple[int, int], names: tuple[str, str]) -> PairFrame:
        """A pandas frame of pairs whose ids are their positions."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "pandas is needed for a frame of links: pip install 'mlestruct[frame]'"
            ) from None
        index = pandas.RangeIndex(pairs.shape[0])
        return cls(range(shape[0]), range(shape[1]), pairs, names, (pandas.DataFrame, index))

    def table(self, columns: dict[str, Any]) -> Any:
        """A frame of the original kind: its ids, and columns with a value for each row."""
        kind, index = self.origin
        if self.ids is not None:
            right = self.left if self.right is None else self.right
            named = {
                self.ids[0]: [self.left[i] for i in self.pairs[:, 0].tolist()],
                self.ids[1]: [right[j] for j in self.pairs[:, 1].tolist()],
            }
            taken = [name for name in columns if name in named]
            if taken:
                raise ValueError(f"ids: a column of ids is called {taken[0]!r}, as one of results")
            columns = named | columns
        return kind(columns) if index is None else kind(columns, index=index)

    def positions(self, links: Any, where: str) -> Ints:
        """Links given by ids, or as a boolean for each row of the frame, as pairs of positions."""
        if is_boolean(links):
            chosen = np.asarray(links)
            if chosen.shape != (self.pairs.shape[0],):
                raise ValueError(
                    f"{where}: expected {self.pairs.shape[0]} booleans, one per candidate pair, "
                    f"got {chosen.shape[0]}"
                )
            own = getattr(links, "index", None)
            if own is not None and self.origin[1] is not None and not own.equals(self.origin[1]):
                raise ValueError(f"{where}: its index differs from that of the candidate pairs")
            return self.pairs[chosen]
        first, second = _id_columns(links, self._link_columns(links), where)
        right = self.left if self.right is None else self.right
        sides = ("left", "right") if self.right is not None else ("nodes", "nodes")
        return np.stack(
            [_places(self.left, first, where, sides[0]), _places(right, second, where, sides[1])],
            axis=1,
        )

    def _link_columns(self, links: Any) -> tuple[Any, Any] | None:
        """Columns of links: named as the ids, else its only two; None if they are its index."""
        columns = list(getattr(links, "columns", ()))
        if self.ids is not None and all(name in columns for name in self.ids):
            return self.ids
        if _levels(links) == 2 or len(columns) != 2:
            return None
        return columns[0], columns[1]


def is_boolean(links: Any) -> bool:
    """Whether links are one boolean for each candidate pair."""
    return np.ndim(links) == 1 and np.asarray(links).dtype == bool


def names_pairs(links: Any) -> bool:
    """Whether links are given by ids: a frame, pandas' MultiIndex, or tuples with strings."""
    return hasattr(links, "columns") or _levels(links) == 2 or _are_tuples(links)


def _are_tuples(links: Any) -> bool:
    """Whether this is a list of pairs of ids; those of numbers would be taken for positions."""
    return (
        isinstance(links, list)
        and len(links) > 0
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in links)
        and any(isinstance(id, str) for pair in links for id in pair)
    )


def read_frame(
    frame: Any, left: Any, right: Any, ids: Any, one_group: bool
) -> tuple[PairFrame, list[Any]]:
    """The pairs of a frame and the names of its other columns.

    `left` and `right` are frames, whose index holds the ids, or collections of ids; by default the
    ids that occur in the pairs. Of one group there is only `left`.
    """
    if not hasattr(frame, "columns"):
        raise TypeError(f"pairs: expected a data frame, got {type(frame).__name__}")
    columns = None if ids is None else _two_columns(frame, ids)
    first, second = _id_columns(frame, columns, "pairs")
    names = ("nodes", "nodes") if one_group else ("left", "right")
    if one_group:
        both = [id for pair in zip(first, second, strict=True) for id in pair]
        members = others = _ids(left, both, "nodes")
    else:
        members, others = _ids(left, first, "left"), _ids(right, second, "right")
    pairs = np.stack(
        [_places(members, first, "pairs", names[0]), _places(others, second, "pairs", names[1])],
        axis=1,
    )
    _check_distinct(pairs, first, second, one_group)
    origin = (type(frame), getattr(frame, "index", None))
    read = PairFrame(members, None if one_group else others, pairs, columns, origin)
    return read, [name for name in frame.columns if columns is None or name not in columns]


def read_columns(frame: Any, names: Sequence[Any]) -> tuple[Floats, list[str]]:
    """Columns of numbers as an array of shape (n_rows, n_columns), and their names."""
    known = list(frame.columns)
    for name in names:
        if known.count(name) != 1:
            fault = "several columns" if name in known else "no column"
            raise ValueError(f"features: the frame has {fault} {name!r}")
    if not names:
        raise ValueError("pairs: no column is left for features")
    out = np.empty((len(frame), len(names)))
    for k, name in enumerate(names):
        values = frame[name]
        try:
            numbers = np.asarray(values)
            if numbers.dtype.kind not in "biuf":
                numbers = _as_numbers(values)
            out[:, k] = numbers
        except (TypeError, ValueError):
            raise ValueError(
                f"pairs: column {name!r} holds {np.asarray(values).dtype}, not numbers; choose "
                "the columns that are features by features=[...]"
            ) from None
        if not np.isfinite(out[:, k]).all():
            at = int(np.argmin(np.isfinite(out[:, k])))
            raise ValueError(
                f"pairs: column {name!r} has {out[at, k]} in row {at}; fill in what is missing, "
                "with a column of its own that says so"
            )
    return out, [str(name) for name in names]


def _as_numbers(values: Any) -> Floats:
    """A column of pandas' nullable numbers, whose array is one of objects."""
    if not all(isinstance(value, int | float | np.number) for value in values if value is not None):
        raise TypeError
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _levels(frame: Any) -> int | None:
    """The number of levels of an index, or of the index of a frame; None without one."""
    index = frame if hasattr(frame, "nlevels") else getattr(frame, "index", None)
    return getattr(index, "nlevels", None)


def _two_columns(frame: Any, ids: Any) -> tuple[Any, Any]:
    if isinstance(ids, str) or len(ids) != 2 or ids[0] == ids[1]:
        raise ValueError(f"ids: expected the names of two columns, got {ids!r}")
    for name in ids:
        if name not in list(frame.columns):
            raise ValueError(f"ids: there is no column {name!r}")
    return ids[0], ids[1]


def _id_columns(
    frame: Any, columns: tuple[Any, Any] | None, where: str
) -> tuple[list[Hashable], list[Hashable]]:
    """Both ids of every row."""
    if columns is not None:
        return _present(frame[columns[0]], where), _present(frame[columns[1]], where)
    if _are_tuples(frame):
        return [pair[0] for pair in frame], [pair[1] for pair in frame]
    if _levels(frame) != 2:
        raise ValueError(
            f"{where}: expected a MultiIndex with two levels, or two columns of ids"
            + (" by ids=(name, name)" if where == "pairs" else "")
        )
    index = frame if hasattr(frame, "nlevels") else frame.index
    first, second = (_present(index.get_level_values(k), where) for k in (0, 1))
    return first, second


def _present(ids: Any, where: str) -> list[Hashable]:
    """Ids as a list; raises if one is missing."""
    found = list(ids)
    for k, id in enumerate(found):
        if id is None or id != id:  # NaN and NaT differ from themselves
            raise ValueError(f"{where}: the id in row {k} is missing ({id})")
    return found


def _ids(given: Any, found: list[Hashable], name: str) -> list[Hashable]:
    """The ids of a side: of the index of a frame, a collection, or those that occur."""
    if given is None:
        return list(dict.fromkeys(found))
    if hasattr(given, "columns"):
        if not hasattr(given, "index"):
            raise TypeError(f"{name}: this frame has no index; give the column with the ids")
        given = given.index
    members = list(given)
    if len(set(members)) != len(members):
        place = {member: k for k, member in enumerate(members)}
        twice = next(member for k, member in enumerate(members) if place[member] != k)
        raise ValueError(f"{name}: id {twice!r} occurs twice")
    return members


def _places(members: Sequence[Hashable], ids: list[Hashable], where: str, side: str) -> Ints:
    place = {member: k for k, member in enumerate(members)}
    found = np.array([place.get(id, -1) for id in ids], dtype=np.int64)
    if (found < 0).any():
        k = int(np.argmin(found))
        raise ValueError(f"{where}: id {ids[k]!r} in row {k} is not among the ids of {side}")
    return found


def _check_distinct(
    pairs: Ints, first: list[Hashable], second: list[Hashable], one_group: bool
) -> None:
    ends = np.sort(pairs, axis=1) if one_group else pairs
    keys = ends[:, 0] * (ends.max(initial=0) + 1) + ends[:, 1]
    _, once, count = np.unique(keys, return_index=True, return_counts=True)
    if (count > 1).any():
        k = int(once[np.argmax(count > 1)])
        raise ValueError(f"pairs: ({first[k]!r}, {second[k]!r}) occurs twice")
    if one_group and (ends[:, 0] == ends[:, 1]).any():
        k = int(np.argmax(ends[:, 0] == ends[:, 1]))
        raise ValueError(f"pairs: row {k} pairs {first[k]!r} with itself")
