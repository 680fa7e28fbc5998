"""Sets of links by their expected quality, against enumeration of all matchings."""

import itertools

import numpy as np
import pytest
from bipartite_matchings import Space, spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from mlestruct.inference.link_sets import links_at_precision, links_of_largest_f1
from mlestruct.structures import BipartiteGraph, BipartiteMatching, LocalMatching, SimpleGraph


@st.composite
def linked(draw):
    """A space without perfection, probabilities of its pairs, and all sets of pairs in it."""
    space = draw(spaces(max_side=4))
    mask = space.mask
    structure = BipartiteMatching(BipartiteGraph.from_mask(mask), 0.5, perfect=False)
    row, col = np.nonzero(mask)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tables = [rng.uniform(size=row.size), rng.beta(0.3, 0.3, size=row.size),
              np.round(rng.uniform(size=row.size), 1)]  # fmt: skip
    p = tables[draw(st.integers(0, 2))]
    sets = []
    for size in range(min(mask.shape) + 1):
        for edges in itertools.combinations(range(row.size), size):
            at = list(edges)
            if len(set(row[at])) == size and len(set(col[at])) == size:
                sets.append(at)
    return structure, p, sets


def expected(p, edges):
    return float(p[edges].sum()), len(edges)


@settings(deadline=None)
@given(linked())
def test_no_matching_has_a_larger_expected_f1(problem):
    structure, p, sets = problem
    found = links_of_largest_f1(structure, p)
    ratios = [2 * c / (n + p.sum()) if n + p.sum() > 0 else 1.0
              for c, n in (expected(p, s) for s in sets)]  # fmt: skip
    assert found.expected_f1 == pytest.approx(max(ratios), abs=1e-12)
    assert sorted(found.edges.tolist()) in [sorted(s) for s in sets]


@settings(deadline=None)
@given(linked(), st.floats(0.05, 1.0))
def test_links_at_a_precision_lie_between_the_best_set_and_its_bound(problem, precision):
    structure, p, sets = problem
    found, bound = links_at_precision(structure, p, precision)
    assert sorted(found.edges.tolist()) in [sorted(s) for s in sets]
    assert found.expected_precision >= precision - 1e-9
    values = [expected(p, s) for s in sets]
    best = max(c for c, n in values if c >= precision * n)
    assert found.expected_correct <= bound
    assert best <= bound + 1e-9
    assert found.expected_correct <= best + 1e-9


def test_the_price_is_found_among_many_pairs():
    rng = np.random.default_rng(0)
    structure = BipartiteMatching((60, 70), 0.5, perfect=False)
    p = rng.beta(0.2, 2.0, size=60 * 70)
    sizes = []
    for precision in (0.99, 0.9, 0.8):
        found, bound = links_at_precision(structure, p, precision)
        assert found.expected_precision >= precision
        assert bound - found.expected_correct <= 1.0
        sizes.append(found.expected_correct)
    assert sizes == sorted(sizes)
    f1 = links_of_largest_f1(structure, p)
    prices = np.linspace(0.0, 1.0, 200)
    ratios = []
    for price in prices:
        scores = np.zeros(structure.n_coordinates)
        scores[: p.size] = p - price
        chosen = structure.decode(scores).vertex.indices
        chosen = chosen[chosen < p.size]
        ratios.append(2 * p[chosen].sum() / (chosen.size + p.sum()))
    assert f1.expected_f1 >= max(ratios) - 1e-12


def test_the_ratio_of_expectations_is_close_to_the_expected_ratio():
    """The mean of F1 over all matchings by their probability (no links at all count as 0)."""
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(100):
        space = Space(np.ones(rng.integers(2, 5, size=2), bool), False)
        matchings = space.vertices[:, : space.mask.size]
        scores = rng.normal(scale=rng.choice([0.5, 2, 5]), size=space.mask.size)
        weight = np.exp(matchings @ (scores + rng.choice([-2, 0, 2])))
        weight /= weight.sum()
        both = matchings.sum(axis=1)[:, None] + matchings.sum(axis=1)
        mean_f1 = (2 * matchings @ matchings.T / np.maximum(both, 1)) @ weight
        chosen = np.zeros(space.mask.size)
        chosen[links_of_largest_f1(space.structure, weight @ matchings).edges] = 1.0
        shares.append(mean_f1[(matchings == chosen).all(axis=1)][0] / mean_f1.max())
    assert np.mean(shares) > 0.99
    assert np.mean(np.isclose(shares, 1.0)) > 0.85


def test_groups_and_errors():
    structure = LocalMatching(SimpleGraph.complete(3), 0.5, False)
    found = links_of_largest_f1(structure, np.array([0.9, 0.6, 0.6]))  # no triangle of halves
    assert found.edges.tolist() == [0]
    assert links_of_largest_f1(structure, np.zeros(3)).edges.size == 0
    with pytest.raises(ValueError, match="able to stay single"):
        links_of_largest_f1(BipartiteMatching((2, 2), 0.5), np.full(4, 0.5))
    with pytest.raises(ValueError, match=r"expected shape \(3,\)"):
        links_of_largest_f1(structure, np.zeros(4))
    with pytest.raises(ValueError, match="precision"):
        links_at_precision(structure, np.zeros(3), 1.5)
