"""Parts of the likelihood ascent: dual bundle, preconditioner, sample of blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from mlestruct.features.pairwise import BinaryFeatures
from mlestruct.features.rows import ConstantRows, DenseRows
from mlestruct.learning import primal
from mlestruct.learning._bundle_kernels import minimise_on_simplex
from mlestruct.learning.bundle import DualBundle
from mlestruct.learning.history import Stopping
from mlestruct.learning.preconditioner import preconditioner
from mlestruct.learning.primal import LBFGS, sample_of_blocks
from mlestruct.learning.problem import Block, DualProblem
from mlestruct.structures import BinaryPairwise, grid


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_simplex_minimum_equals_slsqp(n, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n + 1))
    gram, linear = root @ root.T, rng.normal(size=n)
    found = minimise_on_simplex(gram, linear, np.eye(n)[0], 5000)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)

    def value(w):
        return 0.5 * w @ gram @ w - linear @ w

    reference = minimize(
        value,
        np.full(n, 1.0 / n),
        jac=lambda w: gram @ w - linear,
        bounds=[(0.0, 1.0)] * n,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        options={"ftol": 1e-14},
    )
    assert value(found) <= reference.fun + 1e-7 * (1.0 + abs(reference.fun))


def make_problem(n_images=6, alpha=2.0, shape=(4, 5), seed=0):
    rng = np.random.default_rng(seed)
    graph = grid(*shape)
    structure = BinaryPairwise(graph)
    blocks = []
    for _ in range(n_images):
        label = rng.integers(2, size=graph.n_nodes)
        nodes = np.c_[np.ones(graph.n_nodes), label + rng.normal(size=graph.n_nodes)]
        features = BinaryFeatures(graph, DenseRows(nodes), ConstantRows(graph.n_edges))
        blocks.append(Block(structure, features, structure.encode(label)))
    return DualProblem(blocks, alpha)


def test_bundle_bounds_the_optimum_better_than_any_single_evaluation():
    problem = make_problem()
    optimum = LBFGS().solve(problem, Stopping(tol=1e-10)).objective
    rng = np.random.default_rng(1)
    bundle = DualBundle(problem.target, problem.alpha, size=5)
    singles = []
    for _ in range(12):
        theta = rng.normal(size=problem.n_features)
        found = [b.structure.marginals(b.scores(theta), None, 1e-9) for b in problem.blocks]
        moments = sum(b.moments(f.tau) for b, f in zip(problem.blocks, found, strict=True))
        entropy = sum(
            b.structure.entropy(f.tau) for b, f in zip(problem.blocks, found, strict=True)
        )
        residual = problem.target - moments
        singles.append(residual @ residual / (2 * problem.alpha) - entropy)
        bound = bundle.add(residual, entropy)
        assert bound >= optimum - 1e-9 * abs(optimum)
    assert bound < min(singles)


def test_preconditioner_inverts_the_modelled_curvature():
    problem = make_problem()
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


def test_starting_from_a_sample_leads_to_the_same_optimum(monkeypatch):
    problem = make_problem(n_images=24)
    assert sample_of_blocks(problem) == []
    plain = LBFGS().solve(problem, Stopping(tol=1e-9))
    monkeypatch.setattr(primal, "LARGE_PROBLEM", 1)
    assert len(sample_of_blocks(problem)) == 6
    sampled = LBFGS().solve(problem, Stopping(tol=1e-9))
    assert sampled.converged
    assert sampled.objective == pytest.approx(plain.objective, rel=1e-8)
    np.testing.assert_allclose(sampled.theta, plain.theta, atol=1e-4)


def test_time_limit_spent_on_the_sample_still_gives_a_certificate(monkeypatch):
    problem = make_problem(n_images=24)
    monkeypatch.setattr(primal, "LARGE_PROBLEM", 1)
    result = LBFGS().solve(problem, Stopping(tol=1e-12, max_time=1e-9))
    assert not result.converged
    assert np.isfinite(result.gap)
