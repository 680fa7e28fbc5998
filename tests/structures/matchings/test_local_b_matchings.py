"""b-matchings in general graphs over the local polytope: capacities above 1, unused capacity."""

import numpy as np
import pytest
from graph_matchings import b_spaces, complete, from_edges, two_triangles
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_scores import draw_scores, generators, kinds
from scipy.optimize import approx_fprime

from mlestruct.exceptions import InfeasibleError
from mlestruct.structures import LocalMatching

examples = settings(deadline=None, max_examples=30)
scales = st.sampled_from([0.1, 1.0, 5.0, 20.0])


def open_coordinates(structure):
    edges = structure.varying_edges
    edges = np.ones(structure.n_scored, bool) if edges is None else edges
    singles = structure.varying_singles if structure.n_coordinates > structure.n_scored else []
    return np.concatenate([edges, singles]).astype(bool)


@examples
@given(b_spaces(), generators)
def test_entropy_follows_the_formula(space, rng):
    varies = space.local_varies()
    tau = 0.5 * space.halves.mean(axis=0) + 0.5 * space.random_point(rng, 1.0, space.halves)
    assert space.local.entropy(tau) == pytest.approx(space.entropy(tau, varies), abs=1e-11)
    gradient = space.local.entropy_gradient(tau)

    def entropy(values):
        point = tau.copy()
        point[varies] = values
        return space.entropy(point)

    expected = approx_fprime(tau[varies], entropy, 1e-8)
    np.testing.assert_allclose(gradient[varies], expected, atol=2e-5, rtol=1e-5)


@settings(deadline=None, max_examples=60)
@given(b_spaces(), generators, kinds, scales)
def test_certificate_encloses_the_optimum(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    found = space.local.marginals(scores, tol=1e-8)
    slack = 1e-8 * (1 + scale)
    low, high, _ = space.local_optimum(scores)
    assert found.value <= high + slack
    assert found.upper_bound >= low - slack
    assert found.gap <= 1e-8 + slack
    assert space.infeasibility(found.tau) <= 1e-8
    objective = space.objective(scores, np.maximum(found.tau, 0.0), space.halves)
    assert found.value == pytest.approx(objective, abs=1e-6 + slack)
    other = scores + 0.1 * scale * rng.normal(size=space.size)
    low, high, _ = space.local_optimum(other)
    warm = space.local.marginals(other, found.warm, tol=1e-8)
    assert warm.value <= high + slack
    assert warm.upper_bound >= low - slack
    assert warm.gap <= 1e-8 + slack


@pytest.mark.parametrize("single", [-100.0, 0.0, 100.0])
@pytest.mark.parametrize("score", [-100.0, 0.0, 100.0])
def test_extreme_scores_are_solved(score, single):
    space = from_edges(2, [(0, 1)], False, 0.5, np.array([1, 2]))
    scores = np.array([score, single, -single])
    found = space.local.marginals(scores)
    low, high, _ = space.local_optimum(scores)
    assert found.gap <= 1e-6
    assert found.value <= high + 1e-7
    assert found.upper_bound >= low - 1e-7


@examples
@given(b_spaces(rho=st.just(0.5)), generators, kinds, scales)
def test_value_bounds_the_partition_function_from_above(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    exact = space.log_partition(scores)
    assert space.local.marginals(scores).upper_bound >= exact - 1e-9 * (1 + abs(exact))


@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_value_bounds_the_partition_function_for_capacities_above_one(rho, perfect):
    rng = np.random.default_rng(0)
    for capacity in ([2] * 5, [2, 2, 3, 3, 4], [3, 3, 2, 2, 2]):
        space = complete(5, perfect, rho, np.array(capacity))
        for scale in (0.1, 1.0, 10.0):
            scores = scale * rng.normal(size=space.size)
            found = space.local.marginals(scores)
            assert found.gap <= 1e-7
            assert found.value >= space.log_partition(scores) - 1e-7


@settings(deadline=None, max_examples=60)
@given(b_spaces())
def test_fixed_edges_are_those_that_never_vary(space):
    structure, varies = space.local, space.local_varies()
    edges = slice(0, space.n_edges)
    found = open_coordinates(structure)
    assert np.array_equal(found[edges], varies[edges])
    assert np.array_equal(structure.fixed[edges], np.where(varies, 0.0, space.halves[0])[edges])
    assert structure.is_fixed == (not varies[edges].any())
    assert (found | ~varies).all()  # unused capacity: what varies is open
    constant = ~found
    assert np.array_equal(structure.fixed[constant], space.halves[0][constant])
    for e in range(space.n_edges):
        one = np.eye(space.size)[e]
        assert (space.best_local(one) > -space.best_local(-one) + 1e-9) == varies[e]


@examples
@given(b_spaces())
def test_interior_point_is_inside(space):
    varies = space.local_varies()
    tau = space.local.interior()
    assert space.infeasibility(tau) <= 1e-9
    edges = np.arange(space.size) < space.n_edges
    inside = tau[varies & edges]
    assert ((inside > 1e-6) & (inside < 1 - 1e-6)).all()
    assert (tau[varies] > 1e-6).all()


@settings(deadline=None, max_examples=60)
@given(b_spaces(), generators, kinds, scales)
def test_decoders_are_optimal(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    slack = 1e-8 * (1 + scale)
    local, integral = space.local.decode(scores), space.local.decode_integral(scores)
    assert local.score == pytest.approx(space.best_local(scores), abs=slack)
    assert integral.score == pytest.approx(space.best_score(scores), abs=slack)
    for found in (local, integral):
        tau = found.vertex.dense(space.size)
        assert space.infeasibility(tau) <= 1e-12
        assert found.score == pytest.approx(scores @ tau, abs=slack)
        assert np.unique(found.vertex.indices).size == found.vertex.indices.size
    assert not (tau % 1).any()


def test_odd_cycles_are_mended():
    # Two triangles of good edges, joined by a bad one, capacity 1 but at one node.
    space = from_edges(6, two_triangles(), False, 1.0, np.array([1, 1, 1, 1, 1, 2]))
    scores = np.array([1.0, 1.0, 1.0, -5.0, 1.0, 1.0, 1.0] + [0.0] * 6)
    assert space.local.decode(scores).score > space.best_score(scores)
    found = space.local.decode_integral(scores)
    assert found.score == space.best_score(scores) == 3.0


def test_only_fractional_b_matchings_are_reported():
    # A triangle of capacity 1, and one of capacity 2 that is always full.
    pairs = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]
    space = from_edges(6, pairs, capacity=np.array([1, 1, 1, 2, 2, 2]))
    assert len(space.vertices) == 0
    assert space.local.decode(np.zeros(6)).vertex.dense(6).tolist() == [0.5] * 3 + [1.0] * 3
    with pytest.raises(InfeasibleError, match="odd"):
        space.local.decode_integral(np.zeros(6))


@examples
@given(b_spaces(max_nodes=4), generators)
def test_labels_survive_encoding(space, rng):
    for tau in space.vertices[rng.permutation(len(space.vertices))[:10]]:
        pairs = space.edges[tau[: space.n_edges] == 1]
        vertex = space.local.encode(rng.permutation(pairs)[:, ::-1])
        assert np.array_equal(vertex.dense(space.size), tau)
        if space.local.is_simple:
            partner = space.local.label(vertex)
            assert {tuple(p) for p in pairs} == {
                (i, int(j)) for i, j in enumerate(partner) if j > i
            }
        else:
            assert np.array_equal(space.local.label(vertex), pairs)


def test_labels_beyond_the_capacity_are_refused():
    structure = complete(4, False, 0.5, 2).local
    with pytest.raises(ValueError, match=r"node 0 has 3 partners.*at most 2"):
        structure.encode([(0, 1), (0, 2), (0, 3)])
    with pytest.raises(ValueError, match=r"node 0 has 1 partners.*exactly 2"):
        complete(4, True, 0.5, 2).local.encode([(0, 1), (1, 2), (2, 3)])


@examples
@given(b_spaces(), generators, scales, st.sampled_from([0.0, 1.0, 30.0]))
def test_price_bound_is_valid_at_any_prices(space, rng, scale, spread):
    assume(not space.local.is_fixed)
    scores = scale * rng.normal(size=space.size)
    low, _, tau = space.local_optimum(scores)
    slack = 1e-8 * (1 + scale)
    prices = space.local.decode(scores).prices
    assert space.local.price_bound(scores, prices.copy(), tau) >= low - slack
    noisy = spread * rng.normal(size=prices.shape)
    assert space.local.price_bound(scores, noisy, tau) >= low - slack


@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("rho", [0.5, 1.0])
def test_larger_groups_are_solved_to_the_requested_gap(rho, perfect):
    rng = np.random.default_rng(1)
    n = 30
    space = complete(n, perfect, rho, 2 + 2 * (np.arange(n) % 2))
    direction = rng.normal(size=space.size)
    for scale in (0.1, 1.0, 5.0, 20.0):
        found = space.local.marginals(scale * direction, tol=1e-6)
        assert found.gap <= 1e-6, scale
        assert space.infeasibility(found.tau) <= 1e-8
        objective = scale * direction @ found.tau + space.entropy(np.maximum(found.tau, 0.0))
        assert found.value == pytest.approx(objective, abs=1e-6)
        integral = space.local.decode_integral(scale * direction)
        assert integral.score <= found.upper_bound + 1e-9


def test_mixed_capacities_with_slack_are_always_solved():
    """Prices near their bounds: a Newton step that ignores the bounds need not be a descent."""
    rng = np.random.default_rng(0)
    for trial in range(150):
        n = int(rng.integers(4, 9))
        structure = LocalMatching(n, 0.95, False, rng.integers(1, 3, n))
        scores = [0.5, 1.0, 3.0, 10.0][trial % 4] * rng.normal(size=structure.n_coordinates)
        assert structure.marginals(scores, None, 1e-6).gap <= 1e-6
