"""Messages between nodes with several states: against enumeration, in both ranges of scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import loopy

from mlestruct.algorithms.pairwise import _graph_message_passing_kernels as kernels
from mlestruct.algorithms.pairwise import graph_message_passing
from mlestruct.features import Rows
from mlestruct.features.labellings import StateFeatures
from mlestruct.structures import Pairwise, PairwiseGraph

examples = settings(deadline=None, max_examples=40)


def structure_of(space):
    return Pairwise(PairwiseGraph(space.n_nodes, space.edges), space.n_states, space.rho)


@examples
@given(loopy(max_nodes=5, n_states=(2, 3)), st.sampled_from([1.0, 100.0, 1e4]), st.integers(1, 4))
def test_certificates_hold_where_some_edges_are_beyond_the_linear_range(drawn, scale, sweeps):
    space, rng = drawn
    structure = structure_of(space)
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
    found = structure_of(space).marginals(scores, None, 0.0, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_message_passing, "WIDE", -1.0)  # all edges in the log domain
        other = structure_of(space).marginals(scores, None, 0.0, 3)
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
