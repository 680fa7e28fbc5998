"""Records: tables of any types as text, indexed by ids that are all different."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._lazy import pandas_module


def as_records(table: Any, name: str) -> Any:
    """A table as text without spaces around it; raises unless ids and columns are different.

    Letters with accents are one sign each (NFC), as which they can be compared.

    Parameters
    ----------
    table : DataFrame, indexed by ids
    name : of the table, in messages
    """
    if not isinstance(table, pandas_module().DataFrame):
        raise TypeError(f"{name}: expected a DataFrame of pandas, got {type(table).__name__}")
    for what, found in (("id", table.index), ("column", table.columns)):
        if found.hasnans:
            raise ValueError(f"{name}: {what} number {found.isna().argmax()} is missing")
        if not found.is_unique:
            twice = found[found.duplicated()].tolist()[0]
            raise ValueError(f"{name}: {what} {twice!r} occurs twice")
    return as_text(table).apply(lambda column: column.str.normalize("NFC").str.strip())


def as_text(table: Any) -> Any:
    """Columns of any types as the text that a CSV file would have; "" where a cell is missing."""
    whole = [
        column
        for column in table.select_dtypes("float")
        if (table[column].dropna() % 1 == 0).all()  # integers with gaps, such as ids
        and table[column].abs().max() < 2.0**53
    ]
    text = table.astype(dict.fromkeys(whole, "Int64")).astype(str)
    return text.where(table.notna(), "")


def require_columns(table: Any, columns: Iterable[str], name: str) -> None:
    """Raise unless a table has these columns."""
    for column in columns:
        if column not in table.columns:
            raise ValueError(
                f"the {name} table has no column {column!r}; it has {list(table.columns)}"
            )


def pair_places(pairs: Any, left: Any, right: Any) -> list[Any]:
    """Rows of two tables in which the ids of the columns left and right of `pairs` are."""
    found = []
    for side, index in (("left", left), ("right", right)):
        found.append(index.get_indexer(pairs[side]))
        if (found[-1] < 0).any():
            stray = pairs[side][found[-1] < 0].tolist()[0]
            raise ValueError(f"pairs: there is no id {stray!r}, in column {side!r}")
    return found


def id_pairs(table: Any, where: str) -> list[tuple[Any, Any]]:
    """Ids in the first two columns of a table or in a list of pairs; "" where one is missing."""
    pandas = pandas_module()
    if not isinstance(table, pandas.DataFrame):
        table = pandas.DataFrame(list(table), dtype=object)
    if table.shape[1] < 2:
        raise ValueError(f"{where}: expected two columns of ids, got {list(table.columns)}")
    ids = table.iloc[:, :2].astype(object)
    return list(ids.where(ids.notna(), "").itertuples(index=False, name=None))
