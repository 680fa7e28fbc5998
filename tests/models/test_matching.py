"""MatchingCRF, and capacities above 1 in both matching estimators."""

import itertools
import warnings

import numpy as np
import pytest
from graph_matchings import complete
from scipy import sparse
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import mlestruct
from mlestruct import (
    LBFGS,
    BipartiteMatchingCRF,
    BlockFrankWolfe,
    EdgeList,
    FrankWolfe,
    InfeasibleError,
    MatchingCRF,
    PairInput,
)

TRUTH = np.array([2.0, 1.0, 0.0])


def perfect_matchings(nodes):
    """All perfect matchings of a list of nodes, as lists of pairs."""
    if not nodes:
        yield []
        return
    first = nodes[0]
    for k in range(1, len(nodes)):
        rest = nodes[1:k] + nodes[k + 1 :]
        for others in perfect_matchings(rest):
            yield [(first, nodes[k]), *others]


def partners(pairs, n):
    out = np.full(n, -1)
    for i, j in pairs:
        out[i], out[j] = j, i
    return out


def group(rng, n=8, K=3):
    tastes = rng.normal(size=(n, K))
    return -np.abs(tastes[:, None] - tastes[None])


def drawn(x, theta, rng):
    """A perfect matching drawn from the model, by enumeration."""
    n = x.shape[0]
    every = list(perfect_matchings(list(range(n))))
    scores = np.array([sum(x[i, j] @ theta for i, j in pairs) for pairs in every])
    p = np.exp(scores - logsumexp(scores))
    return partners(every[rng.choice(len(every), p=p / p.sum())], n)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = [group(rng) for _ in range(60)]
    return X, [drawn(x, TRUTH, rng) for x in X]


def test_learns_the_weights_that_made_the_data(data):
    model = MatchingCRF(alpha=0.1).fit(*data)
    assert model.converged_
    assert model.duality_gap_ <= 1e-3 * max(1, abs(model.objective_))
    assert model.coef_[0] > model.coef_[1] > model.coef_[2] - 0.5
    np.testing.assert_allclose(model.coef_, TRUTH, atol=0.8)
    assert model.score(*data) > 0.4  # chance is 1/7


@pytest.mark.parametrize("rho", [0.5, 0.95, 1.0])
def test_moments_match_at_the_optimum(data, rho):
    X, Y = data[0][:15], data[1][:15]
    model = MatchingCRF(alpha=0.5, rho=rho, tol=1e-9).fit(X, Y)
    observed = sum(x[np.arange(8), y].sum(axis=0) / 2 for x, y in zip(X, Y, strict=True))
    tau = model.predict_marginals(X, tol=1e-10)
    expected = sum(np.tensordot(t, x, 2) / 2 for t, x in zip(tau, X, strict=True))
    np.testing.assert_allclose(observed - expected, 0.5 * model.coef_, atol=2e-4)


@pytest.mark.parametrize("rho", [0.5, 0.95])
@pytest.mark.parametrize("polytope", ["local", "exact"])
def test_solvers_agree(data, polytope, rho):
    X, Y = data[0][:8], data[1][:8]
    settings = {"alpha": 5.0, "rho": rho, "polytope": polytope, "max_iter": 3000, "random_state": 0}
    exact = MatchingCRF(tol=1e-6, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        exact.fit(X, Y)
        others = [
            MatchingCRF(solver=solver, tol=1e-3, **settings).fit(X, Y)
            for solver in (LBFGS(), BlockFrankWolfe(), FrankWolfe())
        ]
    for model in others:
        assert model.objective_bound_ >= exact.objective_ - 1e-9
        assert model.objective_ <= exact.objective_bound_ + 1e-9
        distance = np.linalg.norm(model.coef_ - exact.coef_)
        # P is alpha-strongly concave, so the gap bounds the distance from the optimum.
        gap = model.duality_gap_ + exact.duality_gap_
        assert distance <= 2 * np.sqrt(2 * gap / 5.0) + 1e-9


def test_exact_polytope_is_inside_the_local_one(data):
    X, Y = data[0][:6], data[1][:6]
    local = MatchingCRF(alpha=1.0, tol=1e-4).fit(X, Y)
    exact = MatchingCRF(alpha=1.0, tol=1e-4, polytope="exact").fit(X, Y)
    # A larger polytope has a larger log Z_rho, so a smaller likelihood.
    assert exact.objective_bound_ >= local.objective_ - 1e-9


def test_bounds_enclose_the_exact_likelihood(data):
    X, Y = data[0][:10], data[1][:10]
    model = MatchingCRF(alpha=1.0, rho=0.5).fit(X, Y)
    lower, upper = model.log_likelihood_bounds(X, Y, 1e-8)
    np.testing.assert_allclose(model.approximate_log_likelihood(X, Y, 1e-8), lower, atol=1e-7)
    fit = model.approximate_log_likelihood(X, Y, 1e-8).sum() - 0.5 * model.coef_ @ model.coef_
    assert model.objective_ - 1e-6 <= fit <= model.objective_bound_ + 1e-6
    for m, (x, y) in enumerate(zip(X, Y, strict=True)):
        w = x @ model.coef_
        scores = [sum(w[i, j] for i, j in pairs) for pairs in perfect_matchings(list(range(8)))]
        exact = w[np.arange(8), y].sum() / 2 - logsumexp(scores)
        assert lower[m] - 1e-9 <= exact <= upper[m] + 1e-9


def test_bounds_of_imperfect_matchings(data):
    X = [np.concatenate([x[:5, :5], np.ones((5, 5, 1))], axis=2) for x in data[0][:10]]
    Y = [partners([(0, 1)], 5), partners([(2, 3), (0, 4)], 5)] * 5
    model = MatchingCRF(alpha=1.0, perfect=False).fit(X, Y)
    lower, upper = model.log_likelihood_bounds(X, Y)
    edges = list(itertools.combinations(range(5), 2))
    for m, (x, y) in enumerate(zip(X, Y, strict=True)):
        w = x @ model.coef_
        scores = [0.0]
        for k in (1, 2):
            for chosen in itertools.combinations(edges, k):
                if len({i for e in chosen for i in e}) == 2 * k:
                    scores.append(sum(w[e] for e in chosen))
        exact = sum(w[i, y[i]] for i in range(5) if y[i] > i) - logsumexp(scores)
        assert lower[m] - 1e-9 <= exact <= upper[m] + 1e-9


def test_predicts_matchings_even_where_the_local_optimum_is_fractional():
    """Two groups of three who like each other, and nobody else: the local optimum has halves."""
    x = np.full((6, 6, 1), -1.0)
    for members in ((0, 1, 2), (3, 4, 5)):
        x[np.ix_(members, members)] = 1.0
    model = MatchingCRF(alpha=1.0).fit([x], [np.array([1, 0, 3, 2, 5, 4])])
    model.coef_ = np.array([5.0])
    partner = model.predict([x])[0]
    assert (partner[partner] == np.arange(6)).all()
    assert (partner // 3 != np.arange(6) // 3).sum() == 2


def test_every_form_of_the_same_sample_gives_the_same_model(data):
    rng = np.random.default_rng(0)
    tables = [rng.integers(0, 4, size=(8, 3)) for _ in range(6)]
    Y = [rng.permutation(8).reshape(4, 2) for _ in tables]
    Y = [partners(y.tolist(), 8) for y in Y]
    arrays = [-np.abs(t[:, None] - t[None]).astype(float) for t in tables]
    upper = np.triu_indices(8, 1)

    def fitted(X):
        return MatchingCRF(alpha=0.3, tol=1e-8).fit(X, Y).coef_

    truth = fitted(arrays)
    forms = {
        "rows": [PairInput(x[upper], shape=(8, 8)) for x in arrays],
        "edges": [EdgeList(8, np.stack(upper)[::-1].T, x[upper]) for x in arrays],
        "sparse": [EdgeList(8, np.stack(upper).T, sparse.csr_array(x[upper])) for x in arrays],
        "masked": [PairInput(x, mask=np.ones((8, 8), dtype=bool)) for x in arrays],
    }
    for name, X in forms.items():
        np.testing.assert_allclose(fitted(X), truth, atol=1e-3, err_msg=name)


def test_forbidden_pairs_never_match(data):
    X, Y = data[0][:10], data[1][:10]
    masks = []
    rng = np.random.default_rng(1)
    for y in Y:
        mask = rng.random((8, 8)) < 0.6
        mask |= mask.T
        mask[np.arange(8), y] = True
        masks.append(mask)
    inputs = [PairInput(x, mask=mask) for x, mask in zip(X, masks, strict=True)]
    model = MatchingCRF(alpha=0.5).fit(inputs, Y)
    for tau, partner, scores, mask in zip(
        model.predict_marginals(inputs),
        model.predict(inputs),
        model.pair_scores(inputs),
        masks,
        strict=True,
    ):
        off = ~mask | np.eye(8, dtype=bool)
        assert (tau[off] == 0).all()
        assert mask[np.arange(8), partner].all()
        assert np.isneginf(scores[off]).all()
        np.testing.assert_allclose(tau.sum(axis=1), 1.0, atol=1e-5)
    by_infinity = [np.where(mask[..., None], x, -np.inf) for x, mask in zip(X, masks, strict=True)]
    same = MatchingCRF(alpha=0.5).fit(by_infinity, Y)
    np.testing.assert_allclose(same.coef_, model.coef_, atol=1e-9)
    sparse_masks = [
        PairInput(x, mask=sparse.csr_array(mask)) for x, mask in zip(X, masks, strict=True)
    ]
    assert sparse.issparse(model.predict_marginals(sparse_masks)[0])


def test_pair_scores(data):
    X, Y = data
    model = MatchingCRF(alpha=0.1).fit(X, Y)
    scores = model.pair_scores(X[:1])[0]
    off = ~np.eye(8, dtype=bool)
    np.testing.assert_allclose(scores[off], (X[0] @ model.coef_)[off])


def test_weights_and_repeated_samples_are_the_same(data):
    X, Y = data[0][:5], data[1][:5]
    weighted = MatchingCRF(alpha=1.0, tol=1e-8).fit(X, Y, sample_weight=[2, 1, 1, 1, 1])
    repeated = MatchingCRF(alpha=1.0, tol=1e-8).fit([X[0], *X], [Y[0], *Y])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)


def test_save_and_load(data, tmp_path):
    model = MatchingCRF(alpha=1.0, solver=BlockFrankWolfe()).fit(data[0][:5], data[1][:5])
    model.save(tmp_path / "model.mls")
    again = mlestruct.load(tmp_path / "model.mls")
    assert isinstance(again, MatchingCRF)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.predict(data[0][:2])[1], model.predict(data[0][:2])[1])


def test_manners(data):
    model = MatchingCRF(alpha=2.0, polytope="exact")
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.predict(data[0])
    path = MatchingCRF().fit_path(*data, alphas=[1.0, 10.0])
    assert path.alphas == [10.0, 1.0]
    assert np.linalg.norm(path.coefs[0]) < np.linalg.norm(path.coefs[1])


# ---------------------------------------------------------------------- wrong input
ONE = np.ones((4, 4, 1))
GOOD = np.array([1, 0, 3, 2])


def edge_list(edges, n_nodes=4):
    return EdgeList(n_nodes, edges, np.ones((len(edges), 1)))


MASKED = PairInput(np.ones((3, 2, 1)), mask=np.arange(6).reshape(3, 2) < 5)
TWO_SIDES = BipartiteMatchingCRF(capacity=(1, 2), perfect="rows")
TRIANGLES = edge_list([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)], 6)
STAR = edge_list([(0, 1), (0, 2), (0, 3)])


@pytest.mark.parametrize(
    ("model", "x", "y", "message"),
    [
        (MatchingCRF(), np.ones((3, 3, 1)), [1, 0, -1], "3 nodes: an odd number"),
        (MatchingCRF(), np.ones((4, 3, 1)), GOOD, "4 rows and 3 columns"),
        (MatchingCRF(), np.arange(16.0).reshape(4, 4, 1), GOOD, "no direction"),
        (MatchingCRF(), PairInput(np.ones((5, 1)), shape=(4, 4)), GOOD, r"shape \(6, n_features"),
        (MatchingCRF(), ONE, [1, 2, 3, 0], "partners must be mutual"),
        (MatchingCRF(), ONE, [0, 1, 3, 2], "its own partner"),
        (MatchingCRF(), ONE, [1, 0, -1, -1], "perfect=False"),
        (MatchingCRF(), ONE, [1, 0, 4, 2], "expected 0 to 3"),
        (MatchingCRF(), ONE, [1, 0, 3], r"expected shape \(4,\)"),
        (MatchingCRF(), ONE, [1.5, 0, 3, 2], "integers"),
        (MatchingCRF(), ONE * np.nan, GOOD, "found nan"),
        (MatchingCRF(), edge_list([(0, 1), (2, 2)]), GOOD, "to itself"),
        (MatchingCRF(), edge_list([(0, 1), (1, 0)]), GOOD, "twice"),
        (MatchingCRF(), edge_list([(0, 1), (2, 4)]), GOOD, "0 to 3"),
        (MatchingCRF(), edge_list([(0.9, 1.0), (2.0, 3.0)]), GOOD, "fractions"),
        (MatchingCRF(), edge_list([(0, 1, 2), (2, 3, 1)]), GOOD, "shape"),
        (MatchingCRF(), edge_list([("a", "b")]), GOOD, "edges must hold numbers"),
        (MatchingCRF(), EdgeList(4, [(0, 1), (2, 3)], np.ones((3, 1))), GOOD, r"\(2, n_features"),
        (MatchingCRF(), edge_list([(0, 1), (2, 3)]), GOOD, "nothing to learn"),
        (MatchingCRF(), PairInput(ONE, mask=np.triu(np.ones((4, 4)))), GOOD, "not symmetric"),
        (MatchingCRF(), PairInput(ONE, offset=np.arange(16.0).reshape(4, 4)), GOOD, "offsets"),
        (MatchingCRF(polytope="integer"), ONE, GOOD, "polytope"),
        (MatchingCRF(rho=0.3), ONE, GOOD, "rho .* at 1/2 it already bounds log Z"),
        (MatchingCRF(rho=np.ones(3)), ONE, GOOD, "rho"),
        (MatchingCRF(), PairInput(ONE, capacity=-1), GOOD, "capacity"),
        (MatchingCRF(), PairInput(ONE, capacity=1.5), GOOD, "capacity"),
        (MatchingCRF(polytope="exact"), PairInput(ONE, capacity=2), GOOD, "capacity 1"),
        (MatchingCRF(), PairInput(ONE, capacity=np.ones(3, dtype=int)), GOOD, "capacity"),
        (TWO_SIDES, MASKED, [[0, 0], [1, 1], [2, 1]], "row 2 and column 1 .* is not allowed"),
        (TWO_SIDES, MASKED, [[0, 0], [1, 0], [2, 0]], "column 0 has 3 .* must have at most 2"),
        (TWO_SIDES, MASKED, [[0, 0], [1, 1]], "row 2 has 0 partners, it must have exactly 1"),
    ],
)
def test_errors(model, x, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit([x], [np.array(y)])


@pytest.mark.parametrize(
    ("model", "x", "error", "message"),
    [
        (MatchingCRF(), EdgeList(4.7, [(0, 1), (2, 3)], np.ones((2, 1))), TypeError, "n_nodes"),
        (MatchingCRF(perfect="yes"), ONE, TypeError, "perfect"),
        (BipartiteMatchingCRF(), edge_list([(0, 1)]), TypeError, "MatchingCRF"),
        (MatchingCRF(polytope="local"), STAR, InfeasibleError, r"X\[0\]"),
        (MatchingCRF(polytope="exact"), STAR, InfeasibleError, r"X\[0\]"),
        (MatchingCRF(), edge_list([(0, 1)]), InfeasibleError, None),
        (MatchingCRF(), TRIANGLES, InfeasibleError, None),
        (
            MatchingCRF(),
            PairInput(np.ones((5, 5, 1)), capacity=3),
            InfeasibleError,
            "15 in all: an odd",
        ),
    ],
)
def test_errors_of_type_and_of_infeasible_graphs(model, x, error, message):
    with pytest.raises(error, match=message):
        model.fit([x], [GOOD])


# ---------------------------------------------------------------------- capacities
def test_reviewers(data):
    """Papers have two reviewers each, reviewers at most three papers."""
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(6, 5, 2)) for _ in range(12)]
    Y = []
    for x in X:
        noisy = x @ [2.0, 0.0] + rng.gumbel(size=(6, 5))
        model = BipartiteMatchingCRF(capacity=(2, 3))
        model.fit(
            [noisy[..., None]], [np.array([(i, (i + k) % 5) for i in range(6) for k in (0, 1)])]
        )
        model.coef_ = np.array([1.0])
        Y.append(model.predict([noisy[..., None]])[0])
    model = BipartiteMatchingCRF(alpha=0.5, capacity=(2, 3)).fit(X, Y)
    assert model.converged_
    assert model.coef_[0] > 3 * abs(model.coef_[1])
    for tau, pairs in zip(model.predict_marginals(X), model.predict(X), strict=True):
        np.testing.assert_allclose(tau.sum(axis=1), 2.0, atol=1e-8)
        assert (tau.sum(axis=0) <= 3.0 + 1e-8).all()
        assert (np.bincount(pairs[:, 0], minlength=6) == 2).all()
        assert (np.bincount(pairs[:, 1], minlength=5) <= 3).all()
    assert model.score(X, Y) > 0.6
    lower, upper = model.log_likelihood_bounds(X, Y)
    assert (lower <= upper).all()
    as_matrix = []
    for y in Y:
        matrix = np.zeros((6, 5), dtype=bool)
        matrix[tuple(y.T)] = True
        as_matrix.append(matrix)
    same = BipartiteMatchingCRF(alpha=0.5, capacity=(2, 3)).fit(X, as_matrix)
    np.testing.assert_allclose(same.coef_, model.coef_)


def test_capacity_one_is_a_plain_matching():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(4, 4, 2)) for _ in range(5)]
    Y = [rng.permutation(4) for _ in X]
    plain = BipartiteMatchingCRF().fit(X, Y)
    for capacity in (np.ones(8, dtype=int), (1, 1)):
        np.testing.assert_array_equal(
            BipartiteMatchingCRF(capacity=capacity).fit(X, Y).coef_, plain.coef_
        )


def test_two_friends_each(data):
    """b-matchings within a group: everybody has two partners."""
    X = [PairInput(x, capacity=2) for x in data[0][:8]]
    ring = np.array([(i, (i + 1) % 8) for i in range(8)])
    model = MatchingCRF(alpha=0.5).fit(X, [ring] * 8)
    assert model.converged_
    for tau, pairs in zip(model.predict_marginals(X), model.predict(X), strict=True):
        np.testing.assert_allclose(tau, tau.T)
        np.testing.assert_allclose(tau.sum(axis=1), 2.0, atol=1e-8)
        assert (np.bincount(pairs.ravel(), minlength=8) == 2).all()
    with pytest.raises(ValueError, match="node 0 has 1 partners, it must have exactly 2"):
        MatchingCRF().fit(X[:1], [ring[:-1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other = MatchingCRF(alpha=0.5, solver=BlockFrankWolfe(), max_iter=400).fit(X, [ring] * 8)
    assert other.objective_bound_ >= model.objective_ - 1e-9
    assert other.objective_ <= model.objective_bound_ + 1e-9


def test_capacity_of_one_sample():
    x = np.zeros((4, 4, 1))
    x[0, 1] = x[1, 0] = 1.0
    pairs = np.array([[0, 1], [0, 2], [1, 2]])
    sample = PairInput(x, capacity=[2, 2, 2, 0])
    model = MatchingCRF(perfect=False).fit([sample], [pairs])
    assert model.predict_marginals([sample])[0][3].sum() == 0.0


# ---------------------------------------------------------------------- edge cases
def test_forbidden_pairs_of_a_pair_input():
    x = np.ones((4, 4, 1))
    x[0, 1] = x[1, 0] = -np.inf
    model = MatchingCRF().fit([PairInput(x)], [np.array([2, 3, 0, 1])])
    assert model.predict_marginals([PairInput(x)])[0][0, 1] == 0.0


def test_score_checks_its_labels(data):
    model = MatchingCRF().fit(data[0][:3], data[1][:3])
    with pytest.raises(ValueError, match="mutual"):
        model.score(data[0][:1], [np.array([1, 2, 3, 4, 5, 6, 7, 0])])
    with pytest.raises(ValueError, match="integers"):
        model.score(data[0][:1], [np.array(list("abcdefgh"))])


def test_the_side_that_is_filled_can_be_named():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 2, 1))
    pairs = np.array([[0, 0], [1, 1], [2, 0]])
    model = BipartiteMatchingCRF(capacity=(1, 2), perfect="rows").fit([x], [pairs])
    tau = model.predict_marginals([x])[0]
    np.testing.assert_allclose(tau.sum(axis=1), 1.0, atol=1e-8)
    assert (tau.sum(axis=0) <= 2 + 1e-8).all()
    with pytest.raises(InfeasibleError, match="rows need 6 partners in all, the other side"):
        BipartiteMatchingCRF(capacity=(2, 2), perfect="rows").fit([x], [pairs])
    with pytest.raises(InfeasibleError, match="perfect='rows'"):
        BipartiteMatchingCRF(perfect="rows").fit([x], [np.array([0, 1, -1])])
    with pytest.raises(ValueError, match="rho"):
        BipartiteMatchingCRF(capacity=(1, 2), rho=(0.5, np.full(9, 0.7))).fit([x], [pairs])


def test_bounds_stay_ordered_at_extreme_scores(data):
    model = MatchingCRF(rho=0.5).fit(data[0][:2], data[1][:2])
    lower, upper = model.log_likelihood_bounds([1e10 * x for x in data[0][:2]], data[1][:2])
    assert (lower <= upper).all()
    assert (upper <= 0).all()


def test_imperfect_groups_of_odd_size_over_the_exact_polytope(data):
    X = [np.concatenate([x[:5, :5], np.ones((5, 5, 1))], axis=2) for x in data[0][:12]]
    Y = [partners([(0, 1), (2, 3)], 5), partners([(2, 4)], 5)] * 6
    model = MatchingCRF(alpha=0.1, perfect=False, polytope="exact").fit(X, Y)
    assert model.converged_


def test_labels_as_pairs_or_matrices_mean_the_same(data):
    X, Y = data[0][:4], data[1][:4]
    truth = MatchingCRF().fit(X, Y).coef_
    pairs = [np.array([(i, j) for i, j in enumerate(y) if i < j]) for y in Y]
    matrices = [np.zeros((8, 8), dtype=bool) for _ in Y]
    for matrix, y in zip(matrices, Y, strict=True):
        matrix[np.arange(8), y] = True
    for labels in (pairs, matrices, [sparse.csr_array(m) for m in matrices]):
        np.testing.assert_array_equal(MatchingCRF().fit(X, labels).coef_, truth)
    with pytest.raises(ValueError, match="node 1 has 2 partners, it must have exactly 1"):
        MatchingCRF().fit(X[:1], [np.array([[0, 1], [1, 2]])])
    hidden = [np.where(np.arange(8) < 6, Y[0], np.nan)]
    with pytest.warns(UserWarning, match=r"Y\[0\]: NaN is a partner that is not known"):
        assert MatchingCRF(perfect=False).fit(X[:1], hidden).history_.objective
    wide = [x[:4, 4:] for x in X]
    sides = BipartiteMatchingCRF().fit(wide, [np.arange(4)] * 4).coef_
    eye = BipartiteMatchingCRF().fit(wide, [sparse.eye_array(4).tocsr()] * 4).coef_
    np.testing.assert_array_equal(sides, eye)


# ---------------------------------------------------------------------- ties
@pytest.mark.parametrize("n", [8, 20])
def test_an_untrained_model_scores_as_chance_does(n):
    """Weights of 0 leave all matchings equal: which one is predicted must not follow the order."""
    rng = np.random.default_rng(0)
    pairs = BipartiteMatchingCRF().fit(rng.normal(size=(1, n, n, 2)), [np.arange(n)])
    group = rng.normal(size=(1, n, n, 2))
    mates = MatchingCRF().fit(group + group.swapaxes(1, 2), [np.arange(n) ^ 1])
    blank, size = np.zeros((60, n, n, 2)), 60
    for model, truth, chance in (
        (pairs, np.arange(n), 1 / n),
        (mates, np.arange(n) ^ 1, 1 / (n - 1)),
    ):
        model.coef_ = np.zeros(2)
        found = model.score(blank, [truth] * size)
        # The number of right pairs in a sample has about a Poisson distribution of mean 1.
        assert abs(found - chance) < 5 * 2 * chance / np.sqrt(size)


def test_breaking_ties_costs_nothing_and_is_repeatable():
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 3, size=(7, 7, 1)).astype(float) for _ in range(20)]
    model = BipartiteMatchingCRF().fit(X, [rng.permutation(7) for _ in X])
    model.coef_ = np.ones(1)
    np.testing.assert_array_equal(model.predict(X), model.predict(X))
    for x, found in zip(X, model.predict(X), strict=True):
        rows, cols = linear_sum_assignment(x[..., 0], maximize=True)
        assert x[np.arange(7), found, 0].sum() == x[rows, cols, 0].sum()
    for found, links in zip(model.predict(X), model.predict_links(X), strict=True):
        linked = links[links["linked"]]
        np.testing.assert_array_equal(linked["column"], found[linked["row"]])


@pytest.mark.parametrize("rho", [0.7, np.full(4, 0.6)])
def test_a_given_rho_that_capacities_override_is_reported(rho):
    x, pairs = np.random.default_rng(0).normal(size=(4, 4, 2)), [(0, 1), (1, 2), (2, 3), (3, 0)]
    x = x + x.transpose(1, 0, 2)
    with pytest.warns(UserWarning, match="has no effect with capacities"):
        MatchingCRF(rho=rho).fit([PairInput(x, capacity=2)], [pairs])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MatchingCRF().fit([PairInput(x, capacity=2)], [pairs])


@pytest.mark.parametrize("rho", [0.5, 1.0])
@pytest.mark.parametrize("perfect", [True, False])
def test_small_groups_learn_over_mixtures_of_matchings_by_decoding(rho, perfect):
    """The weights are those of the likelihood whose log Z_rho is found by enumeration."""
    rng = np.random.default_rng(0)
    X = [x + x.transpose(1, 0, 2) for x in rng.normal(size=(3, 6, 6, 2))]
    Y = [np.arange(6) ^ 1, np.arange(6)[::-1], (np.arange(6) + 3) % 6]
    model = MatchingCRF(
        alpha=1.0, rho=rho, perfect=perfect, polytope="exact", tol=1e-5,
        fit_intercept=False, standardize=False,
    ).fit(X, Y)  # fmt: skip
    assert model.solver_ == "fully corrective"
    assert model.converged_
    space = complete(6, perfect, rho)
    i, j = space.edges.T

    def loss(theta):
        value, gradient = 0.5 * theta @ theta, theta.copy()
        for x, y in zip(X, Y, strict=True):
            scores, observed = np.zeros(space.size), y[i] == j
            scores[: space.n_edges] = x[i, j] @ theta
            log_z, _, tau = space.exact_optimum(scores)
            value += log_z - scores[: space.n_edges][observed].sum()
            gradient += x[i, j].T @ (tau[: space.n_edges] - observed)
        return value, gradient

    best = minimize(loss, np.zeros(2), jac=True, method="BFGS").x
    allowed = np.sqrt(2.0 * model.duality_gap_) + 1e-3
    assert np.linalg.norm(model.coef_ - best) <= allowed
