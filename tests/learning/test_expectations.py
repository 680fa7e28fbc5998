"""Blocks in runs: what a run has, and that expectations do not depend on it."""

import numpy as np
import pytest

from mlestruct import BipartiteMatchingCRF
from mlestruct.learning.expectations import expect, runs_of, total_covariance


def blocks_of(sizes, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, n, 3)) for n in sizes]
    return BipartiteMatchingCRF().training_blocks(X, [rng.permutation(n) for n in sizes])


def test_runs_hold_small_blocks_of_one_space():
    blocks = blocks_of([3, 3, 3, 4, 3, 3, 200, 200])
    runs = runs_of(blocks)
    assert [(run.start, run.stop) for run in runs] == [(0, 3), (3, 4), (4, 6), (6, 7), (7, 8)]
    many = runs_of(blocks_of([30] * 50))
    assert [run.start for run in many] == [0, 18, 36]  # 2^14 coordinates at most
    assert runs_of([]) == []


@pytest.mark.parametrize("warm", [False, True])
def test_expectations_and_covariances_are_those_of_single_blocks(warm):
    blocks = blocks_of([4, 4, 4, 5, 4, 4])
    theta, tol = np.array([0.5, -1.0, 0.2]), np.full(6, 1e-8)
    states = [block.expect(0.9 * theta, None, 1e-8)[0].warm if warm else None for block in blocks]
    found = expect(blocks, theta, states, tol, map)
    weights = np.arange(6.0)
    expected = np.zeros((3, 3))
    for block, state, weight, (marginals, moments) in zip(
        blocks, states, weights, found, strict=True
    ):
        alone, of_alone = block.expect(theta, state, 1e-8)
        np.testing.assert_array_equal(marginals.tau, alone.tau)
        np.testing.assert_array_equal(moments, of_alone)
        expected += weight * block.covariance(alone)
    covariance = total_covariance(blocks, weights, [one for one, _ in found], map)
    np.testing.assert_allclose(covariance, expected, rtol=1e-10)


def test_the_check_comes_before_each_run():
    calls = []
    blocks = blocks_of([3, 3, 4])
    expect(blocks, np.zeros(3), [None] * 3, np.full(3, 1e-6), map, lambda: calls.append(1))
    assert len(calls) == 2
