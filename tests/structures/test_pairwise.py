"""Pairwise output spaces: graphs, rho, entropy, decoding and certified marginals."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import (
    Labellings,
    averaged_trees,
    forests,
    grid_edges,
    loopy,
    n_components,
    random_edges,
)
from random_scores import draw_scores, kinds
from scipy.optimize import linprog, minimize_scalar

from mlestruct.structures import (
    BinaryPairwise,
    Grid,
    Pairwise,
    PairwiseGraph,
    Reweighting,
    Vertex,
    grid,
    reweighting,
)

examples = settings(deadline=None, max_examples=30)
few = settings(deadline=None, max_examples=15)
scales = st.sampled_from([0.1, 1.0, 10.0, 100.0, 1000.0])
TRIANGLE = np.array([[0, 1], [1, 2], [0, 2]])


class Minimal:
    """`BinaryPairwise` seen in overcomplete coordinates, to test it like `Pairwise`."""

    def __init__(self, space, rho=None):
        self.space = space
        graph = PairwiseGraph(space.n_nodes, space.edges)
        self.structure = BinaryPairwise(graph, space.rho if rho is None else rho)

    def draw_scores(self, rng, kind="normal", scale=1.0):
        """Scores for the structure, and the same for the enumeration."""
        scores = draw_scores(rng, self.structure.n_coordinates, kind, scale)
        return scores, self.space.lift_scores(scores)

    def lift(self, tau):
        return self.space.lift(tau)

    def drop(self, tau):
        return self.space.drop(tau)


class Overcomplete:
    """`Pairwise`, with the same methods."""

    def __init__(self, space, rho=None):
        self.space = space
        graph = PairwiseGraph(space.n_nodes, space.edges)
        self.structure = Pairwise(graph, space.n_states, space.rho if rho is None else rho)

    def draw_scores(self, rng, kind="normal", scale=1.0):
        scores = draw_scores(rng, self.structure.n_coordinates, kind, scale)
        return scores, scores

    def lift(self, tau):
        return tau

    def drop(self, tau):
        return tau


def views(space, rho=None):
    """Both structures over the same labellings, where there are both."""
    both = [Minimal, Overcomplete] if space.n_states == 2 else [Overcomplete]
    return [view(space, rho) for view in both]


def slack_of(scores):
    """What rounding may do to sums of these scores."""
    return 1e-12 * (1.0 + np.abs(scores).sum())


# ---------------------------------------------------------------------- graphs
@examples
@given(loopy(max_nodes=7))
def test_graphs_know_their_degrees_and_components(drawn):
    nx = pytest.importorskip("networkx")
    space, _ = drawn
    graph = PairwiseGraph(space.n_nodes, space.edges)
    reference = nx.Graph(space.edges.tolist())
    reference.add_nodes_from(range(space.n_nodes))
    assert graph.degree.tolist() == [reference.degree(n) for n in range(space.n_nodes)]
    assert graph.n_components == nx.number_connected_components(reference)
    assert graph.is_forest == (len(space.edges) == 0 or nx.is_forest(reference))
    states = np.arange(space.n_nodes) % 2
    assert graph.both(states).tolist() == [int(states[i] and states[j]) for i, j in space.edges]


@pytest.mark.parametrize("neighbours", [4, 8])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (2, 2), (3, 4)])
def test_grids_list_their_edges_by_direction(shape, neighbours):
    found = Grid(*shape, neighbours)
    expected = grid_edges(*shape, neighbours)
    np.testing.assert_array_equal(np.stack([found.tail, found.head], axis=1), expected)
    assert found.n_edges == len(expected) == sum(found.direction_sizes)
    assert found.n_components == 1
    assert found.is_forest == (len(expected) == found.n_nodes - 1)
    states = np.random.default_rng(0).integers(2, size=found.n_nodes)
    np.testing.assert_array_equal(
        found.both(states), PairwiseGraph(found.n_nodes, expected).both(states)
    )
    assert grid(*shape, neighbours) is grid(*shape, neighbours)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 1], [2, 2]], "edge 1 joins node 2 to itself"),
        ([[0, 1], [1, 0]], "more than once"),
        ([[0, 1], [0, 3]], r"edge 1 is \(0, 3\); nodes are 0 to 2"),
        ([[-1, 1]], r"edge 0 is \(-1, 1\)"),
        ([[0, 1, 2]], r"expected shape \(n_edges, 2\)"),
        ([[0.5, 1.0]], "nodes must be integers"),
        ([["a", "b"]], "nodes must be integers"),
    ],
)
def test_bad_edges_are_named(edges, message):
    with pytest.raises(ValueError, match=f"edges: .*{message}"):
        PairwiseGraph(3, edges)


def test_grids_have_4_or_8_neighbours():
    with pytest.raises(ValueError, match="neighbours: expected 4 or 8, got 6"):
        Grid(2, 2, 6)


# ---------------------------------------------------------------------- rho
@pytest.mark.parametrize(
    ("rho", "message"),
    [
        (np.full(2, 0.5), r"rho: expected a number or shape \(3,\), got \(2,\)"),
        (np.full((3, 1), 0.5), r"rho: expected a number or shape \(3,\)"),
        (
            np.array([0.5, np.nan, 0.5]),
            r"rho: every edge needs a weight from 0.0001 to 1, found nan",
        ),
        (np.array([0.5, 0.0, 0.5]), "found 0.0"),
        (np.array([0.5, -0.2, 0.5]), "found -0.2"),
        (np.array([0.5, 1.1, 0.5]), "found 1.1"),
        (0.0, "found 0.0"),
        (-1.0, "found -1.0"),
        (np.nan, "found nan"),
        ("bethe", "rho: expected 'auto', 'uniform', a number or an array, got 'bethe'"),
    ],
)
def test_bad_rho_is_refused(rho, message):
    with pytest.raises(ValueError, match=message):
        BinaryPairwise(PairwiseGraph(3, TRIANGLE), rho)


def test_rho_outside_the_polytope_warns_and_has_no_bound():
    graph = PairwiseGraph(3, TRIANGLE)
    for rho in (1.0, 0.7, np.array([1.0, 1.0, 0.1])):
        with pytest.warns(UserWarning, match="outside the spanning-tree polytope"):
            assert not reweighting(graph, rho).is_concave
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rho in (2 / 3, 0.1, np.array([1.0, 0.5, 0.5]), "uniform", "auto"):
            assert reweighting(graph, rho).is_concave
        for edges in (TRIANGLE[:2], np.zeros((0, 2))):  # forests allow everything up to 1
            assert reweighting(PairwiseGraph(3, edges), 1.0).is_concave


def test_without_a_bound_marginals_are_feasible_and_attain_their_value():
    space = Labellings(3, TRIANGLE, 2, 1.0)
    with pytest.warns(UserWarning, match="outside the spanning-tree polytope"):
        both = views(space)
    rng = np.random.default_rng(0)
    for view in both:
        scores, full = view.draw_scores(rng)
        found = view.structure.marginals(scores)
        tau = view.lift(found.tau)
        assert space.infeasibility(tau) < 1e-12
        assert found.value == pytest.approx(space.objective(full, tau), abs=1e-10)


def test_auto_takes_one_on_forests_halves_on_grids_and_else_uniform():
    assert (reweighting(grid(1, 5)).rho == 1.0).all()
    assert (reweighting(PairwiseGraph(4, [[0, 1], [2, 3]])).rho == 1.0).all()
    assert (reweighting(grid(3, 4)).rho == 0.5).all()
    np.testing.assert_allclose(reweighting(PairwiseGraph(3, TRIANGLE)).rho, 2 / 3)
    eight = reweighting(grid(3, 3, 8))
    np.testing.assert_allclose(eight.rho, reweighting(grid(3, 3, 8), "uniform").rho)
    assert eight.rho.sum() == pytest.approx(8.0)  # Kirchhoff: as many as a tree has edges


@examples
@given(loopy(max_nodes=7), st.sampled_from(["given", "uniform"]))
def test_rho_splits_into_at_most_one_per_node(drawn, kind):
    space, _ = drawn
    graph = PairwiseGraph(space.n_nodes, space.edges)
    found = reweighting(graph, space.rho if kind == "given" else "uniform")
    np.testing.assert_allclose(found.into_tail + found.into_head, found.rho, atol=1e-12)
    assert min(found.into_tail.min(initial=0), found.into_head.min(initial=0)) >= -1e-12
    into = np.bincount(graph.tail, found.into_tail, graph.n_nodes)
    into += np.bincount(graph.head, found.into_head, graph.n_nodes)
    assert (into <= 1 + 1e-9).all()
    at_node = [found.rho[(space.edges == n).any(axis=1)].sum() for n in range(space.n_nodes)]
    np.testing.assert_allclose(found.counting, 1 - np.array(at_node), atol=1e-12)
    if kind == "uniform":
        rank = space.n_nodes - n_components(space.n_nodes, space.edges)
        assert found.rho.sum() == pytest.approx(rank, abs=1e-9)


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
@given(loopy(max_nodes=6, n_states=(2, 3)), kinds, scales, st.sampled_from(["given", "uniform"]))
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
    for rho in ("uniform", averaged_trees(rng, n_nodes, edges)):
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
    st.sampled_from(["given", "smaller", "uniform"]),
)
def test_certificate_encloses_an_independent_maximum(drawn, scale, kind):
    space, rng = drawn
    if kind == "smaller":  # inside the polytope, away from its upper faces
        shrunk = space.rho * rng.uniform(0.3, 1.0, len(space.edges))
        space = Labellings(space.n_nodes, space.edges, space.n_states, shrunk)
    for view in views(space, "uniform" if kind == "uniform" else None):
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


# ---------------------------------------------------------------------- grids
def halves(height, width, rho=0.5):
    """The same grid and rho without the fast path."""
    graph = PairwiseGraph(height * width, grid_edges(height, width))
    return BinaryPairwise(graph, np.full(graph.n_edges, rho))


@examples
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1).map(np.random.default_rng),
    kinds,
    st.sampled_from([0.1, 1.0, 3.0]),
)
def test_grids_agree_with_the_general_oracle(height, width, rng, kind, scale):
    fast = BinaryPairwise(grid(height, width), 0.5)
    assert fast.reweighting.rows_and_columns
    general = halves(height, width)
    assert not general.reweighting.rows_and_columns
    scores = draw_scores(rng, fast.n_coordinates, kind, scale)
    one, two = (s.marginals(scores, tol=1e-9) for s in (fast, general))
    space = Labellings(height * width, grid_edges(height, width), 2, 0.5)
    full = space.lift_scores(scores)
    slack = slack_of(scores)
    assert one.value <= two.upper_bound + slack
    assert two.value <= one.upper_bound + slack
    assert max(one.value, two.value) <= min(one.upper_bound, two.upper_bound) + slack
    assert one.upper_bound >= space.log_partition(full) - slack
    assert space.infeasibility(space.lift(one.tau)) < 1e-12
    attained = space.objective(full, space.lift(one.tau))
    assert one.value - slack <= attained <= one.upper_bound + slack
    if scale <= 1.0:
        assert max(one.gap, two.gap) <= 1e-8
        np.testing.assert_allclose(one.tau, two.tau, atol=1e-4)


def test_an_explicit_reweighting_is_taken_as_it_is():
    graph = grid(3, 4)
    weights = Reweighting(graph, np.full(17, 0.5), np.full(17, 0.25), np.full(17, 0.25))
    structure = BinaryPairwise(graph, weights)
    assert structure.reweighting is weights
    scores = np.random.default_rng(0).normal(size=structure.n_coordinates)
    one, two = structure.marginals(scores), BinaryPairwise(graph).marginals(scores)
    assert one.value == pytest.approx(two.value, abs=2e-6)


@pytest.mark.parametrize(
    ("node_scale", "edge_scale"), [(0.0, 0.0), (1.0, 1.0), (149.0, 1.0), (151.0, 1.0), (1.0, 60.0)]
)
def test_grids_beyond_the_linear_domain_keep_their_certificate(node_scale, edge_scale):
    rng = np.random.default_rng(1)
    height, width = 3, 4
    scores = np.concatenate(
        [node_scale * rng.uniform(-1, 1, 12), edge_scale * rng.uniform(-1, 1, 17)]
    )
    scores[0], scores[12] = node_scale, edge_scale  # at the limit
    space = Labellings(12, grid_edges(height, width), 2, 0.5)
    full = space.lift_scores(scores)
    for structure in (BinaryPairwise(grid(height, width)), halves(height, width)):
        found = structure.marginals(scores, tol=1e-6)
        assert found.upper_bound >= space.log_partition(full) - slack_of(scores)
        attained = space.objective(full, space.lift(found.tau))
        assert found.value - slack_of(scores) <= attained <= found.upper_bound + slack_of(scores)
        assert space.infeasibility(space.lift(found.tau)) < 1e-12


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
        structure = BinaryPairwise(grid(height, width))
        for _ in range(10):
            signs = rng.choice([-1.0, -0.5, 0.5, 1.0], size=len(edges))
            scores = ising(height, width, coupling * signs, rng.normal(size=height * width))
            found = structure.marginals(scores, tol=1e-6, max_sweeps=60)
            full, slack = space.lift_scores(scores), slack_of(scores)
            assert np.isfinite(found.tau).all()
            attained = space.objective(full, space.lift(found.tau))
            assert found.value <= attained + slack
            assert attained <= found.upper_bound + slack
            if height * width <= 9:
                assert found.upper_bound >= space.log_partition(full) - slack


@pytest.mark.parametrize("scale", [0.3, 3.0, 10.0])
def test_the_bound_of_a_grid_never_rises(scale):
    structure = BinaryPairwise(grid(6, 5))
    scores = scale * np.random.default_rng(2).normal(size=structure.n_coordinates)
    bounds = [
        structure.marginals(scores, tol=0.0, max_sweeps=sweeps).upper_bound
        for sweeps in (1, 2, 3, 5, 10, 30, 100)
    ]
    assert (np.diff(bounds) <= slack_of(scores)).all()


def test_warm_starts_of_grids_agree_and_are_quicker():
    structure = BinaryPairwise(grid(12, 9))
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
        structure = BinaryPairwise(grid(size, size))
        scores = np.random.default_rng(0).normal(size=structure.n_coordinates)
        found = structure.marginals(scores, tol=tol)
        assert found.gap <= tol
        nodes, tables = structure.node_marginals(found.tau), structure.edge_marginals(found.tau)
        np.testing.assert_allclose(tables.sum(axis=2), nodes[structure.graph.tail], atol=1e-12)
        np.testing.assert_allclose(tables.sum(axis=1), nodes[structure.graph.head], atol=1e-12)


@pytest.mark.parametrize("n_states", [2, 3])
def test_uniform_weights_bound_grids_too(n_states):
    height, width = (3, 4) if n_states == 2 else (2, 3)
    rng = np.random.default_rng(0)
    for neighbours in (4, 8):
        edges = grid_edges(height, width, neighbours)
        space = Labellings(height * width, edges, n_states)
        for rho in ("auto", "uniform"):
            structure = Pairwise(grid(height, width, neighbours), n_states, rho)
            scores = rng.normal(size=structure.n_coordinates)
            found = structure.marginals(scores, tol=1e-6)
            assert found.upper_bound >= space.log_partition(scores)
            assert found.gap <= 1e-6


def test_half_integral_vertices_are_taken_apart_correctly():
    # A frustrated triangle: every node is at one half.
    structure = BinaryPairwise(PairwiseGraph(3, TRIANGLE))
    found = structure.decode(np.array([1.0, 1.0, 1.0, -2.0, -2.0, -2.0]))
    assert found.score == pytest.approx(1.5)
    assert found.vertex.values.tolist() == [0.5, 0.5, 0.5]
    assert structure.label(found.vertex).tolist() == [0, 0, 0]
    assert structure.label(Vertex(np.array([1]), np.ones(1))).tolist() == [0, 1, 0]


def test_state_of_a_large_image_stays_small():
    graph = grid(200, 200)
    structure = BinaryPairwise(graph)
    found = structure.marginals(np.zeros(structure.n_coordinates))
    assert found.tau.nbytes + found.warm.nbytes < 3_000_000
