"""The bundle of dual points: its minimum on the simplex, and the bound it gives."""

import numpy as np
import pytest
from dual_problems import image_problem, solve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from mlestruct.learning.lbfgs import DualBundle, minimise_on_simplex


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_simplex_minimum_equals_slsqp(n, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n + 1))
    gram, linear = root @ root.T, rng.normal(size=n)
    found = minimise_on_simplex(gram, linear, np.eye(n)[0])
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)

    def value(w):
        return 0.5 * w @ gram @ w - linear @ w

    reference = minimize(
        value,
        np.full(n, 1.0 / n),
        jac=lambda w: gram @ w - linear,
        bounds=[(0.0, 1.0)] * n,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        options={"ftol": 1e-14},
    )
    assert value(found) <= reference.fun + 1e-7 * (1.0 + abs(reference.fun))


@pytest.mark.parametrize("size", [2, 5, 20])
def test_bundle_bounds_the_optimum_better_than_any_single_evaluation(size):
    problem = image_problem()
    optimum = solve(problem).objective
    rng = np.random.default_rng(1)
    bundle = DualBundle(problem.n_features, problem.penalty, size=size)
    singles, bound = [], np.inf
    for _ in range(12):
        theta = rng.normal(size=problem.n_features)
        found = [b.structure.marginals(b.scores(theta), None, 1e-9) for b in problem.blocks]
        moments = sum(b.moments(f.tau) for b, f in zip(problem.blocks, found, strict=True))
        entropy = sum(
            b.structure.entropy(f.tau) for b, f in zip(problem.blocks, found, strict=True)
        )
        residual = problem.target - moments
        singles.append(residual @ residual / (2 * problem.alpha) - entropy)
        before, bound = bound, bundle.add(residual, entropy)
        assert bound <= before + 1e-9 * abs(before)  # also where evaluations have been merged
        assert bound >= optimum - 1e-9 * abs(optimum)
    assert bound < min(singles)
