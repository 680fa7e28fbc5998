"""Best matchings of general graphs, against networkx and by their own certificate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from weighted_graphs import densities, draw_scores, kinds, random_graph, scales

from mlestruct.algorithms.matching import blossom
from mlestruct.algorithms.matching.blossom import best_matching
from mlestruct.exceptions import InfeasibleError

examples = settings(deadline=None, max_examples=80)


def reference(n, tail, head, scores, perfect):
    """networkx's matching: its size and score."""
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_weighted_edges_from(zip(tail.tolist(), head.tolist(), scores.tolist(), strict=True))
    pairs = nx.max_weight_matching(graph, maxcardinality=perfect)
    return len(pairs), sum(graph[a][b]["weight"] for a, b in pairs)


def check(n, tail, head, scores, single, found):
    """Every node once, and the score is theirs."""
    covered = np.concatenate([tail[found.edges], head[found.edges], found.single_nodes])
    np.testing.assert_array_equal(np.sort(covered), np.arange(n))
    assert (np.diff(found.edges) > 0).all()
    value = scores[found.edges].sum()
    value += 0.0 if single is None else single[found.single_nodes].sum()
    assert found.score == pytest.approx(value, rel=1e-12, abs=1e-300)


def odd_groups(n, tail, head, removed):
    kept = np.ones(n, bool)
    kept[removed] = False
    stays = kept[tail] & kept[head]
    graph = coo_array((np.ones(stays.sum()), (tail[stays], head[stays])), shape=(n, n))
    group = connected_components(graph, directed=False)[1]
    return int((np.bincount(group[kept], minlength=1) % 2).sum())


@examples
@given(generators, st.integers(0, 20), densities, kinds, scales)
def test_perfect_matchings(rng, n, density, kind, scale):
    ptr, col, tail = random_graph(rng, n, density)
    scores = scale * draw_scores(rng, n, tail, col, kind)
    size, expected = reference(n, tail, col, scores, True)
    if 2 * size < n:
        with pytest.raises(InfeasibleError) as caught:
            best_matching(n, ptr, col, scores)
        removed = caught.value.rows
        assert odd_groups(n, tail, col, removed) > len(removed)
        return
    found = best_matching(n, ptr, col, scores)
    check(n, tail, col, scores, None, found)
    tolerance = 1e-10 * max(np.abs(scores).max(initial=0.0), 1e-300) * max(n, 1)
    assert found.score == pytest.approx(expected, rel=1e-10, abs=tolerance)
    warm = best_matching(n, ptr, col, scores, warm=scale * rng.normal(size=n))
    assert warm.score == pytest.approx(expected, rel=1e-10, abs=tolerance)


@examples
@given(generators, st.integers(0, 18), densities, kinds, scales, st.sampled_from([0.0, 1.0, -9.0]))
def test_matchings_with_single_nodes(rng, n, density, kind, scale, level):
    ptr, col, tail = random_graph(rng, n, density)
    scores = scale * draw_scores(rng, n, tail, col, kind)
    single = scale * (level + rng.choice([0.0, 1.0]) * rng.normal(size=n))
    _, gain = reference(n, tail, col, scores - single[tail] - single[col], False)
    expected = gain + single.sum()
    found = best_matching(n, ptr, col, scores, single=single)
    check(n, tail, col, scores, single, found)
    largest = max(np.abs(scores).max(initial=0.0), np.abs(single).max(initial=0.0), 1e-300)
    assert found.score == pytest.approx(expected, rel=1e-10, abs=1e-10 * largest * max(n, 1))


@settings(deadline=None, max_examples=20)
@given(generators, st.integers(16, 24), kinds)
def test_near_edges_grow_until_they_suffice(rng, pairs, kind):
    """The search begins with a share of the edges: the rest must be found when it is missed."""
    n = 2 * pairs
    ptr, col, tail = random_graph(rng, n, 1.0)
    scores = draw_scores(rng, n, tail, col, kind)
    _, expected = reference(n, tail, col, scores, True)
    found = best_matching(n, ptr, col, scores)
    check(n, tail, col, scores, None, found)
    largest = np.abs(scores).max()
    assert found.score == pytest.approx(expected, rel=1e-10, abs=1e-10 * largest * n)


@pytest.mark.parametrize("kind", ["normal", "ties", "equal", "blocks", "points", "flat", "peaked"])
@pytest.mark.parametrize("may_skip", [False, True])
def test_prices_of_nodes_and_blossoms_prove_the_optimum(kind, may_skip, monkeypatch):
    """No solver to compare with: weak duality, checked here over all edges in plain NumPy."""
    rng = np.random.default_rng(7)
    n = 300
    ptr, col, tail = random_graph(rng, n, 1.0)
    scores = draw_scores(rng, n, tail, col, kind)
    single = np.full(n, np.quantile(scores, 0.98) / 2) if may_skip else None
    states = []
    inner = blossom.kernels.search

    def spy(*arguments):
        states.append(arguments[:2])
        return inner(*arguments)

    monkeypatch.setattr(blossom.kernels, "search", spy)
    found = best_matching(n, ptr, col, scores, single=single)
    check(n, tail, col, scores, single, found)
    if not states:  # the fractional optimum is integral
        assert found.prices.sum() == pytest.approx(found.score, rel=1e-11)
        return
    s, d = states[-1]
    y, z, parent = d[:n, blossom.kernels.Y], d[:, blossom.kernels.Z], s[:, blossom.kernels.PARENT]
    bound = y.sum()
    slack = y[tail] + y[col] - scores
    members: dict[int, list[int]] = {}
    deepest = 0
    for v in range(n):
        around, b = [], int(parent[v])
        while b >= 0:
            around.append(b)
            members.setdefault(b, []).append(v)
            b = int(parent[b])
        deepest = max(deepest, len(around))
    for b, vertices in members.items():
        inside = np.zeros(n, bool)
        inside[vertices] = True
        assert len(vertices) % 2 == 1
        assert z[b] >= 0
        bound += z[b] * (len(vertices) // 2)
        slack += z[b] * (inside[tail] & inside[col])
    scale = np.abs(scores).max()
    assert (slack >= -1e-11 * scale).all()
    assert single is None or (y >= single - 1e-11 * scale).all()
    assert bound == pytest.approx(found.score, rel=1e-10, abs=1e-10 * scale)
    if kind == "points" and not may_skip:
        assert deepest > 3  # blossoms within blossoms


def test_large_scores_that_must_be_taken():
    """A path has one perfect matching, however bad."""
    n = 200
    ptr = np.minimum(np.arange(n + 1), n - 1)
    col = np.arange(1, n)
    scores = np.random.default_rng(0).normal(size=n - 1) * 1e6
    found = best_matching(n, ptr, col, scores)
    np.testing.assert_array_equal(found.edges, np.arange(0, n - 1, 2))


def test_infeasible_graphs_are_explained():
    with pytest.raises(InfeasibleError, match="17 nodes: an odd number cannot be matched"):
        best_matching(17, np.zeros(18, np.int64), np.zeros(0, np.int64), np.zeros(0))
    triangles = np.array([0, 2, 3, 3, 5, 6, 6]), np.array([1, 2, 2, 4, 5, 5])
    with pytest.raises(InfeasibleError, match="falls into 2 groups of odd size"):
        best_matching(6, *triangles, np.ones(6))
    # three triangles around node 9
    pairs = [(3 * k + a, 3 * k + b) for k in range(3) for a, b in ((0, 1), (0, 2), (1, 2))]
    pairs = sorted(pairs + [(0, 9), (3, 9), (6, 9)])
    ptr = np.searchsorted([a for a, _ in pairs], np.arange(11))
    col = np.array([b for _, b in pairs])
    with pytest.raises(InfeasibleError, match=r"removing the 1 node \[9\] leaves 3 odd") as caught:
        best_matching(10, ptr, col, np.ones(len(pairs)))
    assert caught.value.rows == [9]


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_bad_numbers_are_named(bad):
    with pytest.raises(ValueError, match="scores"):
        best_matching(2, np.array([0, 1, 1]), np.array([1]), np.array([bad]))


def test_smallest_cases():
    nothing = best_matching(0, np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    assert nothing.edges.size == 0
    assert nothing.score == 0
    pair = np.array([0, 1, 1]), np.array([1])
    assert best_matching(2, *pair, np.array([-3.0])).score == -3
    alone = best_matching(2, *pair, np.array([-3.0]), single=np.zeros(2))
    np.testing.assert_array_equal(alone.single_nodes, [0, 1])
