"""GraphCRF as a scikit-learn estimator, against enumeration."""

import warnings

import numpy as np
import pytest
from labelled_samples import exact_log_likelihood, graphs, hide, same_models
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from mlestruct import BlockFrankWolfe, GraphCRF

RING = np.stack([np.arange(6), (np.arange(6) + 1) % 6], axis=1)


NODES = np.random.default_rng(0).normal(size=(6, 2))


STATES = np.arange(6) % 2


FINE = {"tol": 1e-9, "alpha": 0.5}


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("edge_features", [None, 2])
def test_graph_shapes_and_attributes(n_states, edge_features):
    X, Y = graphs(n_states=n_states, edge_features=edge_features)
    model = GraphCRF(tol=1e-5).fit(X, Y)
    assert model.converged_
    assert model.node_coef_.shape == (n_states, n_states)
    assert model.edge_coef_.shape == (n_states, n_states, edge_features or 1)
    for y, found, table in zip(Y, model.predict(X), model.predict_marginals(X), strict=True):
        assert found.shape == y.shape
        assert table.shape == (6, n_states)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-12)
    assert 0.4 < model.score(X, Y) <= 1.0


def test_a_graph_may_have_none_as_edge_features():
    X, Y = graphs()
    pairs = GraphCRF(**FINE).fit(X, Y)
    for other in ([(*x, None) for x in X], [(*x, np.ones((len(x[1]), 1))) for x in X]):
        same_models(GraphCRF(**FINE).fit(other, Y), pairs, 1e-6)
    lists = [[x[0].tolist(), x[1].tolist()] for x in X]
    same_models(GraphCRF(**FINE).fit(lists, [y.tolist() for y in Y]), pairs, 1e-6)


# ---------------------------------------------------------------------- what is learned
def test_without_edges_it_is_logistic_regression():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.integers(3, size=40)
    model = GraphCRF(fit_intercept=False, alpha=2.0, tol=1e-10).fit([(x, np.zeros((0, 2)))], [y])
    expected = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(x, y)
    np.testing.assert_allclose(model.node_coef_, expected.coef_, atol=1e-4)
    np.testing.assert_allclose(model.edge_coef_, 0.0, atol=1e-9)
    np.testing.assert_allclose(
        model.predict_marginals([(x, np.zeros((0, 2)))], tol=1e-9)[0],
        expected.predict_proba(x),
        atol=1e-4,
    )


def test_disconnected_graphs_are_the_sum_of_their_parts():
    X, Y = graphs(4)
    together = (
        np.concatenate([x[0] for x in X]),
        np.concatenate([x[1] + 6 * m for m, x in enumerate(X)]),
    )
    one = GraphCRF(**FINE).fit([together], [np.concatenate(Y)])
    two = GraphCRF(**FINE).fit(X, Y)
    same_models(one, two)


def test_isolated_nodes_and_graphs_without_edges():
    X, Y = graphs(4)
    lonely = (np.concatenate([X[0][0], np.ones((2, 2))]), X[0][1])
    inputs = [lonely, *X[1:], (np.ones((1, 2)), np.zeros((0, 2), dtype=int)), (X[0][0], [])]
    labels = [np.append(Y[0], [0, 1]), *Y[1:], np.array([1]), Y[0]]
    model = GraphCRF(fit_intercept=False, **FINE).fit(inputs, labels)
    assert model.converged_
    assert [len(y) for y in model.predict(inputs)] == [8, 6, 6, 6, 1, 6]
    lower, upper = model.log_likelihood_bounds(inputs, labels)
    for m, (x, y) in enumerate(zip(inputs, labels, strict=True)):
        exact = exact_log_likelihood(model, x, y)
        assert lower[m] - 1e-6 <= exact <= upper[m] + 1e-6


def test_adjacency_matrices_and_networkx_as_the_documentation_lists_them():
    networkx = pytest.importorskip("networkx")
    graph = networkx.cycle_graph(6)
    adjacency = networkx.to_scipy_sparse_array(graph)
    fine = {"edge_weights": "symmetric", **FINE}
    expected = GraphCRF(**fine).fit([(NODES, RING)], [STATES])
    upper = np.stack(np.triu(adjacency.toarray()).nonzero(), axis=1)
    for edges in (upper, np.stack(sparse.triu(adjacency).nonzero(), axis=1), list(graph.edges)):
        same_models(GraphCRF(**fine).fit([(NODES, edges)], [STATES]), expected, 1e-6)


def test_turning_an_edge_transposes_its_weights():
    X, Y = graphs(4, 3)
    turned = [(x[0], x[1][:, ::-1]) for x in X]
    one, two = (GraphCRF(**FINE).fit(inputs, Y) for inputs in (X, turned))
    np.testing.assert_allclose(one.edge_coef_.transpose(1, 0, 2), two.edge_coef_, atol=1e-3)


@pytest.mark.parametrize("n_states", [2, 3])
def test_masked_nodes_are_left_out(n_states):
    X, Y = graphs(4, n_states, edge_features=2)
    hidden = [hide(y, np.arange(6) % 3 == m % 3) for m, y in enumerate(Y)]
    parts, labels = [], []
    for (nodes, edges, pairs), y in zip(X, hidden, strict=True):
        kept = np.flatnonzero(~np.isnan(y))
        number = np.full(6, -1)
        number[kept] = np.arange(len(kept))
        inside = (number[edges] >= 0).all(axis=1)
        parts.append((nodes[kept], number[edges][inside], pairs[inside]))
        labels.append(y[kept])
    one = GraphCRF(**FINE).fit(X, hidden, classes=range(n_states))
    two = GraphCRF(**FINE).fit(parts, labels, classes=range(n_states))
    same_models(one, two, 1e-4)
    assert [len(y) for y in one.predict(X)] == [6] * 4  # predictions cover all nodes
    np.testing.assert_allclose(
        one.log_likelihood_bounds(X, hidden), one.log_likelihood_bounds(parts, labels), atol=1e-5
    )
    known = [y[y >= 0] == found[y >= 0] for y, found in zip(hidden, one.predict(X), strict=True)]
    assert one.score(X, hidden) == pytest.approx(np.mean([k.mean() for k in known]))


def test_rho_outside_the_polytope_warns_and_bounds_still_hold():
    x, y = (np.random.default_rng(0).normal(size=(6, 2)), RING), np.arange(6) % 2
    with pytest.warns(UserWarning, match="outside the spanning-tree polytope"):
        model = GraphCRF(rho=1.0).fit([x], [y])
    with pytest.warns(UserWarning, match="outside the spanning-tree polytope"):
        lower, upper = model.log_likelihood_bounds([x], [y])
    exact = exact_log_likelihood(model, x, y)
    assert -np.inf < lower[0] - 1e-9 <= exact <= upper[0] + 1e-9


def test_rho_of_every_edge():
    rng = np.random.default_rng(0)
    X, Y = [(rng.normal(size=(6, 2)), RING) for _ in range(3)], [np.arange(6) % 2] * 3
    uniform = GraphCRF(**FINE).fit(X, Y)  # 5/6 everywhere
    same_models(GraphCRF(rho=np.full(6, 5 / 6), **FINE).fit(X, Y), uniform, 1e-4)
    same_models(GraphCRF(rho=5 / 6, **FINE).fit(X, Y), uniform, 1e-4)
    with pytest.raises(ValueError, match=r"X\[0\]: rho: expected a number or shape \(6,\)"):
        GraphCRF(rho=np.full(5, 0.5)).fit(X, Y)


def test_rho_of_every_edge_goes_with_masked_nodes():
    rng = np.random.default_rng(0)
    x, rho = rng.normal(size=(6, 2)), rng.uniform(0.3, 0.8, 6)
    y = np.array([0, 1, np.nan, 1, 0, 1])
    one = GraphCRF(rho=rho, **FINE).fit([(x, RING)], [y])
    kept = np.array([0, 1, 3, 4, 5])
    number = np.array([0, 1, -1, 2, 3, 4])
    inside = (number[RING] >= 0).all(axis=1)
    two = GraphCRF(rho=rho[inside], **FINE).fit([(x[kept], number[RING][inside])], [y[kept]])
    same_models(one, two, 1e-4)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (NODES, r"X\[0\]: expected a tuple \(node_features, edges, edge_features\), got ndarray"),
        ((NODES,), r"X\[0\]: expected a tuple .*, got 1 parts"),
        ((NODES[:, 0], RING), r"X\[0\]: node_features: expected 2 dimensions"),
        ((NODES[:0], RING[:0]), r"X\[0\]: node_features has no rows"),
        ((np.where(NODES > 1, np.nan, NODES), RING), r"X\[0\]: node_features: found nan"),
        ((NODES.astype(str), RING), r"X\[0\]: node_features: expected numbers"),
        ((NODES, np.append(RING, [[2, 2]], 0)), r"X\[0\]: edges: edge 6 joins node 2 to itself"),
        ((NODES, RING + 1), r"X\[0\]: edges: edge 4 is \(5, 6\); nodes are 0 to 5"),
        ((NODES, RING.T), r"X\[0\]: edges: expected shape \(n_edges, 2\), got \(2, 6\)"),
        (
            (NODES, sparse.csr_array(np.eye(6))),
            r"X\[0\]: edges: expected an array .* got csr",
        ),
        (
            (NODES, np.concatenate([RING, RING[:1, ::-1]])),
            r"X\[0\]: edges: the pair \[1, 0\] is listed twice",
        ),
        ((NODES, RING + 0.5), r"X\[0\]: edges: nodes must be integers"),
        ((NODES, RING, np.ones((5, 1))), r"X\[0\]: edge_features has 5 rows, but there are 6"),
        ((NODES, RING, np.ones(6)), r"X\[0\]: edge_features: expected 2 dimensions"),
        ((NODES, RING, np.full((6, 1), np.inf)), r"X\[0\]: edge_features: found inf at \(0, 0\)"),
    ],
)
def test_bad_graphs(x, message):
    with pytest.raises(ValueError, match=message):
        GraphCRF().fit([x], [STATES])


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = GraphCRF().fit([(NODES, RING)], [STATES])
    before = model.predict([(NODES, RING)])[0]
    with pytest.raises(ValueError, match="node features"):
        model.fit([(NODES, RING), (np.ones((6, 3)), RING)], [np.arange(6) % 3] * 2)
    np.testing.assert_array_equal(model.predict([(NODES, RING)])[0], before)


@pytest.mark.parametrize("tol", [0.0, -1.0, np.nan])
def test_tolerances_of_predictions_are_checked(tol):
    model = GraphCRF().fit([(NODES, RING)], [STATES])
    with pytest.raises(ValueError, match="`tol` must be positive"):
        model.predict_marginals([(NODES, RING)], tol=tol)
    with pytest.raises(ValueError, match="`tol` must be positive"):
        model.log_likelihood_bounds([(NODES, RING)], [STATES], tol=tol)


def test_sparse_and_dense_samples_may_be_mixed():
    rng = np.random.default_rng(0)
    X = [
        (sparse.random(6, 2001, density=0.01, random_state=0, format="csr"), RING),
        (rng.normal(size=(6, 2001)), RING),
    ]
    for samples in (X, X[::-1]):
        assert GraphCRF().fit(samples, [STATES] * 2).converged_


def test_states_of_a_solver_are_for_the_same_graphs_only():
    # Equally many coordinates, 12 + 11 and 8 + 15, on different graphs.
    path = np.stack([np.arange(11), np.arange(1, 12)], axis=1)
    dense = np.array([(i, j) for i in range(8) for j in range(i + 1, 8)])[:15]
    rng = np.random.default_rng(0)
    other = (rng.normal(size=(8, 2)), dense), rng.integers(2, size=8)
    for solver in (None, BlockFrankWolfe()):
        model = GraphCRF(solver=solver, max_iter=200, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            first = clone(model).fit([(rng.normal(size=(12, 2)), path)], [rng.integers(2, size=12)])
            model.fit([other[0]], [other[1]], start=first)
        optimum = GraphCRF(tol=1e-9).fit([other[0]], [other[1]]).objective_bound_
        assert model.objective_bound_ >= optimum - 1e-6
        assert model.objective_ <= optimum + 1e-6


def test_predictions_do_not_depend_on_their_order():
    rng = np.random.default_rng(2)
    edges = np.array([(i, j) for i in range(6) for j in range(i + 1, 6)])
    Y = [rng.integers(3, size=6) for _ in range(12)]
    X = [(np.eye(3)[rng.integers(3, size=6)], edges) for _ in range(12)]
    model = GraphCRF(alpha=0.1).fit(X, Y)
    for a, b in zip(model.predict(X), model.predict(X[::-1])[::-1], strict=True):
        np.testing.assert_array_equal(a, b)
