"""Marginals, best labellings and draws of many samples, against enumeration."""

from itertools import combinations

import numpy as np
import pytest
from enumerated_answers import Enumerated
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.algorithms.pairwise.junction_tree import BinaryJunctionTree
from mlestruct.exceptions import TooLargeToCount


@settings(max_examples=25, deadline=None)
@given(
    n_nodes=st.integers(1, 7),
    density=st.floats(0, 1),
    scale=st.sampled_from([0.3, 3.0, 300.0]),
    shared=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_agrees_with_enumeration(n_nodes, density, scale, shared, seed):
    rng = np.random.default_rng(seed)
    pairs = np.array(list(combinations(range(n_nodes), 2)), dtype=int).reshape(-1, 2)
    pairs = rng.permutation(pairs[rng.random(len(pairs)) < density])
    tree = BinaryJunctionTree(n_nodes, pairs[:, 0], pairs[:, 1])
    fields = scale * rng.normal(size=(11, n_nodes))
    couplings = scale * rng.normal(size=(1 if shared else 11, len(pairs)))
    known = rng.integers(-1, 2, size=fields.shape)
    known[:4] = -1
    found = tree.marginals(fields, couplings, known)
    best, scores = tree.best(fields, couplings, known)
    for m in range(11):
        exact = Enumerated(pairs, fields[m], couplings[0 if shared else m], known[m])
        assert found.log_partition[m] == pytest.approx(exact.log_partition)
        np.testing.assert_allclose(found.nodes[m], exact.nodes, atol=1e-10)
        np.testing.assert_allclose(found.edges[m], exact.edges, atol=1e-10)
        assert scores[m] == pytest.approx(exact.scores.max())
        at_best = exact.scores[(exact.answers == best[m]).all(axis=1)][0]
        assert at_best == pytest.approx(scores[m])


def test_draws_have_the_marginals():
    tree = BinaryJunctionTree(3, [0, 1], [1, 2])
    fields, couplings = np.tile([-1.0, 0.5, 0.2], (4000, 1)), np.array([[2.0, -1.5]])
    drawn = tree.sample(fields, couplings, np.random.default_rng(0))
    exact = tree.marginals(fields[:1], couplings)
    assert np.abs(drawn.mean(axis=0) - exact.nodes[0]).max() < 0.03
    assert np.abs((drawn[:, :2] * drawn[:, 1:]).mean(axis=0) - exact.edges[0]).max() < 0.03


def test_refuses_what_does_not_fit_into_memory():
    pairs = np.array(list(combinations(range(40), 2)))
    with pytest.raises(TooLargeToCount, match="treewidth"):
        BinaryJunctionTree(40, pairs[:, 0], pairs[:, 1])


def test_a_complete_graph_has_tables_of_all_sizes():
    """Separators of n - 1, n - 2, ..., 0 nodes: 2 ** n - 1 entries."""
    pairs = np.array(list(combinations(range(6), 2)))
    assert BinaryJunctionTree(6, pairs[:, 0], pairs[:, 1]).n_entries == 2**6 - 1
