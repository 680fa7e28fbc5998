"""Labellings in both coordinates: entropy, decoding and certified marginals."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelling_views import Minimal, Overcomplete, slack_of, views
from labellings import (
    Labellings,
    averaged_trees,
    forests,
    loopy,
    random_edges,
)
from random_scores import kinds
from scipy.optimize import linprog, minimize_scalar

from mlestruct.structures import (
    BinaryPairwise,
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
    for view in views(space):
        for tau in points:
            found = view.structure.entropy(view.drop(tau))
            assert found == pytest.approx(space.entropy(tau), abs=1e-9)


@examples
@given(loopy(max_nodes=5, n_states=(2, 3)))
def test_entropy_gradient_equals_finite_differences_along_feasible_directions(drawn):
    space, rng = drawn
    tau = space.random_point(rng, 0.5)
    basis = space.directions
    if basis.shape[1] == 0:
        return
    for view in views(space):
        gradient = view.structure.entropy_gradient(view.drop(tau))
        for _ in range(3):
            direction = basis @ rng.normal(size=basis.shape[1])
            step = 1e-5 * direction / np.abs(direction).max()
            rise = space.entropy(tau + step) - space.entropy(tau - step)
            along = view.drop(tau + step) - view.drop(tau - step)
            assert rise == pytest.approx(gradient @ along, abs=1e-10)


@examples
@given(loopy(max_nodes=6))
def test_entropy_is_concave_inside_the_tree_polytope(drawn):
    space, rng = drawn
    structure = Minimal(space).structure
    a, b = (space.drop(space.random_point(rng, inside)) for inside in (0.5, 1e-6))
    between = structure.entropy(0.5 * (a + b))
    assert between >= 0.5 * (structure.entropy(a) + structure.entropy(b)) - 1e-10


@pytest.mark.parametrize("n_states", [2, 3])
def test_gradient_stays_finite_at_labellings(n_states):
    space = Labellings(3, TRIANGLE, n_states, 2 / 3)
    for view in views(space):
        assert np.isfinite(view.structure.entropy_gradient(view.drop(space.vertices[1]))).all()


@examples
@given(loopy(max_nodes=5, n_states=(2, 3)), st.sampled_from([0.1, 1.0, 30.0]))
def test_line_search_finds_what_scipy_finds(drawn, scale):
    space, rng = drawn
    start = space.random_point(rng, 0.3)
    for view in views(space):
        structure, tau = view.structure, view.drop(start)
        vertex = structure.decode(rng.normal(size=structure.n_coordinates)).vertex
        direction = vertex.dense(structure.n_coordinates) - tau
        linear, quadratic = scale * rng.normal(), scale * rng.uniform(0.0, 2.0)

        def loss(eta, tau=tau, direction=direction, view=view, linear=linear, quadratic=quadratic):
            moved = space.entropy(view.lift(tau + eta * direction))
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
    for view in views(space):
        tau, change = view.drop(start), view.drop(end) - view.drop(start)
        found = view.structure.stepping_entropy.slope(tau, change, eta)
        assert found == pytest.approx((ahead - behind) / (2 * h), rel=1e-4, abs=1e-6)


@examples
@given(loopy(max_nodes=5, n_states=(2, 3)), st.sampled_from([1e-8, 0.3, 1 - 1e-6, 1 - 1e-14]))
def test_steps_stay_in_the_polytope(drawn, most):
    space, rng = drawn
    for view in views(space):
        structure = view.structure
        tau = structure.interior()
        assert space.infeasibility(view.lift(tau)) < 1e-14
        for _ in range(30):
            vertex = structure.decode(rng.normal(size=structure.n_coordinates)).vertex
            eta = most * rng.uniform(0.5, 1.0)
            target = (1 - eta) * tau + eta * vertex.dense(structure.n_coordinates)
            structure.stepping_entropy.move(tau, vertex, eta)
            np.testing.assert_allclose(tau, target, atol=1e-11)
            assert space.infeasibility(view.lift(tau)) < 1e-11
        assert np.isfinite(structure.entropy(tau))
        assert np.isfinite(structure.entropy_gradient(tau)).all()


# ---------------------------------------------------------------------- labellings and decoding
@examples
@given(loopy(max_nodes=5, n_states=(2, 3)))
def test_labels_become_vertices_and_back(drawn):
    space, rng = drawn
    for view in views(space):
        structure = view.structure
        for row in rng.choice(len(space.labels), size=4):
            vertex = structure.encode(space.labels[row])
            dense = view.lift(vertex.dense(structure.n_coordinates))
            np.testing.assert_array_equal(dense, space.vertices[row])
            np.testing.assert_array_equal(structure.label(vertex), space.labels[row])


@few
@given(loopy(max_nodes=5, n_states=(2, 3)), kinds)
def test_decoding_solves_the_linear_program(drawn, kind):
    space, rng = drawn
    matrix, right = space.constraints
    for view in views(space):
        scores, full = view.draw_scores(rng, kind)
        found = view.structure.decode(scores)
        program = linprog(-full, A_eq=matrix, b_eq=right, bounds=(0, None))
        assert found.score == pytest.approx(-program.fun, abs=1e-8)
        assert found.vertex.dot(scores) == pytest.approx(found.score, abs=1e-9)
        tau = view.lift(found.vertex.dense(view.structure.n_coordinates))
        assert space.infeasibility(tau) < 1e-9
        label = view.structure.best_label(scores)
        reached = space.point(label[None])[0] @ full
        assert reached <= (space.vertices @ full).max() + 1e-12
        # No change of a single node improves it.
        for node in range(space.n_nodes):
            for state in range(space.n_states):
                other = label.copy()
                other[node] = state
                assert space.point(other[None])[0] @ full <= reached + 1e-9


# ---------------------------------------------------------------------- forests are exact
@examples
@given(forests(), kinds, st.sampled_from([0.1, 1.0, 10.0, 100.0]))
def test_marginals_of_forests_are_exact(drawn, kind, scale):
    space, rng = drawn
    for view in views(space, "auto"):
        scores, full = view.draw_scores(rng, kind, scale)
        found = view.structure.marginals(scores, tol=1e-9)
        exact, slack = space.log_partition(full), 1e-9 + slack_of(full)
        assert found.value == pytest.approx(exact, abs=slack)
        assert found.upper_bound == pytest.approx(exact, abs=slack)
        assert found.iterations == 1
        expected = space.exact_marginals(full)
        atol = np.sqrt(0.5e-9) + 1e-9  # Pinsker: the gap is a Kullback-Leibler divergence
        np.testing.assert_allclose(view.lift(found.tau), expected, atol=atol)
        nodes, tables = space.tables(expected)
        np.testing.assert_allclose(view.structure.node_marginals(found.tau), nodes, atol=atol)
        np.testing.assert_allclose(view.structure.edge_marginals(found.tau), tables, atol=atol)


@pytest.mark.parametrize("n_states", [2, 3, 4])
@pytest.mark.parametrize("n_nodes", [1, 2, 5])
def test_chains_and_single_nodes_are_exact(n_nodes, n_states):
    edges = np.stack([np.arange(n_nodes - 1), np.arange(1, n_nodes)], axis=1)
    for kept in (edges, edges[:0]):
        space = Labellings(n_nodes, kept, n_states)
        for view in views(space):
            scores, full = view.draw_scores(np.random.default_rng(n_nodes), scale=3.0)
            found = view.structure.marginals(scores)
            assert found.value == pytest.approx(space.log_partition(full), abs=1e-10)
            np.testing.assert_allclose(
                view.lift(found.tau), space.exact_marginals(full), atol=1e-10
            )


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
    for view in views(space, None if rho == "given" else rho):
        weights = view.structure.reweighting.rho
        known = Labellings(space.n_nodes, space.edges, space.n_states, weights)
        scores, full = view.draw_scores(rng, kind, scale)
        found = view.structure.marginals(scores, tol=1e-6, max_sweeps=1000 if scale <= 1 else 100)
        tau, slack = view.lift(found.tau), slack_of(full)
        assert known.infeasibility(tau) < 1e-12
        assert found.value == pytest.approx(known.objective(full, tau), abs=1e-10 + slack)
        assert found.value <= found.upper_bound
        assert found.upper_bound >= known.log_partition(full) - slack
        assert found.upper_bound >= known.objective(full, known.random_point(rng)) - slack
        if scale <= 1.0:
            assert found.gap <= 1e-5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_nodes", "n_states"), [(12, 2), (7, 3)])
def test_bounds_hold_on_larger_graphs(seed, n_nodes, n_states):
    rng = np.random.default_rng(seed)
    edges = random_edges(rng, n_nodes, 0.4)
    space = Labellings(n_nodes, edges, n_states)
    for rho in ("auto", averaged_trees(rng, n_nodes, edges)):
        for view in views(space, rho):
            scores, full = view.draw_scores(rng)
            found = view.structure.marginals(scores, tol=1e-6)
            assert found.gap <= 1e-6
            assert found.upper_bound >= space.log_partition(full)
            assert space.infeasibility(view.lift(found.tau)) < 1e-12


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
    for view in views(space, "auto" if kind == "auto" else None):
        weights = view.structure.reweighting.rho
        known = Labellings(space.n_nodes, space.edges, space.n_states, weights)
        scores, full = view.draw_scores(rng, scale=scale)
        found = view.structure.marginals(scores, tol=1e-8)
        best = known.best(full)
        assert best <= found.upper_bound + 1e-9
        assert found.value <= best + 1e-9 * known.size


@pytest.mark.parametrize("value", [0.0, 1.7])
def test_equal_scores_give_uniform_marginals(value):
    # By symmetry; H of the uniform point is n log L, whatever rho.
    rng = np.random.default_rng(0)
    for n_states in (2, 3):
        edges = random_edges(rng, 6, 0.7)
        space = Labellings(6, edges, n_states, averaged_trees(rng, 6, edges))
        view = Overcomplete(space)
        found = view.structure.marginals(np.full(space.size, value), tol=1e-10)
        expected = value * (6 + len(edges)) + 6 * np.log(n_states)
        assert found.value == pytest.approx(expected, abs=1e-9)
        assert found.upper_bound == pytest.approx(expected, abs=1e-9)
        np.testing.assert_allclose(found.tau, space.uniform(), atol=1e-9)


@few
@given(loopy(max_nodes=5, n_states=(2, 3)), st.sampled_from([0.3, 1.0]))
def test_constants_and_reparametrisations_only_shift_the_value(drawn, scale):
    # What is added to the table of an edge and taken from its node changes no labelling's score.
    space, rng = drawn
    structure = Overcomplete(space).structure
    scores = scale * rng.normal(size=space.size)
    matrix, right = space.constraints
    shift = rng.normal(size=len(right))
    one = structure.marginals(scores, tol=1e-9)
    two = structure.marginals(scores + matrix.T @ shift, tol=1e-9)
    assert two.value - right @ shift == pytest.approx(one.value, abs=1e-8)
    np.testing.assert_allclose(two.tau, one.tau, atol=1e-3)


def test_two_states_in_both_coordinates_are_the_same():
    rng = np.random.default_rng(5)
    edges = random_edges(rng, 7, 0.5)
    space = Labellings(7, edges, 2, averaged_trees(rng, 7, edges))
    minimal, full = views(space)
    scores, lifted = minimal.draw_scores(rng)
    one = minimal.structure.marginals(scores, tol=1e-10)
    two = full.structure.marginals(lifted, tol=1e-10)
    assert one.value == pytest.approx(two.value, abs=1e-9)
    np.testing.assert_allclose(space.lift(one.tau), two.tau, atol=1e-6)
    assert minimal.structure.entropy(one.tau) == pytest.approx(
        full.structure.entropy(space.lift(one.tau)), abs=1e-10
    )


@few
@given(loopy(max_nodes=6, n_states=(2, 3)), kinds, st.sampled_from([0.1, 1.0, 10.0]))
def test_warm_starts_agree_with_cold_ones(drawn, kind, scale):
    space, rng = drawn
    for view in views(space):
        scores, full = view.draw_scores(rng, kind, scale)
        other, _ = view.draw_scores(rng, kind, scale)
        cold = view.structure.marginals(scores, tol=1e-6)
        again = view.structure.marginals(scores, cold.warm, tol=1e-6)
        moved = view.structure.marginals(scores, view.structure.marginals(other).warm, tol=1e-6)
        for found in (again, moved):
            assert found.value <= cold.upper_bound + slack_of(full)
            assert cold.value <= found.upper_bound + slack_of(full)
        if scale <= 1.0:
            assert max(again.gap, moved.gap) <= 1e-5


def test_half_integral_vertices_are_taken_apart_correctly():
    # A frustrated triangle: every node is at one half.
    structure = BinaryPairwise(PairwiseGraph(3, TRIANGLE))
    found = structure.decode(np.array([1.0, 1.0, 1.0, -2.0, -2.0, -2.0]))
    assert found.score == pytest.approx(1.5)
    assert found.vertex.values.tolist() == [0.5, 0.5, 0.5]
    assert structure.label(found.vertex).tolist() == [0, 0, 0]
    assert structure.label(Vertex(np.array([1]), np.ones(1))).tolist() == [0, 1, 0]


def test_binary_scores_count_from_the_labelling_of_zeros():
    """Any tables of a binary model: the score of each labelling, state by state."""
    rng = np.random.default_rng(6)
    graph = PairwiseGraph(4, np.array([[0, 1], [2, 1], [2, 3], [0, 3]]))
    space = BinaryPairwise(graph)
    nodes, tables = rng.normal(size=(4, 2)), rng.normal(size=(4, 2, 2))
    scores, constant = space.from_score_tables(nodes, tables)
    for label in product((0, 1), repeat=4):
        label = np.array(label)
        tail, head = label[graph.tail], label[graph.head]
        expected = nodes[np.arange(4), label].sum() + tables[np.arange(4), tail, head].sum()
        assert constant + space.encode(label).dot(scores) == pytest.approx(expected)
    with pytest.raises(ValueError, match="tables must be finite"):
        space.from_score_tables(nodes, np.where(tables < 0.0, -np.inf, tables))
