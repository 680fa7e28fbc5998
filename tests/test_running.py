"""Time limits and Ctrl-C: what ends at the deadline, what gives up, and how soon."""

import os
import signal
import threading
import time

import pytest

from mlestruct import OutOfTimeError, _running, time_limit
from mlestruct._running import check_time, is_over, seconds_left, under_current, wait_for


def test_without_a_limit_nothing_is_over():
    assert not is_over()
    assert seconds_left() == float("inf")
    check_time("anything")


def test_the_earlier_of_two_limits_holds():
    with time_limit(100.0), time_limit(1e-3) as inner, time_limit(50.0) as last:
        assert last.soft == inner.soft
        time.sleep(2e-3)
        assert is_over()
        check_time("within the time for a certificate")
    assert not is_over()


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_limits_are_positive(seconds):
    with (
        pytest.raises(ValueError, match="seconds: expected a positive number"),
        time_limit(seconds),
    ):
        pass


def test_a_cancelled_deadline_reaches_other_threads():
    with time_limit(None) as deadline:
        limited = under_current(lambda: is_over())
        found = []
        deadline.cancel()
        thread = threading.Thread(target=lambda: found.append(limited()))
        thread.start()
        thread.join()
        assert found == [True]
        with pytest.raises(OutOfTimeError, match="sweeps: no answer within inf s"):
            check_time("sweeps")


def test_waiting_returns_answers_and_errors():
    assert wait_for("sum", sum, [1, 2]) == 3
    with pytest.raises(ZeroDivisionError):
        wait_for("quotient", lambda: 1 / 0)


def test_waiting_ends_at_the_deadline():
    cancelled = threading.Event()
    with time_limit(None) as deadline:
        deadline.hard = time.perf_counter() + 0.05
        with pytest.raises(OutOfTimeError, match="flow"):  # not where it waits for the answer
            wait_for("flow", cancelled.wait, 20.0, cancel=cancelled.set)
    assert cancelled.is_set()


@pytest.fixture
def heeds_ctrl_c():
    """As in a terminal: shells let what runs in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_waiting_answers_ctrl_c(monkeypatch):
    waiting, cancelled = threading.Event(), threading.Event()
    monkeypatch.setattr(_running, "seconds_left", lambda: waiting.set() or 1.0)

    def flow():
        waiting.wait(20.0)
        os.kill(os.getpid(), signal.SIGINT)
        cancelled.wait(20.0)

    with pytest.raises(KeyboardInterrupt):
        wait_for("flow", flow, cancel=cancelled.set)
    assert cancelled.is_set()
