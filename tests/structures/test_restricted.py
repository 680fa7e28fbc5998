"""Output spaces given a part of the output, against enumeration of the outputs that agree."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from mlestruct.exceptions import InfeasibleError
from mlestruct.structures import (
    BipartiteGraph,
    BipartiteMatching,
    LocalMatching,
    MatchingPolytope,
    Pairwise,
    PairwiseGraph,
    Sequences,
    SimpleGraph,
)

EDGES = np.array([[0, 1], [2, 1], [2, 3], [0, 3], [1, 3]])
TREE = np.array([[0, 1], [2, 1], [3, 2]])


def labellings(n, n_states):
    return [np.array(y) for y in product(range(n_states), repeat=n)]


def check(space, outputs, given, agrees, scores, exact):
    """Every answer of the conditioned space against the outputs that agree."""
    left = [y for y in outputs if agrees(y)]
    points = np.array([space.encode(y).dense(space.n_coordinates) for y in left])
    values = points @ scores
    log_z = logsumexp(values)
    tau = np.exp(values - log_z) @ points
    distribution = given.exact(scores)
    assert distribution.log_partition == pytest.approx(log_z)
    np.testing.assert_allclose(distribution.tau, tau, atol=1e-9)
    best = given.best_label(scores)
    assert space.encode(best).dot(scores) == pytest.approx(values.max())
    assert agrees(np.asarray(best))
    assert given.decode_integral(scores).score == pytest.approx(values.max())
    assert given.decode(scores).score >= values.max() - 1e-9
    lower, upper = given.log_partition_bounds(scores, 1e-8)
    assert lower - 1e-6 <= log_z <= upper + 1e-6
    found = given.marginals(scores, None, 1e-9)
    assert found.gap <= 1e-6
    if exact:
        np.testing.assert_allclose(found.tau, tau, atol=1e-5)
    # The value is that of the whole space's objective at the same point, and no more than its own.
    assert found.value == pytest.approx(scores @ found.tau + space.entropy(found.tau), abs=1e-6)
    assert given.entropy(found.tau) == pytest.approx(space.entropy(found.tau), abs=1e-9)
    assert found.value <= space.marginals(scores, None, 1e-9).upper_bound + 1e-9
    rng = np.random.default_rng(0)
    for drawn in (distribution.sample(50, rng), given.markov_chain_samples(scores, 5, rng).states):
        assert all(agrees(np.asarray(y)) for y in drawn)
    inside = given.interior()
    assert np.isfinite(given.entropy(inside))
    assert np.isfinite(given.entropy_gradient(inside)).all()


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("edges", [EDGES, TREE])
@pytest.mark.parametrize("known", [[1, -1, -1, 0], [-1, 1, -1, -1], [1, 0, 1, -1]])
def test_labellings(n_states, edges, known):
    rng = np.random.default_rng(0)
    known, graph = np.array(known), PairwiseGraph(4, edges)
    space = Pairwise(graph, n_states)
    scores = rng.normal(size=space.n_coordinates)

    def agrees(y):
        return (y[known >= 0] == known[known >= 0]).all()

    given = space.given(known)
    check(space, labellings(4, n_states), given, agrees, scores, edges is TREE)
    assert space.given(np.full(4, -1)) is space
    whole = space.given(np.array([1, 0, 1, 1]))
    assert whole.best_label(scores).tolist() == [1, 0, 1, 1]
    assert whole.marginals(scores).value == pytest.approx(
        space.encode(np.array([1, 0, 1, 1])).dot(scores)
    )


@pytest.mark.parametrize("known", [[-1, 1, -1, -1, 0, -1], [-1, -1, -1, 2, -1, -1]])
def test_sequences(known):
    known, space = np.array(known), Sequences([4, 2], 3)
    scores = np.random.default_rng(1).normal(size=space.n_coordinates)

    def agrees(y):
        return (y[known >= 0] == known[known >= 0]).all()

    check(space, labellings(6, 3), space.given(known), agrees, scores, True)


def matchings_of(space, n):
    """All labels of a simple space, by trying all partner arrays."""
    n_cols = space.graph.n_cols if isinstance(space.graph, BipartiteGraph) else n
    found = []
    for label in product(range(-1, n_cols), repeat=n):
        try:
            space.encode(np.array(label))
        except ValueError:
            continue
        found.append(np.array(label))
    return found


@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (3, 4), (4, 3)])
def test_matchings_of_two_sides(perfect, shape):
    rng = np.random.default_rng(2)
    mask = np.ones(shape, bool)
    mask[0, 2] = False
    space = BipartiteMatching(BipartiteGraph.from_mask(mask), 0.5, perfect)
    scores = rng.normal(size=space.n_coordinates)
    outputs = matchings_of(space, shape[0])
    table = np.full(shape, np.nan)
    table[1, 0], table[2, 1] = 1.0, 0.0
    given = space.given(table[mask])
    check(space, outputs, given, lambda y: y[1] == 0 and y[2] != 1, scores, False)
    if not perfect:
        table = np.full(shape, np.nan)
        table[1] = 0.0  # known to be single
        given = space.given(table[mask])
        check(space, outputs, given, lambda y: y[1] == -1, scores, False)
        every = np.zeros(shape)
        every[1, 0] = 1.0
        whole = space.given(every[mask])
        assert whole.best_label(scores)[1] == 0
        assert (whole.best_label(scores) >= 0).sum() == 1


@pytest.mark.parametrize("kind", [LocalMatching, MatchingPolytope])
@pytest.mark.parametrize("perfect", [True, False])
def test_matchings_of_a_group(kind, perfect):
    rng = np.random.default_rng(3)
    space = kind(SimpleGraph.complete(6), 0.5, perfect)
    scores = rng.normal(size=space.n_coordinates)
    table = np.full((6, 6), np.nan)
    table[1, 4], table[0, 2] = 1.0, 0.0
    given = space.given(table[np.triu_indices(6, 1)])
    outputs = matchings_of(space, 6) if not perfect else None
    if outputs is None:
        outputs = [
            y for y in matchings_of(kind(SimpleGraph.complete(6), 0.5, False), 6) if (y >= 0).all()
        ]
    check(space, outputs, given, lambda y: y[1] == 4 and y[0] != 2, scores, False)


def test_capacities_are_used_up():
    rng = np.random.default_rng(4)
    space = LocalMatching(SimpleGraph.complete(4), 0.5, False, 2)
    scores = rng.normal(size=space.n_coordinates)
    known = np.full(6, np.nan)
    known[0] = 1.0  # 0-1
    given = space.given(known)
    outputs = [
        np.argwhere(np.triu(table, 1))
        for bits in product((0, 1), repeat=6)
        for table in [_table(bits)]
        if (table.sum(axis=1) <= 2).all()
    ]
    left = [y for y in outputs if [0, 1] in y.tolist()]
    values = [space.encode(y).dot(scores) for y in left]
    assert given.decode_integral(scores).score == pytest.approx(max(values))
    assert given.exact(scores).log_partition == pytest.approx(logsumexp(values))
    wrong = np.ones(6)
    with pytest.raises(ValueError, match="node 0 is in 3 pairs, its capacity is 2"):
        space.given(wrong)
    with pytest.raises(InfeasibleError):
        LocalMatching(SimpleGraph.complete(4), 0.5, True).given(np.zeros(6))


def _table(bits):
    table = np.zeros((4, 4), int)
    table[np.triu_indices(4, 1)] = bits
    return table + table.T


@pytest.mark.parametrize("perfect", [True, False])
@pytest.mark.parametrize("shape", [(2, 3), (3, 2)])
def test_one_row_or_one_column_is_left(perfect, shape):
    space = BipartiteMatching(BipartiteGraph.from_mask(np.ones(shape, bool)), 0.5, perfect)
    scores = np.random.default_rng(5).normal(size=space.n_coordinates)
    table = np.full(shape, np.nan)
    table[1, 0] = 1.0
    given = space.given(table.ravel())
    check(space, matchings_of(space, shape[0]), given, lambda y: y[1] == 0, scores, False)
