"""Losses of score tables: exact gradients, known optima, and the marginal oracle as a reference."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression

from mlestruct import BipartiteMatchingCRF, GridCRF, PairInput, load
from mlestruct.baselines import RowSoftmax, UnrolledSinkhorn
from mlestruct.baselines import sinkhorn as sinkhorn_module
from mlestruct.baselines.pair_batches import Batch
from mlestruct.baselines.sinkhorn import sinkhorn
from mlestruct.structures import BipartiteMatching


def crf(**options):
    return BipartiteMatchingCRF(**{"tol": 1e-6, **options})


ALL = [RowSoftmax(crf()), UnrolledSinkhorn(crf())]


def noisy_pairs(n_samples=12, n=5, n_features=3, noise=0.6, seed=0, n_cols=None):
    """Points and noisy copies of some of them, shuffled; features are squared differences."""
    rng = np.random.default_rng(seed)
    n_cols = n_cols or n
    X, Y = [], []
    for _ in range(n_samples):
        points = rng.normal(size=(max(n, n_cols), n_features))
        order = rng.permutation(n_cols)
        partner = np.full(n, -1)
        shared = rng.permutation(n)[: min(n, n_cols)]
        partner[shared] = order[: shared.shape[0]]
        left, right = points[:n], rng.normal(size=(n_cols, n_features))
        right[partner[shared]] = left[shared] + noise * rng.normal(size=(len(shared), n_features))
        X.append(-((left[:, None] - right[None]) ** 2))
        Y.append(partner)
    return X, Y


def random_batch(shape, seed=0):
    """A batch with random observed matchings; the features play no part."""
    rng = np.random.default_rng(seed)
    n_samples, n_rows, n_cols = shape
    smaller = min(n_rows, n_cols)
    observed = np.zeros(shape)
    for m in range(n_samples):
        rows, cols = rng.permutation(n_rows)[:smaller], rng.permutation(n_cols)[:smaller]
        observed[m, rows, cols] = rng.uniform(0.5, 2.0)
    return Batch(np.zeros((observed.size, 1)), observed)


def finite_differences(function, at, step=1e-5):
    out = np.empty(at.size)
    for k in range(at.size):
        ahead, back = at.copy(), at.copy()
        ahead.flat[k] += step
        back.flat[k] -= step
        out[k] = (function(ahead) - function(back)) / (2 * step)
    return out.reshape(at.shape)


def oracle(scores, rho):
    structure = BipartiteMatching(scores.shape, rho)
    padded = np.zeros(structure.n_coordinates)
    padded[: scores.size] = scores.ravel()
    found = structure.marginals(padded, tol=1e-11)
    return structure.graph.dense(found.tau[: structure.n_scored]), found.value


# ---------------------------------------------------------------------- gradients
@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 3, 5), (2, 5, 3), (2, 1, 1)])
@pytest.mark.parametrize(
    "model",
    [
        RowSoftmax(crf()),
        UnrolledSinkhorn(crf(), n_steps=1),
        UnrolledSinkhorn(crf(), n_steps=20),
    ],
    ids=str,
)
def test_gradient_equals_finite_differences(model, shape):
    loss = model._score_loss(random_batch(shape))
    scores = 1.5 * np.random.default_rng(1).normal(size=shape)
    numeric = finite_differences(lambda at: loss(at)[0], scores)
    np.testing.assert_allclose(loss(scores)[1], numeric, atol=2e-7)


def test_sinkhorn_with_logs_agrees_with_scaling(monkeypatch):
    batch = random_batch((3, 6, 6))
    scores = 3.0 * np.random.default_rng(2).normal(size=batch.observed.shape)
    loss = UnrolledSinkhorn(crf(), n_steps=20)._score_loss(batch)
    value, gradient = loss(scores)
    monkeypatch.setattr(sinkhorn_module, "SCALING_SPREAD", 0.0)
    value_logs, gradient_logs = loss(scores)
    assert value == pytest.approx(value_logs, rel=1e-12)
    np.testing.assert_allclose(gradient, gradient_logs, atol=1e-12)


def test_sinkhorn_survives_scores_beyond_the_range_of_exponentials():
    batch = random_batch((3, 4, 4))
    scores = np.random.default_rng(3).normal(size=batch.observed.shape)
    scores[1] *= 2000.0
    loss = UnrolledSinkhorn(crf(), n_steps=5)._score_loss(batch)
    value, gradient = loss(scores)
    assert np.isfinite(value)
    numeric = finite_differences(lambda at: loss(at)[0], scores)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)


# ---------------------------------------------------------------------- row softmax
def test_row_softmax_with_two_columns_is_logistic_regression():
    X, Y = noisy_pairs(n_samples=15, n=2, noise=1.0)
    model = RowSoftmax(crf(alpha=0.7, tol=1e-14)).fit(X, Y)
    differences = np.concatenate([x[:, 1] - x[:, 0] for x in X])
    reference = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-10, max_iter=1000)
    reference.fit(differences, np.concatenate(Y))
    np.testing.assert_allclose(model.coef_, reference.coef_[0], rtol=1e-5)


def test_row_softmax_finds_the_optimum_of_the_plain_formula():
    X, Y = noisy_pairs(n_samples=4, n=3, n_features=2, noise=1.0)

    def plain(theta):
        loss = 0.5 * 2.0 * theta @ theta
        for x, y in zip(X, Y, strict=True):
            for i, row in enumerate(x @ theta):
                loss -= np.log(np.exp(row[y[i]]) / np.exp(row).sum())
        return loss

    reference = minimize(plain, np.zeros(2), method="Nelder-Mead", tol=1e-10)
    model = RowSoftmax(crf(alpha=2.0, tol=1e-12)).fit(X, Y)
    assert model.objective_ == pytest.approx(reference.fun, rel=1e-9)
    np.testing.assert_allclose(model.coef_, reference.x, atol=1e-5)
    assert np.allclose([P.sum(axis=1) for P in model.predict_marginals(X)], 1.0)


# ---------------------------------------------------------------------- Sinkhorn
def test_sinkhorn_becomes_doubly_stochastic():
    scores = 2.0 * np.random.default_rng(0).normal(size=(8, 8))
    P = sinkhorn(scores, 2000)
    np.testing.assert_allclose(P.sum(axis=0), 1.0, atol=1e-12)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-8)
    # the fixed point is the reweighted model with rho = 1/2
    np.testing.assert_allclose(P, oracle(scores, 0.5)[0], atol=1e-6)


def test_sinkhorn_of_a_rectangle_leaves_columns_free():
    P = sinkhorn(np.random.default_rng(0).normal(size=(3, 5)), 500)
    assert P.shape == (3, 5)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-8)
    assert (P.sum(axis=0) < 1.0).all()


# ---------------------------------------------------------------------- scikit-learn, files
@pytest.mark.parametrize("model", ALL, ids=str)
def test_learns_and_reports(model):
    X, Y = noisy_pairs(n_samples=20, noise=0.2)
    fitted = clone(model).fit(X, Y)
    assert fitted.converged_
    assert fitted.score(X, Y) > 0.8
    assert (fitted.coef_ > 0).all()
    losses = -np.array(fitted.history_.primal)
    assert len(losses) == fitted.n_iter_ + 1 <= fitted.n_oracle_calls_ / len(X) + 1
    assert losses[-1] == pytest.approx(fitted.objective_)
    assert losses[0] > losses[-1]
    assert fitted.duality_gap_ == pytest.approx(fitted.history_.gap[-1])
    again = clone(fitted)
    assert repr(again) == repr(model)
    assert not hasattr(again, "coef_")


@pytest.mark.parametrize("model", ALL, ids=str)
def test_weights_stand_for_repeated_samples(model):
    X, Y = noisy_pairs(n_samples=6)
    counts = np.arange(6) % 3
    weighted = clone(model).fit(X, Y, sample_weight=counts)
    again = np.repeat(np.arange(6), counts)
    repeated = clone(model).fit([X[m] for m in again], [Y[m] for m in again])
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-5)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-2)


@pytest.mark.parametrize("model", ALL, ids=str)
def test_paths_and_files(model, tmp_path):
    X, Y = noisy_pairs()
    path = model.fit_path(X, Y, [0.5, 5.0])
    alone = clone(model).set_params(estimator__alpha=0.5).fit(X, Y)
    assert path.estimators[1].objective_ == pytest.approx(alone.objective_, rel=1e-5)
    alone.save(tmp_path / "model.mls")
    again = load(tmp_path / "model.mls")
    for ours, theirs in zip(again.predict_marginals(X), alone.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("model", ALL, ids=str)
def test_samples_of_several_shapes(model):
    wide, narrow = noisy_pairs(n=3, n_cols=5), noisy_pairs(n=4)
    X, Y = wide[0] + narrow[0], wide[1] + narrow[1]
    fitted = clone(model).fit(X, Y)
    predicted = fitted.predict([*X, X[0].swapaxes(0, 1)])
    assert [p.shape[0] for p in predicted[:-1]] == [len(y) for y in Y]
    assert (predicted[-1] < 0).sum() == 2
    assert [P.shape for P in fitted.predict_marginals(X)] == [x.shape[:2] for x in X]


def test_max_iter_warns():
    X, Y = noisy_pairs()
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = RowSoftmax(crf(alpha=1e-3, max_iter=2)).fit(X, Y)
    assert not model.converged_
    assert model.n_iter_ == 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RowSoftmax(crf(alpha=0.0)), "alpha must be positive"),
        (RowSoftmax(crf(tol=-1.0)), "tol must be positive"),
        (RowSoftmax(crf(max_iter=0)), "max_iter must be a positive integer"),
        (UnrolledSinkhorn(crf(), n_steps=0), "n_steps must be a positive integer"),
    ],
)
def test_bad_parameters(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*noisy_pairs())


def test_bad_data():
    X, Y = noisy_pairs(n_samples=2)
    model = RowSoftmax(crf())
    with pytest.raises(ValueError, match="X has 2 samples but Y has 1"):
        model.fit(X, Y[:1])
    with pytest.raises(ValueError, match=r"Y\[1\].*column 0 is the partner"):
        model.fit(X, [Y[0], np.zeros(5, dtype=int)])
    with pytest.raises(ValueError, match=r"X\[1\]: expected 3 dimensions"):
        model.fit([X[0], X[1][0]], Y)
    with pytest.raises(ValueError, match=r"X\[1\] has 2 features, X\[0\] has 3"):
        model.fit([X[0], X[1][:, :, :2]], Y)
    with pytest.raises(ValueError, match="sample 0: expected a dense array"):
        model.fit([PairInput(X[0], mask=np.eye(5)[Y[0]] + np.eye(5) > 0), X[1]], Y)
    with pytest.raises(ValueError, match="sample 0: expected a matching of two sides"):
        RowSoftmax(GridCRF()).fit([np.ones((2, 2, 1))], [np.eye(2, dtype=int)])
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, Y)
    with pytest.raises(ValueError, match="fitted with 3"):
        model.predict([X[0][:, :, :2]])
