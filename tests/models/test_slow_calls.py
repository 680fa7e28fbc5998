"""Calls of `decode` that do not return are named on stderr."""

from threading import Event

import numpy as np
import own_decoders as own
import pytest

from mlestruct import StructuredCRF, _deadline
from mlestruct.models import slow_calls


@pytest.fixture
def wait(monkeypatch):
    """A function that lets 0.8 s pass, and the thread that watches the calls see it."""
    clock, seen, write = [0.0], Event(), slow_calls._write

    def written(*arguments):
        write(*arguments)
        seen.set()

    def wait():
        clock[0] += 0.8
        assert seen.wait(60.0)
        seen.clear()

    for module in (_deadline, slow_calls):
        monkeypatch.setattr(module, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(slow_calls, "_write", written)
    monkeypatch.setattr(slow_calls, "PATIENCE", 0.7)
    monkeypatch.setattr(slow_calls, "INTERVAL", 0.05)
    return wait


@pytest.mark.parametrize("quiet", ["", "1"])
def test_the_line_names_sample_and_phase(wait, monkeypatch, capfd, quiet):
    monkeypatch.setenv("MLESTRUCT_QUIET", quiet)
    X, Y = own.subset_samples(np.random.default_rng(0))
    asked = []

    def decode(scores, x):
        asked.append(x)
        if x is X[3] and sum(one is x for one in asked) in (1, 2):  # its label, its interior
            wait()
        return own.top_three(scores)

    StructuredCRF(decode, tol=0.1).fit(X, Y)
    lines = [line for line in capfd.readouterr().err.splitlines() if "not returned" in line]
    assert len(lines) == (0 if quiet else 2)
    for line, phase in zip(lines, ("checking Y[3]", "looking for an interior point"), strict=False):
        assert line.startswith("mlestruct: decode has not returned for 0.8 s")
        assert f"(X[3], {phase})" in line


def test_a_short_time_limit_counts(wait, monkeypatch, capfd):
    monkeypatch.setattr(slow_calls, "PATIENCE", 10.0)
    monkeypatch.setenv("MLESTRUCT_QUIET", "")
    X, Y = own.subset_samples(np.random.default_rng(0))

    def decode(scores):
        wait()
        return own.top_three(scores)

    with pytest.raises(TimeoutError):
        StructuredCRF(decode, max_time=0.2).fit(X, Y)
    assert "(X[0], checking Y[0])" in capfd.readouterr().err
