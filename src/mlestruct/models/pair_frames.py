"""Candidate pairs as rows of a data frame: from ids to the positions of a sample, and back.

Any data frame will do if `frame[name]` and `frame.columns` read it and its class makes one from a
dictionary of columns, as in pandas and polars.
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

    @property
    def _sides(self) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
        return self.left, self.left if self.right is None else self.right

    def table(self, columns: dict[str, Any]) -> Any:
        """A frame of the original kind: its ids, and columns with a value for each row."""
        kind, index = self.origin
        if self.ids is not None:
            sides = zip(self.ids, self._sides, self.pairs.T.tolist(), strict=True)
            named = {name: [side[i] for i in places] for name, side, places in sides}
            taken = [name for name in columns if name in named]
            if taken:
                raise ValueError(f"ids: a column of ids is called {taken[0]!r}, as one of results")
            columns = named | columns
        return kind(columns) if index is None else kind(columns, index=index)

    def positions(self, links: Any, where: str) -> Ints:
        """Links given by ids, or as a boolean for each row of the frame, as pairs of positions."""
        if is_boolean(links):
            return self.pairs[self._chosen(links, where)]
        columns, found = list(getattr(links, "columns", ())), None
        if self.ids is not None and all(name in columns for name in self.ids):
            found = self.ids
        elif _levels(links) != 2 and len(columns) == 2:
            found = columns[0], columns[1]
        names = ("left", "right") if self.right is not None else ("nodes", "nodes")
        return _places(self._sides, _id_columns(links, found, where), where, names)

    def _chosen(self, links: Any, where: str) -> NDArray[np.bool_]:
        chosen = np.asarray(links)
        if chosen.shape != (self.pairs.shape[0],):
            raise ValueError(
                f"{where}: expected {self.pairs.shape[0]} booleans, one per candidate pair, "
                f"got {chosen.shape[0]}"
            )
        own, index = getattr(links, "index", None), self.origin[1]
        if own is not None and index is not None and not own.equals(index):
            raise ValueError(f"{where}: its index differs from that of the candidate pairs")
        return chosen


def is_boolean(links: Any) -> bool:
    """Whether links are one boolean for each candidate pair."""
    return np.ndim(links) == 1 and np.asarray(links).dtype == bool


def names_pairs(links: Any) -> bool:
    """Whether links are given by ids: a frame, pandas' MultiIndex, or tuples with strings."""
    return hasattr(links, "columns") or _levels(links) == 2 or (
        are_tuples(links) and any(isinstance(id, str) for pair in links for id in pair)
    )  # fmt: skip


def are_tuples(links: Any) -> bool:
    """Whether this is a list of pairs."""
    return (
        isinstance(links, list)
        and len(links) > 0
        and all(isinstance(pair, tuple) and len(pair) == 2 for pair in links)
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
    if one_group:
        names = ("nodes", "nodes")
        both = [id for pair in zip(first, second, strict=True) for id in pair]
        members = others = _ids(left, both, "nodes")
    else:
        names = ("left", "right")
        members, others = _ids(left, first, "left"), _ids(right, second, "right")
    pairs = _places((members, others), (first, second), "pairs", names)
    origin = (type(frame), getattr(frame, "index", None))
    read = PairFrame(members, None if one_group else others, pairs, columns, origin)
    _check_distinct(read)
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
        out[:, k] = _numbers(frame[name], name)
        if not np.isfinite(out[:, k]).all():
            at = int(np.argmin(np.isfinite(out[:, k])))
            raise ValueError(
                f"pairs: column {name!r} has {out[at, k]} in row {at}; fill in what is missing, "
                "with a column of its own that says so"
            )
    return out, [str(name) for name in names]


def _numbers(column: Any, name: Any) -> Any:
    """A column of numbers; pandas' nullable ones, whose array is one of objects, too."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return values
    listed = [np.nan if value is None else value for value in column]
    if all(isinstance(value, int | float | np.number) for value in listed):
        return np.array(listed, dtype=np.float64)
    raise ValueError(
        f"pairs: column {name!r} holds {values.dtype}, not numbers; choose the columns that are "
        "features by features=[...]"
    )


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
    if are_tuples(frame):
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
    seen: set[Hashable] = set()
    for member in members:
        if member in seen:
            raise ValueError(f"{name}: id {member!r} occurs twice")
        seen.add(member)
    return members


def _places(
    sides: Sequence[Sequence[Hashable]],
    ids: Sequence[list[Hashable]],
    where: str,
    names: Sequence[str],
) -> Ints:
    """Positions of both ids of every row among those of the sides."""
    out = np.empty((len(ids[0]), 2), dtype=np.int64)
    for k, (members, own) in enumerate(zip(sides, ids, strict=True)):
        place = {member: i for i, member in enumerate(members)}
        out[:, k] = [place.get(id, -1) for id in own]
        if (out[:, k] < 0).any():
            row = int(np.argmin(out[:, k]))
            raise ValueError(
                f"{where}: id {own[row]!r} in row {row} is not among the ids of {names[k]}"
            )
    return out


def _check_distinct(read: PairFrame) -> None:
    pairs, (left, right) = read.pairs, read._sides
    ends = np.sort(pairs, axis=1) if read.right is None else pairs
    keys = ends[:, 0] * (ends.max(initial=0) + 1) + ends[:, 1]
    _, once, count = np.unique(keys, return_index=True, return_counts=True)
    if (count > 1).any():
        i, j = pairs[once[np.argmax(count > 1)]].tolist()
        raise ValueError(f"pairs: ({left[i]!r}, {right[j]!r}) occurs twice")
    itself = (pairs[:, 0] == pairs[:, 1]) & (read.right is None)
    if itself.any():
        k = int(np.argmax(itself))
        raise ValueError(f"pairs: row {k} pairs {left[pairs[k, 0]]!r} with itself")
