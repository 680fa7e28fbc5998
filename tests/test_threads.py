"""Work over threads gives the answers of `map`, in its order and under its time limit."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlestruct import OutOfTimeError, _running, time_limit
from mlestruct._running import check_time, threaded_map


@given(st.integers(1, 4), st.integers(0, 200))
def test_answers_are_those_of_map_in_order(n_jobs, n_items):
    with threaded_map(n_jobs, n_items) as each:
        assert list(each(lambda a, b: a - 2 * b, range(n_items), range(n_items))) == [
            -k for k in range(n_items)
        ]


def test_two_threads_work_at_the_same_time():
    both = threading.Barrier(2, timeout=30)
    with threaded_map(2, 2) as each:
        assert sorted(each(lambda _: both.wait(), range(2))) == [0, 1]  # neither goes on alone


def test_an_error_ends_the_rest():
    done = []

    def one(k):
        if k == 0:
            raise ValueError("the first")
        time.sleep(0.01)
        done.append(k)

    with pytest.raises(ValueError, match="the first"), threaded_map(2, 1000) as each:
        list(each(one, range(1000)))
    time.sleep(0.1)
    assert len(done) < 100


def test_time_limits_reach_all_threads():
    begun = []

    def one(k):
        begun.append(k)
        time.sleep(0.05)
        check_time("sleep")

    with (
        pytest.raises(OutOfTimeError, match="sleep"),
        time_limit(0.1),
        threaded_map(2, 9999) as each,
    ):
        list(each(one, range(9999)))
    assert len(begun) < 100


def test_columns_of_different_length_are_refused():
    with threaded_map(2, 3) as each, pytest.raises(ValueError, match="zip"):
        each(np.add, range(3), range(4))


def test_short_calls_use_no_threads_and_long_ones_do(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_running, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(_running, "thread_time", lambda: clock[0])

    def name(_):
        return threading.current_thread().name

    def slow_name(_):
        clock[0] += 0.02
        return threading.current_thread().name

    main = threading.current_thread().name
    with threaded_map(2, 8) as each:
        list(each(name, range(8)))  # shows that it is short
        assert set(each(name, range(8))) == {main}
        for _ in range(2):
            assert main not in set(each(slow_name, range(8)))
        assert set(each(slow_name, range(1))) == {main}  # a single one gains nothing


def test_many_short_items_use_no_threads_until_they_get_long(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_running, "perf_counter", lambda: clock[0])

    def one(k):
        clock[0] += 1e-5 if k < 150 else 1e-2
        return k, threading.get_ident()

    with threaded_map(2, 400) as each:
        found = list(each(one, range(400)))
    assert [k for k, _ in found] == list(range(400))
    here = [ident == threading.get_ident() for _, ident in found]
    assert here == [k <= 150 for k in range(400)]
