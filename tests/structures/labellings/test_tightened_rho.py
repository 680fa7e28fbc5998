"""Upper bounds of log Z that fall as the weights of spanning trees are optimised."""

import warnings
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, averaged_trees, forests, grid_edges, loopy, random_edges
from random_scores import draw_scores, kinds
from scipy.special import logsumexp

from mlestruct.structures import Pairwise, PairwiseGraph
from mlestruct.structures.labellings.tightened_rho import tighten
from mlestruct.structures.rho import SMALLEST_RHO

examples = settings(deadline=None, max_examples=40)


few = settings(deadline=None, max_examples=15)


TRIANGLE = np.array([[0, 1], [1, 2], [0, 2]])


def rounding(scores):
    return 1e-8 + 1e-12 * np.abs(scores).sum()


# ---------------------------------------------------------------------- tree weights
def structure_of(space, rho="uniform"):
    graph = PairwiseGraph(space.n_nodes, space.edges)
    return Pairwise(graph, space.n_states, rho)


def binary_log_partition(n_nodes, edges, scores):
    states = np.array(list(product([0.0, 1.0], repeat=n_nodes)))
    both = states[:, edges[:, 0]] * states[:, edges[:, 1]]
    return float(logsumexp(states @ scores[:n_nodes] + both @ scores[n_nodes:]))


@examples
@given(loopy(max_nodes=6, n_states=(2, 3)), kinds, st.sampled_from([0.1, 1.0, 10.0, 100.0, 1e6]))
def test_every_bound_on_the_way_holds_and_falls(sample, kind, scale):
    space, rng = sample
    scores = draw_scores(rng, space.size, kind, scale)
    seen = []
    found = tighten(structure_of(space), scores, 6, callback=lambda state: seen.append(state))
    exact = space.log_partition(scores)
    bounds = [found.start_bound, *(state.upper_bound for state in seen)]
    assert len(seen) == found.iterations
    assert np.all(np.diff(bounds) < 0.0)
    # A step that fails may leave better marginals of the same rho, and their bound.
    assert min(bounds) >= found.upper_bound >= exact - rounding(scores)
    assert np.isfinite(found.gap)
    assert found.gap >= 0.0
    np.testing.assert_array_equal(found.structure.reweighting.rho, found.rho)
    check_tree_weights(space, found)


def check_tree_weights(space, found):
    """rho is within the polytope, by its definition, and its split gives no node more than 1."""
    assert (found.rho >= SMALLEST_RHO * (1 - 1e-9)).all()
    for size in range(2, space.n_nodes + 1):
        for nodes in combinations(range(space.n_nodes), size):
            inside = np.isin(space.edges, nodes).all(axis=1)
            assert found.rho[inside].sum() <= size - 1 + 1e-9
    weights = found.structure.reweighting
    np.testing.assert_allclose(weights.into_tail + weights.into_head, found.rho, rtol=1e-12)
    assert weights.into_tail.min(initial=0.0) >= 0.0 <= weights.into_head.min(initial=0.0)
    load = np.bincount(space.tail, weights.into_tail, minlength=space.n_nodes)
    load += np.bincount(space.head, weights.into_head, minlength=space.n_nodes)
    assert load.max() <= 1 + 1e-9


@few
@given(loopy(max_nodes=5), st.sampled_from([0.5, 2.0]))
def test_no_weights_are_better_by_more_than_the_gap(sample, scale):
    space, rng = sample
    scores = draw_scores(rng, space.size, "normal", scale)
    found = tighten(structure_of(space), scores, 10)
    for _ in range(3):
        rho = averaged_trees(rng, space.n_nodes, space.edges, 4)
        other = Labellings(space.n_nodes, space.edges, 2, rho)
        assert other.best(scores) >= found.upper_bound - found.gap - 1e-6


def test_long_runs_reach_the_tolerance():
    rng = np.random.default_rng(3)
    space = Labellings(6, random_edges(rng, 6, 1.0))
    scores = draw_scores(rng, space.size, "normal", 1.0)
    found = tighten(structure_of(space), scores, max_iter=300, tol=5e-3)
    assert found.gap <= 5e-3
    nothing = tighten(structure_of(space), scores, max_iter=0, tol=5e-3)
    assert nothing.upper_bound == nothing.start_bound == found.start_bound
    assert nothing.gap >= found.start_bound - found.upper_bound


@pytest.mark.parametrize(
    ("edges", "n_nodes", "least"),
    [
        (grid_edges(3, 4), 12, 0.5),
        (np.array(list(combinations(range(8), 2))), 8, 0.5),
        (np.concatenate([TRIANGLE, TRIANGLE + 3, TRIANGLE + 6]), 12, 0.4),  # and three alone
    ],
)
def test_much_of_the_gap_of_attractive_models_is_closed(edges, n_nodes, least):
    rng = np.random.default_rng(4)
    coupling = np.abs(rng.normal(size=len(edges)))
    at_node = np.bincount(edges.ravel(), np.repeat(coupling, 2), minlength=n_nodes)
    scores = np.concatenate([rng.normal(size=n_nodes) - 2 * at_node, 4 * coupling])
    exact = binary_log_partition(n_nodes, edges, scores)
    structure = Pairwise(PairwiseGraph(n_nodes, edges), 2, "uniform")
    found = tighten(structure, Labellings(n_nodes, edges).ising_scores(scores), 15)
    assert exact <= found.upper_bound
    assert found.upper_bound - exact < (1 - least) * (found.start_bound - exact)


@few
@given(forests(max_nodes=7, n_states=(2, 3)), st.booleans())
def test_on_forests_there_is_nothing_to_do(sample, halved):
    space, rng = sample
    scores = draw_scores(rng, space.size, "normal", 2.0)
    found = tighten(structure_of(space, 0.5 if halved else "auto"), scores)
    assert found.iterations == 0
    np.testing.assert_array_equal(found.rho, np.ones(len(space.edges)))
    assert found.upper_bound == pytest.approx(space.log_partition(scores), abs=1e-9)


def test_weights_outside_the_polytope_are_left_at_once():
    rng = np.random.default_rng(5)
    space = Labellings(3, TRIANGLE)
    scores = draw_scores(rng, space.size, "normal", 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        structure = structure_of(space, 1.0)
    found = tighten(structure, scores)
    assert found.upper_bound >= space.log_partition(scores) - 1e-9
    assert found.start_bound == tighten(structure_of(space), scores).start_bound


def test_equal_couplings_leave_equal_weights():
    """By symmetry rho = 2 / n is optimal on a complete graph, which the gap certifies."""
    edges = np.array(list(combinations(range(5), 2)))
    scores = np.concatenate([np.full(5, -2.0), np.ones(10)])
    structure = Pairwise(PairwiseGraph(5, edges), 2, "uniform")
    found = tighten(structure, Labellings(5, edges).ising_scores(scores))
    assert found.iterations == 0
    np.testing.assert_allclose(found.rho, 0.4)


def test_a_callback_can_stop():
    rng = np.random.default_rng(6)
    space = Labellings(9, grid_edges(3, 3))
    scores = draw_scores(rng, space.size, "normal", 2.0)
    assert tighten(structure_of(space), scores, callback=lambda _: True).iterations == 1


def test_bad_scores_and_limits_are_refused():
    structure = structure_of(Labellings(3, TRIANGLE))
    with pytest.raises(ValueError, match="scores: expected 18 finite numbers"):
        tighten(structure, np.zeros(17))
    with pytest.raises(ValueError, match="scores: expected 18 finite numbers"):
        tighten(structure, np.full(18, np.inf))
    with pytest.raises(ValueError, match="max_iter and tol"):
        tighten(structure, np.zeros(18), max_iter=-1)
