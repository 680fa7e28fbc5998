"""Fits and inference whose time is up, and fits that Ctrl-C ends."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from mlestruct import (
    BipartiteMatchingCRF,
    ChainCRF,
    GraphCRF,
    GridCRF,
    MatchingCRF,
    OutOfTimeError,
    StructuredCRF,
    time_limit,
)

RNG = np.random.default_rng(0)
PAIRS = [RNG.normal(size=(6, 6, 2)) for _ in range(3)]
GROUPS = [pairs + pairs.transpose(1, 0, 2) for pairs in PAIRS]
NODES = [RNG.normal(size=(9, 2)) for _ in range(3)]
RING = np.array([[k, (k + 1) % 9] for k in range(9)])
LABELS = [RNG.integers(0, 3, 9) for _ in range(3)]
CASES = {
    "bipartite": (BipartiteMatchingCRF, PAIRS, [RNG.permutation(6) for _ in range(3)]),
    "bipartite rho 1": (
        lambda **kw: BipartiteMatchingCRF(rho=1.0, **kw), PAIRS, [np.arange(6)] * 3,
    ),
    "group": (MatchingCRF, GROUPS, [np.array([1, 0, 3, 2, 5, 4])] * 3),
    "exact group": (
        lambda **kw: MatchingCRF(polytope="exact", **kw), GROUPS, [np.array([3, 2, 1, 0, 5, 4])] * 3
    ),
    "chain": (ChainCRF, NODES, LABELS),
    "graph": (GraphCRF, [(x, RING, np.ones((9, 1))) for x in NODES], LABELS),
    "binary graph": (
        GraphCRF, [(x, RING, np.ones((9, 1))) for x in NODES], [y % 2 for y in LABELS],
    ),
    "grid": (GridCRF, [x.reshape(3, 3, 2) for x in NODES], [y.reshape(3, 3) for y in LABELS]),
    "binary grid": (
        GridCRF, [x.reshape(3, 3, 2) for x in NODES], [y.reshape(3, 3) % 2 for y in LABELS],
    ),
}  # fmt: skip


@cache
def optimum(name):
    make, X, Y = CASES[name]
    return make(tol=1e-6).fit(X, Y)


@pytest.mark.parametrize("solver", ["auto", "fw", "bcfw", "block_marginals"])
@pytest.mark.parametrize("name", CASES)
def test_a_fit_whose_time_is_up_returns_what_there_is(name, solver):
    make, X, Y = CASES[name]
    model = make(solver=solver, tol=1e-12)
    with time_limit(None) as deadline:
        deadline.soft = -np.inf
        with pytest.warns(ConvergenceWarning, match="the model is the best found so far"):
            model.fit(X, Y)
    assert not model.converged_
    assert len(model.history_) <= 2
    assert np.isfinite(model.coef_).all()
    free = optimum(name)  # bounds of an unfinished run still hold
    assert model.objective_ >= free.objective_ - free.duality_gap_ - 1e-9
    assert model.objective_ - model.duality_gap_ <= free.objective_ + 1e-9


@pytest.mark.parametrize("solver", ["auto", "fw", "bcfw", "block_marginals"])
@pytest.mark.parametrize("name", CASES)
def test_without_any_step_the_weights_are_0(name, solver):
    make, X, Y = CASES[name]
    with time_limit(None) as deadline:
        deadline.cancel()
        with pytest.warns(ConvergenceWarning, match="before the first certificate"):
            model = make(solver=solver).fit(X, Y)
    assert not model.coef_.any()
    assert model.duality_gap_ == np.inf
    assert len(model.predict(X)) == len(X)


@pytest.mark.parametrize("name", CASES)
def test_marginals_whose_time_is_up_are_feasible(name):
    make, X, Y = CASES[name]
    model = make().fit(X, Y)
    exact = model.predict_marginals(X, tol=1e-10)
    with time_limit(None) as deadline, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        deadline.soft = -np.inf
        found = model.predict_marginals(X, tol=1e-10)
    for own, other in zip(found, exact, strict=True):
        assert own.shape == other.shape
        np.testing.assert_allclose(own.sum(axis=-1), other.sum(axis=-1), atol=1e-6)


def test_predictions_tell_that_the_time_was_up():
    make, X, Y = CASES["chain"]
    model = make().fit(X, Y)
    with time_limit(None) as deadline:
        deadline.cancel()
        with pytest.raises(OutOfTimeError, match="no answer within"):
            model.predict(X)


@pytest.mark.parametrize("calls", [1, 2, 7])
@pytest.mark.parametrize("solver", ["fw", "bcfw", "auto"])
def test_ctrl_c_keeps_the_model_even_before_the_first_certificate(calls, solver):
    left = [10**6]

    def decode(scores):
        left[0] -= 1
        if left[0] <= 0:
            raise KeyboardInterrupt
        return (scores > 0).astype(int)

    X, Y = [np.ones((3, 2)), np.eye(3, 2)], [np.ones(3), np.zeros(3)]
    model = StructuredCRF(decode=decode, solver=solver, tol=1e-9)
    model.build_problem(X, Y)
    left[0] = 10**6 - left[0] + calls
    with pytest.warns(ConvergenceWarning, match="interrupted after"):
        model.fit(X, Y)
    assert np.isfinite(model.coef_).all()
    assert not model.converged_


def test_ctrl_c_ends_a_search():
    def interrupt(progress):
        raise KeyboardInterrupt

    make, X, Y = CASES["bipartite"]
    search = GridSearchCV(make(callback=interrupt), {"alpha": [1.0, 2.0]}, cv=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)
