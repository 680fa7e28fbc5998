"""Candidate pairs as rows of a data frame: from ids to the positions of a sample, and back.

Any data frame will do if `frame[name]` and `frame.columns` read it and its class makes one from a
dictionary of columns, as in pandas and polars.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


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
        return self.places(_id_columns(links, found, where), where)

    def places(self, ids: Sequence[list[Hashable]], where: str) -> Ints:
        """Positions of both ids of every row."""
        out = np.empty((len(ids[0]), 2), dtype=np.int64)
        names = ("nodes", "nodes") if self.right is None else ("left", "right")
        for k, (members, own) in enumerate(zip(self._sides, ids, strict=True)):
            place = {member: i for i, member in enumerate(members)}
            out[:, k] = [place.get(id, -1) for id in own]
            if (out[:, k] < 0).any():
                row = int(np.argmin(out[:, k]))
                raise ValueError(
                    f"{where}: id {own[row]!r} in row {row} is not among the ids of {names[k]}"
                )
        return out

    def _chosen(self, links: Any, where: str) -> NDArray[np.bool_]:
        chosen = np.asarray(links)
        if chosen.shape != (self.pairs.shape[0],):
            raise ValueError(
                f"{where}: expected {self.pairs.shape[0]} booleans, one per candidate pair, "
                f"got {chosen.shape[0]}"
            )
        own, index = getattr(links, "index", None), self.origin[1]
        if own is not None and index is not None and not own.equals(index):
            raise ValueError(
                f"{where}: its index differs from the candidate pairs'. Use the same index."
            )
        return chosen


def is_boolean(links: Any) -> bool:
    """Whether links are one boolean for each candidate pair."""
    return np.ndim(links) == 1 and np.asarray(links).dtype == bool


def are_tuples(links: Any) -> bool:
    """Whether this is a list of pairs."""
    pairs = isinstance(links, list) and len(links) > 0
    return pairs and all(isinstance(pair, tuple) and len(pair) == 2 for pair in links)


def names_pairs(links: Any) -> bool:
    """Whether links are given by ids: a frame, pandas' MultiIndex, or tuples with strings."""
    if hasattr(links, "columns") or _levels(links) == 2:
        return True
    return are_tuples(links) and any(isinstance(id, str) for pair in links for id in pair)


def read_frame(
    frame: Any, left: Any, right: Any, ids: Any, one_group: bool
) -> tuple[PairFrame, list[Any]]:
    """The pairs of a frame and the names of its other columns.

    `left` and `right` are frames, whose index holds the ids, or collections of ids; by default the
    ids that occur in the pairs. Of one group there is only `left`.
    """
    if not hasattr(frame, "columns"):
        raise TypeError(f"`pairs` must be a data frame; got {type(frame).__name__}.")
    if ids is not None:
        if isinstance(ids, str) or len(ids) != 2 or ids[0] == ids[1]:
            raise ValueError(f"ids: expected the names of two columns, got {ids!r}")
        for name in ids:
            if name not in list(frame.columns):
                raise ValueError(f"ids: there is no column {name!r}")
    first, second = _id_columns(frame, ids, "pairs")
    if one_group:
        both = [id for pair in zip(first, second, strict=True) for id in pair]
        members, others = _ids(left, both, "nodes"), None
    else:
        members, others = _ids(left, first, "left"), _ids(right, second, "right")
    origin = (type(frame), getattr(frame, "index", None))
    read = PairFrame(members, others, NO_PAIRS, None if ids is None else tuple(ids), origin)
    read = replace(read, pairs=read.places((first, second), "pairs"))
    _check_distinct(read)
    return read, [name for name in frame.columns if ids is None or name not in ids]


def read_columns(frame: Any, names: Sequence[Any]) -> tuple[Floats, list[str]]:
    """Columns of finite numbers as an array of shape (n_rows, n_columns), and their names."""
    known = list(frame.columns)
    for name in names:
        if known.count(name) != 1:
            fault = "several columns" if name in known else "no column"
            raise ValueError(f"features: the frame has {fault} {name!r}")
    if not names:
        raise ValueError("pairs: no column is left for features")
    out = np.stack([_numbers(frame[name], name) for name in names], axis=1)
    if not np.isfinite(out).all():
        row, k = np.argwhere(~np.isfinite(out))[0].tolist()
        raise ValueError(
            f"pairs: column {names[k]!r} has {out[row, k]} in row {row}; fill in what is missing, "
            "with a column of its own that says so"
        )
    return out, [str(name) for name in names]


def _numbers(column: Any, name: Any) -> Floats:
    """A column of numbers, also pandas' nullable ones, whose array is one of objects."""
    values = np.asarray(column)
    if values.dtype.kind not in "biuf":
        listed = [np.nan if value is None else value for value in column]
        if not all(isinstance(value, int | float | np.number) for value in listed):
            raise ValueError(
                f"pairs: column {name!r} holds {values.dtype}, not numbers; choose the columns "
                "that are features by features=[...]"
            )
        values = np.array(listed)
    return values.astype(np.float64)


def _levels(frame: Any) -> int | None:
    """The number of levels of an index, or of the index of a frame; None without one."""
    index = frame if hasattr(frame, "nlevels") else getattr(frame, "index", None)
    return getattr(index, "nlevels", None)


def _id_columns(frame: Any, ids: Any, where: str) -> tuple[list[Hashable], list[Hashable]]:
    """Both ids of every row, from two columns or the index."""
    if ids is not None:
        return _present(frame[ids[0]], where), _present(frame[ids[1]], where)
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
    """The ids of a side: the index of a frame, a collection, or the ids that occur."""
    if given is None:
        return list(dict.fromkeys(found))
    if hasattr(given, "columns"):
        if not hasattr(given, "index"):
            raise TypeError(f"{name}: this frame has no index; give the column with the ids")
        given = given.index
    members = list(given)
    if len(set(members)) != len(members):
        twice = next(member for k, member in enumerate(members) if member in members[:k])
        raise ValueError(f"{name}: id {twice!r} occurs twice")
    return members


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
