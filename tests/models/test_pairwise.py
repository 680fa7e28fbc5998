"""GridCRF and GraphCRF against each other, and what they have in common."""

import pickle
import warnings

import numpy as np
import pytest
from labelled_samples import as_graph, graphs, hide, images, same_models
from labellings import grid_edges
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import mlestruct
from mlestruct import BlockFrankWolfe, GraphCRF, GridCRF

RING = np.stack([np.arange(6), (np.arange(6) + 1) % 6], axis=1)


NODES = np.random.default_rng(0).normal(size=(6, 2))


STATES = np.arange(6) % 2


FINE = {"tol": 1e-9, "alpha": 0.5}


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("neighbours", [4, 8])
def test_a_grid_is_a_graph(n_states, neighbours):
    X, Y = images(3, (3, 4), n_states)
    rho = 0.5 if neighbours == 4 else "auto"
    one = GridCRF(neighbours=neighbours, **FINE).fit(X, Y)
    inputs, labels = [as_graph(x, neighbours) for x in X], [y.ravel() for y in Y]
    two = GraphCRF(rho=rho, **FINE).fit(inputs, labels)
    same_models(one, two)
    for a, b in zip(one.predict(X), two.predict(inputs), strict=True):
        np.testing.assert_array_equal(a.ravel(), b)
    marginals = one.predict_marginals(X, tol=1e-9), two.predict_marginals(inputs, tol=1e-9)
    for a, b in zip(*marginals, strict=True):
        np.testing.assert_allclose(a.reshape(12, -1), b, atol=1e-3)


@pytest.mark.parametrize("neighbours", [4, 8])
def test_edge_features_of_grids(neighbours):
    X, Y = images(3, (3, 4))
    rng = np.random.default_rng(0)
    sizes = [(3, 3), (2, 4), (2, 3), (2, 3)][: neighbours // 2]
    pairs = [[rng.normal(size=(*size, 2)) for size in sizes] for _ in X]
    inputs = list(zip(X, pairs, strict=True))
    one = GridCRF(neighbours=neighbours, **FINE).fit(inputs, Y)
    rows = [np.concatenate([part.reshape(-1, 2) for part in parts]) for parts in pairs]
    graph = [
        (x.reshape(12, -1), grid_edges(3, 4, neighbours), v) for x, v in zip(X, rows, strict=True)
    ]
    rho = 0.5 if neighbours == 4 else "auto"
    same_models(one, GraphCRF(rho=rho, **FINE).fit(graph, [y.ravel() for y in Y]))


def test_single_precision_and_sparse_features_learn_the_same():
    X, Y = images()
    dense = GridCRF(alpha=1.0, tol=1e-6).fit(X, Y)
    single = GridCRF(alpha=1.0, tol=1e-6).fit([x.astype(np.float32) for x in X], Y)
    np.testing.assert_allclose(single.coef_, dense.coef_, atol=5e-3)
    X, Y = graphs(edge_features=2)
    dense = GraphCRF(**FINE).fit(X, Y)
    stored = [(sparse.csr_array(u), e, sparse.csr_matrix(v)) for u, e, v in X]
    same_models(GraphCRF(**FINE).fit(stored, Y), dense, 1e-5)


def test_states_that_do_not_occur():
    X, Y = images()
    gap = [2 * y for y in Y]  # 0 and 2
    model = GridCRF(**FINE).fit(X, gap)
    assert model.classes_.tolist() == [0, 2]
    assert model.node_coef_.shape == (2, 2)
    more = GridCRF(**FINE).fit(X, gap, classes=[0, 1, 2, 3])
    assert more.predict_marginals(X)[0].shape == (4, 5, 4)
    sample = np.ones((3, 1)), RING[:2]
    only = GraphCRF().fit([sample], [np.zeros(3, dtype=int)], classes=[0, 1])
    assert only.predict([sample])[0].tolist() == [0, 0, 0]


def test_masked_pixels():
    X, Y = images(3, (3, 4))
    Y[1] = hide(Y[1], np.arange(12).reshape(3, 4) > 5)
    model = GridCRF(rho=0.5, **FINE).fit(X, Y)
    inputs = [as_graph(x) for x in X]
    same_models(model, GraphCRF(rho=0.5, **FINE).fit(inputs, [y.ravel() for y in Y]))
    names = np.array(["a", "b", None], dtype=object)
    named = [names[np.nan_to_num(y, nan=2.0).astype(int)] for y in Y]
    same_models(model, GridCRF(rho=0.5, **FINE).fit(X, named), 1e-6)


@pytest.mark.parametrize("n_states", [2, 3])
def test_save_and_load(tmp_path, n_states):
    X, Y = images(n_states=n_states)
    names = np.array(["a", "b", "c"])
    inputs, graph_labels = graphs(n_states=n_states, edge_features=2)
    cases = [
        (GridCRF(neighbours=8, edge_weights="potts"), X, [names[y] for y in Y]),
        (GridCRF(solver=BlockFrankWolfe(), max_iter=5), X, Y),
        (GraphCRF(alpha=2.0), inputs, graph_labels),
        (GraphCRF(rho=np.full(6, 0.5)), [(NODES, RING)], [STATES]),
    ]
    for model, samples, labels in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(samples, labels)
        model.save(tmp_path / "model.mls")
        again = mlestruct.load(tmp_path / "model.mls")
        assert type(again) is type(model)
        np.testing.assert_array_equal(again.coef_, model.coef_)
        np.testing.assert_array_equal(again.edge_coef_, model.edge_coef_)
        assert again.classes_.tolist() == model.classes_.tolist()
        assert again.named_coef() == model.named_coef()
        for a, b in zip(again.predict(samples), model.predict(samples), strict=True):
            np.testing.assert_array_equal(a, b)
        for a, b in zip(
            again.predict_marginals(samples), model.predict_marginals(samples), strict=True
        ):
            np.testing.assert_array_equal(a, b)
        assert again.score(samples, labels) == model.score(samples, labels)


def test_clone_parameters_pickles_and_unfitted_models():
    X, Y = images(2)
    for kind in (GridCRF, GraphCRF):
        model = kind(alpha=3.0, rho=0.4, solver=BlockFrankWolfe(step="fixed"))
        copy = clone(model)
        assert copy.get_params() == model.get_params()
        assert copy.set_params(alpha=1.0).alpha == 1.0
        with pytest.raises(NotFittedError):
            copy.predict(X)
        with pytest.raises(NotFittedError):
            _ = copy.node_coef_
    fitted = GridCRF().fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X)[0], fitted.predict(X)[0])
    assert not hasattr(clone(fitted), "coef_")


# ---------------------------------------------------------------------- bad input
GOOD_IMAGES, GOOD_LABELS = images(2, (2, 3))


def test_predictions_check_the_number_of_features():
    model = GridCRF().fit(GOOD_IMAGES, GOOD_LABELS)
    with pytest.raises(ValueError, match=r"X\[0\] has 3 node features, expected 2"):
        model.predict([np.ones((2, 3, 3))])
    graph = GraphCRF().fit([(NODES, RING)], [STATES])
    with pytest.raises(ValueError, match=r"X\[0\] has 1 edge features, expected none"):
        graph.predict_marginals([(NODES, RING, np.ones((6, 1)))])
    with pytest.raises(ValueError, match=r"Y\[0\]: expected shape \(6,\)"):
        graph.score([(NODES, RING)], [STATES[:5]])
    with pytest.raises(ValueError, match=r"Y\[0\]: expected shape \(6,\)"):
        graph.log_likelihood_bounds([(NODES, RING)], [STATES[:5]])
