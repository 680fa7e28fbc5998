"""Certified marginals of grids, against the general oracle and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import (
    Labellings,
    grid_edges,
)
from pairwise_spaces import slack_of
from random_scores import draw_scores, kinds

from mlestruct.algorithms.pairwise.spanning_trees import tree_weights
from mlestruct.structures import (
    Pairwise,
    PairwiseGraph,
    Reweighting,
    grid,
)

examples = settings(deadline=None, max_examples=30)


def halves(height, width, rho=0.5):
    """The same grid and rho without the fast path."""
    graph = PairwiseGraph(height * width, grid_edges(height, width))
    return Pairwise(graph, 2, np.full(graph.n_edges, rho))


@examples
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1).map(np.random.default_rng),
    kinds,
    st.sampled_from([0.1, 1.0, 3.0]),
)
def test_grids_agree_with_the_general_oracle(height, width, rng, kind, scale):
    fast = Pairwise(grid(height, width), 2, 0.5)
    assert fast.reweighting.rows_and_columns
    general = halves(height, width)
    assert not general.reweighting.rows_and_columns
    scores = draw_scores(rng, fast.n_coordinates, kind, scale)
    one, two = (s.marginals(scores, tol=1e-9) for s in (fast, general))
    space = Labellings(height * width, grid_edges(height, width), 2, 0.5)
    slack = slack_of(scores)
    assert one.value <= two.upper_bound + slack
    assert two.value <= one.upper_bound + slack
    assert max(one.value, two.value) <= min(one.upper_bound, two.upper_bound) + slack
    assert one.upper_bound >= space.log_partition(scores) - slack
    assert space.infeasibility(one.tau) < 1e-12
    attained = space.objective(scores, one.tau)
    assert one.value - slack <= attained <= one.upper_bound + slack
    if scale <= 1.0:
        assert max(one.gap, two.gap) <= 1e-8
        np.testing.assert_allclose(one.tau, two.tau, atol=1e-4)


def test_an_explicit_reweighting_is_taken_as_it_is():
    graph = grid(3, 4)
    weights = Reweighting(graph, np.full(17, 0.5), np.full(17, 0.25), np.full(17, 0.25))
    structure = Pairwise(graph, 2, weights)
    assert structure.reweighting is weights
    scores = np.random.default_rng(0).normal(size=structure.n_coordinates)
    one, two = structure.marginals(scores), Pairwise(graph, 2).marginals(scores)
    assert one.value == pytest.approx(two.value, abs=2e-6)


@pytest.mark.parametrize(
    ("node_scale", "edge_scale"),
    [(0.0, 0.0), (1.0, 1.0), (199.0, 1.0), (201.0, 1.0), (1.0, 39.0), (1.0, 60.0)],
)
def test_grids_beyond_the_linear_domain_keep_their_certificate(node_scale, edge_scale):
    rng = np.random.default_rng(1)
    height, width = 3, 4
    fields = np.concatenate(
        [node_scale * rng.uniform(-1, 1, 12), edge_scale * rng.uniform(-1, 1, 17)]
    )
    fields[0], fields[12] = node_scale, edge_scale  # at the limit
    space = Labellings(12, grid_edges(height, width), 2, 0.5)
    scores = space.ising_scores(fields)
    for structure in (Pairwise(grid(height, width), 2), halves(height, width)):
        found = structure.marginals(scores, tol=1e-6)
        assert found.upper_bound >= space.log_partition(scores) - slack_of(scores)
        attained = space.objective(scores, found.tau)
        assert found.value - slack_of(scores) <= attained <= found.upper_bound + slack_of(scores)
        assert space.infeasibility(found.tau) < 1e-12


def ising(height, width, coupling, field=0.0):
    """Scores of a field and couplings of spins, as scores of states 0 and 1."""
    edges = grid_edges(height, width)
    n = height * width
    strength = np.broadcast_to(coupling, len(edges)).astype(float)
    nodes = field - 0.5 * np.bincount(edges.ravel(), np.repeat(strength, 2), minlength=n)
    return np.concatenate([np.clip(nodes, -150, 150), strength])


@pytest.mark.parametrize(
    "coupling",
    [5.0, 10.0, 20.0, 30.0, 40.0, 49.0],
)
def test_strong_couplings_keep_the_certificate(coupling):
    rng = np.random.default_rng(0)
    for height, width in ((2, 2), (3, 3), (10, 10)):
        edges = grid_edges(height, width)
        space = Labellings(height * width, edges, 2, 0.5)
        structure = Pairwise(grid(height, width), 2)
        for _ in range(10):
            signs = rng.choice([-1.0, -0.5, 0.5, 1.0], size=len(edges))
            fields = ising(height, width, coupling * signs, rng.normal(size=height * width))
            scores = space.ising_scores(fields)
            found = structure.marginals(scores, tol=1e-6, max_sweeps=60)
            slack = slack_of(scores)
            assert np.isfinite(found.tau).all()
            attained = space.objective(scores, found.tau)
            assert found.value <= attained + slack
            assert attained <= found.upper_bound + slack
            if height * width <= 9:
                assert found.upper_bound >= space.log_partition(scores) - slack


@pytest.mark.parametrize("scale", [0.3, 3.0, 10.0])
def test_the_bound_of_a_grid_never_rises(scale):
    structure = Pairwise(grid(6, 5), 2)
    scores = scale * np.random.default_rng(2).normal(size=structure.n_coordinates)
    bounds = [
        structure.marginals(scores, tol=0.0, max_sweeps=sweeps).upper_bound
        for sweeps in (1, 2, 3, 5, 10, 30, 100)
    ]
    assert (np.diff(bounds) <= slack_of(scores)).all()


def test_warm_starts_of_grids_agree_and_are_quicker():
    structure = Pairwise(grid(12, 9), 2)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=structure.n_coordinates)
    cold = structure.marginals(scores, tol=1e-8)
    before = cold.warm.copy()
    near = structure.marginals(scores + 1e-3 * rng.normal(size=scores.size), cold.warm, tol=1e-8)
    np.testing.assert_array_equal(cold.warm, before)  # not overwritten
    again = structure.marginals(scores, near.warm, tol=1e-8)
    assert again.value <= cold.upper_bound + 1e-11
    assert cold.value <= again.upper_bound + 1e-11
    assert again.iterations <= cold.iterations
    # Messages of the other kind of oracle are not mistaken for its own.
    huge = np.where(np.arange(scores.size) == 0, 500.0, scores)
    for warm, other in ((cold.warm, huge), (structure.marginals(huge).warm, scores)):
        found = structure.marginals(other, warm, tol=1e-8)
        alone = structure.marginals(other, tol=1e-8)
        assert found.value == pytest.approx(alone.value, abs=1e-7)


def test_large_grids_reach_the_gap_asked_for():
    for size, tol in ((40, 1e-3), (100, 1e-2)):
        structure = Pairwise(grid(size, size), 2)
        scores = np.random.default_rng(0).normal(size=structure.n_coordinates)
        found = structure.marginals(scores, tol=tol)
        assert found.gap <= tol
        nodes, tables = structure.node_marginals(found.tau), structure.edge_marginals(found.tau)
        np.testing.assert_allclose(tables.sum(axis=2), nodes[structure.graph.tail], atol=1e-12)
        np.testing.assert_allclose(tables.sum(axis=1), nodes[structure.graph.head], atol=1e-12)


@pytest.mark.parametrize("n_states", [2, 3])
def test_shares_of_trees_bound_grids_too(n_states):
    height, width = (3, 4) if n_states == 2 else (2, 3)
    rng = np.random.default_rng(0)
    for neighbours in (4, 8):
        edges = grid_edges(height, width, neighbours)
        space = Labellings(height * width, edges, n_states)
        for rho in ("auto", tree_weights(height * width, *edges.T).sum(axis=0)):
            structure = Pairwise(grid(height, width, neighbours), n_states, rho)
            scores = rng.normal(size=structure.n_coordinates)
            found = structure.marginals(scores, tol=1e-6)
            assert found.upper_bound >= space.log_partition(scores)
            assert found.gap <= 1e-6


def test_state_of_a_large_image_stays_small():
    graph = grid(200, 200)
    structure = Pairwise(graph, 2)
    found = structure.marginals(np.zeros(structure.n_coordinates))
    assert found.tau.nbytes + found.warm.nbytes < 5_000_000  # of which tau has 3.2 MB
