"""GridCRF as a scikit-learn estimator."""

import warnings
from itertools import product

import numpy as np
import pytest
from labelled_samples import as_graph, exact_log_likelihood, hide, images, same_models
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from mlestruct import BlockFrankWolfe, FrankWolfe, GridCRF, load

FINE = {"tol": 1e-9, "alpha": 0.5}


# ---------------------------------------------------------------------- shapes and attributes
@pytest.mark.parametrize("n_states", [2, 3])
def test_grid_shapes_and_attributes(n_states):
    X, Y = images(n_states=n_states)
    X.append(X[0][:2, :3])
    Y.append(Y[0][:2, :3])  # sizes may differ
    model = GridCRF(fit_intercept=False, alpha=1.0, tol=1e-5).fit(X, Y)
    assert model.converged_
    assert model.duality_gap_ <= 1e-5 * max(1, abs(model.objective_))
    assert model.solver_ == "lbfgs"
    assert model.node_coef_.shape == (n_states, 2)
    assert model.edge_coef_.shape == (n_states, n_states, 1)
    assert model.coef_.shape == (2 * n_states + n_states**2,)
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


def test_feature_names():
    X, Y = images()
    model = GridCRF(fit_intercept=False).fit(X, Y)
    nodes = ["0:red", "0:green", "1:red", "1:green"]
    assert list(model.named_coef(["red", "green"])) == [*nodes, "0->0", "0->1", "1->0", "1->1"]
    with pytest.raises(ValueError, match="`names` must hold 2 different names"):
        model.named_coef(["red"])


def test_edge_features_in_one_matrix_or_by_direction():
    X, Y = images(3, (3, 4))
    rng = np.random.default_rng(0)
    right, down = ([rng.normal(size=(*size, 2)) for _ in X] for size in ((3, 3), (2, 4)))
    pairs = list(zip(right, down, strict=True))
    tables = [np.concatenate([a.reshape(9, 2), b.reshape(8, 2)]) for a, b in pairs]
    one = GridCRF(**FINE).fit(list(zip(X, pairs, strict=True)), Y)
    assert one.edge_coef_.shape == (2, 2, 2)
    for edges in (tables, [sparse.csr_array(table) for table in tables]):
        same_models(GridCRF(**FINE).fit(list(zip(X, edges, strict=True)), Y), one, 1e-5)


# ---------------------------------------------------------------------- odd graphs and images
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("neighbours", [4, 8])
def test_thin_images_are_exact_chains(shape, neighbours):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(*shape, 2)) for _ in range(6)]
    Y = [rng.integers(2, size=shape) for _ in X]
    Y[0].flat[0] = 1
    model = GridCRF(fit_intercept=False, neighbours=neighbours, **FINE).fit(X, Y)
    assert model.converged_
    lower, upper = model.log_likelihood_bounds(X, Y)
    for m, (x, y) in enumerate(zip(X, Y, strict=True)):
        exact = exact_log_likelihood(model, as_graph(x, neighbours), y.ravel())
        assert lower[m] == pytest.approx(exact, abs=1e-5)
        assert upper[m] == pytest.approx(exact, abs=1e-5)
        assert model.predict([x])[0].shape == shape
    total = upper.sum() - 0.25 * model.coef_ @ model.coef_
    assert total == pytest.approx(model.objective_bound_, abs=1e-4)


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


def test_wholly_masked_samples_are_skipped():
    X, Y = images()
    hidden = np.full(Y[0].shape, np.nan)
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
    model = GridCRF(fit_intercept=False, tol=1e-8)
    path = model.fit_path(X, Y, [0.1, 10.0, 1.0])
    assert path.alphas == [10.0, 1.0, 0.1]
    assert not hasattr(model, "coef_")
    assert path.coefs.shape == (3, 8)
    for alpha, fitted in zip(path.alphas, path.estimators, strict=True):
        same_models(fitted, clone(model).set_params(alpha=alpha).fit(X, Y), 1e-2)
        assert fitted.predict(X)[0].shape == (4, 5)
    assert path.best(X, Y).score(X, Y) == max(f.score(X, Y) for f in path.estimators)


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
    first = GridCRF(tol=1e-6).fit(X, Y)
    model = GridCRF(tol=1e-6).fit(X, Y, start=first)
    assert model.n_oracle_calls_ < first.n_oracle_calls_
    np.testing.assert_allclose(model.coef_, first.coef_, atol=1e-2)
    other, labels = images(shape=(3, 3))
    cold = GridCRF(tol=1e-6).fit(other, labels)
    warm = GridCRF(tol=1e-6).fit(other, labels, start=model)
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-2)
    with pytest.raises(ValueError, match="`start` has other classes or features"):
        GridCRF().fit([x[..., :1] for x in X], Y, start=first)


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("solver", [FrankWolfe(), BlockFrankWolfe()])
def test_paper_algorithms_enclose_the_same_optimum(solver, n_states):
    X, Y = images(3, (3, 3), n_states)
    reference = GridCRF(tol=1e-8).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GridCRF(solver=solver, tol=0.05, max_iter=60, random_state=0).fit(X, Y)
    assert model.objective_bound_ >= reference.objective_ - 1e-8
    assert model.objective_ <= reference.objective_bound_ + 1e-8


# ---------------------------------------------------------------------- bounds
@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("rho", ["auto", 0.4])
def test_log_likelihood_bounds_enclose_the_exact_value(n_states, rho):
    shape = (3, 3) if n_states == 2 else (2, 3)
    X, Y = images(5, shape, n_states)
    model = GridCRF(fit_intercept=False, alpha=0.05, rho=rho).fit(X, Y)
    lower, upper = model.log_likelihood_bounds(X, Y)
    assert (upper <= 0).all()
    for m, (x, y) in enumerate(zip(X, Y, strict=True)):
        exact = exact_log_likelihood(model, as_graph(x), y.ravel())
        assert lower[m] - 1e-7 <= exact <= upper[m] + 1e-7
    # The approximate likelihood is the lower one, and cannot beat the optimum.
    total = lower.sum() - 0.025 * model.coef_ @ model.coef_
    assert total <= model.objective_bound_ + 1e-6
    assert total >= model.objective_ - 1e-3


def test_bounds_of_trees_hold_for_any_rho():
    X, Y = images(5, (1, 6))
    for rho in (0.5, 0.9):
        model = GridCRF(fit_intercept=False, alpha=0.05, rho=rho).fit(X, Y)
        lower, upper = model.log_likelihood_bounds(X, Y)
        for m, (x, y) in enumerate(zip(X, Y, strict=True)):
            exact = exact_log_likelihood(model, as_graph(x), y.ravel())
            assert lower[m] - 1e-7 <= exact <= upper[m] + 1e-7


# ---------------------------------------------------------------------- bad input
GOOD_IMAGES, GOOD_LABELS = images(2, (2, 3))


def with_value(value):
    x = GOOD_IMAGES[0].copy()
    x[1, 2, 0] = value
    return [x, GOOD_IMAGES[1]]


def with_edges(right, down, value=1.0):
    return [(GOOD_IMAGES[0], [np.full(right, value), np.ones(down)])]


RIGHT, DOWN = (rf"X\[0\]: edge features of direction {name}" for name in ("right", "down"))
TOO_FEW = [sparse.csr_array(np.ones((1, 1))), sparse.csr_array(np.ones((3, 1)))]


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        ([], [], "X is empty"),
        (None, GOOD_LABELS, "X: expected a sequence"),
        (GOOD_IMAGES, GOOD_LABELS[:1], "X has 2 samples but Y has 1"),
        (with_value(np.nan), GOOD_LABELS, r"X\[0\]: found nan at"),
        (with_value(-np.inf), GOOD_LABELS, r"X\[0\]: found -inf at"),
        ([np.zeros((2, 3, 1, 1)), GOOD_IMAGES[1]], GOOD_LABELS, r"X\[0\]: expected a non-empty"),
        ([GOOD_IMAGES[0], np.zeros((0, 3, 2))], GOOD_LABELS, r"X\[1\]: expected a non-empty"),
        ([GOOD_IMAGES[0], np.ones((2, 3, 5))], GOOD_LABELS, r"X\[1\] has 5 node features"),
        (["ab", "cd"], GOOD_LABELS, r"X\[0\]: expected numbers"),
        ([(GOOD_IMAGES[0], 1, 2)], GOOD_LABELS[:1], r"X\[0\]: .* got 3 parts"),
        ([(GOOD_IMAGES[0], [np.ones((2, 2, 1))])], GOOD_LABELS[:1], r"features of 2 directions"),
        (
            [(GOOD_IMAGES[0], np.ones((2, 2)))],
            GOOD_LABELS[:1],
            "have 2 rows, but there are 7 edges",
        ),
        (with_edges((2, 2, 1), (2, 3, 1)), GOOD_LABELS[:1], rf"{DOWN}: expected shape \(1, 3, D\)"),
        (with_edges((2, 2, 1), (1, 3, 1), np.nan), GOOD_LABELS[:1], "edge features: found nan at"),
        ([(GOOD_IMAGES[0], TOO_FEW)], GOOD_LABELS[:1], rf"{RIGHT}: expected shape \(2, 2, D\)"),
        (
            [GOOD_IMAGES[0], *with_edges((2, 2, 3), (1, 3, 3))],
            GOOD_LABELS,
            r"X\[1\] has 3 edge features, expected none",
        ),
        (with_edges((2, 2, 1), (1, 3, 3)), GOOD_LABELS[:1], r"directions have \[1, 3\] edge fea"),
        (GOOD_IMAGES, [GOOD_LABELS[0], GOOD_LABELS[1].T], r"Y\[1\]: expected shape \(2, 3\)"),
        (GOOD_IMAGES, [GOOD_LABELS[0], GOOD_LABELS[1] + 0.5], r"Y\[1\]: found"),
        (GOOD_IMAGES, [0 * y for y in GOOD_LABELS], "only the label 0"),
        (
            GOOD_IMAGES,
            [GOOD_LABELS[0], GOOD_LABELS[1].astype(str)],
            r"Y\[0\]: found 0 at position \(0, 0\); labels must be all strings",
        ),
    ],
)
def test_bad_images(X, Y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GridCRF().fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rho": "half"}, r"X\[0\]: rho: expected 'auto'"),
        ({"rho": 0.0}, r"X\[0\]: rho: every edge needs a weight from"),
        ({"rho": np.nan}, r"X\[0\]: rho: .* found nan"),
        ({"rho": 1.5}, r"X\[0\]: rho: .* found 1.5"),
        ({"neighbours": 6}, "`neighbours` must be 4 or 8; got 6"),
        ({"edge_weights": "tied"}, "`edge_weights` must be 'full', 'symmetric' or 'potts'"),
        ({"solver": "lbfgs"}, "`solver` must be None or an object"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        GridCRF(**parameters).fit(GOOD_IMAGES, GOOD_LABELS)


def test_unconverged_fits_warn():
    X, Y = images()
    with pytest.warns(ConvergenceWarning, match="relative gap"):
        model = GridCRF(max_iter=1, tol=1e-12).fit(X, Y)
    assert not model.converged_
    assert model.duality_gap_ > 0


# ---------------------------------------------------------------------- what newcomers do
@pytest.mark.parametrize("pair", [(-1, 1), (1, 2), (0, 255), (-3, -2), ("no", "yes")])
def test_any_two_labels_learn_the_same(pair):
    X, Y = images(3, (4, 4))
    plain = GridCRF(tol=1e-8).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GridCRF(tol=1e-8).fit(X, [np.array(pair)[y] for y in Y])
    assert model.classes_.tolist() == list(pair)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-6)
    for found, expected in zip(model.predict(X), plain.predict(X), strict=True):
        np.testing.assert_array_equal(found, np.array(pair)[expected])
    assert model.score(X, [np.array(pair)[y] for y in Y]) == plain.score(X, Y)


def test_none_and_nan_are_labels_that_are_not_known(tmp_path):
    X, Y = images(3, (4, 4))
    half = np.arange(4) < 2
    halves = [hide(y, half) for y in Y]
    model = GridCRF(tol=1e-8).fit(X, halves)
    names = np.array(["a", "b", None], dtype=object)
    same_models(GridCRF(tol=1e-8).fit(X, [names[np.where(half, 2, y)] for y in Y]), model, 1e-6)
    events = model.events(X, halves)
    assert events.happened.size == 3 * 2 * 4 * 2
    np.testing.assert_array_equal(events.happened.reshape(-1, 2).argmax(axis=1),
                                  np.concatenate([y[:, 2:].ravel() for y in Y]))  # fmt: skip
    model.save(tmp_path / "model.mls")
    assert load(tmp_path / "model.mls").score(X, halves) == model.score(X, halves)
    with pytest.warns(UserWarning, match="-1 is a class like 0, 1, ...; give None or NaN"):
        signs = GridCRF().fit(X, [np.where(half, -1, y) for y in Y])
    assert signs.classes_.tolist() == [-1, 0, 1]


def test_outside_the_polytope_nothing_is_certified():
    X, Y = images(4, (5, 5))
    with pytest.warns(UserWarning, match="spanning-tree polytope"):
        model = GridCRF(alpha=1.0, rho=0.8, max_iter=200).fit(X, Y)
    gaps = np.array(model.history_.objective_bound) - np.array(model.history_.objective)
    assert (gaps >= 0.0).all()
    assert model.duality_gap_ > 0.0


def test_scattered_masks_warn_and_contiguous_ones_do_not():
    X, Y = images(3, (8, 8))
    rng = np.random.default_rng(0)
    scattered = [hide(y, rng.random(y.shape) < 0.4) for y in Y]
    with pytest.warns(UserWarning, match="scattered"):
        GridCRF().fit(X, scattered)
    halves = [hide(y, np.arange(8) < 4) for y in Y]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GridCRF().fit(X, halves)


def test_single_precision_loses_nothing_but_storage():
    X, Y = images(5, (6, 6), n_states=3)
    single = [x.astype(np.float32) for x in X]
    double = [x.astype(np.float64) for x in single]
    a, b = (GridCRF(tol=1e-9, alpha=0.5).fit(x, Y) for x in (single, double))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)


@pytest.mark.parametrize("n_states", [2, 3])
def test_predictions_come_with_a_proven_gap(n_states):
    X, Y = images(4, (3, 3), n_states)
    model = GridCRF(fit_intercept=False, alpha=0.1).fit(X, Y)
    labels, gaps = model.predict(X, return_gap=True)
    every = list(product(range(n_states), repeat=9))
    for x, label, gap in zip(X, labels, gaps, strict=True):
        candidates = [np.reshape(states, (3, 3)) for states in every]
        best = score_of(model, x, candidates).max()
        assert gap >= 0.0
        assert best - score_of(model, x, [label])[0] <= gap + 1e-8


def score_of(model, x, candidates):
    """Scores of labellings from the weights."""
    totals = []
    for y in candidates:
        nodes = np.einsum("ijc,ijc->", x, model.node_coef_[y])
        across = model.edge_coef_[y[:, :-1], y[:, 1:], 0].sum()
        totals.append(nodes + across + model.edge_coef_[y[:-1], y[1:], 0].sum())
    return np.array(totals)


def test_grey_values_are_one_feature_and_pictures_are_refused():
    rng = np.random.default_rng(0)
    masks = [np.kron(rng.integers(2, size=(3, 4)), np.ones((3, 3), int)) for _ in range(6)]
    grey = [y + rng.normal(size=y.shape) for y in masks]
    plain = GridCRF(tol=1e-6).fit([x[:, :, None] for x in grey], masks)
    for X in (grey, [(x, None) for x in grey]):
        np.testing.assert_allclose(GridCRF(tol=1e-6).fit(X, masks).coef_, plain.coef_)
    image = pytest.importorskip("PIL.Image").fromarray(np.zeros((9, 12), np.uint8))
    with pytest.raises(TypeError, match=r"X\[0\]: a PIL image. Pass np.asarray"):
        plain.predict([image])
