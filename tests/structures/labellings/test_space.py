"""Labellings of any graph: entropy, decoding and certified marginals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import (
    Labellings,
    averaged_trees,
    forests,
    loopy,
    random_edges,
)
from pairwise_spaces import pairwise, slack_of
from random_scores import draw_scores, kinds
from scipy.optimize import linprog, minimize_scalar

from mlestruct.structures import (
    Pairwise,
    PairwiseGraph,
    Vertex,
)

examples = settings(deadline=None, max_examples=30)


few = settings(deadline=None, max_examples=15)


scales = st.sampled_from([0.1, 1.0, 10.0, 100.0, 1000.0])


TRIANGLE = np.array([[0, 1], [1, 2], [0, 2]])


# ---------------------------------------------------------------------- entropy
@examples
@given(loopy(max_nodes=5, n_states=(2, 3)))
def test_entropy_follows_its_formula(drawn):
    space, rng = drawn
    points = [space.random_point(rng), space.random_point(rng, 1e-9), space.vertices[0]]
    structure = pairwise(space)
    for tau in points:
        found = structure.entropy(tau)
        assert found == pytest.approx(space.entropy(tau), abs=1e-9)


@examples
@given(loopy(max_nodes=5, n_states=(2, 3)))
def test_entropy_gradient_equals_finite_differences_along_feasible_directions(drawn):
    space, rng = drawn
    tau = space.random_point(rng, 0.5)
    basis = space.directions
    if basis.shape[1] == 0:
        return
    structure = pairwise(space)
    gradient = structure.entropy_gradient(tau)
    for _ in range(3):
        direction = basis @ rng.normal(size=basis.shape[1])
        step = 1e-5 * direction / np.abs(direction).max()
        rise = space.entropy(tau + step) - space.entropy(tau - step)
        along = 2.0 * step
        assert rise == pytest.approx(gradient @ along, abs=1e-10)


@examples
@given(loopy(max_nodes=6))
def test_entropy_is_concave_inside_the_tree_polytope(drawn):
    space, rng = drawn
    structure = pairwise(space)
    a, b = (space.random_point(rng, inside) for inside in (0.5, 1e-6))
    between = structure.entropy(0.5 * (a + b))
    assert between >= 0.5 * (structure.entropy(a) + structure.entropy(b)) - 1e-10


@pytest.mark.parametrize("n_states", [2, 3])
def test_gradient_stays_finite_at_labellings(n_states):
    space = Labellings(3, TRIANGLE, n_states, 2 / 3)
    structure = pairwise(space)
    assert np.isfinite(structure.entropy_gradient(space.vertices[1])).all()


@examples
@given(loopy(max_nodes=5, n_states=(2, 3)), st.sampled_from([0.1, 1.0, 30.0]))
def test_line_search_finds_what_scipy_finds(drawn, scale):
    space, rng = drawn
    tau, structure = space.random_point(rng, 0.3), pairwise(space)
    vertex = structure.decode(rng.normal(size=structure.n_coordinates)).vertex
    direction = vertex.dense(structure.n_coordinates) - tau
    linear, quadratic = scale * rng.normal(), scale * rng.uniform(0.0, 2.0)

    def loss(eta):
        moved = space.entropy(tau + eta * direction)
        return linear * eta + 0.5 * quadratic * eta**2 - moved

    stepping = structure.stepping_entropy
    _, sums = stepping.add_gradient(tau, np.zeros_like(tau))
    most = 0.999
    eta = stepping.line_search(tau, vertex, sums, linear, quadratic, 0.1, most, 1e-10)
    reference = minimize_scalar(loss, bounds=(0, most), options={"xatol": 1e-10})
    assert 0 <= eta <= most
    best = min(reference.fun, loss(0.0), loss(most))
    assert loss(eta) <= best + 1e-8 * (1 + scale)


@examples
@given(loopy(max_nodes=5, n_states=(2, 3)), st.floats(0.0, 0.9))
def test_slope_is_the_derivative_along_a_segment(drawn, eta):
    space, rng = drawn
    start, end, h = space.random_point(rng, 0.3), space.random_point(rng, 0.3), 1e-6
    ahead, behind = (space.entropy(start + (eta + step) * (end - start)) for step in (h, -h))
    structure = pairwise(space)
    tau, change = start, end - start
    found = structure.stepping_entropy.slope(tau, change, eta)
    assert found == pytest.approx((ahead - behind) / (2 * h), rel=1e-4, abs=1e-6)


@examples
@given(loopy(max_nodes=5, n_states=(2, 3)), st.sampled_from([1e-8, 0.3, 1 - 1e-6, 1 - 1e-14]))
def test_steps_stay_in_the_polytope(drawn, most):
    space, rng = drawn
    structure = pairwise(space)
    tau = structure.interior()
    assert space.infeasibility(tau) < 1e-14
    for _ in range(30):
        vertex = structure.decode(rng.normal(size=structure.n_coordinates)).vertex
        eta = most * rng.uniform(0.5, 1.0)
        target = (1 - eta) * tau + eta * vertex.dense(structure.n_coordinates)
        structure.stepping_entropy.move(tau, vertex, eta)
        np.testing.assert_allclose(tau, target, atol=1e-11)
        assert space.infeasibility(tau) < 1e-11
    assert np.isfinite(structure.entropy(tau))
    assert np.isfinite(structure.entropy_gradient(tau)).all()


# ---------------------------------------------------------------------- labellings and decoding
@examples
@given(loopy(max_nodes=5, n_states=(2, 3)))
def test_labels_become_vertices_and_back(drawn):
    space, rng = drawn
    structure = pairwise(space)
    for row in rng.choice(len(space.labels), size=4):
        vertex = structure.encode(space.labels[row])
        dense = vertex.dense(structure.n_coordinates)
        np.testing.assert_array_equal(dense, space.vertices[row])
        np.testing.assert_array_equal(structure.label(vertex), space.labels[row])


@few
@given(loopy(max_nodes=5, n_states=(2, 3)), kinds)
def test_decoding_solves_the_linear_program(drawn, kind):
    space, rng = drawn
    matrix, right = space.constraints
    structure = pairwise(space)
    scores = draw_scores(rng, structure.n_coordinates, kind)
    found = structure.decode(scores)
    program = linprog(-scores, A_eq=matrix, b_eq=right, bounds=(0, None))
    assert found.score == pytest.approx(-program.fun, abs=1e-8)
    assert found.vertex.dot(scores) == pytest.approx(found.score, abs=1e-9)
    tau = found.vertex.dense(structure.n_coordinates)
    assert space.infeasibility(tau) < 1e-9
    label = structure.best_label(scores)
    reached = space.point(label[None])[0] @ scores
    assert reached <= (space.vertices @ scores).max() + 1e-12
    # No change of a single node improves it.
    for node in range(space.n_nodes):
        for state in range(space.n_states):
            other = label.copy()
            other[node] = state
            assert space.point(other[None])[0] @ scores <= reached + 1e-9


# ---------------------------------------------------------------------- forests are exact
@examples
@given(forests(), kinds, st.sampled_from([0.1, 1.0, 10.0, 100.0]))
def test_marginals_of_forests_are_exact(drawn, kind, scale):
    space, rng = drawn
    structure = pairwise(space, "auto")
    scores = draw_scores(rng, structure.n_coordinates, kind, scale)
    found = structure.marginals(scores, tol=1e-9)
    exact, slack = space.log_partition(scores), 1e-9 + slack_of(scores)
    assert found.value == pytest.approx(exact, abs=slack)
    assert found.upper_bound == pytest.approx(exact, abs=slack)
    assert found.iterations == 1
    expected = space.exact_marginals(scores)
    atol = np.sqrt(0.5e-9) + 1e-9  # Pinsker: the gap is a Kullback-Leibler divergence
    np.testing.assert_allclose(found.tau, expected, atol=atol)
    nodes, tables = space.tables(expected)
    np.testing.assert_allclose(structure.node_marginals(found.tau), nodes, atol=atol)
    np.testing.assert_allclose(structure.edge_marginals(found.tau), tables, atol=atol)


@pytest.mark.parametrize("n_states", [2, 3, 4])
@pytest.mark.parametrize("n_nodes", [1, 2, 5])
def test_chains_and_single_nodes_are_exact(n_nodes, n_states):
    edges = np.stack([np.arange(n_nodes - 1), np.arange(1, n_nodes)], axis=1)
    for kept in (edges, edges[:0]):
        space = Labellings(n_nodes, kept, n_states)
        structure = pairwise(space)
        scores = 3.0 * np.random.default_rng(n_nodes).normal(size=structure.n_coordinates)
        found = structure.marginals(scores)
        assert found.value == pytest.approx(space.log_partition(scores), abs=1e-10)
        np.testing.assert_allclose(found.tau, space.exact_marginals(scores), atol=1e-10)


@pytest.mark.parametrize("scale", [200.0, 300.0, 600.0, 1000.0])
def test_forests_are_exact_at_extreme_scores(scale):
    space = Labellings(2, np.array([[0, 1]]), 2)
    rng = np.random.default_rng(0)
    structure = Pairwise(PairwiseGraph(2, [[0, 1]]), 2)
    for _ in range(100):
        scores = scale * rng.integers(-1, 2, size=8)
        found = structure.marginals(scores)
        exact = space.log_partition(scores)
        assert found.upper_bound == pytest.approx(exact, abs=1e-9 * scale)
        assert found.value == pytest.approx(exact, abs=1e-9 * scale)


# ---------------------------------------------------------------------- loopy graphs: bounds
@examples
@given(loopy(max_nodes=6, n_states=(2, 3)), kinds, scales, st.sampled_from(["given", "auto"]))
def test_certificate_encloses_and_bounds_the_exact_partition_function(drawn, kind, scale, rho):
    space, rng = drawn
    structure = pairwise(space, None if rho == "given" else rho)
    weights = structure.reweighting.rho
    known = Labellings(space.n_nodes, space.edges, space.n_states, weights)
    scores = draw_scores(rng, structure.n_coordinates, kind, scale)
    found = structure.marginals(scores, tol=1e-6, max_sweeps=1000 if scale <= 1 else 100)
    tau, slack = found.tau, slack_of(scores)
    assert known.infeasibility(tau) < 1e-12
    assert found.value == pytest.approx(known.objective(scores, tau), abs=1e-10 + slack)
    assert found.value <= found.upper_bound
    assert found.upper_bound >= known.log_partition(scores) - slack
    assert found.upper_bound >= known.objective(scores, known.random_point(rng)) - slack
    if scale <= 1.0:
        assert found.gap <= 1e-5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_nodes", "n_states"), [(12, 2), (7, 3)])
def test_bounds_hold_on_larger_graphs(seed, n_nodes, n_states):
    rng = np.random.default_rng(seed)
    edges = random_edges(rng, n_nodes, 0.4)
    space = Labellings(n_nodes, edges, n_states)
    for rho in ("auto", averaged_trees(rng, n_nodes, edges)):
        structure = pairwise(space, rho)
        scores = rng.normal(size=structure.n_coordinates)
        found = structure.marginals(scores, tol=1e-6)
        assert found.gap <= 1e-6
        assert found.upper_bound >= space.log_partition(scores)
        assert space.infeasibility(found.tau) < 1e-12


@few
@given(
    loopy(max_nodes=4, n_states=(2, 3)),
    st.sampled_from([0.1, 1.0, 3.0]),
    st.sampled_from(["given", "smaller", "auto"]),
)
def test_certificate_encloses_an_independent_maximum(drawn, scale, kind):
    space, rng = drawn
    if kind == "smaller":  # inside the polytope, away from its upper faces
        shrunk = space.rho * rng.uniform(0.3, 1.0, len(space.edges))
        space = Labellings(space.n_nodes, space.edges, space.n_states, shrunk)
    structure = pairwise(space, "auto" if kind == "auto" else None)
    weights = structure.reweighting.rho
    known = Labellings(space.n_nodes, space.edges, space.n_states, weights)
    scores = scale * rng.normal(size=structure.n_coordinates)
    found = structure.marginals(scores, tol=1e-8)
    best = known.best(scores)
    assert best <= found.upper_bound + 1e-9
    assert found.value <= best + 1e-9 * known.size


@pytest.mark.parametrize("value", [0.0, 1.7])
def test_equal_scores_give_uniform_marginals(value):
    # By symmetry; H of the uniform point is n log L, whatever rho.
    rng = np.random.default_rng(0)
    for n_states in (2, 3):
        edges = random_edges(rng, 6, 0.7)
        space = Labellings(6, edges, n_states, averaged_trees(rng, 6, edges))
        found = pairwise(space).marginals(np.full(space.size, value), tol=1e-10)
        expected = value * (6 + len(edges)) + 6 * np.log(n_states)
        assert found.value == pytest.approx(expected, abs=1e-9)
        assert found.upper_bound == pytest.approx(expected, abs=1e-9)
        np.testing.assert_allclose(found.tau, space.uniform(), atol=1e-9)


@few
@given(loopy(max_nodes=5, n_states=(2, 3)), st.sampled_from([0.3, 1.0]))
def test_constants_and_reparametrisations_only_shift_the_value(drawn, scale):
    # What is added to the table of an edge and taken from its node changes no labelling's score.
    space, rng = drawn
    structure = pairwise(space)
    scores = scale * rng.normal(size=space.size)
    matrix, right = space.constraints
    shift = rng.normal(size=len(right))
    one = structure.marginals(scores, tol=1e-9)
    two = structure.marginals(scores + matrix.T @ shift, tol=1e-9)
    assert two.value - right @ shift == pytest.approx(one.value, abs=1e-8)
    np.testing.assert_allclose(two.tau, one.tau, atol=1e-3)


@few
@given(loopy(max_nodes=6, n_states=(2, 3)), kinds, st.sampled_from([0.1, 1.0, 10.0]))
def test_warm_starts_agree_with_cold_ones(drawn, kind, scale):
    space, rng = drawn
    structure = pairwise(space)
    scores = draw_scores(rng, structure.n_coordinates, kind, scale)
    other = draw_scores(rng, structure.n_coordinates, kind, scale)
    cold = structure.marginals(scores, tol=1e-6)
    again = structure.marginals(scores, cold.warm, tol=1e-6)
    moved = structure.marginals(scores, structure.marginals(other).warm, tol=1e-6)
    for found in (again, moved):
        assert found.value <= cold.upper_bound + slack_of(scores)
        assert cold.value <= found.upper_bound + slack_of(scores)
    if scale <= 1.0:
        assert max(again.gap, moved.gap) <= 1e-5


def test_half_integral_vertices_are_taken_apart_correctly():
    # A frustrated triangle: every node is at one half, every pair of states differs.
    structure = Pairwise(PairwiseGraph(3, TRIANGLE), 2)
    repel = np.broadcast_to([[0.0, 0.0], [0.0, -2.0]], (3, 2, 2))
    scores = structure.from_tables(np.tile([0.0, 1.0], (3, 1)), repel)
    found = structure.decode(scores)
    assert found.score == pytest.approx(1.5)
    assert found.vertex.dot(scores) == pytest.approx(1.5)
    tau = found.vertex.dense(structure.n_coordinates)
    np.testing.assert_array_equal(structure.node_marginals(tau), 0.5)
    np.testing.assert_array_equal(structure.edge_marginals(tau), [[[0.0, 0.5], [0.5, 0.0]]] * 3)
    assert structure.label(found.vertex).tolist() == [0, 0, 0]
    assert structure.label(Vertex(np.array([1, 2, 5]), np.ones(3))).tolist() == [1, 0, 1]


@examples
@given(loopy(max_nodes=8), kinds)
def test_labellings_of_two_states_have_a_proven_gap(drawn, kind):
    space, rng = drawn
    scores, structure = draw_scores(rng, space.size, kind), pairwise(space)
    found, slack = structure.decode_integral(scores), slack_of(scores)
    best = (space.vertices @ scores).max()
    np.testing.assert_array_equal(np.unique(found.vertex.values), [1.0])
    assert found.vertex.dot(scores) == pytest.approx(found.score, abs=slack)
    assert found.score - slack <= best <= found.score + found.gap + slack
