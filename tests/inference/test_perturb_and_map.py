"""Perturb-and-MAP against enumeration: exact for one variable, bounds of log Z otherwise."""

import itertools

import bipartite_matchings
import graph_matchings
import numpy as np
import pytest
from enumerated_spaces import (
    KINDS,
    ask,
    case_of,
    check_numbers,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import Labellings, grid_edges
from scipy.special import logsumexp, softmax

from mlestruct.exceptions import MissingCapability
from mlestruct.inference import marginals
from mlestruct.inference.perturb_and_map import perturb_and_map
from mlestruct.structures import (
    BipartiteMatching,
    LocalMatching,
    Pairwise,
    PairwiseGraph,
    Sequences,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def all_vertices(structure, n_nodes, n_states):
    labels = itertools.product(range(n_states), repeat=n_nodes)
    return np.array([structure.encode(np.array(y)).dense(structure.n_coordinates) for y in labels])


def pairwise(n_nodes, edges, n_states):
    """A structure and its vertices, by NumPy alone."""
    space, graph = Labellings(n_nodes, np.array(edges), n_states), PairwiseGraph(n_nodes, edges)
    return Pairwise(graph, n_states), space.vertices


def bipartite(shape, perfect=True, mask=None):
    space = bipartite_matchings.Space(np.ones(shape, bool) if mask is None else mask, perfect)
    return space.structure, space.vertices


def general(n, perfect=True, capacity=1, exact=False):
    space = graph_matchings.Space(~np.eye(n, dtype=bool), perfect, 1.0, capacity)
    return space.exact if exact else space.local, space.vertices


def chains(lengths, n_states):
    structure = Sequences(lengths, n_states)
    return structure, all_vertices(structure, structure.n_nodes, n_states)


RING = np.eye(4, dtype=bool) | np.roll(np.eye(4, dtype=bool), 1, axis=0)
ONE_VARIABLE = {
    "row": lambda: bipartite((1, 4)),
    "row or nothing": lambda: bipartite((1, 3), False),
    "column": lambda: bipartite((4, 1)),
    "column or nothing": lambda: bipartite((3, 1), False),
    "binary node": lambda: pairwise(1, np.zeros((0, 2), int), 2),
    "node": lambda: pairwise(1, np.zeros((0, 2), int), 4),
    "chain of one": lambda: chains(1, 3),
}
SEVERAL = {
    "square": lambda: bipartite((3, 3)),
    "wide": lambda: bipartite((2, 4)),
    "tall": lambda: bipartite((4, 2)),
    "imperfect": lambda: bipartite((3, 4), False),
    "imperfect, tall": lambda: bipartite((4, 3), False),
    "masked": lambda: bipartite(None, True, RING),
    "masked, imperfect": lambda: bipartite(None, False, RING),
    "group": lambda: general(6),
    "group, exact": lambda: general(4, exact=True),
    "group, imperfect": lambda: general(5, False),
    "group, mixed": lambda: general(4, np.array([True, False, False, True])),
    "partners of two": lambda: general(4, False, 2),
    "three states on a tree": lambda: pairwise(5, [[0, 1], [1, 2], [3, 1]], 3),
    "chains": lambda: chains([3, 2, 1], 2),
}


@pytest.mark.parametrize("name", ONE_VARIABLE)
def test_one_variable_is_sampled_exactly(name):
    structure, vertices = ONE_VARIABLE[name]()
    scores = rng(1).normal(size=structure.n_coordinates)
    found = perturb_and_map(structure, scores, 1500, rng=rng(2))
    totals = vertices @ scores
    error = np.maximum(found.standard_error, 1e-12)
    assert (np.abs(found.tau - softmax(totals) @ vertices) <= 4.0 * error).all()
    assert abs(found.log_partition - logsumexp(totals)) < 4.0 * found.log_partition_error
    # The maximum of Gumbel variables is one: its variance is pi^2 / 6.
    assert found.log_partition_error == pytest.approx(np.pi / np.sqrt(6 * 1500), rel=0.15)


@pytest.mark.parametrize("name", SEVERAL)
def test_bounds_hold_in_expectation(name):
    structure, vertices = SEVERAL[name]()
    scores = rng(3).normal(size=structure.n_coordinates)
    n = 250 if name in ("group, mixed", "partners of two") else 700
    found = perturb_and_map(structure, scores, n, rng=rng(4))
    log_z = logsumexp(vertices @ scores)
    assert found.log_partition + 4.0 * found.log_partition_error >= log_z
    assert found.calls == n
    assert found.tau.shape == scores.shape


@pytest.mark.parametrize("name", SEVERAL)
def test_every_sample_is_an_output(name):
    structure, vertices = SEVERAL[name]()
    means = []
    perturb_and_map(
        structure, np.zeros(structure.n_coordinates), 8, rng=rng(9),
        callback=lambda _, tau: means.append(tau),
    )  # fmt: skip
    sums = np.array([np.zeros(structure.n_coordinates)] + [k * t for k, t in enumerate(means, 1)])
    samples = np.diff(sums, axis=0).round(9)
    assert {tuple(y) for y in samples.tolist()} <= {tuple(v) for v in vertices.tolist()}
    assert len(np.unique(samples, axis=0)) > 1


@pytest.mark.parametrize("attraction", [0.5, 2.0])
def test_bounds_on_an_attractive_grid(attraction):
    structure, vertices = pairwise(6, grid_edges(2, 3), 2)
    fields = rng(5).normal(size=6) - attraction * structure.graph.degree / 2
    space = Labellings(6, np.array(grid_edges(2, 3)))
    scores = space.ising_scores(np.concatenate([fields, np.full(7, attraction)]))
    found = perturb_and_map(structure, scores, 1000, rng=rng(6))
    log_z = logsumexp(vertices @ scores)
    assert found.log_partition + 4.0 * found.log_partition_error >= log_z


def test_what_is_not_connected_is_exact_by_itself():
    """Without edges all nodes are single variables, whatever their number."""
    for structure, vertices in (chains([1] * 5, 3), pairwise(4, np.zeros((0, 2), int), 2)):
        scores = rng(7).normal(size=structure.n_coordinates)
        found = perturb_and_map(structure, scores, 1000, rng=rng(8))
        exact = logsumexp(vertices @ scores)
        assert abs(found.log_partition - exact) < 4.0 * found.log_partition_error
        error = np.maximum(found.standard_error, 1e-12)
        assert (np.abs(found.tau - softmax(vertices @ scores) @ vertices) <= 4.5 * error).all()


def test_nodes_without_a_choice_get_no_noise():
    """A path of four nodes has one perfect matching: nothing is random about it."""
    mask = np.array([[True, False], [True, True]])
    scores = np.array([1.0, 2.0, 3.0])
    found = perturb_and_map(bipartite_matchings.Space(mask).structure, scores, 3, rng=rng())
    np.testing.assert_array_equal(found.tau, [1.0, 0.0, 1.0])
    one_edge = perturb_and_map(LocalMatching(2), np.array([0.7]), 3, rng=rng())
    assert one_edge.log_partition == pytest.approx(0.7)
    assert one_edge.log_partition_error == pytest.approx(0.0, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["square", "group", "chains", "imperfect"]))
def test_huge_scores_give_the_best_output(seed, name):
    structure, vertices = SEVERAL[name]()
    scores = 1e6 * rng(seed).normal(size=structure.n_coordinates)
    order = np.argsort(vertices @ scores)
    found = perturb_and_map(structure, scores, 3, rng=rng(seed))
    assert np.isfinite(found.log_partition)
    if np.ptp((vertices @ scores)[order[-2:]]) > 1e3:
        np.testing.assert_array_equal(found.tau, vertices[order[-1]])
        assert abs(found.log_partition - (vertices @ scores).max()) < 100.0


def test_loops_of_many_states_still_give_labellings():
    structure, _ = pairwise(4, grid_edges(2, 2), 3)
    scores = 2.0 * rng(1).normal(size=structure.n_coordinates)
    found = perturb_and_map(structure, scores, 20, rng=rng(2))
    np.testing.assert_allclose(structure.node_marginals(found.tau).sum(axis=1), 1.0)
    np.testing.assert_allclose(structure.edge_marginals(found.tau).sum(axis=(1, 2)), 1.0)


def test_callbacks_see_the_running_mean_and_may_stop():
    structure = BipartiteMatching((4, 4))
    scores = rng(1).normal(size=16)
    seen = []

    def watch(calls, tau):
        seen.append((calls, tau))
        return calls >= 7

    found = perturb_and_map(structure, scores, 50, rng=rng(2), callback=watch)
    assert [calls for calls, _ in seen] == [1, 2, 3, 4, 5, 6, 7]
    assert found.calls == 7
    np.testing.assert_array_equal(seen[-1][1], found.tau)
    np.testing.assert_allclose(seen[0][1] @ np.ones(16), 4.0)
    again = perturb_and_map(structure, scores, 7, rng=rng(2))
    np.testing.assert_array_equal(again.tau, found.tau)
    assert again.log_partition == found.log_partition
    steps = np.diff([0 * found.tau] + [k * tau for k, (_, tau) in enumerate(seen, 1)], axis=0)
    np.testing.assert_allclose(found.standard_error, steps.std(axis=0, ddof=1) / np.sqrt(7))


def test_seeds_are_respected():
    structure, scores = LocalMatching(6), rng(1).normal(size=15)
    one, same, other = (perturb_and_map(structure, scores, 20, rng=rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.tau, same.tau)
    assert one.log_partition == same.log_partition != other.log_partition


def test_one_sample_has_no_known_error():
    found = perturb_and_map(LocalMatching(4), np.zeros(6), 1, rng=rng())
    assert found.log_partition_error == np.inf
    assert (found.standard_error == np.inf).all()


def test_other_structures_are_refused():
    class Nothing:
        n_coordinates = 2
        decode = None

    with pytest.raises(MissingCapability, match="which variables to perturb in Nothing"):
        marginals(Nothing(), np.zeros(2), "perturb")


# ---------------------------------------------------------------------- perturb and MAP
@pytest.mark.parametrize("kind", KINDS)
def test_perturbed_maxima_bound_log_z_in_expectation(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(4))
    if kind == "binary triangle":
        scores[3:] = np.abs(scores[3:])  # decoding is exact where all edges attract
    if kind in ("loopy", "binary grid"):
        pytest.skip("the decoder need not find the maximum")
    found = ask(case, scores, "perturb", n_samples=300, random_state=0)
    error = 4.5 * found.report["log_partition_standard_error"] + 1e-9
    exact = case.log_z(scores)
    assert exact <= found.log_partition + error
    check_numbers(case, found)


@pytest.mark.parametrize("kind", ["one pair or none", "one row", "one node"])
def test_perturbing_one_variable_is_sampling(kind):
    case = case_of(kind)
    scores = case.scores(np.random.default_rng(5))
    found = ask(case, scores, "perturb", n_samples=2000, random_state=1)
    error = np.maximum(found.report["standard_error"], 1e-3)
    assert (np.abs(found.tau - case.tau(scores)) <= 4.5 * error).all()
    close = 4.5 * found.report["log_partition_standard_error"]
    assert found.log_partition == pytest.approx(case.log_z(scores), abs=close)


def test_perturb_respects_seeds():
    case = case_of("square")
    scores = case.scores(np.random.default_rng(6))
    one, same, other = (
        ask(case, scores, "perturb", n_samples=20, random_state=seed) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.tau, same.tau)
    assert one.log_partition == same.log_partition != other.log_partition
