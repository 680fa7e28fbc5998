"""Matchings of any graph by Markov chains, against distributions spelled out and theorems."""

import warnings

import bipartite_matchings
import numpy as np
import pytest
from graph_matchings import Space, random_mask, with_perfect_matching
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from scipy.stats import chisquare
from sklearn.exceptions import ConvergenceWarning

from mlestruct.algorithms.matching import _worm_chain_kernels as kernels
from mlestruct.algorithms.matching.worm_chain import _WormChain, sample_by_worms
from mlestruct.exceptions import InfeasibleError
from mlestruct.structures import BipartiteMatching


def rng(seed=0):
    return np.random.default_rng(seed)


def complete(n):
    return ~np.eye(n, dtype=bool)


def cycle(n):
    return np.roll(np.eye(n, dtype=bool), 1, axis=0) | np.roll(np.eye(n, dtype=bool), -1, axis=0)


def sparse(n, density, seed):
    return with_perfect_matching(rng(seed), random_mask(rng(seed), n, density))


def bipartite(mask):
    n, m = mask.shape
    return np.block([[np.zeros((n, n), bool), mask], [mask.T, np.zeros((m, m), bool)]])


def two_triangles():
    """Joined by all edges between them; whoever is left over in one needs one of those."""
    return complete(6), np.add.outer(np.arange(6) // 3, np.arange(6) // 3)[np.triu_indices(6, 1)]


def partners(space):
    """All matchings of a space, as partners."""
    out = np.full((len(space.vertices), space.n), -1)
    for partner, vertex in zip(out, space.vertices, strict=True):
        i, j = space.edges[np.flatnonzero(vertex[: space.n_edges])].T
        partner[i], partner[j] = j, i
    return out


def probabilities(space, scores):
    totals = space.vertices @ scores
    weights = np.exp(totals - totals.max())
    return weights / weights.sum()


def split(space, scores):
    """Arguments of sample_by_worms."""
    edges, single = scores[: space.n_edges], scores[space.n_edges :]
    options = {"free": space.free, "single": single if single.size else None}
    return (space.n, *space.edges.T, edges), options


def pvalue(states, expected, drawn):
    """Of a chi-square test; rare states are counted together."""
    place = {tuple(state): k for k, state in enumerate(np.asarray(states).tolist())}
    found = np.bincount([place[tuple(s)] for s in drawn.tolist()], minlength=len(place))
    expected = expected * len(drawn)
    rare = expected < 8
    if rare.any():
        found = np.append(found[~rare], found[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] < 8:
            assert found[-1] < 30
            found, expected = found[:-1], expected[:-1] * found[:-1].sum() / expected[:-1].sum()
    return chisquare(found, expected).pvalue if found.size > 1 else 1.0


SPACES = {
    "complete": Space(complete(6)),
    "complete, imperfect": Space(complete(5), False),
    "sparse": Space(sparse(8, 0.35, 4)),
    "sparse, imperfect": Space(sparse(7, 0.3, 5), False),
    "6-cycle": Space(cycle(6)),
    "8-cycle": Space(cycle(8)),
    "5-cycle, imperfect": Space(cycle(5), False),
    "bipartite, masked": Space(bipartite(rng(3).random((4, 4)) < 0.7)),
    "surplus columns": Space(bipartite(np.ones((2, 4), bool)), np.arange(6) < 2),
    "mixed": Space(complete(5), np.array([True, True, False, False, True])),
    "mixed, sparse": Space(sparse(7, 0.5, 6), np.arange(7) % 2 == 1),
}


# ---------------------------------------------------------------------- the right distribution
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("scale", [0.0, 1.2])
def test_samples_have_their_exact_frequencies(name, scale):
    space = SPACES[name]
    assert len(space.vertices) > 1
    scores = scale * rng(1).normal(size=space.size)
    arguments, options = split(space, scores)
    found = sample_by_worms(*arguments, 1500, **options, rng=rng(7))
    assert found.converged
    assert found.states.shape == (1500, space.n)
    assert pvalue(partners(space), probabilities(space, scores), found.states) > 1e-4


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("kind", ["worm", "short worm", "local move"])
def test_every_move_keeps_the_distribution(name, kind):
    """States drawn from the exact distribution have it still after a move, and have moved."""
    space = SPACES[name]
    scores = rng(2).normal(size=space.size)
    arguments, options = split(space, scores)
    chain = _WormChain(arguments[0], arguments[1:3], arguments[3], **options, start=None, rng=rng())
    states, p = partners(space), probabilities(space, scores)
    own, drawn = rng(3), rng(4).choice(len(p), size=3000, p=p)
    after = np.empty((3000, space.n), dtype=int)
    for t, k in enumerate(drawn):
        state = states[k].copy()
        if kind == "local move":
            kernels.local_move(chain.graph, state, chain.free, chain.score, chain.single, own)
        else:
            limit = chain.limit if kind == "worm" else 3
            kernels.worm_update(chain.graph, state, chain.log, limit, own)
        after[t] = state
    assert pvalue(states, p, after) > 1e-4
    moved = (after != states[drawn]).any(axis=1).mean()
    if kind == "worm":
        assert moved > 0.1
    elif kind == "local move" and "cycle" in name and not space.free.any():
        assert moved == 0.0  # hence worm updates


def test_dimers_on_a_grid_have_the_marginals_of_kasteleyn():
    """The weighted matchings of a grid are a determinant, its edges' probabilities the inverse."""
    side = 8
    index = np.arange(side * side).reshape(side, side)
    tail = np.concatenate([index[:, :-1].ravel(), index[:-1].ravel()])
    head = np.concatenate([index[:, 1:].ravel(), index[1:].ravel()])
    scores = 1.5 * rng(8).normal(size=tail.size)
    row, col = np.divmod(np.arange(side * side), side)
    black = (row + col) % 2 == 0
    place = np.where(black, np.cumsum(black), np.cumsum(~black)) - 1
    sign = np.where(head - tail == 1, 1.0, 1j)  # imaginary along columns
    b, w = np.where(black[tail], tail, head), np.where(black[tail], head, tail)
    matrix = np.zeros((side * side // 2,) * 2, dtype=complex)
    matrix[place[b], place[w]] = sign * np.exp(scores)
    exact = (matrix[place[b], place[w]] * np.linalg.inv(matrix)[place[w], place[b]]).real
    assert exact.min() > -1e-9
    at_node = np.bincount(np.concatenate([tail, head]), np.tile(exact, 2))
    np.testing.assert_allclose(at_node, 1.0)
    found = sample_by_worms(side * side, tail, head, scores, 1500, rng=rng(9))
    assert found.converged
    seen = (found.states[:, tail] == head).mean(axis=0)
    np.testing.assert_allclose(seen, exact, atol=5 * 0.5 / np.sqrt(1500))


def test_long_cycles_are_crossed():
    n = 40
    nodes = np.arange(n)
    one = np.where(nodes % 2 == 0, nodes + 1, nodes - 1)
    found = sample_by_worms(n, nodes, (nodes + 1) % n, np.zeros(n), 400, start=one, rng=rng(2))
    assert found.converged
    assert 0.35 < (found.states == one).all(axis=1).mean() < 0.65


@pytest.mark.parametrize("free", [False, True])
def test_odd_groups_that_cling_together(free):
    """Walks get lost in the two triangles; re-pairing does not."""
    mask, across = two_triangles()
    space = Space(mask, not free)
    scores = np.concatenate([np.where(across == 1, -15.0, 0.0), np.full(6 * free, -20.0)])
    scores[: space.n_edges] += rng(1).normal(size=space.n_edges)
    arguments, options = split(space, scores)
    found = sample_by_worms(*arguments, 1500, **options, rng=rng(3))
    assert pvalue(partners(space), probabilities(space, scores), found.states) > 1e-4


# ---------------------------------------------------------------------- any graph, any scores
@st.composite
def any_space(draw):
    own = draw(generators)
    n = draw(st.integers(1, 6))
    mask = random_mask(own, n, draw(st.sampled_from([0.0, 0.4, 0.7, 1.0])))
    free = draw(st.sampled_from([0.0, 0.5, 1.0]))
    return Space(mask, own.random(n) >= free), own


@settings(max_examples=60, deadline=None)
@given(any_space(), st.sampled_from([0.0, 1.0, 30.0, 1e6]))
def test_only_admissible_matchings_or_an_error(case, scale):
    space, own = case
    scores = scale * own.integers(-1, 2, size=space.size)
    arguments, options = split(space, scores)
    if len(space.vertices) == 0:
        with pytest.raises(InfeasibleError):
            sample_by_worms(*arguments, 1, **options, rng=rng())
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = sample_by_worms(*arguments, 3, **options, max_sweeps=400, rng=rng())
    states = {tuple(s): v @ scores for s, v in zip(partners(space), space.vertices, strict=True)}
    best = max(states.values())
    for state in found.states.tolist():
        assert tuple(state) in states
        assert scale < 1e6 or not found.converged or states[tuple(state)] == best


def test_ties_of_huge_scores_are_drawn_evenly():
    space = Space(complete(6))
    scores = np.where(rng(4).random(space.size) < 0.7, 1e6, -1e6)
    states = partners(space)[space.vertices @ scores == space.best_score(scores)]
    assert 1 < len(states) < 15
    arguments, _ = split(space, scores)
    found = sample_by_worms(*arguments, 1000, rng=rng(5))
    assert pvalue(states, np.full(len(states), 1 / len(states)), found.states) > 1e-4


def test_smallest_graphs():
    one = sample_by_worms(1, [], [], [], 2, free=True, rng=rng())
    np.testing.assert_array_equal(one.states, [[-1], [-1]])
    pair = sample_by_worms(2, [1], [0], [-3.0], 2, rng=rng())
    np.testing.assert_array_equal(pair.states, [[1, 0], [1, 0]])
    nothing = sample_by_worms(3, [], [], [], 1, free=True, single=[1e6, -1e6, 0.0], rng=rng())
    np.testing.assert_array_equal(nothing.states, [[-1, -1, -1]])
    either = sample_by_worms(2, [0], [1], [0.0], 1500, free=True, single=[1.0, -2.0], rng=rng())
    share = (either.states[:, 0] == 1).mean()  # exp(0) against exp(1 - 2)
    assert share == pytest.approx(1 / (1 + np.exp(-1.0)), abs=0.06)
    for n in (1, 2):
        with pytest.raises(InfeasibleError):
            sample_by_worms(n, [], [], [], 1, rng=rng())


def test_seeds_are_respected():
    space = SPACES["mixed"]
    arguments, options = split(space, rng(1).normal(size=space.size))
    one, same, other = (
        sample_by_worms(*arguments, 20, **options, rng=rng(s)).states for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_edges_in_any_order_and_direction():
    space = SPACES["sparse"]
    scores = rng(1).normal(size=space.size)
    order = rng(2).permutation(space.n_edges)
    tail, head = space.edges[order].T
    turned = rng(3).random(order.size) < 0.5
    tail, head = np.where(turned, head, tail), np.where(turned, tail, head)
    one = sample_by_worms(space.n, *space.edges.T, scores, 5, rng=rng(4))
    other = sample_by_worms(space.n, tail, head, scores[order], 5, rng=rng(4))
    np.testing.assert_array_equal(one.states, other.states)


# ---------------------------------------------------------------------- chains that fail
def bridged_triangles():
    """Two perfect matchings that are equally good, and an enormous valley between them."""
    edges = np.array([[0, 1], [0, 2], [1, 2], [3, 4], [3, 5], [4, 5], [0, 3], [1, 4]])
    return 6, *edges.T, np.array([60.0] * 6 + [0.0] * 2)


def test_chains_that_cannot_meet_are_reported():
    both = np.array([[3, 2, 1, 0, 5, 4], [2, 4, 0, 5, 1, 3]])
    with pytest.warns(ConvergenceWarning, match="worm chain.*no convergence after 200 sweeps"):
        found = sample_by_worms(*bridged_triangles(), 1, start=both, max_sweeps=200, rng=rng())
    assert not found.converged
    with pytest.warns(ConvergenceWarning, match="no worm update reached another matching"):
        found = sample_by_worms(*bridged_triangles(), 1, start=both[0], rng=rng())
    assert not found.converged


def test_the_only_matching_is_no_failure():
    n = 30
    path = np.arange(n - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sample_by_worms(n, path, path + 1, np.zeros(n - 1), 1, rng=rng())
    np.testing.assert_array_equal(found.states[0], np.arange(n) ^ 1)
    assert found.converged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_nodes": 0}, "n_nodes: expected at least 1, got 0"),
        ({"tail": [0, 1, 4]}, "tail: edge 2 ends at 4; nodes are 0 to 3"),
        ({"tail": [0.5, 1, 2]}, "tail: expected a row of whole numbers"),
        ({"tail": [0, 1]}, "2 and 3 ends"),
        ({"tail": [1, 1, 2]}, "edge 0 joins node 1 to itself"),
        ({"tail": [2, 1, 2]}, r"the pair \(1, 2\) occurs twice"),
        ({"scores": [0.0, 1.0]}, r"scores: expected shape \(3,\), one per edge"),
        ({"scores": [0.0, 1.0, np.nan]}, "scores: must be finite"),
        ({"free": [True, False]}, "free: expected a bool or bools"),
        ({"free": True, "single": [0.0]}, "single: expected shape"),
        ({"start": [1, 0, 3]}, "start: expected whole numbers of shape"),
        ({"start": [1, 0, 3, 9]}, "start: partners are 0 to 3"),
        ({"start": [1, 2, 3, 0]}, "start: not a matching"),
        ({"start": [2, 3, 0, 1]}, "start: pairs node 0 with 2, which is no edge"),
        ({"start": [-1, 2, 1, -1]}, "start: node 0 is single, but not free"),
        ({"n_samples": 0}, "n_samples: expected at least 1"),
        ({"max_sweeps": 10}, "max_sweeps: expected at least 100"),
        ({"tol_rhat": 1.0}, "tol_rhat: expected more than 1"),
    ],
)
def test_errors_say_what_was_found(change, message):
    arguments = {
        "n_nodes": 4, "tail": [0, 1, 2], "head": [1, 2, 3], "scores": np.zeros(3), "n_samples": 1,
    } | change  # fmt: skip
    with pytest.raises(ValueError, match=message):
        sample_by_worms(**arguments, rng=rng())


def test_nodes_that_cannot_be_matched_are_named():
    star = [0, 0, 0], [1, 2, 3], np.zeros(3)
    with pytest.raises(InfeasibleError, match="all 2 nodes that may not stay single") as caught:
        sample_by_worms(4, *star, 1, free=np.array([True, True, False, False]), rng=rng())
    assert caught.value.rows == [0]


# ---------------------------------------------------------------------- structures
BIPARTITE = {
    "square": bipartite_matchings.Space(np.ones((3, 3), bool)),
    "wide": bipartite_matchings.Space(np.ones((2, 4), bool)),
    "tall": bipartite_matchings.Space(np.ones((4, 2), bool)),
    "masked": bipartite_matchings.Space(rng(3).random((4, 4)) < 0.7),
    "masked, tall": bipartite_matchings.Space(
        np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1]], bool).T
    ),
    "imperfect": bipartite_matchings.Space(np.ones((3, 2), bool), False),
}


@pytest.mark.parametrize("name", BIPARTITE)
@pytest.mark.parametrize("scale", [0.6, 3.0])
def test_labels_of_bipartite_structures(name, scale):
    space = BIPARTITE[name]
    scores = scale * rng(5).normal(size=space.size)  # singles too
    found = space.structure.markov_chain_samples(scores, 1500, rng(6))
    totals = space.vertices @ scores
    p = np.exp(totals - totals.max())
    assert pvalue(space.labels, p / p.sum(), found.states) > 1e-4
    space.structure.encode(found.states[0])


@pytest.mark.parametrize(
    "space",
    [
        Space(complete(6)),
        Space(complete(4), False),
        Space(complete(2)),
        SPACES["sparse"],
        SPACES["mixed"],
        Space(complete(5), np.arange(5) < 2, 1.0, np.array([1, 1, 0, 1, 1])),
        Space(complete(5), True, 1.0, np.array([1, 1, 0, 1, 1])),
    ],
)
@pytest.mark.parametrize("scale", [0.6, 3.0])
def test_labels_of_general_structures(space, scale):
    scores = scale * rng(5).normal(size=space.size)
    found = space.local.markov_chain_samples(scores, 1200, rng(6))
    assert pvalue(partners(space), probabilities(space, scores), found.states) > 1e-4
    space.local.encode(found.states[0])


def test_exact_matchings_and_starts_from_labels():
    space = SPACES["sparse"]
    scores = rng(5).normal(size=space.size)
    labels = space.exact.markov_chain_samples(scores, 4, rng(6)).states
    assert space.exact.markov_chain_samples(scores, 1, rng(7), start=labels).converged
    square = BipartiteMatching((3, 3))
    labels = square.markov_chain_samples(np.zeros(9), 2, rng(6), start=[0, 2, 1], n_chains=3).states
    assert labels.shape == (2, 3)
    with pytest.raises(ValueError, match="start: columns are 0 to 2"):
        square.markov_chain_samples(np.zeros(9), 1, rng(), start=[0, 1, 3])
    with pytest.raises(ValueError, match="start: expected columns of 3 rows"):
        square.markov_chain_samples(np.zeros(9), 1, rng(), start=[0, 1])


def test_strong_scores_of_complete_graphs_are_no_obstacle():
    """A hexagon's alternating sides, far above everything else: swaps cannot lead across."""
    space = Space(complete(6))
    side = np.isin(space.edges[:, 1] - space.edges[:, 0], [1, 5])
    scores = np.where(side, 0.0, -60.0) + 0.3 * rng(2).normal(size=space.size)
    found = space.local.markov_chain_samples(scores, 1000, rng(6))
    assert found.converged
    assert pvalue(partners(space), probabilities(space, scores), found.states) > 1e-4


@pytest.mark.parametrize("scale", [0.5, 3.0])
@pytest.mark.parametrize("shape", [(1, 40), (40, 1)])
def test_one_node_takes_its_pick(shape, scale):
    """The only row's column is a softmax of its scores, less what the column gets if single."""
    structure = BipartiteMatching(shape)
    scores = scale * rng(1).normal(size=structure.n_coordinates)
    states = structure.markov_chain_samples(scores, 1500, rng(2)).states
    chosen = states if shape[0] == 1 else (states == 0).argmax(axis=1)[:, None]
    p = np.exp(scores[:40] - scores[40:])
    assert pvalue(np.arange(40)[:, None], p / p.sum(), chosen) > 1e-4


def test_the_smallest_and_the_largest_partner_of_a_start():
    """-1 is a single node, n - 1 the last one; -2 and n are refused."""
    nodes = np.arange(4)
    cycle = (4, nodes, (nodes + 1) % 4, np.zeros(4), 1)
    options = {"free": True}
    for start in ([-1, -1, -1, -1], [3, -1, -1, 0]):
        assert sample_by_worms(*cycle, **options, start=start, rng=rng()).states.shape == (1, 4)
    for start in ([-2, -1, -1, -1], [4, -1, -1, -1]):
        with pytest.raises(ValueError, match="start: partners are 0 to 3, or -1"):
            sample_by_worms(*cycle, **options, start=start, rng=rng())
