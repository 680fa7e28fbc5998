"""Proofs that a point lies in the matching polytope, against enumeration of odd sets."""

import numpy as np
import pytest
from graph_matchings import (
    from_edges,
    odd_set_violation,
    random_mask,
    two_triangles,
    with_perfect_matching,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_scores import generators

from mlestruct.algorithms.matching.odd_sets import provably_odd_sets_hold
from mlestruct.structures.graphs.simple import SimpleGraph


# ---------------------------------------------------------------------- odd sets
def is_proven(graph, tau):
    """Component by component."""
    count, label = graph.components
    table = graph.dense(tau)
    return all(provably_odd_sets_hold(table[label == k][:, label == k]) for k in range(count))


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([4, 6, 8, 10]), st.floats(0.2, 1.0), generators, st.floats(0.01, 3.0))
def test_proofs_of_odd_sets_are_never_wrong(n, density, rng, concentration):
    mask = with_perfect_matching(rng, random_mask(rng, n, density))
    edges = np.argwhere(np.triu(mask, 1))
    points = []  # half-integral: odd cycles through random orders of the nodes, or matchings
    for _ in range(12):
        point = np.zeros((n, n))
        order = rng.permutation(n)
        split = rng.choice([3, n]) if n > 4 else n
        for part in (order[:split], order[split:]):
            for i, j in zip(part, np.roll(part, 1), strict=True):
                point[i, j] += 0.25
                point[j, i] += 0.25
        point[np.arange(n), np.arange(n)] = 0.0
        points.append(point)
    shares = rng.dirichlet(np.full(len(points), concentration))
    table = sum(s * p for s, p in zip(shares, points, strict=True))
    mask = mask | (table > 0)
    edges = np.argwhere(np.triu(mask, 1))
    tau = 2 * table[edges[:, 0], edges[:, 1]]
    sums = np.bincount(edges.ravel(), np.repeat(tau, 2), n)
    assume(np.allclose(sums, 1.0))
    if is_proven(SimpleGraph.from_mask(mask), tau):
        assert odd_set_violation(n, edges, tau) <= 1e-9


@pytest.mark.parametrize("n", [2, 4, 6, 8, 10, 30, 500])
def test_uniform_marginals_of_complete_graphs_are_proven(n):
    graph = SimpleGraph.complete(n)
    assert is_proven(graph, np.full(graph.n_edges, 1 / (n - 1)))


def test_triangles_are_not_proven():
    space = from_edges(6, two_triangles())
    tau = np.where((space.edges == [2, 3]).all(axis=1), 0.0, 0.5)
    assert odd_set_violation(6, space.edges, tau) == 1.0
    assert not is_proven(space.graph, tau)
    apart = from_edges(6, [e for e in two_triangles() if e != (2, 3)])
    assert not is_proven(apart.graph, np.full(6, 0.5))


# ---------------------------------------------------------------------- hard cases
@pytest.mark.parametrize(("small", "large"), [(3, 101), (3, 599), (5, 601)])
def test_nearly_separate_odd_sets_are_never_proven(small, large):
    """Such a set repeats the eigenvalue 1."""
    n = small + large
    graph = SimpleGraph.complete(n)
    inside = (graph.row < small) & (graph.col < small)
    outside = (graph.row >= small) & (graph.col >= small)
    tau = np.where(inside, 1 / (small - 1), np.where(outside, 1 / (large - 1), 1e-16))
    for seed in range(3):
        noise = 1e-12 * np.random.default_rng(seed).random(graph.n_edges)
        assert not is_proven(graph, tau + noise)
