"""How numba kernels are compiled: cached on disk where that is possible, without the GIL.

numba's own cache notices only changes in the file of a function. Here an entry of the cache also
depends on all kernels that a kernel calls, in whichever file they are, and on the constants they
use: a changed kernel never runs inside the old machine code of a caller.

The first kernel of a process that is not in the cache is announced by one line on stderr.
"""

from __future__ import annotations

import gc
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.dispatcher import Dispatcher, _FunctionCompiler  # type: ignore[attr-defined]

if sys.platform != "win32":
    import fcntl

Function = TypeVar("Function", bound=Callable[..., Any])

USUAL_SECONDS = "3 to 20"  # of compiling for one estimator, as benchmarks.first_use prints them


def kernel(function: Function, **extra: Any) -> Function:
    """Compile `function` with numba, releasing the GIL.

    Arithmetic is kept in the order written.

    The machine code is cached next to the source (or in numba's user cache). Where neither
    place is writable the kernel is compiled anew in each process instead of failing.
    """
    # A callee without `fastmath` would inherit it from the first kernel that has it compiled.
    # Nobody passes kernels as C callbacks; the wrapper for it is a tenth of a compilation.
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False}
    compiled: Any = numba.njit(**{**options, "no_cfunc_wrapper": True, **extra})(function)
    if compiled is not function:  # as it is with NUMBA_DISABLE_JIT
        compiled._compiler = _KernelCompiler(compiled._compiler)
        try:
            compiled._cache = _KernelCache(compiled)
        except RuntimeError:  # numba: "cannot cache function: no locator available"
            compiled._cache = _NoCache()
    return compiled


def summing_kernel(function: Function) -> Function:
    """The same, letting sums be reordered, which makes long inner products several times faster."""
    return kernel(function, fastmath={"reassoc": True, "contract": True, "nsz": True})


def inlined_kernel(function: Function) -> Function:
    """The same as `kernel`, put in place of each call: for short ones in inner loops."""
    return kernel(function, forceinline=True)


def merged_kernel(function: Function) -> Function:
    """The same, compiled as a part of each kernel that calls it and by itself only for Python.

    Calls in kernels are compiled twice otherwise, the caller containing all that it calls.
    """
    return kernel(function, inline="always")


class _KernelCompiler(_FunctionCompiler):
    """numba's compiler of one function.

    Its garbage would have the collector traverse every object many times over, which is a tenth
    of a compilation.
    """

    def __init__(self, usual: _FunctionCompiler):
        self.__dict__.update(usual.__dict__)

    def compile(self, args: Any, return_type: Any) -> Any:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return super().compile(args, return_type)
        finally:
            if enabled:
                gc.enable()


def cache_place() -> str | None:
    """Where kernels are cached, in words; None where no folder is writable."""
    try:
        folder = Path(FunctionCache(cache_place).cache_path)
    except RuntimeError:
        return None
    if folder.name == "__pycache__":
        return f"the __pycache__ folders of {folder.parent}"
    return str(folder.parent)  # has one folder for each folder of sources


class _Notice:
    """The line on stderr that says why the first use takes long: once per process.

    numba asks its caches while it holds the compiler lock, so threads cannot interleave.
    """

    written = False

    @classmethod
    def write(cls) -> None:
        if cls.written or os.environ.get("MLESTRUCT_QUIET") or sys.stderr is None:
            return
        cls.written = True
        place = cache_place()
        cached = (
            f"cached in {place}; `mlestruct warmup` does it in advance"
            if place
            else "in every process: no cache folder is writable, set NUMBA_CACHE_DIR to one"
        )
        line = (
            f"mlestruct: compiling numba kernels, usually {USUAL_SECONDS} s at first use; {cached}"
        )
        with suppress(OSError, ValueError):  # a broken pipe, a closed file
            sys.stderr.write("\r" * sys.stderr.isatty() + line + "\n")  # over an empty progress bar
            sys.stderr.flush()


class _NoCache(NullCache):
    """For kernels that cannot be cached."""

    def load_overload(self, sig: Any, target_context: Any) -> None:
        _Notice.write()


class _KernelCache(FunctionCache):
    """numba's cache of one function, in files that are stamped by all that it depends on."""

    def __init__(self, compiled: Dispatcher) -> None:
        super().__init__(compiled.py_func)
        own_file = self._impl.locator.get_source_stamp()
        self._cache_file = _StampedFiles(self._cache_path, self._impl.filename_base, own_file)
        self._cache_file.stamp = lambda: (own_file, dependency_stamp(compiled))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None:
            _Notice.write()
        return found


class _StampedFiles(IndexDataCacheFile):
    """The index and the data files of one kernel.

    The stamp is computed at each load and save, not before: the kernels that this one calls may be
    defined after it, and a constant that somebody replaces in between counts.

    Processes save one after the other, so that none overwrites an index without the entry that
    another has just added. Where files cannot be locked two of them can also choose the same name
    for different contents: a data file carries stamp and key, and what belongs to another key
    counts as missing. So does what cannot be read, such as types of arguments that an older
    version kept in another module.
    """

    stamp: Callable[[], tuple[Any, str]]

    def save(self, key: Any, data: Any) -> None:
        self._source_stamp = self.stamp()
        with _locked(self._cache_path):
            super().save(key, (self._source_stamp, key, data))

    def load(self, key: Any) -> Any:
        self._source_stamp = self.stamp()
        try:
            stamp, saved_key, data = super().load(key) or (None, None, None)
        except Exception:
            return None
        return data if (stamp, saved_key) == (self._source_stamp, key) else None

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()
        except Exception:
            return {}


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Holds an exclusive lock on a folder, where the system and the file system have them."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def dependency_stamp(compiled: Dispatcher) -> str:
    """A hash of the code, options and constants of a kernel and of all kernels that it calls."""
    digest = hashlib.sha256()
    kernels = [compiled]
    for current in kernels:  # grows on the way
        function = current.py_func
        digest.update(repr((function.__qualname__, current.targetoptions)).encode())
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        used = [*(function.__defaults__ or ()), *cells]
        for code in _nested(function.__code__):
            digest.update(code.co_code + repr(code.co_names).encode())
            used += (value for value in code.co_consts if not isinstance(value, CodeType))
            used += _named(code.co_names, function.__globals__)
        for value in used:  # likewise
            if isinstance(value, Dispatcher):
                kernels += [value] if value not in kernels else []
            elif isinstance(value, tuple):
                used += (len(value), *value)
            else:
                digest.update(_described(value).encode())
    return digest.hexdigest()


def _nested(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of those defined inside it."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _nested(value)


def _named(names: tuple[str, ...], scope: dict[str, Any]) -> Iterator[Any]:
    """What the names in some code stand for, where they are global or attributes of a module."""
    for name in names:
        value = scope.get(name)
        if isinstance(value, ModuleType):
            yield from (getattr(value, other, None) for other in names)
        else:
            yield value


def _described(value: Any) -> str:
    """A constant as text, a function or a class by its name; the same text in each process."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, int | float | complex | str | bytes | np.generic | np.dtype):
        return repr(value)
    fields = getattr(value, "_fields", ())  # of a named tuple
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}{fields}"
