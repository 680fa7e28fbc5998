"""L-BFGS: its start from a sample of blocks, and its preconditioner against the curvature."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from dual_problems import image_problem, labelling_problem

from mlestruct.features.contract import FeatureMap
from mlestruct.learning import LBFGS, Stopping, lbfgs
from mlestruct.learning.ascent import Evaluator
from mlestruct.learning.lbfgs import preconditioner, sample_of_blocks
from mlestruct.learning.problem import DualProblem
from mlestruct.structures.contract import Vertex

NOTHING = Vertex(np.zeros(0, dtype=np.int64), np.zeros(0))


def test_starting_from_a_sample_leads_to_the_same_optimum(monkeypatch):
    problem = image_problem(n_images=24)
    assert sample_of_blocks(problem) == []
    plain = LBFGS().solve(problem, Stopping(tol=1e-9))
    monkeypatch.setattr(lbfgs, "LARGE_PROBLEM", 1)
    assert len(sample_of_blocks(problem)) == 6
    sampled = LBFGS().solve(problem, Stopping(tol=1e-9))
    assert sampled.converged
    assert sampled.objective == pytest.approx(plain.objective, rel=1e-8)
    np.testing.assert_allclose(sampled.theta, plain.theta, atol=1e-4)


def test_time_limit_spent_on_the_sample_still_gives_a_certificate(monkeypatch):
    problem = image_problem(n_images=24)
    monkeypatch.setattr(lbfgs, "LARGE_PROBLEM", 1)
    result = LBFGS().solve(problem, Stopping(tol=1e-12, max_time=1e-9))
    assert not result.converged
    assert np.isfinite(result.gap)


def test_preconditioner_inverts_the_modelled_curvature():
    problem = image_problem()
    apply = preconditioner(problem)
    curvature = np.zeros((problem.n_features, problem.n_features))
    start = 0
    totals = [0.0, 0.0]
    for block in problem.blocks:
        for k, (gram, _) in enumerate(block.features.second_moments()):
            totals[k] = totals[k] + gram
    scales = [s for _, s in problem.blocks[0].features.second_moments()]
    for gram, scale in zip(totals, scales, strict=True):
        for value in scale:
            part = slice(start, start + gram.shape[0])
            curvature[part, part] = value * gram
            start += gram.shape[0]
    vector = np.random.default_rng(0).normal(size=problem.n_features)
    expected = np.linalg.solve(curvature + problem.alpha * np.eye(start), vector)
    np.testing.assert_allclose(apply(vector), expected, rtol=1e-9)


def test_preconditioner_is_symmetric_and_positive():
    _, problem = labelling_problem(3, False)
    apply = preconditioner(problem)
    matrix = np.array([apply(row) for row in np.eye(problem.n_features)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0
    # Where features say nothing, only the regularisation is left.
    silent = problem.with_alpha(1e12)
    np.testing.assert_allclose(
        preconditioner(silent)(np.ones(problem.n_features)), 1e-12, rtol=1e-6
    )


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
    found = preconditioner(DualProblem([block], 1.0))
    vector = np.array([2.0, 3.0])
    np.testing.assert_allclose(found(vector), vector / [2.0, 3.0])
    assert found.curvature(vector) == pytest.approx(16.0 * 4.0 + 81.0 * 9.0)


@pytest.mark.parametrize("single", [False, True])
def test_directions_are_those_of_bfgs(single, monkeypatch):
    """Over the last three steps, also where vectors of forgotten ones are used again."""
    if single:
        monkeypatch.setattr(lbfgs, "PAIR_NUMBERS", 0)
    problem = image_problem()
    directions = lbfgs.LBFGSDirections(problem, memory=3)
    evaluate = Evaluator(problem, [None] * len(problem.blocks), map, lambda: False)
    rng = np.random.default_rng(0)
    points = [evaluate(rng.normal(size=problem.n_features), 1e-10) for _ in range(7)]
    for at in points:
        step = directions(at)
    steps = [b.theta - a.theta for a, b in pairwise(points)][-3:]
    decreases = [a.gradient - b.gradient for a, b in pairwise(points)][-3:]
    start = preconditioner(problem)
    scale = steps[-1] @ decreases[-1] / (decreases[-1] @ start(decreases[-1]))
    inverse = scale * np.array([start(row) for row in np.eye(problem.n_features)])
    for s, y in zip(steps, decreases, strict=True):
        change = np.eye(s.size) - np.outer(s, y) / (s @ y)
        inverse = change @ inverse @ change.T + np.outer(s, s) / (s @ y)
    expected = inverse @ points[-1].gradient
    accuracy = 1e-4 if single else 1e-9
    np.testing.assert_allclose(step, expected, atol=accuracy * np.abs(expected).max())
    assert len(directions.pairs) == 3
    assert directions.pairs[0].step.dtype == (np.float32 if single else np.float64)
    result = LBFGS().solve(problem, Stopping(tol=1e-9))
    assert result.converged
