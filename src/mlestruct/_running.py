"""Running long computations: time limits, Ctrl-C, threads.

`time_limit` sets the deadline of all that runs inside of it; loops ask it between steps of less
than half a second. Algorithms with an answer at any time end if `is_over()`; all others call
`check_time`, which raises a little later, so that an answer found in time can still be certified.
Between two steps Python also answers Ctrl-C.

`threaded_map` shares work out among threads, under the time limit of the caller. Threads gain what
is computed without the GIL: compiled kernels, and NumPy on large arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from math import inf
from sys import getswitchinterval
from threading import Event, Thread
from time import perf_counter, thread_time
from types import FunctionType
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

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
    inner = replace(outer)  # a copy: `cancel` ends only what runs in this context
    if seconds is not None:
        if not seconds > 0:
            raise ValueError(f"seconds: expected a positive number, got {seconds!r}")
        now = perf_counter()
        if now + seconds <= outer.soft:
            inner = Deadline(seconds, now + seconds, now + 1.1 * seconds + 0.5)
    token = _current.set(inner)
    try:
        yield inner
    finally:
        _current.reset(token)


def is_over() -> bool:
    """Whether the time is up: return what there is."""
    return perf_counter() >= _current.get().soft


def check_time(doing: str) -> None:
    """Raise `OutOfTimeError` at the hard deadline; `doing` names the work without an answer."""
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
    """Call a long function that cannot be divided; the wait ends at the deadline and on Ctrl-C.

    A call of less than half a second, by the caller's estimate `seconds`, runs as it is. A longer
    one runs on a thread, 0.1 ms slower, and must release the GIL. If the wait ends first, the
    thread goes on until the call returns or obeys `cancel`; with `cancel` the process does not exit
    before. Nobody else may use the arrays that the call writes to.
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


# ---------------------------------------------------------------------- threads
Each = Callable[..., Iterable[Any]]
"""`map`, or one over threads."""

RUNS = 16  # of items for each thread: a future for each item costs as much as a small one


@contextmanager
def threaded_map(n_jobs: int | None, n_tasks: int) -> Iterator[Each]:
    """`map` over n_jobs threads; items that wait when the context ends are dropped.

    A call uses no threads if the last one of the same function was too short to gain from them,
    or if it has many short items, which are mostly Python.
    """
    n_threads = min(n_jobs or 1, n_tasks)
    if n_threads <= 1:
        yield map
        return
    pool, over = ThreadPoolExecutor(n_threads), Event()
    # Seconds of an item by function: of CPU in the last call, and least of waiting, such as for
    # another process; a thread that waits for the GIL only seems to take long.
    costs: dict[Any, float] = {}
    waits: dict[Any, float] = {}

    def each(function: Callable[..., Any], *items: Iterable[Any]) -> Iterable[Any]:
        rows = list(zip(*items, strict=True))
        key = function.__code__ if isinstance(function, FunctionType) else function

        def run(part: list[tuple[Any, ...]]) -> list[Any]:
            start, cpu = perf_counter(), thread_time()
            found = [function(*item) for item in part if not over.is_set()]
            costs[key] = (thread_time() - cpu) / len(part)
            waited = (perf_counter() - start) / len(part) - costs[key]
            waits[key] = min(waits.get(key, inf), waited)
            return found

        # A thread that needs the GIL waits for it up to the switch interval.
        cost = costs.get(key, inf) + waits.get(key, inf)
        if len(rows) <= 1 or cost * len(rows) < getswitchinterval():
            return run(rows) if rows else rows
        short = _short_ones(function, rows) if len(rows) >= 2 * RUNS * n_threads else []
        size = -(-len(rows) // (RUNS * n_threads))
        parts = [rows[k : k + size] for k in range(len(short), len(rows), size)]
        return chain(short, chain.from_iterable(pool.map(under_current(run), parts)))

    try:
        yield each
    finally:
        over.set()
        pool.shutdown(wait=False, cancel_futures=True)


def _short_ones(function: Callable[..., Any], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Answers of the first items, as long as these are short: all of them, or a millisecond's."""
    found: list[Any] = []
    start = perf_counter()
    for item in rows:
        found.append(function(*item))
        # Where both threads are in Python most of the time they only get in each other's way.
        if perf_counter() - start > 1e-3 + 6e-5 * len(found):
            break
    return found


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread.

    Products of a few hundred rows at a time gain nothing from threads, and on a busy machine
    OpenBLAS's threads take many times the CPU.
    """
    return _loaded_libraries().limit(limits=1, user_api="blas")


@cache
def _loaded_libraries() -> ThreadpoolController:
    """Looking for the libraries of a process takes longer than many a fit: it is done once."""
    return ThreadpoolController()
