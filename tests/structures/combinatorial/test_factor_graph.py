"""Factor graphs against enumeration, pairwise graphs, and theorems about counting numbers."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from mlestruct import StructuredCRF, check_structure
from mlestruct.exceptions import TooLargeToCount
from mlestruct.inference import log_partition_bounds, marginals
from mlestruct.structures import FactorGraph, Pairwise, PairwiseGraph

SIZES, FACTORS = [2, 3, 2, 2], [(0, 1, 2), (3, 1), (2, 3, 0)]


def labellings(space):
    return [np.array(label) for label in product(*map(range, space.polytope.n_states))]


def outputs(space):
    return np.array([space.encode(label).dense(space.n_coordinates) for label in labellings(space)])


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([0.3, 2.0, 20.0]))
def test_against_enumeration(seed, scale):
    rng = np.random.default_rng(seed)
    space = FactorGraph(SIZES, FACTORS)
    table = outputs(space)
    scores = scale * rng.normal(size=space.n_coordinates)
    totals = table @ scores
    log_z = logsumexp(totals)
    exact = space.exact(scores)
    assert exact.log_partition == pytest.approx(log_z)
    np.testing.assert_allclose(exact.tau, np.exp(totals - log_z) @ table, atol=1e-9)
    best = space.encode(space.best_label(scores))
    assert best.dot(scores) == pytest.approx(totals.max())
    assert space.decode(scores).score >= totals.max() - 1e-7 * scale
    bounds = log_partition_bounds(space, scores, tol=1e-2)
    assert bounds.lower <= log_z + 1e-9 <= bounds.upper + 2e-9
    drawn = exact.sample(300, rng)
    first = np.array([np.mean(drawn[:, 1] == s) for s in range(3)])
    assert np.abs(first - exact.tau[2:5]).max() < 0.16


def test_the_default_entropy_is_a_concave_upper_bound():
    """Shearer's lemma, and Heskes' condition."""
    space = FactorGraph(SIZES, FACTORS)
    assert space.has_bound
    assert (space.variables >= 0).all()
    for seed in range(3):
        scores = np.random.default_rng(seed).normal(size=space.n_coordinates)
        found = marginals(space, scores, tol=1e-3)
        assert space.exact(scores).log_partition <= found.log_partition + found.gap + 1e-9


def test_trees_are_exact_with_counting_number_one():
    space = FactorGraph([2, 2, 3, 2], [(0, 1, 2), (2, 3)], counting=1.0)
    assert space.has_bound  # Bethe entropies of trees are concave
    scores = np.random.default_rng(1).normal(size=space.n_coordinates)
    found = marginals(space, scores, tol=1e-5)
    exact = space.exact(scores)
    assert found.log_partition <= exact.log_partition + 1e-9
    assert exact.log_partition <= found.log_partition + found.gap + 1e-9
    np.testing.assert_allclose(found.tau, exact.tau, atol=2e-2)


def test_bethe_on_cycles_is_concave_on_one_cycle_only():
    cycle = [(0, 1), (1, 2), (2, 0)]
    assert FactorGraph([2] * 3, cycle, counting=1.0).has_bound
    complete = [(a, b) for a in range(4) for b in range(a)]
    bethe = FactorGraph([2] * 4, complete, counting=1.0)
    assert not bethe.has_bound
    scores = np.random.default_rng(0).normal(size=bethe.n_coordinates)
    lower, upper = log_partition_bounds(bethe, scores, tol=1e-2)  # do not rest on that entropy
    assert lower <= bethe.exact(scores).log_partition <= upper < np.inf


def test_pairs_are_a_pairwise_graph():
    """The same scores and counting numbers as `Pairwise` with rho = 1/2."""
    edges = [(0, 1), (1, 2), (2, 0)]
    pairwise = Pairwise(PairwiseGraph(3, np.array(edges)), 3, 0.5)
    factors = FactorGraph([3] * 3, edges, counting=0.5)
    scores = np.random.default_rng(2).normal(size=pairwise.n_coordinates)
    one = marginals(pairwise, scores, tol=1e-7)
    other = marginals(factors, scores, tol=1e-3)
    assert other.log_partition <= one.log_partition + one.gap
    assert one.log_partition <= other.log_partition + other.gap + 1e-9


def test_fractional_vertices_are_rounded_by_an_integer_program():
    """Three bits that all differ: the relaxation takes halves, a labelling cannot."""
    space = FactorGraph([2] * 3, [(0, 1), (1, 2), (2, 0)])
    differ = np.array([[0.0, 1.0], [1.0, 0.0]])
    scores = space.from_tables([[0.0, 0.0]] * 3, [differ] * 3)
    assert space.decode(scores).score == pytest.approx(3.0)
    assert space.encode(space.best_label(scores)).dot(scores) == pytest.approx(2.0)


def test_learning_higher_order_weights():
    rng = np.random.default_rng(3)
    space = FactorGraph([2] * 4, [(0, 1, 2), (1, 2, 3)])
    even = np.indices((2, 2, 2)).sum(axis=0) % 2 == 0
    X = []
    for _ in range(15):
        bias = rng.normal(size=4)
        tables = [[0.0, b] for b in bias]
        zero = [np.zeros((2, 2, 2))] * 2
        parity = space.from_tables([[0.0, 0.0]] * 4, [even] * 2)
        X.append(np.column_stack([space.from_tables(tables, zero), parity]))
    Y = [space.exact(x @ [1.0, 1.5]).sample(1, rng)[0] for x in X]
    model = StructuredCRF(structure=space, tol=0.05).fit(X, Y)
    assert (model.coef_ > 0).all()
    lower, upper = model.log_likelihood_bounds(X, Y)
    exact = model.log_likelihood(X, Y)
    assert (lower <= exact + 1e-9).all()
    assert (exact <= upper + 1e-9).all()


def test_the_contract_holds():
    report = check_structure(FactorGraph(SIZES, FACTORS), labels=[[0, 1, 0, 1]], on_fail=None)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "n_states: expected at least 2"),
        (([2, 1], []), "n_states: expected at least 2"),
        (([2, 2], [(0, 0)]), r"factors\[0\]: expected different variables of 0 .. 1"),
        (([2, 2], [(0, 5)]), r"factors\[0\]"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        FactorGraph(*arguments)


def test_bad_labels_and_sizes():
    space = FactorGraph(SIZES, FACTORS)
    with pytest.raises(ValueError, match="variable 1 has states 0 to 2, got 3"):
        space.encode([0, 3, 0, 0])
    with pytest.raises(ValueError, match="expected 4 whole numbers"):
        space.encode([0.5, 0, 0, 0])
    large = FactorGraph([2] * 40, [(0, 1)])
    with pytest.raises(TooLargeToCount, match="labellings, too many"):
        large.exact(np.zeros(large.n_coordinates))
