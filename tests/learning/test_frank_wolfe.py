"""Frank-Wolfe and its block version: steps, averaging, threads, and the linear subproblem."""

import time
from dataclasses import replace

import numpy as np
import pytest
from dual_problems import (
    DecoderOnly,
    dual_by_hand,
    image_problem,
    likelihood,
    matching_problem,
    solve,
)

from mlestruct.learning import BlockFrankWolfe, FrankWolfe, Problem
from mlestruct.learning.certificate import DualState
from mlestruct.structures import Pairwise

BOTH = pytest.mark.parametrize("kind", [FrankWolfe, BlockFrankWolfe])


@BOTH
@pytest.mark.parametrize("step", ["fixed", "line_search"])
def test_every_step_rule_approaches_the_optimum(kind, step):
    spaces, problem = matching_problem(11, alpha=1.0)
    best = solve(problem).objective
    first = DualState.first(problem, None).dual(problem) - best
    result = solve(problem, kind(step=step), 0.0, max_iter=300)
    end = dual_by_hand(spaces, problem, result.state.tau) - best
    assert -1e-9 <= end <= 0.1 * first
    for space, tau in zip(spaces, result.state.tau, strict=True):
        assert space.infeasibility(tau) < 1e-9


def test_an_unknown_step_is_an_error():
    with pytest.raises(ValueError, match="`step` must be 'fixed' or 'line_search'; got 'exact'"):
        solve(matching_problem()[1], FrankWolfe(step="exact"))


@pytest.mark.parametrize("n_iter", [1, 5, 40])
def test_averaging_returns_the_weighted_mean_of_the_iterates(n_iter):
    _, problem = matching_problem(13)
    seen = []
    solver = FrankWolfe(averaging=True, callback=lambda p: seen.append(p.theta.copy()))
    result = solve(problem, solver, 0.0, max_iter=n_iter)
    weights = np.arange(1.0, n_iter + 1)  # theta_bar <- k/(k+2) theta_bar + 2/(k+2) theta
    np.testing.assert_allclose(result.theta, weights @ seen[1:] / weights.sum(), rtol=1e-10)


@BOTH
@pytest.mark.parametrize("n_iter", [2, 30])
def test_certificate_of_an_averaged_theta_is_about_that_theta(kind, n_iter):
    _, problem = matching_problem(14, alpha=0.1)
    result = solve(problem, kind(averaging=True), 0.0, max_iter=n_iter)
    assert likelihood(problem, result.theta)[0] >= result.objective - 1e-9


@BOTH
@pytest.mark.parametrize("oracle", [True, False])
def test_averaged_theta_of_images_has_a_finite_certificate(kind, oracle):
    problem = image_problem()
    given = problem
    if not oracle:
        one = DecoderOnly(problem.blocks[0].structure)
        given = Problem([replace(b, structure=one) for b in problem.blocks], problem.alpha)
    result = solve(given, kind(averaging=True), 0.0, max_iter=40)
    value, bound, _ = likelihood(problem, result.theta)
    assert result.objective <= value + 1e-9
    assert result.gap == pytest.approx(result.objective_bound - result.objective)
    # With the oracle the bound is P itself, up to its tolerance.
    assert result.objective >= bound - (1e-6 if oracle else abs(bound))
    best = solve(problem)
    assert best.objective - 1e-9 <= result.objective_bound
    assert result.objective <= best.objective_bound + 1e-9


def test_averaging_also_approaches_the_optimum():
    _, problem = matching_problem(15, alpha=1.0)
    result = solve(problem, BlockFrankWolfe(averaging=True), 1e-8, max_iter=1000)
    np.testing.assert_allclose(result.theta, solve(problem).theta, atol=0.02)


def test_block_frank_wolfe_repeats_itself_with_the_same_seed():
    _, problem = matching_problem(16)
    one, two, other = (
        solve(problem, BlockFrankWolfe(), 0.0, max_iter=1, random_state=seed) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(one.theta, two.theta)
    assert not np.array_equal(one.state.r, other.state.r)


@BOTH
@pytest.mark.parametrize("problem", [matching_problem(4)[1], image_problem()], ids=["m", "i"])
def test_threads_do_not_change_the_result(kind, problem):
    three = Problem(problem.blocks, problem.alpha, n_jobs=3)
    one, other = (solve(given, kind(), 0.0, max_iter=8) for given in (problem, three))
    np.testing.assert_array_equal(one.theta, other.theta)
    assert one.history.gap == other.history.gap
    assert one.oracle_calls == other.oracle_calls


def test_oracle_calls_overlap_on_threads(monkeypatch):
    blocks = image_problem(n_images=4).blocks
    decode, inside, most = Pairwise.decode, [], []

    def slow(self, *args, **kwargs):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.05)
        found = decode(self, *args, **kwargs)
        inside.pop()
        return found

    monkeypatch.setattr(Pairwise, "decode", slow)
    solve(Problem(blocks, 2.0, n_jobs=4), FrankWolfe(), 0.0, max_iter=3)
    assert max(most) == 4  # waiting takes no CPU time, and counts nevertheless
