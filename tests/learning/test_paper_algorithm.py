"""Frank-Wolfe against a plain NumPy transcription of Algorithm 1 with SciPy's assignment."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, minimize_scalar

from mlestruct.features import Rows
from mlestruct.learning import Block, BlockFrankWolfe, FrankWolfe, Problem
from mlestruct.learning.certificate import DualState
from mlestruct.structures import BipartiteMatching

N, M, K, RHO, ALPHA = 5, 4, 3, 0.9, 2.0


def samples(seed=0):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(M, N * N, K))
    y = np.array([np.eye(N)[rng.permutation(N)].ravel() for _ in range(M)])
    return G, y


def dual_problem(G, y):
    space = BipartiteMatching((N, N), RHO)
    labels = [np.argmax(one.reshape(N, N), axis=1) for one in y]
    pairs = zip(G, labels, strict=True)
    return Problem([Block(space, Rows(g), space.encode(t)) for g, t in pairs], ALPHA)


def entropy(tau):
    return ((2 * RHO - 1) * (1 - tau) * np.log1p(-tau) - tau * np.log(tau)).sum()


def algorithm_1(G, y, draws, line_search=False):
    """tau after the steps; `draws` holds one block index each, or None for all blocks at once."""
    tau = np.full((M, N * N), 1.0 / N)
    thetas = []

    def theta_at(tau):
        return np.einsum("mek,me->k", G, y - tau) / ALPHA

    def objective(tau):
        return ALPHA / 2 * theta_at(tau) @ theta_at(tau) - entropy(tau)

    for t, chosen in enumerate(draws, start=1):
        scores = G @ theta_at(tau) - (2 * RHO - 1) * (np.log1p(-tau) + 1) - np.log(tau) - 1
        direction = np.zeros_like(tau)
        for m in range(M) if chosen is None else [chosen]:
            rows, columns = linear_sum_assignment(scores[m].reshape(N, N), maximize=True)
            direction[m] = -tau[m]
            direction[m, rows * N + columns] += 1.0
        gamma = 2 / (2 + t) if chosen is None else 2 * M / (2 * M + t)
        if line_search:
            start, way = tau, direction
            gamma = minimize_scalar(
                lambda eta, start=start, way=way: objective(start + eta * way),
                bounds=(0.0, 1.0),
                method="bounded",
                options={"xatol": 1e-12},
            ).x
        tau = tau + gamma * direction
        thetas.append(theta_at(tau))
    return tau, np.array(thetas)


def uniform_draws(n_passes, seed):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.integers(M, size=M) for _ in range(n_passes)]).tolist()


def run(solver, problem, n_iter, seed=1, **options):
    budget = {"max_iter": n_iter, "random_state": np.random.default_rng(seed)}
    return solver(**budget, **options).solve(problem, 0.0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_iter", [1, 2, 25])
@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize("solver", [FrankWolfe, BlockFrankWolfe])
def test_iterates_are_those_of_the_printed_algorithm(solver, averaging, n_iter, seed):
    G, y = samples(seed)
    draws = [None] * n_iter if solver is FrankWolfe else uniform_draws(n_iter, seed)
    tau, thetas = algorithm_1(G, y, draws)
    found = run(solver, dual_problem(G, y), n_iter, seed, step="fixed", averaging=averaging)
    np.testing.assert_allclose(np.array(found.state.tau), tau, rtol=1e-8)
    weights = np.arange(1.0, len(thetas) + 1)
    theta = weights @ thetas / weights.sum() if averaging else thetas[-1]
    np.testing.assert_allclose(found.theta, theta, rtol=1e-8)


@pytest.mark.parametrize("solver", [FrankWolfe, BlockFrankWolfe])
def test_line_search_steps_are_near_the_exact_ones(solver):
    G, y = samples()
    draws = [None] if solver is FrankWolfe else uniform_draws(1, 1)
    tau, _ = algorithm_1(G, y, draws, line_search=True)
    found = run(solver, dual_problem(G, y), 1)
    np.testing.assert_allclose(np.array(found.state.tau), tau, atol=0.02)


def test_line_search_stops_at_a_twentieth_of_the_slope():
    G, y = samples()
    problem = dual_problem(G, y)
    start = np.full((M, N * N), 1.0 / N)
    way = np.array(run(FrankWolfe, problem, 1).state.tau) - start

    def dual(eta):
        return DualState.at(problem, list(start + eta * way)).dual(problem)

    slopes = [(dual(eta + 1e-6) - dual(eta - 1e-6)) / 2e-6 for eta in (0.0, 1.0)]
    assert slopes[0] < 0.0
    assert abs(slopes[1]) <= 0.05 * abs(slopes[0]) + 1e-6


def test_fixed_steps_return_the_last_iterate_with_its_own_bound():
    problem = dual_problem(*samples())
    seen = []
    found = run(BlockFrankWolfe, problem, 9, step="fixed", callback=seen.append)
    np.testing.assert_array_equal(found.theta, seen[-1].theta)
    assert found.objective <= seen[-1].objective
    assert found.objective_bound == min(p.latest_bound for p in seen)
    assert seen[-1].latest_bound == pytest.approx(found.state.dual(problem))
