"""Counted matchings against enumeration, known numbers of matchings, permanents and hafnians."""

import math
import time
import tracemalloc

import numpy as np
import pytest
from graph_matchings import fillings, random_mask
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import draw_scores, generators, kinds
from scipy.special import logsumexp
from scipy.stats import chisquare

from mlestruct.algorithms.matching import counting
from mlestruct.algorithms.matching.counting import (
    MAX_TRANSITIONS,
    CountedMatchings,
    TooLargeToCount,
)
from mlestruct.exceptions import InfeasibleError


def complete(n):
    return n, *np.triu_indices(n, 1)


def bipartite(n_rows, n_cols=None):
    n_cols = n_rows if n_cols is None else n_cols
    i, j = np.divmod(np.arange(n_rows * n_cols), n_cols)
    return n_rows + n_cols, i, n_rows + j


def grid(height, width):
    place = np.arange(height * width).reshape(height, width)
    tail = np.concatenate([place[:, :-1].ravel(), place[:-1].ravel()])
    return place.size, tail, np.concatenate([place[:, 1:].ravel(), place[1:].ravel()])


def path(n):
    return n, np.arange(n - 1), np.arange(1, n)


def scores_for(graph, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=graph[1].size)


class Enumerated:
    """The same distribution, matching by matching."""

    def __init__(self, n, tail, head, scores, capacity=1, free=False, single=0.0):
        free = np.broadcast_to(free, n)
        capacity = np.broadcast_to(capacity, n)
        edges = np.column_stack([tail, head]).astype(int)
        chosen, left = fillings(n, edges, capacity, free, (0.0, 1.0))
        self.chosen = chosen.astype(bool)
        if len(chosen) == 0:
            return
        scored = chosen @ scores + left @ np.where(free, single, 0.0)
        self.log_partition = logsumexp(scored)
        self.probabilities = np.exp(scored - self.log_partition)
        self.edge_marginals = self.probabilities @ chosen
        self.unused = self.probabilities @ left


def assert_same(found, expected, scale=1.0):
    precision = 1e-12 * max(scale, 1.0)  # scores carry that much rounding
    np.testing.assert_allclose(
        found.log_partition, expected.log_partition, rtol=1e-12, atol=precision
    )
    np.testing.assert_allclose(
        found.edge_marginals, expected.edge_marginals, atol=1e-12 + 10 * precision
    )
    np.testing.assert_allclose(found.unused, expected.unused, atol=1e-12 + 10 * precision)


@settings(deadline=None, max_examples=100)
@given(
    generators,
    st.integers(1, 6),
    st.sampled_from([1.0, 0.3, 0.6]),
    st.sampled_from([1, 2, "mixed"]),
    st.sampled_from([True, False, "mixed"]),
    kinds,
    st.sampled_from([1.0, 40.0, 1000.0, 1e6]),
)
def test_all_graphs_by_enumeration(rng, n, density, capacity, free, kind, scale):
    pairs = rng.permutation(np.argwhere(np.triu(random_mask(rng, n, density), 1)))
    flip = rng.random(len(pairs)) < 0.5
    tail, head = np.where(flip, pairs.T[::-1], pairs.T)
    capacity = rng.integers(0, 4, n) if capacity == "mixed" else capacity
    free = rng.random(n) < 0.5 if free == "mixed" else free
    single = draw_scores(rng, n, kind, scale)
    problem = n, tail, head, draw_scores(rng, len(pairs), kind, scale), capacity, free, single
    expected = Enumerated(*problem)
    if len(expected.chosen) == 0:
        with pytest.raises(InfeasibleError) as caught:
            CountedMatchings(*problem)
        assert caught.value.side == "nodes"
        assert set(caught.value.rows) <= set(range(n))
        return
    found = CountedMatchings(*problem)
    assert_same(found, expected, scale)
    assert (found.edge_marginals >= 0).all()
    assert (found.unused >= 0).all()
    drawn = found.sample(3, rng)
    assert all(any((y == other).all() for other in expected.chosen) for y in drawn)


@pytest.mark.parametrize(("n", "density"), [(1, 1.0), (6, 1.0), (11, 0.5), (14, 1.0), (14, 0.3)])
def test_bipartite_graphs_by_permanents(n, density):
    thewalrus = pytest.importorskip("thewalrus")
    rng = np.random.default_rng(n)
    allowed = (rng.random((n, n)) < density) | np.eye(n, dtype=bool)
    table = np.where(allowed, rng.normal(size=(n, n)), -np.inf)
    i, j = np.nonzero(allowed)
    found = CountedMatchings(2 * n, i, n + j, table[i, j])
    weights = np.exp(table)
    permanent = thewalrus.perm(weights)
    assert found.log_partition == pytest.approx(np.log(permanent), rel=1e-9)
    minor = np.delete(np.delete(weights, i[0], 0), j[0], 1)
    rest = thewalrus.perm(minor) if n > 1 else 1.0
    assert found.edge_marginals[0] == pytest.approx(weights[i[0], j[0]] * rest / permanent, 1e-8)
    np.testing.assert_allclose(np.bincount(i, found.edge_marginals), 1.0, atol=1e-12)


@pytest.mark.parametrize(("n", "density"), [(2, 1.0), (8, 1.0), (12, 0.4), (14, 1.0), (14, 0.3)])
@pytest.mark.parametrize("free", [True, False])
def test_general_graphs_by_hafnians(n, density, free):
    thewalrus = pytest.importorskip("thewalrus")
    rng = np.random.default_rng(n)
    mask = random_mask(rng, n, density)
    mask[np.arange(n), np.arange(n) ^ 1] = True
    tail, head = np.nonzero(np.triu(mask, 1))
    scores, single = rng.normal(size=tail.size), rng.normal(size=n)
    weights = np.zeros((n, n))
    weights[tail, head] = weights[head, tail] = np.exp(scores)
    if free:  # a loop is a node that stays single
        np.fill_diagonal(weights, np.exp(single))
    hafnian = np.real(thewalrus.hafnian(weights, loop=free))
    found = CountedMatchings(n, tail, head, scores, free=free, single=single)
    assert found.log_partition == pytest.approx(np.log(hafnian), rel=1e-9)


def double_factorial(n):
    return math.prod(range(n, 0, -2))


def involutions(n):
    before, now = 1, 1
    for k in range(1, n):
        before, now = now, now + k * before
    return now


def fibonacci(n):
    before, now = 0, 1
    for _ in range(n - 1):
        before, now = now, now + before
    return now


def rook_placements(n):
    return sum(math.comb(n, k) ** 2 * math.factorial(k) for k in range(n + 1))


@pytest.mark.parametrize(
    ("graph", "capacity", "free", "number"),
    [
        (complete(24), 1, False, double_factorial(23)),
        (complete(23), 1, True, involutions(23)),
        (bipartite(18), 1, False, math.factorial(18)),
        (bipartite(12), 1, True, rook_placements(12)),
        (bipartite(5, 30), 1, np.arange(35) >= 5, math.perm(30, 5)),
        (complete(9), 2, False, 30016),  # labelled 2-regular graphs
        (complete(8), 3, False, 19355),  # labelled cubic graphs
        (bipartite(6), 2, False, 67950),  # 6 x 6 matrices of zeros and ones, all sums 2
        (bipartite(1, 200), [80] + [1] * 200, [False] + [True] * 200, math.comb(200, 80)),
        (grid(8, 8), 1, False, 12988816),  # domino tilings of a chessboard
        (grid(2, 300), 1, False, fibonacci(301)),
        (path(4000), 1, False, 1),
    ],
)
def test_known_numbers_of_matchings(graph, capacity, free, number):
    found = CountedMatchings(*graph, np.zeros(graph[1].size), capacity=capacity, free=free)
    assert found.log_partition == pytest.approx(math.log(number), rel=1e-12, abs=1e-12)


def test_long_path_by_its_recursion():
    graph = path(3000)
    scores = scores_for(graph, scale=3.0)
    log_z = [0.0, 0.0]
    for score in scores:
        log_z.append(np.logaddexp(log_z[-1], log_z[-2] + score))
    found = CountedMatchings(*graph, scores, free=True)
    assert found.log_partition == pytest.approx(log_z[-1], rel=1e-12)
    first = math.exp(
        scores[0]
        + CountedMatchings(*path(2998), scores[2:], free=True).log_partition
        - found.log_partition
    )
    assert found.edge_marginals[0] == pytest.approx(first, rel=1e-9)


@pytest.mark.parametrize(
    ("graph", "capacity", "free"),
    [
        (bipartite(9), 1, False),
        (bipartite(7, 9), 1, np.arange(16) > 4),
        (complete(13), 1, np.arange(13) < 4),
        (complete(8), 2, np.arange(8) < 3),
        (grid(5, 6), 2, True),
    ],
)
def test_marginals_are_slopes_of_log_z(graph, capacity, free):
    scores, single = scores_for(graph), np.random.default_rng(1).normal(size=graph[0])
    found = CountedMatchings(*graph, scores, capacity, free, single)

    def slope(direction, along_single):
        ahead, behind = (
            CountedMatchings(
                *graph,
                scores + (0.0 if along_single else h * direction),
                capacity,
                free,
                single + (h * direction if along_single else 0.0),
            ).log_partition
            for h in (1e-4, -1e-4)
        )
        return (ahead - behind) / 2e-4

    for e in range(0, scores.size, 7):
        assert found.edge_marginals[e] == pytest.approx(
            slope(np.eye(scores.size)[e], False), abs=1e-7
        )
    for i in np.flatnonzero(np.broadcast_to(free, graph[0]))[::3]:
        assert found.unused[i] == pytest.approx(slope(np.eye(graph[0])[i], True), abs=1e-7)
    at_nodes = np.bincount(graph[1], found.edge_marginals, graph[0])
    at_nodes += np.bincount(graph[2], found.edge_marginals, graph[0])
    np.testing.assert_allclose(at_nodes + found.unused, capacity, atol=1e-12)


@pytest.mark.parametrize("scale", [300.0, 1e4, 1e6])
@pytest.mark.parametrize("graph", [bipartite(6), bipartite(4, 6), complete(8)])
@pytest.mark.parametrize("free", [True, False])
def test_peaked_scores(graph, free, scale):
    if graph[0] == 10 and not free:
        free = np.arange(10) >= 4  # the larger side cannot be filled
    for seed in range(4):
        scores = scores_for(graph, seed, scale)
        single = np.random.default_rng(seed).normal(scale=scale, size=graph[0])
        problem = *graph, scores, 1, free, single
        assert_same(CountedMatchings(*problem), Enumerated(*problem), scale)


@pytest.mark.parametrize("height", [1.0, 300.0, 1e6])
def test_best_matching_far_below_the_fractional_one(height):
    # Two triangles of high edges: fractional matchings use them, perfect ones must join the two.
    tail, head = np.array([0, 0, 1, 3, 3, 4, 2, 2]), np.array([1, 2, 2, 4, 5, 5, 3, 4])
    scores = height * np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -5.0, -5.0])
    found = CountedMatchings(6, tail, head, scores)
    assert found.log_partition == pytest.approx(-3.0 * height + math.log(2.0), rel=1e-12)
    np.testing.assert_allclose(found.edge_marginals, [1, 0, 0, 0, 0.5, 0.5, 0.5, 0.5])


def test_weights_beyond_floating_point_numbers():
    graph = complete(12)
    scores = scores_for(graph, scale=5.0)
    plain = CountedMatchings(*graph, scores, free=True)
    # An edge elsewhere in the graph whose weight exp(+-1e5) is beyond all floating-point numbers
    tail, head = np.append(graph[1], 12), np.append(graph[2], 13)
    for far in (1e5, -1e5):
        found = CountedMatchings(14, tail, head, np.append(scores, far), free=True)
        assert found.log_partition == pytest.approx(max(far, 0) + plain.log_partition, rel=1e-14)
        np.testing.assert_allclose(found.edge_marginals[:-1], plain.edge_marginals, atol=1e-10)
        assert found.edge_marginals[-1] == pytest.approx(float(far > 0), abs=1e-15)


@pytest.mark.parametrize(
    ("graph", "capacity", "free", "scale"),
    [
        (bipartite(4), 1, False, 1.0),
        (bipartite(3, 2), 1, True, 1.0),
        (complete(6), 1, False, 0.7),
        (complete(5), 1, [True, False, True, True, False], 1.0),
        (complete(5), 2, False, 0.5),
        (grid(2, 3), [2, 1, 1, 1, 1, 2], True, 1.0),
        (path(1), 1, True, 1.0),
    ],
)
def test_samples_have_their_exact_frequencies(graph, capacity, free, scale):
    scores = scores_for(graph, 3, scale)
    single = np.random.default_rng(4).normal(size=graph[0])
    problem = *graph, scores, capacity, free, single
    expected = Enumerated(*problem)
    found = CountedMatchings(*problem)
    place = {y.tobytes(): k for k, y in enumerate(expected.chosen)}
    n_samples = 20_000
    drawn = found.sample(n_samples, np.random.default_rng(5))
    assert drawn.dtype == bool
    assert drawn.shape == (n_samples, scores.size)
    counts = np.bincount([place[y.tobytes()] for y in drawn], minlength=len(place))
    common = expected.probabilities * n_samples >= 5
    counts = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected.probabilities[common], expected.probabilities[~common].sum())
    keep = wanted > 0
    if keep.sum() > 1:
        assert chisquare(counts[keep], n_samples * wanted[keep]).pvalue > 1e-3
    again = found.sample(n_samples, np.random.default_rng(5))
    np.testing.assert_array_equal(drawn, again)


def test_samples_of_huge_scores():
    # A hexagon's two perfect matchings differ by log 3, at scores of a million.
    scores = 1e6 * np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    scores[1::2] += 2e6 - math.log(3.0) / 3.0
    scores = np.append(scores, 1e5)
    found = CountedMatchings(
        8, [0, 1, 2, 3, 4, 0, 6], [1, 2, 3, 4, 5, 5, 7], scores, free=[False] * 6 + [True] * 2
    )
    drawn = found.sample(4000, np.random.default_rng(0))
    assert drawn[:, 6].all()
    assert (drawn[:, 0] == drawn[:, 2]).all()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert drawn[:, 0].mean() == pytest.approx(0.75, abs=0.03)
    np.testing.assert_allclose(found.edge_marginals[:2], [0.75, 0.25], atol=1e-8)


def test_large_samples_follow_the_marginals():
    graph = bipartite(14)
    found = CountedMatchings(*graph, scores_for(graph, 6))
    drawn = found.sample(5000, np.random.default_rng(7))
    np.testing.assert_array_equal(drawn.reshape(-1, 14, 14).sum(axis=1), 1)
    np.testing.assert_allclose(drawn.mean(axis=0), found.edge_marginals, atol=0.03)


@pytest.mark.parametrize(
    ("graph", "capacity", "free", "nodes"),
    [
        (bipartite(30), 1, False, "60 nodes and 900 edges"),
        (bipartite(22), 1, False, "44 nodes and 484 edges"),
        (complete(40), 1, True, "40 nodes and 780 edges"),
        (complete(20), 3, False, "20 nodes and 190 edges"),
        (complete(600), 1, False, "600 nodes and 179700 edges"),
        (grid(40, 40), 1, True, "1600 nodes and 3120 edges"),
    ],
)
def test_refusal_comes_before_any_work(graph, capacity, free, nodes):
    for _ in range(2):  # the first call may compile
        tracemalloc.start()
        before = time.process_time()
        with pytest.raises(TooLargeToCount, match=nodes) as caught:
            CountedMatchings(*graph, np.zeros(graph[1].size), capacity=capacity, free=free)
        seconds, (_, peak) = time.process_time() - before, tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert seconds < 5.0
    assert peak < 60e6
    assert "method='auto' or 'perturb'" in str(caught.value)
    assert f"{MAX_TRANSITIONS:.1e}" in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("graph", "capacity", "free", "number"),
    [
        (complete(28), 1, False, double_factorial(27)),
        (complete(26), 1, True, involutions(26)),
        (bipartite(19), 1, False, math.factorial(19)),
        (bipartite(16), 1, True, rook_placements(16)),
        (grid(16, 16), 1, False, 2444888770250892795802079170816),  # A004003 of the OEIS
        (grid(6, 1000), 1, True, None),
    ],
)
def test_sizes_near_the_limit(graph, capacity, free, number):
    found = CountedMatchings(*graph, np.zeros(graph[1].size), capacity, free)
    assert found._states.to.size < MAX_TRANSITIONS
    if number is not None:
        assert found.log_partition == pytest.approx(math.log(number), rel=1e-12)


def test_nodes_that_the_other_side_needs_are_always_filled():
    graph, scores = bipartite(10), scores_for(bipartite(10))
    found = CountedMatchings(*graph, scores, free=np.arange(20) < 10)
    assert found.log_partition == pytest.approx(CountedMatchings(*graph, scores).log_partition)
    np.testing.assert_allclose(found.unused, 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("problem", "log_partition", "marginals", "unused"),
    [
        ((0, [], [], []), 0.0, [], []),
        ((0, [], [], [], [], []), 0.0, [], []),
        ((1, [], [], [], 1, True, [2.0]), 2.0, [], [1.0]),
        ((3, [], [], [], [2, 0, 1], True, [2.0, 5.0, -1.0]), 3.0, [], [2.0, 0.0, 1.0]),
        ((2, [], [], [], 0), 0.0, [], [0.0, 0.0]),
        ((2, [1], [0], [-3.0]), -3.0, [1.0], [0.0, 0.0]),
        ((2, [0], [1], [0.0], 1, True), math.log(2.0), [0.5], [0.5, 0.5]),
        ((2, [0], [1], [7.0], 0, False), 0.0, [0.0], [0.0, 0.0]),
        ((2, [0], [1], [7.0], [0, 1], True, [9.0, 1.0]), 1.0, [0.0], [0.0, 1.0]),
        ((2, [0], [1], [1.0], 3, True, [0.5, 0.5]), 3.0 + math.log(2.0), [0.5], [2.5, 2.5]),
        ((2, [0], [1], [1.0], 1, [False, True], [50.0, 50.0]), 1.0, [1.0], [0.0, 0.0]),
        ((4, [0, 1, 2], [1, 2, 3], [1.0, 1e6, 2.0]), 3.0, [1.0, 0.0, 1.0], [0.0] * 4),
        ((3, [0, 1, 0], [1, 2, 2], [1.0, 2.0, 4.0], 2), 7.0, [1.0] * 3, [0.0] * 3),
        ((2, [0], [1], [0.0], 1, True, -1e6), 0.0, [1.0], [0.0, 0.0]),
    ],
)
def test_edge_cases(problem, log_partition, marginals, unused):
    found = CountedMatchings(*problem)
    assert found.log_partition == pytest.approx(log_partition, abs=1e-12)
    np.testing.assert_allclose(found.edge_marginals, marginals, atol=1e-12)
    np.testing.assert_allclose(found.unused, unused, atol=1e-12)
    assert found.sample(2, np.random.default_rng(0)).shape == (2, len(marginals))


def test_ties_are_uniform():
    graph = bipartite(8)
    found = CountedMatchings(*graph, np.full(64, -1e6))
    assert found.log_partition == pytest.approx(-8e6 + math.log(math.factorial(8)), rel=1e-15)
    np.testing.assert_allclose(found.edge_marginals, 1 / 8, rtol=1e-12)


@pytest.mark.parametrize(
    ("graph", "capacity", "free", "nodes"),
    [
        ((1, [], []), 1, False, [0]),
        ((3, [0], [1]), 1, False, [2]),
        (path(3), 1, False, [0, 1, 2]),
        (path(4), [1, 2, 1, 1], [False, False, True, False], [0, 1, 3]),
        (bipartite(3, 2), 1, np.arange(5) >= 3, [0, 1, 2]),
        (complete(5), 1, False, [0, 1, 2, 3, 4]),
        (complete(5), 3, False, [0, 1, 2, 3, 4]),
        ((6, [0, 2, 2, 2], [1, 3, 4, 5]), 1, False, [2, 3, 4, 5]),
    ],
)
def test_infeasible_problems_name_nodes(graph, capacity, free, nodes):
    problem = *graph, np.zeros(len(graph[1])), capacity, free
    assert len(Enumerated(*problem).chosen) == 0
    with pytest.raises(InfeasibleError) as caught:
        CountedMatchings(*problem)
    assert caught.value.rows == nodes
    assert caught.value.side == "nodes"


def test_states_are_remembered_but_not_all(monkeypatch):
    monkeypatch.setattr(counting, "_kept", {})
    graph = bipartite(6)
    one = CountedMatchings(*graph, scores_for(graph, 0))
    other = CountedMatchings(*graph, scores_for(graph, 1))
    assert one._states is other._states
    assert CountedMatchings(*graph, scores_for(graph), free=True)._states is not one._states
    monkeypatch.setattr(counting, "MAX_TRANSITIONS", one._states.to.size)
    CountedMatchings(*bipartite(5), scores_for(bipartite(5)))
    assert sum(kept.to.size for kept in counting._kept.values()) <= one._states.to.size
    np.testing.assert_array_equal(
        CountedMatchings(*graph, scores_for(graph, 0)).edge_marginals, one.edge_marginals
    )


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ((-1, [], [], []), "n_nodes"),
        ((2, [0], [0], [1.0]), "to itself"),
        ((2, [0, 1], [1, 0], [1.0, 1.0]), "given twice"),
        ((2, [0], [2], [1.0]), "head"),
        ((2, [0.5], [1], [1.0]), "tail"),
        ((2, [0], [1], [np.nan]), "scores"),
        ((2, [0], [1], [np.inf]), "scores"),
        ((2, [0], [1], [1.0, 2.0]), r"scores.*\(1,\)"),
        ((2, [0], [1], [1.0], -1), "capacity.*-1"),
        ((2, [0], [1], [1.0], 1.5), "capacity.*float"),
        ((2, [0], [1], [1.0], [1, 1, 1]), r"capacity.*\(3,\)"),
        ((2, [0], [1], [1.0], 1, [True]), r"free.*\(1,\)"),
        ((2, [0], [1], [1.0], 1, 1), "free.*boolean"),
        ((2, [0], [1], [1.0], 1, True, [1.0]), r"single.*\(1,\)"),
        ((2, [0], [1], [1.0], 1, True, [np.nan, 0.0]), "single"),
    ],
)
def test_errors_say_what_was_found(problem, message):
    with pytest.raises(ValueError, match=message):
        CountedMatchings(*problem)


def test_number_of_samples_is_checked():
    found = CountedMatchings(*bipartite(2), np.zeros(4))
    assert found.sample(0, np.random.default_rng(0)).shape == (0, 4)
    with pytest.raises(ValueError, match="`n_samples` must be a whole number of at least 0"):
        found.sample(-1, np.random.default_rng(0))
