"""The dual problem, its formula and its certificate."""

import numpy as np
import pytest
from bipartite_matchings import complete
from dual_problems import dual_by_hand, likelihood, matching_problem, solve
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators

from mlestruct.features import Rows
from mlestruct.learning import Block, BlockFrankWolfe, Problem, merge_equal
from mlestruct.learning.certificate import DualState, certify

examples = settings(deadline=None, max_examples=25)


K = 3


def random_points(spaces, rng, concentration=1.0):
    return [space.random_point(rng, concentration) for space in spaces]


# ---------------------------------------------------------------------- primal and dual
@examples
@given(st.integers(0, 1000), generators, st.sampled_from([0.5, 0.8, 1.0]), st.booleans())
def test_dual_follows_its_formula_and_bounds_every_likelihood(seed, rng, rho, offset):
    spaces, problem = matching_problem(seed, rho=rho, offset=offset)
    tau = random_points(spaces, rng)
    dual = DualState.at(problem, tau).dual(problem)
    assert dual == pytest.approx(dual_by_hand(spaces, problem, tau), rel=1e-10, abs=1e-10)
    for theta in (np.zeros(K), rng.normal(size=K), problem.theta(DualState.at(problem, tau).r)):
        assert likelihood(problem, theta)[1] <= dual + 1e-9


@examples
@given(st.integers(0, 1000), generators, st.booleans())
def test_gradient_of_the_likelihood_equals_finite_differences(seed, rng, offset):
    _, problem = matching_problem(seed, offset=offset)
    theta = 0.5 * rng.normal(size=K)
    gradient = likelihood(problem, theta)[2]
    for direction in np.eye(K):
        step = 1e-4 * direction
        rise = likelihood(problem, theta + step)[0] - likelihood(problem, theta - step)[0]
        assert rise / 2e-4 == pytest.approx(gradient @ direction, abs=1e-5)


@examples
@given(st.integers(0, 1000), generators, st.sampled_from([0.5, 0.8, 1.0]), st.booleans())
def test_certificate_never_understates_the_distance_to_the_optimum(seed, rng, rho, offset):
    spaces, problem = matching_problem(seed, rho=rho, offset=offset)
    optimum = solve(problem)
    tau = random_points(spaces, rng, rng.choice([0.3, 1.0, 5.0]))
    state = DualState.at(problem, tau)
    theta = problem.theta(state.r)
    found, _ = certify(problem, state, theta, [None] * len(tau))
    dual, primal = state.dual(problem), problem.primal(theta, found.log_partition)
    suboptimality = dual - optimum.objective
    assert found.fw_gap >= suboptimality - 1e-8
    assert primal <= optimum.objective + 1e-8
    # The primal value that a Frank-Wolfe gap implies is one of the theta at hand.
    assert dual - found.fw_gap <= likelihood(problem, theta)[0] + 1e-8


def test_frank_wolfe_gap_is_the_slope_of_the_dual_towards_the_vertices():
    spaces, problem = matching_problem(3, offset=True)
    tau = random_points(spaces, np.random.default_rng(0), 5.0)
    state = DualState.at(problem, tau)
    found, steps = certify(problem, state, problem.theta(state.r), [None] * len(tau))
    targets = [s.vertex.dense(t.shape[0]) for s, t in zip(steps, tau, strict=True)]

    def along(eta):
        moved = [t + eta * (v - t) for t, v in zip(tau, targets, strict=True)]
        return dual_by_hand(spaces, problem, moved)

    assert (along(1e-6) - along(-1e-6)) / 2e-6 == pytest.approx(-found.fw_gap, rel=1e-6)


# ---------------------------------------------------------------------- weights and offsets
def test_weight_two_equals_the_sample_twice():
    _, problem = matching_problem(4)
    first, *others = problem.blocks
    single = Block(first.structure, first.features, first.observed, 1.0)
    double = Block(first.structure, first.features, first.observed, 2.0)
    repeated = solve(Problem([single, single, *others], 1.0))
    weighted = solve(Problem([double, *others], 1.0))
    assert weighted.objective == pytest.approx(repeated.objective, abs=1e-8)
    np.testing.assert_allclose(weighted.theta, repeated.theta, atol=1e-6)


@pytest.mark.parametrize("solver", [None, BlockFrankWolfe()], ids=["lbfgs", "bcfw"])
def test_merging_equal_blocks_changes_nothing(solver):
    space = complete(3, rho=0.7)
    structure = space.structure
    rng = np.random.default_rng(0)
    features = [Rows(rng.normal(size=(9, K))) for _ in range(2)]
    blocks = [
        Block(structure, features[m % 2], structure.encode(y), 1.0 + m)
        for m, y in enumerate(space.labels)
    ]
    merged = merge_equal(blocks)
    assert len(merged) == 2
    assert sum(b.weight for b in merged) == sum(b.weight for b in blocks)
    full = solve(Problem(blocks, 1.0))
    result = solve(Problem(merged, 1.0), solver, 1e-6, max_iter=5000)
    assert result.objective_bound == pytest.approx(full.objective, rel=2e-6)
    np.testing.assert_allclose(result.theta, full.theta, atol=2e-3)


def test_offset_is_a_feature_with_a_fixed_weight():
    _, problem = matching_problem(5)
    fixed = 0.7  # the weight that feature 0 is held at
    blocks = []
    for b in problem.blocks:
        g = b.features.matrix
        offset = np.zeros(b.structure.n_coordinates)
        offset[: g.shape[0]] = fixed * g[:, 0]
        blocks.append(Block(b.structure, Rows(g[:, 1:]), b.observed, b.weight, offset))
    result = solve(Problem(blocks, 1.0))
    theta = np.concatenate([[fixed], result.theta])
    value, _, gradient = likelihood(problem.with_alpha(1.0), theta)
    assert result.objective_bound == pytest.approx(value + 0.5 * fixed**2, abs=1e-8)
    assert np.abs(gradient[1:]).max() < 1e-4
