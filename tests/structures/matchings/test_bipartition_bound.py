"""A lower bound of log Z of matchings in general graphs, from a cut into two sides."""

import numpy as np
import pytest
from graph_matchings import complete, from_edges, log_matchings, matching_spaces, two_triangles
from hypothesis import given, settings
from hypothesis import strategies as st
from random_scores import draw_scores, generators, kinds
from scipy.special import logsumexp

from mlestruct.inference import log_partition_bounds
from mlestruct.structures import LocalMatching
from mlestruct.structures.matchings.bipartition_bound import bipartition_bound, cut

examples = settings(deadline=None, max_examples=60)
few = settings(deadline=None, max_examples=15)
scales = st.sampled_from([0.1, 1.0, 5.0, 100.0, 1e6])


def rounding(scores):
    return 1e-8 + 1e-12 * np.abs(scores).sum()


def lower(structure, scores):
    return log_partition_bounds(structure, scores).lower


@examples
@given(matching_spaces(max_nodes=8, min_nodes=1), generators, kinds, scales)
def test_it_lies_between_the_best_matching_and_log_z(space, rng, kind, scale):
    scores = draw_scores(rng, space.size, kind, scale)
    totals = space.vertices @ scores
    for structure in (space.local, space.exact):
        for bound in (
            bipartition_bound(structure, scores, rng.random(space.n_edges), 1e-6),
            lower(structure, scores),
        ):
            assert totals.max() - rounding(scores) <= bound <= logsumexp(totals) + rounding(scores)


@few
@given(generators, st.booleans(), st.sampled_from([0.3, 2.0]))
def test_ten_people_by_a_recursion_over_sets(rng, perfect, scale):
    structure = LocalMatching(10, 1.0, perfect)
    scores = scale * rng.normal(size=structure.n_coordinates)
    single = None if perfect else scores[structure.n_scored :]
    exact = log_matchings(structure.graph.dense(scores[: structure.n_scored]), single)
    assert lower(structure, scores) <= exact + 1e-8


@pytest.mark.parametrize("half", [2, 3, 10, 40])
def test_equal_scores_have_a_closed_form(half):
    """All cuts are the same, and each of the half^2 pairs across has the marginal 1 / half."""
    found = lower(LocalMatching(2 * half), np.full(half * (2 * half - 1), 3.0))
    share = 1.0 / half
    bethe = half * np.log(half) + half**2 * (1 - share) * np.log(1 - share)
    assert found == pytest.approx(3.0 * half + bethe, abs=1e-5)


@pytest.mark.parametrize("perfect", [True, False])
def test_it_is_far_above_the_best_matching_in_larger_groups(perfect):
    rng = np.random.default_rng(0)
    structure = LocalMatching(60, 1.0, perfect)
    scores = np.zeros(structure.n_coordinates)
    scores[: structure.n_scored] = rng.normal(size=structure.n_scored)
    best = structure.decode_integral(scores).score
    bounds = log_partition_bounds(structure, scores)
    assert 0.3 * (bounds.upper - best) < bounds.lower - best < bounds.upper - best


def test_marginals_guide_the_cut():
    """The guided cut has the better Bethe value, and separates all pairs of the matching."""
    rng = np.random.default_rng(1)
    gains = []
    for _ in range(5):
        structure = LocalMatching(40)
        scores = 2.0 * rng.normal(size=structure.n_coordinates)
        mass = structure.marginals(scores).tau
        partner = structure.label(structure.decode_integral(scores).vertex)
        side = cut(structure.graph, partner, mass)
        assert (side != side[partner]).all()
        bounds = [bipartition_bound(structure, scores, own, 1e-6) for own in (0.0 * mass, mass)]
        gains.append(bounds[1] - bounds[0])
    assert np.mean(gains) > 0.5


def test_the_scores_of_single_nodes_count():
    """Two people who prefer to be single: exp(1) apart from exp(2 * 3), a forest is exact."""
    structure = LocalMatching(2, 1.0, False)
    assert lower(structure, np.array([1.0, 3.0, 3.0])) == pytest.approx(
        np.logaddexp(1.0, 6.0), abs=1e-6
    )


def test_fixed_pairs_and_isolated_nodes():
    space = from_edges(6, two_triangles())
    scores = np.arange(7.0)
    assert lower(space.local, scores) <= logsumexp(space.vertices @ scores) + 1e-9
    alone = from_edges(3, [], perfect=False)
    assert lower(alone.local, np.array([1.0, 2.0, 3.0])) == pytest.approx(6.0)
    pair = from_edges(2, [(0, 1)])
    assert lower(pair.local, np.array([-4.0])) == pytest.approx(-4.0)


@pytest.mark.parametrize("space", ["capacities", "some may stay single"])
def test_elsewhere_it_is_the_best_matching(space):
    if space == "capacities":
        space = complete(5, capacity=2)
    else:
        space = complete(4, perfect=np.array([True, True, False, False]))
    scores = np.random.default_rng(0).normal(size=space.size)
    assert lower(space.local, scores) == pytest.approx(space.best_score(scores))
