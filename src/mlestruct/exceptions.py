"""Errors that users may want to catch."""

from __future__ import annotations

from threading import local
from typing import Any


class InfeasibleError(ValueError):
    """An output space is empty: no matching covers the nodes that must be covered.

    `rows` is a violating set: together they have fewer allowed partners than members. `side` says
    whether they are "rows", in a problem with more rows than columns "columns", or "nodes" of one
    group. In a group that is matched in pairs they are nodes whose removal leaves more odd groups
    than there are of them (none if the number of nodes is odd).
    """

    def __init__(self, message: str, rows: list[int], side: str = "rows"):
        super().__init__(message)
        self.rows = rows
        self.side = side


class DecoderError(ValueError):
    """A decoder has returned what cannot be right: no 0/1 vector, or not the best output."""


class TooLargeToCount(ValueError):
    """A problem is too large for exact counting."""


class OutOfTimeError(TimeoutError):
    """A time limit has ended before there was anything to return."""


class MissingCapability(TypeError):
    """A solver or a question needs something that a structure or feature map does not offer."""


class FileProblem(ValueError):
    """A file cannot be used; the message names the file and the place."""


class UsageProblem(FileProblem):
    """An option of a command has a wrong value, or one is missing (exit status 2)."""


class ModelFileError(FileProblem):
    """A file cannot be loaded as a model: it is damaged, of another kind, or of a later version."""


class CheckpointError(ValueError):
    """A checkpoint is damaged or of another fit, or a fit cannot have one."""


class UntrustedImport(ModelFileError):
    """A model file names a function that the caller of `load` has not declared as trusted."""


class Naming:
    """Errors of a decoder that are raised inside say which sample it was called for, and when.

    Errors of users' own functions keep their type and message, and get a note.
    """

    __slots__ = ("_doing", "_outer", "_where")
    _now = local()

    def __init__(self, where: str, doing: str):
        self._where, self._doing = where, doing

    def __str__(self) -> str:
        return f"{self._where}, {self._doing}"

    @classmethod
    def current(cls) -> Naming | None:
        """The innermost one that this thread is in."""
        found: Naming | None = getattr(cls._now, "naming", None)
        return found

    def __enter__(self) -> None:
        self._outer, self._now.naming = self.current(), self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._now.naming = self._outer
        if isinstance(error, DecoderError):
            error.args = (f"{self}: {error}",)
        elif isinstance(error, Exception) and not isinstance(error, OutOfTimeError):
            error.add_note(f"the sample was {self}")
