"""L-BFGS: its start from a sample of blocks, and its preconditioner against the curvature."""

import numpy as np
import pytest
from dual_problems import image_problem, labelling_problem

from mlestruct.learning import LBFGS, Stopping, lbfgs
from mlestruct.learning.lbfgs import preconditioner, sample_of_blocks


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
