"""Undirected simple graphs, and what output spaces refuse."""

import numpy as np
import pytest
from graph_matchings import random_mask
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import generators
from scipy import sparse

from mlestruct.exceptions import InfeasibleError
from mlestruct.structures import BipartiteGraph
from mlestruct.structures.graphs.simple import SimpleGraph
from mlestruct.structures.matchings.local import LocalMatching
from mlestruct.structures.matchings.matching_polytope import MatchingPolytope

examples = settings(deadline=None, max_examples=40)
densities = st.sampled_from([0.0, 0.2, 0.5, 1.0])


def pairs_of(graph):
    return list(zip(graph.row.tolist(), graph.col.tolist(), strict=True))


def upper_pairs(mask):
    return [tuple(e) for e in np.argwhere(np.triu(mask, 1)).tolist()]


def as_networkx(mask):
    nx = pytest.importorskip("networkx")
    out = nx.empty_graph(len(mask))
    out.add_edges_from(upper_pairs(mask))
    return out


# ---------------------------------------------------------------------- construction
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_complete_graph_has_every_pair_in_order(n):
    graph = SimpleGraph.complete(n)
    assert pairs_of(graph) == [(i, j) for i in range(n) for j in range(i + 1, n)]
    assert graph.is_complete
    assert graph.n_edges == n * (n - 1) // 2
    assert graph.degree.tolist() == [n - 1] * n


@examples
@given(st.integers(0, 9), densities, generators)
def test_mask_and_pairs_give_the_same_graph(n, density, rng):
    mask = random_mask(rng, n, density)
    expected = upper_pairs(mask)
    diagonal = mask | np.diag(rng.random(n) < 0.5)  # which plays no part
    for given_mask in (mask, diagonal, mask.astype(float), sparse.csr_array(mask)):
        graph = SimpleGraph.from_mask(given_mask)
        assert graph.n_nodes == n
        assert pairs_of(graph) == expected
        assert graph.ptr.dtype == graph.col.dtype == np.int64
    shuffled = rng.permutation(np.array(expected, int).reshape(-1, 2))
    shuffled = np.where(rng.random((len(shuffled), 1)) < 0.5, shuffled, shuffled[:, ::-1])
    graph, edge = SimpleGraph.from_edges(n, shuffled)
    assert pairs_of(graph) == expected
    assert [expected[e] for e in edge] == [tuple(sorted(p)) for p in shuffled.tolist()]
    assert graph.degree.tolist() == mask.sum(axis=1).tolist()


@examples
@given(st.integers(0, 8), densities, generators)
def test_edge_between_finds_edges_from_either_end(n, density, rng):
    mask = random_mask(rng, n, density)
    graph = SimpleGraph.from_mask(mask)
    i, j = (k.ravel() for k in np.indices((n, n)))
    edge = graph.edge_between(i, j)
    assert np.array_equal(edge >= 0, mask[i, j])
    known = edge >= 0
    assert np.array_equal(graph.row[edge[known]], np.minimum(i, j)[known])
    assert np.array_equal(graph.col[edge[known]], np.maximum(i, j)[known])


@examples
@given(st.integers(0, 8), densities, generators)
def test_subgraph_keeps_the_chosen_edges_and_the_nodes_they_touch(n, density, rng):
    graph = SimpleGraph.from_mask(random_mask(rng, n, density))
    keep = rng.random(graph.n_edges) < 0.5
    part, nodes, edges = graph.subgraph(keep)
    assert edges.tolist() == np.flatnonzero(keep).tolist()
    assert set(nodes) == set(graph.row[keep]) | set(graph.col[keep])
    assert part.n_nodes == len(nodes)
    assert np.array_equal(nodes[part.row], graph.row[edges])
    assert np.array_equal(nodes[part.col], graph.col[edges])


@examples
@given(st.integers(0, 8), densities, generators)
def test_double_cover_sees_every_edge_from_both_ends(n, density, rng):
    mask = random_mask(rng, n, density)
    graph = SimpleGraph.from_mask(mask)
    cover, edge = graph.double_cover()
    assert (cover.n_rows, cover.n_cols, cover.n_edges) == (n, n, 2 * graph.n_edges)
    assert [tuple(e) for e in np.argwhere(mask)] == list(zip(cover.row, cover.col, strict=True))
    assert np.array_equal(edge, graph.edge_between(cover.row, cover.col))


@examples
@given(st.integers(1, 10), st.sampled_from([0.0, 0.1, 0.2, 0.4, 1.0]), generators)
def test_components_and_bipartiteness_agree_with_networkx(n, density, rng):
    nx = pytest.importorskip("networkx")
    mask = random_mask(rng, n, density)
    graph, reference = SimpleGraph.from_mask(mask), as_networkx(mask)
    count, label = graph.components
    assert count == nx.number_connected_components(reference)
    for group in nx.connected_components(reference):
        assert len({int(label[i]) for i in group}) == 1
    assert graph.is_bipartite == nx.is_bipartite(reference)


@examples
@given(st.integers(0, 4), st.integers(0, 4), generators)
def test_bipartite_graph_keeps_the_order_of_its_edges(n, m, rng):
    mask = rng.random((n, m)) < 0.6
    graph = SimpleGraph.from_bipartite(BipartiteGraph.from_mask(mask))
    row, col = np.nonzero(mask)
    assert pairs_of(graph) == list(zip(row.tolist(), (col + n).tolist(), strict=True))
    assert graph.n_nodes == n + m
    assert graph.is_bipartite


@pytest.mark.parametrize("n", [0, 1])
def test_graphs_without_pairs_are_valid(n):
    for graph in (SimpleGraph.complete(n), SimpleGraph.from_mask(np.zeros((n, n), bool))):
        assert graph.n_edges == 0
        assert graph.components[0] == n
        assert graph.is_bipartite
        assert graph.double_cover()[0].n_edges == 0
    assert SimpleGraph.from_edges(n, np.zeros((0, 2), int))[0].n_edges == 0


# ---------------------------------------------------------------------- what is infeasible


@pytest.mark.parametrize("kind", [LocalMatching, MatchingPolytope])
def test_isolated_and_starved_nodes_are_named(kind):
    graph, _ = SimpleGraph.from_edges(4, [(0, 1), (1, 2), (0, 2)])
    with pytest.raises(InfeasibleError):
        kind(graph)
    star, _ = SimpleGraph.from_edges(4, [(0, 1), (0, 2), (0, 3)])
    with pytest.raises(InfeasibleError) as caught:
        kind(star)
    assert caught.value.side == "nodes"
    assert caught.value.rows
    assert any(str(i) in str(caught.value) for i in caught.value.rows)


def test_odd_components_are_fractionally_feasible_only():
    graph, _ = SimpleGraph.from_edges(6, [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])
    with pytest.raises(InfeasibleError, match="odd"):
        MatchingPolytope(graph)
    local = LocalMatching(graph)
    np.testing.assert_allclose(local.interior(), 0.5, atol=1e-9)
    np.testing.assert_allclose(local.marginals(np.arange(6.0)).tau, 0.5, atol=1e-9)
    with pytest.raises(InfeasibleError, match="odd"):
        local.decode_integral(np.zeros(6))


def from_four_nodes(edges):
    return SimpleGraph.from_edges(4, edges)


ASYMMETRIC = np.triu(np.ones((4, 4), dtype=bool), 1)


@pytest.mark.parametrize(
    ("make", "given", "error", "message"),
    [
        (from_four_nodes, [(0, 1), (2, 2)], ValueError, "edge 1 joins node 2 to itself"),
        (from_four_nodes, [(0, 1), (2, 3), (1, 0)], ValueError, r"\[1, 0\] occurs twice"),
        (from_four_nodes, [(0, 1), (1, 4)], ValueError, r"edge 1 joins \[1, 4\].*0 to 3"),
        (from_four_nodes, [(0, -1)], ValueError, "0 to 3"),
        (SimpleGraph.from_mask, ASYMMETRIC, ValueError, "not symmetric"),
        (SimpleGraph.from_mask, sparse.csr_array(ASYMMETRIC), ValueError, "not symmetric"),
        *((MatchingPolytope, n, InfeasibleError, "odd") for n in (1, 3, 5)),
        (LocalMatching, 1, InfeasibleError, r"\[0\]|0 neighbours"),
    ],
)
def test_errors_of_graphs(make, given, error, message):
    with pytest.raises(error, match=message):
        make(given)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        *(
            ({"rho": x}, ValueError, "rho")
            for x in (0.49, 1.01, -1.0, np.nan, [0.5, 0.7, 2.0, 1.0])
        ),
        ({"rho": [0.5, 0.6]}, ValueError, r"rho.*\(4,\)"),
        *(({"capacity": x}, ValueError, "capacity") for x in (-1, 1.5, [1, 1, -2, 1], "two", None)),
        ({"capacity": [1, 2]}, ValueError, r"capacity.*\(4,\)"),
        ({"capacity": [4, 1, 1, 1]}, InfeasibleError, "need"),
    ],
)
def test_errors_of_options(options, error, message):
    for kind in (LocalMatching, MatchingPolytope) if "rho" in options else (LocalMatching,):
        with pytest.raises(error, match=message):
            kind(4, **options)


def test_b_matchings_of_an_odd_group():
    with pytest.raises(InfeasibleError, match="odd"):
        LocalMatching(3, capacity=[1, 1, 1]).decode_integral(np.zeros(3))


def test_whole_float_capacities_are_taken():
    assert LocalMatching(4, capacity=2.0).capacity.tolist() == [2] * 4


# ---------------------------------------------------------------------- the smallest spaces
@pytest.mark.parametrize("kind", [LocalMatching, MatchingPolytope])
@pytest.mark.parametrize("perfect", [True, False])
def test_nobody_to_match(kind, perfect):
    space = kind(0, perfect=perfect)
    found = space.marginals(np.zeros(0))
    assert (found.value, found.upper_bound, found.tau.size) == (0.0, 0.0, 0)
    assert space.is_fixed
    assert space.label(space.decode(np.zeros(0)).vertex).size == 0


@pytest.mark.parametrize("kind", [LocalMatching, MatchingPolytope])
def test_one_person_stays_single(kind):
    space = kind(1, perfect=False)
    assert space.is_fixed
    np.testing.assert_allclose(space.interior(), [1.0])
    found = space.marginals(np.array([3.0]))
    assert (found.value, found.upper_bound, found.tau.tolist()) == (3.0, 3.0, [1.0])
    assert space.label(space.decode(np.array([3.0])).vertex).tolist() == [-1]


@pytest.mark.parametrize("kind", [LocalMatching, MatchingPolytope])
def test_two_people_must_pair_up(kind):
    space = kind(2)
    assert space.is_fixed
    found = space.marginals(np.array([-2.5]))
    assert (found.value, found.upper_bound, found.tau.tolist()) == (-2.5, -2.5, [1.0])
    assert space.entropy(found.tau) == 0.0
    assert space.label(space.decode(np.array([-2.5])).vertex).tolist() == [1, 0]


@pytest.mark.parametrize("kind", [LocalMatching, MatchingPolytope])
@pytest.mark.parametrize("perfect", [True, False])
def test_people_without_any_pair_are_left_alone(kind, perfect):
    graph = SimpleGraph.from_mask(np.zeros((3, 3), bool))
    if perfect:
        with pytest.raises(InfeasibleError):
            kind(graph)
        return
    space = kind(graph, perfect=False)
    assert space.is_fixed
    assert space.marginals(np.array([1.0, 2.0, 4.0])).value == 7.0
    assert space.decode(np.array([1.0, 2.0, 4.0])).score == 7.0
