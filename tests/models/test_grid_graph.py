"""GridCRF and GraphCRF as scikit-learn estimators, against enumeration and each other."""

import pickle
import warnings

import numpy as np
import pytest
from labellings import Labellings, grid_edges, random_edges
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import mlestruct
from mlestruct import BlockFrankWolfe, GraphCRF, GridCRF, MissingCapability
from mlestruct.features import Levels

RING = np.stack([np.arange(6), (np.arange(6) + 1) % 6], axis=1)
NODES = np.random.default_rng(0).normal(size=(6, 2))
STATES = np.arange(6) % 2
FINE = {"tol": 1e-9, "alpha": 0.5}


def images(n_images=4, shape=(4, 5), n_states=2, n_features=2, noise=1.0, seed=0):
    """Noisy images of patches and their labels."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n_images):
        patches = rng.integers(n_states, size=(-(-shape[0] // 2), -(-shape[1] // 2)))
        y = np.kron(patches, np.ones((2, 2), dtype=int))[: shape[0], : shape[1]]
        x = noise * rng.normal(size=(*shape, n_features))
        x[..., 0] += y
        X.append(x)
        Y.append(y)
    Y[0].flat[:n_states] = np.arange(n_states)[: Y[0].size]  # every state occurs
    return X, Y


def graphs(n_graphs=5, n_states=2, edge_features=None, seed=0, n_nodes=6, density=0.5):
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n_graphs):
        y = rng.integers(n_states, size=n_nodes)
        y[:n_states] = np.arange(n_states)
        edges = random_edges(rng, n_nodes, density)
        x = (np.eye(n_states)[y] + rng.normal(size=(n_nodes, n_states)), edges)
        if edge_features:
            x += (rng.normal(size=(len(edges), edge_features)),)
        X.append(x)
        Y.append(y)
    return X, Y


def as_graph(x, neighbours=4):
    """An image without edge features as a graph with a feature per direction."""
    height, width = x.shape[:2]
    edges = grid_edges(height, width, neighbours)
    sizes = [height * (width - 1), (height - 1) * width] + 2 * [(height - 1) * (width - 1)]
    sizes = sizes[: neighbours // 2]
    return x.reshape(height * width, -1), edges, np.repeat(np.eye(len(sizes)), sizes, axis=0)


def exact_log_likelihood(model, x, y):
    """log p(y | x) of a graph sample by enumeration, from the documented formula."""
    nodes, edges = x[0], np.asarray(x[1], dtype=int).reshape(-1, 2)
    pairs = x[2] if len(x) == 3 else np.ones((len(edges), 1))
    n_states = len(model.classes_)
    space = Labellings(len(nodes), edges, n_states)
    scores = np.concatenate(
        [
            (nodes @ model.node_coef_.T).ravel(),
            np.einsum("ed,std->est", pairs, model.edge_coef_).ravel(),
        ]
    )
    totals = space.vertices @ scores
    return space.point(np.asarray(y)[None])[0] @ scores - logsumexp(totals)


def same_models(one, two, atol=1e-3):
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(one.coef_, two.coef_, atol=atol)


# ---------------------------------------------------------------------- shapes and attributes
@pytest.mark.parametrize("n_states", [2, 3])
def test_grid_shapes_and_attributes(n_states):
    X, Y = images(n_states=n_states)
    X.append(X[0][:2, :3])
    Y.append(Y[0][:2, :3])  # sizes may differ
    model = GridCRF(alpha=1.0, tol=1e-5).fit(X, Y)
    assert model.converged_
    assert model.duality_gap_ <= 1e-5 * max(1, abs(model.objective_))
    assert model.solver_ == "lbfgs"
    assert model.node_coef_.shape == (n_states, 2)
    assert model.edge_coef_.shape == (n_states, n_states, 2)
    assert model.coef_.shape == (2 * n_states + 2 * n_states**2,)
    assert model.classes_.tolist() == list(range(n_states))
    assert model.n_features_in_ == 2
    assert len(model.named_coef()) == len(model.coef_)
    assert model.history_.to_frame().shape[1] == 7
    for y, found, table in zip(Y, model.predict(X), model.predict_marginals(X), strict=True):
        assert found.shape == y.shape
        assert table.shape == (*y.shape, n_states)
        np.testing.assert_allclose(table.sum(axis=-1), 1.0, atol=1e-12)
        assert table.min() >= 0
    assert 0.5 < model.score(X, Y) <= 1.0
    expected = np.mean([np.mean(p == y) for p, y in zip(model.predict(X), Y, strict=True)])
    assert model.score(X, Y) == pytest.approx(expected)


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


def test_feature_names():
    X, Y = images()
    model = GridCRF(feature_names=["red", "green"]).fit(X, Y)
    assert list(model.named_coef())[:4] == ["0:red", "0:green", "1:red", "1:green"]
    assert "0->1:right" in model.named_coef()
    assert GridCRF(per_direction=False).fit(X, Y).named_coef().keys() >= {"0->0", "1->0"}
    with pytest.raises(ValueError, match="feature_names: expected 2 names, got 1"):
        GridCRF(feature_names=["red"]).fit(X, Y)


# ---------------------------------------------------------------------- what is learned
def test_without_edges_it_is_logistic_regression():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.integers(3, size=40)
    model = GraphCRF(alpha=2.0, tol=1e-10).fit([(x, np.zeros((0, 2)))], [y])
    expected = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(x, y)
    np.testing.assert_allclose(model.node_coef_, expected.coef_, atol=1e-4)
    np.testing.assert_allclose(model.edge_coef_, 0.0, atol=1e-9)
    np.testing.assert_allclose(
        model.predict_marginals([(x, np.zeros((0, 2)))], tol=1e-9)[0],
        expected.predict_proba(x),
        atol=1e-4,
    )


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("neighbours", [4, 8])
def test_a_grid_is_a_graph(n_states, neighbours):
    X, Y = images(3, (3, 4), n_states)
    rho = 0.5 if neighbours == 4 else "uniform"
    one = GridCRF(neighbours=neighbours, **FINE).fit(X, Y)
    inputs, labels = [as_graph(x, neighbours) for x in X], [y.ravel() for y in Y]
    two = GraphCRF(rho=rho, **FINE).fit(inputs, labels)
    same_models(one, two)
    for a, b in zip(one.predict(X), two.predict(inputs), strict=True):
        np.testing.assert_array_equal(a.ravel(), b)
    marginals = one.predict_marginals(X, tol=1e-9), two.predict_marginals(inputs, tol=1e-9)
    for a, b in zip(*marginals, strict=True):
        np.testing.assert_allclose(a.reshape(12, -1), b, atol=1e-3)


def test_directions_may_have_weights_in_common():
    X, Y = images(3, (3, 4))
    one = GridCRF(per_direction=False, **FINE).fit(X, Y)
    assert one.edge_coef_.shape == (2, 2, 1)
    inputs = [as_graph(x)[:2] for x in X]
    two = GraphCRF(rho=0.5, **FINE).fit(inputs, [y.ravel() for y in Y])
    same_models(one, two)


@pytest.mark.parametrize("neighbours", [4, 8])
@pytest.mark.parametrize("per_direction", [True, False])
def test_edge_features_of_grids(neighbours, per_direction):
    X, Y = images(3, (3, 4))
    rng = np.random.default_rng(0)
    sizes = [(3, 3), (2, 4), (2, 3), (2, 3)][: neighbours // 2]
    pairs = [[rng.normal(size=(*size, 2)) for size in sizes] for _ in X]
    inputs = list(zip(X, pairs, strict=True))
    options = {"neighbours": neighbours, "per_direction": per_direction, "rho": "uniform"}
    one = GridCRF(**options, **FINE).fit(inputs, Y)
    rows = []
    for parts in pairs:
        matrix = np.zeros((sum(a * b for a, b in sizes), 2 * len(sizes) if per_direction else 2))
        start = 0
        for k, part in enumerate(parts):
            stop = start + part.shape[0] * part.shape[1]
            columns = slice(2 * k, 2 * k + 2) if per_direction else slice(0, 2)
            matrix[start:stop, columns] = part.reshape(-1, 2)
            start = stop
        rows.append(matrix)
    graph = [
        (x.reshape(12, -1), grid_edges(3, 4, neighbours), v) for x, v in zip(X, rows, strict=True)
    ]
    same_models(one, GraphCRF(rho="uniform", **FINE).fit(graph, [y.ravel() for y in Y]))


def test_levels_are_edge_features():
    X, Y = images(3, (3, 4))
    rng = np.random.default_rng(0)
    levels = [[Levels(rng.integers(0, 3, size=(size, 1)), [2]) for size in (9, 8)] for _ in X]
    arrays = [
        [
            part.dense().reshape(shape)
            for part, shape in zip(parts, ((3, 3, 3), (2, 4, 3)), strict=True)
        ]
        for parts in levels
    ]
    one, two = (
        GridCRF(**FINE).fit(list(zip(X, pairs, strict=True)), Y) for pairs in (levels, arrays)
    )
    same_models(one, two, 1e-5)


def test_single_precision_and_sparse_features_learn_the_same():
    X, Y = images()
    dense = GridCRF(alpha=1.0, tol=1e-6).fit(X, Y)
    single = GridCRF(alpha=1.0, tol=1e-6).fit([x.astype(np.float32) for x in X], Y)
    np.testing.assert_allclose(single.coef_, dense.coef_, atol=5e-3)
    X, Y = graphs(edge_features=2)
    dense = GraphCRF(**FINE).fit(X, Y)
    stored = [(sparse.csr_array(u), e, sparse.csr_matrix(v)) for u, e, v in X]
    same_models(GraphCRF(**FINE).fit(stored, Y), dense, 1e-5)


# ---------------------------------------------------------------------- odd graphs and images
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("neighbours", [4, 8])
def test_thin_images_are_exact_chains(shape, neighbours):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(*shape, 2)) for _ in range(6)]
    Y = [rng.integers(2, size=shape) for _ in X]
    Y[0].flat[0] = 1
    model = GridCRF(neighbours=neighbours, **FINE).fit(X, Y)
    assert model.converged_
    lower, upper = model.log_likelihood_bounds(X, Y)
    for m, (x, y) in enumerate(zip(X, Y, strict=True)):
        exact = exact_log_likelihood(model, as_graph(x, neighbours), y.ravel())
        assert lower[m] == pytest.approx(exact, abs=1e-5)
        assert upper[m] == pytest.approx(exact, abs=1e-5)
        assert model.predict([x])[0].shape == shape
    total = upper.sum() - 0.25 * model.coef_ @ model.coef_
    assert total == pytest.approx(model.objective_, abs=1e-4)


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
    model = GraphCRF(**FINE).fit(inputs, labels)
    assert model.converged_
    assert [len(y) for y in model.predict(inputs)] == [8, 6, 6, 6, 1, 6]
    lower, upper = model.log_likelihood_bounds(inputs, labels)
    for m, (x, y) in enumerate(zip(inputs, labels, strict=True)):
        exact = exact_log_likelihood(model, x, y)
        assert lower[m] - 1e-6 <= exact <= upper[m] + 1e-6


@pytest.mark.parametrize("n_states", [2, 3])
def test_edges_listed_twice_add_up(n_states):
    X, Y = graphs(4, n_states, edge_features=2)
    doubled, summed = [], []
    for nodes, edges, pairs in X:
        doubled.append((nodes, np.concatenate([edges, edges]), np.concatenate([pairs, 2 * pairs])))
        summed.append((nodes, edges, 3 * pairs))
    same_models(GraphCRF(**FINE).fit(doubled, Y), GraphCRF(**FINE).fit(summed, Y))


@pytest.mark.parametrize("n_states", [2, 3])
def test_edges_listed_in_both_directions_make_weights_symmetric(n_states):
    X, Y = graphs(4, n_states)
    both = [(x[0], np.concatenate([x[1], x[1][:, ::-1]])) for x in X]
    model = GraphCRF(**FINE).fit(both, Y)
    table = model.edge_coef_[:, :, 0]
    np.testing.assert_allclose(table, table.T, atol=1e-6)
    lower, upper = model.log_likelihood_bounds(both, Y)
    for m, (x, y) in enumerate(zip(both, Y, strict=True)):
        exact = exact_log_likelihood(model, x, y)
        assert lower[m] - 1e-6 <= exact <= upper[m] + 1e-6


def test_turning_an_edge_transposes_its_weights():
    X, Y = graphs(4, 3)
    turned = [(x[0], x[1][:, ::-1]) for x in X]
    one, two = (GraphCRF(**FINE).fit(inputs, Y) for inputs in (X, turned))
    np.testing.assert_allclose(one.edge_coef_.transpose(1, 0, 2), two.edge_coef_, atol=1e-3)


# ---------------------------------------------------------------------- labels
def test_strings_are_labels():
    X, Y = images(n_states=3)
    names = np.array(["apple", "pear", "tree"])
    model = GridCRF(**FINE).fit(X, [names[y] for y in Y])
    assert model.classes_.tolist() == names.tolist()
    numbered = GridCRF(**FINE).fit(X, Y)
    same_models(model, numbered, 1e-6)
    for a, b in zip(model.predict(X), numbered.predict(X), strict=True):
        np.testing.assert_array_equal(a, names[b])
    assert model.score(X, [names[y] for y in Y]) == numbered.score(X, Y)
    assert "pear:x0" in model.named_coef()


def test_states_that_do_not_occur():
    X, Y = images()
    gap = [2 * y for y in Y]  # 0 and 2
    model = GridCRF(**FINE).fit(X, gap)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.node_coef_.shape == (3, 2)
    more = GridCRF(n_states=4, **FINE).fit(X, gap)
    assert more.predict_marginals(X)[0].shape == (4, 5, 4)
    only = GraphCRF(n_states=2).fit([(np.ones((3, 1)), RING[:2])], [np.zeros(3, dtype=int)])
    assert only.predict([(np.ones((3, 1)), RING[:2])])[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("n_states", [2, 3])
def test_masked_nodes_are_left_out(n_states):
    X, Y = graphs(4, n_states, edge_features=2)
    hidden = [np.where(np.arange(6) % 3 == m % 3, -1, y) for m, y in enumerate(Y)]
    parts, labels = [], []
    for (nodes, edges, pairs), y in zip(X, hidden, strict=True):
        kept = np.flatnonzero(y >= 0)
        number = np.full(6, -1)
        number[kept] = np.arange(len(kept))
        inside = (number[edges] >= 0).all(axis=1)
        parts.append((nodes[kept], number[edges][inside], pairs[inside]))
        labels.append(y[kept])
    one = GraphCRF(n_states=n_states, **FINE).fit(X, hidden)
    two = GraphCRF(n_states=n_states, **FINE).fit(parts, labels)
    same_models(one, two, 1e-4)
    assert [len(y) for y in one.predict(X)] == [6] * 4  # predictions cover all nodes
    np.testing.assert_allclose(
        one.log_likelihood_bounds(X, hidden), one.log_likelihood_bounds(parts, labels), atol=1e-5
    )
    known = [y[y >= 0] == found[y >= 0] for y, found in zip(hidden, one.predict(X), strict=True)]
    assert one.score(X, hidden) == pytest.approx(np.mean([k.mean() for k in known]))


def test_masked_pixels_and_repeated_edges():
    X, Y = images(3, (3, 4))
    Y[1][1, 1:] = -1
    model = GridCRF(rho=0.5, **FINE).fit(X, Y)
    inputs = [as_graph(x) for x in X]
    same_models(model, GraphCRF(rho=0.5, **FINE).fit(inputs, [y.ravel() for y in Y]))
    doubled = [(u, np.repeat(e, 2, axis=0), np.repeat(v, 2, axis=0) / 2) for u, e, v in inputs]
    same_models(model, GraphCRF(rho=0.5, **FINE).fit(doubled, [y.ravel() for y in Y]))
    names = np.array(["a", "b", None], dtype=object)
    same_models(model, GridCRF(rho=0.5, **FINE).fit(X, [names[y] for y in Y]), 1e-6)


def test_wholly_masked_samples_are_skipped():
    X, Y = images()
    hidden = np.full_like(Y[0], -1)
    one = GridCRF(**FINE).fit([*X, X[0]], [*Y, hidden])
    same_models(one, GridCRF(**FINE).fit(X, Y), 1e-6)
    lower, upper = one.log_likelihood_bounds([X[0]], [hidden])
    assert lower.tolist() == upper.tolist() == [0.0]
    with pytest.raises(ValueError, match="no label is known"):
        GridCRF().fit(X[:1], [hidden])
    with pytest.raises(ValueError, match="no sample of positive weight"):
        GridCRF().fit(X[:2], [Y[0], hidden], sample_weight=[0.0, 1.0])
    with pytest.raises(ValueError, match="no label is known"):
        one.score(X[:1], [hidden])


# ---------------------------------------------------------------------- scikit-learn habits
def test_sample_weights_equal_repetition():
    X, Y = images(3)
    weighted = GridCRF(**FINE).fit(X, Y, sample_weight=[2.0, 1.0, 0.0])
    repeated = GridCRF(**FINE).fit([X[0], X[0].copy(), X[1]], [Y[0], Y[0], Y[1]])
    same_models(weighted, repeated)


def test_path_equals_separate_fits():
    X, Y = images(3)
    model = GridCRF(tol=1e-8)
    path = model.fit_path(X, Y, [0.1, 10.0, 1.0])
    assert path.alphas == [10.0, 1.0, 0.1]
    assert not hasattr(model, "coef_")
    assert path.coefs.shape == (3, 12)
    for alpha, fitted in zip(path.alphas, path.estimators, strict=True):
        same_models(fitted, clone(model).set_params(alpha=alpha).fit(X, Y), 1e-2)
        assert fitted.predict(X)[0].shape == (4, 5)
    assert path.best(X, Y).score(X, Y) == max(f.score(X, Y) for f in path.estimators)


@pytest.mark.parametrize("n_states", [2, 3])
def test_save_and_load(tmp_path, n_states):
    X, Y = images(n_states=n_states)
    names = np.array(["a", "b", "c"])
    inputs, graph_labels = graphs(n_states=n_states, edge_features=2)
    cases = [
        (GridCRF(neighbours=8, feature_names=["u", "v"]), X, [names[y] for y in Y]),
        (GridCRF(per_direction=False, n_states=3, solver=BlockFrankWolfe(), max_iter=5), X, Y),
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
        model = kind(alpha=3.0, rho="uniform", solver=BlockFrankWolfe(sampling="gap"))
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


def test_grid_search():
    X, Y = images(6)
    search = GridSearchCV(GridCRF(), {"alpha": [0.1, 10.0]}, cv=3).fit(X, Y)
    assert search.best_params_["alpha"] in (0.1, 10.0)


def test_threads_do_not_change_the_result():
    X, Y = images(n_states=3)
    alone, threads = (GridCRF(n_jobs=jobs, tol=1e-6).fit(X, Y) for jobs in (None, 2))
    np.testing.assert_allclose(alone.coef_, threads.coef_, atol=1e-9)
    for method in ("predict", "predict_marginals"):
        for a, b in zip(getattr(alone, method)(X), getattr(threads, method)(X), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


def test_warm_start_continues():
    X, Y = images()
    model = GridCRF(tol=1e-6, warm_start=True).fit(X, Y)
    first, calls = model.coef_, model.n_oracle_calls_
    model.fit(X, Y)
    assert model.n_oracle_calls_ < calls
    np.testing.assert_allclose(model.coef_, first, atol=1e-2)
    other, labels = images(shape=(3, 3))
    cold = GridCRF(tol=1e-6).fit(other, labels)
    np.testing.assert_allclose(model.fit(other, labels).coef_, cold.coef_, atol=1e-2)


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("solver", ["fw", "bcfw"])
def test_paper_algorithms_enclose_the_same_optimum(solver, n_states):
    X, Y = images(3, (3, 3), n_states)
    reference = GridCRF(tol=1e-8).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GridCRF(solver=solver, tol=0.05, max_iter=60, random_state=0).fit(X, Y)
    assert model.objective_ >= reference.objective_ - reference.duality_gap_ - 1e-8
    assert model.objective_ - model.duality_gap_ <= reference.objective_ + 1e-8


# ---------------------------------------------------------------------- bounds
@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("rho", ["auto", "uniform", 0.4])
def test_log_likelihood_bounds_enclose_the_exact_value(n_states, rho):
    shape = (3, 3) if n_states == 2 else (2, 3)
    X, Y = images(5, shape, n_states)
    model = GridCRF(alpha=0.05, rho=rho).fit(X, Y)
    lower, upper = model.log_likelihood_bounds(X, Y)
    assert (upper <= 0).all()
    for m, (x, y) in enumerate(zip(X, Y, strict=True)):
        exact = exact_log_likelihood(model, as_graph(x), y.ravel())
        assert lower[m] - 1e-7 <= exact <= upper[m] + 1e-7
    # The approximate likelihood is the lower one, and cannot beat the optimum.
    total = lower.sum() - 0.025 * model.coef_ @ model.coef_
    assert total <= model.objective_ + 1e-6
    assert total >= model.objective_ - model.duality_gap_ - 1e-3


def test_bounds_of_trees_hold_for_any_rho():
    X, Y = images(5, (1, 6))
    for rho in (0.5, 0.9):
        model = GridCRF(alpha=0.05, rho=rho).fit(X, Y)
        lower, upper = model.log_likelihood_bounds(X, Y)
        for m, (x, y) in enumerate(zip(X, Y, strict=True)):
            exact = exact_log_likelihood(model, as_graph(x), y.ravel())
            assert lower[m] - 1e-7 <= exact <= upper[m] + 1e-7


def test_rho_outside_the_polytope_warns_and_has_no_lower_bound():
    x, y = (np.random.default_rng(0).normal(size=(6, 2)), RING), np.arange(6) % 2
    with pytest.warns(UserWarning, match="outside the spanning-tree polytope"):
        model = GraphCRF(rho=1.0).fit([x], [y])
    with pytest.warns(UserWarning, match="outside the spanning-tree polytope"):
        lower, upper = model.log_likelihood_bounds([x], [y])
    assert lower[0] == -np.inf
    assert exact_log_likelihood(model, x, y) <= upper[0] + 1e-9


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
    y = np.array([0, 1, -1, 1, 0, 1])
    one = GraphCRF(rho=rho, **FINE).fit([(x, RING)], [y])
    kept = np.array([0, 1, 3, 4, 5])
    number = np.array([0, 1, -1, 2, 3, 4])
    inside = (number[RING] >= 0).all(axis=1)
    two = GraphCRF(rho=rho[inside], **FINE).fit([(x[kept], number[RING][inside])], [y[kept]])
    same_models(one, two, 1e-4)


def test_rho_of_every_edge_goes_with_the_listed_edges():
    # The first edge is listed twice, both times with its rho.
    rng = np.random.default_rng(0)
    x, y, rho = rng.normal(size=(6, 2)), np.arange(6) % 2, rng.uniform(0.3, 0.8, 6)
    order = np.array([3, 1, 5, 0, 2, 4])
    listed = np.concatenate([order, order[:1]])
    shares = np.ones((7, 1))
    shares[[0, 6]] = 0.5
    one = GraphCRF(rho=rho[listed], **FINE).fit([(x, RING[listed], shares)], [y])
    two = GraphCRF(rho=rho, **FINE).fit([(x, RING, np.ones((6, 1)))], [y])
    same_models(one, two, 1e-4)


# ---------------------------------------------------------------------- bad input
GOOD_IMAGES, GOOD_LABELS = images(2, (2, 3))


def with_value(value):
    x = GOOD_IMAGES[0].copy()
    x[1, 2, 0] = value
    return [x, GOOD_IMAGES[1]]


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        ([], [], "X is empty"),
        (None, GOOD_LABELS, "X: expected a sequence"),
        (GOOD_IMAGES, GOOD_LABELS[:1], "X has 2 samples but Y has 1"),
        (with_value(np.nan), GOOD_LABELS, r"X\[0\]: 1 of 12 are NaN"),
        (with_value(-np.inf), GOOD_LABELS, r"X\[0\]: 1 of 12 are NaN, infinite"),
        ([np.zeros((2, 3)), GOOD_IMAGES[1]], GOOD_LABELS, r"X\[0\]: expected a non-empty array"),
        ([GOOD_IMAGES[0], np.zeros((0, 3, 2))], GOOD_LABELS, r"X\[1\]: expected a non-empty"),
        ([GOOD_IMAGES[0], np.ones((2, 3, 5))], GOOD_LABELS, r"X\[1\] has 5 node features"),
        (["ab", "cd"], GOOD_LABELS, r"X\[0\]: expected numbers"),
        ([(GOOD_IMAGES[0], 1, 2)], GOOD_LABELS[:1], r"X\[0\]: .* got 3 parts"),
        ([(GOOD_IMAGES[0], np.ones((2, 2, 1)))], GOOD_LABELS[:1], r"features of 2 directions"),
        (
            [(GOOD_IMAGES[0], [np.ones((2, 2, 1)), np.ones((2, 3, 1))])],
            GOOD_LABELS[:1],
            r"X\[0\]: edge features of direction down: expected shape \(1, 3, D\)",
        ),
        (
            [(GOOD_IMAGES[0], [np.full((2, 2, 1), np.nan), np.ones((1, 3, 1))])],
            GOOD_LABELS[:1],
            r"X\[0\]: edge features of direction right: 4 of 4 are NaN",
        ),
        (
            [(GOOD_IMAGES[0], [Levels([[1]], [1]), Levels([[1]] * 3, [1])])],
            GOOD_LABELS[:1],
            r"direction right: expected 4 rows, got 1",
        ),
        (
            [GOOD_IMAGES[0], (GOOD_IMAGES[1], [np.ones((2, 2, 3)), np.ones((1, 3, 3))])],
            GOOD_LABELS,
            r"X\[1\] has \[3, 3\] edge features by direction",
        ),
        (GOOD_IMAGES, [GOOD_LABELS[0], GOOD_LABELS[1].T], r"Y\[1\]: expected shape \(2, 3\)"),
        (GOOD_IMAGES, [GOOD_LABELS[0], GOOD_LABELS[1] + 0.5], r"Y\[1\]: found"),
        (GOOD_IMAGES, [GOOD_LABELS[0], GOOD_LABELS[1] - 5], r"Y\[1\]: found the label -"),
        (GOOD_IMAGES, [0 * y for y in GOOD_LABELS], "only the label 0"),
        (GOOD_IMAGES, [GOOD_LABELS[0], GOOD_LABELS[1].astype(str)], r"Y\[1\] holds strings"),
    ],
)
def test_bad_images(X, Y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GridCRF().fit(X, Y)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (NODES, r"X\[0\]: expected a tuple \(node_features, edges, edge_features\), got ndarray"),
        ((NODES,), r"X\[0\]: expected a tuple .*, got 1 parts"),
        ((NODES[:, 0], RING), r"X\[0\]: node_features: expected 2 dimensions"),
        ((NODES[:0], RING[:0]), r"X\[0\]: node_features has no rows"),
        ((np.where(NODES > 1, np.nan, NODES), RING), r"X\[0\]: node_features: .* NaN"),
        ((NODES.astype(str), RING), r"X\[0\]: node_features: expected numbers"),
        ((NODES, np.append(RING, [[2, 2]], 0)), r"X\[0\]: edges: edge 6 joins node 2 to itself"),
        ((NODES, RING + 1), r"X\[0\]: edges: edge 4 is \(5, 6\); nodes are 0 to 5"),
        ((NODES, RING.T), r"X\[0\]: edges: expected shape \(n_edges, 2\), got \(2, 6\)"),
        ((NODES, RING + 0.5), r"X\[0\]: edges: nodes must be integers"),
        ((NODES, RING, np.ones((5, 1))), r"X\[0\]: edge_features has 5 rows, but there are 6"),
        ((NODES, RING, np.ones(6)), r"X\[0\]: edge_features: expected 2 dimensions"),
        ((NODES, RING, np.full((6, 1), np.inf)), r"X\[0\]: edge_features: 6 of 6 are NaN, inf"),
    ],
)
def test_bad_graphs(x, message):
    with pytest.raises(ValueError, match=message):
        GraphCRF().fit([x], [STATES])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0}, "alpha must be positive"),
        ({"tol": -1.0}, "tol must be positive"),
        ({"max_iter": 0}, "max_iter must be a positive integer"),
        ({"rho": "half"}, r"X\[0\]: rho: expected 'auto'"),
        ({"rho": 0.0}, r"X\[0\]: rho: every edge needs a weight from"),
        ({"rho": np.nan}, r"X\[0\]: rho: .* found nan"),
        ({"rho": 1.5}, r"X\[0\]: rho: .* found 1.5"),
        ({"neighbours": 6}, "neighbours: expected 4 or 8, got 6"),
        ({"per_direction": "no"}, "per_direction must be True or False"),
        ({"n_states": 1}, "n_states must be at least 2"),
        ({"n_states": "2"}, "n_states must be an integer"),
        ({"solver": "sgd"}, "solver: expected 'auto'"),
        ({"solver": "newton"}, "feature_covariance"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GridCRF(**parameters).fit(GOOD_IMAGES, GOOD_LABELS)


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


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = GraphCRF().fit([(NODES, RING)], [STATES])
    before = model.predict([(NODES, RING)])[0]
    with pytest.raises(ValueError, match="node features"):
        model.fit([(NODES, RING), (np.ones((6, 3)), RING)], [np.arange(6) % 3] * 2)
    np.testing.assert_array_equal(model.predict([(NODES, RING)])[0], before)


@pytest.mark.parametrize("tol", [0.0, -1.0, np.nan])
def test_tolerances_of_predictions_are_checked(tol):
    model = GraphCRF().fit([(NODES, RING)], [STATES])
    with pytest.raises(ValueError, match="tol must be positive"):
        model.predict_marginals([(NODES, RING)], tol=tol)
    with pytest.raises(ValueError, match="tol must be positive"):
        model.log_likelihood_bounds([(NODES, RING)], [STATES], tol=tol)


def test_sparse_and_dense_samples_may_be_mixed():
    rng = np.random.default_rng(0)
    X = [
        (sparse.random(6, 2001, density=0.01, random_state=0, format="csr"), RING),
        (rng.normal(size=(6, 2001)), RING),
    ]
    for samples in (X, X[::-1]):
        assert GraphCRF().fit(samples, [STATES] * 2).converged_


def test_unconverged_fits_warn():
    X, Y = images()
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        model = GridCRF(max_iter=1, tol=1e-12).fit(X, Y)
    assert not model.converged_
    assert model.duality_gap_ > 0


# ---------------------------------------------------------------------- what newcomers do
def test_labels_that_do_not_count_states_are_refused():
    X, Y = images(2, (4, 4))
    with pytest.raises(ValueError, match=r"only 2 different labels, but the largest is 255"):
        GridCRF().fit(X, [255 * y for y in Y])
    with pytest.raises(ValueError, match=r"holds the label -3"):
        GridCRF().fit(X, [y - 3 for y in Y])


def test_outside_the_polytope_nothing_is_certified():
    X, Y = images(4, (5, 5))
    with pytest.warns(UserWarning, match="spanning-tree polytope"):
        model = GridCRF(alpha=1.0, rho=0.8, max_iter=200, max_time=20).fit(X, Y)
    gaps = np.array(model.history_.dual) - np.array(model.history_.primal)
    assert (gaps >= 0.0).all()
    assert model.duality_gap_ > 0.0


def test_scattered_masks_warn_and_contiguous_ones_do_not():
    X, Y = images(3, (8, 8))
    rng = np.random.default_rng(0)
    scattered = [np.where(rng.random(y.shape) < 0.4, -1, y) for y in Y]
    with pytest.warns(UserWarning, match="scattered"):
        GridCRF().fit(X, scattered)
    halves = [np.where(np.arange(8) < 4, -1, y) for y in Y]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GridCRF().fit(X, halves)


def test_newton_is_told_what_to_use_instead():
    X, Y = images(2, (4, 4))
    with pytest.raises(MissingCapability, match="Use solver='auto' or 'lbfgs'"):
        GridCRF(solver="newton").fit(X, Y)


def test_warm_start_is_for_the_same_graphs_only():
    # Equally many coordinates, 12 + 11 and 8 + 15, on different graphs.
    path = np.stack([np.arange(11), np.arange(1, 12)], axis=1)
    dense = np.array([(i, j) for i in range(8) for j in range(i + 1, 8)])[:15]
    rng = np.random.default_rng(0)
    other = (rng.normal(size=(8, 2)), dense), rng.integers(2, size=8)
    for solver in ("auto", "bcfw"):
        model = GraphCRF(warm_start=True, solver=solver, max_iter=200, tol=1e-3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit([(rng.normal(size=(12, 2)), path)], [rng.integers(2, size=12)])
            model.fit([other[0]], [other[1]])
        optimum = GraphCRF(tol=1e-9).fit([other[0]], [other[1]]).objective_
        assert model.objective_ >= optimum - 1e-6
        assert model.objective_ - model.duality_gap_ <= optimum + 1e-6


def test_predictions_do_not_depend_on_their_order():
    rng = np.random.default_rng(2)
    edges = np.array([(i, j) for i in range(6) for j in range(i + 1, 6)])
    Y = [rng.integers(3, size=6) for _ in range(12)]
    X = [(np.eye(3)[rng.integers(3, size=6)], edges) for _ in range(12)]
    model = GraphCRF(alpha=0.1).fit(X, Y)
    for a, b in zip(model.predict(X), model.predict(X[::-1])[::-1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_single_precision_loses_nothing_but_storage():
    X, Y = images(5, (6, 6), n_states=3)
    single = [x.astype(np.float32) for x in X]
    double = [x.astype(np.float64) for x in single]
    a, b = (GridCRF(tol=1e-9, alpha=0.5).fit(x, Y) for x in (single, double))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)


def test_directions_keep_their_widths():
    X, Y = images(2, (3, 3))
    rng = np.random.default_rng(0)
    pairs = [
        (x, (rng.normal(size=(3, 2, d)), rng.normal(size=(2, 3, 4 - d))))
        for x, d in zip(X, (1, 3), strict=True)
    ]
    with pytest.raises(ValueError, match=r"X\[1\] has \[3, 1\] edge features by direction"):
        GridCRF().fit(pairs, Y)
