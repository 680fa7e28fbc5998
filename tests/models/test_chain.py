"""Linear chains, against enumeration of all labellings, finite differences and crfsuite."""

import itertools
import json
import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mlestruct
from benchmarks import chains as benchmark
from mlestruct import BlockFrankWolfe
from mlestruct.datasets.words import make_words
from mlestruct.features.sequences import SequenceFeatures
from mlestruct.labels import States
from mlestruct.learning import Block, DualProblem
from mlestruct.models.chain import ChainCRF
from mlestruct.structures.contract import Structure
from mlestruct.structures.sequences import Sequences


# ---------------------------------------------------------------------- by enumeration
def enumerate_chain(nodes, tables):
    """log Z, node and edge marginals, and the best labelling of one chain."""
    length, n_states = nodes.shape
    labels = list(itertools.product(range(n_states), repeat=length))
    totals = np.array([chain_score(nodes, tables, label) for label in labels])
    top = totals.max()
    p = np.exp(totals - top)
    log_z = top + np.log(p.sum())
    p /= p.sum()
    node, edge = np.zeros_like(nodes), np.zeros_like(tables)
    for label, q in zip(labels, p, strict=True):
        for t, state in enumerate(label):
            node[t, state] += q
        for t in range(length - 1):
            edge[t, label[t], label[t + 1]] += q
    return log_z, node, edge, np.array(labels[int(np.argmax(totals))])


def chain_score(nodes, tables, label):
    node = sum(nodes[t, state] for t, state in enumerate(label))
    return node + sum(tables[t, label[t], label[t + 1]] for t in range(len(label) - 1))


def random_forest(rng, lengths=(4, 1, 3, 2), n_states=3, scale=1.0):
    chains = Sequences(lengths, n_states)
    return chains, scale * rng.normal(size=chains.n_coordinates)


def by_chain(chains, values):
    """Node and edge parts of an array of coordinates, chain by chain."""
    n = chains.n_states
    cut = chains.n_nodes * n
    nodes, edges = values[:cut].reshape(-1, n), values[cut:].reshape(-1, n, n)
    for c in range(chains.n_sequences):
        first, last = chains.starts[c], chains.starts[c + 1]
        yield nodes[first:last], edges[first - c : last - c - 1]


def random_words(n_samples=12, n_states=3, n_features=4, seed=0, lengths=(1, 2, 5, 7)):
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for m in range(n_samples):
        y = rng.integers(n_states, size=lengths[m % len(lengths)])
        y[1:] = np.where(rng.random(y.size - 1) < 0.6, y[:-1], y[1:])
        X.append(np.eye(n_states, n_features)[y] + rng.normal(size=(y.size, n_features)))
        Y.append(y)
    return X, Y


# ---------------------------------------------------------------------- the output space
@pytest.mark.parametrize("n_states", [2, 3, 5])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0, 1e4])
def test_marginals_and_decoding_agree_with_enumeration(n_states, scale):
    rng = np.random.default_rng(0)
    chains, scores = random_forest(rng, (4, 1, 3, 2), n_states, scale)
    assert isinstance(chains, Structure)
    found = chains.marginals(scores)
    states = chains.label(chains.decode(scores).vertex)
    log_z = 0.0
    parts = zip(by_chain(chains, scores), by_chain(chains, found.tau), strict=True)
    for c, ((nodes, tables), (tau_nodes, tau_edges)) in enumerate(parts):
        exact, node, edge, best = enumerate_chain(nodes, tables)
        log_z += exact
        np.testing.assert_allclose(tau_nodes, node, atol=1e-10)
        np.testing.assert_allclose(tau_edges, edge, atol=1e-10)
        np.testing.assert_array_equal(states[chains.starts[c] : chains.starts[c + 1]], best)
    assert found.value == found.upper_bound == pytest.approx(log_z, rel=1e-12)


@pytest.mark.parametrize("size", [50.0, 800.0, 1e4, 1e8])
def test_scores_of_any_size_give_finite_consistent_marginals(size):
    rng = np.random.default_rng(1)
    chains, scores = random_forest(rng, (60, 7), 4, size)
    scores[rng.random(scores.size) < 0.3] *= -1.0
    found = chains.marginals(scores)
    assert np.isfinite(found.tau).all()
    assert np.isfinite(found.value)
    for nodes, edges in by_chain(chains, found.tau):
        np.testing.assert_allclose(nodes.sum(axis=1), 1.0, atol=1e-9)
        np.testing.assert_allclose(edges.sum(axis=2), nodes[:-1], atol=1e-7)
        np.testing.assert_allclose(edges.sum(axis=1), nodes[1:], atol=1e-7)
    # log Z exceeds the best score by at most the logarithm of the number of labellings.
    best = chains.decode(scores).score
    slack = 1e-12 * abs(best)
    assert best - slack <= found.value <= best + 67 * np.log(4) + slack


def test_a_state_that_only_a_far_token_needs_does_not_underflow():
    """Linear sums would lose the only path that the end allows."""
    chains = Sequences([3], 2)
    nodes = np.array([[0.0, -900.0], [0.0, 0.0], [-2000.0, 0.0]])
    tables = np.array([[[0.0, -2000.0], [-2000.0, 0.0]]] * 2)
    found = chains.marginals(np.concatenate([nodes.ravel(), tables.ravel()]))
    exact, node, _, _ = enumerate_chain(nodes, tables)
    assert found.value == pytest.approx(exact, abs=1e-9)
    np.testing.assert_allclose(found.tau[:6].reshape(3, 2), node, atol=1e-12)


def test_entropy_is_exact_and_its_gradient_is_its_derivative():
    rng = np.random.default_rng(0)
    chains, scores = random_forest(rng)
    found = chains.marginals(scores)
    assert scores @ found.tau + chains.entropy(found.tau) == pytest.approx(found.value, abs=1e-10)
    n_labellings = 3 ** sum((4, 1, 3, 2))
    assert chains.entropy(chains.interior()) == pytest.approx(np.log(n_labellings))
    # The gradient at the marginals is normal to the polytope: nothing feasible improves them.
    other = chains.marginals(scores + rng.normal(size=scores.size)).tau
    gradient = scores + chains.entropy_gradient(found.tau)
    assert gradient @ (other - found.tau) == pytest.approx(0.0, abs=1e-9)
    step = 1e-6
    for tau, towards in ((found.tau, other), (other, chains.interior())):
        d = towards - tau
        difference = chains.entropy(tau + step * d) - chains.entropy(tau - step * d)
        assert chains.entropy_gradient(tau) @ d == pytest.approx(difference / (2 * step), rel=1e-6)


@pytest.mark.parametrize("lengths", [(1,), (2,), (6,), (5, 1, 4)])
@pytest.mark.parametrize("scale", [0.3, 3.0, 10.0])
@pytest.mark.parametrize("quadratic", [0.0, 2.0, 300.0])
def test_line_search_finds_the_minimum_towards_a_vertex(lengths, scale, quadratic):
    rng = np.random.default_rng(2)
    chains, scores = random_forest(rng, lengths, 4, scale)
    tau = chains.marginals(scores).tau
    vertex = chains.encode(rng.integers(4, size=chains.n_nodes))
    d = vertex.dense(tau.size) - tau
    linear = chains.entropy_gradient(tau) @ d - 5.0  # slope -5 at 0

    def objective(eta):
        return linear * eta + 0.5 * quadratic * eta**2 - chains.entropy(tau + eta * d)

    entropy = chains.stepping_entropy
    _, sums = entropy.add_gradient(tau, np.zeros_like(tau))
    eta = entropy.line_search(tau, vertex, sums, linear, quadratic, 0.05, 1 - 1e-9, 1e-6)
    best = minimize_scalar(objective, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    assert objective(eta) <= best.fun + 1e-7 * max(1.0, abs(best.fun))


def test_encode_inverts_label_and_hamming_loss_counts_tokens():
    rng = np.random.default_rng(0)
    chains, _ = random_forest(rng)
    one, other = rng.integers(3, size=(2, chains.n_nodes))
    np.testing.assert_array_equal(chains.label(chains.encode(one)), one)
    constant, scores = chains.hamming_loss(chains.encode(one))
    assert constant + chains.encode(other).dot(scores) == pytest.approx(np.mean(one != other))
    for wrong in ([0, 1], [3] * chains.n_nodes, [-1] * chains.n_nodes):
        with pytest.raises(ValueError, match="states"):
            chains.encode(wrong)
    for lengths in ([], [2, 0]):
        with pytest.raises(ValueError, match="at least 1"):
            Sequences(lengths, 2)


# ---------------------------------------------------------------------- features
def feature_maps(rng, chains, n_features=5):
    nodes = rng.normal(size=(chains.n_nodes, n_features))
    nodes[rng.random(nodes.shape) < 0.5] = 0.0
    n = chains.n_states
    constant = {"n_edges": chains.n_edges}
    return {
        "dense": SequenceFeatures(nodes, n, **constant),
        "single precision": SequenceFeatures(nodes.astype(np.float32), n, **constant),
        "sparse": SequenceFeatures(sparse.coo_array(nodes), n, **constant),
        "edge features": SequenceFeatures(nodes, n, rng.normal(size=(chains.n_edges, 2))),
    }


KINDS = ["dense", "single precision", "sparse", "edge features"]


@pytest.mark.parametrize("kind", KINDS)
def test_feature_map_is_linear_with_its_adjoint(kind):
    rng = np.random.default_rng(0)
    chains, _ = random_forest(rng)
    features = feature_maps(rng, chains)[kind]
    matrix = np.array([features.scores(e) for e in np.eye(features.n_features)]).T
    assert matrix.shape == (features.n_scored, features.n_features)
    theta, tau = rng.normal(size=features.n_features), rng.random(features.n_scored)
    np.testing.assert_allclose(features.scores(theta), matrix @ theta, atol=1e-12)
    np.testing.assert_allclose(features.moments(tau), matrix.T @ tau, atol=1e-12)
    vertex = chains.encode(rng.integers(3, size=chains.n_nodes))
    at = features.moments_at(vertex.indices, vertex.values)
    np.testing.assert_allclose(at, matrix.T @ vertex.dense(features.n_scored), atol=1e-12)
    # Layout: node weights (L, C), then edge weights (L*L, D).
    node_weights, edge_weights = features.split(theta)
    x, v = (rows.scores(np.eye(rows.n_features)) for rows in (features.nodes, features.edges))
    expected = np.concatenate([(x @ node_weights.T).ravel(), (v @ edge_weights.T).ravel()])
    np.testing.assert_allclose(features.scores(theta), expected, atol=1e-12)
    sizes = [gram.shape[0] * scales.shape[0] for gram, scales in features.second_moments()]
    assert sum(sizes) == features.n_features


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [1, 5, 1000])
@pytest.mark.parametrize("size", [0.5, 500.0])
def test_expectation_part_by_part_equals_marginals(kind, part, size, monkeypatch):
    monkeypatch.setattr("mlestruct.structures.sequences.PART", part)
    rng = np.random.default_rng(3)
    chains = Sequences([3, 1, 6, 2, 2, 1], 4)
    features = feature_maps(rng, chains)[kind]
    theta = size * rng.normal(size=features.n_features)
    scores = features.scores(theta)
    exact = chains.marginals(scores)
    found, moments = chains.expectation(features, theta)
    assert found.value == found.upper_bound == pytest.approx(exact.value, rel=1e-12)
    np.testing.assert_allclose(moments, features.moments(exact.tau), atol=1e-9)
    states = chains.label(chains.decode(scores).vertex)
    np.testing.assert_array_equal(chains.best_states(features, theta), states)
    nodes = exact.tau[: chains.n_nodes * 4].reshape(-1, 4)
    np.testing.assert_allclose(chains.state_probabilities(features, theta), nodes, atol=1e-10)
    labels = rng.integers(4, size=chains.n_nodes)
    likelihood = chains.encode(labels).dot(scores) - exact.value
    each = chains.log_likelihoods(features, theta, labels)
    assert each.sum() == pytest.approx(likelihood, rel=1e-9)
    assert chains.expectation(features, theta, np.zeros(chains.n_coordinates)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_expected_moments_are_the_derivative_of_log_z(kind):
    rng = np.random.default_rng(4)
    chains, _ = random_forest(rng)
    features = feature_maps(rng, chains)[kind]
    theta, direction = 0.5 * rng.normal(size=(2, features.n_features))

    def log_z(step):
        return chains.expectation(features, theta + step * direction)[0].value

    slope = (log_z(1e-5) - log_z(-1e-5)) / 2e-5
    assert chains.expectation(features, theta)[1] @ direction == pytest.approx(slope, rel=1e-6)


def test_a_forest_is_the_sum_of_its_chains():
    rng = np.random.default_rng(5)
    together = Sequences([4, 1, 3], 3)
    nodes = rng.normal(size=(8, 2))
    theta = rng.normal(size=3 * 2 + 9)
    found, moments = together.expectation(SequenceFeatures(nodes, 3, n_edges=5), theta)
    value, total = 0.0, np.zeros_like(theta)
    for first, last in ((0, 4), (4, 5), (5, 8)):
        alone = SequenceFeatures(nodes[first:last], 3, n_edges=last - first - 1)
        part, sums = Sequences([last - first], 3).expectation(alone, theta)
        value, total = value + part.value, total + sums
    assert found.value == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(moments, total, atol=1e-12)


def test_features_are_stored_small_where_that_loses_nothing():
    whole = SequenceFeatures(np.arange(6.0).reshape(3, 2), 2, n_edges=2)
    broken = SequenceFeatures(np.arange(6.0).reshape(3, 2) / 3, 2, n_edges=2)
    assert whole.nodes.matrix.dtype == np.float32
    assert broken.nodes.matrix.dtype == np.float64
    with pytest.raises(ValueError, match="n_edges"):
        SequenceFeatures(np.zeros((2, 1)), 2)


# ---------------------------------------------------------------------- learning
def regularised_likelihood(model, X, Y, coef):
    judge = clone(model)
    judge._restore(model._layout)
    judge.coef_ = coef
    return judge.log_likelihood(X, Y).sum() - 0.5 * model.alpha * coef @ coef


def test_fit_is_certified_and_stationary():
    X, Y = random_words(30)
    model = ChainCRF(alpha=0.5, tol=1e-9).fit(X, Y)
    assert model.converged_
    best = regularised_likelihood(model, X, Y, model.coef_)
    assert best <= model.objective_ + 1e-9
    assert best >= model.objective_ - model.duality_gap_ - 1e-9
    rng = np.random.default_rng(0)
    for direction in rng.normal(size=(10, model.coef_.size)):
        assert regularised_likelihood(model, X, Y, model.coef_ + 1e-2 * direction) < best
    assert model.node_coef_.shape == (3, 4)
    assert model.transition_coef_.shape == (3, 3)
    assert model.edge_coef_.shape == (3, 3, 1)
    assert (np.diag(model.transition_coef_) > 0).all()


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
        log_z, node, _, states = enumerate_chain(nodes, tables)
        assert value == pytest.approx(chain_score(nodes, tables, y) - log_z, abs=1e-9)
        np.testing.assert_allclose(tau, node, atol=1e-9)
        np.testing.assert_array_equal(best, states)


def test_same_optimum_as_crfsuite(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, Y = benchmark.words(20, 6)
    trainer = benchmark.crfsuite_trainer(X, Y, 1.0)
    trainer.set_params({"epsilon": 1e-8, "delta": 1e-12, "period": 50})
    trainer.train(str(tmp_path / "model"))
    coef = benchmark.crfsuite_coef(tmp_path / "model", 129)
    model = ChainCRF(alpha=1.0, tol=1e-8).fit(X, Y)
    theirs = benchmark.objective(model, X, Y, coef, 1.0)
    assert theirs == pytest.approx(model.objective_, rel=1e-6)
    assert theirs == pytest.approx(-trainer.logparser.last_iteration["loss"], rel=1e-6)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    for x, tau in zip(X[:5], model.predict_marginals(X[:5]), strict=True):
        tagger.set([{str(k): float(row[k]) for k in np.flatnonzero(row)} for row in x])
        for label in tagger.labels():
            found = [tagger.marginal(label, t) for t in range(len(x))]
            np.testing.assert_allclose(tau[:, int(label)], found, atol=1e-4)


@pytest.mark.parametrize("solver", ["fw", "bcfw", BlockFrankWolfe(sampling="gap"), "lbfgs"])
def test_solvers_agree_within_their_gaps(solver):
    X, Y = random_words(10)
    best = ChainCRF(alpha=2.0, tol=1e-9).fit(X, Y)
    other = ChainCRF(alpha=2.0, solver=solver, tol=0.05, max_iter=3000, random_state=0).fit(X, Y)
    assert other.converged_
    assert other.objective_ >= best.objective_ - 1e-6
    value = regularised_likelihood(other, X, Y, other.coef_)
    assert best.objective_ - 1e-6 <= value + other.duality_gap_
    assert value <= best.objective_ + 1e-6


@pytest.mark.parametrize("n_jobs", [None, 1, 3])
def test_grouping_and_threads_change_nothing(n_jobs):
    X, Y = random_words(30)
    reference = ChainCRF(tol=1e-10, solver="lbfgs").fit(X, Y)
    model = ChainCRF(tol=1e-10, n_jobs=n_jobs).fit(X, Y)
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-5)
    for a, b in zip(model.predict_marginals(X), reference.predict_marginals(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    singles = ChainCRF(solver="bcfw")
    blocks = singles.build_problem(X, Y).blocks
    assert len(blocks) == 30
    few = ChainCRF(n_jobs=n_jobs).build_problem(X, Y).blocks
    assert len(few) == (1 if n_jobs in (None, 1) else 6)
    whole = ChainCRF().build_problem(X, Y)
    np.testing.assert_allclose(DualProblem(blocks, 1.0).target, whole.target, atol=1e-10)
    theta = reference.coef_
    total = sum(block.expect(theta, None, 1e-8)[0].value for block in blocks)
    assert total == pytest.approx(whole.blocks[0].expect(theta, None, 1e-8)[0].value, abs=1e-9)


def test_weights_equal_repetition():
    X, Y = random_words(6)
    weights = [2.0, 1.0, 0.0, 1.0, 2.0, 1.0]
    weighted = ChainCRF(tol=1e-10).fit(X, Y, sample_weight=weights)
    picked = [0, 0, 1, 3, 4, 4, 5]
    repeated = ChainCRF(tol=1e-10, n_states=3).fit([X[m] for m in picked], [Y[m] for m in picked])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)


def test_unknown_tokens_cut_the_chain():
    X, Y = random_words(12, lengths=(9,))
    masked = [y.copy() for y in Y]
    pieces_x, pieces_y = [], []
    for x, y in zip(X, masked, strict=True):
        y[[0, 4]] = -1
        pieces_x += [x[1:4], x[5:]]
        pieces_y += [y[1:4], y[5:]]
    masked[3][:] = -1
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
        ChainCRF().fit(X, [np.full(9, -1)] * 12)


def test_unseen_states_are_kept():
    X, Y = random_words(8)
    model = ChainCRF(n_states=5, tol=1e-8).fit(X, Y)
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    assert all(tau.shape[1] == 5 for tau in model.predict_marginals(X))
    np.testing.assert_allclose(model.node_coef_[3], model.node_coef_[4], atol=1e-6)
    gap = ChainCRF(tol=1e-8).fit(X, [np.where(y == 1, 3, y) for y in Y])  # 1 never occurs
    assert gap.classes_.tolist() == [0, 1, 2, 3]


def test_strings_learn_what_integers_learn():
    X, Y = random_words(10)
    names = np.array(["noun", "verb", "adjective"])
    model = ChainCRF(tol=1e-9, feature_names=list("abcd")).fit(X, [names[y] for y in Y])
    order = np.argsort(names)
    assert model.classes_.tolist() == sorted(names)
    plain = ChainCRF(tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(model.node_coef_, plain.node_coef_[order], atol=1e-5)
    for found, states in zip(model.predict(X), plain.predict(X), strict=True):
        np.testing.assert_array_equal(found, names[states])
    assert model.score(X, [names[y] for y in Y]) == pytest.approx(plain.score(X, Y))
    listed = [[None if k == 2 else str(names[s]) for k, s in enumerate(y)] for y in Y]
    masked = ChainCRF(tol=1e-9).fit(X, listed)
    numbers = [np.where(np.arange(len(y)) == 2, -1, y) for y in Y]
    np.testing.assert_allclose(
        masked.node_coef_, ChainCRF(tol=1e-9).fit(X, numbers).node_coef_[order], atol=1e-5
    )
    assert 0 < masked.score(X, listed) <= 1
    coef = model.named_coef()
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
        np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-5)
        for tau, other in zip(
            model.predict_marginals(inputs), reference.predict_marginals(X), strict=True
        ):
            np.testing.assert_allclose(tau, other, atol=1e-5)
    wide = [sparse.hstack([x, sparse.csr_array((x.shape[0], 1900))]).tocsr() for x in stored]
    model = ChainCRF(tol=1e-4).fit(wide, Y)  # too many columns for a preconditioner's matrix
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-4)


def test_edge_features_contain_transitions_as_a_constant():
    X, Y = random_words(15)
    rng = np.random.default_rng(0)
    constant = [(x, np.ones((len(x) - 1, 1))) for x in X]
    plain = ChainCRF(tol=1e-9).fit(X, Y)
    same = ChainCRF(tol=1e-9).fit(constant, Y)
    np.testing.assert_allclose(same.coef_, plain.coef_, atol=1e-5)
    richer = [(x, np.hstack([e, rng.normal(size=e.shape)])) for x, e in constant]
    model = ChainCRF(tol=1e-9).fit(richer, Y)
    assert model.objective_ > plain.objective_
    assert model.edge_coef_.shape == (3, 3, 2)
    assert "0->2:1" in model.named_coef()
    with pytest.raises(AttributeError, match="edge_coef_"):
        _ = model.transition_coef_
    with pytest.raises(ValueError, match="no edge features, but ChainCRF was fitted with 2"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"has 1 edge features, X\[0\] has 2"):
        model.predict([richer[1], constant[2]])
    masked = [np.where(np.arange(len(y)) == 3, -1, y) for y in Y]
    assert ChainCRF(tol=1e-9).fit(richer, masked).converged_


# ---------------------------------------------------------------------- manners
def test_path_search_clone_and_pickle():
    X, Y = random_words(20)
    path = ChainCRF(tol=1e-8, feature_names=list("abcd")).fit_path(X, Y, [0.1, 10.0])
    for alpha, fitted in zip(path.alphas, path.estimators, strict=True):
        alone = ChainCRF(alpha=alpha, tol=1e-8).fit(X, Y)
        np.testing.assert_allclose(fitted.coef_, alone.coef_, atol=1e-3)
        assert fitted.predict(X)[2].shape == Y[2].shape
        assert "0:a" in fitted.named_coef()
    assert path.best(X, Y).alpha in (0.1, 10.0)
    search = GridSearchCV(ChainCRF(n_states=3), {"alpha": [0.1, 10.0]}, cv=2).fit(X, Y)
    assert search.best_params_["alpha"] in (0.1, 10.0)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert again.score(X, Y) == search.best_estimator_.score(X, Y)
    assert clone(again).get_params() == again.get_params()


@pytest.mark.parametrize("named", [False, True])
def test_layout_is_plain_data_that_restores_a_model(named):
    X, Y = random_words(10)
    labels = [np.array(["x", "y", "z"])[y] for y in Y] if named else Y
    model = ChainCRF().fit(X, labels)
    other = ChainCRF()
    other._restore(json.loads(json.dumps(model._layout)))
    other.coef_ = model.coef_
    for a, b in zip(model.predict(X), other.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert other.named_coef() == model.named_coef()


def test_files_keep_states_and_edge_features(tmp_path):
    X, Y = random_words(10)
    inputs = [(x, np.ones((len(x) - 1, 2))) for x in X]
    labels = [np.array(["x", "y", "z"])[y] for y in Y]
    model = ChainCRF(feature_names=list("abcd")).fit(inputs, labels)
    model.save(tmp_path / "chain.mls")
    again = mlestruct.load(tmp_path / "chain.mls")
    for a, b in zip(model.predict(inputs), again.predict(inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    assert again.named_coef() == model.named_coef()
    assert again.n_features_in_ == 4


def test_warm_start_continues():
    X, Y = random_words(20)
    model = ChainCRF(tol=1e-8, warm_start=True).fit(X, Y)
    first = model.n_oracle_calls_
    assert model.fit(X, Y).n_oracle_calls_ < first


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((0, 4)), r"X\[1\]: is empty"),
        (np.zeros((3, 0)), r"X\[1\]: has no features"),
        (np.zeros(3), r"X\[1\]: expected shape \(T, C\), got \(3,\)"),
        (np.full((3, 4), np.nan), r"X\[1\]: found nan at \(0, 0\)"),
        (sparse.csr_array(np.full((3, 4), np.inf)), r"X\[1\]: found inf"),
        (np.full((3, 4), 1e60), r"X\[1\]: has features beyond 1e\+50"),
        (np.zeros((3, 5)), r"X\[1\] has 5 features, X\[0\] has 4"),
        ([["a", "b"], ["c", "d"]], r"X\[1\]: cannot be read as an array of numbers"),
        ([[1.0], [1.0, 2.0]], r"X\[1\]: cannot be read"),
        ((np.zeros((3, 4)), np.zeros((3, 1))), r"X\[1\]: expected edge features of shape \(2, D\)"),
        ((np.zeros((3, 4)), np.zeros((2, 1))), r"X\[1\] has 1 edge features, X\[0\] has none"),
        ((1, 2, 3), r"X\[1\]: a tuple must hold"),
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
        ([0, 1], {}, r"Y\[1\]: expected shape \(3,\), a label for every node"),
        ([0, 1, -2], {}, r"Y\[1\]: found the label -2 at position 2; expected 0 to 1, or -1"),
        ([0, 1, 2], {"n_states": 2}, r"Y\[1\]: found the label 2 at position 2; expected 0 to 1"),
        ([0, 1, 0.5], {}, r"Y\[1\]: found 0.5 at position 2"),
        ([0, 1, np.nan], {}, r"Y\[1\]: found nan at position 2"),
        ([0, 1, 10**6], {}, r"the largest is 1000000; states are numbered from 0"),
        (["a", "b", "a"], {}, r"Y\[1\] holds strings, earlier samples integers"),
        ([0, None, "b"], {}, "mixes strings and integers"),
        ([0, 1, (1, 2)], {}, r"Y\[1\]: labels do not form an array"),
        (np.array([1j, 0, 0]), {}, r"Y\[1\]: labels must be integers or strings"),
    ],
)
def test_bad_labels_are_named(y, options, message):
    X = [np.ones((3, 2)), np.ones((3, 2))]
    with pytest.raises(ValueError, match=message):
        ChainCRF(**options).fit(X, [[0, 1, 0], y])


def test_other_arguments_that_make_no_sense():
    X, Y = random_words(4)
    with pytest.raises(ValueError, match="nothing to learn"):
        ChainCRF().fit(X, [np.zeros_like(y) for y in Y])
    with pytest.raises(ValueError, match="only the label 'a'"):
        ChainCRF().fit(X, [["a"] * len(y) for y in Y])
    with pytest.raises(ValueError, match="n_states must be at least 2"):
        ChainCRF(n_states=1).fit(X, Y)
    with pytest.raises(TypeError, match="n_states must be an integer"):
        ChainCRF(n_states=2.5).fit(X, Y)
    with pytest.raises(ValueError, match="Y has 2 different labels"):
        ChainCRF(n_states=4).fit(X[:2], [["a"], ["a", "b"]])
    with pytest.raises(ValueError, match="feature_names: expected 4 names, got 2"):
        ChainCRF(feature_names=["a", "b"]).fit(X, Y)
    with pytest.raises(ValueError, match="positive weight"):
        ChainCRF().fit(X[:2], [[-1], Y[1]], sample_weight=[1.0, 0.0])
    model = ChainCRF().fit(X, Y)
    with pytest.raises(ValueError, match=r"Y\[0\]: expected shape"):
        model.score(X, [[0, 1]] * 4)
    with pytest.raises(ValueError, match=r"Y\[0\]: expected integers like the classes"):
        model.log_likelihood(X, [["a"] * len(y) for y in Y])
    assert ChainCRF(n_states=2).fit(X, [np.zeros_like(y) for y in Y]).converged_


def test_states_read_booleans_whole_floats_and_any_shape():
    states = States.learn([np.array([[True, False]]), np.array([[1.0, -1.0]])])
    assert len(states) == 2
    np.testing.assert_array_equal(
        states.encode([[1.0, -1.0], [False, True]], "Y"), [[1, -1], [0, 1]]
    )
    np.testing.assert_array_equal(states.known([[0, -1], [5, 0]], "Y"), [[1, 0], [1, 1]])
    np.testing.assert_array_equal(states.encode([None, 1], "Y"), [-1, 1])
    named = States.learn([["b", "a"], [["", None]]])
    assert named.classes.tolist() == ["", "a", "b"]
    np.testing.assert_array_equal(named.encode([["a", None]], "Y"), [[1, -1]])
    assert named.decode(np.array([[2]])).tolist() == [["b"]]
    with pytest.raises(ValueError, match=r"Z: found the label 'c' at position \(0, 1\); expected"):
        named.encode([["a", "c"]], "Z")


def test_words_have_the_promised_form():
    X, Y = make_words(50, 5, random_state=1)
    again, _ = make_words(50, 5, random_state=1)
    assert all(np.array_equal(a, b) for a, b in zip(X, again, strict=True))
    assert {x.shape[1] for x in X} == {128}
    assert set(np.unique(np.concatenate(X))) == {0.0, 1.0}
    lengths = [len(y) for y in Y]
    assert min(lengths) >= 5
    assert max(lengths) <= 15
    assert np.concatenate(Y).max() == 4
    model = ChainCRF(tol=1e-2).fit(X[:40], Y[:40])
    assert model.score(X[40:], Y[40:]) > 0.8
    with pytest.raises(ValueError, match="at least 1 word"):
        make_words(0)


def test_benchmark_runs(capsys):
    pytest.importorskip("pycrfsuite")
    benchmark.main(["--quick"])
    printed = capsys.readouterr().out
    assert "reaches crfsuite's objective: yes" in printed


def test_blocks_of_any_solver_hold_the_observations():
    X, Y = random_words(5)
    for solver in ("auto", "bcfw"):
        for block in ChainCRF(solver=solver).build_problem(X, Y).blocks:
            assert isinstance(block, Block)
            assert block.observed.values.sum() == block.structure.n_nodes + block.structure.n_edges
