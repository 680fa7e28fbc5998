"""Any input to any estimator gives a finite model or an error that is meant for the user."""

import gc
import resource
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from changed_arrays import CASES, arrays_like, fuzzed, quiet
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from mlestruct import (
    BipartiteMatchingCRF,
    BlockFrankWolfe,
    ChainCRF,
    FrankWolfe,
    GraphCRF,
    GridCRF,
    IsingMRF,
    MatchingCRF,
    MultiLabelCRF,
    StructuredCRF,
)

RNG = np.random.default_rng(0)
PAIRS = [RNG.normal(size=(4, 4, 2)) for _ in range(3)]
GROUPS = [pairs + pairs.transpose(1, 0, 2) for pairs in PAIRS]
NODES = [RNG.normal(size=(6, 2)) for _ in range(3)]
STATES = [np.array([0, 1, 0, 1, 1, 0]), np.array([1, 1, 0, 0, 0, 1]), np.array([0, 0, 1, 1, 0, 1])]
MATCHED = [np.arange(4), np.arange(4)[::-1], np.array([1, 0, 3, 2])]
IMAGES = [x.reshape(2, 3, 2) for x in NODES]
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]])
QUESTIONS, ANSWERS = RNG.normal(size=(20, 3)), RNG.integers(0, 2, (20, 3))


def signs(scores):
    return (scores > 0).astype(int)


# Each: how to make it, X of one array per sample, how an array becomes a sample, Y.
ESTIMATORS = {
    "bipartite": (BipartiteMatchingCRF(), PAIRS, lambda x: x, MATCHED),
    "group": (MatchingCRF(), GROUPS, lambda x: x, [np.array([1, 0, 3, 2])] * 3),
    "chain": (ChainCRF(), NODES, lambda x: x, STATES),
    "graph": (GraphCRF(), NODES, lambda x: (x, EDGES, np.ones((6, 1))), STATES),
    "grid": (GridCRF(), IMAGES, lambda x: x, [y.reshape(2, 3) for y in STATES]),
    "structured": (StructuredCRF(decode=signs, tol=0.1), NODES, lambda x: x, STATES),
}  # fmt: skip
TABLES = {"multi-label": MultiLabelCRF(), "Ising": IsingMRF()}

OPTIONS = {
    "tol": [np.nan, 0.0, -1.0, True, "x", 1e-3, np.float32(0.01), np.inf, None],
    "max_iter": [True, 0, 2.5, 3, np.int64(2), None, "3"],
    "alpha": [np.nan, 0.0, True, 1e-12, 1e12, 1j, None],
    "l1_ratio": [True, 1.0, -0.1, 0.5, np.nan],
    "verbose": [-1, 1.5, "yes", 0],
    "n_jobs": [0, True, 1.5, 2, None, -1],
    "random_state": [-1, 1.5, "x", 3, None],
    "standardize": ["no", 2, True],
    "fit_intercept": ["no", 2, True],
    "solver": [FrankWolfe(), BlockFrankWolfe(), "nothing", 3, None],
    "rho": [True, "x", np.nan, 0.0, -1.0, 2.0, [0.5]],
}


def outcome(model, X, Y, sample_weight=None):
    """The fitted model, or None where the arguments were refused."""
    before = set(vars(model))
    try:
        with quiet():
            fitted = model.fit(X, Y, sample_weight) if Y is not None else model.fit(X)
    except (ValueError, TypeError):
        assert set(vars(model)) == before  # nothing half-fitted
        return None
    assert np.isfinite(fitted.coef_).all()
    assert fitted.duality_gap_ >= 0
    return fitted


@fuzzed
@given(data=st.data())
@pytest.mark.parametrize("name", ESTIMATORS)
def test_changed_samples(name, data):
    model, X, make, Y = ESTIMATORS[name]
    X = [make(data.draw(arrays_like(X[0]))), *[make(x) for x in X[1:]]]
    fitted = outcome(clone(model).set_params(max_iter=20), X, Y)
    if fitted is not None:
        with quiet():
            assert len(fitted.predict(X)) == 3


@fuzzed
@given(data=st.data())
@pytest.mark.parametrize("name", ESTIMATORS)
def test_changed_labels_and_weights(name, data):
    model, X, make, Y = ESTIMATORS[name]
    Y = [data.draw(arrays_like(Y[0])), *Y[1:]]
    weights = data.draw(st.one_of(st.none(), arrays_like(np.ones(3))))
    outcome(clone(model).set_params(max_iter=20), [make(x) for x in X], Y, weights)


@fuzzed
@given(data=st.data())
@pytest.mark.parametrize("name", TABLES)
def test_changed_tables(name, data):
    model = clone(TABLES[name]).set_params(max_iter=20)
    if name == "Ising":
        outcome(model, data.draw(arrays_like(ANSWERS)), None)
    else:
        outcome(model, data.draw(arrays_like(QUESTIONS)), data.draw(arrays_like(ANSWERS)))


@fuzzed
@given(data=st.data())
@pytest.mark.parametrize("name", [*ESTIMATORS, *TABLES])
def test_parameters_of_any_kind(name, data):
    model = clone(ESTIMATORS[name][0] if name in ESTIMATORS else TABLES[name])
    known = sorted(OPTIONS.keys() & model.get_params().keys())
    option = data.draw(st.sampled_from(known))
    value = data.draw(st.sampled_from(OPTIONS[option]))
    model.set_params(**{"max_iter": 20, option: value})
    if name in ESTIMATORS:
        _, X, make, Y = ESTIMATORS[name]
        fitted = outcome(model, [make(x) for x in X], Y)
    else:
        Y = None if name == "Ising" else ANSWERS
        fitted = outcome(model, ANSWERS if Y is None else QUESTIONS, Y)
    wrong = {"tol", "max_iter", "alpha", "l1_ratio", "n_jobs", "rho"}
    if isinstance(value, bool) and option in wrong:
        assert fitted is None


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    "change",
    [np.asfortranarray, lambda x: x[::1], lambda x: x.astype(">f8"), lambda x: x.astype(object)],
    ids=["Fortran", "view", "byte order", "objects"],
)
def test_the_layout_of_an_array_does_not_matter(name, change):
    model, X, make, Y = ESTIMATORS[name]

    def fit(arrays):
        for array in arrays:
            array.flags.writeable = False
        return outcome(clone(model).set_params(random_state=0), [make(x) for x in arrays], Y)

    expected, found = fit([x.copy() for x in X]), fit([change(x.copy()) for x in X])
    if found is None:
        assert change(X[0]).dtype == object  # refused by some, with a reason
    else:
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_model_from_eight_threads(name):
    model, X, make, Y = ESTIMATORS[name]
    fitted = clone(model).fit([make(x) for x in X], Y)
    samples = [make(x) for x in X] * 3
    expected, probabilities = fitted.predict(samples), fitted.predict_marginals(samples)

    def ask(_):
        return fitted.predict(samples), fitted.predict_marginals(samples)

    with ThreadPoolExecutor(8) as pool:
        for labels, marginals in pool.map(ask, range(max(8, CASES))):
            for own, other in zip(labels, expected, strict=True):
                np.testing.assert_array_equal(own, other)
            for own, other in zip(marginals, probabilities, strict=True):
                np.testing.assert_allclose(own, other, atol=1e-12)


def test_memory_is_stable():
    """After a warm-up fits and predictions take no more memory."""
    rounds = CASES

    def work():
        for model, X, make, Y in ESTIMATORS.values():
            samples = [make(x) for x in X]
            with quiet():
                clone(model).set_params(max_iter=5).fit(samples, Y).predict(samples)

    for _ in range(3):
        work()
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(rounds):
        work()
    gc.collect()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 8_000 + 20 * rounds  # kilobytes


@pytest.mark.parametrize("weight", [1.0, 1e7, 1e12])
@pytest.mark.parametrize("solver", [None, BlockFrankWolfe()])
def test_gaps_are_never_below_rounding(weight, solver):
    model = BipartiteMatchingCRF(alpha=weight, tol=1e-13, max_iter=50, solver=solver)
    fitted = outcome(model, PAIRS, ESTIMATORS["bipartite"][3], np.full(3, weight))
    assert fitted.duality_gap_ >= np.finfo(float).eps * abs(fitted.objective_)


def test_a_decoder_that_fails_in_the_middle_leaves_no_model():
    calls = [0]

    def failing(scores):
        calls[0] += 1
        if calls[0] > 12:
            raise RuntimeError("licence expired")
        return signs(scores)

    model = StructuredCRF(decode=failing, tol=1e-9)
    with pytest.raises(RuntimeError, match="licence expired"):
        model.fit(NODES, STATES)
    assert not hasattr(model, "coef_")
