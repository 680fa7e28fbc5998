"""Work that is shared out among threads, under the time limit of the caller.

Threads gain what is computed without the GIL: compiled kernels, and NumPy on large arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import chain
from math import inf
from sys import getswitchinterval
from threading import Event
from time import perf_counter, thread_time
from types import FunctionType
from typing import Any

from threadpoolctl import ThreadpoolController

from ._deadline import under_current

Each = Callable[..., Iterable[Any]]
"""`map`, or one over threads."""

RUNS = 16  # of items for each thread: a future for each item costs as much as a small one


@contextmanager
def threaded_map(n_jobs: int | None, n_tasks: int) -> Iterator[Each]:
    """`map` over n_jobs threads; items that wait when the context ends are dropped.

    Calls too short to gain from threads, as the last one of the same function shows, use none;
    nor do many short items, which are mostly Python.
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
