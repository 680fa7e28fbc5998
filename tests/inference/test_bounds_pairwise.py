"""Bounds of log Z of pairwise models: independent nodes, attractive Bethe values, tree weights."""

import warnings
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, averaged_trees, forests, grid_edges, loopy, random_edges
from random_scores import draw_scores, generators, kinds
from scipy.special import logsumexp, softmax, xlogy

from mlestruct.algorithms.pairwise.attractive_bethe import attractive_bethe_bound
from mlestruct.algorithms.pairwise.mean_field import mean_field
from mlestruct.structures import BinaryPairwise, Pairwise, PairwiseGraph
from mlestruct.structures.labellings.tree_weights import tighten
from mlestruct.structures.rho import SMALLEST_RHO

examples = settings(deadline=None, max_examples=40)
few = settings(deadline=None, max_examples=15)
scales = st.sampled_from([0.1, 1.0, 10.0, 1000.0, 1e6])
densities = st.sampled_from([0.3, 0.6, 1.0])
TRIANGLE = np.array([[0, 1], [1, 2], [0, 2]])


def rounding(scores):
    return 1e-8 + 1e-12 * np.abs(scores).sum()


def model(space, scores):
    """The arguments of the lower bounds."""
    return space.n_nodes, space.tail, space.head, *space.tables(scores)


def independent(space, q):
    """Coordinates and entropy of independent nodes."""
    pairs = q[space.tail][:, :, None] * q[space.head][:, None, :]
    return np.concatenate([q.ravel(), pairs.ravel()]), -xlogy(q, q).sum()


# ---------------------------------------------------------------------- independent nodes
@examples
@given(loopy(max_nodes=6, n_states=(2, 3)), kinds, scales)
def test_mean_field_is_a_lower_bound(sample, kind, scale):
    space, rng = sample
    scores = draw_scores(rng, space.size, kind, scale)
    start = rng.dirichlet(np.ones(space.n_states), space.n_nodes)
    q, value = mean_field(*model(space, scores), starts=[start])
    point, entropy = independent(space, q)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
    assert value == pytest.approx(scores @ point + entropy, abs=rounding(scores))
    assert value <= space.log_partition(scores) + rounding(scores)
    point, entropy = independent(space, start)
    assert value >= scores @ point + entropy - rounding(scores)


@few
@given(loopy(max_nodes=6, n_states=(2, 3)))
def test_mean_field_stops_where_no_node_can_gain(sample):
    space, rng = sample
    scores = rng.normal(size=space.size)
    q, _ = mean_field(*model(space, scores), tol=1e-14, max_sweeps=5000)
    nodes, pairs = space.tables(scores)
    field = nodes.copy()
    for (i, j), table in zip(space.edges, pairs, strict=True):
        field[i] += table @ q[j]
        field[j] += q[i] @ table
    np.testing.assert_allclose(q, softmax(field, axis=1), atol=1e-5)


def test_mean_field_never_falls():
    rng = np.random.default_rng(0)
    space = Labellings(9, grid_edges(3, 3), 3)
    scores = 3.0 * rng.normal(size=space.size)
    values = [mean_field(*model(space, scores), tol=0.0, max_sweeps=k)[1] for k in range(12)]
    assert np.all(np.diff(values) >= -1e-12)
    assert values[-1] > values[0] + 1.0


def test_mean_field_keeps_the_best_start():
    rng = np.random.default_rng(1)
    space = Labellings(9, grid_edges(3, 3))
    scores = 5.0 * rng.normal(size=space.size)
    starts = [rng.dirichlet(np.ones(2), 9) for _ in range(6)]
    each = [mean_field(*model(space, scores), starts=[start])[1] for start in starts]
    assert mean_field(*model(space, scores), starts=starts)[1] == max(each) > min(each)


@few
@given(generators)
def test_mean_field_without_edges_is_exact(rng):
    space = Labellings(5, np.zeros((0, 2), dtype=int), 3)
    scores = rng.normal(size=space.size)
    q, value = mean_field(*model(space, scores))
    assert value == pytest.approx(space.log_partition(scores))
    np.testing.assert_allclose(q.ravel(), space.exact_marginals(scores), rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_scores": np.zeros((2, 2))}, "node_scores: expected shape"),
        ({"edge_scores": np.zeros((3, 2, 3))}, "edge_scores: expected shape"),
        ({"edge_scores": np.full((3, 2, 2), np.nan)}, "edge_scores: contain NaN"),
        ({"tail": [0, 1, 5]}, "must be in 0..2"),
        ({"tail": [1, 1, 0]}, "edge 0 joins node 1 to itself"),
        ({"tail": [0, 1]}, "must have the same length"),
        ({"starts": [np.ones((3, 3))]}, r"starts\[0\]: expected shape"),
        ({"starts": [np.ones((3, 2)), np.zeros((3, 2))]}, r"starts\[1\]: expected a distribution"),
    ],
)
def test_bad_models_are_refused(change, message):
    good = {
        "n_nodes": 3,
        "tail": [0, 1, 0],
        "head": [1, 2, 2],
        "node_scores": np.zeros((3, 2)),
        "edge_scores": np.zeros((3, 2, 2)),
    }
    for bound in (mean_field, attractive_bethe_bound):
        with pytest.raises(ValueError, match=message):
            bound(**{**good, **change})


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


def test_bethe_needs_two_states():
    with pytest.raises(ValueError, match="two states"):
        attractive_bethe_bound(3, *TRIANGLE.T, np.zeros((3, 3)), np.zeros((3, 3, 3)))


# ---------------------------------------------------------------------- tree weights
def structure_of(space, rho="uniform"):
    graph = PairwiseGraph(space.n_nodes, space.edges)
    if space.n_states == 2:
        return BinaryPairwise(graph, rho)
    return Pairwise(graph, space.n_states, rho)


def both_scores(rng, space, kind, scale):
    """Scores for the structure, and the same for the enumeration."""
    if space.n_states > 2:
        scores = draw_scores(rng, space.size, kind, scale)
        return scores, scores
    scores = draw_scores(rng, space.n_nodes + len(space.edges), kind, scale)
    return scores, space.lift_scores(scores)


def binary_log_partition(n_nodes, edges, scores):
    states = np.array(list(product([0.0, 1.0], repeat=n_nodes)))
    both = states[:, edges[:, 0]] * states[:, edges[:, 1]]
    return float(logsumexp(states @ scores[:n_nodes] + both @ scores[n_nodes:]))


@examples
@given(loopy(max_nodes=6, n_states=(2, 3)), kinds, st.sampled_from([0.1, 1.0, 10.0, 100.0, 1e6]))
def test_every_bound_on_the_way_holds_and_falls(sample, kind, scale):
    space, rng = sample
    scores, lifted = both_scores(rng, space, kind, scale)
    seen = []
    found = tighten(structure_of(space), scores, 6, callback=lambda state: seen.append(state))
    exact = space.log_partition(lifted)
    bounds = [found.start_bound, *(state.upper_bound for state in seen)]
    assert len(seen) == found.iterations
    assert np.all(np.diff(bounds) < 0.0)
    assert min(bounds) == found.upper_bound >= exact - rounding(lifted)
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
    scores, lifted = both_scores(rng, space, "normal", scale)
    found = tighten(structure_of(space), scores, 10)
    for _ in range(3):
        rho = averaged_trees(rng, space.n_nodes, space.edges, 4)
        other = Labellings(space.n_nodes, space.edges, 2, rho)
        assert other.best(lifted) >= found.upper_bound - found.gap - 1e-6


def test_long_runs_reach_the_tolerance():
    rng = np.random.default_rng(3)
    space = Labellings(6, random_edges(rng, 6, 1.0))
    scores, _ = both_scores(rng, space, "normal", 1.0)
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
    structure = BinaryPairwise(PairwiseGraph(n_nodes, edges), "uniform")
    found = tighten(structure, scores, 15)
    assert exact <= found.upper_bound
    assert found.upper_bound - exact < (1 - least) * (found.start_bound - exact)


@few
@given(forests(max_nodes=7, n_states=(2, 3)), st.booleans())
def test_on_forests_there_is_nothing_to_do(sample, halved):
    space, rng = sample
    scores, lifted = both_scores(rng, space, "normal", 2.0)
    found = tighten(structure_of(space, 0.5 if halved else "auto"), scores)
    assert found.iterations == 0
    np.testing.assert_array_equal(found.rho, np.ones(len(space.edges)))
    assert found.upper_bound == pytest.approx(space.log_partition(lifted), abs=1e-9)


def test_weights_outside_the_polytope_are_left_at_once():
    rng = np.random.default_rng(5)
    space = Labellings(3, TRIANGLE)
    scores, lifted = both_scores(rng, space, "normal", 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        structure = structure_of(space, 1.0)
    found = tighten(structure, scores)
    assert found.upper_bound >= space.log_partition(lifted) - 1e-9
    assert found.start_bound == tighten(structure_of(space), scores).start_bound


def test_equal_couplings_leave_equal_weights():
    """By symmetry rho = 2 / n is optimal on a complete graph, which the gap certifies."""
    edges = np.array(list(combinations(range(5), 2)))
    scores = np.concatenate([np.full(5, -2.0), np.ones(10)])
    found = tighten(BinaryPairwise(PairwiseGraph(5, edges), "uniform"), scores)
    assert found.iterations == 0
    np.testing.assert_allclose(found.rho, 0.4)


def test_a_callback_can_stop():
    rng = np.random.default_rng(6)
    space = Labellings(9, grid_edges(3, 3))
    scores, _ = both_scores(rng, space, "normal", 2.0)
    assert tighten(structure_of(space), scores, callback=lambda _: True).iterations == 1


def test_bad_scores_and_limits_are_refused():
    structure = structure_of(Labellings(3, TRIANGLE))
    with pytest.raises(ValueError, match="scores: expected 6 finite numbers"):
        tighten(structure, np.zeros(5))
    with pytest.raises(ValueError, match="scores: expected 6 finite numbers"):
        tighten(structure, np.full(6, np.inf))
    with pytest.raises(ValueError, match="max_iter and tol"):
        tighten(structure, np.zeros(6), max_iter=-1)
