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

YES = ("yes", "true", "1", "y", "ja", "j", "wahr", "oui", "si", "sí", "sì")
NO = ("no", "false", "0", "n", "nein", "falsch", "non")
CHECKED = dict.fromkeys(YES, True) | dict.fromkeys(NO, False)
DECIDED = {"known": True, "link": True, "no partner": True, "review": False, "not compared": False}
FAR = 3.0  # standard errors: further off, answers contradict the probabilities that were shown
AT_RANDOM = (
    "choose left records at random, look for their partners, and list what you find among the "
    "known links, with an empty cell beside those that have none"
)
MARK = "if they are links, write yes in their column 'checked'"


@dataclass(frozen=True)
class KnownRow:
    """A pair of ids that is a link or none; an id beside "" has no partner.

    `where` and `row` are its place, in messages; `shown` is the probability with which a person was
    asked about the pair, None where nobody was.
    """

    left: Any
    right: Any
    is_link: bool
    where: str
    row: int
    shown: float | None = None


@dataclass(frozen=True)
class KnownRows:
    """The rows of some tables that say something, and how many do not.

    passed_over : number of rows that do not count: not decided, or not checked
    unmarked : number of these that have neither a probability nor a decision, so that they do not
        come from answers of a model
    """

    rows: list[KnownRow]
    passed_over: int = 0
    unmarked: int = 0

    def __add__(self, other: KnownRows) -> KnownRows:
        return KnownRows(
            self.rows + other.rows,
            self.passed_over + other.passed_over,
            self.unmarked + other.unmarked,
        )

    def reviewed(self) -> Reviewed | None:
        """Answers of a person beside the probabilities that they came with; None without any."""
        asked = [(row.is_link, row.shown) for row in self.rows if row.shown is not None]
        if not asked:
            return None
        links, shown = np.array(asked, dtype=np.float64).T
        error = float(np.sqrt(np.sum(shown * (1.0 - shown))))
        return Reviewed(links.size, int(links.sum()), float(shown.sum()), error)


@dataclass(frozen=True)
class Reviewed:
    """How many reviewed pairs are links, and how many were expected to be, with standard error."""

    pairs: int
    links: int
    expected: float
    error: float

    def surprise(self) -> str:
        """What follows where more or fewer pairs are links than chance allows; "" elsewhere."""
        if abs(self.links - self.expected) <= FAR * self.error:
            return ""
        words = f"{self.links} of {self.pairs} reviewed pairs are links, {self.expected:.1f} were "
        if self.links > self.expected:
            words += (
                "expected: the links that the model had learned from are easier to see than the "
                f"others, and many records said to have no partner have one; {AT_RANDOM}"
            )
        else:
            words += (
                "expected: fewer records have a partner than the model had learned; " + AT_RANDOM
            )
        return words


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


def read_known(known: Any) -> KnownRows:
    """The rows of a table, of a list of pairs, or of a list of tables; warns of undecided ones."""
    frame = pandas_module().DataFrame
    found = KnownRows([])
    if isinstance(known, list | tuple) and any(isinstance(one, frame) for one in known):
        for k, table in enumerate(known):
            found += known_rows(table, f"known[{k}]")
    else:
        found = known_rows(known)
    if found.passed_over:
        advice = f"; {MARK}, or give several tables as a list, known=[links, review]"
        words = undecided_words(found.passed_over, found.unmarked, advice)
        warnings.warn(f"known: {words}", stacklevel=3)
    return found


def known_table(rows: Iterable[KnownRow]) -> Any:
    """A DataFrame with the columns left, right and checked, yes or no."""
    cells = [(row.left, row.right, "yes" if row.is_link else "no") for row in rows]
    return pandas_module().DataFrame(cells, columns=["left", "right", "checked"], dtype=object)


def undecided_words(passed_over: int, unmarked: int, advice: str) -> str:
    """How many rows do not count, and what to do about those that no model has written."""
    words = f"{passed_over} rows are not decided, and passed over"
    if not unmarked:
        return words
    return f"{words}; {unmarked} of these have no probability, as a list of links has none{advice}"


def known_rows(table: Any, where: str = "known", first_row: int = 1) -> KnownRows:
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
    empty = [""] * len(ids)
    checked, decided, chance = (
        columns.get(name, empty) for name in ("checked", "decision", "probability")
    )
    plain = not {"checked", "decision"} & set(columns)
    found, passed_over, unmarked = [], 0, 0
    for k, (left, right) in enumerate(ids):
        place = f"{where}, row {first_row + k}"
        says = _said(checked[k], CHECKED, f"{place}, column 'checked'")
        shown = None if says is None or "" in (left, right) else _probability(chance[k])
        if left == "" and right == "":
            if says is not None:
                raise ValueError(
                    f"{place}: is checked, and has no ids in the first two columns; give tables of "
                    "different columns one by one, not appended to each other"
                )
            continue
        if says is None:
            says = plain or _said(decided[k], DECIDED, f"{place}, column 'decision'") or None
        if says or (says is False and left != "" and right != ""):  # not: has some other partner
            found.append(KnownRow(left, right, says, where, first_row + k, shown))
        else:
            passed_over += 1
            unmarked += says is None and chance[k] == "" and decided[k] == ""
    return KnownRows(found, passed_over, unmarked)


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
            stacklevel=5,
        )
    if not rest.columns.is_unique:
        rest = rest.loc[:, ~rest.columns.duplicated()]
    return {name: rest[name].str.strip().str.lower().tolist() for name in rest.columns}


def _said(cell: str, meanings: dict[str, bool], place: str) -> bool | None:
    """What a cell means; None where it is empty."""
    if cell and cell not in meanings:
        raise ValueError(f"{place}: expected {', '.join(meanings)} or nothing, got {cell!r}")
    return meanings.get(cell)


def _probability(cell: str) -> float | None:
    """A probability as a table has it, also with a decimal comma; None where there is none."""
    try:
        value = float(cell.replace(",", "."))
    except ValueError:
        return None
    return value if 0.0 <= value <= 1.0 else None


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
