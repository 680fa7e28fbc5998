"""Tree-reweighted messages: against enumeration, in both ranges of scores."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from labellings import Labellings, forests, loopy
from pairwise_spaces import pairwise

from mlestruct.algorithms.pairwise import _trw_kernels as kernels
from mlestruct.algorithms.pairwise import trw
from mlestruct.features import Rows
from mlestruct.features.labellings import StateFeatures
from mlestruct.structures import Pairwise, PairwiseGraph

examples = settings(deadline=None, max_examples=40)


scales = st.sampled_from([0.1, 1.0, 10.0, 100.0, 1e4])


def rounding(scores):
    return 1e-9 + 1e-12 * np.abs(scores).sum()


def two_triangles():
    """Joined by a bridge, whose rho is 1, beside a node without edges."""
    edges = np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [4, 5], [3, 5]])
    rho = np.array([2, 2, 2, 3, 2, 2, 2]) / 3
    return Labellings(7, edges, 2, rho), np.random.default_rng(0)


@examples
@given(loopy(max_nodes=6, n_states=(2, 3)), scales, st.sampled_from([1, 2, 50]))
@example(two_triangles(), 1.0, 1)
@example(two_triangles(), 1e4, 50)
def test_certificates_hold_after_any_number_of_sweeps(drawn, scale, sweeps):
    space, rng = drawn
    scores = scale * rng.normal(size=space.size)
    slack = rounding(scores)
    found = pairwise(space).marginals(scores, None, 0.0, sweeps)
    assert space.infeasibility(found.tau) <= 1e-12
    assert found.value == pytest.approx(space.objective(scores, found.tau), abs=slack)
    assert found.value <= found.upper_bound + slack
    assert found.upper_bound >= space.log_partition(scores) - slack
    for tau in (space.exact_marginals(scores), space.random_point(rng)):
        assert found.upper_bound >= space.objective(scores, tau) - slack


@examples
@given(forests(max_nodes=7), scales)
def test_one_sweep_is_exact_on_forests(drawn, scale):
    space, rng = drawn
    scores = scale * rng.normal(size=space.size)
    found = pairwise(space, "auto").marginals(scores, None, 0.0, 1)
    exact, slack = space.log_partition(scores), rounding(scores)
    assert found.value == pytest.approx(exact, abs=slack)
    assert found.upper_bound == pytest.approx(exact, abs=slack)


@examples
@given(loopy(max_nodes=6, n_states=(2, 3)), st.sampled_from([0.1, 1.0, 3.0]))
def test_warm_starts_continue(drawn, scale):
    space, rng = drawn
    structure, scores = pairwise(space), scale * rng.normal(size=space.size)
    first = structure.marginals(scores, None, 0.0, 2)
    second = structure.marginals(scores, first.warm, 0.0, 2, first=2)
    at_once = structure.marginals(scores, None, 0.0, 4, first=4)
    assert second.upper_bound == pytest.approx(at_once.upper_bound, abs=1e-10)
    np.testing.assert_allclose(second.tau, at_once.tau, atol=1e-10)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_strong_couplings_pass_the_same_messages_by_logarithms(side):
    """Scores just below and just above the limit of the linear range."""
    ring = PairwiseGraph(5, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]])
    structure = Pairwise(ring, 2)
    limit = trw.WIDE * 0.8  # every edge is in four of the five trees
    nodes, bounds = np.random.default_rng(1).normal(size=(5, 2)), []
    for coupling in (side * (limit - 1e-6), side * (limit + 1e-6)):
        nodes[:, 1] -= coupling  # both states compete
        tables = np.broadcast_to([[0.0, 0.0], [0.0, coupling]], (5, 2, 2))
        scores = structure.from_tables(nodes, tables)
        nodes[:, 1] += coupling
        bounds.append(structure.marginals(scores, None, 0.0, 3).upper_bound)
    assert bounds[1] == pytest.approx(bounds[0], abs=2e-5)


def test_without_a_split_of_rho_messages_reach_a_fixed_point():
    """rho = 1 on a cycle: tau is stationary for the entropy, on feasible directions."""
    rng = np.random.default_rng(2)
    space = Labellings(4, np.array([[0, 1], [1, 2], [2, 3], [3, 0]]), 2, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        structure = pairwise(space, 1.0)
    scores = rng.normal(size=space.size)
    found = structure.marginals(scores, None, 1e-13)
    slope = scores + structure.entropy_gradient(found.tau)
    np.testing.assert_allclose(space.directions.T @ slope, 0.0, atol=1e-5)


@examples
@given(loopy(max_nodes=5, n_states=(2, 3)), st.sampled_from([1.0, 100.0, 1e4]), st.integers(1, 4))
def test_certificates_hold_where_some_edges_are_beyond_the_linear_range(drawn, scale, sweeps):
    space, rng = drawn
    structure = pairwise(space)
    nodes, edges = rng.normal(size=(space.n_nodes, space.n_states)), space.edges
    tables = rng.normal(size=(len(edges), space.n_states, space.n_states))
    tables[::2] *= scale
    scores = structure.from_tables(nodes, tables)
    slack = 1e-9 + 1e-12 * np.abs(scores).sum()
    found = structure.marginals(scores, None, 0.0, sweeps)
    assert space.infeasibility(found.tau) <= 1e-12
    assert found.value == pytest.approx(space.objective(scores, found.tau), abs=slack)
    assert found.upper_bound >= space.log_partition(scores) - slack
    assert found.upper_bound >= found.value - slack
    continued = structure.marginals(scores, found.warm, 0.0, sweeps)
    assert continued.upper_bound >= space.log_partition(scores) - slack


@examples
@given(loopy(max_nodes=6, n_states=(2, 3)), st.sampled_from([1.0, 30.0]))
def test_both_ranges_have_the_same_messages(drawn, scale):
    space, rng = drawn
    scores = scale * rng.normal(size=space.size)
    found = pairwise(space).marginals(scores, None, 0.0, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trw, "WIDE", -1.0)  # all edges in the log domain
        other = pairwise(space).marginals(scores, None, 0.0, 3)
    assert found.upper_bound == pytest.approx(other.upper_bound, abs=1e-8 * scale)
    cut = space.n_nodes * space.n_states  # tables are scaled from other starts
    np.testing.assert_allclose(found.tau[:cut], other.tau[:cut], atol=1e-9)


def test_learning_needs_no_table_per_edge():
    # Moments from sums of tables equal those of the marginals themselves.
    rng = np.random.default_rng(0)
    edges = np.argwhere(np.triu(rng.random((12, 12)) < 0.4, 1))
    graph = PairwiseGraph(12, edges)
    features = StateFeatures(graph, Rows(rng.normal(size=(12, 3))), Rows.ones(len(edges)), 3)
    structure = Pairwise(graph, 3)
    theta = rng.normal(size=features.n_features)
    found, moments = structure.expectation(features, theta, None, None, 1e-9)
    whole = structure.marginals(features.scores(theta), tol=1e-9, max_sweeps=found.iterations)
    assert found.tau.size == 0
    assert found.value == pytest.approx(whole.value, abs=1e-11)
    assert found.upper_bound == pytest.approx(whole.upper_bound, abs=1e-11)
    np.testing.assert_allclose(moments, features.moments(whole.tau), atol=1e-11)


def test_scaling_of_logarithms_is_two_rounds_of_sinkhorn():
    rng = np.random.default_rng(3)
    rows, columns = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
    logarithms = 2.0 * rng.normal(size=(3, 3))
    expected = np.exp(logarithms)
    for _ in range(2):
        expected *= (rows / expected.sum(axis=1))[:, None]
        expected *= columns / expected.sum(axis=0)
    for shift in (0.0, 2000.0):  # exp(2000) is not finite
        found = logarithms + shift
        kernels.scale_logarithms(found, rows, columns, np.empty(3))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
