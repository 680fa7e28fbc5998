"""Allowed pairs: which are fixed whatever the scores, and why a mask allows no matching."""

from itertools import product

import numpy as np
import pytest
from bipartite_matchings import Space, complete, covering_matchings, spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from random_scores import generators
from scipy import sparse

from mlestruct import InfeasibleError
from mlestruct.structures import BipartiteGraph, BipartiteMatching
from mlestruct.structures.graphs.bipartite import varying_edges

examples = settings(deadline=None, max_examples=100)
masks = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(lambda shape: arrays(bool, shape))


def every_mask(n, m):
    return (np.array(bits).reshape(n, m) for bits in product([False, True], repeat=n * m))


def assert_hall_violator(mask, rows):
    """These rows have fewer allowed partners than members."""
    assert len(rows) == len(set(rows))
    assert mask[rows].any(axis=0).sum() < len(rows)


def check_fixed_edges(mask):
    """Compare `varying_edges` with the list of all matchings covering the rows."""
    graph = BipartiteGraph.from_mask(mask)
    labels = covering_matchings(mask)
    if not labels:
        with pytest.raises(InfeasibleError) as caught:
            varying_edges(graph)
        assert_hall_violator(mask, caught.value.rows)
        return
    row, col = np.nonzero(mask)
    used = np.array([y[row] == col for y in labels])
    single = np.array([~np.isin(np.arange(mask.shape[1]), y) for y in labels])
    edges, singles, one, its_singles = varying_edges(graph)
    np.testing.assert_array_equal(~edges & ~one, ~used.any(axis=0))
    np.testing.assert_array_equal(~edges & one, used.all(axis=0))
    np.testing.assert_array_equal(~singles & ~its_singles, ~single.any(axis=0))
    np.testing.assert_array_equal(~singles & its_singles, single.all(axis=0))


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 4), (2, 2), (2, 3), (2, 4), (3, 3)])
def test_fixed_edges_of_every_small_graph(shape):
    for mask in every_mask(*shape):
        check_fixed_edges(mask)


@examples
@given(masks)
def test_fixed_edges_of_random_graphs(mask):
    check_fixed_edges(mask if mask.shape[0] <= mask.shape[1] else mask.T)


@examples
@given(masks)
def test_mask_without_matching_raises_with_a_violating_set(mask):
    n, m = mask.shape
    graph = BipartiteGraph.from_mask(mask)
    if covering_matchings(mask):
        BipartiteMatching(graph)
    else:
        with pytest.raises(InfeasibleError, match="no matching covers") as caught:
            BipartiteMatching(graph)
        assert_hall_violator(mask if n <= m else mask.T, caught.value.rows)


@examples
@given(masks)
def test_any_mask_is_feasible_when_nodes_may_stay_single(mask):
    structure = BipartiteMatching(BipartiteGraph.from_mask(mask), perfect=False)
    decoded = structure.decode(np.full(structure.n_coordinates, -1.0))
    assert structure.label(decoded.vertex).shape == (mask.shape[0],)


@settings(deadline=None, max_examples=60)
@given(spaces(max_side=5))
def test_interior_point_is_strictly_inside_wherever_matchings_differ(space):
    tau = space.structure.interior()
    assert space.infeasibility(tau) < 1e-8
    varies = np.ptp(space.vertices, axis=0) > 0
    assert (tau[varies] > 1e-6).all()
    assert (tau[varies] < 1 - 1e-6).all()
    np.testing.assert_array_equal(tau[~varies], space.vertices[0, ~varies])


@settings(deadline=None, max_examples=60)
@given(spaces())
def test_only_one_matching_is_recognised(space):
    assert space.structure.is_fixed == (len(space.labels) == 1)


@settings(deadline=None, max_examples=60)
@given(spaces())
def test_labels_and_vertices_are_inverse(space):
    structure = space.structure
    assert structure.n_coordinates == space.size
    assert structure.n_scored == space.mask.sum()
    for label, vertex in zip(space.labels, space.vertices, strict=True):
        encoded = structure.encode(label)
        np.testing.assert_array_equal(encoded.dense(space.size), vertex)
        np.testing.assert_array_equal(structure.label(encoded), label)


def test_label_with_a_forbidden_pair_is_refused_by_name():
    structure = Space(np.array([[1, 1], [0, 1]], bool), perfect=False).structure
    with pytest.raises(ValueError, match="pairs 1 with 0, not allowed"):
        structure.encode([-1, 0])


@settings(deadline=None, max_examples=60)
@given(masks, generators)
def test_graph_lists_the_pairs_of_its_mask(mask, rng):
    row, col = np.nonzero(mask)
    for given_mask in (mask, sparse.csr_array(mask), sparse.coo_array(mask)):
        graph = BipartiteGraph.from_mask(given_mask)
        np.testing.assert_array_equal(graph.row, row)
        np.testing.assert_array_equal(graph.col, col)
        assert graph.is_complete == mask.all()
    np.testing.assert_array_equal(graph.matrix().toarray(), mask)
    flipped, order = graph.transposed()
    np.testing.assert_array_equal(flipped.matrix().toarray(), mask.T)
    np.testing.assert_array_equal(graph.col[order], flipped.row)
    i, j = rng.integers(mask.shape[0], size=9), rng.integers(mask.shape[1], size=9)
    edge = graph.edge_between(i, j)
    np.testing.assert_array_equal(edge >= 0, mask[i, j])
    np.testing.assert_array_equal(row[edge[edge >= 0]], i[edge >= 0])
    np.testing.assert_array_equal(col[edge[edge >= 0]], j[edge >= 0])


def test_table_puts_marginals_in_place_and_zeros_elsewhere():
    space = Space(np.array([[1, 0, 1], [1, 1, 0]], bool))
    tau = space.structure.interior()
    table = space.structure.graph.dense(tau[: space.structure.n_scored])
    np.testing.assert_array_equal(table[space.mask], tau[:4])
    assert (table[~space.mask] == 0).all()


@pytest.mark.parametrize("rho", [0.4, 1.1, np.nan, [0.5, 0.5, 0.5], (0.5, 0.6, 0.7)])
def test_rho_outside_its_range_or_shape_is_refused(rho):
    with pytest.raises(ValueError, match="rho"):
        BipartiteMatching((2, 2), rho)


def test_rho_may_be_given_per_node_in_one_array_or_per_side():
    rng = np.random.default_rng(0)
    rho = rng.uniform(0.5, 1, 5)
    tau = complete(2, 3).random_point(rng)
    expected = Space(np.ones((2, 3), bool), True, rho[:2], rho[2:]).entropy(tau)
    assert BipartiteMatching((2, 3), rho).entropy(tau) == pytest.approx(expected, rel=1e-13)
    sides = Space(np.ones((2, 3), bool), True, 0.6, 0.9).entropy(tau)
    assert BipartiteMatching((2, 3), (0.6, 0.9)).entropy(tau) == pytest.approx(sides, rel=1e-13)
