"""The double loop: the same optimum as the certified CRF, whatever the samples look like."""

import numpy as np
import pytest

from mlestruct import BipartiteMatchingCRF, PairInput
from reproduction.matching_bp import DoubleLoop


def noisy_copies(sizes, n_samples=12, noise=0.8, seed=0):
    """Points and noisy copies of some of them, shuffled; features are squared differences."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for m in range(n_samples):
        n, n_cols = sizes[m % len(sizes)]
        left, right = rng.normal(size=(n, 3)), rng.normal(size=(n_cols, 3))
        rows, cols = rng.permutation(n)[: min(n, n_cols)], rng.permutation(n_cols)[: min(n, n_cols)]
        right[cols] = left[rows] + noise * rng.normal(size=(len(rows), 3))
        partner = np.full(n, -1)
        partner[rows] = cols
        X.append(-((left[:, None] - right[None]) ** 2))
        Y.append(partner)
    return X, Y


def cases():
    square, ragged = noisy_copies([(5, 5)]), noisy_copies([(5, 5), (3, 6), (6, 4), (1, 3)])
    rng = np.random.default_rng(1)
    offset = [PairInput(x, offset=rng.normal(size=x.shape[:2])) for x in ragged[0]]
    some = [np.where(np.arange(len(y)) % 3 == 0, -1, y) for y in ragged[1]]
    return {
        "square": (*square, {}),
        "ragged": (*ragged, {}),
        "offsets": (offset, ragged[1], {}),
        "singles": (ragged[0], some, {"perfect": False}),
    }


CASES = cases()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rho", [0.6, 1.0])
def test_optimum_is_that_of_the_crf(case, rho):
    X, Y, options = CASES[case]
    reference = BipartiteMatchingCRF(alpha=3.0, rho=rho, tol=1e-8, **options).fit(X, Y)
    loop = DoubleLoop(reference._problem(X, Y), max_sweeps=20000).solve(1e-8, 1000)
    assert loop.converged
    assert loop.unconverged == 0
    assert loop.value == pytest.approx(reference.objective_bound_, rel=1e-6)
    distance = np.linalg.norm(loop.theta - reference.coef_)
    assert distance <= 1e-3 * np.linalg.norm(reference.coef_)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_gradient_equals_finite_differences(case, rho):
    X, Y, options = CASES[case]
    problem = BipartiteMatchingCRF(alpha=0.7, rho=rho, **options)._problem(X, Y)
    loop = DoubleLoop(problem, max_sweeps=20000, bp_tol=1e-13)
    theta = 0.5 * np.random.default_rng(1).normal(size=problem.n_features)
    _, gradient = loop.evaluate(theta)
    step = 1e-5
    for k, unit in enumerate(step * np.eye(problem.n_features)):
        up, down = (loop.evaluate(at)[0] for at in (theta + unit, theta - unit))
        assert gradient[k] == pytest.approx((up - down) / (2 * step), abs=2e-5)


def test_messages_that_do_not_converge_are_counted():
    X, Y = noisy_copies([(5, 5)], noise=0.3)
    loop = DoubleLoop(BipartiteMatchingCRF(alpha=0.1, rho=1.0)._problem(X, Y), max_sweeps=1)
    loop.solve(1e-6, 1000)
    assert 0 < loop.unconverged <= loop.runs
    assert not loop.converged
