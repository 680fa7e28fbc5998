"""Neighbourhood selection: planted edges, independent variables, the closed form without them."""

import numpy as np

from mlestruct.models.binary import select_neighbourhoods


def chain(n, p, seed):
    """Each variable copies the one before with probability 0.7."""
    rng = np.random.default_rng(seed)
    states = (rng.random((n, p)) < 0.2).astype(np.int64)
    for i in range(1, p):
        copied = rng.random(n) < 0.7
        states[copied, i] = states[copied, i - 1]
    return states


def test_chains_are_recovered():
    edges = select_neighbourhoods(chain(2000, 12, 0), np.ones(2000))
    assert edges.tolist() == [[i, i + 1] for i in range(11)]


def test_independent_variables_have_few_neighbours():
    """By the choice of the penalty one in twenty selects a neighbour; an edge needs two."""
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(5):
        states = (rng.random((1500, 40)) < rng.uniform(0.02, 0.3, 40)).astype(np.int64)
        counts.append(np.unique(select_neighbourhoods(states, np.ones(1500))).size / 40)
    assert np.mean(counts) < 0.1


def test_variables_without_neighbours_are_known_without_a_regression():
    """With `predictions` every regression is solved; the edges are the same."""
    states = chain(400, 8, 3)
    states[:, 4:] = np.random.default_rng(0).permuted(states[:, 4:], axis=0)
    quick = select_neighbourhoods(states, np.ones(400))
    slow = select_neighbourhoods(states, np.ones(400), predictions=np.zeros(states.shape))
    assert quick.tolist() == slow.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_weights_are_repetitions_and_threads_change_nothing():
    states = chain(300, 5, 1)
    weights = np.random.default_rng(1).integers(0, 4, 300)
    one = select_neighbourhoods(states, weights.astype(float), 0.3)
    many = np.repeat(states, weights, 0)
    other = select_neighbourhoods(many, np.ones(len(many)), 0.3, n_jobs=2)
    assert len(one)
    assert one.tolist() == other.tolist()


def test_a_smaller_penalty_selects_more():
    states = chain(300, 8, 4)
    none, few, many = (select_neighbourhoods(states, np.ones(300), l1) for l1 in (30.0, 1.0, 0.01))
    assert 0 == len(none) < len(few) < len(many)


def test_constant_variables_have_no_neighbours():
    states = chain(500, 4, 2)
    states[:, 3] = 0
    assert 3 not in select_neighbourhoods(states, np.ones(500), 0.1)
    assert not select_neighbourhoods(np.zeros((5, 3), int), np.ones(5)).size
    assert select_neighbourhoods(np.ones((5, 1), int), np.ones(5)).shape == (0, 2)
