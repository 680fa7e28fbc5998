"""Algorithm 1 beside auto bounds the same optimum."""

import numpy as np
import pytest

from mlestruct import BipartiteMatchingCRF
from reproduction.algorithm_one import solved_by_each


@pytest.fixture(scope="module")
def solved():
    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(8, 4, 4, 2)))
    Y = [rng.permutation(4) for _ in X]
    return solved_by_each(BipartiteMatchingCRF(alpha=1.0, rho=1.0, tol=1e-6), X, Y, 0.3)


def test_algorithm_1_and_auto_bound_the_same_optimum(solved):
    assert [row["solver"] for row in solved.values()] == ["lbfgs", "bcfw", "bcfw"]
    low = max(row["objective"] - row["gap"] for row in solved.values())
    high = min(row["objective"] for row in solved.values())
    assert low <= high + 1e-9
