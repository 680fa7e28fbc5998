"""Threads while a solver runs: its own over blocks, and those of the linear-algebra libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from threadpoolctl import threadpool_limits

from .problem import DualProblem

LARGE = 2_000_000  # numbers in a block's feature matrix from which on threads inside BLAS pay


def blas_threads(problem: DualProblem, n_jobs: int | None) -> AbstractContextManager[Any]:
    """One BLAS thread where blocks are small or run in parallel themselves.

    Products of small matrices gain nothing from threads and lose much when cores are shared.
    """
    matrices = [block.features.matrix for block in problem.blocks]
    largest = max((matrix.size for matrix in matrices if matrix is not None), default=0)
    if largest >= LARGE and (n_jobs or 1) == 1:
        return nullcontext()
    return threadpool_limits(limits=1, user_api="blas")


Each = Callable[..., Iterable[Any]]
"""`map`, or one over threads."""


@contextmanager
def threaded_map(n_jobs: int | None, n_tasks: int) -> Iterator[Each]:
    """`map` over n_jobs threads; tasks that wait when the context ends are dropped."""
    n_threads = min(n_jobs or 1, n_tasks)
    if n_threads <= 1:
        yield map
        return
    pool = ThreadPoolExecutor(n_threads)
    try:
        yield pool.map
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
