"""Convexity, speed by entropy, and Algorithm 1 beside auto, on problems with known answers."""

import numpy as np
import pytest

from mlestruct import BipartiteMatchingCRF
from mlestruct.paper import theory
from mlestruct.paper.algorithm_one import same_optimum, solved_by_each
from mlestruct.structures import BipartiteMatching


def test_the_entropy_of_a_graph_of_two_sides_is_that_of_the_structure():
    rng, n = np.random.default_rng(0), 4
    half = np.zeros((2 * n, 2 * n))
    half[:n, n:] = rng.dirichlet(np.ones(n * n)).reshape(n, n)
    rho = rng.uniform(0.5, 1.0, size=2 * n)
    structure = BipartiteMatching((n, n), (rho[:n], rho[n:]), perfect=False)
    tau = np.concatenate([half[:n, n:].ravel(), 1 - half.sum(axis=1)[:n], 1 - half.sum(axis=0)[n:]])
    expected = structure.entropy(tau[: structure.n_coordinates])
    assert theory.entropy(half + half.T, rho) == pytest.approx(expected)


def test_points_are_in_the_local_polytope():
    rng = np.random.default_rng(1)
    for perfect in (True, False):
        table = theory.random_point(rng, 6, perfect)
        np.testing.assert_allclose(table, table.T)
        assert (table >= 0).all()
        sums = table.sum(axis=1)
        assert sums.max() <= 1 + 1e-12
        assert (sums > 0.95).all() == perfect


def test_entropies_with_rho_above_1_are_not_concave():
    """The check can fail: outside [0, 1] the theorem does not hold."""
    rng, against = np.random.default_rng(2), 0
    for _ in range(400):
        rho = 1.0 + rng.random(6)
        one, other = (theory.random_point(rng, 6, False) for _ in range(2))
        ends = 0.5 * (theory.entropy(one, rho) + theory.entropy(other, rho))
        against += theory.entropy(0.5 * (one + other), rho) < ends
    assert against > 0
    found = theory.convexity_part({"convexity": {"nodes": 5, "segments": 60, "seed": 0}})
    assert found["failed"] == 0
    assert theory.convexity_claim(found).holds
    assert not theory.convexity_claim(found | {"failed": 1}).holds


def test_passes_have_to_fall_with_entropy():
    rows = [{"entropy": e, "passes": p} for e, p in ((12.0, 10), (6.0, 30), (1.0, 90))]
    assert theory.speed_claim(rows).holds
    assert not theory.speed_claim([rows[0] | {"passes": 40}, *rows[1:]]).holds


@pytest.fixture(scope="module")
def solved():
    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(8, 4, 4, 2)))
    Y = [rng.permutation(4) for _ in X]
    return solved_by_each(BipartiteMatchingCRF(alpha=1.0, rho=1.0, tol=1e-6), X, Y, 0.3)


def test_algorithm_1_and_auto_bound_the_same_optimum(solved):
    assert [row["solver"] for row in solved.values()] == ["newton", "bcfw", "bcfw"]
    low = max(row["objective"] - row["gap"] for row in solved.values())
    high = min(row["objective"] for row in solved.values())
    assert low <= high + 1e-9
    assert same_optimum("here", solved).holds


def test_intervals_that_do_not_overlap_are_told(solved):
    wrong = solved["auto"] | {"objective": solved["auto"]["objective"] - 5.0, "gap": 0.0}
    assert not same_optimum("here", solved | {"auto": wrong}).holds
