"""Parts of outputs that are known at prediction or missing in training, against enumeration."""

import warnings
from itertools import product

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import logsumexp

from mlestruct import ChainCRF, GraphCRF, GridCRF
from mlestruct.baselines import StructuredSVM

FINE = {"alpha": 0.3, "tol": 1e-8, "fit_intercept": False}
PATH = np.array([[0, 1], [1, 2], [2, 3]])  # a tree: what is learned is exact


# ---------------------------------------------------------------------- models of four nodes
def graph_data(rng, n_states=3, m=6):
    X = [(rng.normal(size=(4, 2)), PATH) for _ in range(m)]
    return GraphCRF, X, [rng.integers(n_states, size=4) for _ in range(m)], (4,)


def chain_data(rng, n_states=3, m=6):
    X = [rng.normal(size=(4, 2)) for _ in range(m)]
    return ChainCRF, X, [rng.integers(n_states, size=4) for _ in range(m)], (4,)


def grid_data(rng, n_states=2, m=6):
    X = [rng.normal(size=(1, 4, 2)) for _ in range(m)]
    return GridCRF, X, [rng.integers(n_states, size=(1, 4)) for _ in range(m)], (1, 4)


EVERY = pytest.mark.parametrize("make", [graph_data, chain_data, grid_data])


def rows_of(x):
    return (x[0] if isinstance(x, tuple) else x).reshape(4, 2)


def log_scores(theta, x, n_states):
    """<scores, y> of all labellings of a path of four nodes."""
    node = theta[: 2 * n_states].reshape(n_states, 2)
    edge = theta[2 * n_states :].reshape(n_states, n_states, -1)[:, :, 0]  # to the right
    every = np.array(list(product(range(n_states), repeat=4)))
    own = rows_of(x) @ node.T
    total = own[np.arange(4), every].sum(axis=1)
    return every, total + sum(edge[every[:, i], every[:, i + 1]] for i in range(3))


def hide(rng, Y, share=0.5):
    out = []
    for y in Y:
        z = np.where(rng.random(y.shape) < share, np.nan, y)
        z.flat[0] = y.flat[0]  # something is known of every sample
        out.append(z)
    return out


# ---------------------------------------------------------------------- known at prediction
@EVERY
def test_predictions_given_labels_are_those_of_enumeration(make):
    rng = np.random.default_rng(0)
    kind, X, Y, shape = make(rng)
    model = kind(**FINE).fit(X, Y, classes=range(2 if kind is GridCRF else 3))
    n_states = len(model.classes_)
    known = hide(rng, Y)
    known[1] = None
    best = model.predict(X, known=known)
    tables = model.predict_marginals(X, tol=1e-9, known=known)
    drawn = model.sample(X, 20, known=known, random_state=0)
    for m, x in enumerate(X):
        every, total = log_scores(model.coef_, x, n_states)
        if known[m] is not None:
            given = known[m].ravel()
            agree = (every[:, given >= 0] == given[given >= 0]).all(axis=1)
            every, total = every[agree], total[agree]
            for y in (best[m], *drawn[m]):
                assert (y.ravel()[given >= 0] == given[given >= 0]).all()
        np.testing.assert_array_equal(best[m].ravel(), every[np.argmax(total)])
        p = np.exp(total - logsumexp(total))
        expected = (p[:, None, None] * np.eye(n_states)[every]).sum(axis=0)
        np.testing.assert_allclose(tables[m].reshape(4, -1), expected, atol=1e-4)
        assert best[m].shape == shape
    with pytest.raises(ValueError, match=r"known\[0\]: found 7 at position"):
        model.predict(X, known=[np.full(shape, 7), *known[1:]])
    with pytest.raises(ValueError, match="X has 6 samples but known has 1"):
        model.predict(X, known=known[:1])


# ---------------------------------------------------------------------- missing in training
def best_by_hand(X, Y, n_states, alpha, start):
    """The likelihood of what was observed, by enumeration, maximised from `start` by SciPy."""

    def objective(theta):
        value = -0.5 * alpha * theta @ theta
        for x, y in zip(X, Y, strict=True):
            every, total = log_scores(theta, x, n_states)
            seen = y.ravel() >= 0
            agree = (every[:, seen] == y.ravel()[seen]).all(axis=1)
            value += logsumexp(total[agree]) - logsumexp(total)
        return value

    found = minimize(lambda t: -objective(t), start, method="BFGS", options={"gtol": 1e-7})
    return objective, found.x


@EVERY
def test_hidden_nodes_are_summed_over(make):
    rng = np.random.default_rng(3)
    kind, X, Y, _ = make(rng)
    n_states = 2 if kind is GridCRF else 3
    hidden = hide(rng, Y)
    classes = range(n_states)
    model = kind(**FINE).fit(X, hidden, classes=classes, missing="marginalise")
    objective, byhand = best_by_hand(X, hidden, n_states, FINE["alpha"], model.coef_)
    path = np.array(model.history_.objective)
    assert (np.diff(path) >= -1e-9).all()  # monotone
    assert path[-1] == pytest.approx(objective(model.coef_), abs=1e-5)
    assert objective(byhand) - objective(model.coef_) < 1e-3  # a stationary point
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dropped = kind(**FINE).fit(X, hidden, classes=classes)
    assert objective(model.coef_) > objective(dropped.coef_)
    likelihood = model.log_likelihood(X, hidden)
    penalty = 0.5 * FINE["alpha"] * model.coef_ @ model.coef_
    assert likelihood.sum() - penalty == pytest.approx(path[-1], abs=1e-5)
    np.testing.assert_allclose(model.approximate_log_likelihood(X, hidden), likelihood, atol=1e-4)
    lower, upper = model.log_likelihood_bounds(X, hidden)
    assert (lower - 1e-4 <= likelihood).all()
    assert (likelihood <= upper + 1e-4).all()
    assert not model.certified_
    assert model.objective_bound_ == model.duality_gap_ == np.inf
    gradient = approx_fprime(model.coef_, objective, 1e-6)
    assert gradient @ gradient / (2.0 * FINE["alpha"]) <= model.stationarity_ + 1e-6
    assert not hasattr(model.fit(X, Y), "stationarity_")  # of the fit before


@EVERY
def test_without_hidden_nodes_nothing_changes(make):
    kind, X, Y, _ = make(np.random.default_rng(4))
    plain = kind(**FINE).fit(X, Y, classes=range(3))
    same = kind(**FINE).fit(X, Y, classes=range(3), missing="marginalise")
    np.testing.assert_array_equal(same.coef_, plain.coef_)
    assert same.duality_gap_ == plain.duality_gap_


def test_standardised_features_with_hidden_nodes():
    rng = np.random.default_rng(5)
    kind, X, Y, _ = graph_data(rng)
    hidden = hide(rng, Y)
    options = {"standardize": True, "alpha": 0.3, "tol": 1e-7}
    wide = [(x * [1.0, 50.0], e) for x, e in X]
    model = kind(**options).fit(wide, hidden, missing="marginalise")
    other = kind(**options).fit(X, hidden, missing="marginalise")
    np.testing.assert_allclose(model.node_coef_ * [1.0, 50.0], other.node_coef_, atol=1e-3)
    assert (np.diff(model.history_.objective) >= -1e-9).all()


def test_what_partial_outputs_do_not_go_with():
    rng = np.random.default_rng(7)
    kind, X, Y, _ = graph_data(rng)
    hidden = hide(rng, Y)
    with pytest.raises(ValueError, match="`Y` must be known whole for solver=StructuredSVM"):
        kind(solver=StructuredSVM()).fit(X, hidden, missing="marginalise")
    with pytest.raises(ValueError, match="`missing` must be 'drop' or 'marginalise'"):
        kind().fit(X, Y, missing="ignore")
    tokens = [x for x, _ in X]
    with pytest.raises(ValueError, match="transitions='all', not 'observed'"):
        ChainCRF(transitions="observed").fit(tokens, hidden, missing="marginalise")
