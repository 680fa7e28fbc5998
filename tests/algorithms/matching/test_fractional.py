"""Best fractional matchings: half-integral vertices, and prices that prove them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from scipy.optimize import linprog
from scipy.sparse import coo_array, eye_array, hstack
from weighted_graphs import densities, draw_scores, kinds, random_graph, scales

from mlestruct.algorithms.matching import fractional
from mlestruct.algorithms.matching.fractional import fractional_matching
from mlestruct.exceptions import InfeasibleError

examples = settings(deadline=None, max_examples=80)


def linear_programme(n, tail, head, scores, single):
    """The optimum over the local polytope, None if it is empty."""
    size = scores.size
    if n == 0:
        return 0.0
    ends = coo_array(
        (np.ones(2 * size), (np.concatenate([tail, head]), np.tile(np.arange(size), 2))),
        shape=(n, size),
    )
    objective = scores
    if single is not None:
        ends = hstack([ends, eye_array(n)])
        objective = np.concatenate([scores, single])
    if objective.size == 0:
        return None
    scale = max(np.abs(objective).max(), 1e-300)
    found = linprog(-objective / scale, A_eq=ends, b_eq=np.ones(n), method="highs")
    return -found.fun * scale if found.status == 0 else None


def check(n, tail, head, scores, single, found):
    """A vertex of the polytope, and prices that prove it optimal."""
    nx = pytest.importorskip("networkx")
    sizes = scores if single is None else np.concatenate([scores, single])
    scale = max(np.abs(sizes).max(initial=0.0), 1e-300)
    total = np.zeros(n)
    np.add.at(total, tail[found.edges], found.values)
    np.add.at(total, head[found.edges], found.values)
    np.add.at(total, found.single_nodes, found.single_values)
    np.testing.assert_array_equal(total, 1.0)
    assert np.isin(found.values, [0.5, 1.0]).all()
    halves = found.edges[found.values == 0.5]
    cycles = nx.Graph(list(zip(tail[halves].tolist(), head[halves].tolist(), strict=True)))
    assert all(degree == 2 for _, degree in cycles.degree)
    assert all(len(part) % 2 for part in nx.connected_components(cycles))
    y = found.prices
    assert (y[tail] + y[head] - scores >= -1e-10 * scale).all()
    assert single is None or (y >= single - 1e-10 * scale).all()
    value = scores[found.edges] @ found.values
    value += 0.0 if single is None else single[found.single_nodes] @ found.single_values
    assert found.score == pytest.approx(value, rel=1e-12, abs=1e-12 * scale)
    assert y.sum() == pytest.approx(found.score, rel=1e-10, abs=1e-10 * scale * max(n, 1))


@examples
@given(generators, st.integers(0, 14), densities, kinds, scales, st.booleans())
def test_optimum_of_the_local_polytope(rng, n, density, kind, scale, may_skip):
    ptr, col, tail = random_graph(rng, n, density)
    scores = scale * draw_scores(rng, n, tail, col, kind)
    single = scale * rng.normal(size=n) if may_skip else None
    expected = linear_programme(n, tail, col, scores, single)
    if expected is None:
        with pytest.raises(InfeasibleError) as caught:
            fractional_matching(n, ptr, col, scores, single=single)
        nodes = np.zeros(n, bool)
        nodes[caught.value.rows] = True
        neighbours = np.union1d(col[nodes[tail]], tail[nodes[col]])
        assert neighbours.size < nodes.sum()
        return
    found = fractional_matching(n, ptr, col, scores, single=single)
    check(n, tail, col, scores, single, found)
    size = scale * max(n, 1) * max(np.abs(scores / scale).max(initial=0.0), 1.0)
    assert found.score == pytest.approx(expected, rel=1e-7, abs=1e-7 * size)
    warm = found.prices + scale * rng.choice([0.0, 0.1, 10.0]) * rng.normal(size=n)
    again = fractional_matching(n, ptr, col, scores, single=single, warm=warm)
    check(n, tail, col, scores, single, again)
    assert again.score == pytest.approx(found.score, rel=1e-10, abs=1e-10 * size)


@pytest.mark.parametrize("may_skip", [False, True])
@pytest.mark.parametrize(
    "kind", ["normal", "ties", "equal", "blocks", "points", "flat", "peaked", "product"]
)
def test_a_few_edges_per_node_suffice(kind, may_skip):
    """Large enough for candidates to matter; "product" makes all nodes want the same partners."""
    rng = np.random.default_rng(3)
    n = 240
    ptr, col, tail = random_graph(rng, n, 1.0)
    if kind == "product":
        u = rng.normal(size=n)
        scores = u[tail] * u[col]
    else:
        scores = draw_scores(rng, n, tail, col, kind)
    single = np.full(n, np.quantile(scores, 0.99) / 2) if may_skip else None
    found = fractional_matching(n, ptr, col, scores, single=single)
    check(n, tail, col, scores, single, found)
    changed = scores * (1 + 0.01 * rng.normal(size=scores.size))
    warm = fractional_matching(n, ptr, col, changed, single=single, warm=found.prices)
    check(n, tail, col, changed, single, warm)


@examples
@given(generators, st.integers(4, 30), kinds)
def test_candidates_grow_until_they_suffice(rng, n, kind):
    """One candidate per node to begin with: the rest must be found when it is missed."""
    ptr, col, tail = random_graph(rng, n, 1.0)
    scores = draw_scores(rng, n, tail, col, kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fractional, "CANDIDATES", 1)
        found = fractional_matching(n, ptr, col, scores)
    check(n, tail, col, scores, None, found)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_bad_numbers_are_named(bad):
    ptr, col = np.array([0, 1, 1]), np.array([1])
    with pytest.raises(ValueError, match="scores"):
        fractional_matching(2, ptr, col, np.array([bad]))
    with pytest.raises(ValueError, match="single"):
        fractional_matching(2, ptr, col, np.ones(1), single=np.array([0.0, bad]))
    with pytest.raises(ValueError, match="warm"):
        fractional_matching(2, ptr, col, np.ones(1), warm=np.array([0.0, bad]))


def test_a_triangle_gets_halves_and_a_star_is_refused():
    triangle = np.array([0, 2, 3, 3]), np.array([1, 2, 2])
    found = fractional_matching(3, *triangle, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(found.values, 0.5)
    assert found.score == 3.0
    star = np.array([0, 3, 3, 3, 3]), np.array([1, 2, 3])
    with pytest.raises(InfeasibleError, match="together have only 1 neighbour"):
        fractional_matching(4, *star, np.ones(3))


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_dense_graph_that_cannot_be_covered(level):
    """110 nodes on one side, 90 on the other, every edge as good as any."""
    tail, col = np.divmod(np.arange(110 * 90), 90)
    ptr = np.searchsorted(tail, np.arange(201))
    with pytest.raises(InfeasibleError, match="together have only 90 neighbours") as caught:
        fractional_matching(200, ptr, col + 110, np.full(tail.size, level))
    assert len(caught.value.rows) > 90
