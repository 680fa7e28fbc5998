"""The likelihood ascent when it starts from a sample of blocks."""

import numpy as np
import pytest
from dual_problems import image_problem

from mlestruct.learning import primal
from mlestruct.learning.history import Stopping
from mlestruct.learning.primal import LBFGS, sample_of_blocks


def test_starting_from_a_sample_leads_to_the_same_optimum(monkeypatch):
    problem = image_problem(n_images=24)
    assert sample_of_blocks(problem) == []
    plain = LBFGS().solve(problem, Stopping(tol=1e-9))
    monkeypatch.setattr(primal, "LARGE_PROBLEM", 1)
    assert len(sample_of_blocks(problem)) == 6
    sampled = LBFGS().solve(problem, Stopping(tol=1e-9))
    assert sampled.converged
    assert sampled.objective == pytest.approx(plain.objective, rel=1e-8)
    np.testing.assert_allclose(sampled.theta, plain.theta, atol=1e-4)


def test_time_limit_spent_on_the_sample_still_gives_a_certificate(monkeypatch):
    problem = image_problem(n_images=24)
    monkeypatch.setattr(primal, "LARGE_PROBLEM", 1)
    result = LBFGS().solve(problem, Stopping(tol=1e-12, max_time=1e-9))
    assert not result.converged
    assert np.isfinite(result.gap)
