"""Constants of models and standardised features, against features that are changed by hand."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from mlestruct import (
    BipartiteMatchingCRF,
    ChainCRF,
    EdgeList,
    GraphCRF,
    GridCRF,
    MatchingCRF,
    load,
)
from mlestruct.baselines import StructuredPerceptron, StructuredSVM

FINE = {"alpha": 0.5, "tol": 1e-9}
SCALES, SHIFTS = np.array([1.0, 30.0, 0.05]), np.array([0.0, -100.0, 3.0])
RING = np.stack([np.arange(6), (np.arange(6) + 1) % 6], axis=1)


def rows_of(rng, n):
    return rng.normal(size=(n, 3)) * SCALES + SHIFTS


def grids(rng):
    X = [rows_of(rng, 12).reshape(3, 4, 3) for _ in range(5)]
    return GridCRF, X, [rng.integers(2, size=(3, 4)) for _ in X], {}


def graphs(rng):
    X = [(rows_of(rng, 6), RING, rng.normal(size=(6, 2)) * [1.0, 20.0]) for _ in range(5)]
    return GraphCRF, X, [rng.integers(3, size=6) for _ in X], {}


def chains(rng):
    X = [rows_of(rng, 5) for _ in range(8)]
    return ChainCRF, X, [rng.choice(list("abc"), size=5) for _ in X], {"fit_intercept": True}


def sparse_chains(rng):
    kind, X, Y, options = chains(rng)
    return kind, [sparse.csr_array(x * (rng.random(x.shape) < 0.5)) for x in X], Y, options


LABELLINGS = pytest.mark.parametrize("make", [grids, graphs, chains, sparse_chains])


def changed(x, change):
    """The sample with `change` of its node features."""
    if isinstance(x, tuple):
        return (change(x[0]), *x[1:])
    if sparse.issparse(x):
        return change(x.toarray())
    shape = x.shape[:-1]
    return change(x.reshape(-1, x.shape[-1])).reshape(*shape, -1)


def node_rows(x):
    x = x[0] if isinstance(x, tuple) else x
    return x.toarray() if sparse.issparse(x) else x.reshape(-1, x.shape[-1])


def with_ones(x):
    return np.column_stack([x, np.ones(len(x))])


# ---------------------------------------------------------------------- constants
@LABELLINGS
def test_constants_are_those_of_a_constant_feature(make):
    kind, X, Y, options = make(np.random.default_rng(0))
    model = kind(**FINE, **options).fit(X, Y)
    extended = [changed(x, with_ones) for x in X]
    byhand = kind(**FINE, fit_intercept=False).fit(extended, Y)
    assert model.objective_ == pytest.approx(byhand.objective_bound_, abs=1e-5)
    np.testing.assert_allclose(model.coef_, byhand.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, byhand.node_coef_[:, -1], atol=1e-4)
    np.testing.assert_allclose(model.node_coef_, byhand.node_coef_[:, :-1], atol=1e-4)
    assert (byhand.intercept_ == 0.0).all()
    for found, expected in zip(
        model.predict_marginals(X), byhand.predict_marginals(extended), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-3)
    # A feature that is constant already serves as the constant.
    same = kind(**FINE, **options).fit(extended, Y)
    np.testing.assert_allclose(same.coef_, byhand.coef_, atol=1e-6)
    assert (same.intercept_ == 0.0).all()


@pytest.mark.parametrize("kind", [BipartiteMatchingCRF, MatchingCRF])
def test_pairs_have_a_constant_where_nodes_may_stay_single(kind, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(10, 6, 6, 2))
    X = list(X + X.swapaxes(1, 2))
    Y = [np.array([1, 0, 3, 2, -1, -1])] * 10
    model = kind(perfect=False, **FINE).fit(X, Y)
    extended = [np.concatenate([x, np.ones((6, 6, 1))], axis=2) for x in X]
    byhand = kind(perfect=False, fit_intercept=False, **FINE).fit(extended, Y)
    np.testing.assert_allclose(model.coef_, byhand.coef_, atol=1e-5)
    assert model.intercept_ == model.coef_[-1] == model.named_coef()["intercept"]
    assert model.n_features_in_ == 2
    again = kind(perfect=False, **FINE).fit(extended, Y)
    np.testing.assert_allclose(again.coef_, byhand.coef_, atol=1e-7)
    assert again.intercept_ == 0.0
    model.save(tmp_path / "model.mls")
    stored = load(tmp_path / "model.mls")
    np.testing.assert_array_equal(stored.predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"has 3 features, but .* was fitted with 2"):
        model.predict(extended)


def test_everybody_is_single_only_without_the_constant():
    """Distances are features below 0, staying single scores 0: a constant must say what is near."""
    rng = np.random.default_rng(2)
    left = rng.normal(size=(30, 6, 2))
    X = [-((a[:, None] - (a + 0.2 * rng.normal(size=a.shape))[None]) ** 2) for a in left]
    Y = [np.arange(6)] * 30
    model = BipartiteMatchingCRF(perfect=False).fit(X, Y)
    assert model.intercept_ > 0.0
    assert model.score(X, Y) > 0.8
    assert BipartiteMatchingCRF(perfect=False, fit_intercept=False).fit(X, Y).score(X, Y) < 0.1
    assert BipartiteMatchingCRF().fit(X, Y).coef_.shape == (2,)  # all are matched: no constant


# ---------------------------------------------------------------------- scales
@LABELLINGS
def test_standardised_features_are_those_of_a_scaler(make, tmp_path):
    kind, X, Y, options = make(np.random.default_rng(3))
    model = kind(standardize=True, **FINE, **options).fit(X, Y)
    scaler = StandardScaler().fit(np.concatenate([node_rows(x) for x in X]))
    scaled = [changed(x, scaler.transform) for x in X]
    if kind is GraphCRF:  # edge features have no constant of their own, so they are not centred
        scale = np.concatenate([x[2] for x in X]).std(axis=0)
        scaled = [(*x[:2], x[2] / scale) for x in scaled]
    byhand = kind(**FINE, **options).fit(scaled, Y)
    assert model.objective_ == pytest.approx(byhand.objective_bound_, abs=1e-5)
    np.testing.assert_allclose(model.node_coef_, byhand.node_coef_ / scaler.scale_, rtol=1e-2)
    for found, expected in zip(
        model.predict_marginals(X), byhand.predict_marginals(scaled), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=2e-3)
    model.save(tmp_path / "model.mls")
    np.testing.assert_array_equal(load(tmp_path / "model.mls").coef_, model.coef_)
    far = [changed(x, lambda rows: rows + 1e8 * scaler.scale_) for x in X]  # such as times
    moved = clone(model).set_params(tol=1e-6).fit(far, Y)
    assert moved.objective_bound_ == pytest.approx(model.objective_bound_, abs=1e-4)


@pytest.mark.parametrize("perfect", [True, False])
def test_standardised_pairs(perfect):
    tables = np.random.default_rng(4).normal(size=(6, 2, 5, 3)) * SCALES
    X = arrays = [-np.abs(a[:, None] - b[None]) for a, b in tables]
    Y = [np.random.default_rng(k).permutation(5) for k in range(6)]
    model = BipartiteMatchingCRF(perfect=perfect, standardize=True, **FINE).fit(X, Y)
    rows = np.concatenate([x.reshape(-1, 3) for x in arrays])
    scaled = [(x - rows.mean(axis=0)) / rows.std(axis=0) for x in arrays]
    byhand = BipartiteMatchingCRF(perfect=perfect, **FINE).fit(scaled, Y)
    np.testing.assert_allclose(model.coef_[:3], byhand.coef_[:3] / rows.std(axis=0), rtol=1e-3)
    for found, expected in zip(
        model.predict_marginals(X), byhand.predict_marginals(scaled), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_standardised_edge_lists():
    rng = np.random.default_rng(5)
    pairs = np.array([[i, j] for i in range(6) for j in range(i + 1, 6)])
    values = [rng.normal(size=(6, 6, 3)) * SCALES for _ in range(4)]
    values = [x + x.swapaxes(0, 1) for x in values]
    Y = [np.array([1, 0, 3, 2, 5, 4])] * 4
    arrays = MatchingCRF(standardize=True, **FINE).fit(values, Y)
    lists = [EdgeList(6, pairs, sparse.csr_array(x[pairs[:, 0], pairs[:, 1]])) for x in values]
    model = MatchingCRF(standardize=True, **FINE).fit(lists, Y)
    np.testing.assert_allclose(model.coef_, arrays.coef_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("learner", [StructuredSVM, StructuredPerceptron])
def test_learners_over_standardised_features_have_weights_in_original_units(learner):
    rng = np.random.default_rng(6)
    Y = [rng.integers(2, size=(4, 4)) for _ in range(6)]
    X = [
        np.stack([1000.0 * (y + 0.2 * rng.normal(size=y.shape)), rng.normal(size=y.shape)], axis=-1)
        for y in Y
    ]
    model = GridCRF(standardize=True, random_state=0, solver=learner()).fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert np.abs(model.node_coef_[:, 0]).max() < 0.1


# ---------------------------------------------------------------------- warnings
def test_a_feature_that_dominates_is_named():
    rng = np.random.default_rng(7)
    Y = [rng.integers(2, size=(4, 4)) for _ in range(3)]
    X = [rng.normal(size=(4, 4, 3)) * [1.0, 1.0, 5000.0] for _ in Y]
    with pytest.warns(UserWarning, match="feature 'x2' is as large as .* standardize=True"):
        GridCRF(max_iter=2).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        GridCRF(standardize=True).fit(X, Y)


def test_constant_features_warn():
    Y = [np.array([0, 1, 1, 0, 0, 1])] * 2
    with pytest.warns(UserWarning, match="every feature is constant"):
        GraphCRF().fit([(np.ones((6, 1)), RING)] * 2, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        GraphCRF().fit([(np.ones((6, 1)), RING, np.arange(6.0)[:, None])] * 2, Y)


def test_a_feature_dominates_a_single_other_one():
    rng = np.random.default_rng(0)
    Y = [rng.integers(2, size=6) for _ in range(4)]
    X = [rng.normal(size=(6, 2)) * [1e6, 1.0] for _ in Y]
    with pytest.warns(UserWarning, match="'x0' is as large as .* half of the others are at most"):
        ChainCRF(max_iter=2).fit(X, Y)
