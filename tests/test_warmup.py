"""`mlestruct warmup` compiles in advance: afterwards an estimator only loads."""

import os
import re
import subprocess
import sys

import pytest

from mlestruct import models
from mlestruct.cli import main
from mlestruct.models.base import Estimator
from mlestruct.warmup import tiny_fits

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
def test_an_empty_cache_is_warm_afterwards(tmp_path):
    finished = run(["-m", "mlestruct.cli", "warmup", "ChainCRF"], tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stderr == ""
    assert re.search(r"^ChainCRF +[\d.]+ s +[1-9]\d* compiled$", finished.stdout, re.MULTILINE)
    assert str(tmp_path) in finished.stdout
    used = run(["-c", FIT], tmp_path)
    assert (used.returncode, used.stderr) == (0, "")  # no notice: nothing was left to compile


def test_every_estimator_is_fitted():
    """But those that have no kernels of their own: a decoder is the user's."""
    public = {
        kind.__name__
        for kind in (getattr(models, name) for name in models.__all__)
        if isinstance(kind, type) and issubclass(kind, Estimator)
    }
    assert {type(model).__name__ for model, _ in tiny_fits()} >= public - {"StructuredCRF"}


@pytest.mark.parametrize(
    ("arguments", "folder", "status", "message"),
    [
        (["nonsense"], None, 2, "no estimator nonsense; there are BipartiteMatchingCRF"),
        ([], "/proc/none", 1, "/proc/none is not writable"),
    ],
)
def test_what_cannot_be_done_is_said(arguments, folder, status, message, monkeypatch, capsys):
    if folder:
        monkeypatch.setenv("NUMBA_CACHE_DIR", folder)
    assert main(["warmup", *arguments]) == status
    assert message in "".join(capsys.readouterr())


def test_without_a_writable_folder_nothing_is_compiled(monkeypatch, capsys):
    monkeypatch.setattr("mlestruct.warmup.cache_place", lambda: None)
    assert main(["warmup"]) == 1
    assert "set NUMBA_CACHE_DIR" in capsys.readouterr().out
