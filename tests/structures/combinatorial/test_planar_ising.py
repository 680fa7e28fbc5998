"""Planar Ising models against enumeration of all spins and the two-dimensional transfer matrix."""

from itertools import product

import numpy as np
import pytest
from enumerated_outputs import check_against_enumeration
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import Delaunay
from scipy.special import logsumexp

from mlestruct import check_structure
from mlestruct.inference import marginals
from mlestruct.structures import PlanarIsing, grid


def grid_model(height, width):
    graph = grid(height, width)
    places = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).reshape(-1, 2)
    return PlanarIsing(places, np.stack([graph.tail, graph.head], axis=1))


def triangulation(seed, n_nodes):
    places = np.random.default_rng(seed).uniform(size=(n_nodes, 2))
    corners = Delaunay(places).simplices[:, [0, 1, 1, 2, 0, 2]].reshape(-1, 2)
    return PlanarIsing(places, np.unique(np.sort(corners, axis=1), axis=0))


def cuts(space):
    spins = np.array([(1, *s) for s in product([-1, 1], repeat=space.n_nodes - 1)])
    return (spins[:, space.tail] != spins[:, space.head]).astype(float)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 1000), st.sampled_from([0.3, 2.0]))
def test_against_enumeration(seed, scale):
    rng = np.random.default_rng(seed)
    for space in (grid_model(3, 3), triangulation(seed, 6)):
        scores = scale * rng.normal(size=space.n_coordinates)
        check_against_enumeration(space, cuts(space), scores, rng, 150)


def test_trees_and_bridges():
    space = PlanarIsing([(0, 0), (1, 0), (2, 0), (1, 1)], [(0, 1), (1, 2), (1, 3)])
    rng = np.random.default_rng(0)
    check_against_enumeration(space, cuts(space), rng.normal(size=3), rng, 200)


def test_the_best_cut_of_a_larger_grid_by_transfer():
    """Dynamic programming over rows of spins."""
    height, width = 7, 6
    space = grid_model(height, width)
    scores = np.random.default_rng(3).normal(size=space.n_coordinates)
    score = dict(zip(map(tuple, space.edges.tolist()), scores, strict=True))
    rows = np.array(list(product([0, 1], repeat=width)))
    at = np.arange(height * width).reshape(height, width)

    def within(r):
        pairs = [score[(at[r, c], at[r, c + 1])] for c in range(width - 1)]
        return (rows[:, 1:] != rows[:, :-1]) @ pairs

    best, total = within(0), within(0)
    for r in range(1, height):
        down = np.array([score[(at[r - 1, c], at[r, c])] for c in range(width)])
        between = (rows[:, None] != rows[None]) @ down
        best = (best[:, None] + between).max(axis=0) + within(r)
        total = logsumexp(total[:, None] + between, axis=0) + within(r)
    found = space.decode(scores)
    assert found.score == pytest.approx(best.max())
    exact = space.exact(scores).log_partition
    assert exact == pytest.approx(logsumexp(total) - np.log(2))  # two spins for a cut
    label = space.label(found.vertex)
    np.testing.assert_array_equal(space.label_of_spins(space.spins(label)), label)


def test_trees_have_exact_marginals():
    """On a tree rho = 1 and edges are independent."""
    space = PlanarIsing([(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 2)])
    tau = marginals(space, [1.0, -2.0], tol=1e-9).tau
    np.testing.assert_allclose(tau, 1 / (1 + np.exp([-1.0, 2.0])), atol=1e-4)


def test_the_contract_holds():
    assert check_structure(grid_model(3, 3)).passed


def test_drawings_with_crossings():
    places = [(0, 0), (1, 1), (1, 0), (0, 1), (0.5, 2)]
    every = [(a, b) for a in range(5) for b in range(a)]
    with pytest.raises(ValueError, match="edges must not cross"):
        PlanarIsing(places, every)  # K5
    with pytest.raises(ValueError, match="positions: expected finite"):
        PlanarIsing([(0, np.nan)], [(0, 1)])
