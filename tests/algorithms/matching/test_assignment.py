"""MAP decoding: the best matching, and prices that prove it."""

import numpy as np
import pytest
from bipartite_matchings import Space, complete, spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_scores import draw_scores, generators, kinds
from scipy.optimize import linear_sum_assignment

from mlestruct.algorithms.matching.assignment import assign, assign_edges
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
