"""How numba kernels are compiled: cached on disk where that is possible, without the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function` with numba, releasing the GIL.

    Arithmetic is kept in the order written.

    The machine code is cached next to the source (or in numba's user cache). Where neither
    place is writable the kernel is compiled anew in each process instead of failing.
    """
    return _compiled(function, {})


def summing_kernel(function: Function) -> Function:
    """The same, letting sums be reordered, which makes long inner products several times faster."""
    return _compiled(function, {"fastmath": {"reassoc", "contract", "nsz"}})


def _compiled(function: Function, extra: dict[str, Any]) -> Function:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", **extra}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        return numba.njit(**options)(function)
