"""Fits over partitions find what fits over all samples find, whatever the estimator."""

import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from mlestruct import (
    BipartiteMatchingCRF,
    ChainCRF,
    GraphCRF,
    GridCRF,
    MatchingCRF,
    StructuredCRF,
)
from mlestruct.partitions import Lazy, LocalBackend, lazy_partitions
from mlestruct.structures import BipartiteMatching


def matchings(n=5, n_samples=8, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, n, 3)) for _ in range(n_samples)]
    Y = [rng.permutation(n) for _ in range(n_samples)]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(n), y, 0] += 1.0
    return X, Y


def groups():
    rng = np.random.default_rng(1)
    X = [x + x.transpose(1, 0, 2) for x in rng.normal(size=(6, 4, 4, 2))]
    return X, [np.array([1, 0, 3, 2]), np.array([2, 3, 0, 1])] * 3


def sequences():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(t, 3)) for t in (3, 5, 2, 6, 4, 7)]
    return X, [np.array(["no", "yes"])[(x[:, 0] > 0.3).astype(int)] for x in X]


def words():
    X, Y = sequences()
    return [[{"w": str(int(v[1] > 0)), "x": float(v[0])} for v in x] for x in X], Y


def images():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(3, 4, 2)) for _ in range(4)]
    # The last images show all three states, the first ones do not.
    Y = [(x[:, :, 0] > 0).astype(int) + (m > 1) * (x[:, :, 1] > 0.5) for m, x in enumerate(X)]
    return X, Y


def graphs():
    rng = np.random.default_rng(4)
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    X = [(rng.normal(size=(4, 2)), edges, rng.normal(size=(4, 1))) for _ in range(4)]
    return X, [(x[0][:, 0] > 0).astype(int) for x in X]


CASES = {
    "newton": (BipartiteMatchingCRF(alpha=0.5, solver="newton"), matchings),
    "kinks": (BipartiteMatchingCRF(alpha=0.01, rho=1.0, solver="newton"), matchings),
    "lbfgs": (BipartiteMatchingCRF(alpha=0.5, solver="lbfgs", standardize=True), matchings),
    "l1": (BipartiteMatchingCRF(alpha=0.5, l1_ratio=0.5), matchings),
    "singles": (BipartiteMatchingCRF(perfect=False, standardize=True), matchings),
    "group": (MatchingCRF(alpha=0.5), groups),
    "chain": (ChainCRF(fit_intercept=True, standardize=True), sequences),
    "words": (ChainCRF(), words),
    "grid": (GridCRF(standardize=True), images),
    "graph": (GraphCRF(), graphs),
    "structured": (StructuredCRF(structure=BipartiteMatching((5, 5))), matchings),
}


def flat(case, X):
    """StructuredCRF takes features of shape (n_coordinates, K)."""
    return [x.reshape(-1, x.shape[2]) for x in X] if case == "structured" else X


@pytest.mark.parametrize("case", CASES)
def test_partitions_find_the_optimum_of_all_samples(case):
    model, data = CASES[case]
    X, Y = data()
    X = flat(case, X)
    model.set_params(tol=1e-7)
    whole = pickle.loads(pickle.dumps(model)).fit(X, Y)
    with LocalBackend(n_partitions=3):
        parts = pickle.loads(pickle.dumps(model)).fit(X, Y)
    np.testing.assert_allclose(parts.objective_, whole.objective_, rtol=1e-9)
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-4)
    assert parts.converged_
    assert list(parts.feature_names_in_) == list(whole.feature_names_in_)
    for found, expected in zip(parts.predict(X), whole.predict(X), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("exact", [True, False])
def test_partitions_certify_exact_decoders_only(exact):
    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(12, 3, 2)))
    Y = [(x @ [1.0, -1.0] + rng.logistic(size=3) > 0).astype(int) for x in X]
    model = StructuredCRF(any_of, exact=exact, tol=0.1)
    with LocalBackend(n_partitions=3), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert model.fit(X, Y).certified_ == exact


def any_of(scores):
    return scores > 0


@pytest.mark.parametrize("proven", [True, False])
def test_partitions_certify_output_spaces_with_proven_bounds_only(proven):
    rng = np.random.default_rng(0)
    X, Y = list(rng.normal(size=(6, 9, 2))), [rng.permutation(3) for _ in range(6)]
    space = Unproven((3, 3), 0.9) if not proven else BipartiteMatching((3, 3), 0.9)
    for backend in (nullcontext(), LocalBackend(n_partitions=3)):
        with backend, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            assert StructuredCRF(structure=space).fit(X, Y).certified_ == proven


class Unproven(BipartiteMatching):
    has_bound = False


def test_sample_weights_go_with_their_partition():
    X, Y = matchings()
    weights = np.array([1.0, 2.0, 0.0, 1.0, 3.0, 0.0, 0.0, 0.0])
    whole = BipartiteMatchingCRF(tol=1e-7).fit(X, Y, weights)
    with LocalBackend(n_partitions=4):
        parts = BipartiteMatchingCRF(tol=1e-7).fit(X, Y, weights)
    np.testing.assert_allclose(parts.objective_, whole.objective_, rtol=1e-9)


def some(part):
    return matchings(n_samples=3, seed=part)


def test_lazy_partitions_fit_predict_score_and_path():
    X, Y = lazy_partitions(some, range(3))
    samples, labels = ([x for p in range(3) for x in some(p)[k]] for k in range(2))
    model = BipartiteMatchingCRF(tol=1e-6).fit(X, Y)
    whole = BipartiteMatchingCRF(tol=1e-6).fit(samples, labels)
    np.testing.assert_allclose(model.objective_, whole.objective_, rtol=1e-9)
    found = [label for part in model.predict(X) for label in part.load()]
    np.testing.assert_array_equal(found, model.predict(samples))
    tables = [table for part in model.predict_marginals(X, tol=1e-8) for table in part.load()]
    np.testing.assert_allclose(tables, model.predict_marginals(samples, tol=1e-8))
    assert model.score(X, Y) == pytest.approx(model.score(samples, labels))
    values = [part.load() for part in model.approximate_log_likelihood(X, Y, 1e-8)]
    expected = model.approximate_log_likelihood(samples, labels, 1e-8)
    np.testing.assert_allclose(np.concatenate(values), expected)
    bounds = [part.load() for part in model.log_likelihood_bounds(X, Y=Y)]
    expected = model.log_likelihood_bounds(samples, labels)
    np.testing.assert_allclose(np.concatenate(bounds, axis=1), expected)
    with pytest.raises(TypeError, match="too many positional arguments"):
        model.predict(X, Y, 1)
    given = [Lazy(list, ([None, label, None],)) for label in labels[::3]]
    known = [label for part in model.predict(X, known=given) for label in part.load()]
    np.testing.assert_array_equal(known[1], labels[0])
    path = BipartiteMatchingCRF(tol=1e-6).fit_path(X, Y, [1.0, 0.1])
    expected = BipartiteMatchingCRF(tol=1e-6).fit_path(samples, labels, [1.0, 0.1])
    np.testing.assert_allclose(path.coefs, expected.coefs, atol=1e-4)


def test_grid_search_takes_partitions_as_folds():
    X, Y = lazy_partitions(some, range(4))
    search = GridSearchCV(BipartiteMatchingCRF(), {"alpha": [0.1, 1e4]}, cv=2).fit(X, Y)
    expected = []
    for train, test in ((2, 0), (0, 2)):
        (a, b), (c, d) = ((some(p) for p in range(s, s + 2)) for s in (train, test))
        model = BipartiteMatchingCRF(alpha=0.1).fit(a[0] + b[0], a[1] + b[1])
        expected.append(model.score(c[0] + d[0], c[1] + d[1]))
    scores = [search.cv_results_[f"split{k}_test_score"][0] for k in range(2)]
    np.testing.assert_allclose(scores, expected)


def test_a_local_copy_refers_to_nothing():
    with LocalBackend(n_partitions=2):
        model = BipartiteMatchingCRF().fit(*matchings())
    local = model.to_local()
    assert "_state" not in vars(local)
    np.testing.assert_array_equal(local.coef_, model.coef_)
    assert len(pickle.dumps(local)) < 10_000


def test_errors_name_the_argument_and_the_partition():
    X, Y = lazy_partitions(some, range(3))
    with pytest.raises(TypeError, match="Y: X comes in 3 partitions"):
        BipartiteMatchingCRF().fit(X, some(0)[1])
    with pytest.raises(ValueError, match="X has 3 partitions but Y has 2"):
        BipartiteMatchingCRF().fit(X, Y[:2])
    with pytest.raises(TypeError, match=r"X\[1\]: expected a partition"):
        BipartiteMatchingCRF().fit([X[0], some(1)[0]], Y[:2])
    wrong = Lazy(lambda: [np.zeros((5, 5, 2))] * 3, ())
    with pytest.raises(ValueError, match="partition 2 has 2 features, partition 0 has 3"):
        BipartiteMatchingCRF().fit([*X[:2], wrong], Y)
    nan = Lazy(lambda: [np.full((5, 5, 3), np.nan)] * 3, ())
    with pytest.raises(ValueError, match=r"partition 1: X\[0\]"):
        BipartiteMatchingCRF().fit([X[0], nan], Y[:2])
    with pytest.raises(ValueError, match="samples in one place"):
        ChainCRF(state_features="observed").fit(X, Y)
