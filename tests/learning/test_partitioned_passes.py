"""Block-coordinate descent over partitions, beside logistic regression and other solvers."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from mlestruct import (
    BipartiteMatchingCRF,
    BlockFrankWolfe,
    FrankWolfe,
    GridCRF,
    StructuredCRF,
)
from mlestruct.exceptions import MissingCapability
from mlestruct.partitions import LocalBackend


def matchings(n=5, n_samples=9, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, n, 3)) for _ in range(n_samples)]
    Y = [rng.permutation(n) for _ in range(n_samples)]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(n), y, 0] += 1.0
    return X, Y


def signs(scores):
    """MAP of independent coordinates, whose likelihood is that of logistic regression."""
    return (scores > 0).astype(int)


def coordinates(seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(3, 9), 3)) for _ in range(10)]
    Y = [(x[:, 0] - 0.5 * x[:, 1] + rng.normal(size=len(x)) > 0.3).astype(int) for x in X]
    return X, Y


def log_likelihood(X, Y, theta, alpha):
    """P(theta) of independent coordinates, by hand."""
    scores, y = np.concatenate(X) @ theta, np.concatenate(Y)
    terms = np.log(expit(np.where(y == 1, scores, -scores)))
    return terms.sum() - 0.5 * alpha * theta @ theta


def logistic_optimum(X, Y, alpha):
    model = LogisticRegression(C=1.0 / alpha, fit_intercept=False, tol=1e-10, max_iter=10_000)
    model.fit(np.concatenate(X), np.concatenate(Y))
    return log_likelihood(X, Y, model.coef_[0], alpha)


def enclose(first, second):
    """Whether two certified intervals have a point in common."""
    below = first.objective_ - first.duality_gap_ <= second.objective_ + 1e-9
    return below and second.objective_ - second.duality_gap_ <= first.objective_ + 1e-9


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("n_partitions", [2, 5])
def test_a_decoder_alone_learns_logistic_regression_with_bounds_that_always_hold(
    n_partitions, alpha
):
    X, Y = coordinates()
    optimum = logistic_optimum(X, Y, alpha)
    with LocalBackend(n_partitions=n_partitions):
        model = StructuredCRF(decode=signs, alpha=alpha, random_state=0).fit(X, Y)
    assert model.solver_ == "bcfw"
    assert model.converged_
    rows = model.history_
    assert len(rows) > 2
    assert all(np.array(rows.dual) >= optimum - 1e-9)
    assert all(np.array(rows.primal) <= optimum + 1e-9)
    # The gap is one of the weights that are returned.
    attained = log_likelihood(X, Y, model.coef_, alpha)
    assert model.objective_ - model.duality_gap_ <= attained + 1e-9


@pytest.mark.parametrize(
    "solver",
    [
        "bcfw",
        BlockFrankWolfe(working_set=10, batch=3),
        BlockFrankWolfe(sampling="gap", start="uniform"),
    ],
    ids=["bcfw", "working set", "gap"],
)
def test_matchings_have_the_optimum_of_other_solvers(solver):
    X, Y = matchings()
    settings = {"alpha": 0.5, "tol": 1e-2, "random_state": 0}
    newton = BipartiteMatchingCRF(alpha=0.5, solver="newton", tol=1e-7).fit(X, Y)
    whole = BipartiteMatchingCRF(solver=solver, **settings).fit(X, Y)
    with LocalBackend(n_partitions=3):
        parts = BipartiteMatchingCRF(solver=solver, **settings).fit(X, Y)
    assert parts.converged_
    assert enclose(parts, newton)
    assert enclose(parts, whole)


def test_l1_weights_offsets_and_constants_are_those_of_the_problem():
    X, Y = matchings()
    weights = np.array([1.0, 2.0, 0.0, 1.0, 3.0, 1.0, 0.5, 1.0, 0.0])
    settings = {"alpha": 2.0, "l1_ratio": 0.5, "tol": 1e-2, "perfect": False, "random_state": 0}
    newton = BipartiteMatchingCRF(**{**settings, "tol": 1e-7}).fit(X, Y, weights)
    with LocalBackend(n_partitions=4):
        parts = BipartiteMatchingCRF(solver="bcfw", **settings).fit(X, Y, weights)
    assert enclose(parts, newton)


def test_one_partition_is_descent_over_all_samples():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(4, 4, 2)) for _ in range(5)]
    Y = [(x[:, :, 0] > 0).astype(int) for x in X]
    whole = GridCRF(solver="bcfw", tol=1e-2, random_state=0).fit(X, Y)
    with LocalBackend():
        parts = GridCRF(solver="bcfw", tol=1e-2, random_state=0).fit(X, Y)
    assert enclose(parts, whole)
    # The orders of the passes differ, not their number.
    assert 0.5 * whole.n_iter_ <= parts.n_iter_ <= 2 * whole.n_iter_


class Forgetful(LocalBackend):
    """A partition is lost, with all it has, at some calls of the second one."""

    def __init__(self, calls):
        super().__init__(n_partitions=3)
        self.calls = calls

    def open(self, sources, reader):
        parts = super().open(sources, reader)
        victim, left = parts[1], iter(range(1, 10_000))
        ask = type(victim).__call__

        class Lost(type(victim)):
            def __call__(self, method, *arguments):
                if method == "answer" and next(left) in calls:
                    self._states.clear()
                return ask(self, method, *arguments)

        calls, victim.__class__ = self.calls, Lost
        return parts


@pytest.mark.parametrize("calls", [{2}, {3}, {9}, {10}, {11}, set(range(5, 60, 7))])
def test_steps_that_are_lost_begin_again_and_no_bound_is_wrong(calls):
    X, Y = coordinates()
    optimum = logistic_optimum(X, Y, 1.0)
    with Forgetful(calls):
        model = StructuredCRF(decode=signs, random_state=0, solver="bcfw").fit(X, Y)
    assert model.converged_
    assert all(np.array(model.history_.dual) >= optimum - 1e-9)
    assert all(np.array(model.history_.primal) <= optimum + 1e-9)


def test_memory_bounds_and_repeated_fits_change_no_bit(tmp_path):
    X, Y = matchings()
    found = []
    for backend in (
        LocalBackend(n_partitions=3),
        LocalBackend(n_partitions=3),
        LocalBackend(memory=1, states=tmp_path, n_partitions=3),
    ):
        with backend:
            model = BipartiteMatchingCRF(solver="bcfw", tol=1e-2, random_state=0).fit(X, Y)
        found.append((model.coef_.tolist(), model.history_.dual, model.history_.primal))
    assert found[0] == found[1] == found[2]


def test_paths_and_warm_starts_continue_from_the_marginals():
    X, Y = coordinates()
    model = StructuredCRF(decode=signs, random_state=0, tol=1e-2, warm_start=True)
    with LocalBackend(n_partitions=2):
        path = model.fit_path(X, Y, [2.0, 1.9])
        cold = StructuredCRF(decode=signs, random_state=0, tol=1e-2, alpha=1.9).fit(X, Y)
    for estimator, alpha in zip(path.estimators, path.alphas, strict=True):
        optimum = logistic_optimum(X, Y, alpha)
        interval = estimator.objective_ - estimator.duality_gap_, estimator.objective_
        assert interval[0] - 1e-9 <= optimum <= interval[1] + 1e-9
    assert path.estimators[1].n_oracle_calls_ < cold.n_oracle_calls_


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        ("fw", "partitions use solver='bcfw'"),
        (FrankWolfe(), "partitions use solver='bcfw'"),
        (BlockFrankWolfe(step="fixed"), "step='fixed' takes samples in one place"),
        (BlockFrankWolfe(averaging=True), "averaging=True takes samples in one place"),
    ],
)
def test_what_needs_all_samples_in_one_place_says_so(solver, message):
    with LocalBackend(n_partitions=2), pytest.raises(MissingCapability, match=message):
        BipartiteMatchingCRF(solver=solver).fit(*matchings())
