"""`MatchingBP`: the same optimum as the certified CRF, whatever the samples look like."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import mlestruct
from mlestruct import BipartiteMatchingCRF, PairInput
from mlestruct.baselines import MatchingBP
from mlestruct.baselines.lbfgs import PenalisedLoss
from mlestruct.baselines.matching_bp import BeliefLBFGS, NegativeLogLikelihood


def learner_of(max_sweeps=2000, bp_tol=1e-8, **options):
    """Parameters other than these two are the estimator's."""
    return MatchingBP(
        BipartiteMatchingCRF(**{"rho": 1.0, "tol": 1e-6, **options}), max_sweeps, bp_tol
    )


def noisy_copies(sizes, n_samples=12, noise=0.8, seed=0):
    """Points and noisy copies of some of them, shuffled; features are squared differences."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for m in range(n_samples):
        n, n_cols = sizes[m % len(sizes)]
        left, right = rng.normal(size=(n, 3)), rng.normal(size=(n_cols, 3))
        rows, cols = rng.permutation(n)[: min(n, n_cols)], rng.permutation(n_cols)[: min(n, n_cols)]
        right[cols] = left[rows] + noise * rng.normal(size=(len(rows), 3))
        partner = np.full(n, -1)
        partner[rows] = cols
        X.append(-((left[:, None] - right[None]) ** 2))
        Y.append(partner)
    return X, Y


def masked(X, Y, seed=0, allowed=0.6):
    """Some pairs forbidden, never observed ones; that fixes some of the others."""
    rng = np.random.default_rng(seed)
    out = []
    for x, y in zip(X, Y, strict=True):
        mask = rng.random(x.shape[:2]) < allowed
        rows = np.flatnonzero(y >= 0)
        mask[rows, y[rows]] = True
        out.append(PairInput(x, mask=mask))
    return out


def singles(X, Y):
    """A constant feature, and every third pair dissolved."""
    labels = [np.where(np.arange(y.shape[0]) % 3 == 0, -1, y) for y in Y]
    return [np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=2) for x in X], labels


def cases():
    square = noisy_copies([(5, 5)])
    ragged = noisy_copies([(5, 5), (3, 6), (6, 4), (1, 3)])
    rng = np.random.default_rng(1)
    offset = [PairInput(x, offset=rng.normal(size=x.shape[:2])) for x in ragged[0]]
    sparse_masks = [
        PairInput(x.features, mask=sparse.csr_array(x.mask)) for x in masked(*ragged, seed=2)
    ]
    return {
        "square": (*square, {}),
        "ragged": (*ragged, {}),
        "masked": (masked(*square), square[1], {}),
        "masked, ragged": (masked(*ragged), ragged[1], {}),
        "sparse mask": (sparse_masks, ragged[1], {}),
        "offsets": (offset, ragged[1], {}),
        "singles": (*singles(*ragged), {"perfect": False}),
        "singles, masked": (
            masked(*singles(*ragged), seed=3),
            singles(*ragged)[1],
            {"perfect": False},
        ),
    }


CASES = cases()
EVERY = pytest.mark.parametrize("case", list(CASES))


# ---------------------------------------------------------------------- optimum
@EVERY
@pytest.mark.parametrize("rho", [0.6, 1.0])
def test_optimum_is_that_of_the_crf(case, rho):
    X, Y, options = CASES[case]
    found = learner_of(alpha=3.0, rho=rho, tol=1e-8, max_sweeps=20000, **options).fit(X, Y)
    reference = BipartiteMatchingCRF(alpha=3.0, rho=rho, tol=1e-8, **options).fit(X, Y)
    assert found.converged_
    assert found.objective_ == pytest.approx(reference.objective_, rel=1e-6)
    distance = np.linalg.norm(found.coef_ - reference.coef_)
    assert distance <= 1e-3 * np.linalg.norm(reference.coef_)
    for ours, theirs in zip(found.predict(X), reference.predict(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert found.score(X, Y) == reference.score(X, Y)
    for ours, theirs in zip(
        found.predict_marginals(X), reference.predict_marginals(X), strict=True
    ):
        assert abs(ours - theirs).max() < 2e-3


@EVERY
@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0])
def test_gradient_equals_finite_differences(case, rho):
    X, Y, options = CASES[case]
    model = BipartiteMatchingCRF(alpha=0.7, rho=rho, **options)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(X))
    problem = model.build_problem(X, Y, weights)
    messages = BeliefLBFGS(20000, 1e-13).messages(problem.blocks)
    likelihood = PenalisedLoss(NegativeLogLikelihood(problem, messages), problem.alpha)
    theta = 0.5 * np.random.default_rng(1).normal(size=problem.n_features)
    _, gradient = likelihood(theta)
    step = 1e-5
    for k, unit in enumerate(np.eye(problem.n_features)):
        numeric = (likelihood(theta + step * unit)[0] - likelihood(theta - step * unit)[0]) / (
            2 * step
        )
        assert gradient[k] == pytest.approx(numeric, abs=2e-5)


def test_each_node_may_have_its_own_rho():
    X, Y, _ = CASES["square"]
    rho = np.linspace(0.6, 0.9, 10)
    found = learner_of(alpha=3.0, rho=rho, tol=1e-8).fit(X, Y)
    reference = BipartiteMatchingCRF(alpha=3.0, rho=rho, tol=1e-8).fit(X, Y)
    assert found.objective_ == pytest.approx(reference.objective_, rel=1e-6)


def test_weights_stand_for_repeated_samples():
    X, Y, _ = CASES["ragged"]
    weights = np.arange(len(X)) % 3
    weighted = learner_of(tol=1e-9).fit(X, Y, sample_weight=weights)
    again = np.repeat(np.arange(len(X)), weights)
    repeated = learner_of(tol=1e-9).fit([X[m] for m in again], [Y[m] for m in again])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-3)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-7)


def test_paths_start_from_the_last_model():
    X, Y, _ = CASES["ragged"]
    path = learner_of(tol=1e-8).fit_path(X, Y, [0.5, 5.0, 2.0])
    assert path.alphas == [5.0, 2.0, 0.5]
    for alpha, model in zip(path.alphas, path.estimators, strict=True):
        alone = learner_of(alpha=alpha, tol=1e-8).fit(X, Y)
        assert model.converged_
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-6)
    assert path.estimators[-1].n_oracle_calls_ < alone.n_oracle_calls_


def test_threads_change_nothing():
    X, Y, _ = CASES["ragged"]
    one, two = learner_of().fit(X, Y), learner_of(n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.n_sweeps_ == two.n_sweeps_


# ---------------------------------------------------------------------- reports
def test_unconverged_messages_are_reported():
    X, Y = noisy_copies([(5, 5)], noise=0.3)
    with (
        pytest.warns(ConvergenceWarning, match="max_sweeps"),
        pytest.warns(ConvergenceWarning, match="stopped"),
    ):
        model = learner_of(alpha=0.1, max_sweeps=1).fit(X, Y)
    assert model.n_unconverged_ > 0
    assert not model.converged_
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 sweeps"):
        model.predict_marginals(X)


def test_beliefs_are_marginals_at_the_same_weights():
    for X, Y, options in CASES.values():
        model = learner_of(rho=0.8, **options).fit(X, Y)
        certified = model.predict_marginals(X, 1e-13, method="auto")
        for ours, theirs in zip(model.predict_marginals(X, 1e-12), certified, strict=True):
            assert abs(ours - theirs).max() < 1e-6


def test_the_gap_is_that_of_the_gradient():
    """At an unfinished theta the reported gap bounds the true suboptimality."""
    X, Y, _ = CASES["square"]
    best = BipartiteMatchingCRF(rho=1.0, tol=1e-10).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model = learner_of(max_iter=2, tol=1e-9).fit(X, Y)
    likelihood = (
        model.estimator_.approximate_log_likelihood(X, Y).sum() - 0.5 * model.coef_ @ model.coef_
    )
    assert model.n_iter_ == 2
    assert model.objective_ - model.duality_gap_ == pytest.approx(likelihood, rel=1e-6)
    assert model.objective_ >= best.objective_ - best.duality_gap_ - 1e-6
    assert len(model.history_) == 3


def test_stopping_early_keeps_the_best():
    X, Y, _ = CASES["square"]

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = learner_of(tol=1e-12, callback=interrupt).fit(X, Y)
    assert np.abs(model.coef_).max() > 0.0
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model = learner_of(tol=1e-12, max_time=1e-9).fit(X, Y)
    assert model.n_iter_ == 0


# ---------------------------------------------------------------------- scikit-learn, files
def test_cloning_and_grid_search():
    X, Y, _ = CASES["ragged"]
    model = learner_of(feature_names=["a", "b", "c"])
    assert repr(clone(model)) == repr(model)
    search = GridSearchCV(
        model, {"estimator__alpha": [0.1, 10.0], "estimator__rho": [0.7, 1.0]}, cv=2
    ).fit(X, Y)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert list(search.best_estimator_.named_coef()) == ["a", "b", "c"]
    assert not hasattr(model, "coef_")


def test_files(tmp_path):
    X, Y, options = CASES["singles"]
    model = learner_of(**options).fit(X, Y)
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    for ours, theirs in zip(again.predict_marginals(X), model.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha must be positive"),
        ({"rho": 0.3}, r"rho must lie in \[0.5, 1\]"),
        ({"max_sweeps": 1.5}, "max_sweeps must be a positive integer"),
        ({"bp_tol": 0.0}, "bp_tol must be positive"),
    ],
)
def test_bad_parameters(options, message):
    X, Y, _ = CASES["square"]
    with pytest.raises(ValueError, match=message):
        learner_of(**options).fit(X, Y)


def test_capacities_are_beyond_it():
    x = np.random.default_rng(0).normal(size=(2, 4, 2))
    pairs = np.array([[0, 0], [0, 1], [1, 2], [1, 3]])
    with pytest.raises(ValueError, match="capacities other than 1"):
        learner_of().fit([PairInput(x, capacity=([2, 2], [1] * 4))], [pairs])
