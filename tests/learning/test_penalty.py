"""The elastic net: its conjugate, and every solver with it, against L-BFGS-B on theta = p - q."""

import numpy as np
import pytest
from dual_problems import image_problem, labelling_problem, likelihood, matching_problem, solve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from mlestruct import GridCRF
from mlestruct.learning import BlockFrankWolfe, FrankWolfe, Problem
from mlestruct.learning.lbfgs import DualBundle, descend_coordinates
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


def test_coordinate_descent_maximises_the_model():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        theta, gradient = rng.normal(size=(2, 30)) * (rng.random(30) < 0.6)
        diagonal, wide = rng.uniform(1.0, 2.0, 30), rng.normal(size=(30, 4))
        middle = -np.diag(rng.uniform(0.1, 1.0, 4))
        curvature = np.diag(diagonal) - wide @ middle @ wide.T

        def loss(both, start=theta, slope=gradient, curvature=curvature):
            step = both[:30] - both[30:] - start
            value = 0.5 * step @ curvature @ step - slope @ step + 0.5 * both.sum()
            change = curvature @ step - slope
            return value, np.concatenate([change + 0.5, 0.5 - change])

        start = np.concatenate([np.maximum(theta, 0.0), np.maximum(-theta, 0.0)])
        least = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * 60).fun
        step = descend_coordinates(theta, gradient, diagonal, wide, wide @ middle, 0.5)
        end = theta + step
        found = loss(np.concatenate([np.maximum(end, 0.0), np.maximum(-end, 0.0)]))[0]
        before = loss(start)[0]
        assert 0.9 * (before - least) <= before - found <= before - least + 1e-6


def test_nearly_separable_images_take_tens_of_evaluations():
    """Weak penalties on a grid, where a step must change the signs of weights freely."""
    rng = np.random.default_rng(0)
    Y = [np.kron(rng.integers(2, size=(4, 4)), np.ones((5, 5), dtype=int)) for _ in range(4)]
    X = [np.eye(2)[y] + rng.normal(size=(20, 20, 2)) for y in Y]
    model = GridCRF(alpha=0.01, l1_ratio=0.5, tol=1e-3, max_iter=60).fit(X, Y)
    assert model.converged_


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
