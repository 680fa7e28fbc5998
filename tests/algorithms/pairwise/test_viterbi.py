"""Max-product on forests against enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import random_forest, total_score
from random_scores import generators

from mlestruct.algorithms.pairwise.viterbi import ForestDecoder

examples = settings(deadline=None, max_examples=150)


@examples
@given(st.integers(1, 6), st.integers(1, 3), generators, st.booleans())
def test_decoder_finds_the_best_of_all_labellings(n, n_states, rng, ties):
    tail, head = random_forest(rng, n).T
    size = n * n_states + tail.size * n_states**2
    scores = rng.integers(-1, 2, size).astype(float) if ties else rng.normal(size=size)
    labels, value = ForestDecoder(n, tail, head, n_states).solve(scores)
    assert labels.dtype == np.int64
    best = max(
        total_score(tail, head, n_states, scores, np.array(y))
        for y in product(range(n_states), repeat=n)
    )
    assert value == pytest.approx(best, abs=1e-12)
    assert total_score(tail, head, n_states, scores, labels) == pytest.approx(best, abs=1e-12)


def test_equal_scores_give_the_lowest_states():
    labels, value = ForestDecoder(4, [0, 2], [1, 1], 3).solve(np.zeros(12 + 18))
    assert labels.tolist() == [0, 0, 0, 0]
    assert value == 0.0


def test_isolated_nodes_take_their_own_best_state():
    labels, value = ForestDecoder(3, [], [], 2).solve([0.0, 1.0, 3.0, 2.0, -1.0, -2.0])
    assert labels.tolist() == [1, 0, 0]
    assert value == 3.0


@pytest.mark.parametrize("n_states", [2, 5])
def test_long_path_equals_a_plain_viterbi(n_states):
    n = 100_000
    rng = np.random.default_rng(0)
    nodes, edges = rng.normal(size=(n, n_states)), rng.normal(size=(n - 1, n_states, n_states))
    best = nodes[0]
    for step, node in zip(edges, nodes[1:], strict=True):
        best = (best[:, None] + step).max(axis=0) + node
    tail, head = np.arange(n - 1), np.arange(1, n)
    scores = np.concatenate([nodes.ravel(), edges.ravel()])
    labels, value = ForestDecoder(n, tail, head, n_states).solve(scores)
    assert value == pytest.approx(best.max(), rel=1e-12)
    assert total_score(tail, head, n_states, scores, labels) == pytest.approx(value, rel=1e-12)
