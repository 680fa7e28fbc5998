"""MultiLabelCRF against enumeration, scikit-learn's logistic regression and its checks."""

import copy
from itertools import product

import numpy as np
import pytest
import sklearn
from enumerated_answers import Enumerated, all_answers, maximum_likelihood
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from mlestruct import MultiLabelCRF, load
from mlestruct.exceptions import TooLargeToCount
from mlestruct.learning import BlockFrankWolfe
from mlestruct.models.binary import Answers

# SciPy's array API is off unless an environment variable is set, so scikit-learn skips that check;
# no other check is skipped, and those that are expected to fail are wrong themselves.


def wrong_checks(_):
    """Those that give repeated samples other labels than weighted ones, which are shuffled."""
    if not sklearn.__version__.startswith("1.6."):
        return {}
    kinds = "dense", "sparse"
    return {f"check_sample_weight_equivalence_on_{kind}_data": "labels differ" for kind in kinds}


@parametrize_with_checks(
    [MultiLabelCRF(), MultiLabelCRF(graph="tree", decision="marginal")],
    expected_failed_checks=wrong_checks,
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def coupled_data(n=200, n_labels=4, seed=0):
    """Samples of a known model, drawn by enumeration."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    weights = rng.normal(size=(n_labels, 3))
    pairs = np.stack(np.triu_indices(n_labels, 1), axis=1)
    couplings = rng.normal(size=len(pairs))
    Y = []
    for x in X:
        exact = Enumerated(pairs, weights @ x - 0.5, couplings)
        Y.append(exact.answers[rng.choice(len(exact.answers), p=exact.probabilities)])
    return X, np.array(Y)


def enumerated(model, x):
    couplings = model.edge_coef_
    if model.couplings == "features":
        couplings = couplings @ np.append(x, 1.0)
    return Enumerated(model.edges_, model.node_coef_ @ x + model.intercept_, couplings)


# ---------------------------------------------------------------------------- learning
def test_without_edges_it_is_logistic_regression():
    X, Y = coupled_data()
    model = MultiLabelCRF(graph="none", alpha=2.0, tol=1e-9).fit(X, Y)
    tens = np.concatenate([X, np.full((len(X), 1), 10.0)], axis=1)
    for k in range(Y.shape[1]):
        other = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10).fit(tens, Y[:, k])
        found = np.append(model.node_coef_[k], model.intercept_[k] / 10)
        np.testing.assert_allclose(found, other.coef_[0], atol=1e-4)


@pytest.mark.parametrize("graph", ["full", "tree", [[0, 1], [2, 3]]])
def test_constant_features_give_the_maximum_likelihood_of_enumeration(graph):
    _, Y = coupled_data()
    model = MultiLabelCRF(graph=graph, alpha=0.5, tol=1e-10).fit(np.zeros((len(Y), 1)), Y)
    fields, couplings, objective = maximum_likelihood(Y, model.edges_, 0.5)
    np.testing.assert_allclose(model.intercept_, fields, atol=1e-4)
    np.testing.assert_allclose(model.edge_coef_, couplings, atol=1e-4)
    assert model.objective_ == pytest.approx(objective, abs=1e-5)


@pytest.mark.parametrize("couplings", ["constant", "features"])
def test_gradient_vanishes_at_the_solution(couplings):
    """Observed minus expected moments equal alpha times the weights."""
    X, Y = coupled_data(80)
    model = MultiLabelCRF(alpha=1.0, couplings=couplings, tol=1e-11).fit(X, Y)
    ones = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    exact = [enumerated(model, x) for x in X]
    nodes = Y - np.array([e.nodes for e in exact])
    both = Y[:, model.edges_[:, 0]] * Y[:, model.edges_[:, 1]] - np.array([e.edges for e in exact])
    edges = both.T @ (ones if couplings == "features" else np.ones((len(X), 1)))
    constant = np.array([*[1.0] * 3, 100.0])  # the constant feature is 10 times larger
    nodes, edges = (nodes.T @ ones) * constant, edges * (constant if edges.shape[1] == 4 else 1.0)
    gradient = np.concatenate([nodes.ravel(), edges.ravel()])
    np.testing.assert_allclose(gradient, model.coef_, atol=1e-3)


def test_reweighted_likelihood_bounds_the_exact_one():
    X, Y = coupled_data()
    model = MultiLabelCRF(inference="reweighted", tol=1e-6).fit(X, Y)
    assert not model.is_exact_
    assert model.converged_
    lower, upper = model.log_likelihood_bounds(X, Y)
    truth = np.array([enumerated(model, x).log_likelihood(y) for x, y in zip(X, Y, strict=True)])
    assert (lower <= truth + 1e-8).all()
    assert (truth <= upper + 1e-8).all()
    assert model.objective_bound_ <= MultiLabelCRF(tol=1e-6).fit(X, Y).objective_bound_ + 1e-6


def test_solvers_agree():
    X, Y = coupled_data(40)
    settings = {"inference": "reweighted", "fit_intercept": False}
    best = MultiLabelCRF(**settings, tol=1e-6).fit(X, Y)
    paper = MultiLabelCRF(**settings, solver=BlockFrankWolfe(), tol=1e-2).fit(X, Y)
    assert paper.converged_
    assert paper.objective_bound_ == pytest.approx(best.objective_bound_, rel=1e-2)


def test_weights_are_repetitions():
    X, Y = coupled_data(60)
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    model = MultiLabelCRF(tol=1e-9).fit(X, Y, weights)
    repeated = MultiLabelCRF(tol=1e-9).fit(np.repeat(X, weights, 0), np.repeat(Y, weights, 0))
    np.testing.assert_allclose(model.coef_, repeated.coef_, atol=1e-4)


def test_sparse_features_and_threads_change_nothing():
    X, Y = coupled_data(600)
    X = np.where(X > 0.5, X, 0.0)
    dense = MultiLabelCRF(tol=1e-9).fit(X, Y)
    thin = MultiLabelCRF(tol=1e-9, n_jobs=2).fit(sparse.csr_array(X), sparse.csr_array(Y))
    np.testing.assert_allclose(dense.coef_, thin.coef_, atol=1e-5)
    np.testing.assert_allclose(
        dense.predict_proba(X), thin.predict_proba(sparse.csr_array(X)), atol=1e-6
    )


def test_tree_has_the_strongest_pairs():
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, size=(500, 4))
    Y[:, 3] = Y[:, 0] ^ (rng.random(500) < 0.1)
    Y[:, 2] = Y[:, 3] ^ (rng.random(500) < 0.2)
    tree = MultiLabelCRF(graph="tree").fit(np.zeros((500, 1)), Y)
    pairs = {tuple(sorted(pair)) for pair in tree.edges_.tolist()}
    assert {(0, 3), (2, 3)} < pairs
    assert len(pairs) == 3


def test_selected_pairs_are_coupled_given_the_features():
    """Labels that only share a feature are not joined, copies of each other are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    Y = (X[:, :1] + rng.logistic(scale=0.5, size=(3000, 4)) > 0).astype(int)
    Y[:, 3] = np.where(rng.random(3000) < 0.5, Y[:, 2], Y[:, 3])
    assert MultiLabelCRF(graph="l1").fit(X, Y).edges_.tolist() == [[2, 3]]


# ---------------------------------------------------------------------------- prediction
@pytest.fixture(scope="module")
def fitted():
    X, Y = coupled_data(150)
    return MultiLabelCRF(alpha=0.3).fit(X, Y), X, Y


def test_probabilities_and_sets_agree_with_enumeration(fitted):
    model, X, Y = fitted
    proba, best, joint = model.predict_proba(X), model.predict(X), model.predict_joint(X, k=6)
    likelihood = model.log_likelihood(X, Y)
    for m in range(0, len(X), 10):
        exact = enumerated(model, X[m])
        np.testing.assert_allclose(proba[m], exact.nodes, atol=1e-9)
        order = np.argsort(-exact.probabilities)[:6]
        np.testing.assert_allclose(joint.probabilities[m], exact.probabilities[order])
        np.testing.assert_array_equal(joint.labels[m], exact.answers[order])
        np.testing.assert_array_equal(best[m], exact.answers[order[0]])
        assert likelihood[m] == pytest.approx(exact.log_likelihood(Y[m]))


def test_known_answers(fitted):
    model, X, Y = fitted
    known = np.tile([1, -1, 0, -1], (len(X), 1))
    proba, joint = model.predict_proba(X, known), model.predict_joint(X, k=9, known=known)
    for m in range(0, len(X), 10):
        full = enumerated(model, X[m])
        agrees = (full.answers[:, 0] == 1) & (full.answers[:, 2] == 0)
        p = np.where(agrees, full.probabilities, 0.0)
        np.testing.assert_allclose(proba[m], (p / p.sum()) @ full.answers, atol=1e-9)
        assert joint.probabilities[m, :4].sum() == pytest.approx(1.0)
        assert (joint.probabilities[m, 4:] == 0).all()
    np.testing.assert_array_equal(model.predict(X, known)[:, [0, 2]], known[:, [0, 2]])
    others = clone(model).set_params(inference="reweighted", graph="tree").fit(X, Y)
    exact = clone(others).set_params(inference="exact").fit(X, Y)
    for own in (None, known):  # on a tree all are exact but perturb-and-MAP
        expected = exact.predict_marginals(X, own, method="exact")
        for method in ("exact", "fw", "perturb"):
            found = others.predict_marginals(X, own, tol=1e-6, method=method)
            far = np.abs(found - expected)
            assert far.max() < (0.2 if method == "perturb" else 2e-3)
    with pytest.raises(ValueError, match="`method` must be one of"):
        model.predict_proba(X, method="guess")
    with pytest.raises(ValueError, match="X has 150 samples but known has 3 rows"):
        model.predict_proba(X, known[:3])
    with pytest.raises(ValueError, match=r"known\[0, 0\] is 5"):
        model.predict(X, np.full_like(known, 5))


def test_decisions(fitted):
    model, X, _ = fitted
    proba = model.predict_proba(X)
    other = copy.copy(model).set_params(decision="marginal")
    np.testing.assert_array_equal(other.predict(X), proba > 0.5)
    assert other.set_params(decision="f1").predict(X).sum() >= (proba > 0.5).sum()
    with pytest.raises(ValueError, match="decision"):
        other.set_params(decision="best").predict(X)


def test_draws_have_the_marginals(fitted):
    model, X, _ = fitted
    drawn = model.sample(X[:2], 500, random_state=0)
    assert drawn.shape == (500, 2, 4)
    assert np.abs(drawn.mean(axis=0) - model.predict_proba(X[:2])).max() < 0.09


def test_all_sets_add_up_to_one(fitted):
    model, X, _ = fitted
    joint = model.predict_joint(X[:3], k=100)
    assert joint.labels.shape == (3, 16, 4)
    np.testing.assert_allclose(joint.probabilities.sum(axis=1), 1.0)
    assert {tuple(row) for row in joint.labels[0]} == {tuple(row) for row in all_answers(4)}


# ---------------------------------------------------------------------------- as an estimator
def test_classes_of_any_kind(tmp_path):
    X, Y = coupled_data(50)
    words = np.where(Y == 1, "yes", "no")
    model = MultiLabelCRF().fit(X, words)
    np.testing.assert_array_equal(model.predict(X) == "yes", MultiLabelCRF().fit(X, Y).predict(X))
    model.save(tmp_path / "model.mls")
    again = load(tmp_path / "model.mls")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.named_coef() == model.named_coef()
    assert next(iter(model.named_coef(["a", "b", "c"]))) == "0:a"


def test_grid_search():
    X, Y = coupled_data(60)
    search = GridSearchCV(MultiLabelCRF(tol=1e-2), {"graph": ["none", "full"]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.5


def test_paths_and_starts():
    X, Y = coupled_data(80)
    path = MultiLabelCRF().fit_path(X, Y, [1.0, 10.0])
    assert path.alphas == [10.0, 1.0]
    assert path.best(X, Y).score(X, Y) > 0.6
    first = MultiLabelCRF(tol=1e-8).fit(X, Y)
    again = MultiLabelCRF(tol=1e-8).fit(X, Y, start=first)
    assert again.n_iter_ < first.n_iter_
    np.testing.assert_allclose(again.coef_, first.coef_, atol=1e-3)


@pytest.mark.parametrize("inference", ["auto", "reweighted"])
@pytest.mark.parametrize("couplings", ["constant", "features"])
def test_a_search_that_selects_no_pairs_gives_independent_labels(inference, couplings):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 2)), rng.integers(2, size=(60, 3))
    options = {"inference": inference, "couplings": couplings, "tol": 1e-8}
    model = MultiLabelCRF(graph="l1", **options).fit(X, Y)
    assert model.edges_.shape == (0, 2)
    known = np.where(rng.random(Y.shape) < 0.5, -1, Y)
    log_odds = X @ model.node_coef_.T + model.intercept_
    p = 1.0 / (1.0 + np.exp(-log_odds))
    np.testing.assert_allclose(model.predict_proba(X), p, atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), p > 0.5)
    given = np.where(known < 0, p, known)
    np.testing.assert_allclose(model.predict_proba(X, known), given, atol=1e-5)
    bounds = model.log_likelihood_bounds(X, Y)
    for found in bounds:
        np.testing.assert_allclose(found, np.log(np.where(Y == 1, p, 1 - p)).sum(1), atol=1e-4)
    if inference == "reweighted":
        with pytest.raises(TooLargeToCount, match=r"exact inference; inference='reweighted'"):
            model.log_likelihood(X, Y)


def test_large_graphs_are_reweighted():
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, size=(30, 24))
    model = MultiLabelCRF(alpha=10.0, tol=1e-2).fit(np.zeros((30, 1)), Y)
    assert not model.is_exact_
    assert model.predict(np.zeros((2, 1))).shape == (2, 24)
    for question in (
        model.predict_joint,
        lambda X: model.sample(X),
        lambda X: model.log_likelihood(X, Y),
    ):
        with pytest.raises(TooLargeToCount, match="graph='tree'"):
            question(np.zeros((30, 1)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": "star"}, "`graph` must be one of"),
        ({"graph": [[0, 9]]}, "graph: edge 0 is"),
        ({"couplings": "yes"}, "couplings"),
        ({"decision": "yes"}, "decision"),
        ({"inference": "yes"}, "inference"),
        ({"alpha": 0.0}, "alpha"),
        ({"tol": -1.0}, "tol"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelCRF(**options).fit(np.eye(3), np.eye(3, dtype=int))


def test_bad_samples():
    with pytest.raises(ValueError, match="X has 3 samples but Y has 2 rows"):
        MultiLabelCRF().fit(np.eye(3), np.eye(2, dtype=int))
    model = MultiLabelCRF().fit(np.eye(3), np.eye(3, dtype=int))
    with pytest.raises(ValueError, match="2 features"):
        model.predict(np.eye(2))


# ---------------------------------------------------------------------- offsets, known answers
def all_scores(model, X, offset):
    """Scores of all label sets of every sample, (n_samples, 2^n), and the sets."""
    n = model.node_coef_.shape[0]
    sets = np.array(list(product([0, 1], repeat=n)))
    fields = X @ model.node_coef_.T + model.intercept_ + offset
    pairs = sets[:, model.edges_[:, 0]] * sets[:, model.edges_[:, 1]]
    return sets, fields @ sets.T + pairs @ model.edge_coef_


@pytest.mark.parametrize("inference", ["exact", "reweighted"])
def test_offsets_and_likelihoods_given_answers_are_as_enumerated(inference):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 2)), rng.integers(2, size=(40, 3))
    offset = rng.normal(size=(40, 3))
    model = MultiLabelCRF(inference=inference, tol=1e-8).fit(X, Y, offset=offset)
    sets, scores = all_scores(model, X, offset)
    log_p = scores - logsumexp(scores, axis=1, keepdims=True)
    at = Y @ [4, 2, 1]
    lower, upper = model.log_likelihood_bounds(X, Y, offset=offset)
    assert (lower - 1e-6 <= log_p[np.arange(40), at]).all()
    assert (log_p[np.arange(40), at] <= upper + 1e-6).all()
    known = np.where(rng.random(Y.shape) < 0.5, -1, Y)
    agree = ((sets[None] == known[:, None]) | (known[:, None] < 0)).all(axis=2)
    given = log_p[np.arange(40), at] - logsumexp(np.where(agree, log_p, -np.inf), axis=1)
    lower, upper = model.log_likelihood_bounds(X, Y, known=known, offset=offset)
    assert (lower - 1e-6 <= given).all()
    assert (given <= upper + 1e-6).all()
    with pytest.raises(ValueError, match=r"known\[0, 0\] differs"):
        model.log_likelihood_bounds(X, Y, known=1 - Y)
    with pytest.raises(ValueError, match=r"offset: expected shape \(40, 3\) or \(3,\), got \(40"):
        model.predict(X, offset=np.zeros((40, 2)))
    with pytest.raises(ValueError, match="offset: must be finite"):
        model.predict(X, offset=np.full(3, np.inf))
    if inference == "reweighted":
        return
    np.testing.assert_allclose(
        model.log_likelihood(X, Y, known=known, offset=offset), given, atol=1e-12
    )
    p = np.exp(log_p) @ sets
    np.testing.assert_allclose(model.predict_proba(X, offset=offset), p, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X, offset=offset), sets[scores.argmax(axis=1)])
    drawn = model.sample(X, 3, known=known, offset=offset, random_state=0)
    assert ((drawn == known) | (known < 0)).all()

    def negative(theta):  # constants are penalised as a feature of the value 10
        other = copy.copy(model)
        other.coef_ = theta * np.where(np.isin(np.arange(12), (2, 5, 8)), 10.0, 1.0)
        total = all_scores(other, X, offset)[1]
        fit = total[np.arange(40), at] - logsumexp(total, axis=1)
        return 0.5 * theta @ theta - fit.sum()

    assert model.objective_ == pytest.approx(-minimize(negative, np.zeros(12)).fun, abs=1e-5)


def test_an_offset_of_log_odds_replaces_what_was_learned():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    odds = X @ [[2.0, -1.0], [0.0, 1.0]]
    Y = (rng.random((300, 2)) < 1 / (1 + np.exp(-odds))).astype(int)
    model = MultiLabelCRF(graph="none", alpha=10.0).fit(X, Y, offset=odds)
    assert np.abs(model.node_coef_).max() < 0.3  # nothing is left to learn
    selected = MultiLabelCRF(graph="l1").fit(X, Y, offset=odds)
    assert selected.score(X, Y, offset=odds) > 0.7
    assert brier_score_loss(*selected.events(X, Y, offset=odds)[:2]) < 0.25


# ---------------------------------------------------------------------- tables of answers
def test_zeros_and_ones_stay_what_they_are():
    Y = np.array([[0, 1], [0, 0]])
    answers = Answers.learn(Y)
    np.testing.assert_array_equal(answers.encode(Y, "Y"), Y)
    np.testing.assert_array_equal(answers.encode(sparse.csr_array(Y), "Y"), Y)
    np.testing.assert_array_equal(answers.decode(Y), Y)


def test_two_classes_a_column():
    Y = np.array([["no", "a"], ["yes", "b"], ["no", "b"]])
    answers = Answers.learn(Y)
    states = answers.encode(Y, "Y")
    np.testing.assert_array_equal(states, [[0, 0], [1, 1], [0, 1]])
    np.testing.assert_array_equal(answers.decode(states), Y)
    again = Answers(answers.to_list())
    np.testing.assert_array_equal(again.decode(states), Y)


def test_numbers_in_one_column_and_words_in_another():
    Y = np.array([[0, "a"], [1, "b"], [0, "b"]], dtype=object)
    for answers in (Answers.learn(Y), Answers(Answers.learn(Y).to_list())):
        states = answers.encode(Y, "Y")
        np.testing.assert_array_equal(states, [[0, 0], [1, 1], [0, 1]])
        np.testing.assert_array_equal(answers.decode(states), Y)


def test_one_column_without_second_axis():
    answers = Answers.learn(["b", "a", "b"])
    assert answers.encode(["a", "b"], "Y").tolist() == [[0], [1]]
    assert answers.decode(np.array([[0], [1]])).tolist() == ["a", "b"]


@pytest.mark.parametrize("unknown", [-1, np.nan, None])
def test_unknown_answers(unknown):
    answers = Answers.learn([[0, 1], [1, 0]])
    states = answers.encode(np.array([[unknown, 1]], dtype=object), "known", partly=True)
    assert states.tolist() == [[-1, 1]]
    with pytest.raises(ValueError, match=r"known\[0, 0\]"):
        answers.encode(np.array([[unknown, 1]], dtype=object), "known")


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([[0, 2], [1, 1], [1, 0]], "Column 1 of Y has 3 classes"),
        ([["a"], ["a"]], "has 1 class,"),
        ([[0.5], [0.25]], "continuous"),
        ([[0.0], [np.nan]], "NaN"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.zeros((2, 0)), "shape"),
    ],
)
def test_bad_answers(Y, message):
    with pytest.raises(ValueError, match=message):
        Answers.learn(Y)


def test_another_number_of_labels():
    with pytest.raises(ValueError, match="expected 2 columns, got 3"):
        Answers.learn([[0, 1]]).encode([[0, 1, 1]], "Y")
