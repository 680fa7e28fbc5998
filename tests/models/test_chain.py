"""ChainCRF, against enumeration, finite differences and crfsuite."""

import copy
import itertools
import pickle
from contextlib import nullcontext
from functools import partial

import numpy as np
import pandas as pd
import pytest
from enumerated_sequences import enumerate_sequence, sequence_score
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mlestruct
from benchmarks import chains as benchmark
from benchmarks.measuring import sentences
from mlestruct import LBFGS, BlockFrankWolfe, FrankWolfe, Parts
from mlestruct.datasets.words import make_words
from mlestruct.learning.problem import Problem
from mlestruct.metrics import neg_log_loss, token_accuracy
from mlestruct.models.chain import ChainCRF
from mlestruct.models.tokens import Vocabulary


def random_words(n_samples=12, n_states=3, n_features=4, seed=0, lengths=(1, 2, 5, 7)):
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for m in range(n_samples):
        y = rng.integers(n_states, size=lengths[m % len(lengths)])
        y[1:] = np.where(rng.random(y.size - 1) < 0.6, y[:-1], y[1:])
        X.append(np.eye(n_states, n_features)[y] + rng.normal(size=(y.size, n_features)))
        Y.append(y)
    return X, Y


# ---------------------------------------------------------------------- learning
def regularised_likelihood(model, X, Y, coef):
    judge = copy.copy(model)
    judge.coef_ = coef
    return judge.log_likelihood(X, Y).sum() - 0.5 * model.alpha * coef @ coef


def test_fit_is_certified_and_stationary():
    X, Y = random_words(30)
    model = ChainCRF(alpha=0.5, tol=1e-9).fit(X, Y)
    assert model.converged_
    best = regularised_likelihood(model, X, Y, model.coef_)
    assert best <= model.objective_bound_ + 1e-9
    assert best >= model.objective_ - 1e-9
    rng = np.random.default_rng(0)
    for direction in rng.normal(size=(10, model.coef_.size)):
        assert regularised_likelihood(model, X, Y, model.coef_ + 1e-2 * direction) < best
    assert model.node_coef_.shape == (3, 4)
    assert model.transition_coef_.shape == (3, 3)
    assert model.edge_coef_.shape == (3, 3, 1)
    assert (np.diag(model.transition_coef_) > 0).all()


def exact_objective(theta, X, Y, n_states, alpha):
    """Regularised negative log-likelihood by enumeration, for theta = (F, G) in a row."""
    cut = n_states * X[0].shape[1]
    weights, table = theta[:cut].reshape(n_states, -1), theta[cut:].reshape(n_states, n_states)
    total = 0.5 * alpha * theta @ theta
    for x, y in zip(X, Y, strict=True):
        nodes, tables = x @ weights.T, np.repeat(table[None], len(y) - 1, axis=0)
        total += enumerate_sequence(nodes, tables)[0] - sequence_score(nodes, tables, y)
    return total


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_objective_gradient_and_certificate_are_those_of_enumeration(kind):
    X, Y = random_words(6, n_features=3, lengths=(1, 2, 4))
    problem = ChainCRF(alpha=0.7)._problem([kind(x) for x in X], Y, classes=[0, 1, 2])
    theta = np.random.default_rng(1).normal(size=problem.n_features)
    at = problem.expect(theta, 1e-8)
    objective = partial(exact_objective, X=X, Y=Y, n_states=3, alpha=0.7)
    assert -problem.primal(theta, at.upper) == pytest.approx(objective(theta), rel=1e-12)
    steps = 1e-5 * np.eye(theta.size)
    slopes = [(objective(theta + h) - objective(theta - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(at.moments - problem.target + 0.7 * theta, slopes, atol=1e-8)
    optimum = -minimize(objective, np.zeros(theta.size), tol=1e-9).fun
    gaps = []

    def check(progress):
        assert progress.objective <= optimum + 1e-7
        assert progress.objective_bound >= optimum - 1e-7
        gaps.append(progress.gap)

    model = ChainCRF(alpha=0.7, tol=1e-6, solver=LBFGS(callback=check))
    model.fit([kind(x) for x in X], Y, classes=[0, 1, 2])
    assert gaps[-1] <= 1e-6 * max(1.0, abs(optimum))
    assert model.objective_ == pytest.approx(optimum, abs=1e-5)


def test_log_likelihood_and_marginals_are_those_of_enumeration():
    X, Y = random_words(8)
    model = ChainCRF(tol=1e-6).fit(X, Y)
    lower, upper = model.log_likelihood_bounds(X, Y)
    np.testing.assert_array_equal(lower, upper)
    for x, y, value, tau, best in zip(
        X, Y, lower, model.predict_marginals(X), model.predict(X), strict=True
    ):
        nodes = x @ model.node_coef_.T
        tables = np.repeat(model.transition_coef_[None], len(y) - 1, axis=0)
        log_z, node, _, states = enumerate_sequence(nodes, tables)
        assert value == pytest.approx(sequence_score(nodes, tables, y) - log_z, abs=1e-9)
        np.testing.assert_allclose(tau, node, atol=1e-9)
        np.testing.assert_array_equal(best, states)


def test_marginals_from_viterbi_calls_are_close_to_exact_ones():
    X, Y = random_words(8)
    model = ChainCRF().fit(X, Y)
    found = model.predict_marginals(X, tol=1e-5, method="fw")
    for tau, exact in zip(found, model.predict_marginals(X), strict=True):
        np.testing.assert_allclose(tau, exact, atol=0.01)


def test_same_optimum_as_crfsuite(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, Y = benchmark.words(20, 6)
    trainer = benchmark.crfsuite_trainer(*benchmark.word_items(X, Y), 1.0)
    trainer.set_params({"epsilon": 1e-8, "delta": 1e-12, "period": 50})
    trainer.train(str(tmp_path / "model"))
    model = ChainCRF(alpha=1.0, tol=1e-8).fit(X, Y)
    assert model.objective_ == pytest.approx(-trainer.logparser.last_iteration["loss"], rel=1e-6)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    for x, tau in zip(X[:5], model.predict_marginals(X[:5]), strict=True):
        tagger.set([{str(k): float(row[k]) for k in np.flatnonzero(row)} for row in x])
        for label in tagger.labels():
            found = [tagger.marginal(label, t) for t in range(len(x))]
            np.testing.assert_allclose(tau[:, int(label)], found, atol=1e-4)


# ---------------------------------------------------------------------- weights that occur
def sparse_words(n_samples=15, seed=3):
    """Words in which few features occur with each state."""
    rng = np.random.default_rng(seed)
    Y = [rng.integers(4, size=5) for _ in range(n_samples)]
    Y = [np.where(y == 3, 0, y) if m else y for m, y in enumerate(Y)]
    X = [(rng.random((5, 12)) < 0.15) * rng.normal(size=(5, 12)) for y in Y]
    return X, Y


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    ("options", "n_jobs"),
    [
        ({"state_features": "observed", "transitions": "observed"}, None),
        ({"state_features": "observed", "transitions": "observed"}, 2),
        ({"state_features": "observed"}, None),
        ({"transitions": "observed"}, None),
    ],
)
def test_observed_weights_are_the_full_model_restricted(kind, options, n_jobs):
    """The optimum of the full objective over the weights of pairs that occur, others fixed at 0."""
    X, Y = sparse_words()
    nodes, pairs = np.zeros((4, 12), dtype=bool), np.zeros((4, 4), dtype=bool)
    for x, y in zip(X, Y, strict=True):
        for t, state in enumerate(y):
            nodes[state] |= x[t] != 0
        pairs[y[:-1], y[1:]] = True
    nodes |= "state_features" not in options
    pairs |= "transitions" not in options
    free = np.concatenate([nodes.ravel(), pairs.ravel()])
    assert not free.all()
    given = [kind(x) for x in X]
    model = ChainCRF(alpha=0.5, tol=1e-9, n_jobs=n_jobs, **options)
    model.fit(given, Y, classes=range(4))
    assert (model.coef_[~free] == 0.0).all()
    full = ChainCRF(alpha=0.5)._problem(given, Y, classes=range(4))

    def objective(weights):
        theta = np.zeros(free.size)
        theta[free] = weights
        at = full.expect(theta, 1e-8)
        gradient = at.moments - full.target + 0.5 * theta
        return -full.primal(theta, at.upper), gradient[free]

    best = minimize(objective, np.zeros(int(free.sum())), jac=True, options={"gtol": 1e-8})
    assert model.objective_ == pytest.approx(-best.fun, rel=1e-7)
    np.testing.assert_allclose(model.coef_[free], best.x, atol=1e-4)


def test_weights_are_those_of_crfsuite(tmp_path):
    """The same weights exist, and the same optimum is found, for dictionaries of strings."""
    pytest.importorskip("pycrfsuite")
    X, Y = sentences(60)
    trainer = benchmark.crfsuite_trainer(X, Y, 1.0, "observed")
    trainer.set_params({"epsilon": 1e-8, "delta": 1e-12, "period": 50})
    trainer.train(str(tmp_path / "model"))
    model = ChainCRF(alpha=1.0, tol=1e-8, state_features="observed", transitions="observed")
    problem = model._problem(X, Y)
    assert problem.n_features == int(trainer.logparser.featgen_num_features)
    model.fit(X, Y)
    assert model.objective_ == pytest.approx(-trainer.logparser.last_iteration["loss"], rel=1e-6)


def test_dictionaries_equal_arrays(tmp_path):
    X, Y = sentences(40)
    model = ChainCRF(tol=1e-6).fit(X[:30], Y[:30])
    names = model.feature_names_in_.tolist()
    table = Vocabulary(names).read(list(itertools.chain.from_iterable(X)), learn=False)
    arrays = np.split(table.toarray(), np.cumsum(list(map(len, X)))[:-1])
    other = ChainCRF(tol=1e-6).fit(arrays[:30], Y[:30])
    np.testing.assert_allclose(model.predict_marginals(X[30:])[0],
                               other.predict_marginals(arrays[30:])[0], atol=1e-3)  # fmt: skip
    assert model.named_coef()[f"{model.classes_[0]}:{names[0]}"] == model.coef_[0]
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    for a, b in zip(again.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="fitted with arrays of numbers"):
        other.predict(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X)[0], model.predict(X)[0])


def test_weights_that_occur_need_all_labels_at_hand():
    X, Y = random_words(4)
    parts = Parts(lambda part: (X, Y), sources=[0])
    observed = ChainCRF(transitions="observed")
    for fit, message in (
        (ChainCRF(state_features="some").fit, "`state_features` must be 'all' or 'observed'"),
        (partial(observed.fit, missing="marginalise"), "transitions='all', not 'observed'"),
        (lambda X, Y: observed.fit(parts, classes=[0, 1, 2]), "parts do not know each other's"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(X, Y)


@pytest.mark.parametrize("solver", [FrankWolfe(), BlockFrankWolfe(), LBFGS()])
def test_solvers_agree_within_their_gaps(solver):
    X, Y = random_words(10)
    best = ChainCRF(alpha=2.0, tol=1e-9).fit(X, Y)
    other = ChainCRF(alpha=2.0, solver=solver, tol=0.05, max_iter=3000, random_state=0).fit(X, Y)
    assert other.converged_
    assert other.objective_bound_ >= best.objective_bound_ - 1e-6
    value = regularised_likelihood(other, X, Y, other.coef_)
    assert best.objective_bound_ - 1e-6 <= value + other.duality_gap_
    assert value <= best.objective_bound_ + 1e-6


@pytest.mark.parametrize("n_jobs", [None, 1, 3])
def test_grouping_and_threads_change_nothing(n_jobs, monkeypatch):
    monkeypatch.setattr("mlestruct.models.chain.FEW_STEPS", 0)  # predictions use threads, too
    X, Y = random_words(30)
    reference = ChainCRF(tol=1e-10, solver=LBFGS()).fit(X, Y)
    model = ChainCRF(tol=1e-10, n_jobs=n_jobs).fit(X, Y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-5)
    for a, b in zip(model.predict_marginals(X), reference.predict_marginals(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    singles = ChainCRF(solver=BlockFrankWolfe())
    blocks = singles._problem(X, Y).blocks
    assert len(blocks) == 30
    few = ChainCRF(n_jobs=n_jobs)._problem(X, Y).blocks
    assert len(few) == (1 if n_jobs in (None, 1) else 6)
    whole = ChainCRF()._problem(X, Y)
    np.testing.assert_allclose(Problem(blocks, 1.0).target, whole.target, atol=1e-10)
    theta = reference.coef_
    total = sum(block.expect(theta, None, 1e-8)[0].value for block in blocks)
    assert total == pytest.approx(whole.blocks[0].expect(theta, None, 1e-8)[0].value, abs=1e-9)


def test_weights_equal_repetition():
    X, Y = random_words(6)
    weights = [2.0, 1.0, 0.0, 1.0, 2.0, 1.0]
    weighted = ChainCRF(tol=1e-10).fit(X, Y, sample_weight=weights)
    picked = [0, 0, 1, 3, 4, 4, 5]
    repeated = ChainCRF(tol=1e-10)
    repeated.fit([X[m] for m in picked], [Y[m] for m in picked], classes=[0, 1, 2])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


def test_unknown_tokens_cut_the_chain():
    X, Y = random_words(12, lengths=(9,))
    masked = [y.astype(float) for y in Y]
    pieces_x, pieces_y = [], []
    for x, y in zip(X, masked, strict=True):
        y[[0, 4]] = np.nan
        pieces_x += [x[1:4], x[5:]]
        pieces_y += [y[1:4].astype(int), y[5:].astype(int)]
    masked[3][:] = np.nan
    pieces_x, pieces_y = pieces_x[:6] + pieces_x[8:], pieces_y[:6] + pieces_y[8:]
    whole = ChainCRF(tol=1e-10).fit(X, masked)
    cut = ChainCRF(tol=1e-10).fit(pieces_x, pieces_y)
    np.testing.assert_allclose(whole.coef_, cut.coef_, atol=1e-6)
    assert whole.log_likelihood(X, masked)[3] == 0.0
    assert whole.log_likelihood(X, masked).sum() == pytest.approx(
        cut.log_likelihood(pieces_x, pieces_y).sum(), abs=1e-4
    )
    assert [len(y) for y in whole.predict(X)] == [9] * 12
    known = [y >= 0 for y in masked]
    right = [
        np.mean(found[k] == y[k])
        for found, y, k in zip(whole.predict(X), masked, known, strict=True)
        if k.any()
    ]
    assert whole.score(X, masked) == pytest.approx(np.mean(right))
    with pytest.raises(ValueError, match="no label is known"):
        ChainCRF().fit(X, [np.full(9, None)] * 12)


def test_unseen_states_are_kept():
    X, Y = random_words(8)
    model = ChainCRF(tol=1e-8).fit(X, Y, classes=range(5))
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    assert all(tau.shape[1] == 5 for tau in model.predict_marginals(X))
    np.testing.assert_allclose(model.node_coef_[3], model.node_coef_[4], atol=1e-6)
    gap = ChainCRF(tol=1e-8).fit(X, [np.where(y == 1, 3, y) for y in Y])  # 1 never occurs
    assert gap.classes_.tolist() == [0, 2, 3]
    assert {int(k) for y in gap.predict(X) for k in y} <= {0, 2, 3}
    with pytest.raises(ValueError, match=r"Y\[\d\]: found 1 at .*one of 0, 2, 3, or None"):
        gap.log_likelihood(X, Y)
    assert gap.score(X, [np.full_like(y, 1) for y in Y]) == 0.0


def test_sparse_features_under_a_weak_penalty_take_few_steps():
    X, Y = make_words(150, 10, random_state=0)
    pixels = [sparse.csr_array(np.hstack([x, 1.0 - x])) for x in X]
    model = ChainCRF(alpha=0.01, tol=1e-4).fit(pixels, Y)
    assert model.converged_
    assert model.n_iter_ < 120


def test_strings_learn_what_integers_learn():
    X, Y = random_words(10)
    names = np.array(["noun", "verb", "adjective"])
    model = ChainCRF(tol=1e-9).fit(X, [names[y] for y in Y])
    order = np.argsort(names)
    assert model.classes_.tolist() == sorted(names)
    plain = ChainCRF(tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(model.node_coef_, plain.node_coef_[order], atol=1e-5)
    for found, states in zip(model.predict(X), plain.predict(X), strict=True):
        np.testing.assert_array_equal(found, names[states])
    assert model.score(X, [names[y] for y in Y]) == pytest.approx(plain.score(X, Y))
    listed = [[None if k == 2 else str(names[s]) for k, s in enumerate(y)] for y in Y]
    masked = ChainCRF(tol=1e-9).fit(X, listed)
    numbers = [np.where(np.arange(len(y)) == 2, np.nan, y) for y in Y]
    np.testing.assert_allclose(
        masked.node_coef_, ChainCRF(tol=1e-9).fit(X, numbers).node_coef_[order], atol=1e-5
    )
    assert 0 < masked.score(X, listed) <= 1
    coef = model.named_coef(list("abcd"))
    assert coef["noun:b"] == model.node_coef_[1, 1]
    assert coef["noun->verb"] == model.transition_coef_[1, 2]
    assert len(coef) == model.coef_.size


def test_sparse_and_single_precision_equal_dense():
    X, Y = make_words(12, 4, random_state=0)
    reference = ChainCRF(tol=1e-9).fit([x.astype(np.float64) for x in X], Y)
    stored = [sparse.csr_matrix(x) if m % 2 else sparse.coo_array(x) for m, x in enumerate(X)]
    mixed = [x if m % 3 else x.astype(bool) for m, x in enumerate(stored[:1] + X[1:])]
    for inputs in (X, stored, mixed):
        model = ChainCRF(tol=1e-9).fit(inputs, Y)
        # The objective is strongly concave: a gap allows for weights this far from the optimum.
        far = sum(np.sqrt(2.0 * fitted.duality_gap_) for fitted in (model, reference))
        np.testing.assert_allclose(model.coef_, reference.coef_, atol=far)
        for tau, other in zip(
            model.predict_marginals(inputs), reference.predict_marginals(X), strict=True
        ):
            np.testing.assert_allclose(tau, other, atol=1e-4)
    wide = [sparse.hstack([x, sparse.csr_array((x.shape[0], 1900))]).tocsr() for x in stored]
    model = ChainCRF(tol=1e-4).fit(wide, Y)
    assert model.objective_ == pytest.approx(reference.objective_bound_, rel=1e-4)


@pytest.mark.parametrize("kind", ["dictionaries", "lists"])
def test_tuples_of_tokens_are_sequences(kind):
    """Two tokens as well, which could be taken for node features and edge features."""
    rng = np.random.default_rng(0)
    Y = [rng.choice(["A", "B"], size=size).tolist() for size in (2, 2, 2, 3, 1, 4) * 3]
    X = [[{"seen": y, "at": t / 4} for t, y in enumerate(own)] for own in Y]
    if kind == "lists":
        X = [[[f"seen {y}", f"at {t}"] for t, y in enumerate(own)] for own in Y]
    tuples = [tuple(x) for x in X]
    plain, model = ChainCRF(tol=1e-6).fit(X, Y), ChainCRF(tol=1e-6).fit(tuples, Y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    for found, tau, x in zip(
        model.predict(tuples), model.predict_marginals(tuples), X, strict=True
    ):
        np.testing.assert_array_equal(found, plain.predict([x])[0])
        np.testing.assert_allclose(tau, plain.predict_marginals([x])[0], atol=1e-12)
    pairs = [(x, np.ones((len(x) - 1, 1))) for x in X]
    same = ChainCRF(tol=1e-6).fit(pairs, Y)
    np.testing.assert_allclose(same.coef_, plain.coef_, atol=1e-3)
    assert [y.size for y in model.predict([(), X[0], ({}, {})])] == [0, 2, 2]
    with pytest.raises(ValueError, match=r"X\[0\]: tokens are strings, expected a dictionary"):
        model.predict([("a", "b", "c")])


def test_edge_features_contain_transitions_as_a_constant():
    X, Y = random_words(15)
    rng = np.random.default_rng(0)
    constant = [(x, np.ones((len(x) - 1, 1))) for x in X]
    plain = ChainCRF(tol=1e-9).fit(X, Y)
    same = ChainCRF(tol=1e-9).fit(constant, Y)
    np.testing.assert_allclose(same.coef_, plain.coef_, atol=1e-5)
    richer = [(x, np.hstack([e, rng.normal(size=e.shape)])) for x, e in constant]
    model = ChainCRF(tol=1e-9).fit(richer, Y)
    assert model.objective_bound_ > plain.objective_bound_
    assert model.edge_coef_.shape == (3, 3, 2)
    assert "0->2:1" in model.named_coef()
    with pytest.raises(AttributeError, match="edge_coef_"):
        _ = model.transition_coef_
    with pytest.raises(ValueError, match="no edge features, but ChainCRF was fitted with 2"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"has 1 edge features, X\[0\] has 2"):
        model.predict([richer[1], constant[2]])
    masked = [np.where(np.arange(len(y)) == 3, np.nan, y) for y in Y]
    assert ChainCRF(tol=1e-9).fit(richer, masked).converged_


# ---------------------------------------------------------------------- manners
def test_path_search_clone_and_pickle():
    X, Y = random_words(20)
    path = ChainCRF(tol=1e-8).fit_path(X, Y, [0.1, 10.0])
    for alpha, fitted in zip(path.alphas, path.estimators, strict=True):
        alone = ChainCRF(alpha=alpha, tol=1e-8).fit(X, Y)
        np.testing.assert_allclose(fitted.coef_, alone.coef_, atol=1e-3)
        assert fitted.predict(X)[2].shape == Y[2].shape
        assert "0:x0" in fitted.named_coef()
    assert path.best(X, Y).alpha in (0.1, 10.0)
    search = GridSearchCV(ChainCRF(), {"alpha": [0.1, 10.0]}, cv=2).fit(X, Y, classes=range(3))
    assert search.best_params_["alpha"] in (0.1, 10.0)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert again.score(X, Y) == search.best_estimator_.score(X, Y)
    assert clone(again).get_params() == again.get_params()


def test_files_keep_states_and_edge_features(tmp_path):
    X, Y = random_words(10)
    inputs = [(x, np.ones((len(x) - 1, 2))) for x in X]
    labels = [np.array(["x", "y", "z"])[y] for y in Y]
    model = ChainCRF().fit(inputs, labels)
    model.save(tmp_path / "chain.mls")
    again = mlestruct.load(tmp_path / "chain.mls")
    for a, b in zip(model.predict(inputs), again.predict(inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.named_coef() == model.named_coef()
    assert again.n_features_in_ == 4


def test_warm_start_continues():
    X, Y = random_words(20)
    model = ChainCRF(tol=1e-8).fit(X, Y)
    assert ChainCRF(tol=1e-8).fit(X, Y, start=model).n_oracle_calls_ < model.n_oracle_calls_


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 0)), r"X\[1\]: has no features"),
        (np.zeros(3), r"X\[1\]: expected shape \(T, C\), got \(3,\)"),
        (np.full((3, 4), np.nan), r"X\[1\]: found nan at \(0, 0\)"),
        (sparse.csr_array(np.full((3, 4), np.inf)), r"X\[1\]: found inf"),
        (np.full((3, 4), 1e60), r"X\[1\]: has features beyond 1e\+50"),
        (np.zeros((3, 5)), r"X\[1\] has 5 features, X\[0\] has 4"),
        ([["a", "b"], ["c", "d"]], r"X\[1\] has names of features, X\[0\] has arrays"),
        ([[1.0], [1.0, 2.0]], r"X\[1\]: cannot be read"),
        ((np.zeros((3, 4)), np.zeros((3, 1))), r"X\[1\]: expected edge features of shape \(2, D\)"),
        ((np.zeros((3, 4)), np.zeros((2, 1))), r"X\[0\] has no edge features, X\[1\] has some"),
        ((1, 2, 3), r"X\[1\]: a tuple must hold"),
        ("ab c", r"X\[1\]: tokens are strings.*token_features"),
        (["Main", "St", "N"], r"X\[1\]: tokens are strings.*token_features"),
        ({"word": "a"}, r"X\[1\]: expected a sequence of tokens.*give \[x\]"),
    ],
)
def test_bad_samples_are_named(x, message):
    X, Y = [np.zeros((3, 4)), x], [[0, 1, 0], [1, 0, 1]]
    with pytest.raises(ValueError, match=message):
        ChainCRF().fit(X, Y)
    model = ChainCRF().fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match=message):
        model.predict(X)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0, 1], {}, r"Y\[1\]: expected shape \(3,\), a label for every token"),
        (
            [0, 1, -2],
            {"classes": [0, 1]},
            r"Y\[1\]: found -2 at position 2; expected 0 to 1",
        ),
        (
            [0, 1, 2],
            {"classes": [0, 1]},
            r"Y\[1\]: found 2 at position 2; expected 0 to 1",
        ),
        ([0, 1, 0.5], {}, r"Y\[1\]: found 0.5 at position 2"),
        (["a", "b", "a"], {}, r"Y\[0\]: found 0 at position 0; labels must be all strings"),
        ([0, None, "b"], {}, r"Y\[0\]: found 0 at .*; labels must be all strings"),
        ([0, 1, (1, 2)], {}, r"Y\[1\]: labels do not form an array"),
        (np.array([1j, 0, 0]), {}, r"Y\[1\]: labels must be integers or strings"),
    ],
)
def test_bad_labels_are_named(y, options, message):
    X = [np.ones((3, 2)), np.ones((3, 2))]
    with pytest.raises(ValueError, match=message):
        ChainCRF().fit(X, [[0, 1, 0], y], **options)


def test_other_arguments_that_make_no_sense():
    X, Y = random_words(4)
    with pytest.raises(ValueError, match="nothing to learn"):
        ChainCRF().fit(X, [np.zeros_like(y) for y in Y])
    with pytest.raises(ValueError, match="only the label 'a'"):
        ChainCRF().fit(X, [["a"] * len(y) for y in Y])
    with pytest.raises(ValueError, match="positive weight"):
        ChainCRF().fit(X[:2], [[None], Y[1]], [1.0, 0.0], classes=[0, 1])
    model = ChainCRF().fit(X, Y)
    with pytest.raises(ValueError, match=r"Y\[0\]: expected shape"):
        model.score(X, [[0, 1]] * 4)
    with pytest.raises(ValueError, match=r"Y\[0\]: found 'a' at .*integers like the classes"):
        model.log_likelihood(X, [["a"] * len(y) for y in Y])
    assert ChainCRF().fit(X, [np.zeros_like(y) for y in Y], classes=[0, 1]).converged_


def test_names_of_columns_survive(tmp_path):
    rng = np.random.default_rng(0)
    Y = [np.repeat(rng.integers(2, size=4), 2) for _ in range(8)]
    frames = [pd.DataFrame(np.eye(2)[y] + rng.normal(size=(8, 2)), columns=["u", "v"]) for y in Y]
    model = ChainCRF().fit(frames, Y)
    assert model.feature_names_in_.tolist() == ["u", "v"]
    assert "0:u" in model.named_coef()
    assert set(model.state_features_) == {(name, k) for name in "uv" for k in (0, 1)}
    np.testing.assert_array_equal(model.coef_, ChainCRF().fit([x.values for x in frames], Y).coef_)
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    assert again.named_coef() == model.named_coef()
    again.predict([x.values for x in frames])  # arrays have no names to compare
    with pytest.raises(ValueError, match="feature 0 is 'v', in fit it was 'u'"):
        again.predict([x[["v", "u"]] for x in frames])
    with pytest.raises(ValueError, match=r"X\[1\] has 1 features, X\[0\] has 2"):
        ChainCRF().fit([frames[0], frames[1][["u"]]], Y[:2])


def test_weights_that_are_zero_have_no_entry():
    X = [[{"a": 1.0}, {"b": 1.0}], [{"a": 1.0}, {"b": 1.0}, {"b": 1.0}]]
    Y = [["x", "y"], ["x", "y", "y"]]
    model = ChainCRF(state_features="observed", transitions="observed").fit(X, Y)
    assert set(model.state_features_) == {("a", "x"), ("b", "y")}
    assert set(model.transition_features_) == {("x", "y"), ("y", "y")}
    edged = ChainCRF().fit([(np.ones((2, 1)), np.ones((1, 2)))] * 2, [[0, 1], [1, 1]])
    with pytest.raises(AttributeError, match="edge_coef_"):
        _ = edged.transition_features_


def test_l1_weights_are_those_of_crfsuite(tmp_path):
    """crfsuite's c1 = alpha * l1_ratio, c2 = alpha * (1 - l1_ratio) / 2."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, Y = sentences(60, seed=1)
    alpha, ratio = 1.0, 0.6
    trainer = benchmark.crfsuite_trainer(X, Y, alpha)
    trainer.set_params({"c1": alpha * ratio, "c2": alpha * (1 - ratio) / 2, "epsilon": 1e-7,
                        "delta": 1e-9, "period": 50})  # fmt: skip
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    theirs = {**tagger.info().state_features, **tagger.info().transitions}
    model = ChainCRF(alpha=alpha, l1_ratio=ratio, tol=1e-9).fit(X, Y)
    ours = {**model.state_features_, **model.transition_features_}
    assert model.converged_
    assert len(ours) < 0.1 * model.coef_.size
    names = set(ours) | set(theirs)
    differ = {name for name in names if abs(ours.get(name, 0.0) - theirs.get(name, 0.0)) > 1e-3}
    assert not differ
    value = float(trainer.logparser.last_iteration["loss"])
    assert model.objective_ == pytest.approx(-value, rel=1e-6)


@pytest.mark.parametrize("kind", ["dictionaries", "arrays"])
def test_empty_sequences_have_empty_answers(kind):
    """Nothing is learned from them; messages keep the places of the others."""
    X, Y = sparse_words()
    X = [[{f"f{k}": v for k, v in enumerate(row) if v} for row in np.asarray(x)] for x in X]
    empty = []
    if kind == "arrays":
        X, Y = random_words()
        empty = np.zeros((0, X[0].shape[1]))
    plain = ChainCRF().fit(X, Y)
    more, labels = [X[0], empty, *X[1:]], [Y[0], [], *Y[1:]]
    model = ChainCRF().fit(more, labels)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-9)
    n = len(model.classes_)
    found = model.predict(more)
    assert found[1].shape == (0,)
    assert found[1].dtype == found[0].dtype
    np.testing.assert_array_equal(found[2], plain.predict(X)[1])
    assert model.predict_marginals(more)[1].shape == (0, n)
    assert [y.size for y in model.predict([empty, []])] == [0, 0]
    assert model.log_likelihood(more, labels)[1] == 0.0
    assert model.score(more, labels) == pytest.approx(plain.score(X, Y))
    assert token_accuracy(model, more, labels) == token_accuracy(plain, X, Y)
    assert neg_log_loss(model, more, labels) == pytest.approx(neg_log_loss(plain, X, Y))
    with pytest.raises(ValueError, match=r"Y\[1\]: expected shape \(0,\), .* got \(2,\)"):
        ChainCRF().fit(more, [Y[0], Y[2][:2], *Y[1:]])
    with pytest.raises(ValueError, match=r"X\[1\]: is an empty sequence; leave it out"):
        model.sample(more)
    with pytest.raises(ValueError, match="X: every sequence is empty"):
        ChainCRF().fit([empty], [[]])


def test_sequences_without_labels_may_be_none():
    X, Y = random_words()
    plain = ChainCRF().fit(X, [*Y[:-1], np.full(len(Y[-1]), None)])
    model = ChainCRF().fit(X, [*Y[:-1], None])
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.score(X, [*Y[:-1], None]) == model.score(X[:-1], Y[:-1])


def test_numbers_of_numpy_are_features_like_others():
    X, Y = [["Main", "St"], ["Oak", "Rd"]], [["A", "B"], ["A", "B"]]
    flags = [[{"first": np.bool_(t == 0)} for t in range(2)] for _ in X]
    same = [[{"first": t == 0} for t in range(2)] for _ in X]
    found = [ChainCRF().fit(x, Y).state_features_ for x in (flags, same)]
    assert found[0] == found[1] != {}


def bio_sentences(n=40, seed=0):
    """Legal sequences of BIO labels, with features that tell little of them."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        labels = []
        while len(labels) < 5:
            kind = rng.choice(["O", "PER", "LOC"])
            inside = [f"I-{kind}"] * int(rng.integers(0, 3))
            labels += ["O"] if kind == "O" else [f"B-{kind}", *inside]
        Y.append(labels[:5])
        X.append([{"seen": y[0] if rng.random() < 0.5 else "?", "x": rng.normal()} for y in Y[-1]])
    return X, Y


def is_legal(labels):
    pairs = zip(["O", *labels], labels, strict=False)
    return all(b[0] != "I" or a in (b, "B" + b[1:]) for a, b in pairs)


@pytest.mark.parametrize("kind", ["BIO", "pairs"])
def test_forbidden_transitions_leave_the_distribution_over_the_others(kind, tmp_path):
    """Enumeration of the legal sequences alone, of a model that was learned among these."""
    X, Y = bio_sentences()
    classes = sorted({label for y in Y for label in y})
    pairs = [(a, b) for a in classes for b in classes if not is_legal(["B" + a[1:], a, b])]
    pairs += [(None, b) for b in classes if b[0] == "I"]
    forbidden = "BIO" if kind == "BIO" else pairs
    free = ChainCRF(alpha=0.1).fit(X, Y)
    model = ChainCRF(alpha=0.1, tol=1e-8, forbidden_transitions=forbidden).fit(X, Y)
    assert model.converged_
    new, truth = bio_sentences(30, seed=1)
    for x in new:  # all that speaks for I- where it cannot be
        x[0] = {"seen:I": 9.0, "x": x[0]["x"]}
    assert not all(is_legal(y) for y in free.predict(new))
    assert all(is_legal(y) for y in model.predict(new))
    assert all(is_legal(y) for drawn in model.sample(new[:5], 50, random_state=0) for y in drawn)

    legal = [y for y in itertools.product(classes, repeat=5) if is_legal(y)]
    states = np.array([[classes.index(label) for label in y] for y in legal])
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    assert again.forbidden_transitions == forbidden
    tables = again.predict_marginals(new)
    values = again.log_likelihood(new, truth)
    number = {name: k for k, name in enumerate(model.feature_names_in_)}
    for m, x in enumerate(new):
        named = [
            [(f"{k}:{v}", 1.0) if isinstance(v, str) else (k, v) for k, v in token.items()]
            for token in x
        ]
        rows = [sum(v * model.node_coef_[:, number[k]] for k, v in pairs) for pairs in named]
        own = np.array(rows)
        total = own[np.arange(5), states].sum(axis=1)
        total += model.transition_coef_[states[:, :-1], states[:, 1:]].sum(axis=1)
        p = np.exp(total - total.max())
        expected = [[p[states[:, t] == k].sum() / p.sum() for k in range(5)] for t in range(5)]
        np.testing.assert_allclose(tables[m], expected, atol=1e-9)
        at = legal.index(tuple(truth[m]))
        assert values[m] == pytest.approx(np.log(p[at] / p.sum()), abs=1e-8)

    def negative(coef):  # the objective by enumeration; the fit's weights maximise it
        judge = copy.copy(model)
        judge.coef_ = coef
        return 0.05 * coef @ coef - judge.log_likelihood(X, Y).sum()

    best = negative(model.coef_)
    rng = np.random.default_rng(0)
    for _ in range(20):
        step = 1e-2 * rng.normal(size=model.coef_.size)
        assert negative(model.coef_ + step) > best


def test_labels_with_forbidden_transitions_are_named():
    X, Y = bio_sentences(4)
    wrong = [list(y) for y in Y]
    wrong[2][:3] = ["O", "I-PER", "O"]
    model = ChainCRF(forbidden_transitions="BIO")
    with pytest.raises(ValueError, match=r"Y\[2\]: I-PER at position 1 follows O, which forbidden"):
        model.fit(X, wrong)
    wrong[2][:3] = ["I-PER", None, "I-PER"]
    with pytest.raises(ValueError, match=r"Y\[2\]: begins with I-PER, which forbidden"):
        model.fit(X, wrong)
    wrong[2][0] = None  # what comes before is not known
    assert "I-PER" in model.fit(X, wrong).classes_
    for given in ("BILOU", [("O",)], [("O", None)], 3, ["OI"]):
        with pytest.raises(ValueError, match="forbidden_transitions: expected 'BIO'"):
            ChainCRF(forbidden_transitions=given).fit(X, Y)
    with pytest.raises(ValueError, match="forbidden_transitions: 'BIO' is for labels like"):
        ChainCRF(forbidden_transitions="BIO").fit(*random_words())
    with pytest.warns(UserWarning, match="forbidden_transitions: no label in Y is 'I-ORG'$"):
        ChainCRF(forbidden_transitions=[("O", "I-ORG")]).fit(X, Y)
    message = "no label in Y is 'START'; None is the beginning of a sequence"
    with pytest.warns(UserWarning, match=message):
        ChainCRF(forbidden_transitions=[("START", "I-PER")]).fit(X, Y)


def test_messages_on_labels_speak_of_sequences():
    X, Y = bio_sentences(4)
    model = ChainCRF().fit(X, Y)
    for ask in (ChainCRF().fit, model.score, model.log_likelihood):
        with pytest.raises(ValueError, match="X has 4 samples but Y has 3 label sequences"):
            ask(X, Y[:3])
        with pytest.raises(
            ValueError, match=r"Y\[1\]: .* \(5,\), a label for every token, got \(4"
        ):
            ask(X, [Y[0], Y[1][:4], *Y[2:]])
    with pytest.raises(ValueError, match="X has 4 samples but known has 3 label sequences"):
        model.predict(X, known=Y[:3])
    for single in (["O"] * 4, ["O", "B-PER", "O", "O"], np.array(["O"] * 4), [1, 1, 1, 1]):
        message = rf"Y\[0\]: .* a label for every token, got the one label .*{single[0]}"
        with pytest.raises(ValueError, match=message):
            ChainCRF().fit(X, single)
    with pytest.raises(ValueError, match=r"Y\[0\]: .* every token, got the one label 'O'"):
        model.score(X, ["O"] * 4)


def allowed_sequences(classes, pairs, length):
    return [
        y
        for y in itertools.product(classes, repeat=length)
        if not any(pair in pairs for pair in zip([None, *y], y, strict=False))
    ]


def outcome(is_possible, message):
    return nullcontext() if is_possible else pytest.raises(ValueError, match=message)


@pytest.mark.parametrize("seed", range(12))
def test_forbidden_transitions_have_to_leave_a_sequence(seed):
    """Every length and every known part of it, against enumeration of what is allowed."""
    rng = np.random.default_rng(seed)
    classes = ["A", "B", "C"][: 2 + seed % 2]
    every = [(a, b) for a in [None, *classes] for b in classes]
    pairs = [pair for pair in every if rng.random() < 0.5]
    X = [rng.normal(size=(length, 2)) for length in range(1, 5)]
    free = ChainCRF().fit(X, [rng.permutation(classes * 2)[: len(x)] for x in X])
    model = ChainCRF(forbidden_transitions=pairs)
    model._reload(free.coef_, *free._learned_names())
    questions = [
        model.predict, model.predict_marginals, model.sample,
        lambda X: model.predict(X, known=[None]),
    ]  # fmt: skip
    for x in X:
        left = allowed_sequences(classes, pairs, len(x))
        for ask in questions:
            with outcome(left, rf"forbidden_transitions: X\[0\] has {len(x)} tokens"):
                ask([x])
        if not left:
            continue
        assert tuple(model.predict([x])[0]) in left
        for known in itertools.product([None, *classes], repeat=len(x)):
            agree = [y for y in left if all(k in (None, a) for k, a in zip(known, y, strict=True))]
            for ask in (model.predict, model.predict_marginals, model.sample):
                with outcome(agree, r"known\[0\]: .*forbidden_transitions"):
                    ask([x], known=[list(known)])
            if agree:
                assert tuple(model.predict([x], known=[list(known)])[0]) in agree


@pytest.mark.parametrize("missing", ["drop", "marginalise"])
def test_labels_that_are_not_allowed_have_probability_0(missing):
    """-inf where no allowed sequence has the labels; probabilities of whole sequences sum to 1."""
    X, Y = bio_sentences()
    model = ChainCRF(
        alpha=0.1,
        forbidden_transitions="BIO",
    ).fit(X, Y, missing=missing)
    classes, short = model.classes_.tolist(), X[0][:3]
    every = list(itertools.product(classes, repeat=3))
    values = model.log_likelihood([short] * len(every), every)
    np.testing.assert_array_equal(np.isfinite(values), [is_legal(y) for y in every])
    assert np.exp(values).sum() == pytest.approx(1.0, abs=1e-12)
    for other in (
        model.approximate_log_likelihood,
        lambda *data: model.log_likelihood_bounds(*data)[0],
    ):
        np.testing.assert_array_equal(other([short] * len(every), every), values)

    parts = [["I-PER", None, None], [None, "O", "I-PER"], ["O", None, "I-LOC"]]
    found = model.log_likelihood([short] * 3, parts)
    assert np.isfinite(found).tolist() == [False, False, True]
    assert np.isfinite(neg_log_loss(model, [short], [["I-PER", "O", "I-LOC"]]))
    given = [["O", None, None]]
    assert model.log_likelihood([short], [[None, "I-PER", "O"]], known=given) == -np.inf
    table = model.predict_marginals([short], known=given)[0]
    starts = np.array([label[0] == "I" for label in classes])
    assert (table[1, starts] == 0.0).all()
    assert (model.predict_marginals([short])[0][0, starts] == 0.0).all()


def test_fits_where_forbidden_transitions_leave_no_sequence():
    pairs = [("A", "A"), ("B", "A"), ("B", "B")]  # AB, A and B are all that is left
    X = [np.eye(2), np.ones((3, 2)), np.eye(2)]
    model = ChainCRF(forbidden_transitions=pairs)
    message = r"forbidden_transitions: X\[1\] has 3 tokens, but the longest .* has 2; forbid fewer"
    for label in (None, ["A", "B", None], ["A", "B", "B"]):
        with pytest.raises(ValueError, match=message):
            model.fit(X, [["A", "B"], label, None])
    for label in ([None, "A"], ["B", None]):
        with pytest.raises(ValueError, match=r"Y\[1\]: forbidden_transitions leave no sequence"):
            model.fit(X[::2], [["A", "B"], label])
    for missing in ("drop", "marginalise"):
        fitted = ChainCRF(forbidden_transitions=pairs)
        fitted.fit(X[::2], [["A", "B"], ["A", None]], missing=missing)
        assert fitted.predict(X[::2])[1].tolist() == ["A", "B"]
        assert fitted.log_likelihood(X[::2], [[None, "A"], ["B", None]]).tolist() == [-np.inf] * 2
