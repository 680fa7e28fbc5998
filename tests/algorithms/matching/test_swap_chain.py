"""Sampled matchings against the distribution spelled out, matching by matching."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.exceptions import ConvergenceWarning

from mlestruct.algorithms.markov_chains import effective_size, split_rhat
from mlestruct.algorithms.matching import _swap_chain_kernels as kernels
from mlestruct.algorithms.matching.swap_chain import sample_by_swaps

rng_of = np.random.default_rng


def packed(n, scale=1.0, seed=0):
    return np.random.default_rng(seed).normal(scale=scale, size=n * (n - 1) // 2)


def square(scores):
    """The symmetric matrix of packed scores."""
    n = round((1 + (1 + 8 * scores.size) ** 0.5) / 2)
    table = np.zeros((n, n))
    table[np.triu_indices(n, 1)] = scores
    return table + table.T


def all_pairings(n):
    """Every perfect matching of n people, as everyone's partner."""

    def extend(partner):
        free = [i for i in range(n) if partner[i] < 0]
        if not free:
            yield tuple(partner)
            return
        for other in free[1:]:
            further = list(partner)
            further[free[0]], further[other] = other, free[0]
            yield from extend(further)

    return list(extend([-1] * n))


def all_assignments(n_rows, n_cols):
    """Every assignment that matches the smaller side, as the column of each row or -1."""
    if n_rows <= n_cols:
        return list(itertools.permutations(range(n_cols), n_rows))
    found = []
    for rows in itertools.permutations(range(n_rows), n_cols):
        column = [-1] * n_rows
        for j, i in enumerate(rows):
            column[i] = j
        found.append(tuple(column))
    return found


def probabilities(totals):
    weights = np.exp(np.array(totals) - max(totals))
    return weights / weights.sum()


def pairing_probabilities(scores):
    table, n = square(scores), square(scores).shape[0]
    states = all_pairings(n)
    return states, probabilities([sum(table[i, s[i]] for i in range(n)) / 2 for s in states])


def counts(states, partners):
    place = {state: k for k, state in enumerate(states)}
    return np.bincount([place[tuple(p)] for p in partners.tolist()], minlength=len(states))


@pytest.mark.parametrize(("n", "scale"), [(4, 0.7), (4, 1.5), (6, 0.0), (6, 0.8), (8, 0.4)])
def test_pairings_have_their_exact_frequencies(n, scale):
    scores = packed(n, scale, seed=n)
    states, expected = pairing_probabilities(scores)
    assert len(states) == {4: 3, 6: 15, 8: 105}[n]
    samples = sample_by_swaps(scores, 6000, rng=rng_of(1))
    assert samples.converged
    assert samples.rhat <= 1.05
    found = counts(states, samples.states)
    assert chisquare(found, 6000 * expected).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(3, 3), (4, 4), (2, 4), (4, 3), (1, 3)])
def test_assignments_have_their_exact_frequencies(shape):
    table = np.random.default_rng(3).normal(scale=0.8, size=shape)
    states = all_assignments(*shape)
    expected = probabilities([sum(table[i, j] for i, j in enumerate(s) if j >= 0) for s in states])
    samples = sample_by_swaps(table, 6000, bipartite=True, rng=rng_of(2))
    found = counts(states, samples.states)
    assert chisquare(found, 6000 * expected).pvalue > 1e-3


def test_single_moves_are_in_detailed_balance():
    scores = packed(6, 0.8, seed=5)
    states, probability = pairing_probabilities(scores)
    place = {state: k for k, state in enumerate(states)}
    rng, tries = np.random.default_rng(0), 8_000
    moved = np.zeros((15, 15))
    for k, state in enumerate(states):
        for _ in range(tries):
            partner = np.array(state)
            kernels.move_pairs(scores, partner, rng, 1)
            moved[k, place[tuple(partner.tolist())]] += 1.0 / tries
    flow = probability[:, None] * moved
    assert (moved > 0).sum() == 15 * 7  # three choices of two pairs, two new pairings of each
    np.testing.assert_allclose(flow, flow.T, atol=5 * np.sqrt(0.25 / tries) * probability.max())
    np.testing.assert_allclose(probability @ moved, probability, atol=4e-3)


def test_pair_frequencies_are_the_marginals():
    scores = packed(8, 1.0, seed=7)
    states, probability = pairing_probabilities(scores)
    exact = np.zeros((8, 8))
    for state, p in zip(states, probability, strict=True):
        exact[np.arange(8), state] += p
    partners = sample_by_swaps(square(scores), 8000, n_chains=4, rng=rng_of(4)).states
    found = np.array([(partners == j).mean(axis=0) for j in range(8)]).T
    np.testing.assert_allclose(found, exact, atol=0.025)


def test_matrix_and_packed_scores_give_the_same_draws():
    scores = packed(10)
    table = square(scores)
    np.fill_diagonal(table, np.nan)  # nobody is their own partner
    one = sample_by_swaps(scores, 5, rng=rng_of(6))
    other = sample_by_swaps(table, 5, rng=rng_of(6))
    np.testing.assert_array_equal(one.states, other.states)
    assert one.states.shape == (5, 10)
    np.testing.assert_array_equal(
        np.take_along_axis(one.states, one.states, axis=1), np.tile(np.arange(10), (5, 1))
    )
    different = sample_by_swaps(scores, 5, rng=rng_of(7))
    assert (one.states != different.states).any()


def test_two_people_have_one_matching():
    samples = sample_by_swaps([0.3], 3, rng=rng_of(0))
    np.testing.assert_array_equal(samples.states, [[1, 0]] * 3)
    assert samples.converged


def test_strong_scores_give_the_best_matching():
    table = np.zeros((12, 12))
    for i in range(0, 12, 2):
        table[i, i + 1] = table[i + 1, i] = 30.0
    samples = sample_by_swaps(table, 2, rng=rng_of(0))
    np.testing.assert_array_equal(samples.states, [[1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10]] * 2)


def test_chains_that_cannot_meet_are_reported():
    # Two good matchings of 6 people and a deep valley between them: a hexagon's alternating sides.
    table = np.full((6, 6), -60.0)
    for i in range(6):
        table[i, (i + 1) % 6] = table[(i + 1) % 6, i] = 0.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [sample_by_swaps(table, max_sweeps=400, rng=rng_of(s)) for s in range(8)]
    stuck = [samples for samples in found if samples.rhat > 1.05]
    assert stuck  # some pairs of starts lie on both sides
    assert len(caught) == sum(not samples.converged for samples in found)
    assert all(w.category is ConvergenceWarning for w in caught)
    assert "after 400 sweeps" in str(caught[0].message)


def test_diagnostics_of_known_series():
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(4, 4000, 1))
    assert split_rhat(independent) == pytest.approx(1.0, abs=2e-3)
    assert effective_size(independent) == pytest.approx(16_000, rel=0.1)
    correlated = independent.copy()
    for t in range(1, 4000):  # autocorrelation time (1 + 0.8) / (1 - 0.8) = 9
        correlated[:, t] = 0.8 * correlated[:, t - 1] + independent[:, t]
    assert effective_size(correlated) == pytest.approx(16_000 / 9, rel=0.25)
    apart = independent + np.array([0.0, 0.0, 2.0, 2.0])[:, None, None]
    assert split_rhat(apart) == pytest.approx(np.sqrt(1 + 8 / 7), rel=0.05)
    assert split_rhat(np.ones((2, 10, 1))) == 1.0
    assert split_rhat(np.arange(2.0)[:, None, None] * np.ones((2, 10, 1))) == np.inf


@pytest.mark.parametrize(
    ("scores", "arguments", "message"),
    [
        (packed(5), {}, "even number of people, got 5"),
        (np.zeros((3, 3)), {}, "even number of people, got 3"),
        (np.zeros(7), {}, "expected n .n - 1. / 2 numbers.*got 7"),
        (np.zeros((4, 6)), {}, "got shape .4, 6.*bipartite"),
        (np.arange(16.0).reshape(4, 4), {}, "not symmetric"),
        ([0.0, np.nan, 0.0, 0.0, 0.0, 0.0], {}, "NaN"),
        ([0.0, -np.inf, 0.0, 0.0, 0.0, 0.0], {}, "forbidden pairs are not supported"),
        ([0.0, np.inf, 0.0, 0.0, 0.0, 0.0], {}, "infinity"),
        ([[0.0, -np.inf]], {"bipartite": True}, "forbidden pairs are not supported"),
        (np.zeros(6), {"bipartite": True}, "expected a matrix"),
        (np.zeros(6), {"n_samples": 0}, "n_samples: expected at least 1"),
        (np.zeros(6), {"max_sweeps": 10}, "max_sweeps: expected at least 100"),
        (np.zeros(6), {"tol_rhat": 1.0}, "tol_rhat: expected more than 1"),
    ],
)
def test_errors_say_what_was_found(scores, arguments, message):
    with pytest.raises(ValueError, match=message):
        sample_by_swaps(scores, rng=rng_of(0), **arguments)
