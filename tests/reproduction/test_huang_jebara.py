"""Belief propagation against the certified oracle, which maximises the same function."""

from itertools import permutations

import numpy as np
import pytest

from mlestruct.structures import BipartiteGraph, BipartiteMatching
from reproduction.huang_jebara import belief_propagation


def problem_of(scores, rho, perfect):
    """The output space of a table of scores, -inf where a pair is not allowed, and its scores."""
    allowed = np.isfinite(scores)
    structure = BipartiteMatching(BipartiteGraph.from_mask(allowed), rho, perfect)
    w = np.zeros(structure.n_coordinates)
    w[: structure.n_scored] = scores[allowed]
    return structure, w


def oracle(scores, rho, perfect=True):
    """Marginals of the pairs and log Z_rho."""
    structure, w = problem_of(scores, rho, perfect)
    found = structure.marginals(w, None, 1e-11)
    return structure.graph.dense(found.tau[: structure.n_scored]), found.value


def propagate(scores, rho=1.0, perfect=True, **options):
    """What belief propagation found, and the table of its beliefs."""
    structure, w = problem_of(np.asarray(scores), rho, perfect)
    found = belief_propagation(structure, w, **options)
    return found, structure.graph.dense(found.tau[: structure.n_scored])


@pytest.mark.parametrize("rho", [0.5, 0.75, 0.95, 1.0])
@pytest.mark.parametrize("shape", [(2, 2), (6, 6), (20, 20), (3, 6), (6, 3), (1, 4)])
def test_beliefs_equal_the_oracle(shape, rho):
    for seed in range(3):
        scores = (1 + seed) * np.random.default_rng(seed).normal(size=shape)
        found, beliefs = propagate(scores, rho, max_sweeps=5000, tol=1e-10)
        tau, value = oracle(scores, rho)
        assert found.converged
        np.testing.assert_allclose(beliefs, tau, atol=1e-5)
        assert found.log_partition == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("perfect", [True, False])
def test_each_node_may_have_its_own_rho(perfect):
    rng = np.random.default_rng(0)
    scores = 2.0 * rng.normal(size=(7, 7))
    rho = rng.uniform(0.5, 1.0, size=14)
    found, beliefs = propagate(scores, rho, perfect, max_sweeps=5000, tol=1e-11)
    tau, value = oracle(scores, rho, perfect)
    assert found.converged
    np.testing.assert_allclose(beliefs, tau, atol=1e-5)
    assert found.log_partition == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_the_log_partition_of_messages_has_a_quadratic_error(rho):
    """Twice as many sweeps square the error of the beliefs; that of log Z is its square."""
    scores = np.random.default_rng(0).normal(size=(8, 8))
    tau, value = oracle(scores, rho)
    for sweeps in (4, 8, 12):
        found, beliefs = propagate(scores, rho, max_sweeps=sweeps, tol=0.0)
        error = np.abs(beliefs - tau).sum()
        assert abs(found.log_partition - value) <= 10.0 * error**2 + 1e-9


def test_bethe_log_partition_bounds_the_sum_over_matchings():
    scores = np.random.default_rng(0).normal(size=(5, 5))
    totals = [sum(scores[i, p[i]] for i in range(5)) for p in permutations(range(5))]
    exact = np.log(np.exp(totals).sum())
    bethe, reweighted = (propagate(scores, rho)[0].log_partition for rho in (1.0, 0.5))
    assert bethe < exact < reweighted


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_row_and_column_constants_do_not_change_beliefs(rho):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(6, 6))
    shift = 100.0 * rng.normal(size=(6, 1)) + 100.0 * rng.normal(size=6)
    limits = {"max_sweeps": 5000, "tol": 1e-11}
    plain, before = propagate(scores, rho, **limits)
    moved, after = propagate(scores + shift, rho, **limits)
    np.testing.assert_allclose(before, after, atol=1e-8)
    assert moved.log_partition - plain.log_partition == pytest.approx(shift.sum() / 6, abs=1e-7)


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_scores_beyond_the_range_of_exponentials(rho):
    scores = np.random.default_rng(0).normal(size=(5, 5))
    limits = {"max_sweeps": 5000, "tol": 1e-11}
    plain, _ = propagate(scores, rho, **limits)
    scores[0, 1] = -3000.0  # as good as forbidden, and out of reach of products
    found, beliefs = propagate(scores, rho, **limits)
    assert found.converged
    assert beliefs[0, 1] == 0.0
    assert np.isfinite(found.log_partition)
    assert found.log_partition < plain.log_partition
    scores[0, 1] = -60.0
    near, beliefs_near = propagate(scores, rho, **limits)
    np.testing.assert_allclose(beliefs, beliefs_near, atol=1e-8)
    assert found.log_partition == pytest.approx(near.log_partition, abs=1e-8)


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("perfect", [True, False])
def test_scores_spread_wide_have_the_best_matching(rho, perfect):
    scores = 100.0 * np.random.default_rng(0).normal(size=(6, 6))
    found, beliefs = propagate(scores, rho, perfect, max_sweeps=5000)
    tau, value = oracle(scores, rho, perfect)
    np.testing.assert_allclose(beliefs, tau, atol=1e-6)
    assert found.log_partition == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("perfect", [True, False])
def test_weights_out_of_the_range_of_floats_are_told(perfect):
    scores = 1e4 * np.random.default_rng(0).normal(size=(6, 6))
    found, beliefs = propagate(scores, 0.8, perfect)
    assert not found.converged
    assert found.log_partition == np.inf
    assert np.isfinite(beliefs).all()


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_warm_messages_save_sweeps_and_are_left_alone(rho):
    scores = 3.0 * np.random.default_rng(0).normal(size=(15, 15))
    cold, beliefs = propagate(scores, rho)
    kept = cold.warm[0].copy(), cold.warm[1].copy()
    warm, again = propagate(scores, rho, warm=cold.warm)
    assert warm.sweeps < cold.sweeps
    assert warm.log_partition == pytest.approx(cold.log_partition, abs=1e-10)
    np.testing.assert_allclose(again, beliefs, atol=1e-6)
    np.testing.assert_array_equal(cold.warm[0], kept[0])
    np.testing.assert_array_equal(cold.warm[1], kept[1])


def test_wide_scores_start_from_those_that_are_not():
    scores = np.random.default_rng(0).normal(size=(6, 6))
    start = propagate(scores)[0].warm
    scores[0, 0] = -400.0
    cold, beliefs = propagate(scores, tol=1e-11)
    warm, again = propagate(scores, tol=1e-11, warm=start)
    np.testing.assert_allclose(again, beliefs, atol=1e-7)
    assert warm.log_partition == pytest.approx(cold.log_partition, abs=1e-9)


def test_a_single_pair_is_certain():
    found, beliefs = propagate([[2.5]])
    assert (beliefs[0, 0], found.log_partition, found.sweeps) == (1.0, 2.5, 0)
    assert found.converged


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_messages_of_a_certain_matching_do_not_fake_convergence(rho):
    scores = np.random.default_rng(0).normal(size=(6, 6))
    certain = propagate(scores + 30.0 * np.eye(6), rho)[0].warm
    _, cold = propagate(scores, rho)
    found, warm = propagate(scores, rho, warm=certain)
    assert found.converged
    np.testing.assert_allclose(warm, cold, atol=1e-6)


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_nodes_may_stay_single_and_pairs_be_forbidden(rho, damping):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(5, 6))
    scores[rng.random((5, 6)) < 0.3] = -np.inf
    found, beliefs = propagate(scores, rho, False, damping=damping, max_sweeps=5000, tol=1e-10)
    tau, value = oracle(scores, rho, perfect=False)
    assert found.converged
    np.testing.assert_allclose(beliefs, tau, atol=1e-5)
    assert found.log_partition == pytest.approx(value, abs=1e-7)


def test_forbidden_pairs_of_a_perfect_matching():
    scores = np.random.default_rng(2).normal(size=(5, 5))
    scores[np.arange(5), np.arange(5)] = -np.inf
    found, beliefs = propagate(scores, max_sweeps=5000, tol=1e-10)
    tau, value = oracle(scores, 1.0)
    np.testing.assert_allclose(beliefs, tau, atol=1e-5)
    assert found.log_partition == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("rho", [0.9, 1.0])
def test_damping_slows_down_and_changes_nothing_else(rho):
    scores = np.random.default_rng(3).normal(size=(8, 8))
    plain, beliefs = propagate(scores, rho, tol=1e-10)
    damped, same = propagate(scores, rho, tol=1e-10, damping=0.8)
    assert damped.converged
    assert damped.sweeps > plain.sweeps
    np.testing.assert_allclose(same, beliefs, atol=1e-7)


def test_what_did_not_converge_says_so():
    found, _ = propagate(5.0 * np.random.default_rng(0).normal(size=(20, 20)), max_sweeps=2)
    assert not found.converged
    assert found.sweeps == 2
    assert found.change > 1e-8
