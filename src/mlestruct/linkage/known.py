"""Known links: rows of ids, some of them judged by a person, as partners and refused pairs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._lazy import pandas_module
from .records import as_text, id_pairs

Ints = NDArray[np.int64]

CHECKED = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
DECIDED = {"known": True, "link": True, "no partner": True, "review": False, "not compared": False}


@dataclass(frozen=True)
class KnownRow:
    """A pair of ids that is a link or none; an id beside "" has no partner.

    `where` and `row` are its place, in messages.
    """

    left: Any
    right: Any
    is_link: bool
    where: str
    row: int


@dataclass(frozen=True)
class KnownLinks:
    """What is known of the links between two tables.

    partner : place of each left record's partner; -1 has none, -2 is not known
    alone : which right records are known to have no partner
    refused : places of pairs that are known to be no links, shape (n_pairs, 2)
    """

    partner: Ints
    alone: NDArray[np.bool_]
    refused: Ints


def known_rows(table: Any, where: str = "known", first_row: int = 1) -> list[KnownRow]:
    """The rows of a table, or of a list of pairs, that say something.

    A column "checked" with yes or no tells links from pairs that are none; rows in which it is
    empty do not count. Of a table of answers (`mlestruct link`), with a column "decision", rows
    that are not decided do not count unless they are checked.

    Parameters
    ----------
    table : DataFrame whose first two columns are ids, or a list of pairs
    where : name of the table, in messages
    first_row : number of its first row, in messages
    """
    ids = id_pairs(table, where)
    columns = _text_columns(table, where)
    checked, decided = columns.get("checked"), columns.get("decision")
    found = []
    for k, (left, right) in enumerate(ids):
        if left == "" and right == "":
            continue
        place = f"{where}, row {first_row + k}"
        says = None if checked is None else _said(checked[k], CHECKED, f"{place}, column 'checked'")
        if says is None and decided is not None:
            says = _said(decided[k], DECIDED, f"{place}, column 'decision'") or None
        elif says is None and checked is None:
            says = True
        if says or (says is False and left != "" and right != ""):  # not: has some other partner
            found.append(KnownRow(left, right, says, where, first_row + k))
    return found


def _text_columns(table: Any, where: str) -> dict[str, list[str]]:
    """The columns after the ids by name; warns where none of them has a meaning."""
    pandas = pandas_module()
    if not isinstance(table, pandas.DataFrame):
        table = pandas.DataFrame(list(table), dtype=object)
    rest = as_text(table.iloc[:, 2:])
    rest.columns = [str(name).strip().lower() for name in rest.columns]
    if rest.shape[1] and not {"checked", "decision"} & set(rest.columns):
        named = ", ".join(repr(name) for name in table.columns[2:])
        warnings.warn(
            f"{where}: every row counts as a link; not used: {named}. A column that says yes for "
            "links and no for pairs that are none is to be called 'checked'",
            stacklevel=4,
        )
    if not rest.columns.is_unique:
        rest = rest.loc[:, ~rest.columns.duplicated()]
    return {name: rest[name].str.strip().str.lower().tolist() for name in rest.columns}


def _said(cell: str, meanings: dict[str, bool], place: str) -> bool | None:
    """What a cell means; None where it is empty."""
    if cell and cell not in meanings:
        raise ValueError(f"{place}: expected {', '.join(meanings)} or nothing, got {cell!r}")
    return meanings.get(cell)


def known_links(rows: Iterable[KnownRow], left: Any, right: Any) -> KnownLinks:
    """Places of known rows in two tables with these ids; raises where rows contradict."""
    places = [{key: k for k, key in enumerate(side)} for side in (left, right)]
    partner = np.full(len(left), -2, dtype=np.int64)
    alone = np.zeros(len(right), dtype=bool)
    listed: tuple[dict[Any, KnownRow], dict[Any, KnownRow]] = ({}, {})
    refused: dict[tuple[int, int], KnownRow] = {}
    for row in rows:
        ends = [-1, -1]
        for k, key in enumerate((row.left, row.right)):
            if key == "":
                continue
            if key not in places[k]:
                some = ", ".join(map(repr, (left, right)[k][:3]))
                raise ValueError(
                    f"{row.where}, row {row.row}: the {('left', 'right')[k]} table has no id "
                    f"{key!r}; its index begins with {some}"
                )
            ends[k] = places[k][key]
            if row.is_link:
                first = listed[k].setdefault(key, row)
                if (first.left, first.right) != (row.left, row.right):
                    raise ValueError(_two_answers(k, key, first, row))
        if not row.is_link:
            refused[ends[0], ends[1]] = row
        elif ends[0] >= 0:
            partner[ends[0]] = ends[1]
        else:
            alone[ends[1]] = True
    for (i, j), row in refused.items():
        if partner[i] == j:
            first = listed[0][row.left]
            raise ValueError(
                f"{row.where}: {row.left!r} and {row.right!r} are a link and none: "
                f"{_both(first, row)}"
            )
    return KnownLinks(partner, alone, np.array([*refused], dtype=np.int64).reshape(-1, 2))


def _two_answers(side: int, key: Any, first: KnownRow, second: KnownRow) -> str:
    others = [row.right if side == 0 else row.left for row in (first, second)]
    what = "a partner and none" if "" in others else "two partners"
    return (
        f"{second.where}: {('left', 'right')[side]} id {key!r} has {what}: {_both(first, second)}; "
        "links are one to one"
    )


def _both(one: KnownRow, other: KnownRow) -> str:
    if one.where == other.where:
        return f"rows {one.row} and {other.row}"
    return f"{one.where}, row {one.row}, and {other.where}, row {other.row}"
