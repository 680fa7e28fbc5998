"""Gibbs sampling of labellings, against the distribution spelled out."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from junction_trees import OneSample
from labellings import Labellings, grid_edges, loopy, p_value, total_scores
from sklearn.exceptions import ConvergenceWarning

from mlestruct.algorithms.markov_chains import N_FUNCTIONS
from mlestruct.algorithms.pairwise.gibbs import _Labellings, gibbs_samples


def rng_of(seed):
    return np.random.default_rng(seed)


def grid_model(height, width, n_states, seed, scale=0.7):
    rng = rng_of(seed)
    space = Labellings(height * width, grid_edges(height, width), n_states)
    nodes = rng.normal(scale=scale, size=(space.n_nodes, n_states))
    edges = rng.normal(scale=scale, size=(len(space.edges), n_states, n_states))
    return space, nodes, edges


@pytest.mark.parametrize(
    ("height", "width", "n_states"), [(1, 2, 2), (2, 2, 2), (2, 3, 2), (2, 2, 3), (1, 3, 4)]
)
def test_gibbs_draws_have_their_exact_frequencies(height, width, n_states):
    space, nodes, edges = grid_model(height, width, n_states, seed=n_states)
    found = gibbs_samples(space.n_nodes, *space.edges.T, nodes, edges, 8000, rng=rng_of(1))
    assert found.converged
    assert found.rhat <= 1.05
    assert found.states.shape == (8000, space.n_nodes)
    assert p_value(found.states, space, nodes, edges) > 1e-4


def test_one_sweep_keeps_the_distribution():
    # From exact draws, so no two labellings depend on each other.
    space, nodes, edges = grid_model(2, 2, 3, seed=7, scale=1.0)
    states = OneSample(4, *space.edges.T, nodes, edges).sample(6000, rng_of(0))
    walk, rng = _Labellings(4, *space.edges.T, nodes, edges, rng_of(2)), rng_of(3)
    before = states.copy()
    for state in states:
        walk.run(state, rng, 1)
    assert (before != states).any(axis=1).mean() > 0.5
    assert p_value(states, space, nodes, edges) > 1e-4


def test_gibbs_follows_the_marginals_of_a_grid():
    space, nodes, edges = grid_model(8, 8, 3, seed=4, scale=0.5)
    exact = OneSample(64, *space.edges.T, nodes, edges).node_marginals
    found = gibbs_samples(64, *space.edges.T, nodes, edges, 3000, n_chains=4, rng=rng_of(5))
    assert found.converged
    share = np.array([(found.states == s).mean(axis=0) for s in range(3)]).T
    assert np.abs(share - exact).max() < 6.0 * np.sqrt(0.25 / 3000)


@settings(max_examples=40, deadline=None)
@given(model=loopy(max_nodes=8, n_states=(2, 3, 4)))
def test_what_is_watched_is_the_score_and_linear_functions(model):
    space, rng = model
    nodes = rng.normal(size=(space.n_nodes, space.n_states))
    edges = rng.normal(size=(len(space.edges), space.n_states, space.n_states))
    walk = _Labellings(space.n_nodes, space.tail, space.head, nodes, edges, rng)
    for near_the_best in (True, False):
        state = walk.start(rng, near_the_best)
        assert state.shape == (space.n_nodes,)
        trace = np.concatenate([walk.run(state, rng, 3), walk.run(state, rng, 1)])
        total = total_scores(state, space.tail, space.head, nodes, edges)[0]
        assert trace[-1, 0] == pytest.approx(total, abs=1e-10)
        linear = walk.weights[np.arange(space.n_nodes), state].sum(axis=0)
        np.testing.assert_allclose(trace[-1, 1:], linear, atol=1e-10)
        assert trace.shape == (4, 1 + N_FUNCTIONS)
        read = walk.read(state)
        assert read is not state
        np.testing.assert_array_equal(read, state)


@settings(max_examples=40, deadline=None)
@given(model=loopy(max_nodes=8, n_states=(2, 3)))
def test_a_good_start_cannot_be_improved_at_one_node(model):
    space, rng = model
    nodes = rng.normal(size=(space.n_nodes, space.n_states))
    edges = rng.normal(size=(len(space.edges), space.n_states, space.n_states))
    walk = _Labellings(space.n_nodes, space.tail, space.head, nodes, edges, rng)
    state = walk.start(rng, True)
    ends = space.tail, space.head
    reached = total_scores(state, *ends, nodes, edges)[0]
    assert reached >= total_scores(nodes.argmax(axis=1), *ends, nodes, edges)[0] - 1e-10
    for n in range(space.n_nodes):
        for s in range(space.n_states):
            other = state.copy()
            other[n] = s
            assert total_scores(other, *ends, nodes, edges)[0] <= reached + 1e-10


def test_gibbs_seeds_are_respected():
    space, nodes, edges = grid_model(3, 3, 2, seed=0)
    model = 9, *space.edges.T, nodes, edges
    one, same, other = (gibbs_samples(*model, 20, rng=rng_of(s)).states for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_huge_scores_give_the_best_labelling():
    nodes = 1e6 * np.array([[0.0, 2.0, 1.0]] * 6)
    edges = np.tile(1e6 * np.eye(3), (7, 1, 1))
    found = gibbs_samples(6, *grid_edges(2, 3).T, nodes, edges, 3, rng=rng_of(0))
    np.testing.assert_array_equal(found.states, np.ones((3, 6)))
    assert found.converged
    assert np.isfinite(found.rhat)


def test_nodes_without_edges():
    nodes = np.log([[0.2, 0.8], [0.5, 0.5]])
    states = gibbs_samples(2, [], [], nodes, [], 4000, rng=rng_of(0)).states
    np.testing.assert_allclose(states.mean(axis=0), [0.8, 0.5], atol=0.04)


def test_chains_in_different_modes_are_reported():
    # Everybody agrees, on either state: few sweeps do not lead from one to the other.
    pairs = np.array([(i, j) for i in range(30) for j in range(i)])
    edges = np.tile(0.5 * np.eye(2), (len(pairs), 1, 1))
    model = 30, *pairs.T, np.zeros((30, 2)), edges
    apart = 0
    for seed in range(6):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = gibbs_samples(*model, 2, max_sweeps=200, rng=rng_of(seed))
        modes = found.states.mean(axis=1) > 0.5
        if modes[0] != modes[1]:
            apart += 1
            assert not found.converged
            assert found.rhat > 1.05
            assert [w.category for w in caught] == [ConvergenceWarning]
            assert caught[0].filename == __file__
            assert "Gibbs sampler: no convergence after 200 sweeps" in str(caught[0].message)
    assert apart > 0


def test_slow_chains_are_reported():
    # A ring whose domains are wide: walls wander, and a hundred sweeps are too few.
    ring = np.arange(200), (np.arange(200) + 1) % 200
    edges = np.tile(4.0 * np.eye(2), (200, 1, 1))
    with pytest.warns(ConvergenceWarning, match="raise max_sweeps"):
        found = gibbs_samples(
            200, *ring, np.zeros((200, 2)), edges, 1, max_sweeps=100, rng=rng_of(0)
        )
    assert not found.converged
