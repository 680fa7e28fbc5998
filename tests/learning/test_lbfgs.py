"""L-BFGS: directions against BFGS written down, the preconditioner against the curvature."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from dual_problems import image_problem, labelling_problem, matching_problem, solve

from mlestruct.features.rows import FeatureMap
from mlestruct.learning import LBFGS, Monitor, Problem
from mlestruct.learning.lbfgs import Direction, evaluate, preconditioner
from mlestruct.structures.contract import Vertex

NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))


def test_preconditioner_inverts_the_modelled_curvature():
    problem = image_problem()
    apply = preconditioner(problem)
    curvature = np.zeros((problem.n_features, problem.n_features))
    every = [block.features.second_moments() for block in problem.blocks]
    start = 0
    for k, (_, scales) in enumerate(every[0]):
        gram = sum(found[k][0] for found in every)
        for scale in scales:
            part = slice(start, start + gram.shape[0])
            curvature[part, part] = scale * gram
            start += gram.shape[0]
    vector = np.random.default_rng(0).normal(size=problem.n_features)
    expected = np.linalg.solve(curvature + problem.alpha * np.eye(start), vector)
    np.testing.assert_allclose(apply(vector), expected, rtol=1e-9)


def test_preconditioner_is_symmetric_and_positive():
    _, problem = labelling_problem(3)
    matrix = np.array([preconditioner(problem)(row) for row in np.eye(problem.n_features)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0
    silent = preconditioner(problem.with_alpha(1e12))  # only the penalty is left
    np.testing.assert_allclose(silent(np.ones(problem.n_features)), 1e-12, rtol=1e-6)


class DiagonalMoments(FeatureMap):
    """Two features with known second moments, of which only the diagonal is kept."""

    n_features, n_scored = 2, 1

    def scores(self, theta):
        return theta[:1]

    def moments(self, tau):
        return np.array([tau[0], 0.0])

    def second_moments(self):
        return [(np.array([15.0, 80.0]), np.ones(1))]


def test_diagonal_second_moments_enter_by_their_fourth_root():
    block = replace(image_problem().blocks[0], features=DiagonalMoments(), observed=NOTHING)
    found = preconditioner(Problem([block], 1.0))
    vector = np.array([2.0, 3.0])
    np.testing.assert_allclose(found(vector), vector / [2.0, 3.0])
    assert found.curvature(vector) == pytest.approx(16.0 * 4.0 + 81.0 * 9.0)


@pytest.mark.parametrize("problem", [image_problem(), matching_problem()[1]])
def test_directions_are_those_of_bfgs_over_the_last_steps(problem):
    """With a preconditioner, and without: features of matchings have none."""
    direction, size = Direction(problem, memory=3), problem.n_features
    monitor, rng = Monitor(LBFGS(), 1e-9), np.random.default_rng(0)
    points = [evaluate(problem, monitor, rng.normal(size=size), 1e-10, None) for _ in range(7)]
    for at in points:
        step = direction(at)
    steps = [b.theta - a.theta for a, b in pairwise(points)][-3:]
    decreases = [a.gradient - b.gradient for a, b in pairwise(points)][-3:]
    start = preconditioner(problem) or np.copy
    scale = steps[-1] @ decreases[-1] / (decreases[-1] @ start(decreases[-1]))
    inverse = scale * np.array([start(row) for row in np.eye(size)])
    for s, y in zip(steps, decreases, strict=True):
        change = np.eye(size) - np.outer(s, y) / (s @ y)
        inverse = change @ inverse @ change.T + np.outer(s, s) / (s @ y)
    expected = inverse @ points[-1].gradient
    np.testing.assert_allclose(step, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("alpha", [1e-1, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_fits_at_rho_one_are_certified(alpha, seed):
    """log Z of the Bethe entropy has kinks, at which the gap closes only by the bundle."""
    _, problem = matching_problem(seed, n_blocks=12, alpha=alpha, rho=1.0)
    found = solve(problem, tol=1e-4)
    assert found.converged
    assert found.gap <= 1e-4 * max(1.0, abs(found.objective_bound))


def test_a_limit_before_the_first_step_leaves_no_certificate():
    found = solve(image_problem(), tol=1e-12, max_time=1e-9)
    assert not found.converged
    assert found.iterations == 0
