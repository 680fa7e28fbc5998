"""The preconditioner against the curvature it models."""

import numpy as np
from dual_problems import image_problem, labelling_problem

from mlestruct.learning.preconditioner import preconditioner


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
