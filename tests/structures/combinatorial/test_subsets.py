"""Subsets of k of n items against enumeration and binomial coefficients."""

from math import comb

import numpy as np
import own_decoders as own
import pytest
from enumerated_outputs import check_against_enumeration
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct import check_structure
from mlestruct.inference import log_partition
from mlestruct.structures import Subsets


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([(4, 1), (6, 3), (6, 5), (7, 2)]))
def test_against_enumeration(seed, sizes):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=sizes[0]) * rng.choice([0.3, 1.0, 3.0])
    check_against_enumeration(Subsets(*sizes), own.subsets(*sizes), scores, rng, 400)


@pytest.mark.parametrize(("n", "k"), [(5, 2), (60, 30), (300, 4)])
def test_number_of_subsets(n, k):
    found = log_partition(Subsets(n, k), np.zeros(n), method="exact")
    assert found == pytest.approx(np.log(float(comb(n, k))))


def test_extreme_scores():
    scores = np.array([1e6, -1e6, 5.0, 4.0, 0.0])
    exact = Subsets(5, 2).exact(scores)
    assert exact.log_partition == pytest.approx(1e6 + np.log(np.exp([5.0, 4.0, 0.0]).sum()))
    assert exact.tau.sum() == pytest.approx(2.0)
    assert exact.tau[0] == pytest.approx(1.0)


def test_the_contract_holds():
    assert check_structure(Subsets(6, 2)).passed


@pytest.mark.parametrize("size", [0, 5, 9])
def test_sizes_without_a_choice(size):
    with pytest.raises(ValueError, match="size: expected 1 to 4 of 5 items"):
        Subsets(5, size)
