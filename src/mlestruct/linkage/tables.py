"""Tables in files, CSV and Parquet, with errors that name file, row and column."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._files import check_target, write_whole
from .._lazy import pandas_module
from ..exceptions import FileProblem, UsageProblem
from .records import as_text

PARQUET = (".parquet", ".pq")
STANDARD = "-"  # standard input or output
EXCEL = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how files of Excel begin, new and old
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # spreadsheets run cells that begin with these


@contextmanager
def naming(*paths: str | None) -> Iterator[None]:
    """What is wrong with the data of some files is a problem of these files.

    Without files the message names them itself.
    """
    try:
        yield
    except FileProblem:
        raise
    except ValueError as error:
        where = f"{', '.join(filter(None, paths))}: " if paths else ""
        raise FileProblem(f"{where}{error}") from error


def read_table(path: str, encoding: str | None = None) -> Any:
    """A DataFrame of text, "" where a cell is missing; columns without a name are left out.

    Empty rows stay, so that rows in messages are those that an editor shows: the header is row 1.
    A CSV file whose header has no comma may be separated by semicolons or tabs; one that is not
    UTF-8 has the given encoding.
    """
    pandas = pandas_module()
    name = "standard input" if path == STANDARD else path
    try:
        if path.endswith(PARQUET):
            frame = pandas.read_parquet(path)
            has_ids = frame.index.names != [None]
            frame = as_text(frame.reset_index(drop=not has_ids))
        else:
            frame = _read_csv(_content(path), name, encoding)
    except pandas.errors.EmptyDataError:
        raise FileProblem(f"{name}: is empty, or begins with an empty line") from None
    except FileProblem:
        raise
    except (pandas.errors.ParserError, ValueError, ImportError) as error:
        raise FileProblem(f"{name}: {str(error).strip()}") from None
    return _checked(frame, name)


def _content(path: str) -> bytes:
    return sys.stdin.buffer.read() if path == STANDARD else Path(path).read_bytes()


def _read_csv(content: bytes, name: str, encoding: str | None) -> Any:
    if content.startswith(EXCEL):
        raise FileProblem(f"{name}: an Excel file; save it as CSV (UTF-8)")
    header = content.partition(b"\n")[0]
    separator = next((sign for sign in ",;\t" if sign.encode() in header), ",")
    try:
        content.decode()
        encoding = "utf-8-sig"
    except UnicodeDecodeError as error:
        if encoding is None:
            raise FileProblem(_not_utf8(content, name, separator, error.start)) from None
    cells = pandas_module().read_csv(
        io.BytesIO(content), header=None, dtype=str, keep_default_na=False, na_filter=False,
        sep=separator, encoding=encoding, skipinitialspace=True, skip_blank_lines=False,
    )  # fmt: skip
    return cells.iloc[1:].set_axis(cells.iloc[0], axis=1).reset_index(drop=True)


def _not_utf8(content: bytes, name: str, separator: str, place: int) -> str:
    """Where a file is not UTF-8: row and cell, as an editor shows them."""
    before = content[:place]
    row = before.count(b"\n") + 1
    cell = before[before.rfind(b"\n") + 1 :].count(separator.encode()) + 1
    return (
        f"{name}, row {row}, cell {cell}: not UTF-8 at byte {place}; save it as UTF-8, or name its "
        "encoding, such as --encoding cp1252 (Windows)"
    )


def _checked(frame: Any, name: str) -> Any:
    """Columns have different names, and there are rows."""
    frame.columns = [str(column).strip() for column in frame.columns]
    frame = frame.loc[:, frame.columns != ""]
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise FileProblem(f"{name}: column {twice!r} occurs twice in the header")
    if (frame == "").all(axis=None):
        raise FileProblem(f"{name}: has a header but no rows")
    return frame


def clean_ids(column: Any) -> Any:
    """Ids without spaces around them and without the quote that `write_table` puts before some."""
    ids = column.str.strip()
    quoted = ids.str.startswith(tuple(f"'{sign}" for sign in FORMULA))
    return ids.where(~quoted, ids.str[1:])


def read_id_pairs(path: str, encoding: str | None = None) -> Any:
    """A table whose first two columns are ids."""
    pairs = read_table(path, encoding)
    for column in pairs.columns[:2]:
        pairs[column] = clean_ids(pairs[column])
    return pairs


def index_by_id(
    frame: Any, name: str, column: str | None, option: str = "--id", learned: str | None = None
) -> Any:
    """The table indexed by ids, without empty rows; its attribute "ids" names their column.

    The ids are in `column`, which `option` names; default: `learned`, that of the table that a
    model has learned from, "id", or the first that ends in "_id".
    """
    hint = ""
    if column is None and learned in frame.columns:
        column = learned
    if column is None:
        found = [c for c in frame.columns if c.lower() == "id"]
        found += [c for c in frame.columns if c.lower().endswith("_id")]
        if not found:
            raise FileProblem(
                f"{name}: no column is called 'id' or '..._id'; name one with {option}: "
                f"{', '.join(frame.columns)}"
            )
        column = found[0]
        hint = f"; if ids are in another column, name it with {option}"
    if column not in frame.columns:
        raise FileProblem(
            f"{name}: has no column {column!r}; it has {', '.join(frame.columns)}; name that "
            f"of its ids with {option}"
        )
    frame = frame[(frame != "").any(axis=1)]
    ids = clean_ids(frame[column])
    empty = ids == ""
    if empty.any():
        raise FileProblem(f"{name}, row {empty.idxmax() + 2}, column {column!r}: no id{hint}")
    repeated = ids.duplicated()
    if repeated.any():
        row = repeated.idxmax()
        first = (ids == ids[row]).idxmax()
        raise FileProblem(
            f"{name}, row {row + 2}, column {column!r}: id {ids[row]!r} is that of row "
            f"{first + 2}{hint}"
        )
    out = frame.drop(columns=column).set_axis(ids.rename(learned or column), axis=0)
    out.attrs["ids"] = column
    return out


def write_table(frame: Any, path: str) -> None:
    """CSV (or Parquet, by the file's name); text that a spreadsheet would run gets a quote."""
    if path.endswith(PARQUET):
        write_output(frame.to_parquet(index=False), path)
        return
    safe = frame.copy()
    for column in safe.columns:
        if safe[column].dtype.kind not in "fiub":
            safe[column] = [_harmless(value) for value in safe[column]]
    safe.columns = [_harmless(column) for column in safe.columns]
    text = safe.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_output(text.encode(), path)


def write_output(content: bytes, path: str) -> None:
    """Write a file, whole or not at all, or to standard output, a device or a pipe."""
    if path == STANDARD:
        sys.stdout.buffer.write(content)
    elif _is_stream(path):
        with open(path, "wb") as file:
            file.write(content)
    else:
        write_whole(path, content)


def check_files(inputs: Iterable[str | None], **outputs: str | None) -> None:
    """Raise before any work where an output cannot be written, or would replace another file.

    Parameters
    ----------
    inputs : files that are read; None and "-" are passed over
    outputs : files to write, by the name of their option
    """
    taken = {Path(path).resolve(): "an input" for path in inputs if path and path != STANDARD}
    for option, path in outputs.items():
        if path is None or path == STANDARD or _is_stream(path):
            continue
        flag = f"-{option}" if len(option) == 1 else f"--{option}"
        target = check_target(path)
        if target in taken:
            raise UsageProblem(f"{flag}: {path} is {taken[target]}, too; name another file")
        taken[target] = f"the file of {flag}"


def _is_stream(path: str) -> bool:
    """Whether a path is a device or a pipe, such as /dev/null."""
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
