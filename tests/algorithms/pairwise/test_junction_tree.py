"""Exact inference by elimination against enumeration, counting results and transfer matrices."""

import tracemalloc
from itertools import product
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from junction_trees import OneSample
from labellings import Labellings, forests, grid_edges, loopy
from scipy.special import logsumexp
from scipy.stats import chisquare

from mlestruct import OutOfTimeError, time_limit
from mlestruct.algorithms.pairwise import junction_tree
from mlestruct.exceptions import InfeasibleError, TooLargeToCount
from mlestruct.structures import Pairwise, PairwiseGraph, Sequences

KINDS = ["normal", "strong", "ties", "huge", "huge and small", "forbidden"]


def random_scores(rng, space, kind):
    """Node and edge scores; those of more than a few hundreds are whole, so that sums are exact."""
    states, n_edges = space.n_states, len(space.edges)
    shapes = (space.n_nodes, states), (n_edges, states, states)
    if kind == "normal":
        return [rng.normal(size=shape) for shape in shapes]
    if kind == "strong":
        return [rng.normal(scale=100.0, size=shape) for shape in shapes]
    whole = [rng.integers(-2, 3, size=shape).astype(float) for shape in shapes]
    if kind == "ties":
        return whole
    if kind == "huge":
        return [1e6 * scores for scores in whole]
    if kind == "huge and small":
        return [
            1e6 * rng.integers(-1, 2, size=shape) + scores
            for shape, scores in zip(shapes, whole, strict=True)
        ]
    return [np.where(rng.random(scores.shape) < 0.25, -np.inf, scores) for scores in whole]


def all_totals(space, nodes, edges):
    """The score of every labelling."""
    labels = space.labels
    total = nodes[np.arange(space.n_nodes), labels].sum(axis=1)
    pairs = labels[:, space.tail], labels[:, space.head]
    return total + edges[np.arange(len(space.edges)), *pairs].sum(axis=1)


def tree_of(space, nodes, edges, order=None):
    return OneSample(space.n_nodes, space.tail, space.head, nodes, edges, order)


def same_state(q, diagonal, elsewhere=0.0):
    return np.where(np.eye(q, dtype=bool), diagonal, elsewhere)


# ---------------------------------------------------------------------- enumeration
@settings(max_examples=150, deadline=None)
@given(model=loopy(max_nodes=6, n_states=(2, 3, 4)), kind=st.sampled_from(KINDS))
def test_agrees_with_enumeration(model, kind):
    space, rng = model
    nodes, edges = random_scores(rng, space, kind)
    totals = all_totals(space, nodes, edges)
    if not np.isfinite(totals).any():
        with pytest.raises(InfeasibleError) as caught:
            tree_of(space, nodes, edges)
        assert caught.value.rows == []
        assert caught.value.side == "nodes"
        return
    tree = tree_of(space, nodes, edges)
    probability = np.exp(totals - logsumexp(totals))
    assert tree.log_partition == pytest.approx(logsumexp(totals), rel=1e-14, abs=1e-10)
    of_nodes, of_edges = space.tables(probability @ space.vertices)
    np.testing.assert_allclose(tree.node_marginals, of_nodes, atol=1e-10)
    np.testing.assert_allclose(tree.edge_marginals, of_edges, atol=1e-10)
    label, score = tree.best()
    assert score == pytest.approx(totals.max(), rel=1e-14, abs=1e-10)
    attained = totals[np.flatnonzero((space.labels == label).all(axis=1))[0]]
    assert attained == pytest.approx(score, rel=1e-14, abs=1e-10)
    draws = tree.sample(20, rng)
    assert draws.shape == (20, space.n_nodes)
    places = draws @ (space.n_states ** np.arange(space.n_nodes)[::-1])
    assert (totals[places] > -np.inf).all()


@settings(max_examples=40, deadline=None)
@given(model=loopy(max_nodes=7, n_states=(2, 3)), kind=st.sampled_from(KINDS[:4]))
def test_any_order_gives_the_same(model, kind):
    space, rng = model
    nodes, edges = random_scores(rng, space, kind)
    one = tree_of(space, nodes, edges)
    other = tree_of(space, nodes, edges, rng.permutation(space.n_nodes))
    again = tree_of(space, nodes, edges, one.order)
    assert other.log_partition == pytest.approx(one.log_partition, rel=1e-14, abs=1e-10)
    np.testing.assert_allclose(other.edge_marginals, one.edge_marginals, atol=1e-10)
    assert other.best()[1] == pytest.approx(one.best()[1], rel=1e-14, abs=1e-10)
    assert again.treewidth == one.treewidth
    assert again.log_partition == one.log_partition


@settings(max_examples=30, deadline=None)
@given(model=loopy(max_nodes=6, n_states=(2, 3)))
def test_marginals_are_derivatives_of_log_partition(model):
    space, rng = model
    nodes, edges = random_scores(rng, space, "normal")
    tree = tree_of(space, nodes, edges)
    for scores, marginals in ((nodes, tree.node_marginals), (edges, tree.edge_marginals)):
        direction = rng.normal(size=scores.shape)
        values = []
        for step in (1e-4, -1e-4):
            moved = [s + step * direction if s is scores else s for s in (nodes, edges)]
            values.append(tree_of(space, *moved).log_partition)
        slope = (values[0] - values[1]) / 2e-4
        assert slope == pytest.approx((marginals * direction).sum(), abs=1e-6)


# ---------------------------------------------------------------------- forests
@settings(max_examples=30, deadline=None)
@given(model=forests(max_nodes=12))
def test_forests_agree_with_belief_propagation(model):
    space, rng = model
    nodes, edges = random_scores(rng, space, "normal")
    structure = Pairwise(PairwiseGraph(space.n_nodes, space.edges), space.n_states)
    scores = np.concatenate([nodes.ravel(), edges.ravel()])
    expected = structure.marginals(scores, tol=1e-10)
    tree = tree_of(space, nodes, edges)
    assert tree.treewidth == min(len(space.edges), 1)
    assert tree.log_partition == pytest.approx(expected.value, abs=1e-8)
    np.testing.assert_allclose(
        tree.node_marginals, structure.node_marginals(expected.tau), atol=1e-8
    )
    np.testing.assert_allclose(
        tree.edge_marginals, structure.edge_marginals(expected.tau), atol=1e-8
    )
    assert tree.best()[1] == pytest.approx(structure.decode(scores).score, abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_chains_agree_with_forward_backward(scale):
    rng = np.random.default_rng(0)
    chains = Sequences([5, 1, 120, 2], 3)
    nodes = scale * rng.integers(-3, 4, size=(chains.n_nodes, 3))
    edges = scale * rng.integers(-3, 4, size=(chains.n_edges, 3, 3))
    expected = chains.marginals(np.concatenate([nodes.ravel(), edges.ravel()]))
    tree = OneSample(chains.n_nodes, chains.tails, chains.tails + 1, nodes, edges)
    assert tree.log_partition == pytest.approx(expected.value, rel=1e-13)
    found = np.concatenate([tree.node_marginals.ravel(), tree.edge_marginals.ravel()])
    np.testing.assert_allclose(found, expected.tau, atol=1e-10)


@pytest.mark.parametrize("n_nodes", [1, 4])
def test_nodes_without_edges_are_independent(n_nodes):
    nodes = np.random.default_rng(n_nodes).normal(size=(n_nodes, 3))
    tree = OneSample(n_nodes, [], [], nodes, [])
    each = np.exp(nodes) / np.exp(nodes).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tree.node_marginals, each, atol=1e-14)
    assert tree.edge_marginals.shape == (0, 3, 3)
    assert tree.log_partition == pytest.approx(logsumexp(nodes, axis=1).sum())
    np.testing.assert_array_equal(tree.best()[0], nodes.argmax(axis=1))
    assert tree.treewidth == 0


# ---------------------------------------------------------------------- known counts
@pytest.mark.parametrize(
    ("size", "count"), [(2, 7), (3, 63), (4, 1234), (5, 55447), (6, 5598861), (7, 1280128950)]
)
def test_independent_sets_of_square_grids(size, count):
    # Sequence A006506 of the OEIS.
    edges = grid_edges(size, size)
    both = np.array([[0.0, 0.0], [0.0, -np.inf]])
    tree = OneSample(size**2, *edges.T, np.zeros((size**2, 2)), [both] * len(edges))
    assert np.exp(tree.log_partition) == pytest.approx(count, rel=1e-11)
    assert (tree.edge_marginals[:, 1, 1] == 0.0).all()
    weights = OneSample(size**2, *edges.T, [[0.0, 1.0]] * size**2, [both] * len(edges))
    assert weights.best()[1] == (size**2 + 1) // 2


@pytest.mark.parametrize("n_nodes", [3, 4, 7, 50])
@pytest.mark.parametrize("q", [2, 3, 5])
def test_colourings_of_a_cycle(n_nodes, q):
    ring = np.arange(n_nodes), (np.arange(n_nodes) + 1) % n_nodes
    tables = [same_state(q, -np.inf)] * n_nodes
    count = (q - 1) ** n_nodes + (-1) ** n_nodes * (q - 1)
    if count == 0:
        with pytest.raises(InfeasibleError, match="nothing is admissible"):
            OneSample(n_nodes, *ring, np.zeros((n_nodes, q)), tables)
        return
    tree = OneSample(n_nodes, *ring, np.zeros((n_nodes, q)), tables)
    assert tree.log_partition == pytest.approx(np.log(float(count)), abs=1e-11)
    assert tree.treewidth == 2
    draws = tree.sample(50, np.random.default_rng(0))
    assert (draws != np.roll(draws, 1, axis=1)).all()
    np.testing.assert_allclose(tree.node_marginals, 1.0 / q, atol=1e-12)


def test_four_nodes_cannot_be_coloured_with_three_colours():
    pairs = np.array([(i, j) for i in range(4) for j in range(i)])
    with pytest.raises(InfeasibleError):
        OneSample(4, *pairs.T, np.zeros((4, 3)), [same_state(3, -np.inf)] * 6)
    four = OneSample(4, *pairs.T, np.zeros((4, 4)), [same_state(4, -np.inf)] * 6)
    assert np.exp(four.log_partition) == pytest.approx(24.0)
    assert sorted(four.best()[0]) == [0, 1, 2, 3]


@pytest.mark.parametrize(("n_states", "length"), [(2, 60), (3, 25), (4, 12)])
def test_narrow_grids_against_the_transfer_matrix(n_states, length):
    rng = np.random.default_rng(n_states)
    edges = grid_edges(3, length)
    nodes = rng.normal(size=(3 * length, n_states))
    tables = rng.normal(size=(len(edges), n_states, n_states))
    number = {tuple(edge): e for e, edge in enumerate(edges.tolist())}
    columns = list(product(range(n_states), repeat=3))

    def within(c):
        totals = np.zeros(len(columns))
        for k, states in enumerate(columns):
            for r in range(3):
                totals[k] += nodes[r * length + c, states[r]]
            for r in range(2):
                e = number[r * length + c, (r + 1) * length + c]
                totals[k] += tables[e, states[r], states[r + 1]]
        return totals

    forward = within(0)
    for c in range(1, length):
        across = [tables[number[r * length + c - 1, r * length + c]] for r in range(3)]
        step = sum(
            table[np.array(columns)[:, r, None], np.array(columns)[None, :, r]]
            for r, table in enumerate(across)
        )
        forward = logsumexp(forward[:, None] + step, axis=0) + within(c)
    tree = OneSample(3 * length, *edges.T, nodes, tables)
    assert tree.treewidth == 3
    assert tree.log_partition == pytest.approx(logsumexp(forward), abs=1e-9)


def test_a_larger_grid_is_consistent():
    rng = np.random.default_rng(5)
    edges = grid_edges(14, 14)
    nodes, tables = rng.normal(size=(196, 2)), rng.normal(size=(len(edges), 2, 2))
    tree = OneSample(196, *edges.T, nodes, tables)
    np.testing.assert_allclose(tree.node_marginals.sum(axis=1), 1.0, atol=1e-11)
    for axis, ends in ((2, edges[:, 0]), (1, edges[:, 1])):
        np.testing.assert_allclose(
            tree.edge_marginals.sum(axis=axis), tree.node_marginals[ends], atol=1e-11
        )
    # Turned around, the image is the same, but the order of elimination is another.
    turned = 195 - edges
    other = OneSample(196, *turned.T, nodes[::-1], tables)
    assert other.log_partition == pytest.approx(tree.log_partition, abs=1e-9)
    np.testing.assert_allclose(other.node_marginals[::-1], tree.node_marginals, atol=1e-10)
    assert other.best()[1] == pytest.approx(tree.best()[1], abs=1e-9)
    # No labelling of a sample is better than the best, and freezing finds the best.
    draws = tree.sample(200, rng)
    totals = nodes[np.arange(196), draws].sum(axis=1)
    pairs = tables[np.arange(len(edges)), draws[:, edges[:, 0]], draws[:, edges[:, 1]]]
    assert (totals + pairs.sum(axis=1) <= tree.best()[1]).all()
    frozen = OneSample(196, *edges.T, 1e6 * nodes, 1e6 * tables)
    np.testing.assert_array_equal(frozen.sample(1, rng)[0], tree.best()[0])


# ---------------------------------------------------------------------- draws
@pytest.mark.parametrize("seed", range(4))
def test_draws_have_their_exact_frequencies(seed):
    rng = np.random.default_rng(seed)
    shape = [(2, 3), (2, 2), (1, 5), (2, 3)][seed]
    space = Labellings(shape[0] * shape[1], grid_edges(*shape), [2, 4, 3, 2][seed])
    nodes, edges = random_scores(rng, space, "normal")
    totals = all_totals(space, nodes, edges)
    expected = np.exp(totals - logsumexp(totals))
    draws = tree_of(space, nodes, edges).sample(20_000, rng)
    places = draws @ (space.n_states ** np.arange(space.n_nodes)[::-1])
    counts = np.bincount(places, minlength=totals.size)
    rare = 20_000 * expected < 5.0  # together
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = 20_000 * np.append(expected[~rare], expected[rare].sum())
    keep = wanted > 0
    assert chisquare(observed[keep], wanted[keep]).pvalue > 1e-4


def test_draws_follow_the_marginals_of_a_grid():
    rng = np.random.default_rng(8)
    edges = grid_edges(8, 8)
    nodes, tables = rng.normal(size=(64, 3)), rng.normal(size=(len(edges), 3, 3))
    tree = OneSample(64, *edges.T, nodes, tables)
    draws = tree.sample(4000, rng)
    for s in range(3):
        p = tree.node_marginals[:, s]
        deviation = (draws == s).mean(axis=0) - p
        assert (np.abs(deviation) < 5.5 * np.sqrt(p * (1 - p) / 4000) + 1e-3).all()


def test_seeds_are_respected():
    edges = grid_edges(3, 3)
    tree = OneSample(9, *edges.T, np.zeros((9, 2)), [0.3 * np.eye(2)] * len(edges))
    one, same, other = (tree.sample(30, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


# ---------------------------------------------------------------------- limits and errors
@pytest.mark.parametrize(
    ("edges", "n_nodes", "n_states"),
    [
        (grid_edges(40, 40), 1600, 2),
        (grid_edges(60, 60), 3600, 2),
        (grid_edges(12, 12), 144, 5),
        (np.array([(i, j) for i in range(30) for j in range(i)]), 30, 2),
    ],
)
def test_too_large_is_told_before_tables_are_made(edges, n_nodes, n_states):
    nodes, tables = np.zeros((n_nodes, n_states)), np.zeros((len(edges), n_states, n_states))
    message = r"treewidth found is \d+.*limit is \d+.*sampling"
    for _ in range(2):  # the first call may compile
        tracemalloc.start()
        with pytest.raises(TooLargeToCount, match=message):
            OneSample(n_nodes, *edges.T, nodes, tables)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 30e6


def test_limits_are_kept_to_the_entry(monkeypatch):
    pairs = np.array([(i, j) for i in range(5) for j in range(i)])
    given = 5, *pairs.T, np.zeros((5, 3)), np.zeros((10, 3, 3))
    monkeypatch.setattr(junction_tree, "LARGEST_TABLE", 3**5)
    monkeypatch.setattr(junction_tree, "LARGEST_TOTAL", 3**5 + 3**4 + 3**3 + 3**2 + 3)
    assert OneSample(*given).log_partition == pytest.approx(5 * np.log(3.0))
    monkeypatch.setattr(junction_tree, "LARGEST_TOTAL", 3**5 + 3**4 + 3**3 + 3**2 + 2)
    with pytest.raises(TooLargeToCount, match="treewidth found is 4, which takes 363 entries"):
        OneSample(*given)
    monkeypatch.setattr(junction_tree, "LARGEST_TABLE", 3**5 - 1)
    with pytest.raises(TooLargeToCount, match=r"4 or more, .* at least 3\^5 .*limit is 242"):
        OneSample(*given)
    with pytest.raises(TooLargeToCount):
        OneSample(*given, order=np.arange(5))


def test_a_long_strip_and_a_star_are_easy():
    edges = grid_edges(2, 3000)  # numbered along the long side
    tree = OneSample(6000, *edges.T, np.zeros((6000, 2)), np.zeros((len(edges), 2, 2)))
    assert tree.treewidth == 2
    assert tree.log_partition == pytest.approx(6000 * np.log(2.0), rel=1e-12)
    hub, leaves = np.zeros(1999, dtype=int), np.arange(1, 2000)
    star = OneSample(2000, hub, leaves, np.zeros((2000, 2)), [0.7 * np.eye(2)] * 1999)
    assert star.treewidth == 1
    each = np.log(np.exp(0.7) + 1.0)
    assert star.log_partition == pytest.approx(np.log(2.0) + 1999 * each, rel=1e-12)


def star(n):
    rng = np.random.default_rng(0)
    nodes, pair = rng.normal(size=(n + 1, 2)), rng.normal(size=(2, 2))
    edges = np.broadcast_to(pair, (n, 2, 2))
    return nodes, pair, (n + 1, np.zeros(n, int), np.arange(1, n + 1), nodes, edges)


def test_a_star_of_many_leaves_takes_no_time_in_their_square():
    _ = OneSample(*star(10)[2]).log_partition  # compiles
    seconds = []
    for n in (5_000, 100_000):  # 20 times the leaves, 400 times their square
        nodes, pair, given = star(n)
        started = process_time()
        found = OneSample(*given).log_partition
        seconds.append(process_time() - started)
        of_leaves = logsumexp(nodes[1:, None] + pair, axis=2).sum(axis=0)  # by state of the centre
        np.testing.assert_allclose(found, logsumexp(nodes[0] + of_leaves), rtol=1e-12)
    assert seconds[1] < 100 * seconds[0]


def test_orders_and_passes_keep_to_time_limits():
    n = 30_000  # a wheel: every step of a frontier order looks at all spokes
    rim, after = np.arange(1, n + 1), np.roll(np.arange(1, n + 1), -1)
    tail, head = np.concatenate([np.zeros(n, int), rim]), np.concatenate([rim, after])
    nodes, edges = np.zeros((n + 1, 2)), np.zeros((2 * n, 2, 2))
    ring = OneSample(4, [0, 1, 2, 3], [1, 2, 3, 0], np.zeros((4, 2)), np.zeros((4, 2, 2)))
    with time_limit(None) as deadline:
        deadline.cancel()
        with pytest.raises(OutOfTimeError, match="an elimination order"):
            OneSample(n + 1, tail, head, nodes, edges)
        with pytest.raises(OutOfTimeError, match="exact marginals"):
            _ = ring.log_partition
