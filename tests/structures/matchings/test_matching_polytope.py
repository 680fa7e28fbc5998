"""Matchings over the matching polytope in groups too large for enumeration."""

import numpy as np
from graph_matchings import log_matchings

from mlestruct.structures import LocalMatching, MatchingPolytope


def test_larger_groups_over_mixtures_of_matchings_have_certificates():
    """Strong pairs in triangles: the local optimum is no mixture, Frank-Wolfe bounds log Z."""
    scores = np.random.default_rng(0).normal(size=153)
    structure = MatchingPolytope(18, 0.5)
    for k in range(0, 18, 3):
        for pair in ((k, k + 1), (k, k + 2), (k + 1, k + 2)):
            scores[structure.graph.edge_between(*np.array([pair]).T)] += 8.0
    found = structure.marginals(scores, None, 1e-3)
    assert found.upper_bound >= log_matchings(structure.graph.dense(scores)) - 1e-9
    assert found.upper_bound <= LocalMatching(18, 0.5).marginals(scores).upper_bound + 1e-6
    assert found.gap <= 1.0
    again = structure.marginals(scores, found.warm, 1e-3)
    assert again.value >= found.value - 1e-2
    for k in range(0, 18, 3):  # at most one pair within a triangle
        inside = structure.graph.dense(found.tau)[k : k + 3, k : k + 3]
        assert inside.sum() <= 2.0 + 1e-9
