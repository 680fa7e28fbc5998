"""Threads of the linear-algebra libraries while a solver runs."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
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
