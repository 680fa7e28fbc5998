"""BipartiteMatchingCRF as a scikit-learn estimator."""

import pickle

import numpy as np
import pandas as pd
import pytest
from bipartite_matchings import all_matchings, covering_matchings
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

import mlestruct
from mlestruct import LBFGS, BipartiteMatchingCRF, BlockFrankWolfe, FrankWolfe, PairInput


def noisy_copies(n_samples=12, sizes=(5,), noise=0.5, n_features=3, seed=0):
    """Tables of points, noisy shuffled copies, and who is whose copy; sizes may vary."""
    rng = np.random.default_rng(seed)
    tables, Y = [], []
    for m in range(n_samples):
        n = sizes[m % len(sizes)]
        left = rng.normal(size=(n, n_features))
        order = rng.permutation(n)
        tables.append((left, (left + noise * rng.normal(size=left.shape))[order]))
        Y.append(np.argsort(order))
    X = [-((a[:, None] - b[None]) ** 2) for a, b in tables]
    return X, Y, tables


def test_recovers_the_direction_of_the_weights_it_was_sampled_from():
    rng = np.random.default_rng(0)
    truth = np.array([2.0, -1.0])
    matchings = covering_matchings(np.ones((4, 4), dtype=bool))
    X, Y = [], []
    for _ in range(400):
        x = rng.normal(size=(4, 4, 2))
        scores = np.array([sum((x @ truth)[i, j] for i, j in enumerate(y)) for y in matchings])
        p = np.exp(scores - scores.max())
        X.append(x)
        Y.append(np.array(matchings[rng.choice(len(p), p=p / p.sum())]))
    model = BipartiteMatchingCRF(alpha=1e-3, rho=1.0, tol=1e-6).fit(X, Y)
    # The Bethe likelihood shrinks strong weights on graphs this small, evenly.
    found = model.coef_ / np.linalg.norm(model.coef_)
    np.testing.assert_allclose(found, truth / np.linalg.norm(truth), atol=0.05)


def test_ragged_samples_and_certificate_attributes():
    X, Y, _ = noisy_copies(sizes=(3, 6, 4))
    model = BipartiteMatchingCRF(alpha=0.5, tol=1e-7).fit(X, Y)
    assert model.converged_
    assert model.duality_gap_ <= 1e-7 * max(1.0, abs(model.objective_))
    assert model.n_oracle_calls_ > 0
    assert len(model.history_) >= 1
    assert model.history_.to_frame().shape[1] == 7
    assert [len(y) for y in model.predict(X)] == [len(y) for y in Y]
    assert 0.5 < model.score(X, Y) <= 1.0
    for tau in model.predict_marginals(X):
        np.testing.assert_allclose(tau.sum(axis=0), 1.0, atol=1e-9)
        np.testing.assert_allclose(tau.sum(axis=1), 1.0, atol=1e-9)


class Squares:
    """A user's own map: -(left - right)^2 of all pairs, without an array of them."""

    def __init__(self, left, right):
        self.left, self.right = left, right
        self.n_features, self.n_scored = left.shape[1], len(left) * len(right)

    def _square(self, k):
        return -(np.subtract.outer(self.left[:, k], self.right[:, k]).ravel() ** 2)

    def scores(self, theta):
        return sum(theta[k] * self._square(k) for k in range(self.n_features))

    def moments(self, tau):
        return np.array([self._square(k) @ tau for k in range(self.n_features)])


def test_every_form_of_features_learns_the_same():
    X, Y, tables = noisy_copies()
    shape = X[0].shape[:2]
    rows = [x.reshape(-1, 3) for x in X]
    forms = {
        "single precision": [x.astype(np.float32) for x in X],
        "rows": [PairInput(own, shape=shape) for own in rows],
        "sparse": [PairInput(sparse.csr_array(own), shape=shape) for own in rows],
        "frame": [PairInput(pd.DataFrame(own), shape=shape) for own in rows],
        "own map": [PairInput(Squares(a, b), shape=shape) for a, b in tables],
    }
    model = BipartiteMatchingCRF(tol=1e-9).fit(X, Y)
    for name, inputs in forms.items():
        other = clone(model).fit(inputs, Y)
        np.testing.assert_allclose(other.coef_, model.coef_, atol=2e-4, err_msg=name)
        np.testing.assert_array_equal(other.predict(inputs), model.predict(X))
    for option in ("fit_intercept", "standardize"):
        seeking = BipartiteMatchingCRF(perfect=False, standardize=option == "standardize")
        with pytest.raises(ValueError, match=f"`{option}=True` needs features as a matrix"):
            seeking.fit(forms["own map"], Y)


def test_clone_params_and_repr():
    model = BipartiteMatchingCRF(alpha=3.0, solver=LBFGS(max_time=1.0))
    copy = clone(model)
    assert copy.get_params()["alpha"] == 3.0
    assert copy.solver == model.solver
    assert copy.set_params(alpha=1.0).alpha == 1.0
    with pytest.raises(NotFittedError):
        copy.predict([np.zeros((2, 2, 1))])


def test_grid_search_and_cross_validation():
    X, Y, _ = noisy_copies(n_samples=18)
    search = GridSearchCV(BipartiteMatchingCRF(), {"alpha": [0.1, 10.0]}, cv=3).fit(X, Y)
    assert search.best_params_["alpha"] in (0.1, 10.0)
    assert search.best_score_ == pytest.approx(
        max(search.cv_results_["mean_test_score"]), abs=1e-12
    )
    scores = cross_val_score(BipartiteMatchingCRF(alpha=1.0), X, Y, cv=3)
    assert scores.shape == (3,)
    assert (scores > 0.3).all()


class ScaleFeatures(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.scale_ = np.concatenate([x.reshape(-1, x.shape[2]) for x in X]).std(axis=0)
        return self

    def transform(self, X):
        return [x / self.scale_ for x in X]


def test_pipeline():
    X, Y, _ = noisy_copies()
    pipeline = Pipeline([("scale", ScaleFeatures()), ("crf", BipartiteMatchingCRF())])
    assert 0.4 < pipeline.fit(X, Y).score(X, Y) <= 1.0


def test_feature_names(tmp_path):
    X, Y, _ = noisy_copies()
    frames = [
        PairInput(pd.DataFrame(x.reshape(-1, 3), columns=list("abc")), shape=(5, 5)) for x in X
    ]
    BipartiteMatchingCRF().fit(frames, Y).save(tmp_path / "model.mls")
    model = mlestruct.load(tmp_path / "model.mls")
    assert list(model.named_coef()) == ["a", "b", "c"]
    assert list(model.fit(X, Y).named_coef()) == ["x0", "x1", "x2"]
    assert list(model.named_coef(["u", "v", "w"])) == ["u", "v", "w"]
    other = [
        PairInput(pd.DataFrame(x.reshape(-1, 3), columns=list("acb")), shape=(5, 5)) for x in X
    ]
    with pytest.raises(ValueError, match=r"X\[1\]: feature 1 is 'c', in X\[0\] .* another order"):
        BipartiteMatchingCRF().fit([frames[0], *other[1:]], Y)
    with pytest.raises(ValueError, match=r"X\[0\]: feature 1 is 'c', in fit it was 'b'"):
        BipartiteMatchingCRF().fit(frames, Y).pair_scores(other)
    with pytest.raises(ValueError, match=r"X\[1\] has 2 features, X\[0\] has 3"):
        BipartiteMatchingCRF().fit([X[0], X[1][:, :, :2]], Y[:2])


def test_shared_samples_are_merged_without_changing_the_optimum():
    X, _, _ = noisy_copies(n_samples=1)
    rng = np.random.default_rng(1)
    labels = [rng.permutation(5) for _ in range(6)]
    together = BipartiteMatchingCRF(tol=1e-9).fit([X[0]] * 6, labels)
    apart = BipartiteMatchingCRF(tol=1e-9).fit([X[0].copy() for _ in range(6)], labels)
    np.testing.assert_allclose(together.coef_, apart.coef_, atol=1e-5)
    assert together.n_oracle_calls_ < apart.n_oracle_calls_


def test_sample_weights_equal_repetition():
    X, Y, _ = noisy_copies(n_samples=3)
    weighted = BipartiteMatchingCRF(tol=1e-9).fit(X, Y, sample_weight=[2.0, 1.0, 0.0])
    repeated = BipartiteMatchingCRF(tol=1e-9).fit([X[0], X[0], X[1]], [Y[0], Y[0], Y[1]])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


def test_path_equals_separate_fits_and_prefers_regularised_ties():
    X, Y, _ = noisy_copies()
    model = BipartiteMatchingCRF(tol=1e-9)
    path = model.fit_path(X, Y, [0.1, 10.0, 1.0])
    assert path.alphas == [10.0, 1.0, 0.1]
    for alpha, fitted in zip(path.alphas, path.estimators, strict=True):
        alone = clone(model).set_params(alpha=alpha).fit(X, Y)
        np.testing.assert_allclose(fitted.coef_, alone.coef_, atol=1e-4)
    easy = [x * 100 for x in X[:1]]
    assert model.fit_path(easy, Y[:1], [1e4, 1e3]).best(easy, Y[:1]).alpha == 1e4


def test_a_fit_starts_from_another_model():
    X, Y, _ = noisy_copies(n_samples=30)
    crf = BipartiteMatchingCRF(tol=1e-8, standardize=True)
    model = clone(crf).fit(X, Y)
    assert clone(crf).fit(X, Y, start=model).n_oracle_calls_ < model.n_oracle_calls_
    other, labels, _ = noisy_copies(n_samples=30, sizes=(4,))  # only weights can be kept
    cold = clone(crf).fit(other, labels)
    warm = clone(crf).fit(other, labels, start=model)
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-4)
    assert warm.n_oracle_calls_ <= cold.n_oracle_calls_


@pytest.mark.parametrize("solver", [FrankWolfe(), BlockFrankWolfe(), LBFGS()])
def test_a_start_on_other_data_is_certified_for_those(solver):
    X, Y, _ = noisy_copies(noise=1.0)
    crf = BipartiteMatchingCRF(solver=solver, tol=0.02, random_state=0)
    other = [-x for x in X]
    model = clone(crf).fit(other, Y, start=clone(crf).fit(X, Y))
    optimum = BipartiteMatchingCRF(tol=1e-9).fit(other, Y).objective_bound_
    assert model.objective_bound_ >= optimum - 1e-6
    assert model.objective_ <= optimum + 1e-6


def test_one_array_of_samples_equals_the_list():
    X, Y, _ = noisy_copies(n_samples=40, noise=1.0)
    single = BipartiteMatchingCRF(tol=1e-9).fit(np.array(X), np.array(Y))
    listed = BipartiteMatchingCRF(tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(single.coef_, listed.coef_, atol=1e-8)
    assert single.score(np.array(X), np.array(Y)) == listed.score(X, Y)


@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 1e8])
def test_extreme_regularisation_still_converges(alpha):
    X, Y, _ = noisy_copies(n_samples=20, noise=2.0)
    model = BipartiteMatchingCRF(alpha=alpha).fit(X, Y)
    assert model.converged_
    assert (np.abs(model.coef_).max() < 1e-3) == (alpha == 1e8)


def test_max_time_stops_between_samples():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(40, 40, 3)) for _ in range(200)]
    BipartiteMatchingCRF(tol=0.5).fit(X[:1], [np.arange(40)])  # compile first
    model = BipartiteMatchingCRF(tol=1e-12, solver=LBFGS(max_time=0.3), alpha=1e-6)
    labels = [rng.permutation(40) for _ in X]
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model.fit(X, labels)
    assert not model.converged_


def test_single_nodes():
    rng = np.random.default_rng(0)
    X, Y = [], []
    for _ in range(40):
        x = rng.normal(size=(4, 3, 1))
        best = np.argmax(x[:, :, 0], axis=1)
        label = np.full(4, -1)
        for i in np.argsort(-x[np.arange(4), best, 0]):
            if x[i, best[i], 0] > 0.5 and best[i] not in label:
                label[i] = best[i]
        X.append(np.concatenate([x, np.ones_like(x)], axis=2))
        Y.append(label)
    model = BipartiteMatchingCRF(alpha=0.1, perfect=False).fit(X, Y)
    assert model.coef_[0] > 0 > model.coef_[1]
    assert model.score(X, Y) > 0.8
    for tau in model.predict_marginals(X):
        assert (tau.sum(axis=1) <= 1 + 1e-9).all()
        assert (tau.sum(axis=0) <= 1 + 1e-9).all()
    assert any((y == -1).any() for y in model.predict(X))
    numpys = clone(model).set_params(perfect=np.False_).fit(X, Y)  # as of an array of options
    np.testing.assert_array_equal(numpys.coef_, model.coef_)
    seats = BipartiteMatchingCRF(perfect=np.True_, capacity=(1, 2))
    with pytest.raises(ValueError, match=r"row 1 has 0 partners, it must have exactly 1"):
        seats.fit([x[:, :2] for x in X], [[(0, 0), (2, 1), (3, 1)]] * 40)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_rectangular(shape):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(*shape, 2)) for _ in range(10)]
    small = min(shape)
    Y = []
    for _ in X:
        label = np.full(shape[0], -1)
        rows = rng.permutation(shape[0])[:small]
        label[rows] = rng.permutation(shape[1])[:small]
        Y.append(label)
    model = BipartiteMatchingCRF().fit(X, Y)
    for label, tau in zip(model.predict(X), model.predict_marginals(X), strict=True):
        assert (label >= 0).sum() == small
        assert tau.sum() == pytest.approx(small)


def test_masks_offsets_and_sparse_marginals():
    X, Y, _ = noisy_copies(n_samples=6)
    rng = np.random.default_rng(0)
    inputs, sparse_inputs = [], []
    for x, y in zip(X, Y, strict=True):
        mask = rng.random((5, 5)) < 0.5
        mask[np.arange(5), y] = True
        mask[np.arange(5), np.roll(y, 1)] = True
        inputs.append(PairInput(x, mask=mask))
        sparse_inputs.append(PairInput(x, mask=sparse.csr_array(mask)))
    dense = BipartiteMatchingCRF(tol=1e-9).fit(inputs, Y)
    compact = BipartiteMatchingCRF(tol=1e-9).fit(sparse_inputs, Y)
    np.testing.assert_allclose(dense.coef_, compact.coef_, atol=1e-6)
    for tau, other, given in zip(
        dense.predict_marginals(inputs),
        compact.predict_marginals(sparse_inputs),
        inputs,
        strict=True,
    ):
        assert sparse.issparse(other)
        np.testing.assert_allclose(other.toarray(), tau, atol=1e-6)
        assert (tau[~given.mask] == 0).all()
    # -inf scores forbid as well, as offsets and as features.
    offsets = [PairInput(p.features, offset=np.where(p.mask, 0.0, -np.inf)) for p in inputs]
    features = [np.where(p.mask[:, :, None], p.features, -np.inf) for p in inputs]
    for other in (offsets, features):
        again = BipartiteMatchingCRF(tol=1e-9).fit(other, Y)
        np.testing.assert_allclose(again.coef_, dense.coef_, atol=1e-6)


def test_an_offset_is_a_feature_with_a_known_weight():
    X, Y, _ = noisy_copies(n_samples=8, noise=1.0)
    full = BipartiteMatchingCRF(alpha=1.0, tol=1e-10).fit(X, Y)
    known = full.coef_[2]
    rest = [PairInput(x[:, :, :2], offset=known * x[:, :, 2]) for x in X]
    partial = BipartiteMatchingCRF(alpha=1.0, tol=1e-10).fit(rest, Y)
    np.testing.assert_allclose(partial.coef_, full.coef_[:2], atol=1e-4)


@pytest.mark.parametrize("perfect", [True, False])
def test_log_likelihood_bounds_enclose_the_exact_value(perfect):
    X, Y, _ = noisy_copies(n_samples=6, sizes=(4, 3), noise=1.0)
    model = BipartiteMatchingCRF(fit_intercept=False, perfect=perfect).fit(X, Y)
    lower, upper = model.log_likelihood_bounds(X, Y)
    for m, (x, y) in enumerate(zip(X, Y, strict=True)):
        scores = x @ model.coef_
        n = len(y)
        everything = np.ones((n, n), dtype=bool)
        matchings = covering_matchings(everything) if perfect else all_matchings(everything)
        totals = [sum(scores[i, j] for i, j in enumerate(other) if j >= 0) for other in matchings]
        exact = scores[np.arange(n), y].sum() - np.logaddexp.reduce(totals)
        assert lower[m] - 1e-7 <= exact <= upper[m] + 1e-7


def test_save_and_load(tmp_path):
    X, Y, _ = noisy_copies()
    solver = BlockFrankWolfe(max_time=10.0)
    model = BipartiteMatchingCRF(alpha=2.0, solver=solver, max_iter=50, tol=0.1).fit(X, Y)
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.solver == solver
    assert again.alpha == 2.0
    assert again.history_.gap == model.history_.gap
    for a, b in zip(again.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    (tmp_path / "junk.mls").write_bytes(b"not a model")
    with pytest.raises(ValueError, match="not a mlestruct model file"):
        mlestruct.load(tmp_path / "junk.mls")
    with pytest.raises(FileNotFoundError):
        mlestruct.load(tmp_path / "missing.mls")
    whole = (tmp_path / "model.mls").read_bytes()
    (tmp_path / "cut.mls").write_bytes(whole[: len(whole) // 2])
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("cut.mls", "array.npy"):
        with pytest.raises(ValueError, match="damaged"):
            mlestruct.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        model.save(tmp_path / "nowhere" / "model.mls")


def test_pickling_drops_the_training_state():
    X, Y, _ = noisy_copies()
    model = BipartiteMatchingCRF().fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.coef_, model.coef_)
    assert "_state" not in vars(copy)


def test_unconverged_fits_warn_and_keep_the_best_model():
    X, Y, _ = noisy_copies()
    with pytest.warns(ConvergenceWarning, match="relative gap"):
        model = BipartiteMatchingCRF(solver=BlockFrankWolfe(), max_iter=2, tol=1e-9).fit(X, Y)
    assert not model.converged_
    assert model.duality_gap_ > 0
    assert np.isfinite(model.coef_).all()


def test_interrupt_keeps_the_model():
    X, Y, _ = noisy_copies()

    def interrupt(progress):
        if progress.iteration >= 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = BipartiteMatchingCRF(solver=BlockFrankWolfe(callback=interrupt), tol=1e-12).fit(
            X, Y
        )
    assert not model.converged_
    assert model.predict(X)[0].shape == (5,)


def test_progress_bar_shows_the_gap(capsys):
    X, Y, _ = noisy_copies()
    BipartiteMatchingCRF(verbose=1).fit(X, Y)
    assert "gap" in capsys.readouterr().err


def test_threads_do_not_change_the_result():
    X, Y, _ = noisy_copies()
    alone = BipartiteMatchingCRF(tol=1e-9).fit(X, Y)
    threads = BipartiteMatchingCRF(tol=1e-9, n_jobs=2).fit(X, Y)
    np.testing.assert_allclose(alone.coef_, threads.coef_, atol=1e-9)
    for a, b in zip(alone.predict_marginals(X), threads.predict_marginals(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_random_state_makes_bcfw_repeatable():
    X, Y, _ = noisy_copies()

    def fitted(seed):
        model = BipartiteMatchingCRF(
            solver=BlockFrankWolfe(), max_iter=5, tol=0.5, random_state=seed
        )
        return model.fit(X, Y).coef_

    np.testing.assert_array_equal(fitted(3), fitted(3))
