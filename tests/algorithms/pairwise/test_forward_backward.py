"""Sampled sequences, against the distribution spelled out."""

import numpy as np
import pytest
from labellings import Labellings, p_value

from mlestruct.algorithms.pairwise.forward_backward import forward_backward, sample_sequences
from mlestruct.exceptions import InfeasibleError


def rng_of(seed):
    return np.random.default_rng(seed)


def chain_model(lengths, n_states, shared, seed, scale=1.0):
    """starts, node scores, tables as given, and the same model edge by edge."""
    rng = rng_of(seed)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    inner = np.setdiff1d(np.arange(starts[-1]), starts[1:] - 1)
    space = Labellings(int(starts[-1]), np.stack([inner, inner + 1], axis=1), n_states)
    nodes = rng.normal(scale=scale, size=(space.n_nodes, n_states))
    tables = rng.normal(scale=scale, size=(1 if shared else len(inner), n_states, n_states))
    return starts, nodes, tables, space, np.broadcast_to(tables, (len(inner), *tables.shape[1:]))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("lengths", "n_states"), [([4], 3), ([2, 1, 3], 2), ([1, 1], 3), ([2, 2], 4), ([6], 2)]
)
def test_chains_have_their_exact_frequencies(lengths, n_states, shared):
    starts, nodes, tables, space, edges = chain_model(lengths, n_states, shared, seed=len(lengths))
    draws = sample_sequences(starts, nodes, tables, 20_000, rng_of(0))
    assert draws.shape == (20_000, sum(lengths))
    assert p_value(draws, space, nodes, edges) > 1e-4


@pytest.mark.parametrize("shared", [True, False])
def test_long_chains_follow_their_marginals(shared):
    starts, nodes, tables, *_ = chain_model([40, 1, 200, 7], 5, shared, seed=2, scale=2.0)
    exact = forward_backward(starts, nodes, tables).nodes
    draws = sample_sequences(starts, nodes, tables, 3000, rng_of(1))
    for s in range(5):
        deviation = (draws == s).mean(axis=0) - exact[:, s]
        spread = np.sqrt(exact[:, s] * (1 - exact[:, s]) / 3000)
        assert (np.abs(deviation) < 5.5 * spread + 2e-3).all()


def test_pairs_of_neighbours_follow_their_marginals():
    starts, nodes, tables, space, _ = chain_model([3, 30], 3, False, seed=6)
    exact = forward_backward(starts, nodes, tables).edges
    draws = sample_sequences(starts, nodes, tables, 4000, rng_of(1))
    pairs = draws[:, space.tail] * 3 + draws[:, space.head]
    share = np.array([(pairs == k).mean(axis=0) for k in range(9)]).T.reshape(-1, 3, 3)
    assert np.abs(share - exact).max() < 5.5 * np.sqrt(0.25 / 4000)


def test_ties_of_huge_scores_are_broken_evenly():
    # Two labellings of the same score, and all others out of reach: 0, 1, 0, ... and 1, 0, 1, ...
    length = 50
    nodes = 1e6 * rng_of(0).integers(-1, 2, size=(length, 1)) * np.ones((1, 2))
    draws = sample_sequences([0, length], nodes, -1e6 * np.eye(2)[None], 2000, rng_of(1))
    assert (draws[:, 1:] != draws[:, :-1]).all()
    assert abs(draws[:, 0].mean() - 0.5) < 5.0 * np.sqrt(0.25 / 2000)


def test_scores_that_cancel_are_no_trouble():
    # What a node forbids the next edge makes up for: state 1 has probability 3/4 at both ends.
    nodes = np.array([[0.0, -1e6], [0.0, np.log(3.0)]])
    table = np.array([[[0.0, -1e6], [0.0, 1e6]]])
    draws = sample_sequences([0, 2], nodes, table, 4000, rng_of(0))
    np.testing.assert_array_equal(draws[:, 0], draws[:, 1])
    assert abs(draws[:, 0].mean() - 0.75) < 5.0 * np.sqrt(0.1875 / 4000)


def test_forbidden_states_are_never_drawn():
    starts, nodes, tables, space, _ = chain_model([5, 2], 3, False, seed=9)
    rng = rng_of(4)
    nodes[rng.random(nodes.shape) < 0.2] = -np.inf
    tables[rng.random(tables.shape) < 0.3] = -np.inf
    draws = sample_sequences(starts, nodes, tables, 10_000, rng)
    assert p_value(draws, space, nodes, tables) > 1e-4
    blocked = np.array([[[0.0, -np.inf], [-np.inf, -np.inf]]])
    with pytest.raises(InfeasibleError, match=r"sequence 1: .* nothing is admissible"):
        sample_sequences([0, 1, 3], [[0.0, 0.0], [-np.inf, 0.0], [0.0, 0.0]], blocked, 1, rng)


def test_chain_seeds_are_respected():
    starts, nodes, tables, *_ = chain_model([9, 4], 3, True, seed=3)
    one, same, other = (sample_sequences(starts, nodes, tables, 10, rng_of(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert one.flags.c_contiguous
    assert one.dtype == np.int64
