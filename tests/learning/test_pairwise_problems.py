"""Dual problems of labellings, against enumeration and finite differences."""

import numpy as np
import pytest
from dual_problems import labelling_problem, likelihood, solve
from scipy.optimize import minimize
from scipy.special import logsumexp

from mlestruct.features import Rows
from mlestruct.features.labellings import StateFeatures
from mlestruct.learning import LBFGS, Block, BlockFrankWolfe, FrankWolfe, Problem
from mlestruct.models.base import default_solver
from mlestruct.structures import Pairwise, grid


@pytest.mark.parametrize("n_states", [2, 3])
def test_gradient_of_the_likelihood_equals_finite_differences(n_states):
    _, problem = labelling_problem(n_states)
    rng = np.random.default_rng(1)
    theta = 0.3 * rng.normal(size=problem.n_features)
    gradient = likelihood(problem, theta)[2]
    for _ in range(4):
        step = 1e-4 * rng.normal(size=theta.shape)
        rise = likelihood(problem, theta + step)[0] - likelihood(problem, theta - step)[0]
        assert rise == pytest.approx(2 * gradient @ step, abs=1e-8)


@pytest.mark.parametrize("n_states", [2, 3])
def test_moments_match_at_the_optimum(n_states):
    _, problem = labelling_problem(n_states)
    result = solve(problem, tol=1e-11)
    assert result.converged
    assert isinstance(default_solver(problem), LBFGS)
    gradient = likelihood(problem, result.theta)[2]
    assert np.abs(gradient).max() <= 1e-4
    # theta = (observed - expected) / alpha, and both sums over states vanish.
    split = 2 * n_states
    assert np.abs(result.theta[:split].reshape(n_states, 2).sum(axis=0)).max() < 1e-4


@pytest.mark.parametrize("n_states", [2, 3])
def test_forests_reach_the_exact_maximum_of_the_likelihood(n_states):
    spaces, problem = labelling_problem(n_states, forest=True, rho="auto", n_blocks=4)

    def loss(theta):
        total = 0.5 * problem.alpha * theta @ theta
        for space, block in zip(spaces, problem.blocks, strict=True):
            scores = block.scores(theta)
            log_z = logsumexp(space.vertices @ scores)
            total -= block.weight * (block.observed.dot(scores) - log_z)
        return total

    reference = minimize(loss, np.zeros(problem.n_features), options={"gtol": 1e-7})
    result = solve(problem)
    assert result.converged
    assert result.objective_bound == pytest.approx(-reference.fun, abs=1e-6)
    np.testing.assert_allclose(result.theta, reference.x, atol=1e-3)


SOLVERS = [LBFGS(), FrankWolfe(), FrankWolfe(step="fixed"), BlockFrankWolfe()]


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_all_solvers_enclose_the_same_optimum(solver, n_states):
    _, problem = labelling_problem(n_states, alpha=1.0)
    reference = solve(problem, tol=1e-10)
    result = solve(problem, solver, tol=1e-3, max_iter=300)
    assert result.objective <= reference.objective_bound + 1e-8
    assert result.objective_bound >= reference.objective - 1e-8
    assert likelihood(problem, result.theta)[0] <= reference.objective_bound + 1e-8
    assert likelihood(problem, result.theta)[0] >= result.objective - 1e-8
    assert result.gap < (1e-2 if solver.name == "lbfgs" else 1.0)
    # P is strongly concave.
    distance = np.linalg.norm(result.theta - reference.theta)
    assert distance <= np.sqrt(2 * (result.gap + 1e-8) / problem.alpha)


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("solver", [FrankWolfe(), BlockFrankWolfe()], ids=str)
def test_paper_algorithms_run_on_grids(solver, n_states):
    rng = np.random.default_rng(0)
    blocks = []
    for _ in range(3):
        graph = grid(3, 3)
        label = rng.integers(n_states, size=9)
        rows = Rows(np.eye(n_states)[label] + rng.normal(size=(9, n_states)))
        features = StateFeatures(graph, rows, Rows.ones(graph.n_edges), n_states)
        structure = Pairwise(graph, n_states)
        blocks.append(Block(structure, features, structure.encode(label)))
    problem = Problem(blocks, 1.0)
    reference = solve(problem, tol=1e-8)
    assert reference.converged
    result = solve(problem, solver, tol=1e-2, max_iter=200)
    assert result.objective <= reference.objective_bound + 1e-8
    assert result.objective_bound >= reference.objective - 1e-8
