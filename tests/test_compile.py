"""Compiled kernels are cached on disk, and never run against a changed kernel or constant."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from mlestruct._compile import dependency_stamp, kernel

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
def run(tmp_path):
    """Write three files that call each other and give the result and the numbers of hits."""

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
    code = "from mlestruct.features import _table_kernels as k; print(k.pair_feature(2, 3.0, 4.0))"
    environment = {**os.environ, "NUMBA_CACHE_DIR": "/proc/none", "HOME": "/proc/none"}
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert finished.stdout.strip() == "12.0", finished.stderr
