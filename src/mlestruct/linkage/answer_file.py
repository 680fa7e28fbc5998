"""The file of a person's answers about pairs: each change is written at once, as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from .._files import check_target
from .._lazy import pandas_module
from ..exceptions import FileProblem
from .tables import read_id_pairs, write_table

try:
    import fcntl
except ImportError:  # Windows: threads of this process wait for each other, processes do not
    fcntl = None  # type: ignore[assignment]

COLUMNS = ["left", "right", "checked", "probability"]


class AnswerFile:
    """Rows of two ids, yes or no, and the probability that was shown; as `link --known` reads it.

    Every change reads the file first, so that rows of other processes are kept. Pairs that were
    passed over have an empty cell in the column "checked".

    Parameters
    ----------
    path : of a CSV file, which the first answer makes
    encoding : of the file if it is not UTF-8; it is written in UTF-8
    """

    def __init__(self, path: str, encoding: str | None = None):
        self.path = path
        self._encoding = encoding
        self._lock = Lock()
        check_target(path)

    def read(self) -> Any:
        """The rows as a DataFrame of text."""
        file = Path(self.path)
        if not file.exists() or file.read_bytes().strip().count(b"\n") == 0:
            return pandas_module().DataFrame(columns=COLUMNS, dtype=object)
        found = read_id_pairs(self.path, self._encoding)
        found.columns = [*COLUMNS[:2], *(name.strip().lower() for name in found.columns[2:])]
        if "checked" not in found.columns:
            raise FileProblem(
                f"{self.path}: has no column 'checked', so it is not a file of answers; name "
                "another one with -o, and pass known links with --known"
            )
        found["checked"] = found["checked"].str.strip().str.lower()
        return found

    def add(self, left: str, right: str, checked: str, probability: float) -> None:
        """Add a row; a row of the same pair that has no answer is replaced."""
        with self._changed() as rows:
            kept = rows[~(_is_pair(rows, left, right) & (rows["checked"] == ""))]
            new = pandas_module().DataFrame(
                [[left, right, checked, f"{probability:.6g}"]], columns=COLUMNS, dtype=object
            )
            both = pandas_module().concat([kept, new], ignore_index=True)
            write_table(both.fillna(""), self.path)

    def remove(self, left: str, right: str) -> None:
        """Remove the rows of a pair."""
        with self._changed() as rows:
            write_table(rows[~_is_pair(rows, left, right)], self.path)

    @contextmanager
    def _changed(self) -> Iterator[Any]:
        """The rows, while no other thread or process changes them."""
        with self._lock, _locked_folder(Path(self.path).resolve().parent):
            yield self.read()


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Keep other processes that ask the same out; a lock of the file would go with it."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # file systems without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _is_pair(rows: Any, left: str, right: str) -> Any:
    return (rows["left"] == left) & (rows["right"] == right)
