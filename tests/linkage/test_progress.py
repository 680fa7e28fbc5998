"""Stages and what they cost."""

import time

import pytest

from mlestruct.linkage.progress import begin, stages, stepped


def test_seconds_of_stages_add_up(capsys):
    with stages(False) as record:
        start = time.process_time()
        for name in ("one", "two", "one"):
            begin(name)
            until = time.process_time() + 0.02
            while time.process_time() < until:
                pass
        spent = time.process_time() - start
        with stages(True) as inner:  # belongs to the open one
            assert inner is record
    assert list(record.seconds) == ["one", "two"]
    assert record.seconds["one"] > record.seconds["two"] >= 0.02
    assert sum(record.seconds.values()) == pytest.approx(spent, abs=0.01)
    assert capsys.readouterr().err == ""


def test_the_line_has_the_stage_and_the_time_that_is_left(capsys):
    with stages(True):
        begin("comparing", 2)
        for _ in stepped(range(2)):
            time.sleep(0.11)
    shown = capsys.readouterr().err.split("\r")
    assert shown[1].startswith("comparing")
    assert any("[############------------]" in line and "s left" in line for line in shown)
    assert shown[-1] == "\x1b[K"  # cleared


def test_nothing_is_recorded_outside(capsys):
    begin("a stage")
    assert list(stepped([1, 2])) == [1, 2]
    assert capsys.readouterr().err == ""
