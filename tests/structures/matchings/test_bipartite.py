"""The marginal oracle: pseudo-marginals, log Z_rho enclosed between proven bounds."""

import numpy as np
import pytest
from bipartite_matchings import Space, complete, spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import draw_scores, generators, kinds
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import logsumexp, xlogy

examples = settings(deadline=None, max_examples=60)
scales = st.sampled_from([0.1, 1.0, 10.0, 100.0])


def solve_with_scipy(space, scores):
    """max <scores, tau> + H over mixtures of matchings, by a general-purpose optimiser.

    tau = vertices' shares, so any answer is feasible and its value a valid lower bound. The
    matchings span the whole polytope, which is integral for bipartite graphs.
    """
    vertices = space.vertices

    def loss(logits):
        shares = np.exp(logits - logsumexp(logits))
        tau = np.clip(shares @ vertices, 1e-300, 1.0)
        return -space.objective(scores, tau)

    start = np.zeros(len(vertices))
    return -minimize(loss, start, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000}).fun


# ---------------------------------------------------------------------- bounds by theorem
@examples
@given(spaces(max_side=6), generators, kinds, scales)
def test_bethe_is_below_and_reweighted_above_the_exact_partition_function(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    exact = space.log_partition(scores)
    bethe = space.with_rho(1.0).structure.marginals(scores, tol=1e-8)
    reweighted = space.with_rho(0.5).structure.marginals(scores, tol=1e-8)
    slack = 1e-9 * (1 + abs(exact))
    assert bethe.value <= exact + slack
    assert reweighted.upper_bound >= exact - slack
    # The reweighted value itself, and not only its upper bound, is above up to its gap.
    assert reweighted.value >= exact - reweighted.gap - slack


@examples
@given(st.integers(1, 6), st.integers(1, 6), generators, kinds, scales)
def test_bethe_is_exact_on_forests(n, m, rng, kind, scale):
    nx = pytest.importorskip("networkx")
    tree = nx.random_labeled_tree(n + m, seed=int(rng.integers(2**31)))
    mask = nx.to_numpy_array(tree)[:n, n:] > 0  # drops edges within a side: a forest remains
    space = Space(mask, perfect=False)
    scores = draw_scores(rng, space.size, kind, scale)
    found = space.structure.marginals(scores, tol=1e-8)
    exact = space.log_partition(scores)
    assert found.value <= exact + 1e-9 * (1 + scale)
    assert found.upper_bound >= exact - 1e-9 * (1 + scale)
    assert found.gap <= 1e-8 * (1 + scale)
    np.testing.assert_allclose(found.tau, space.exact_marginals(scores), atol=1e-3)


def test_isolated_column_that_may_stay_single_is_exact():
    space = Space(np.array([[True, False]]), perfect=False)
    scores = np.array([0.0, 0.0, -10.0, 0.0])  # the pair, the row single, the columns single
    found = space.structure.marginals(scores, tol=1e-8)
    expected = np.logaddexp(0.0, -10.0)
    assert found.value == pytest.approx(expected, abs=1e-7)
    assert found.upper_bound == pytest.approx(expected, abs=1e-7)
    assert found.tau[0] == pytest.approx(np.exp(-expected), abs=1e-5)


# ---------------------------------------------------------------------- the certificate
@examples
@given(spaces(max_side=5), generators, kinds, scales)
def test_certificate_encloses_the_value_of_every_feasible_point(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    found = space.structure.marginals(scores, tol=1e-7)
    slack = 1e-8 * (1 + scale)
    assert space.infeasibility(found.tau) < 1e-8
    assert found.value == pytest.approx(space.objective(scores, found.tau), abs=1e-7 + slack)
    assert -slack <= found.upper_bound - found.value <= 1e-7 + slack
    points = [space.random_point(rng, c) for c in (0.02, 0.1, 1.0, 10.0) for _ in range(5)]
    points += list(space.vertices[:50])
    points += [0.99 * found.tau + 0.01 * point for point in points]
    for point in points:
        assert space.objective(scores, point) <= found.upper_bound + slack


def test_cliffs_beside_single_nodes_are_solved():
    mask = np.array([[1, 1], [1, 0], [1, 1], [1, 1]], bool)
    space = Space(mask, False, np.array([0.818, 0.635, 0.52, 0.508]), np.array([0.907, 0.956]))
    scores = np.array([-100, -100, 0, 0, 0, -100, 0, 0, 0, 0, 0, -100, -100.0])
    found = space.structure.marginals(scores, tol=1e-7)
    assert found.gap <= 2e-6
    assert found.value > 1.0


def test_certificate_holds_where_convergence_is_slow():
    mask = [[1, 0, 1, 0, 0], [1, 1, 0, 0, 1], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    scores = [13, 19, 1, 7, -33, -20, 12, -6, 31, -16, -21, -8, -3, 20, 22, -11, 23]
    space = Space(np.array(mask, bool))
    found = space.structure.marginals(np.array(scores, float), tol=1e-6)
    assert found.upper_bound >= space.best_score(scores) - 1e-6
    assert found.value <= space.log_partition(scores) + 1e-6  # Bethe is below the exact value
    assert space.infeasibility(found.tau) < 1e-6


@settings(deadline=None, max_examples=25)
@given(spaces(max_side=3), generators, st.sampled_from([0.1, 1.0, 3.0]))
def test_certificate_encloses_the_optimum_found_by_scipy(space, rng, scale):
    scores = scale * rng.normal(size=space.size)
    found = space.structure.marginals(scores, tol=1e-9)
    best = solve_with_scipy(space, scores)
    assert best <= found.upper_bound + 1e-10
    assert best >= found.value - 1e-3  # SciPy stops a little short now and then
    assert space.objective(scores, found.tau) == pytest.approx(found.value, abs=1e-8)
    assert space.infeasibility(found.tau) < 1e-8


@examples
@given(generators, st.sampled_from([1e-3, 1.0, 100.0, 1e5]))
def test_two_by_two_has_its_closed_form(rng, scale):
    # tau = [[p, 1-p], [1-p, p]] and H = (4 - sum of rho) h(p), h the binary entropy.
    rho = rng.uniform(0.5, 1.0, 4)
    space = Space(np.ones((2, 2), bool), True, rho[:2], rho[2:])
    w = scale * rng.normal(size=4)
    kappa = 4 - rho.sum()
    crossed, straight = w[1] + w[2], w[0] + w[3]
    expected = kappa * np.logaddexp(crossed / kappa, straight / kappa)
    found = space.structure.marginals(w, tol=1e-9)
    slack = 1e-9 + 1e-12 * abs(expected)
    assert found.value - slack <= expected <= found.upper_bound + slack
    assert found.gap <= 1e-9 + slack


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("n", [2, 5, 40, 170])
def test_equal_scores_have_their_closed_form(n, rho):
    # The optimum can be taken symmetric, by concavity: tau = 1/n.
    t = 1 / n
    pair = (2 * rho - 1) * xlogy(1 - t, 1 - t) - xlogy(t, t)
    expected = n * 0.7 + n * n * pair
    found = complete(n, rho=rho).structure.marginals(np.full(n * n, 0.7), tol=1e-8)
    assert found.value - 1e-9 <= expected <= found.upper_bound + 1e-9
    assert found.upper_bound - found.value <= 1e-8
    assert np.abs(found.tau.reshape(n, n).sum(axis=0) - 1).max() < 1e-8
    if rho < 1:
        np.testing.assert_allclose(found.tau, t, atol=1e-4)


@pytest.mark.parametrize("n", [161, 300])
@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_certificate_holds_beyond_the_size_of_direct_solves(n, rho):
    space = complete(n, rho=rho)
    scores = np.random.default_rng(0).normal(size=n * n)
    found = space.structure.marginals(scores, tol=1e-5)
    table = found.tau.reshape(n, n)
    assert max(abs(table.sum(axis=k) - 1).max() for k in (0, 1)) < 1e-6
    assert 0 <= found.upper_bound - found.value <= 1e-5
    entropy = ((2 * rho - 1) * xlogy(1 - table, 1 - table) - xlogy(table, table)).sum()
    assert found.value == pytest.approx(scores @ found.tau + entropy, abs=1e-5)


@examples
@given(generators, st.sampled_from([0.01, 1.0, 300.0]))
def test_one_pair_that_may_stay_single_is_a_logistic_model(rng, scale):
    rho = rng.uniform(0.5, 1.0, 2)
    space = Space(np.ones((1, 1), bool), False, rho[:1], rho[1:])
    scores = scale * rng.normal(size=3)
    expected = np.logaddexp(scores[0], scores[1] + scores[2])
    found = space.structure.marginals(scores, tol=1e-9)
    assert found.value == pytest.approx(expected, abs=1e-8)
    assert found.upper_bound == pytest.approx(expected, abs=1e-8)
    assert found.tau[0] == pytest.approx(np.exp(scores[0] - expected), abs=1e-4)


@pytest.mark.parametrize("rho", [0.5, 0.75, 0.99, 1.0])
@pytest.mark.parametrize("n", [3, 10, 30])
@pytest.mark.parametrize("perfect", [True, False])
def test_requested_gap_is_reached_in_flat_and_peaked_regimes(n, rho, perfect):
    rng = np.random.default_rng(n)
    space = Space(np.ones((n, n), bool), perfect, rho, rho)
    direction = rng.normal(size=space.size)
    for scale in (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0):
        scores = scale * direction
        found = space.structure.marginals(scores, tol=1e-6)
        # Bethe with single nodes is flat in places: there the bound closes relatively.
        flat = 1e-5 * abs(found.value) if rho == 1.0 and not perfect else 0.0
        assert found.gap <= 1e-6 + flat, scale
        assert space.infeasibility(found.tau) < 1e-7
        assert space.objective(scores, found.tau) == pytest.approx(found.value, abs=1e-6)
        if perfect:
            rows, cols = linear_sum_assignment(scores.reshape(n, n), maximize=True)
            assert found.upper_bound >= scores.reshape(n, n)[rows, cols].sum() - 1e-9 * scale


@pytest.mark.parametrize("shape", [(12, 30), (30, 12), (25, 25)])
@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("scale", [0.3, 20.0])
def test_requested_gap_is_reached_on_sparse_and_rectangular_graphs(shape, perfect, scale):
    rng = np.random.default_rng(0)
    mask = rng.random(shape) < 0.2
    size = min(shape)
    mask[rng.permutation(shape[0])[:size], rng.permutation(shape[1])[:size]] = True
    space = Space(mask, perfect, rng.uniform(0.5, 1, shape[0]), rng.uniform(0.5, 1, shape[1]))
    scores = scale * rng.normal(size=space.size)
    found = space.structure.marginals(scores, tol=1e-6)
    assert found.gap <= 1e-6
    assert space.infeasibility(found.tau) < 1e-7
    assert space.objective(scores, found.tau) == pytest.approx(found.value, abs=1e-6)


# ---------------------------------------------------------------------- exact vertices
@pytest.mark.parametrize("n", [2, 5, 20])
def test_dominating_matching_is_exactly_the_bethe_optimum(n):
    # Off-diagonal advantages exp(-11) sum to less than 1 per row, so no mixture pays.
    rng = np.random.default_rng(n)
    partner = rng.permutation(n)
    table = rng.uniform(-0.5, 0.5, size=(n, n))
    table[np.arange(n), partner] += 12.0
    score = table[np.arange(n), partner].sum()
    found = complete(n).structure.marginals(table.ravel(), tol=0.0)
    assert found.gap == 0.0
    assert found.value == pytest.approx(score, rel=1e-14)
    np.testing.assert_allclose(found.tau, np.eye(n)[partner].ravel(), atol=1e-12)
    rough = complete(n).structure.marginals(table.ravel(), tol=1e-4)
    assert score - 1e-4 <= rough.value <= score + 1e-12
    assert score - 1e-12 <= rough.upper_bound <= score + 1e-4


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("tol", [1e-6, 1e-12])
def test_two_by_two_bethe_optimum_is_always_a_matching(scale, tol):
    w = scale * np.random.default_rng(0).normal(size=4)
    best = max(w[0] + w[3], w[1] + w[2])
    found = complete(2).structure.marginals(w, tol=tol)
    assert found.gap <= tol
    assert found.value == pytest.approx(best, abs=tol, rel=1e-13)
    assert found.upper_bound == pytest.approx(best, abs=tol, rel=1e-13)


# ---------------------------------------------------------------------- derivatives
@settings(deadline=None, max_examples=30)
@given(spaces(max_side=4, rho=(0.5, 0.95)), generators)
def test_marginals_are_the_derivative_of_the_value(space, rng):
    scores = rng.normal(size=space.size)
    structure = space.structure
    tau = structure.marginals(scores, tol=1e-12).tau
    for direction in rng.normal(size=(3, space.size)):
        step = 1e-4 * direction
        ahead = structure.marginals(scores + step, tol=1e-12).value
        behind = structure.marginals(scores - step, tol=1e-12).value
        assert (ahead - behind) / 2e-4 == pytest.approx(tau @ direction, abs=2e-6)


@pytest.mark.parametrize("rho", [0.5, 0.95])
def test_states_of_wide_scores_start_the_next_call(rho):
    """What comes back at scores spread very wide is a good start for scores near them."""
    rng = np.random.default_rng(3)
    structure = complete(8).with_rho(rho).structure
    prices = 100.0 * rng.normal(size=8)
    scores = (rng.normal(size=(8, 8)) + prices[:, None] - prices).ravel()
    first = structure.marginals(scores, tol=1e-9)
    near = scores + 0.01 * rng.normal(size=64)
    again, cold = structure.marginals(near, first.warm, 1e-9), structure.marginals(near, tol=1e-9)
    assert again.gap <= 1e-8
    assert again.iterations < cold.iterations
    np.testing.assert_allclose(again.tau, cold.tau, atol=1e-4)


# ---------------------------------------------------------------------- starting points
@settings(deadline=None, max_examples=40)
@given(spaces(max_side=5), generators, st.sampled_from([0.3, 3.0, 300.0]))
def test_warm_start_gives_the_same_answer(space, rng, scale):
    structure = space.structure
    first, second = scale * rng.normal(size=(2, space.size))
    warm = structure.marginals(first, tol=1e-8).warm
    found = structure.marginals(second, warm, tol=1e-8)
    cold = structure.marginals(second, tol=1e-8)
    slack = 1e-8 + 1e-10 * scale
    assert found.gap <= slack
    assert found.value <= cold.upper_bound + slack
    assert cold.value <= found.upper_bound + slack
    assert space.objective(second, found.tau) == pytest.approx(found.value, abs=slack)


# ---------------------------------------------------------------------- fixed edges
@settings(deadline=None, max_examples=60)
@given(spaces(max_side=5), generators)
def test_edges_in_no_or_every_matching_have_marginals_of_exactly_0_or_1(space, rng):
    tau = space.structure.marginals(3 * rng.normal(size=space.size)).tau
    always, never = space.vertices.all(axis=0), ~space.vertices.any(axis=0)
    edges = slice(0, int(space.mask.sum()))
    assert (tau[edges][always[edges]] == 1.0).all()
    assert (tau[edges][never[edges]] == 0.0).all()
    np.testing.assert_allclose(tau[always], 1.0, atol=1e-12)


# ---------------------------------------------------------------------- bounds from prices
@examples
@given(spaces(max_side=5), generators, kinds, scales, st.sampled_from([0.0, 0.1, 3.0, 100.0]))
def test_any_prices_bound_the_partition_function(space, rng, kind, scale, spread):
    scores = draw_scores(rng, space.size, kind, scale)
    structure = space.structure
    prices = structure.decode(scores, prices=True).prices
    if prices is None:
        prices = np.zeros(0)
    prices = prices + spread * rng.normal(size=prices.shape)
    slack = 1e-9 * (1 + scale) * (1 + spread)
    for hint in (structure.interior(), space.random_point(rng, 0.1)):
        bound = structure.price_bound(scores, prices, hint)
        better = structure.improved_prices(scores, prices, hint)
        assert structure.price_bound(scores, better, hint) <= bound + 1e-6 + slack
        bound = min(bound, structure.price_bound(scores, better, hint))
        for point in (hint, space.exact_marginals(scores), space.random_point(rng)):
            assert bound >= space.objective(scores, point) - slack
        assert bound >= space.best_score(scores) - slack
        half = space.with_rho(0.5).structure.price_bound(scores, prices, hint)
        assert half >= space.log_partition(scores) - slack


# ---------------------------------------------------------------------- adversarial scores
@pytest.mark.parametrize("rho", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize(
    "make",
    [
        lambda rng, size: np.zeros(size),
        lambda rng, size: np.full(size, 1e5),
        lambda rng, size: 1e5 * rng.normal(size=size),
        lambda rng, size: 1e5 * rng.integers(-1, 2, size=size),
        lambda rng, size: np.where(rng.random(size) < 0.5, -1e5, 1e-5),
        lambda rng, size: rng.integers(0, 2, size=size).astype(float),
    ],
    ids=["zeros", "constant", "huge", "huge-ties", "cliffs", "ties"],
)
def test_adversarial_scores_still_give_valid_bounds(make, n, perfect, rho):
    space = Space(np.ones((n, n), bool), perfect, rho, rho)
    scores = make(np.random.default_rng(n), space.size).astype(float)
    found = space.structure.marginals(scores, tol=1e-6)
    assert np.isfinite(found.tau).all()
    assert np.isfinite([found.value, found.upper_bound]).all()
    assert space.infeasibility(found.tau) < 1e-6
    slack = 1e-10 * n * np.abs(scores).max() + 1e-8
    assert found.value == pytest.approx(space.objective(scores, found.tau), abs=slack)
    assert found.upper_bound >= found.value - slack
    if n <= 3:
        assert found.upper_bound >= space.best_score(scores) - slack
    if n <= 3 or np.abs(scores).max() <= 10:
        assert found.gap <= 1e-6 + slack
