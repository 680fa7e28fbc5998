"""MAP decoding: the best matching, and prices that prove it."""

import numpy as np
import pytest
from bipartite_matchings import Space, complete, spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_scores import draw_scores, generators, kinds
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import coo_array, eye_array, hstack
from weighted_graphs import densities, random_graph
from weighted_graphs import draw_scores as graph_scores
from weighted_graphs import kinds as graph_kinds
from weighted_graphs import scales as graph_scales

from mlestruct.algorithms.matching.assignment import assign, assign_edges, fractional_matching
from mlestruct.exceptions import InfeasibleError
from mlestruct.structures import BipartiteGraph

examples = settings(deadline=None, max_examples=80)
scales = st.sampled_from([1.0, 1e6])


def scipy_optimum(table):
    """Best assignment of a table with -inf at forbidden pairs."""
    return table[linear_sum_assignment(table, maximize=True)].sum()


def with_singles(table, row_single, col_single):
    """The square assignment problem that lets every node stay single."""
    n, m = table.shape
    square = np.full((n + m, n + m), -np.inf)
    square[:n, :m] = table
    square[:n, m:][np.diag_indices(n)] = row_single
    square[n:, :m][np.diag_indices(m)] = col_single
    square[n:, m:] = 0.0
    return square


def sparse_mask(rng, n, m, degree=4):
    """A few random pairs per row and one matching that covers the smaller side."""
    mask = rng.random((n, m)) < degree / m
    size = min(n, m)
    mask[rng.permutation(n)[:size], rng.permutation(m)[:size]] = True
    return mask


@examples
@given(spaces(max_side=5), generators, kinds, scales)
def test_decode_finds_the_best_of_all_matchings(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    for prices in (False, True):
        found = space.structure.decode(scores, prices=prices)
        vertex = found.vertex.dense(space.size)
        assert (vertex == space.vertices).all(axis=1).any()
        assert found.score == pytest.approx(space.best_score(scores), rel=1e-12, abs=1e-9)
        assert found.score == pytest.approx(vertex @ scores, rel=1e-12, abs=1e-9)


@examples
@given(spaces(max_side=5), generators, kinds, st.sampled_from([0.0, 1.0, 1e4]))
def test_warm_prices_never_change_the_optimum(space, rng, kind, spread):
    scores = draw_scores(rng, space.size, kind)
    shape = space.structure.decode(scores, prices=True).prices
    warm = spread * rng.normal(size=0 if shape is None else shape.shape)
    found = space.structure.decode(scores, warm, prices=True)
    assert found.score == pytest.approx(space.best_score(scores), rel=1e-9, abs=1e-9 * (1 + spread))
    assert (found.vertex.dense(space.size) == space.vertices).all(axis=1).any()


@pytest.mark.parametrize("shape", [(30, 30), (80, 80), (20, 90), (90, 70)])
@pytest.mark.parametrize("prices", [False, True])
def test_decode_equals_scipy_on_large_tables(shape, prices):
    rng = np.random.default_rng(0)
    n, m = shape
    table = rng.normal(size=shape)
    structure = complete(n, m).structure
    scores = np.zeros(structure.n_coordinates)
    scores[: n * m] = table.ravel()
    found = structure.decode(scores, prices=prices)
    assert found.score == pytest.approx(scipy_optimum(table), rel=1e-12)
    moved = table + 0.01 * rng.normal(size=shape)
    scores[: n * m] = moved.ravel()
    again = structure.decode(scores, found.prices, prices=prices)
    assert again.score == pytest.approx(scipy_optimum(moved), rel=1e-12)


@pytest.mark.parametrize("shape", [(40, 40), (30, 50), (50, 30)])
def test_decode_equals_scipy_on_sparse_graphs(shape):
    rng = np.random.default_rng(1)
    mask = sparse_mask(rng, *shape)
    space = Space(mask)
    table = np.where(mask, rng.normal(size=shape), -np.inf)
    scores = np.concatenate([table[mask], np.zeros(space.size - mask.sum())])
    found = space.structure.decode(scores, prices=True)
    assert found.score == pytest.approx(scipy_optimum(table), rel=1e-12)


@pytest.mark.parametrize("shape", [(40, 40), (25, 60), (60, 25)])
@pytest.mark.parametrize("dense", [True, False])
def test_decode_with_single_nodes_equals_a_padded_assignment(shape, dense):
    rng = np.random.default_rng(2)
    mask = np.ones(shape, bool) if dense else sparse_mask(rng, *shape)
    space = Space(mask, perfect=False)
    table = np.where(mask, rng.normal(size=shape), -np.inf)
    rows, cols = rng.normal(size=shape[0]), rng.normal(size=shape[1])
    found = space.structure.decode(np.concatenate([table[mask], rows, cols]))
    assert found.score == pytest.approx(scipy_optimum(with_singles(table, rows, cols)), rel=1e-12)


def check_prices(table, prices, optimum, row_single=-np.inf):
    """Prices of rows and columns that no pair exceeds and whose total is the optimum prove it."""
    slack = 1e-9 * (1 + np.abs(table[np.isfinite(table)]).max())
    row_prices = np.maximum((table - prices).max(axis=1), row_single)
    assert row_prices.sum() + prices.sum() == pytest.approx(optimum, rel=1e-9, abs=slack)


@examples
@given(st.integers(1, 12), st.integers(0, 6), generators, kinds, st.booleans())
def test_prices_prove_the_optimum(n, surplus, rng, kind, warm):
    table = draw_scores(rng, (n, n + surplus), kind)
    found = assign(table, warm=rng.normal(size=n + surplus) if warm else None)
    check_prices(table, found.prices, scipy_optimum(table))
    if surplus:  # a column may stay single at score 0
        assert (found.prices >= 0).all()


@examples
@given(st.integers(1, 10), st.integers(1, 10), generators, kinds)
@example(3, 2, np.random.default_rng(0), "equal")  # more rows than columns, all alike
def test_prices_prove_the_optimum_where_nodes_may_stay_single(n, m, rng, kind):
    table = draw_scores(rng, (n, m), kind)
    rows, cols = draw_scores(rng, n, kind), draw_scores(rng, m, kind)
    found = assign(table, row_single=rows, col_single=cols)
    check_prices(table, found.prices, scipy_optimum(with_singles(table, rows, cols)), rows)
    slack = 1e-9 * (1 + np.abs(table).max())
    assert (found.prices >= cols - slack).all()


@examples
@given(st.integers(1, 12), st.integers(0, 6), generators, kinds, st.booleans(), st.booleans())
def test_prices_prove_the_optimum_on_sparse_graphs(n, surplus, rng, kind, singles, warm):
    mask = sparse_mask(rng, n, n + surplus, 2)
    table = np.where(mask, draw_scores(rng, mask.shape, kind), -np.inf)
    graph = BipartiteGraph.from_mask(mask)
    if singles:
        rows, cols = rng.normal(size=n), rng.normal(size=n + surplus)
        optimum = scipy_optimum(with_singles(table, rows, cols))
    else:
        rows = cols = None
        optimum = scipy_optimum(table)
    edge, prices = assign_edges(
        graph.ptr, graph.col, table[mask], n + surplus, row_single=rows, col_single=cols,
        warm=rng.normal(size=n + surplus) if warm else None,
    )  # fmt: skip
    check_prices(table, prices, optimum, rows if singles else -np.inf)
    chosen = edge >= 0
    np.testing.assert_array_equal(graph.row[edge[chosen]], np.flatnonzero(chosen))
    assert len(set(graph.col[edge[chosen]])) == chosen.sum()
    assert singles or chosen.all()


# ---------------------------------------------------------------------- fractional matchings
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


def check_fractional(n, tail, head, scores, single, found):
    """A vertex of the polytope, and prices that prove it optimal; returns its score."""
    nx = pytest.importorskip("networkx")
    sizes = scores if single is None else np.concatenate([scores, single])
    scale = max(np.abs(sizes).max(initial=0.0), 1e-300)
    nodes, after, y = np.arange(n), found.after, found.prices
    np.testing.assert_array_equal(np.sort(after), nodes)  # cycles
    cycles = nx.Graph(list(zip(nodes.tolist(), after.tolist(), strict=True)))
    assert all(len(part) % 2 or len(part) == 2 for part in nx.connected_components(cycles))
    alone = after == nodes
    assert single is not None or not alone.any()
    table = np.full((n, n), np.nan)
    table[tail, head] = table[head, tail] = scores
    value = 0.5 * table[nodes, after][~alone].sum()  # every edge is met twice or at one half
    value += 0.0 if single is None else single[alone].sum()
    assert (y[tail] + y[head] - scores >= -1e-10 * scale).all()
    assert single is None or (y >= single - 1e-10 * scale).all()
    assert y.sum() == pytest.approx(value, rel=1e-10, abs=1e-10 * scale * max(n, 1))
    return value


@examples
@given(generators, st.integers(0, 14), densities, graph_kinds, graph_scales, st.booleans())
def test_optimum_of_the_local_polytope(rng, n, density, kind, scale, may_skip):
    ptr, col, tail = random_graph(rng, n, density)
    scores = scale * graph_scores(rng, n, tail, col, kind)
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
    score = check_fractional(n, tail, col, scores, single, found)
    size = scale * max(n, 1) * max(np.abs(scores / scale).max(initial=0.0), 1.0)
    assert score == pytest.approx(expected, rel=1e-7, abs=1e-7 * size)
    warm = found.prices + scale * rng.choice([0.0, 0.1, 10.0]) * rng.normal(size=n)
    again = fractional_matching(n, ptr, col, scores, single=single, warm=warm)
    other = check_fractional(n, tail, col, scores, single, again)
    assert other == pytest.approx(score, rel=1e-10, abs=1e-10 * size)


@settings(deadline=None, max_examples=25)
@given(
    generators,
    st.integers(130, 180),
    st.sampled_from([0.02, 0.05, 0.1]),
    graph_kinds,
    st.booleans(),
)
def test_optimum_of_the_local_polytope_of_large_sparse_graphs(rng, n, density, kind, may_skip):
    ptr, col, tail = random_graph(rng, n, density)
    if rng.random() < 0.8:  # with a perfect matching
        pairs = np.sort(rng.permutation(n // 2 * 2).reshape(-1, 2), axis=1)
        keys = np.union1d(tail * n + col, pairs @ [n, 1])
        tail, col = keys // n, keys % n
        ptr = np.searchsorted(tail, np.arange(n + 1))
    scores = graph_scores(rng, n, tail, col, kind)
    single = rng.normal(size=n) if may_skip else None
    expected = linear_programme(n, tail, col, scores, single)
    if expected is None:
        with pytest.raises(InfeasibleError):
            fractional_matching(n, ptr, col, scores, single=single)
        return
    found = fractional_matching(n, ptr, col, scores, single=single)
    score = check_fractional(n, tail, col, scores, single, found)
    assert score == pytest.approx(expected, rel=1e-7, abs=1e-7 * n)
    warm = fractional_matching(n, ptr, col, 1.01 * scores, single=single, warm=found.prices)
    check_fractional(n, tail, col, 1.01 * scores, single, warm)


@pytest.mark.parametrize("may_skip", [False, True])
@pytest.mark.parametrize(
    "kind", ["normal", "ties", "equal", "blocks", "points", "flat", "peaked", "product"]
)
def test_large_complete_graphs(kind, may_skip):
    """The prices prove the optimum; "product" makes all nodes want the same partners."""
    rng = np.random.default_rng(3)
    n = 240
    ptr, col, tail = random_graph(rng, n, 1.0)
    if kind == "product":
        u = rng.normal(size=n)
        scores = u[tail] * u[col]
    else:
        scores = graph_scores(rng, n, tail, col, kind)
    single = np.full(n, np.quantile(scores, 0.99) / 2) if may_skip else None
    found = fractional_matching(n, ptr, col, scores, single=single)
    check_fractional(n, tail, col, scores, single, found)
    changed = scores * (1 + 0.01 * rng.normal(size=scores.size))
    warm = fractional_matching(n, ptr, col, changed, single=single, warm=found.prices)
    check_fractional(n, tail, col, changed, single, warm)


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
    assert sorted(found.after) == [0, 1, 2]
    assert (found.after != [0, 1, 2]).all()
    assert found.prices.sum() == pytest.approx(3.0)
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
