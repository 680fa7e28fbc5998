"""`mlestruct warmup` compiles in advance: afterwards an estimator only loads."""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from mlestruct import warmup
from mlestruct.cli import main
from mlestruct.warmup import WORKLOADS, run_workload

FIT = """
from mlestruct import ChainCRF
from mlestruct.datasets import make_words
letters, words = make_words(12, random_state=1)
ChainCRF(alpha=2.0).fit(letters, words).predict_marginals(letters)
"""


def run(arguments, folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "MLESTRUCT_QUIET": ""}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment
    )


@pytest.mark.slow
def test_the_example_of_the_help_warms_an_empty_cache(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["warmup", "--help"])
    (example,) = re.findall(r"example: mlestruct (warmup .*)", capsys.readouterr().out)
    finished = run(["-m", "mlestruct.cli", *example.split()], tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stderr == ""
    assert re.search(r"^chain +[\d.]+ s +[1-9]\d* compiled$", finished.stdout, re.MULTILINE)
    assert str(tmp_path) in finished.stdout
    used = run(["-c", FIT], tmp_path)
    assert (used.returncode, used.stderr) == (0, "")  # no notice: nothing was left to compile


def test_command_is_listed(capsys):
    assert main([]) == 2
    assert "warmup" in capsys.readouterr().out


def test_unknown_names_and_numbers_of_jobs_are_refused(capsys):
    assert main(["warmup", "nonsense"]) == 2
    assert "no workload nonsense; there are group" in capsys.readouterr().err
    assert main(["warmup", "--jobs", "0"]) == 2
    assert "--jobs: expected at least 1, got 0" in capsys.readouterr().err


def test_cache_that_is_not_writable_is_reported(monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/none")
    assert main(["warmup"]) == 1
    assert "/proc/none is not writable" in capsys.readouterr().out
    monkeypatch.setattr("mlestruct.warmup.cache_place", lambda: None)
    assert main(["warmup"]) == 1
    assert "set NUMBA_CACHE_DIR" in capsys.readouterr().out


def test_failing_workload_gives_exit_status_1(monkeypatch, capsys):
    monkeypatch.setattr("mlestruct.warmup.cache_place", lambda: "a folder")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setitem(WORKLOADS, "unknown to the worker", lambda: None)
    assert main(["warmup", "unknown to the worker", "--jobs", "1"]) == 1
    assert "failed: KeyError" in capsys.readouterr().out


def test_workloads_report_what_was_not_cached(monkeypatch):
    monkeypatch.setenv("MLESTRUCT_QUIET", "1")
    monkeypatch.setitem(WORKLOADS, "nothing", lambda: None)
    seconds, n_kernels = run_workload("nothing")
    assert (seconds < 1.0, n_kernels) == (True, 0)


def test_ctrl_c_ends_workloads_that_have_not_begun(monkeypatch):
    run = []

    def interrupt():
        raise KeyboardInterrupt

    def pool(jobs, **_):
        return ThreadPoolExecutor(jobs)

    monkeypatch.setattr(warmup, "ProcessPoolExecutor", pool)
    waits = {str(k): partial(lambda k: (time.sleep(0.2), run.append(k)), k) for k in range(5)}
    monkeypatch.setattr(warmup, "WORKLOADS", {"first": interrupt, **waits})
    with pytest.raises(KeyboardInterrupt):
        warmup.run_warmup(jobs=1)
    assert len(run) <= 1
