"""The elastic net: its conjugate, and every solver with it, against L-BFGS-B on theta = p - q."""

import numpy as np
import pytest
from dual_problems import image_problem, labelling_problem, likelihood, matching_problem, solve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from mlestruct.learning import BlockFrankWolfe, FrankWolfe, Problem
from mlestruct.learning.lbfgs import DualBundle
from mlestruct.learning.problem import ElasticNet

numbers = st.floats(-4.0, 4.0)
vectors = arrays(float, 3, elements=numbers)
penalties = st.builds(ElasticNet, st.floats(0.1, 3.0), st.floats(0.0, 0.95))


@given(penalties, vectors, vectors)
def test_the_conjugate_is_a_maximum(penalty, r, other):
    theta = penalty.theta(r)
    assert penalty.conjugate(r) == pytest.approx(r @ theta - penalty(theta), abs=1e-9)
    assert penalty.conjugate(r) >= r @ other - penalty(other) - 1e-9
    value = penalty.l1 * np.abs(other).sum() + penalty.l2 / 2 * (other**2).sum()
    assert penalty(other) == pytest.approx(value)


@given(penalties, vectors, vectors, vectors)
def test_the_pseudo_gradient_is_the_steepest_ascent(penalty, theta, gradient, direction):
    theta = np.where(np.abs(theta) < 1.0, 0.0, theta)
    ascent = penalty.pseudo_gradient(theta, gradient)

    def slope(d):
        """The derivative of <gradient, .> - l1 |.|_1 along d."""
        at_zero = np.abs(d[theta == 0.0]).sum()
        elsewhere = (np.sign(theta) * d)[theta != 0.0].sum()
        return gradient @ d - penalty.l1 * (at_zero + elsewhere)

    assert slope(ascent) == pytest.approx(ascent @ ascent, abs=1e-9)
    assert slope(direction) <= np.linalg.norm(ascent) * np.linalg.norm(direction) + 1e-9
    moved = penalty.within_orthant(theta, ascent, theta + 0.3 * direction)
    if penalty.l1:
        assert (moved * theta >= 0.0).all()
        assert (moved[(theta == 0.0) & (ascent == 0.0)] == 0.0).all()


def sparse_problem(kind, l1_ratio, alpha):
    problem = {
        "matching": lambda: matching_problem(alpha=1.0, offset=True)[1],
        "kinked": lambda: matching_problem(alpha=1.0, rho=1.0)[1],
        "graph": lambda: labelling_problem(3)[1],
        "image": lambda: image_problem(),
    }[kind]()
    return Problem(problem.blocks, alpha, l1_ratio)


def best(problem):
    """max P by a bounded quasi-Newton method on theta = p - q with p, q >= 0."""
    smooth = Problem(problem.blocks, problem.penalty.l2)
    size, l1 = problem.n_features, problem.penalty.l1

    def loss(both):
        theta = both[:size] - both[size:]
        value, _, gradient = likelihood(smooth, theta)
        return l1 * both.sum() - value, np.concatenate([l1 - gradient, l1 + gradient])

    found = minimize(loss, np.zeros(2 * size), jac=True, method="L-BFGS-B",
                     bounds=[(0.0, None)] * (2 * size),
                     options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000})  # fmt: skip
    return -found.fun, found.x[:size] - found.x[size:]


CASES = [("matching", 0.5, 2.0), ("matching", 0.95, 1.0), ("kinked", 0.5, 1.0),
         ("graph", 0.3, 1.0), ("graph", 0.8, 2.0), ("image", 0.5, 8.0)]  # fmt: skip


@pytest.mark.parametrize("solver", [None, BlockFrankWolfe(), FrankWolfe()], ids=str)
@pytest.mark.parametrize(("kind", "l1_ratio", "alpha"), CASES)
def test_every_solver_finds_the_optimum(kind, l1_ratio, alpha, solver):
    problem = sparse_problem(kind, l1_ratio, alpha)
    value, theta = best(problem)
    first_order = isinstance(solver, FrankWolfe)
    result = solve(problem, solver, 2e-2 if first_order else 1e-8)
    assert result.converged
    slack = 1e-7 * max(1.0, abs(value))
    assert result.objective_bound >= value - slack  # proven bounds of the optimum
    assert result.objective <= value + slack
    assert result.objective <= likelihood(problem, result.theta)[0] + slack
    if not first_order:
        np.testing.assert_allclose(result.theta, theta, atol=2e-3)
        np.testing.assert_array_equal(result.theta == 0.0, np.abs(theta) < 1e-7)


def test_some_weights_are_zero():
    theta = [best(sparse_problem(*case))[1] for case in CASES]
    assert any((np.abs(t) < 1e-7).any() and (np.abs(t) > 1e-2).any() for t in theta)


def test_the_bundle_bounds_the_optimum():
    problem = sparse_problem("image", 0.5, 8.0)
    optimum = best(problem)[0]
    rng = np.random.default_rng(1)
    bundle = DualBundle(problem.n_features, problem.penalty, size=5)
    singles, bound = [], np.inf
    for _ in range(12):
        theta = rng.normal(size=problem.n_features)
        found = [b.structure.marginals(b.scores(theta), None, 1e-9) for b in problem.blocks]
        pairs = list(zip(problem.blocks, found, strict=True))
        residual = problem.target - sum(b.moments(f.tau) for b, f in pairs)
        entropy = sum(b.structure.entropy(f.tau) for b, f in pairs)
        singles.append(problem.penalty.conjugate(residual) - entropy)
        before, bound = bound, bundle.add(residual, entropy)
        assert optimum - 1e-9 <= bound <= before + 1e-9
    assert bound < min(singles)


def test_a_path_keeps_the_share():
    problem = sparse_problem("matching", 0.5, 2.0).with_alpha(4.0)
    assert (problem.penalty.l1, problem.penalty.l2) == (2.0, 2.0)
    with pytest.raises(ValueError, match="`l1_ratio` must be less than 1"):
        Problem(problem.blocks, 1.0, 1.0)
