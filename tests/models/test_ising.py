"""IsingMRF against enumeration, closed forms and planted models."""

import numpy as np
import pytest
from enumerated_answers import Enumerated, maximum_likelihood
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from mlestruct import IsingMRF, load
from mlestruct.exceptions import TooLargeToCount

PAIRS = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [1, 4]])


def planted(n=400, seed=0):
    """Rows of a model of five variables with two cycles."""
    rng = np.random.default_rng(seed)
    exact = Enumerated(PAIRS, rng.normal(size=5) - 0.5, 1.5 * rng.normal(size=6))
    return exact.answers[rng.choice(32, size=n, p=exact.probabilities)], exact


def enumerated(model, known=None):
    return Enumerated(model.edges_, model.fields_, model.couplings_, known)


# ---------------------------------------------------------------------------- learning
@pytest.mark.parametrize("graph", ["full", "tree", "none", PAIRS])
def test_maximum_likelihood_of_enumeration(graph):
    Y, _ = planted()
    model = IsingMRF(graph=graph, alpha=0.5, tol=1e-11).fit(Y)
    fields, couplings, objective = maximum_likelihood(Y, model.edges_, 0.5)
    np.testing.assert_allclose(model.fields_, fields, atol=1e-3)
    np.testing.assert_allclose(model.couplings_, couplings, atol=1e-3)
    assert model.objective_ == pytest.approx(objective, abs=1e-6)
    assert model.is_exact_


def test_l1_on_couplings():
    """The exact likelihood with an l1 penalty, against bounded minimisation of both signs."""
    Y, _ = planted()
    model = IsingMRF(graph="full", alpha=20.0, l1_ratio=0.9, tol=1e-10).fit(Y)
    fields, couplings, objective = maximum_likelihood(Y, model.edges_, 20.0, l1_ratio=0.9)
    np.testing.assert_allclose(model.fields_, fields, atol=1e-3)
    np.testing.assert_allclose(model.couplings_, couplings, atol=1e-3)
    assert model.objective_ == pytest.approx(objective, abs=1e-4)
    assert 0 < (model.couplings_ == 0).sum() < 10
    assert (model.fields_ != 0).all()


def test_reweighted_likelihood_has_a_closed_form():
    """Without regularisation J is rho times the log odds ratio (Wainwright et al. 2003)."""
    Y, _ = planted(4000)
    model = IsingMRF(graph=PAIRS, alpha=1e-4, inference="reweighted", tol=1e-11).fit(Y)
    rho = model._model.reweighting.rho
    for (i, j), share, coupling in zip(PAIRS, rho, model.couplings_, strict=True):
        p = [[np.mean((Y[:, i] == a) & (Y[:, j] == b)) for b in (0, 1)] for a in (0, 1)]
        odds = np.log(p[1][1] * p[0][0] / (p[1][0] * p[0][1]))
        assert coupling == pytest.approx(share * odds, abs=0.01)


def test_reweighted_objective_is_a_lower_bound():
    Y, _ = planted()
    lower = IsingMRF(graph=PAIRS, inference="reweighted").fit(Y)
    exact = IsingMRF(graph=PAIRS).fit(Y)
    assert lower.objective_ < exact.objective_bound_


def test_weights_are_repetitions_and_sparse_is_dense():
    Y, _ = planted(100)
    weights = np.random.default_rng(0).integers(0, 4, 100)
    one = IsingMRF(tol=1e-10).fit(Y, sample_weight=weights)
    other = IsingMRF(tol=1e-10).fit(sparse.csr_array(np.repeat(Y, weights, axis=0)))
    np.testing.assert_array_equal(one.edges_, other.edges_)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-4)


def test_structure_search_finds_the_graph():
    rng = np.random.default_rng(0)
    ring = np.stack([np.arange(8), (np.arange(8) + 1) % 8], axis=1)
    exact = Enumerated(ring, np.full(8, -2.0), np.full(8, 1.8))
    Y = exact.answers[rng.choice(256, size=5000, p=exact.probabilities)]
    found = {tuple(pair) for pair in IsingMRF().fit(Y).edges_.tolist()}
    assert found == {tuple(sorted(pair)) for pair in ring.tolist()}


def test_a_fit_that_starts_from_another_needs_fewer_steps():
    Y, _ = planted()
    first = IsingMRF(graph="full").fit(Y)
    again = IsingMRF(graph="full", alpha=1.1).fit(Y, start=first)
    assert again.n_iter_ < first.n_iter_
    np.testing.assert_allclose(again.coef_, IsingMRF(1.1, "full").fit(Y).coef_, atol=0.01)


# ---------------------------------------------------------------------------- questions
def test_marginals_given_some_variables():
    Y, _ = planted()
    model = IsingMRF(graph=PAIRS).fit(Y)
    known = np.array([[-1, -1, -1, -1, -1], [1, -1, 0, -1, -1], [1, 1, 1, 0, 0]])
    found = model.predict_marginals(known)
    for m, row in enumerate(known):
        np.testing.assert_allclose(found[m], enumerated(model, row).nodes, atol=1e-9)
    np.testing.assert_allclose(model.predict_marginals(), found[:1])
    far = np.abs(model.predict_marginals(known, method="perturb", random_state=0) - found)
    assert 0.0 < far.max() < 0.2
    unknown = np.where(known < 0, np.nan, known)
    np.testing.assert_array_equal(model.predict_marginals(unknown), found)
    with pytest.raises(ValueError, match=r"known\[0, 0\] is 3"):
        model.predict_marginals([[3, 0, 0, 0, 0]])


def test_draws_have_the_marginals():
    Y, _ = planted()
    model = IsingMRF(graph=PAIRS).fit(Y)
    drawn = model.sample(4000, random_state=0)
    assert np.abs(drawn.mean(axis=0) - model.predict_marginals()[0]).max() < 0.04


# ---------------------------------------------------------------------------- evaluation
@pytest.mark.parametrize("inference", ["exact", "reweighted"])
def test_likelihoods(inference):
    Y, _ = planted(60)
    model = IsingMRF(graph=PAIRS, inference=inference).fit(Y)
    lower, upper = model.log_likelihood_bounds(Y)
    truth = np.array([enumerated(model).log_likelihood(y) for y in Y])
    assert (lower <= truth + 1e-9).all()
    assert (truth <= upper + 1e-9).all()
    assert model.score(Y) <= truth.mean() + 1e-9
    if inference == "exact":
        np.testing.assert_allclose(model.log_likelihood(Y), truth)
        assert model.score(Y) == pytest.approx(truth.mean())
    else:
        with pytest.raises(TooLargeToCount, match="log_likelihood_bounds"):
            model.log_likelihood(Y)


@pytest.mark.parametrize("inference", ["exact", "reweighted"])
def test_likelihoods_given_some_variables(inference):
    Y, _ = planted(30)
    model = IsingMRF(graph="full", inference=inference).fit(Y)
    known = np.where(np.arange(5) < 3, -1, Y)
    lower, upper = model.log_likelihood_bounds(Y, known=known)
    truth = np.array(
        [enumerated(model, k).log_likelihood(y) for k, y in zip(known, Y, strict=True)]
    )
    assert (lower - 1e-6 <= truth).all()
    assert (truth <= upper + 1e-6).all()
    if inference == "exact":
        np.testing.assert_allclose(model.log_likelihood(Y, known=known), truth, atol=1e-9)
    with pytest.raises(ValueError, match=r"known\[0, 0\] differs"):
        model.log_likelihood_bounds(Y, known=1 - Y)
    with pytest.raises(ValueError, match="X has 30 samples but known has 2 rows"):
        model.log_likelihood_bounds(Y, known=known[:2])


def test_log_odds_given_all_others():
    Y, _ = planted(20)
    model = IsingMRF(graph=PAIRS).fit(Y)
    found = expit(model.fields_ + Y @ model.coupling_matrix())
    for m, i in np.ndindex(Y.shape):
        row = np.where(np.arange(5) == i, -1, Y[m])
        assert found[m, i] == pytest.approx(enumerated(model, row).nodes[i])


# ---------------------------------------------------------------------------- as an estimator
def test_grid_search_chooses_by_held_out_likelihood():
    Y, _ = planted(300)
    folds = KFold(3)
    search = GridSearchCV(IsingMRF(graph="full"), {"alpha": [0.1, 10.0, 1000.0]}, cv=folds).fit(Y)
    means = []
    for alpha in (0.1, 10.0, 1000.0):
        scores = []
        for train, test in folds.split(Y):
            model = IsingMRF(graph="full", alpha=alpha).fit(Y[train])
            scores.append(np.mean([enumerated(model).log_likelihood(y) for y in Y[test]]))
        means.append(np.mean(scores))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], means, atol=1e-6)
    assert search.best_params_ == {"alpha": [0.1, 10.0, 1000.0][int(np.argmax(means))]}


def test_saving(tmp_path):
    Y, _ = planted()
    model = IsingMRF(l1=0.3).fit(Y)
    model.save(tmp_path / "model.mls")
    again = load(tmp_path / "model.mls")
    assert again.named_coef() == model.named_coef()
    assert list(again.named_coef(list("abcde")))[:5] == list("abcde")
    np.testing.assert_array_equal(again.edges_, model.edges_)
    np.testing.assert_array_equal(again.log_likelihood(Y), model.log_likelihood(Y))
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("inference", ["auto", "reweighted"])
@pytest.mark.parametrize("table", [np.zeros((4, 3)), np.ones((1, 2)), np.eye(3)])
def test_constant_variables_and_single_rows(table, inference):
    for graph in ("l1", "full", "tree"):
        model = IsingMRF(graph=graph, inference=inference).fit(table)
        assert np.isfinite(model.coef_).all()
        assert model.score(table) <= 0.0
        assert model.predict_marginals(table).tolist() == table.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": "star"}, "`graph` must be one of"),
        ({"graph": [[0, 7]]}, "graph: edge 0"),
        ({"l1": 0.0}, "l1"),
        ({"alpha": -1.0}, "alpha"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        IsingMRF(**options).fit(np.eye(3))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.arange(4).reshape(2, 2), r"X\[1, 0\] is 2, expected 0 or 1\. Pass a threshold"),
        (np.zeros(3), r"X: expected shape \(n_samples, n_variables\)"),
        (np.zeros((0, 2)), "X: expected at least one row"),
        ([[0, 1], [1]], "X: expected an array"),
        (np.array([["a"]]), r"X\[0, 0\] is 'a', expected 0 or 1"),
    ],
)
def test_bad_tables(table, message):
    with pytest.raises(ValueError, match=message):
        IsingMRF().fit(table)


def test_another_number_of_variables():
    with pytest.raises(ValueError, match="expected 3 columns, got 2"):
        IsingMRF().fit(np.eye(3)).score(np.eye(2))
