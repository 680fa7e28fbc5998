"""Tied weights of edges: optima against enumeration, and what they share with other options."""

from itertools import product

import numpy as np
import pytest
from labelled_samples import hide
from scipy.optimize import minimize

from mlestruct import BlockFrankWolfe, GraphCRF, GridCRF, load

TREE = np.array([[0, 1], [1, 2], [3, 1]])
ALPHA = 0.7


def samples(n_states, seed=0, n_samples=12):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(n_states, size=4) for _ in range(n_samples)]
    for y in Y[::2]:
        y[1:3] = y[0]
    X = [(rng.normal(size=(4, 2)) + y[:, None], TREE, rng.normal(size=(3, 2))) for y in Y]
    return X, Y


def edge_table(kind, weights, n_states):
    """(L, L, D) from the free weights of each kind."""
    table = np.zeros((n_states, n_states, 2))
    if kind == "potts":
        table[np.arange(n_states), np.arange(n_states)] = weights.reshape(1, 2)
        return table
    upper = np.triu_indices(n_states)
    table[upper] = weights.reshape(-1, 2)
    table[upper[::-1]] = weights.reshape(-1, 2)
    return table


def enumerated_optimum(kind, X, Y, n_states):
    """The best penalised log-likelihood, summed over all labellings, by another optimiser."""
    labellings = np.array(list(product(range(n_states), repeat=4)))
    n_nodes = n_states * 3  # two features and the constant
    n_edges = 2 if kind == "potts" else n_states * (n_states + 1)

    def loss(theta):
        nodes = theta[:n_nodes].reshape(n_states, 3)
        table = edge_table(kind, theta[n_nodes:], n_states)
        total = 0.5 * ALPHA * theta @ theta
        for (u, edges, v), y in zip(X, Y, strict=True):
            unary = u @ nodes[:, :2].T + nodes[:, 2]
            scores = unary[np.arange(4), labellings].sum(axis=1)
            for (i, j), own in zip(edges, v, strict=True):
                scores += table[labellings[:, i], labellings[:, j]] @ own
            at = int(np.flatnonzero((labellings == y).all(axis=1))[0])
            total += np.logaddexp.reduce(scores) - scores[at]
        return total

    found = minimize(loss, np.zeros(n_nodes + n_edges), method="BFGS", options={"gtol": 1e-6})
    return -found.fun, found.x[:n_nodes], edge_table(kind, found.x[n_nodes:], n_states)


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("kind", ["symmetric", "potts"])
def test_the_optimum_is_that_of_enumeration(kind, n_states):
    X, Y = samples(n_states)
    model = GraphCRF(ALPHA, edge_weights=kind, tol=1e-9).fit(X, Y, classes=range(n_states))
    best, nodes, table = enumerated_optimum(kind, X, Y, n_states)
    assert model.objective_ == pytest.approx(best, abs=1e-6)
    found = np.column_stack([model.node_coef_, model.intercept_]).ravel()
    np.testing.assert_allclose(found, nodes, atol=1e-3)
    np.testing.assert_allclose(model.edge_coef_, table, atol=1e-3)


def test_only_map_calls_reach_the_same_optimum():
    X, Y = samples(3)
    best = GraphCRF(10.0, edge_weights="potts", tol=1e-6).fit(X, Y)
    solver = BlockFrankWolfe(random_state=0)
    slow = GraphCRF(10.0, edge_weights="potts", solver=solver, tol=1e-3).fit(X, Y)
    assert slow.objective_bound_ >= best.objective_
    assert slow.objective_ <= best.objective_bound_


@pytest.mark.parametrize("standardize", [False, True])
def test_tied_weights_of_standardised_features_and_partial_labels(standardize):
    X, Y = samples(3)
    X = [(u, edges, v * [1.0, 20.0]) for u, edges, v in X]
    hidden = [hide(y, np.arange(4) == m % 4) for m, y in enumerate(Y)]
    model = GraphCRF(1.0, edge_weights="symmetric", standardize=standardize)
    model.fit(X, hidden, missing="marginalise")
    table = model.edge_coef_
    np.testing.assert_allclose(table, table.transpose(1, 0, 2), atol=1e-12)
    assert np.all(np.diff(model.history_.objective) >= -1e-6)


def test_grids_and_model_files(tmp_path):
    rng = np.random.default_rng(0)
    Y = [np.kron(rng.integers(3, size=(3, 3)), np.ones((3, 3), int)) for _ in range(6)]
    X = [np.eye(3)[y] + rng.normal(size=(9, 9, 3)) for y in Y]
    model = GridCRF(1.0, edge_weights="potts").fit(X, Y, classes=range(3))
    assert model.converged_
    assert model.edge_coef_.shape == (3, 3, 1)
    off = ~np.eye(3, dtype=bool)
    assert not model.edge_coef_[off].any()
    np.testing.assert_array_equal(model.edge_coef_[0, 0], model.edge_coef_[2, 2])
    assert (model.edge_coef_[0, 0] > 0).all()
    model.save(tmp_path / "potts.mls")
    again = load(tmp_path / "potts.mls")
    assert again.edge_weights == "potts"
    np.testing.assert_array_equal(again.predict(X)[0], model.predict(X)[0])


@pytest.mark.parametrize("options", [{"edge_weights": "potts"}, {"standardize": True}])
def test_paths_have_the_weights_of_single_fits(options):
    X, Y = samples(3)
    X = [(50.0 * u, edges, v) for u, edges, v in X]
    path = GraphCRF(tol=1e-9, **options).fit_path(X, Y, [10.0, 1.0])
    for fitted in path.estimators:
        alone = GraphCRF(fitted.alpha, tol=1e-9, **options).fit(X, Y)
        np.testing.assert_allclose(fitted.coef_, alone.coef_, atol=1e-3)
