"""Variants of Frank-Wolfe and of its block version."""

from dataclasses import replace

import numpy as np
import pytest
from dual_problems import dual_by_hand, image_problem, likelihood, matching_problem, solve

from mlestruct.learning import (
    BlockFrankWolfe,
    DualProblem,
    FrankWolfe,
    Stopping,
    start_near_observed,
)
from mlestruct.structures.contract import Structure


# ---------------------------------------------------------------------- Frank-Wolfe variants
@pytest.mark.parametrize(
    "solver",
    [
        FrankWolfe(step="fixed"),
        BlockFrankWolfe(step="fixed"),
        BlockFrankWolfe(step="fixed", sampling="uniform"),
        BlockFrankWolfe(step="fixed", sampling="gap"),
        BlockFrankWolfe(sampling="uniform"),
        BlockFrankWolfe(sampling="gap"),
        BlockFrankWolfe(sampling="gap", working_set=5),
    ],
    ids=str,
)
def test_every_step_rule_and_sampling_approaches_the_optimum(solver):
    spaces, problem = matching_problem(11, alpha=1.0)
    best = solve(problem).objective
    start = start_near_observed(problem).dual(problem) - best
    result = solve(problem, solver, Stopping(tol=0.0, max_iter=300))
    end = dual_by_hand(spaces, problem, result.state.tau) - best
    assert -1e-9 <= end <= 0.1 * start
    for space, tau in zip(spaces, result.state.tau, strict=True):
        assert space.infeasibility(tau) < 1e-9


def test_start_near_observed_is_feasible_and_no_worse_than_the_interior():
    spaces, problem = matching_problem(12, alpha=0.01)
    start = start_near_observed(problem)
    for space, tau in zip(spaces, start.tau, strict=True):
        assert space.infeasibility(tau) < 1e-9
        assert (tau[np.ptp(space.vertices, axis=0) > 0] > 0).all()
    interior = [b.structure.interior() for b in problem.blocks]
    assert start.dual(problem) <= dual_by_hand(spaces, problem, interior) + 1e-9


@pytest.mark.parametrize("n_iter", [1, 5, 40])
def test_averaging_returns_the_weighted_mean_of_the_iterates(n_iter):
    _, problem = matching_problem(13)
    seen = []
    result = solve(
        problem,
        FrankWolfe(averaging=True),
        Stopping(tol=0.0, max_iter=n_iter, callback=lambda p: seen.append(p.theta.copy())),
    )
    weights = np.arange(1.0, n_iter + 1)  # theta_bar <- k/(k+2) theta_bar + 2/(k+2) theta
    np.testing.assert_allclose(result.theta, weights @ seen[1:] / weights.sum(), rtol=1e-10)


@pytest.mark.parametrize("solver", [FrankWolfe(averaging=True), BlockFrankWolfe(averaging=True)])
@pytest.mark.parametrize("n_iter", [2, 30])
def test_certificate_of_an_averaged_theta_is_about_that_theta(solver, n_iter):
    _, problem = matching_problem(14, alpha=0.1)
    result = solve(problem, solver, Stopping(tol=0.0, max_iter=n_iter))
    assert likelihood(problem, result.theta)[0] >= result.primal - 1e-9


class DecoderOnly(Structure):
    """The pixels of a small image with nothing but a decoder and an entropy."""

    def __init__(self, whole):
        self.n_coordinates, self.decode = whole.n_coordinates, whole.decode
        self.entropy, self.entropy_gradient = whole.entropy, whole.entropy_gradient
        self.interior = whole.interior


@pytest.mark.parametrize("solver", [FrankWolfe(averaging=True), BlockFrankWolfe(averaging=True)])
@pytest.mark.parametrize("oracle", [True, False])
def test_averaged_theta_of_images_has_a_finite_certificate(solver, oracle):
    problem = image_problem()
    given = problem
    if not oracle:
        one = DecoderOnly(problem.blocks[0].structure)
        given = DualProblem([replace(b, structure=one) for b in problem.blocks], problem.alpha)
    result = solve(given, solver, Stopping(tol=0.0, max_iter=40))
    value, bound, _ = likelihood(problem, result.theta)
    assert result.primal <= value + 1e-9
    assert result.gap == pytest.approx(result.objective - result.primal)
    # With the oracle the bound is P itself, up to its tolerance.
    assert result.primal >= bound - (1e-6 if oracle else 0.5 * abs(bound))
    best = solve(problem, "lbfgs")
    assert best.primal - 1e-9 <= result.objective
    assert result.primal <= best.objective + 1e-9


def test_averaging_also_approaches_the_optimum():
    _, problem = matching_problem(15, alpha=1.0)
    result = solve(problem, BlockFrankWolfe(averaging=True), Stopping(tol=1e-8, max_iter=1000))
    np.testing.assert_allclose(result.theta, solve(problem).theta, atol=0.02)


def test_block_frank_wolfe_repeats_itself_with_the_same_seed():
    _, problem = matching_problem(16)
    stopping = Stopping(tol=0.0, max_iter=1)
    one, two, other = (
        solve(problem, "bcfw", stopping, random_state=np.random.default_rng(seed))
        for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(one.theta, two.theta)
    assert not np.array_equal(one.state.r, other.state.r)
