"""Spanning trees against enumeration, Cayley's formula and extreme scores."""

import numpy as np
import pytest
from enumerated_outputs import check_against_enumeration, directed_trees, spanning_trees
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from mlestruct import StructuredCRF, check_structure
from mlestruct.exceptions import InfeasibleError
from mlestruct.inference import log_partition, marginals
from mlestruct.structures import DirectedTrees, ExactInference, SpanningTrees, factor_entropy
from mlestruct.structures.combinatorial.spanning_trees import best_parents

EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (4, 1)]


@settings(deadline=None, max_examples=5)
@given(st.integers(0, 1000), st.sampled_from([0.3, 2.0]))
def test_against_enumeration(seed, scale):
    rng = np.random.default_rng(seed)
    space = SpanningTrees(5, EDGES)
    outputs = spanning_trees(5, np.sort(EDGES, axis=1).tolist())
    check_against_enumeration(space, outputs, scale * rng.normal(size=len(EDGES)), rng, 400)


@pytest.mark.parametrize("n", [2, 3, 7, 20])
def test_cayley(n):
    found = log_partition(SpanningTrees(n), np.zeros(n * (n - 1) // 2), method="exact")
    assert found == pytest.approx((n - 2) * np.log(n))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000))
def test_scores_of_any_range(seed):
    """A determinant in floating point would be lost here."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=len(EDGES)) * 10.0 ** rng.integers(0, 4)
    outputs = spanning_trees(5, np.sort(EDGES, axis=1).tolist())
    found = SpanningTrees(5, EDGES).exact(scores)
    totals = outputs @ scores
    assert found.log_partition == pytest.approx(logsumexp(totals), abs=1e-9, rel=1e-12)
    np.testing.assert_allclose(found.tau, np.exp(totals - logsumexp(totals)) @ outputs, atol=1e-9)


def test_marginals_are_the_gradient_and_sum_to_the_size_of_a_tree():
    scores = np.random.default_rng(0).normal(size=45)
    space = SpanningTrees(10)
    exact = space.exact(scores)
    assert exact.tau.sum() == pytest.approx(9.0)
    step = 1e-5
    for k in (0, 17, 44):
        unit = step * (np.arange(45) == k)
        high, low = (space.exact(scores + sign * unit).log_partition for sign in (1, -1))
        assert (high - low) / (2 * step) == pytest.approx(exact.tau[k], abs=1e-6)


def test_learning_with_exact_marginals_and_with_the_decoder():
    """The bounds of the approximate model hold its exact log-likelihood."""
    rng = np.random.default_rng(1)
    space = SpanningTrees(5)
    X = [rng.normal(size=(10, 2)) for _ in range(20)]
    Y = [space.exact(x @ [1.5, -1.0]).sample(1, rng)[0] for x in X]
    model = StructuredCRF(structure=space, tol=0.05).fit(X, Y)
    lower, upper = model.log_likelihood_bounds(X, Y)
    exact = model.log_likelihood(X, Y)
    assert (lower <= exact + 1e-9).all()
    assert (exact <= upper + 1e-9).all()
    best = StructuredCRF(structure=ExactInference(space), tol=1e-6).fit(X, Y)

    def objective(found):
        return found.log_likelihood(X, Y).sum() - 0.5 * found.coef_ @ found.coef_

    assert objective(best) >= objective(model) - 1e-3
    assert np.sign(best.coef_).tolist() == [1.0, -1.0]


def test_the_contract_holds():
    assert check_structure(SpanningTrees(5, EDGES)).passed


def test_graphs_that_have_no_tree():
    with pytest.raises(InfeasibleError, match=r"nodes \[2, 3\] have no path to node 0"):
        SpanningTrees(4, [(0, 1), (2, 3)])
    with pytest.raises(ValueError, match="an edge is given twice"):
        SpanningTrees(3, [(0, 1), (1, 0), (1, 2)])
    with pytest.raises(ValueError, match="edges"):
        SpanningTrees(3, [(0, 7)])


class TestDirected:
    @settings(deadline=None, max_examples=5)
    @given(st.integers(0, 1000), st.sampled_from([0.3, 2.0]))
    def test_against_enumeration(self, seed, scale):
        rng = np.random.default_rng(seed)
        space = DirectedTrees(4)
        outputs = directed_trees(4, space.edges.tolist())
        assert len(outputs) == 16
        check_against_enumeration(space, outputs, scale * rng.normal(size=9), rng, 400)

    @settings(deadline=None, max_examples=30)
    @given(st.integers(0, 10_000), st.integers(2, 6))
    def test_the_best_tree(self, seed, n):
        """Nested cycles, ties, missing edges."""
        rng = np.random.default_rng(seed)
        table = rng.integers(-3, 4, size=(n, n)).astype(float)
        table[rng.uniform(size=(n, n)) < 0.2] = -np.inf
        table[0, 1:] = np.where(np.isneginf(table[0, 1:]), -20.0, table[0, 1:])
        table[:, 0] = -np.inf
        np.fill_diagonal(table, -np.inf)
        edges = np.argwhere(np.isfinite(table))
        outputs = directed_trees(n, edges.tolist())
        parent = best_parents(table)
        score = sum(table[parent[v], v] for v in range(1, n))
        chosen = [list(edge) in [[parent[v], v] for v in range(1, n)] for edge in edges.tolist()]
        assert any(np.array_equal(chosen, output) for output in outputs)
        assert score == pytest.approx((outputs @ table[tuple(edges.T)]).max())

    def test_independent_choices_are_an_upper_bound(self):
        space = DirectedTrees(5)
        entropy = factor_entropy(space.n_coordinates, space.choices)
        scores = np.random.default_rng(0).normal(size=space.n_coordinates)
        exact = space.exact(scores).log_partition
        found = marginals(DirectedTrees(5, entropy=entropy), scores, tol=1e-3)
        assert exact <= found.log_partition + found.gap
        coarse = marginals(space, scores, tol=1e-3)
        assert found.log_partition <= coarse.log_partition + coarse.gap

    def test_parents_and_labels(self):
        space = DirectedTrees(4)
        parents = [-1, 0, 1, 1]
        label = space.label_of_parents(parents)
        assert label.sum() == 3
        np.testing.assert_array_equal(space.parents(label), parents)

    def test_the_contract_holds(self):
        assert check_structure(DirectedTrees(4)).passed

    def test_graphs_that_have_no_tree(self):
        with pytest.raises(InfeasibleError, match=r"no way from the root to nodes \[2\]"):
            DirectedTrees(3, [(0, 1), (2, 1)])
        with pytest.raises(ValueError, match="has no parent"):
            DirectedTrees(3, [(0, 1), (1, 0)])
        with pytest.raises(ValueError, match="to itself"):
            DirectedTrees(3, [(0, 1), (1, 1)])
        with pytest.raises(ValueError, match="given twice"):
            DirectedTrees(2, [(0, 1), (0, 1)])
