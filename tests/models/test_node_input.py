"""Offsets, likelihoods given known labels, and weights of nodes, against enumeration."""

from itertools import product

import numpy as np
import pytest
from labelled_samples import hide
from scipy.optimize import minimize
from scipy.special import logsumexp

from mlestruct import (
    BlockFrankWolfe,
    ChainCRF,
    FrankWolfe,
    GraphCRF,
    GridCRF,
    NodeInput,
    load,
)

PATH = np.array([[0, 1], [1, 2], [2, 3]])  # a tree: what is learned is exact
KINDS = {"graph": GraphCRF, "chain": ChainCRF, "grid": GridCRF}
EVERY = pytest.mark.parametrize("kind", list(KINDS))
STATES = pytest.mark.parametrize("n_states", [2, 3])


def shaped(kind, array):
    return array[None] if kind == "grid" else array


def draw(kind, n_states, m=6, seed=0):
    """Samples of four nodes with features (4, 2) and offsets, and their labels."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(m):
        features = rng.normal(size=(4, 2))
        nodes, edges = rng.normal(size=(4, n_states)), rng.normal(size=(3, n_states, n_states))
        sample = (features, PATH) if kind == "graph" else shaped(kind, features)
        X.append(NodeInput(sample, shaped(kind, nodes), edges))
        Y.append(shaped(kind, rng.integers(n_states, size=4)))
    return X, Y


def totals(theta, x, n_states):
    """All labellings of four nodes and their scores, the offsets included."""
    features = (x.features[0] if isinstance(x.features, tuple) else x.features).reshape(4, 2)
    node = theta[: 2 * n_states].reshape(n_states, 2)
    edge = theta[2 * n_states :].reshape(n_states, n_states, -1)[:, :, 0]
    every = np.array(list(product(range(n_states), repeat=4)))
    own = features @ node.T + np.reshape(x.offset, (4, n_states))
    total = own[np.arange(4), every].sum(axis=1)
    for i in range(3):
        total += (edge + x.edge_offset[i])[every[:, i], every[:, i + 1]]
    return every, total


def place(every, y):
    return int(np.flatnonzero((every == np.ravel(y)).all(axis=1))[0])


@EVERY
@STATES
def test_everything_with_offsets_is_as_enumerated(kind, n_states, tmp_path):
    X, Y = draw(kind, n_states)
    model = KINDS[kind](alpha=0.3, tol=1e-9, fit_intercept=False)
    model.fit(X, Y, classes=range(n_states))

    def negative(theta):
        value = 0.15 * theta @ theta
        for x, y in zip(X, Y, strict=True):
            every, total = totals(theta, x, n_states)
            value -= total[place(every, y)] - logsumexp(total)
        return value

    best = minimize(negative, np.zeros(model.coef_.size), tol=1e-12)
    assert model.objective_ == pytest.approx(-best.fun, abs=1e-6)
    np.testing.assert_allclose(model.coef_, best.x, atol=1e-3)
    likelihoods = [model.log_likelihood(X, Y), model.approximate_log_likelihood(X, Y)]
    likelihoods += list(model.log_likelihood_bounds(X, Y))
    labels, tables = model.predict(X), model.predict_marginals(X, tol=1e-9)
    drawn = model.sample(X[:1], 4000, random_state=0)[0].reshape(-1, 4)
    for m, x in enumerate(X):
        every, total = totals(model.coef_, x, n_states)
        p = np.exp(total - logsumexp(total))
        np.testing.assert_array_equal(labels[m].ravel(), every[np.argmax(total)])
        expected = (p[:, None, None] * np.eye(n_states)[every]).sum(axis=0)
        np.testing.assert_allclose(tables[m].reshape(4, -1), expected, atol=1e-4)
        for found in likelihoods:
            assert found[m] == pytest.approx(np.log(p[place(every, Y[m])]), abs=1e-5)
        if m == 0:
            np.testing.assert_allclose(np.eye(n_states)[drawn].mean(axis=0), expected, atol=0.04)
    model.save(tmp_path / "model.mls")
    np.testing.assert_array_equal(load(tmp_path / "model.mls").predict(X), labels)


@pytest.mark.parametrize("solver", [FrankWolfe(), BlockFrankWolfe()])
def test_solvers_agree_on_offsets(solver):
    for kind in KINDS:
        X, Y = draw(kind, 3)
        options = {"alpha": 1.0, "fit_intercept": False}
        exact = KINDS[kind](tol=1e-8, **options).fit(X, Y)
        other = KINDS[kind](tol=1e-3, max_iter=20_000, solver=solver, **options).fit(X, Y)
        assert other.objective_bound_ == pytest.approx(exact.objective_bound_, rel=2e-3)


@EVERY
def test_unlabelled_nodes_take_their_offsets_with_them(kind):
    X, Y = draw(kind, 2)
    partial = [hide(y, np.reshape(np.arange(4) == 3, y.shape)) for y in Y]
    model = KINDS[kind](fit_intercept=False, tol=1e-8).fit(X, partial)
    shorter = []
    for x in X:
        features = (x.features[0] if kind == "graph" else x.features.reshape(4, 2))[:3]
        sample = (features, PATH[:2]) if kind == "graph" else shaped(kind, features)
        nodes = np.reshape(x.offset, (4, 2))[:3]
        shorter.append(NodeInput(sample, shaped(kind, nodes), x.edge_offset[:2]))
    same = KINDS[kind](fit_intercept=False, tol=1e-8).fit(shorter, [y[..., :3] for y in Y])
    assert model.objective_ == pytest.approx(same.objective_bound_, abs=1e-6)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-3)


def test_the_same_offset_for_all_nodes_or_edges():
    X, Y = draw("chain", 3)
    model = ChainCRF().fit(X, Y)
    x, nodes, edges = X[0].features, np.array([1.0, 0.0, -2.0]), 2.0 * np.eye(3)
    full = NodeInput(x, np.tile(nodes, (4, 1)), np.tile(edges, (3, 1, 1)))
    short = NodeInput(x, nodes, edges)
    first, second = model.predict_marginals([full, short])
    np.testing.assert_array_equal(first, second)
    plain = model.predict_marginals([x, NodeInput(x)])
    np.testing.assert_array_equal(plain[0], plain[1])


def test_wrong_offsets_are_told():
    X, Y = draw("chain", 3)
    model = ChainCRF().fit(X, Y)
    x = X[0].features
    with pytest.raises(ValueError, match=r"X\[0\]: offset: expected shape \(4, 3\) or \(3,\)"):
        model.predict([NodeInput(x, np.zeros((4, 2)))])
    with pytest.raises(ValueError, match=r"X\[0\]: edge_offset: expected shape \(3, 3, 3\)"):
        model.predict([NodeInput(x, edge_offset=np.zeros((4, 3, 3)))])
    with pytest.raises(ValueError, match="must be finite"):
        ChainCRF().fit([NodeInput(x, [0.0, 0.0, -np.inf])], [Y[0]])
    with pytest.raises(ValueError, match="cannot be read as numbers"):
        model.predict([NodeInput(x, ["a", "b", "c"])])


# ---------------------------------------------------------------------- given what is known
@EVERY
@STATES
@pytest.mark.parametrize("missing", ["drop", "marginalise"])
def test_likelihoods_given_known_labels(kind, n_states, missing):
    rng = np.random.default_rng(5)
    X, Y = draw(kind, n_states)
    model = KINDS[kind](fit_intercept=False)
    model.fit(X, Y, classes=range(n_states), missing=missing)
    known = [hide(y, rng.random(y.shape) < 0.5) for y in Y]
    known[0] = None
    observed = [hide(y, rng.random(y.shape) < 0.3) for y in Y]
    whole = model.log_likelihood(X, Y, known=known)
    partly = model.log_likelihood(X, observed, known=known)
    approximate = model.approximate_log_likelihood(X, observed, known=known, tol=1e-9)
    bounds = model.log_likelihood_bounds(X, observed, known=known)
    for m, x in enumerate(X):
        every, total = totals(model.coef_, x, n_states)
        given = np.full(4, np.nan) if known[m] is None else known[m].ravel()
        seen = np.where(given >= 0, given, observed[m].ravel())
        agree = (every[:, given >= 0] == given[given >= 0]).all(axis=1)
        log_z = logsumexp(total[agree])
        assert whole[m] == pytest.approx(total[place(every, Y[m])] - log_z, abs=1e-8)
        if missing == "marginalise":
            right = (every[:, seen >= 0] == seen[seen >= 0]).all(axis=1)
            expected = logsumexp(total[right]) - log_z
            assert partly[m] == pytest.approx(expected, abs=1e-8)
            assert bounds[0][m] - 1e-6 <= expected <= bounds[1][m] + 1e-6
        assert partly[m] <= 1e-12
        assert approximate[m] == pytest.approx(partly[m], abs=1e-5)  # a tree
    np.testing.assert_allclose(model.log_likelihood(X, Y, known=Y), 0.0, atol=1e-9)
    hidden = [None] * len(Y)
    np.testing.assert_allclose(model.log_likelihood(X, hidden, known=Y), 0.0, atol=1e-9)
    wrong = (Y[2] + 1) % n_states
    with pytest.raises(ValueError, match=r"known\[2\]: differs from Y\[2\] at position"):
        model.log_likelihood(X, Y, known=[None, None, wrong, None, None, None])


def test_dropped_nodes_leave_the_conditional_likelihood_of_pieces():
    X, Y = draw("chain", 3)
    model = ChainCRF(fit_intercept=False).fit(X, Y)
    x, y = X[0], Y[0]
    observed, known = hide(y, np.arange(4) == 2), hide(y, np.arange(4) > 0)
    found = model.log_likelihood([x], [observed], known=[known])[0]
    first = NodeInput(x.features[:2], x.offset[:2], x.edge_offset[:1])
    last = NodeInput(x.features[3:], x.offset[3:])
    expected = model.log_likelihood([first, last], [y[:2], y[3:]], known=[known[:2], None]).sum()
    assert found == pytest.approx(expected, abs=1e-9)
