"""Records: tables of any types as text, indexed by ids that are all different."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def require_text(table: Any, columns: Iterable[str], name: str) -> None:
    """Raise unless columns of a table have text in all cells, as `as_records` makes them."""
    if not isinstance(table, pandas_module().DataFrame):
        raise TypeError(f"{name}: expected a DataFrame of pandas, got {type(table).__name__}")
    require_columns(table, columns, name)
    infer = pandas_module().api.types.infer_dtype
    for column in columns:
        if list(table.columns).count(column) > 1:
            raise ValueError(f"{name}: column {column!r} occurs twice")
        if not table[column].hasnans and infer(table[column], skipna=False) == "string":
            continue
        for cell in table[column]:
            if not isinstance(cell, str):
                raise ValueError(f"{name}: expected text in column {column!r}, got {cell!r}")


def column_names(names: Any, argument: str) -> list[str]:
    """Names of columns in a list; a string is none."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"{argument}: expected names of columns in a list, got {names!r}")
    return list(names)


def column_kinds(kinds: Any) -> dict[str, str]:
    """Kinds of columns by their names."""
    if kinds is not None and not isinstance(kinds, Mapping):
        raise TypeError(f"kinds: expected a dictionary of columns and kinds, got {kinds!r}")
    return dict(kinds or {})


def pair_places(pairs: Any, left: Any, right: Any) -> list[Any]:
    """Rows of two tables in which the ids of the columns left and right of `pairs` are."""
    known = list(pairs.columns) if isinstance(pairs, pandas_module().DataFrame) else []
    if known.count("left") != 1 or known.count("right") != 1:
        raise ValueError(
            f"pairs: expected a DataFrame with the columns left and right, got {known or pairs!r}"
        )
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
        try:
            table = pandas.DataFrame(list(table), dtype=object)
        except (TypeError, ValueError):
            kind = type(table).__name__
            raise ValueError(f"{where}: expected a table or a list of pairs, got {kind}") from None
    if table.shape[1] < 2:
        raise ValueError(f"{where}: expected two columns of ids, got {list(table.columns)}")
    ids = table.iloc[:, :2].astype(object)
    return list(ids.where(ids.notna(), "").itertuples(index=False, name=None))
