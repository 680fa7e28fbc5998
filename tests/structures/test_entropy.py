"""The reweighted entropy of matchings and the exact line search on it."""

import numpy as np
import pytest
from bipartite_matchings import Space, complete, spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from scipy.optimize import approx_fprime, minimize_scalar

from mlestruct.structures import Vertex

examples = settings(deadline=None, max_examples=60)


@examples
@given(spaces(), generators)
def test_entropy_follows_the_formula_at_any_feasible_point(space, rng):
    for concentration in (0.05, 1.0, 10.0):
        tau = space.random_point(rng, concentration)
        assert space.structure.entropy(tau) == pytest.approx(space.entropy(tau), abs=1e-12)


@examples
@given(spaces())
def test_entropy_vanishes_at_every_matching(space):
    for vertex in space.vertices:
        assert space.structure.entropy(vertex) == 0.0


def test_entropy_of_even_shares_has_its_closed_form():
    n, rho = 7, 0.8
    share = 1 / n
    pair = (2 * rho - 1) * (1 - share) * np.log(1 - share) - share * np.log(share)
    structure = complete(n, rho=rho).structure
    assert structure.entropy(np.full(n * n, share)) == pytest.approx(n * n * pair, rel=1e-13)


@examples
@given(spaces(), generators)
def test_gradient_is_the_slope_of_the_entropy_along_feasible_directions(space, rng):
    tau = 0.9 * space.vertices.mean(axis=0) + 0.1 * space.random_point(rng)
    gradient = space.structure.entropy_gradient(tau)
    for vertex in space.vertices[:6]:
        step = 1e-5 * (vertex - space.vertices.mean(axis=0))
        slope = space.entropy(tau + step) - space.entropy(tau - step)
        assert 2 * gradient @ step == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize("perfect", [True, False])
def test_gradient_equals_finite_differences_coordinate_by_coordinate(perfect):
    rng = np.random.default_rng(0)
    space = Space(np.ones((3, 4), bool), perfect, rng.uniform(0.5, 1, 3), rng.uniform(0.5, 1, 4))
    tau = space.random_point(rng, 5.0)
    expected = approx_fprime(tau, space.entropy, 1e-8)
    np.testing.assert_allclose(space.structure.entropy_gradient(tau), expected, atol=1e-6)


def test_gradient_is_finite_and_large_where_entries_have_underflowed():
    structure = complete(3).structure
    gradient = structure.entropy_gradient(np.eye(3).ravel())
    assert np.isfinite(gradient).all()
    assert gradient[1] > 100  # an entry at 0 wants to grow


@examples
@given(spaces(), generators)
def test_entropy_is_concave_on_feasible_segments(space, rng):
    entropy = space.structure.entropy
    for concentration in (0.1, 1.0):
        x, y = space.random_point(rng, concentration), space.random_point(rng, concentration)
        for s in (0.01, 0.3, 0.5, 0.9):
            chord = (1 - s) * entropy(x) + s * entropy(y)
            assert entropy((1 - s) * x + s * y) >= chord - 1e-10


@examples
@given(spaces(min_side=2), generators, st.sampled_from([0.0, 0.1, 10.0]), st.floats(1e-8, 0.9))
def test_line_search_finds_the_minimum_along_a_segment(space, rng, quadratic, guess):
    tau = space.random_point(rng, 3.0)
    vertex = space.vertices[rng.integers(len(space.vertices))]
    linear = rng.normal(scale=3.0)
    rtol, max_step = 1e-6, 1 - 1e-9

    def function(eta):
        point = tau + eta * (vertex - tau)
        return linear * eta + quadratic * eta**2 / 2 - space.entropy(np.clip(point, 0, 1))

    def slope(eta):
        point = tau + eta * (vertex - tau)
        gradient = space.structure.entropy_gradient(point)
        return linear + quadratic * eta - gradient @ (vertex - tau)

    on = np.flatnonzero(vertex)
    entropy = space.structure.stepping_entropy
    _, sums = entropy.add_gradient(tau, np.zeros_like(tau))
    eta = entropy.line_search(
        tau, Vertex(on, np.ones(on.size)), sums, linear, quadratic, guess, max_step, rtol
    )
    assert 0 <= eta <= max_step
    best = minimize_scalar(
        function, bounds=(0, max_step), method="bounded", options={"xatol": 1e-10}
    )
    assert function(eta) <= min(best.fun, function(0.0)) + 1e-8
    if 0 < eta < 0.999:
        assert abs(slope(eta)) <= rtol * abs(slope(0.0)) + 1e-8
    if eta == 0:
        assert slope(0.0) >= -1e-12


@examples
@given(spaces(min_side=2), generators, st.floats(0.0, 0.9))
def test_slope_is_the_derivative_along_a_segment(space, rng, eta):
    tau = space.random_point(rng, 3.0)
    change = space.random_point(rng, 3.0) - tau
    found = space.structure.stepping_entropy.slope(tau, change, eta)
    h = 1e-6
    ahead, behind = (space.entropy(tau + (eta + step) * change) for step in (h, -h))
    assert found == pytest.approx((ahead - behind) / (2 * h), rel=1e-4, abs=1e-6)


def test_move_lands_on_the_convex_combination():
    space = complete(3, 4)
    rng = np.random.default_rng(1)
    tau, vertex = space.random_point(rng), space.vertices[5]
    expected = 0.7 * tau + 0.3 * vertex
    on = np.flatnonzero(vertex)
    space.structure.stepping_entropy.move(tau, Vertex(on, np.ones(on.size)), 0.3)
    np.testing.assert_allclose(tau, expected, rtol=1e-14)
