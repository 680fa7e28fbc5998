"""Weights of edges: which are valid, and what is chosen by itself."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labellings import (
    Labellings,
    loopy,
    n_components,
)
from pairwise_spaces import pairwise, slack_of

from mlestruct.algorithms.pairwise.spanning_trees import tree_weights
from mlestruct.structures import (
    Pairwise,
    PairwiseGraph,
    grid,
    reweighting,
)
from mlestruct.structures import rho as rho_module
from mlestruct.structures.rho import Reweighting

examples = settings(deadline=None, max_examples=30)


TRIANGLE = np.array([[0, 1], [1, 2], [0, 2]])


@pytest.mark.parametrize(
    ("rho", "message"),
    [
        (np.full(2, 0.5), r"rho: expected a number or shape \(3,\), got \(2,\)"),
        (np.full((3, 1), 0.5), r"rho: expected a number or shape \(3,\)"),
        (np.array([0.5, np.nan, 0.5]), "every edge needs a weight from 0.0001 to 1, found nan"),
        (np.array([0.5, 0.0, 0.5]), "found 0.0"),
        (np.array([0.5, -0.2, 0.5]), "found -0.2"),
        (np.array([0.5, 1.1, 0.5]), "found 1.1"),
        (0.0, "found 0.0"),
        (-1.0, "found -1.0"),
        (np.nan, "found nan"),
        ("bethe", "rho: expected 'auto', a number or an array, got 'bethe'"),
    ],
)
def test_bad_rho_is_refused(rho, message):
    with pytest.raises(ValueError, match=message):
        Pairwise(PairwiseGraph(3, TRIANGLE), 2, rho)


def test_rho_outside_the_polytope_warns_and_has_no_bound():
    graph = PairwiseGraph(3, TRIANGLE)
    for rho in (1.0, 0.7, np.array([1.0, 1.0, 0.1])):
        with pytest.warns(UserWarning, match="outside the spanning-tree polytope"):
            assert not reweighting(graph, rho).is_concave
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rho in (2 / 3, 0.1, np.array([1.0, 0.5, 0.5]), "auto"):
            assert reweighting(graph, rho).is_concave
        for edges in (TRIANGLE[:2], np.zeros((0, 2))):  # forests allow everything up to 1
            assert reweighting(PairwiseGraph(3, edges), 1.0).is_concave


def test_without_a_bound_marginals_are_feasible_and_attain_their_value():
    space = Labellings(3, TRIANGLE, 2, 1.0)
    with pytest.warns(UserWarning, match="outside the spanning-tree polytope"):
        structure = pairwise(space)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=structure.n_coordinates)
    found = structure.marginals(scores)
    assert space.infeasibility(found.tau) < 1e-12
    assert found.value == pytest.approx(space.objective(scores, found.tau), abs=1e-10)


def test_auto_takes_one_on_forests_halves_on_grids_and_else_shares_of_trees():
    assert (reweighting(grid(1, 5)).rho == 1.0).all()
    assert (reweighting(PairwiseGraph(4, [[0, 1], [2, 3]])).rho == 1.0).all()
    assert (reweighting(grid(3, 4)).rho == 0.5).all()
    np.testing.assert_allclose(reweighting(PairwiseGraph(3, TRIANGLE)).rho, 2 / 3)
    eight = reweighting(grid(3, 3, 8))
    assert eight.rho.sum() == pytest.approx(8.0)  # as many as a tree has edges


@examples
@given(loopy(max_nodes=7), st.sampled_from(["given", "auto"]))
def test_rho_splits_into_at_most_one_per_node(drawn, kind):
    space, _ = drawn
    graph = PairwiseGraph(space.n_nodes, space.edges)
    found = reweighting(graph, space.rho if kind == "given" else "auto")
    np.testing.assert_allclose(found.into_tail + found.into_head, found.rho, atol=1e-12)
    assert min(found.into_tail.min(initial=0), found.into_head.min(initial=0)) >= -1e-12
    into = np.bincount(graph.tail, found.into_tail, graph.n_nodes)
    into += np.bincount(graph.head, found.into_head, graph.n_nodes)
    assert (into <= 1 + 1e-9).all()
    at_node = [found.rho[(space.edges == n).any(axis=1)].sum() for n in range(space.n_nodes)]
    np.testing.assert_allclose(found.counting, 1 - np.array(at_node), atol=1e-12)
    if kind == "auto":
        rank = space.n_nodes - n_components(space.n_nodes, space.edges)
        assert found.rho.sum() == pytest.approx(rank, abs=1e-9)


@examples
@given(loopy(max_nodes=7, n_states=(2, 3)))
def test_few_trees_bound_log_z_from_above(drawn):
    space, rng = drawn
    into = tree_weights(space.n_nodes, space.tail, space.head, 4)
    graph = PairwiseGraph(space.n_nodes, space.edges)
    weights = Reweighting(graph, into.sum(axis=0), *into)
    structure = pairwise(space, weights)
    scores = rng.normal(size=structure.n_coordinates)
    found = structure.marginals(scores, tol=1e-8)
    assert found.upper_bound >= space.log_partition(scores) - slack_of(scores)
    assert found.upper_bound - found.value < 1e-6 * (1.0 + abs(found.value))


def test_decoding_needs_no_spanning_trees(monkeypatch):
    monkeypatch.setattr(rho_module, "tree_weights", None)
    structure = Pairwise(PairwiseGraph(3, TRIANGLE), 2)
    assert structure.has_bound
    attract = np.broadcast_to([[0.0, 0.0], [0.0, 2.0]], (3, 2, 2))
    scores = structure.from_tables(np.tile([0.0, -1.0], (3, 1)), attract)
    assert structure.best_label(scores).tolist() == [1, 1, 1]
