"""Work that is shared out among threads, under the time limit of the caller.

Threads gain what is computed without the GIL: compiled kernels, and NumPy on large arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from math import inf
from sys import getswitchinterval
from threading import Event
from time import perf_counter, thread_time
from types import FunctionType
from typing import Any

from ._deadline import under_current

Each = Callable[..., Iterable[Any]]
"""`map`, or one over threads."""

RUNS = 16  # of items for each thread: a future for each item costs as much as a small one
TRIAL = 10  # one part in so many of a list is computed without threads, one with them


@contextmanager
def threaded_map(n_jobs: int | None, n_tasks: int) -> Iterator[Each]:
    """`map` over n_jobs threads; items that wait when the context ends are dropped.

    Calls too short to gain from threads, as the last one of the same function shows, use none. Of a
    long list the first items are computed without threads, the next ones with them, and all others
    in the way that was faster, as are later lists: many short items with Python in between, for
    which threads wait for the GIL, may take longer on two of them than on one.
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
    gains: dict[Any, bool] = {}  # whether threads were faster in the trial, by function

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

        def on_threads(rows: list[tuple[Any, ...]]) -> Iterable[Any]:
            size = -(-len(rows) // (RUNS * n_threads))
            parts = [rows[k : k + size] for k in range(0, len(rows), size)]
            return chain.from_iterable(pool.map(under_current(run), parts))

        # A thread that needs the GIL waits for it up to the switch interval.
        cost = costs.get(key, inf) + waits.get(key, inf)
        if len(rows) <= 1 or cost * len(rows) < getswitchinterval() or gains.get(key) is False:
            return run(rows) if rows else rows
        n_trial = len(rows) // TRIAL
        if key in gains or n_trial < n_threads:
            return on_threads(rows)
        start = perf_counter()
        alone = run(rows[:1])
        if perf_counter() - start > getswitchinterval():  # long items hardly wait for each other
            return chain(alone, on_threads(rows[1:]))
        alone += run(rows[1:n_trial])
        middle = perf_counter()
        shared = list(on_threads(rows[n_trial : 2 * n_trial]))
        gains[key] = perf_counter() - middle < middle - start
        rest = rows[2 * n_trial :]
        return chain(alone, shared, on_threads(rest) if gains[key] else run(rest))

    try:
        yield each
    finally:
        over.set()
        pool.shutdown(wait=False, cancel_futures=True)
