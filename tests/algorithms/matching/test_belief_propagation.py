"""Belief propagation against the certified oracle, which maximises the same function."""

from itertools import permutations

import numpy as np
import pytest

from mlestruct.algorithms.matching.belief_propagation import belief_propagation
from mlestruct.inference import marginals
from mlestruct.structures import BipartiteGraph, BipartiteMatching


def oracle(scores, rho, perfect=True):
    """Marginals of the pairs and log Z_rho."""
    allowed = np.isfinite(scores)
    structure = BipartiteMatching(BipartiteGraph.from_mask(allowed), rho, perfect)
    w = np.zeros(structure.n_coordinates)
    w[: structure.n_scored] = scores[allowed]
    found = structure.marginals(w, None, 1e-11)
    return structure.graph.dense(found.tau[: structure.n_scored]), found.value


@pytest.mark.parametrize("rho", [0.5, 0.75, 0.95, 1.0])
@pytest.mark.parametrize("shape", [(2, 2), (6, 6), (20, 20), (3, 6), (6, 3), (1, 4)])
def test_beliefs_equal_the_oracle(shape, rho):
    for seed in range(3):
        scores = (1 + seed) * np.random.default_rng(seed).normal(size=shape)
        found = belief_propagation(scores, rho, None, 5000, 1e-10)
        tau, value = oracle(scores, rho)
        assert found.converged
        np.testing.assert_allclose(found.beliefs, tau, atol=1e-5)
        assert found.log_partition == pytest.approx(value, abs=1e-7)


def test_bethe_log_partition_bounds_the_sum_over_matchings():
    scores = np.random.default_rng(0).normal(size=(5, 5))
    totals = [sum(scores[i, p[i]] for i in range(5)) for p in permutations(range(5))]
    exact = np.log(np.exp(totals).sum())
    bethe, reweighted = (belief_propagation(scores, rho).log_partition for rho in (1.0, 0.5))
    assert bethe < exact < reweighted


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_row_and_column_constants_do_not_change_beliefs(rho):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(6, 6))
    shift = 100.0 * rng.normal(size=(6, 1)) + 100.0 * rng.normal(size=6)
    plain, moved = (belief_propagation(s, rho, None, 5000, 1e-11) for s in (scores, scores + shift))
    np.testing.assert_allclose(plain.beliefs, moved.beliefs, atol=1e-8)
    assert moved.log_partition - plain.log_partition == pytest.approx(shift.sum() / 6, abs=1e-7)


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_scores_beyond_the_range_of_exponentials(rho):
    scores = np.random.default_rng(0).normal(size=(5, 5))
    plain = belief_propagation(scores, rho, None, 5000, 1e-11)
    scores[0, 1] = -3000.0  # as good as forbidden, and out of reach of products
    found = belief_propagation(scores, rho, None, 5000, 1e-11)
    assert found.converged
    assert found.beliefs[0, 1] == 0.0
    assert np.isfinite(found.log_partition)
    assert found.log_partition < plain.log_partition
    scores[0, 1] = -60.0
    near = belief_propagation(scores, rho, None, 5000, 1e-11)
    np.testing.assert_allclose(found.beliefs, near.beliefs, atol=1e-8)
    assert found.log_partition == pytest.approx(near.log_partition, abs=1e-8)


def test_warm_messages_save_sweeps_and_are_left_alone():
    scores = 3.0 * np.random.default_rng(0).normal(size=(15, 15))
    cold = belief_propagation(scores)
    kept = cold.messages.copy()
    warm = belief_propagation(scores, messages=cold.messages)
    assert warm.sweeps < cold.sweeps
    assert warm.log_partition == pytest.approx(cold.log_partition, abs=1e-10)
    np.testing.assert_array_equal(cold.messages, kept)


def test_a_single_pair_is_certain():
    found = belief_propagation(np.array([[2.5]]))
    assert (found.beliefs[0, 0], found.log_partition, found.sweeps) == (1.0, 2.5, 0)
    assert found.converged


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_messages_of_a_certain_matching_do_not_fake_convergence(rho):
    scores = np.random.default_rng(0).normal(size=(6, 6))
    certain = belief_propagation(scores + 30.0 * np.eye(6), rho).messages
    cold = belief_propagation(scores, rho)
    warm = belief_propagation(scores, rho, certain)
    assert warm.converged
    np.testing.assert_allclose(warm.beliefs, cold.beliefs, atol=1e-6)


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_nodes_may_stay_single_and_pairs_be_forbidden(rho, damping):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(5, 6))
    scores[rng.random((5, 6)) < 0.3] = -np.inf
    found = belief_propagation(
        scores, rho, None, 5000, 1e-10, damping=damping, free_rows=True, free_cols=True
    )
    tau, value = oracle(scores, rho, perfect=False)
    assert found.converged
    np.testing.assert_allclose(found.beliefs, tau, atol=1e-5)
    assert found.log_partition == pytest.approx(value, abs=1e-7)


def test_forbidden_pairs_of_a_perfect_matching():
    scores = np.random.default_rng(2).normal(size=(5, 5))
    scores[np.arange(5), np.arange(5)] = -np.inf
    found = belief_propagation(scores, 1.0, None, 5000, 1e-10)
    tau, value = oracle(scores, 1.0)
    np.testing.assert_allclose(found.beliefs, tau, atol=1e-5)
    assert found.log_partition == pytest.approx(value, abs=1e-7)


def test_damping_slows_down_and_changes_nothing_else():
    scores = np.random.default_rng(3).normal(size=(8, 8))
    plain = belief_propagation(scores, 0.9, tol=1e-10)
    damped = belief_propagation(scores, 0.9, tol=1e-10, damping=0.8)
    assert damped.converged
    assert damped.sweeps > plain.sweeps
    np.testing.assert_allclose(damped.beliefs, plain.beliefs, atol=1e-7)


def test_what_did_not_converge_says_so():
    found = belief_propagation(5.0 * np.random.default_rng(0).normal(size=(20, 20)), max_sweeps=2)
    assert not found.converged
    assert found.sweeps == 2
    assert found.change > 1e-8


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        ([[0.0, np.nan], [0.0, 0.0]], {}, "scores must be finite"),
        ([[np.inf]], {}, "scores must be finite"),
        (np.zeros(3), {}, r"scores: expected shape \(n_rows, n_cols\)"),
        ([[-np.inf, -np.inf], [0.0, 0.0]], {}, "row 0 has no allowed partner"),
        ([[-np.inf, 0.0], [-np.inf, 0.0]], {}, "column 0 has no allowed partner"),
        (np.zeros((2, 2)), {"rho": 0.3}, "rho must lie in"),
        (np.zeros((2, 2)), {"damping": 1.0}, "damping must lie in"),
        (np.zeros((2, 2)), {"max_sweeps": 0}, "max_sweeps must be"),
        (np.zeros((2, 2)), {"messages": np.zeros((2, 3, 3))}, "messages: expected shape"),
    ],
)
def test_wrong_input_is_named(scores, options, message):
    with pytest.raises(ValueError, match=message):
        belief_propagation(scores, **options)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["auto", "bp", "fw"])
@pytest.mark.parametrize("shift", [0.0, 1e3, -1e3, 1e6, -1e6])
def test_certificates_hold_at_any_level_of_the_scores(method, shift):
    options = {"fw": {"max_iter": 200}, "bp": {"max_sweeps": 300}}.get(method, {})
    rng = np.random.default_rng(0)
    for _ in range(15):
        n = int(rng.integers(3, 6))
        table = 10.0 * rng.normal(size=(n, n))
        table[(rng.random((n, n)) < 0.3) & ~np.eye(n, dtype=bool)] = -np.inf
        space = BipartiteMatching((n, n), float(rng.choice([0.5, 0.9, 1.0])))
        low = marginals(space, table, tol=1e-9)
        found = marginals(space, table + shift, method, **options)
        rounding = 1e-13 * n * n * (1.0 + abs(shift))
        level = found.log_partition - n * shift
        if np.isfinite(found.gap):
            assert level <= low.log_partition + low.gap + rounding
            assert level + found.gap >= low.log_partition - rounding
