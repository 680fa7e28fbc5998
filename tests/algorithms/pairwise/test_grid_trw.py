"""Marginals of grids: certificates, the general oracle, other optimisers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, grid_edges
from random_scores import draw_scores, generators, kinds

from mlestruct.algorithms.pairwise.grid_trw import DiagonalLayout, GridTRW
from mlestruct.features import Rows
from mlestruct.features.labellings import StateFeatures
from mlestruct.structures import Pairwise, PairwiseGraph, grid

examples = settings(deadline=None, max_examples=40)
sides = st.integers(1, 4)


def slack_of(scores):
    return 1e-12 * (1.0 + np.abs(scores).sum())


@given(st.integers(1, 9), st.integers(1, 9))
@settings(deadline=None)
def test_layout_lists_every_pixel_and_edge_once(height, width):
    layout = DiagonalLayout(height, width)
    row, column = np.divmod(layout.pixels, width)
    np.testing.assert_array_equal(np.sort(layout.pixels), np.arange(height * width))
    for d, (first, last) in enumerate(zip(layout.starts[:-1], layout.starts[1:], strict=True)):
        assert (row[first:last] + column[first:last] == d).all()
    found = {}
    for axis in range(2):
        for tail, head, count, edge in layout.links[axis]:
            for k in range(count):
                ends = layout.pixels[tail + k], layout.pixels[head + k]
                found[int(layout.places[axis, edge + k])] = tuple(int(end) for end in ends)
    expected = {e: tuple(ends) for e, ends in enumerate(grid_edges(height, width).tolist())}
    assert found == expected


@examples
@given(sides, sides, st.sampled_from([2, 3, 5]), st.booleans(), generators, kinds,
       st.sampled_from([0.1, 1.0, 5.0]))  # fmt: skip
def test_certificates_enclose_what_the_general_oracle_finds(
    height, width, n_states, shared, rng, kind, scale
):
    edges = grid_edges(height, width)
    space = Labellings(height * width, edges, n_states, 0.5)
    scores = draw_scores(rng, space.size, kind, scale)
    nodes, tables = space.tables(scores)
    if shared:
        tables[:] = rng.normal(size=(n_states, n_states))
    found = GridTRW(height, width)(nodes, tables, None, 1e-9, 1000)
    tau, slack = np.concatenate([found.nodes.ravel(), found.edges.ravel()]), slack_of(scores)
    assert space.infeasibility(tau) < 1e-12
    attained = space.objective(scores, tau)
    assert found.value <= attained + slack
    assert attained <= found.upper_bound + slack
    general = Pairwise(PairwiseGraph(space.n_nodes, edges), n_states, np.full(len(edges), 0.5))
    other = general.marginals(scores, tol=1e-9)
    assert found.value <= other.upper_bound + slack
    assert other.value <= found.upper_bound + slack
    if scale <= 1.0:
        assert found.upper_bound - found.value <= 1e-8
        np.testing.assert_allclose(tau, other.tau, atol=1e-4)
    split = height * (width - 1)
    np.testing.assert_allclose(found.sums[0], found.edges[:split].sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.sums[1], found.edges[split:].sum(axis=0), atol=1e-12)


@examples
@given(st.sampled_from([(2, 2), (2, 3), (3, 3)]), st.sampled_from([2, 3]), generators, kinds,
       st.sampled_from([1.0, 30.0, 1000.0, 1e4]))  # fmt: skip
def test_certificates_hold_at_extreme_scores(shape, n_states, rng, kind, scale):
    structure = Pairwise(grid(*shape), n_states)
    space = Labellings(shape[0] * shape[1], grid_edges(*shape), n_states, 0.5)
    scores = draw_scores(rng, space.size, kind, scale)
    found = structure.marginals(scores, tol=1e-6, max_sweeps=50)
    slack = slack_of(scores)
    assert space.infeasibility(found.tau) < 1e-12
    assert found.value <= space.objective(scores, found.tau) + slack
    assert space.objective(scores, found.tau) <= found.upper_bound + slack
    assert found.upper_bound >= space.log_partition(scores) - slack


@settings(deadline=None, max_examples=10)
@given(generators, st.sampled_from([0.3, 1.0, 3.0]))
def test_value_is_that_of_an_independent_optimiser(rng, scale):
    space = Labellings(4, grid_edges(2, 2), 3, 0.5)
    scores = scale * rng.normal(size=space.size)
    found = GridTRW(2, 2)(*space.tables(scores), None, 1e-9, 2000)
    best = space.best(scores)
    assert best <= found.upper_bound + 1e-9
    assert found.value <= best + 1e-9 * space.size


def test_a_row_or_column_is_a_chain_at_rho_one_half():
    # Half the chain plus half its independent nodes: the same as any grid.
    for height, width in ((1, 5), (5, 1), (1, 1)):
        space = Labellings(5 if height * width > 1 else 1, grid_edges(height, width), 3, 0.5)
        scores = np.random.default_rng(0).normal(size=space.size)
        found = GridTRW(height, width)(*space.tables(scores), None, 1e-10, 1000)
        assert found.upper_bound >= space.log_partition(scores) - 1e-12
        assert found.upper_bound - found.value <= 1e-9
        tau = np.concatenate([found.nodes.ravel(), found.edges.ravel()])
        assert space.objective(scores, tau) == pytest.approx(found.value, abs=1e-9)


def test_the_bound_never_rises_and_warm_starts_continue():
    rng = np.random.default_rng(2)
    nodes, tables = 2.0 * rng.normal(size=(30, 4)), 2.0 * rng.normal(size=(2, 4, 4))
    oracle = GridTRW(6, 5)
    bounds = [
        oracle(nodes, tables, None, 0.0, n, shared=True).upper_bound for n in (1, 2, 3, 5, 10, 30)
    ]
    assert (np.diff(bounds) <= 1e-11).all()
    warm, continued = None, []
    for _ in range(5):
        found = oracle(nodes, tables, warm, 0.0, 1, shared=True)
        warm = found.warm
        continued.append(found.upper_bound)
    assert continued[1] < bounds[0]
    assert (np.diff(continued) <= 1e-11).all()


def test_scores_beyond_the_linear_domain_are_left_to_others():
    oracle = GridTRW(2, 2)
    nodes, tables = np.zeros((4, 3)), np.zeros((4, 3, 3))
    assert oracle(nodes + 1e5, tables - 1e5, None, 1e-9, 10) is not None  # offsets do not matter
    nodes[1, 2] = 300.0
    assert oracle(nodes, tables, None, 1e-9, 10) is None
    nodes[1, 2], tables[3, 0, 1] = 0.0, -50.0
    assert oracle(nodes, tables, None, 1e-9, 10) is None


def test_learning_needs_no_table_per_edge():
    # Moments from sums of tables equal those of the marginals themselves.
    rng = np.random.default_rng(0)
    graph = grid(5, 4)
    features = StateFeatures(graph, Rows(rng.normal(size=(20, 3))), Rows.ones(graph.n_edges), 3)
    structure = Pairwise(graph, 3)
    theta = rng.normal(size=features.n_features)
    found, moments = structure.expectation(features, theta, None, None, 1e-9)
    whole = structure.marginals(features.scores(theta), tol=1e-9, max_sweeps=found.iterations)
    assert found.tau.size == 0
    assert found.value == pytest.approx(whole.value, abs=1e-11)
    assert found.upper_bound == pytest.approx(whole.upper_bound, abs=1e-11)
    np.testing.assert_allclose(moments, features.moments(whole.tau), atol=1e-11)
