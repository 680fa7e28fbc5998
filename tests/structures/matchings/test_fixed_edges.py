"""Edges whose value is the same in all points of a polytope."""

import numpy as np
from graph_matchings import (
    from_edges,
    matching_spaces,
    two_triangles,
)
from hypothesis import assume, given, settings

few = settings(deadline=None, max_examples=20)


def open_coordinates(structure):
    edges = structure.varying_edges
    edges = np.ones(structure.n_scored, bool) if edges is None else edges
    singles = structure.varying_singles if structure.n_coordinates > structure.n_scored else []
    return np.concatenate([edges, singles]).astype(bool)


# ---------------------------------------------------------------------- fixed edges
@settings(deadline=None, max_examples=80)
@given(matching_spaces(max_nodes=8))
def test_fixed_coordinates_are_those_that_never_vary(space):
    assume(space.perfect or space.n <= 6)
    for structure, points in ((space.local, space.halves), (space.exact, space.vertices)):
        varies = np.ptp(points, axis=0) > 0
        assert np.array_equal(open_coordinates(structure), varies)
        assert np.array_equal(structure.fixed, np.where(varies, 0.0, points[0]))
        assert structure.is_fixed == (not varies.any())


@few
@given(matching_spaces(max_nodes=8, perfect=True))
def test_fixed_edges_agree_with_linear_programming(space):
    varies = open_coordinates(space.local)
    for e in range(space.n_edges):
        one = np.eye(space.size)[e]
        assert (space.best_local(one) > -space.best_local(-one) + 1e-9) == varies[e]


@settings(deadline=None, max_examples=50)
@given(matching_spaces(max_nodes=8))
def test_interior_point_is_strictly_inside(space):
    assume(space.perfect or space.n <= 6)
    for structure, points in ((space.local, space.halves), (space.exact, space.vertices)):
        varies = np.ptp(points, axis=0) > 0
        tau = structure.interior()
        assert space.infeasibility(tau) <= 1e-9
        assert (tau[varies] > 1e-6).all()
        assert (tau[varies] < 1 - 1e-6).all()
    assert space.distance_from_hull(tau) <= 1e-9


def test_the_joining_edge_is_fixed_only_over_the_matching_polytope():
    space = from_edges(6, two_triangles())
    assert space.exact.is_fixed
    assert not space.local.is_fixed
    np.testing.assert_array_equal(space.exact.interior(), space.vertices[0])
