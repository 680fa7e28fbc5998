"""Messages between nodes with two states: against enumeration, and against any number of states."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from labellings import Labellings, forests, loopy

from mlestruct.algorithms.pairwise import _binary_message_passing_kernels as kernels
from mlestruct.structures import BinaryPairwise, Pairwise, PairwiseGraph

examples = settings(deadline=None, max_examples=40)
scales = st.sampled_from([0.1, 1.0, 10.0, 100.0, 1e4])


def structure_of(space, rho=None):
    graph = PairwiseGraph(space.n_nodes, space.edges)
    return BinaryPairwise(graph, space.rho if rho is None else rho)


def slack_of(scores):
    return 1e-9 + 1e-12 * np.abs(scores).sum()


def two_triangles():
    """Joined by a bridge, whose rho is 1, beside a node without edges."""
    edges = np.array([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [4, 5], [3, 5]])
    rho = np.array([2, 2, 2, 3, 2, 2, 2]) / 3
    return Labellings(7, edges, 2, rho), np.random.default_rng(0)


@examples
@given(loopy(max_nodes=7), scales, st.sampled_from([1, 2, 50]))
@example(two_triangles(), 1.0, 1)
@example(two_triangles(), 1e4, 50)
def test_certificates_hold_after_any_number_of_sweeps(drawn, scale, sweeps):
    space, rng = drawn
    structure = structure_of(space)
    scores = scale * rng.normal(size=structure.n_coordinates)
    slack = slack_of(scores)
    found = structure.marginals(scores, None, 0.0, sweeps)
    lifted = space.lift(found.tau)
    assert space.infeasibility(lifted) <= 1e-12
    value = float(scores @ found.tau) + space.entropy(lifted)
    assert found.value == pytest.approx(value, abs=slack)
    assert found.value <= found.upper_bound + slack
    assert found.upper_bound >= space.log_partition(space.lift_scores(scores)) - slack
    for tau in (space.exact_marginals(space.lift_scores(scores)), space.random_point(rng)):
        minimal = space.drop(tau)
        assert found.upper_bound >= float(scores @ minimal) + space.entropy(tau) - slack


@examples
@given(loopy(max_nodes=7), scales, st.booleans())
@example(two_triangles(), 10.0, True)
def test_agrees_with_messages_of_any_number_of_states(drawn, scale, warm):
    space, rng = drawn
    structure = structure_of(space)
    general = Pairwise(structure.graph, 2, structure.reweighting)
    scores = scale * rng.normal(size=structure.n_coordinates)
    slack = slack_of(scores)
    start = structure.marginals(scale * rng.normal(size=scores.shape)).warm if warm else None
    found = structure.marginals(scores, start, 1e-9, 300)
    other = general.marginals(space.lift_scores(scores), None, 1e-9, 300)
    assert found.value <= other.upper_bound + slack
    assert other.value <= found.upper_bound + slack


@examples
@given(forests(max_nodes=7, n_states=(2,)), scales)
def test_one_sweep_is_exact_on_forests(drawn, scale):
    space, rng = drawn
    structure = structure_of(space, "auto")
    scores = scale * rng.normal(size=structure.n_coordinates)
    slack = slack_of(scores)
    found = structure.marginals(scores, None, 0.0, 1)
    exact = space.log_partition(space.lift_scores(scores))
    assert found.value == pytest.approx(exact, abs=slack)
    assert found.upper_bound == pytest.approx(exact, abs=slack)


@examples
@given(loopy(max_nodes=7), st.sampled_from([0.1, 1.0, 3.0]))
def test_warm_starts_continue(drawn, scale):
    space, rng = drawn
    structure = structure_of(space)
    scores = scale * rng.normal(size=structure.n_coordinates)
    first = structure.marginals(scores, None, 0.0, 2)
    second = structure.marginals(scores, first.warm, 0.0, 2)
    at_once = structure.marginals(scores, None, 0.0, 4)
    assert second.upper_bound == pytest.approx(at_once.upper_bound, abs=1e-10)
    np.testing.assert_allclose(second.tau, at_once.tau, atol=1e-10)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_strong_couplings_pass_the_same_messages_by_logarithms(side):
    """Scores just below and just above the limit of ratios."""
    ring = PairwiseGraph(5, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]])
    structure = BinaryPairwise(ring)
    limit = kernels.WIDE * 0.8  # every edge is in four of the five trees
    fields = np.random.default_rng(1).normal(size=5)
    bounds = []
    for coupling in (side * (limit - 1e-6), side * (limit + 1e-6)):
        scores = np.concatenate([fields - coupling, np.full(5, coupling)])  # both states compete
        bounds.append(structure.marginals(scores, None, 0.0, 3).upper_bound)
    assert bounds[1] == pytest.approx(bounds[0], abs=2e-5)


def test_without_a_split_of_rho_messages_reach_a_fixed_point():
    """rho = 1 on a cycle: tau is stationary for the entropy, on feasible directions."""
    rng = np.random.default_rng(2)
    space = Labellings(4, np.array([[0, 1], [1, 2], [2, 3], [3, 0]]), 2, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        structure = structure_of(space, 1.0)
    scores = rng.normal(size=8)
    found = structure.marginals(scores, None, 1e-13)
    slope = scores + structure.entropy_gradient(found.tau)
    np.testing.assert_allclose(slope, 0.0, atol=1e-5)
