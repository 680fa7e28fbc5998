"""Matchings in general graphs, over the local and over the matching polytope."""

import numpy as np
import pytest
from graph_matchings import (
    Space,
    complete,
    from_edges,
    log_matchings,
    matching_spaces,
    random_mask,
    two_triangles,
    with_perfect_matching,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_scores import draw_scores, generators, kinds
from scipy.optimize import approx_fprime

from mlestruct.inference import log_partition_bounds
from mlestruct.structures import LocalMatching, MatchingPolytope
from mlestruct.structures.graphs.simple import SimpleGraph

examples = settings(deadline=None, max_examples=30)


few = settings(deadline=None, max_examples=20)


scales = st.sampled_from([0.1, 1.0, 5.0, 20.0, 100.0])


FLAT_GAP = 0.1  # of Frank-Wolfe, where the local optimum is not a mixture of matchings


def check_enclosure(found, low, high, slack):
    """The certificate [value, upper_bound] against the true optimum, known to [low, high]."""
    assert found.value <= high + slack
    assert found.upper_bound >= low - slack


# ---------------------------------------------------------------------- entropy
@examples
@given(matching_spaces(), generators)
def test_entropy_follows_the_formula_at_any_feasible_point(space, rng):
    for concentration in (0.05, 1.0, 10.0):
        tau = space.random_point(rng, concentration, space.halves)
        varies = space.local_varies()
        assert space.local.entropy(tau) == pytest.approx(space.entropy(tau, varies), abs=1e-11)
        tau = space.random_point(rng, concentration)
        assert space.exact.entropy(tau) == pytest.approx(space.entropy(tau), abs=1e-11)


@examples
@given(matching_spaces(), generators)
def test_gradient_is_the_slope_of_the_entropy_and_zero_where_fixed(space, rng):
    for structure, points in ((space.local, space.halves), (space.exact, space.vertices)):
        varies = np.ptp(points, axis=0) > 0
        tau = 0.5 * points.mean(axis=0) + 0.5 * space.random_point(rng, 3.0, points)
        gradient = structure.entropy_gradient(tau)
        expected = approx_fprime(tau, space.entropy, 1e-8 * varies + 1e-300 * ~varies)[varies]
        np.testing.assert_allclose(gradient[varies], expected, atol=2e-5, rtol=1e-5)
        assert not gradient[~varies].any()


@examples
@given(matching_spaces(), generators)
def test_entropy_is_concave_on_the_local_polytope(space, rng):
    entropy = space.local.entropy
    for concentration in (0.1, 1.0):
        x, y = (space.random_point(rng, concentration, space.halves) for _ in range(2))
        for s in (0.01, 0.3, 0.5, 0.9):
            chord = (1 - s) * entropy(x) + s * entropy(y)
            assert entropy((1 - s) * x + s * y) >= chord - 1e-10


# ---------------------------------------------------------------------- marginals
@settings(deadline=None, max_examples=80)
@given(matching_spaces(), generators, kinds, scales)
def test_local_certificate_encloses_the_optimum(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    found = space.local.marginals(scores, tol=1e-8)
    slack = 1e-8 * (1 + scale)
    low, high, _ = space.local_optimum(scores)
    check_enclosure(found, low, high, slack)
    # With single nodes at rho = 1 and huge scores the bound may stay open a little.
    hard = 1e-5 * scale if space.free.any() and space.rhos.max() > 0.99 and scale > 10 else 0.0
    assert found.gap <= 1e-8 + slack + hard
    assert space.infeasibility(found.tau) <= 1e-8
    objective = space.objective(scores, found.tau, space.halves)
    assert found.value == pytest.approx(objective, abs=1e-6 + slack)
    fixed = ~space.local_varies()
    assert np.array_equal(found.tau[fixed], space.halves[0][fixed])


@examples
@given(matching_spaces(), generators, scales)
def test_warm_start_leads_to_the_same_answer(space, rng, scale):
    scores = scale * rng.normal(size=space.size)
    elsewhere = space.local.marginals(scores + 0.3 * scale * rng.normal(size=space.size))
    cold, warm = (space.local.marginals(scores, start) for start in (None, elsewhere.warm))
    again = space.local.marginals(scores, cold.warm)
    slack = 1e-7 * (1 + scale)
    for found in (warm, again):
        assert found.value == pytest.approx(cold.value, abs=slack)
        assert found.upper_bound == pytest.approx(cold.upper_bound, abs=slack)
        assert space.infeasibility(found.tau) <= 1e-8


@examples
@given(matching_spaces(), generators, scales)
def test_edge_dual_and_double_cover_agree(space, rng, scale):
    structure = space.local
    assume(not structure.is_fixed)
    scores = scale * rng.normal(size=space.size)
    one = structure.marginals(scores, tol=1e-8)
    two = structure._marginals_of_cover(scores, None, float(scores @ structure.fixed), 1e-8)
    slack = 1e-8 * (1 + scale)
    assert one.value == pytest.approx(two.value, abs=2e-8 + slack)
    assert one.upper_bound == pytest.approx(two.upper_bound, abs=2e-8 + slack)
    assert space.infeasibility(two.tau) <= 1e-8


def test_warm_odd_sets_of_other_scores_leave_the_answer():
    """A triangle among few edges, at scores where most sets do not matter."""
    mask = np.zeros((6, 6), dtype=bool)
    for i, j in ((0, 1), (0, 2), (0, 3), (1, 5), (2, 3)):
        mask[i, j] = mask[j, i] = True
    space = Space(mask, perfect=False, rho=0.5, capacity=1)
    scores = np.full(space.size, -150.0)
    first = space.exact.marginals(scores, tol=1e-6)
    again = space.exact.marginals(scores + 1e-3, first.warm, tol=1e-6)
    assert space.distance_from_hull(again.tau) <= 1e-8
    assert again.gap <= 1e-5


@settings(deadline=None, max_examples=60)
@given(matching_spaces(), generators, kinds, scales)
def test_exact_certificate_encloses_the_optimum_over_mixtures(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    found = space.exact.marginals(scores, tol=1e-6)
    slack = 1e-8 * (1 + scale)
    low, high, _ = space.exact_optimum(scores)
    check_enclosure(found, low, high, slack)
    assert found.gap <= FLAT_GAP
    assert space.distance_from_hull(found.tau) <= 1e-8
    objective = space.objective(scores, found.tau, space.vertices)
    assert found.value == pytest.approx(objective, abs=1e-6 + slack)
    warm = space.exact.marginals(scores + 1e-3, found.warm, tol=1e-6)
    low, high, _ = space.exact_optimum(scores + 1e-3)
    check_enclosure(warm, low, high, slack)
    assert space.distance_from_hull(warm.tau) <= 1e-8


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("n", [4, 10, 60, 400])
def test_equal_scores_have_their_closed_form(n, rho):
    # The optimum can be taken symmetric, by concavity: tau = 1/(n-1).
    t = 1 / (n - 1)
    edge = (2 * rho - 1) * (1 - t) * np.log(1 - t) - t * np.log(t)
    expected = 0.5 * n * 0.7 + 0.5 * n * (n - 1) * edge
    space = complete(n, rho=rho)
    for structure in (space.local, space.exact):
        found = structure.marginals(np.full(space.size, 0.7), tol=1e-8)
        assert found.value - 1e-9 <= expected <= found.upper_bound + 1e-9
        assert found.gap <= 1e-8
        if rho < 1:
            np.testing.assert_allclose(found.tau, t, atol=1e-4)


@pytest.mark.parametrize("rho", [0.5, 0.75, 0.95, 1.0])
@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("density", [0.15, 1.0])
def test_requested_gap_is_reached_on_larger_graphs(rho, perfect, density):
    rng = np.random.default_rng(0)
    n = 40
    mask = with_perfect_matching(rng, random_mask(rng, n, density))
    space = Space(mask, perfect, rho)
    direction = rng.normal(size=space.size)
    for scale in (0.1, 1.0, 5.0, 20.0):
        found = space.local.marginals(scale * direction, tol=1e-6)
        assert found.gap <= 1e-6, scale
        assert space.infeasibility(found.tau) <= 1e-8
        objective = scale * direction @ found.tau + space.entropy(np.clip(found.tau, 0, 1))
        assert found.value == pytest.approx(objective, abs=1e-6)


# ---------------------------------------------------------------------- bounds by theorem
@settings(deadline=None, max_examples=25)
@given(st.integers(2, 10), st.booleans(), generators, scales)
def test_reweighted_value_bounds_the_partition_function_of_all_pairs(n, perfect, rng, scale):
    n += n % 2 if perfect else 0
    space = complete(n, perfect, 0.5)
    scores = scale * rng.normal(size=space.size)
    weights = np.zeros((n, n))
    weights[space.edges[:, 0], space.edges[:, 1]] = scores[: space.n_edges]
    exact = log_matchings(weights + weights.T, None if perfect else scores[space.n_edges :])
    slack = 1e-9 * (1 + abs(exact))
    for structure in (space.local, space.exact):
        found = structure.marginals(scores, tol=1e-7)
        assert found.upper_bound >= exact - slack
        assert found.value >= exact - found.gap - slack


@settings(deadline=None, max_examples=50)
@given(matching_spaces(rho=st.just(0.5)), generators, kinds, scales)
def test_reweighted_value_bounds_the_partition_function_of_any_graph(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    exact = space.log_partition(scores)
    slack = 1e-9 * (1 + abs(exact))
    for structure in (space.local, space.exact):
        assert structure.marginals(scores, tol=1e-7).upper_bound >= exact - slack


@pytest.mark.slow  # thewalrus compiles for most of a minute
def test_reweighted_value_bounds_the_hafnian():
    walrus = pytest.importorskip("thewalrus")
    rng = np.random.default_rng(0)
    for n in (4, 8, 12):
        weights = np.triu(rng.normal(size=(n, n)), 1)
        weights += weights.T
        upper = np.triu_indices(n, 1)
        exact = np.log(walrus.hafnian(np.exp(weights), method="recursive"))
        assert log_matchings(weights) == pytest.approx(exact, abs=1e-9)
        for structure in (complete(n, rho=0.5).local, complete(n, rho=0.5).exact):
            assert structure.marginals(weights[upper]).upper_bound >= exact - 1e-9
        single = rng.normal(size=n)
        matrix = np.exp(weights)
        np.fill_diagonal(matrix, np.exp(single))
        exact = np.log(walrus.hafnian(matrix, loop=True, method="inclexcl").real)
        assert log_matchings(weights, single) == pytest.approx(exact, abs=1e-9)
        scores = np.concatenate([weights[upper], single])
        for structure in (complete(n, False, 0.5).local, complete(n, False, 0.5).exact):
            assert structure.marginals(scores).upper_bound >= exact - 1e-9


def test_bethe_is_no_lower_bound_on_general_graphs():
    space = from_edges(6, two_triangles(), rho=1.0)
    scores = np.where((space.edges == [2, 3]).all(axis=1), -3.8, 0.0)
    exact = space.log_partition(scores)
    assert exact == pytest.approx(-3.8)
    found = space.local.marginals(scores)
    assert found.gap <= 1e-7
    assert found.value > exact + 3.0
    # The only perfect matching is all there is over the matching polytope.
    assert space.exact.marginals(scores).value == pytest.approx(exact)


@few
@given(st.integers(2, 8), generators, scales)
def test_bethe_is_exact_on_trees(n, rng, scale):
    nx = pytest.importorskip("networkx")
    tree = nx.random_labeled_tree(n, seed=int(rng.integers(2**31)))
    space = Space(nx.to_numpy_array(tree) > 0, perfect=False)
    scores = scale * rng.normal(size=space.size)
    exact = space.log_partition(scores)
    for structure in (space.local, space.exact):
        found = structure.marginals(scores, tol=1e-8)
        assert found.value <= exact + 1e-8 * (1 + scale)
        assert found.upper_bound >= exact - 1e-8 * (1 + scale)
        assert found.gap <= 1e-8 * (1 + scale)
        np.testing.assert_allclose(found.tau, space.exact_marginals(scores), atol=1e-3)


# ---------------------------------------------------------------------- decoding
@settings(deadline=None, max_examples=60)
@given(matching_spaces(), generators, kinds, scales)
def test_decoders_are_optimal_and_their_vertices_feasible(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    slack = 1e-9 * (1 + scale)
    local, exact = space.local.decode(scores), space.exact.decode(scores)
    integral = space.local.decode_integral(scores)
    assert local.score == pytest.approx(space.best_local(scores), abs=slack)
    assert exact.score == pytest.approx(space.best_score(scores), abs=slack)
    assert integral.score == pytest.approx(space.best_score(scores), abs=slack)
    for found in (local, exact, integral):
        tau = found.vertex.dense(space.size)
        assert space.infeasibility(tau) == 0
        assert found.score == pytest.approx(scores @ tau, abs=slack)
        assert np.unique(found.vertex.indices).size == found.vertex.indices.size
        if found is not local:
            assert set(tau) <= {0.0, 1.0}
    warm = space.local.decode(scores, local.prices)
    assert warm.score == pytest.approx(local.score, abs=slack)


@examples
@given(matching_spaces(max_nodes=5))
def test_labels_survive_encoding(space):
    for structure in (space.local, space.exact):
        for tau in space.vertices:
            partner = np.full(space.n, -1)
            for i, j in space.edges[tau[: space.n_edges] == 1]:
                partner[i], partner[j] = j, i
            vertex = structure.encode(partner)
            assert np.array_equal(vertex.dense(space.size), tau)
            assert np.array_equal(structure.label(vertex), partner)
            pairs = space.edges[tau[: space.n_edges] == 1]
            assert np.array_equal(structure.encode(pairs).dense(space.size), tau)


def test_labels_that_are_no_matchings_are_refused():
    graph = SimpleGraph.from_edges(4, [(0, 1), (1, 2), (2, 3), (0, 3)])[0]
    structure = Space(np.ones((4, 4), bool) ^ np.eye(4, dtype=bool)).local
    with pytest.raises(ValueError, match="0 with 2, not allowed"):
        type(structure)(graph).encode([2, 3, 0, 1])
    with pytest.raises(ValueError, match=r"node 2 has 0 partners, it must have exactly 1"):
        structure.encode([1, 0, -1, -1])
    with pytest.raises(ValueError, match="node 0 has 2 partners, it must have exactly 1"):
        structure.encode([(0, 1), (0, 2)])


@examples
@given(matching_spaces(), generators)
def test_hamming_loss_counts_nodes_with_another_partner(space, rng):
    truth, other = space.vertices[rng.integers(len(space.vertices), size=2)]
    vertex = space.local.encode(space.edges[truth[: space.n_edges] == 1])
    constant, scores = space.local.hamming_loss(vertex)
    same = 2 * (truth * other)[: space.n_edges].sum() + (truth * other)[space.n_edges :].sum()
    assert constant + scores @ other == pytest.approx(1 - same / space.n)


def test_table_is_symmetric():
    space = from_edges(4, [(0, 1), (1, 2), (2, 3)], perfect=False)
    table = space.local.graph.dense(np.arange(1.0, 4.0))
    assert table.tolist() == [[0, 1, 0, 0], [1, 0, 2, 0], [0, 2, 0, 3], [0, 0, 3, 0]]


# ---------------------------------------------------------------------- prices
@settings(deadline=None, max_examples=50)
@given(matching_spaces(), generators, scales, st.sampled_from([0.0, 1.0, 30.0]))
def test_price_bound_is_valid_at_any_prices(space, rng, scale, spread):
    scores = scale * rng.normal(size=space.size)
    slack = 1e-8 * (1 + scale)
    low, _, tau = space.local_optimum(scores)
    prices = space.local.decode(scores).prices
    bound = space.local.price_bound(scores, prices.copy(), tau)
    assert low - slack <= bound
    noisy = spread * rng.normal(size=prices.shape)
    assert space.local.price_bound(scores, noisy, tau) >= low - slack
    low, _, tau = space.exact_optimum(scores)
    prices = space.exact.decode(scores).prices
    assert space.exact.price_bound(scores, prices.copy(), tau) >= low - slack


@pytest.mark.parametrize("space", ["odd group", "prism"])
def test_exact_marginals_where_the_first_interior_point_lies_on_an_odd_set(space):
    if space == "odd group":
        structure = MatchingPolytope(5, 0.95, perfect=False)
    else:
        prism = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4), (2, 5)]
        structure = MatchingPolytope(SimpleGraph.from_edges(6, prism)[0], 0.95)
    rng = np.random.default_rng(0)
    for _ in range(20):
        found = structure.marginals(3.0 * rng.normal(size=structure.n_coordinates), None, 1e-6)
        assert found.gap <= 1e-3


@pytest.mark.parametrize("rho", [0.5002, 0.501, 0.504])
def test_bounds_at_any_prices_where_branches_end_late(rho):
    rng = np.random.default_rng(0)
    structure = LocalMatching(6, rho)
    for _ in range(50):
        scores = 5.0 * rng.normal(size=structure.n_scored)
        best = structure.marginals(scores, None, 1e-10).value
        for _ in range(5):
            prices = 2.0 * rng.normal(size=6)
            assert structure.price_bound(scores, prices, structure.interior()) >= best - 1e-9


@pytest.mark.parametrize("rho", [0.75, 0.95, 1.0])
@pytest.mark.parametrize("perfect", [True, False])
def test_strong_pairs_in_large_groups_agree_with_the_double_cover(rho, perfect):
    """More nodes than the double cover is used for: strong edges get tangents."""
    rng = np.random.default_rng(1)
    structure = LocalMatching(170, rho, perfect)
    scores = rng.normal(size=structure.n_coordinates)
    edges = structure.graph.edge_between(np.arange(0, 40, 2), np.arange(1, 41, 2))
    scores[edges] += rng.uniform(4, 12, size=20)
    found = structure.marginals(scores, None, 1e-6)
    other = structure._marginals_of_cover(scores, None, 0.0, 1e-6)
    assert found.gap <= 1e-6
    assert found.value <= other.upper_bound + 1e-9
    assert other.value <= found.upper_bound + 1e-9
    again = structure.marginals(scores + 0.01 * rng.normal(size=scores.shape), found.warm, 1e-6)
    assert again.gap <= 1e-6


def test_wide_scores_whose_best_halves_contain_no_matching():
    """Two triangles far above the edges between them, of which a matching needs one."""
    triangles, between = [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)], [(0, 3), (1, 4)]
    graph = SimpleGraph.from_edges(6, triangles + between)[0]
    edges = list(zip(graph.row.tolist(), graph.col.tolist(), strict=True))
    scores = np.array([0.0 if edge in triangles else -1e6 for edge in edges])
    structure = MatchingPolytope(graph, 0.5)
    found = structure.marginals(scores, None, 1e-6)
    # One matching for each edge between the triangles, of equal scores.
    assert found.tau[[edges.index(pair) for pair in between]] == pytest.approx([0.5, 0.5], abs=1e-3)
    assert found.value <= found.upper_bound
    bound = log_partition_bounds(structure, scores).lower
    assert -1e6 - 1e-6 <= bound <= -1e6 + np.log(2.0) + 1e-6
