"""Bethe values of attractive models are lower bounds of log Z."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, forests, grid_edges, random_edges
from random_scores import draw_scores, generators, kinds

from mlestruct.algorithms.pairwise.attractive_bethe import attractive_bethe_bound
from mlestruct.algorithms.pairwise.mean_field import mean_field

examples = settings(deadline=None, max_examples=40)


scales = st.sampled_from([0.1, 1.0, 10.0, 1000.0, 1e6])


densities = st.sampled_from([0.3, 0.6, 1.0])


TRIANGLE = np.array([[0, 1], [1, 2], [0, 2]])


def rounding(scores):
    return 1e-8 + 1e-12 * np.abs(scores).sum()


def model(space, scores):
    """The arguments of the lower bounds."""
    return space.n_nodes, space.tail, space.head, *space.tables(scores)


# ---------------------------------------------------------------------- attractive models
def balanced_scores(rng, space, kind, scale):
    """Scores that attract after exchanging the states of random nodes."""
    scores = draw_scores(rng, space.size, kind, scale)
    flipped = rng.random(space.n_nodes) < rng.choice([0.0, 0.5])
    _, pairs = space.tables(scores)
    for (i, j), table in zip(space.edges, pairs, strict=True):
        coupling = table[0, 0] + table[1, 1] - table[0, 1] - table[1, 0]
        if coupling * (1 - 2 * (flipped[i] != flipped[j])) < 0:
            table[:] = table[::-1].copy()
    return scores


@examples
@given(generators, st.integers(1, 8), densities, kinds, scales)
def test_bethe_values_of_balanced_models_are_lower_bounds(rng, n_nodes, density, kind, scale):
    space = Labellings(n_nodes, random_edges(rng, n_nodes, density))
    scores = balanced_scores(rng, space, kind, scale)
    q, naive = mean_field(*model(space, scores))
    bound = attractive_bethe_bound(*model(space, scores), starts=[q])
    assert bound <= space.log_partition(scores) + rounding(scores)
    assert bound >= naive - rounding(scores)


def test_bethe_is_much_closer_than_independent_nodes():
    rng = np.random.default_rng(2)
    missing = []
    for _ in range(20):
        space = Labellings(9, grid_edges(3, 3))
        scores = balanced_scores(rng, space, "normal", 0.7)
        exact = space.log_partition(scores)
        bounds = mean_field(*model(space, scores))[1], attractive_bethe_bound(*model(space, scores))
        missing.append([exact - bound for bound in bounds])
    naive, bethe = np.mean(missing, axis=0)
    assert bethe < 0.2 * naive


@examples
@given(forests(max_nodes=8, n_states=(2,)), st.sampled_from([0.1, 1.0, 10.0]))
def test_bethe_is_exact_on_forests_of_any_signs(sample, scale):
    space, rng = sample
    scores = draw_scores(rng, space.size, "normal", scale)
    bound = attractive_bethe_bound(*model(space, scores))
    assert bound == pytest.approx(space.log_partition(scores), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("strength", [0.1, 0.7, 2.0])
def test_bethe_on_a_cycle_has_a_closed_form(strength):
    """Without fields the largest Bethe value of an Ising cycle is n log (2 cosh J)."""
    n = 8
    edges = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
    table = strength * np.array([[1.0, -1.0], [-1.0, 1.0]])
    half = [np.full((n, 2), 0.5)]
    bound = attractive_bethe_bound(
        n, edges[:, 0], edges[:, 1], np.zeros((n, 2)), np.tile(table, (n, 1, 1)), half
    )
    assert bound == pytest.approx(n * np.log(2 * np.cosh(strength)))


@examples
@given(generators, st.integers(1, 6), densities)
def test_bethe_knows_which_models_are_balanced(rng, n_nodes, density):
    edges = random_edges(rng, n_nodes, density)
    space = Labellings(n_nodes, edges)
    scores = np.round(rng.normal(size=space.size), 1)
    pairs = space.tables(scores)[1]
    coupling = pairs[:, 0, 0] + pairs[:, 1, 1] - pairs[:, 0, 1] - pairs[:, 1, 0]
    sign = np.sign(np.round(coupling, 6))
    balanced = any(
        (sign * flips[edges[:, 0]] * flips[edges[:, 1]] >= 0).all()
        for flips in map(np.array, product([-1, 1], repeat=n_nodes))
    )
    bound = attractive_bethe_bound(*model(space, scores))
    assert (bound is not None) == balanced


def test_a_coupling_of_rounding_size_does_not_frustrate():
    pairs = np.zeros((3, 2, 2))
    pairs[:2, 1, 1] = 1.0
    pairs[2] = [[0.1, 0.1 + 0.2], [0.0, 0.2]]
    pairs[2, 1, 1] -= 1e-16
    space = Labellings(3, TRIANGLE)
    bound = attractive_bethe_bound(3, *TRIANGLE.T, np.zeros((3, 2)), pairs)
    exact = space.log_partition(np.concatenate([np.zeros(6), pairs.ravel()]))
    assert bound == pytest.approx(exact)  # a chain is left
    pairs[2, 1, 1] -= 1e-3
    assert attractive_bethe_bound(3, *TRIANGLE.T, np.zeros((3, 2)), pairs) is None
