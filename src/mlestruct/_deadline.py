"""Time limits of long computations: a deadline, asked between steps of less than half a second.

`time_limit` sets the deadline of all that runs inside of it. Algorithms with an answer at any time
end where `is_over()`; all others call `check_time`, which raises a little later, so that an answer
found in time can still be certified. Between two steps Python also answers Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from threading import Event, Thread
from time import perf_counter
from typing import Any, TypeVar

from .exceptions import OutOfTimeError

T = TypeVar("T")


@dataclass
class Deadline:
    """When to end (`soft`) and when to give up (`hard`), as times of `perf_counter`."""

    seconds: float = inf
    soft: float = inf
    hard: float = inf

    def cancel(self) -> None:
        """Let all that runs under this deadline, on whichever thread, give up at its next step."""
        self.soft = self.hard = -inf


NONE = Deadline()
_current: ContextVar[Deadline] = ContextVar("deadline", default=NONE)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[Deadline]:
    """End what runs in this context after `seconds`; inside another limit the earlier one holds.

    Fits keep the best model so far, marginals are as exact as the time allowed (with a warning),
    and what has no answer yet raises `OutOfTimeError`, after 10 % and half a second more.

    Examples
    --------
    >>> import numpy as np
    >>> from mlestruct import time_limit
    >>> from mlestruct.inference import marginals
    >>> from mlestruct.structures import BipartiteMatching
    >>> with time_limit(10.0):
    ...     found = marginals(BipartiteMatching((3, 3)), np.eye(3))
    """
    outer = _current.get()
    if seconds is None:
        inner = Deadline(outer.seconds, outer.soft, outer.hard)
    else:
        if not seconds > 0:
            raise ValueError(f"seconds: expected a positive number, got {seconds!r}")
        now = perf_counter()
        inner = Deadline(seconds, now + seconds, now + 1.1 * seconds + 0.5)
        if outer.soft < inner.soft:
            inner = Deadline(outer.seconds, outer.soft, outer.hard)
    token = _current.set(inner)
    try:
        yield inner
    finally:
        _current.reset(token)


def is_over() -> bool:
    """Whether the time is up: return what there is."""
    return perf_counter() >= _current.get().soft


def check_time(doing: str) -> None:
    """Raise `OutOfTimeError` where the time is up and more; `doing` names what has no answer."""
    deadline = _current.get()
    if perf_counter() >= deadline.hard:
        raise OutOfTimeError(f"{doing}: no answer within {deadline.seconds:g} s")


def in_time(items: Iterable[T], doing: str) -> Iterator[T]:
    """The items one after the other, with `check_time` before each."""
    for item in items:
        check_time(doing)
        yield item


def seconds_left() -> float:
    """Seconds until `check_time` raises."""
    return _current.get().hard - perf_counter()


def wait_for(
    doing: str,
    function: Callable[..., Any],
    *arguments: Any,
    seconds: float = inf,
    cancel: Callable[[], None] | None = None,
) -> Any:
    """A long call that cannot be divided: given up at the deadline and on Ctrl-C nevertheless.

    It runs on a thread, 0.1 ms slower, and must release the GIL. When given up it goes on until it
    ends, or heeds `cancel`, for which the process waits; nobody else may use what it writes to.
    A call that takes less than half a second, by the caller's estimate, runs as it is.
    """
    if seconds < 0.5:
        return function(*arguments)
    answers: list[Any] = []
    errors: list[BaseException] = []
    done = Event()

    def work() -> None:
        try:
            answers.append(function(*arguments))
        except BaseException as error:  # for the thread that waits
            errors.append(error)
        finally:
            done.set()

    try:
        Thread(target=under_current(work), daemon=cancel is None).start()
        while not done.wait(min(max(seconds_left(), 0.01), 0.2)):
            check_time(doing)
    except BaseException:
        if cancel is not None:
            cancel()
        raise
    if errors:
        raise errors[0]
    return answers[0]


def under_current(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under the deadline of the caller, for other threads."""
    deadline = _current.get()

    def limited(*arguments: Any) -> Any:
        token = _current.set(deadline)
        try:
            return function(*arguments)
        finally:
            _current.reset(token)

    return limited
