"""Partitions in this process: what is kept in memory, and what is not."""

import tracemalloc

import numpy as np
import pytest

from mlestruct import BipartiteMatchingCRF
from mlestruct.partitions import LocalBackend, lazy_partitions
from mlestruct.partitions.backend import StatesOnDisk
from mlestruct.structures.contract import Marginals

READ = []


def some(seed):
    READ.append(seed)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2, 30, 30, 20))
    Y = [rng.permutation(30) for _ in range(2)]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(30), y, 0] += 2.0
    return list(X), Y


@pytest.fixture(scope="module")
def expected():
    X, Y = lazy_partitions(some, range(16))
    return BipartiteMatchingCRF().fit(X, Y)


def peak(function):
    tracemalloc.start()
    function()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def test_memory_is_bounded_and_the_result_is_the_same_bit_for_bit(expected, tmp_path):
    X, Y = lazy_partitions(some, range(16))
    fitted = []

    def fit(backend):
        with backend:
            fitted.append(BipartiteMatchingCRF().fit(X, Y))

    every = peak(lambda: fit(LocalBackend()))
    READ.clear()
    some_of_it = peak(lambda: fit(LocalBackend(memory=600_000, states=tmp_path)))
    assert some_of_it < 0.5 * every
    assert len(READ) > 32  # partitions are read again, round by round
    for model in fitted:
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.objective_ == expected.objective_
    assert list(tmp_path.iterdir()) == []


def test_what_fits_into_memory_is_read_once(expected):
    X, Y = lazy_partitions(some, range(16))
    READ.clear()
    with LocalBackend(memory=10**9):
        BipartiteMatchingCRF().fit(X, Y)
    assert sorted(READ) == list(range(16))


def test_states_on_disk_are_a_mapping(tmp_path):
    states = StatesOnDisk(tmp_path)
    found = Marginals(np.arange(3.0), 1.0, 2.0, np.ones(2), 4)
    states[3] = [found]
    np.testing.assert_array_equal(states[3][0].tau, found.tau)
    assert list(states) == [3]
    assert states.get(4) is None
    del states[3]
    assert len(states) == 0
    del states
    assert list(tmp_path.iterdir()) == []


def test_memory_must_be_positive():
    with pytest.raises(ValueError, match="memory: expected a positive number"):
        LocalBackend(memory=0)
