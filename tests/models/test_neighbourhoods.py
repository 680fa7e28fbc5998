"""Neighbourhood selection: planted edges, independent variables, rules and densities."""

import numpy as np
import pytest

from mlestruct.models.neighbourhoods import Neighbourhoods, select_neighbourhoods


def chain(n, p, seed):
    """Each variable copies the one before with probability 0.7."""
    rng = np.random.default_rng(seed)
    states = (rng.random((n, p)) < 0.2).astype(np.int64)
    for i in range(1, p):
        copied = rng.random(n) < 0.7
        states[copied, i] = states[copied, i - 1]
    return states


def test_chains_are_recovered():
    states = chain(2000, 12, 0)
    found = select_neighbourhoods(states, np.ones(2000))
    assert found.edges().tolist() == [[i, i + 1] for i in range(11)]


def test_independent_variables_have_few_neighbours():
    """By the choice of the penalty about one of twenty has one."""
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(5):
        states = (rng.random((1500, 40)) < rng.uniform(0.02, 0.3, 40)).astype(np.int64)
        found = select_neighbourhoods(states, np.ones(1500))
        counts.append((found.coefficients != 0).any(axis=1).mean())
    assert np.mean(counts) < 0.1


def test_variables_without_neighbours_are_known_without_a_regression():
    """Every selection is that of the regression itself."""
    states = chain(400, 8, 3)
    states[:, 4:] = np.random.default_rng(0).permuted(states[:, 4:], axis=0)
    quick = select_neighbourhoods(states, np.ones(400), 1.0)
    slow = select_neighbourhoods(states, np.ones(400), 1.0, predictions=np.zeros(states.shape))
    np.testing.assert_allclose(quick.coefficients, slow.coefficients, atol=0.01)
    assert not quick.coefficients[4:, 4:].any()


def test_weights_are_repetitions():
    states = chain(300, 5, 1)
    weights = np.random.default_rng(1).integers(0, 4, 300)
    one = select_neighbourhoods(states, weights.astype(float), 0.3)
    other = select_neighbourhoods(
        np.repeat(states, weights, 0), np.ones(weights.sum()), 0.3, n_jobs=2
    )
    np.testing.assert_allclose(one.coefficients, other.coefficients, atol=0.02)


def test_forbidden_pairs_and_constant_variables():
    states = chain(500, 4, 2)
    states[:, 3] = 0
    allowed = np.ones((4, 4), dtype=bool)
    allowed[0, 1] = allowed[1, 0] = False
    found = select_neighbourhoods(states, np.ones(500), 0.1, allowed)
    pairs = found.edges("either").tolist()
    assert [0, 1] not in pairs
    assert all(3 not in pair for pair in pairs)


def test_rules_and_density():
    found = Neighbourhoods(np.array([[0, 2.0, 1.0], [3.0, 0, 0], [0, 5.0, 0]]))
    assert found.edges("both").tolist() == [[0, 1]]
    assert found.edges("either").tolist() == [[0, 1], [0, 2], [1, 2]]
    assert found.edges("either", density=1 / 3).tolist() == [[1, 2]]
    assert found.edges("both", density=0.0).shape == (0, 2)
    assert found.edges("both", density=1.0).tolist() == [[0, 1]]
    assert Neighbourhoods(np.zeros((1, 1))).edges().shape == (0, 2)


def test_no_variation_no_regression():
    assert not select_neighbourhoods(np.zeros((5, 3), int), np.ones(5)).coefficients.any()
    assert select_neighbourhoods(np.ones((5, 1), int), np.ones(5)).edges().size == pytest.approx(0)
