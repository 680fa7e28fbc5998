"""Compiled kernels are cached on disk, and never run against a changed kernel or constant."""

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mlestruct._compile import _StampedFiles, dependency_stamp, kernel

CALLER = """
from mlestruct._compile import kernel
from two import middle
import three

@kernel
def total(x):
    return middle(x) + three.shift(x)
"""
MIDDLE = """
from mlestruct._compile import kernel
from three import shift, FACTOR

@kernel
def middle(x):
    return shift(x) * FACTOR
"""
CALLEE = """
from mlestruct._compile import {decorator} as compiled

FACTOR = {factor}

@compiled
def shift(x):
    return x + {by}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Write three files that call each other and give the result and the numbers of hits."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)  # the cache is beside the files

    def result(by=1, factor=10, decorator="kernel", code="total(2)"):
        three = CALLEE.format(by=by, factor=factor, decorator=decorator)
        for name, text in {"one.py": CALLER, "two.py": MIDDLE, "three.py": three}.items():
            path = tmp_path / name
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
        program = f"from one import *; print({code}, total.stats.cache_hits.total())"
        finished = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
        )
        assert finished.returncode == 0, finished.stderr
        value, hits = finished.stdout.split()
        return float(value), int(hits)

    return result


def test_changes_in_other_files_reach_the_callers(run):
    assert run() == (33, 0)
    assert run() == (33, 1)  # the second process loads what the first one has compiled
    assert run(by=2) == (44, 0)
    assert run(by=2, factor=20) == (84, 0)
    assert run(by=2, factor=20, decorator="summing_kernel") == (84, 0)
    assert run(by=2, factor=20, decorator="summing_kernel") == (84, 1)


def test_data_that_do_not_belong_to_a_signature_are_not_loaded(run, tmp_path):
    """Two processes that save at once may give one name to two signatures."""
    both = "total(2) + total(2.5)"
    assert run(code=both) == (71.5, 0)
    first, second = sorted((tmp_path / "__pycache__").glob("one.total*.nbc"))
    first.write_bytes(second.read_bytes())
    assert run(code=both) == (71.5, 1)
    second.write_bytes(b"not a pickle")
    assert run(code=both) == (71.5, 1)


def test_index_that_cannot_be_read_is_replaced(run, tmp_path):
    """As when types that it names have moved to another module."""
    run()
    (index,) = (tmp_path / "__pycache__").glob("one.total*.nbi")
    with index.open("rb") as file:
        version = pickle.load(file)
    index.write_bytes(pickle.dumps(version) + b"cno_such_module\nName\n.")
    assert run() == (33, 0)
    assert run() == (33, 1)


def test_replaced_constants_and_arrays_change_the_stamp(monkeypatch):
    @kernel
    def looks_up(x):
        return TABLE[0] + SCALE * x

    stamps = [dependency_stamp(looks_up)]
    for name, value in [("TABLE", np.arange(1, 4)), ("SCALE", (1.0, 2.0)), ("SCALE", 3.0)]:
        monkeypatch.setitem(globals(), name, value)
        stamps.append(dependency_stamp(looks_up))
    assert len(set(stamps)) == len(stamps)


TABLE = np.arange(3)
SCALE = 2.0


def test_functions_with_the_same_bytecode_have_different_stamps():
    stamps = set()
    for name in ("log", "exp"):
        scope = {"np": np, "kernel": kernel}
        exec(f"@kernel\ndef inner(x):\n    return np.{name}(x)", scope)
        exec("@kernel\ndef outer(x):\n    return inner(x)", scope)
        stamps.add(dependency_stamp(scope["outer"]))
    assert len(stamps) == 2


def test_kernels_that_call_each_other_have_a_stamp():
    @kernel
    def even(n):
        return n == 0 or odd(n - 1)

    @kernel
    def odd(n):
        return n > 0 and even(n - 1)

    assert dependency_stamp(even) != dependency_stamp(odd)


def test_kernels_without_a_source_file_work():
    """As at a prompt or in a doctest, where there is no place for a cache."""
    scope = {"kernel": kernel}
    exec("@kernel\ndef double(x):\n    return 2 * x", scope)
    assert scope["double"](4) == 8


def test_kernels_compile_where_nothing_can_be_cached(tmp_path):
    """Without a writable cache folder the kernels still work, compiled anew."""
    code = (
        "from mlestruct.baselines._plane_kernels import dot; import numpy as np; "
        "print(dot(np.full(1, 3.0), np.full(1, 4.0)))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": "/proc/none", "HOME": "/proc/none"}
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert finished.stdout.strip() == "12.0", finished.stderr


NOTICE = "mlestruct: compiling numba kernels"


@pytest.fixture
def stderr_of(tmp_path):
    """Run code in another process, with its own cache; give what it writes on stderr."""

    def result(code="from two import middle; middle(2); middle(2.5)", **environment):
        (tmp_path / "three.py").write_text(CALLEE.format(by=1, factor=10, decorator="kernel"))
        (tmp_path / "two.py").write_text(MIDDLE)
        own = {"NUMBA_CACHE_DIR": str(tmp_path), "MLESTRUCT_QUIET": ""}
        environment = {**os.environ, **own, **environment}
        finished = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True,
            env=environment, check=True,
        )  # fmt: skip
        return finished.stderr

    return result


def test_first_compilation_is_announced_once(stderr_of, tmp_path):
    silent = stderr_of(MLESTRUCT_QUIET="1", NUMBA_CACHE_DIR=str(tmp_path / "other"))
    assert silent == ""
    first = stderr_of()
    assert first.startswith(NOTICE)
    assert str(tmp_path) in first
    assert first.count("\n") == 1
    assert stderr_of() == ""  # loaded
    assert stderr_of("from two import middle; middle(2j)").count(NOTICE) == 1


def test_threads_announce_once(stderr_of):
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nfrom two import middle\n"
        "with ThreadPoolExecutor(4) as pool: list(pool.map(middle, [1, 1.5, 1j, True]))"
    )
    written = stderr_of(code)
    assert written.count(NOTICE) == written.count("\n") == 1


@pytest.mark.parametrize("stream", ["sys.stderr.close()", "sys.stderr = None", "os.close(2)"])
def test_kernels_compile_without_stderr(stderr_of, stream):
    # The interpreter's own flush of a closed descriptor at exit may fail: leave without it.
    code = f"import os, sys; {stream}; from two import middle; middle(2); os._exit(0)"
    assert stderr_of(code) == ""


def test_entries_that_are_saved_at_once_are_all_kept(tmp_path):
    """As by processes that compile one kernel for different types."""
    files = []
    for _ in range(8):
        files.append(_StampedFiles(str(tmp_path), "kernels", "source"))
        files[-1].stamp = lambda: ("source", "dependencies")
    with ThreadPoolExecutor(len(files)) as pool:
        list(pool.map(lambda k: files[k % 8].save(k, f"code {k}"), range(80)))
    assert [files[0].load(k) for k in range(80)] == [f"code {k}" for k in range(80)]
