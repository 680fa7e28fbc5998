"""Parts of matchings that are known at prediction or missing in training, against enumeration."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.special import logsumexp

from mlestruct import BipartiteMatchingCRF, EdgeList, MatchingCRF, PairInput

FINE = {"alpha": 0.3, "tol": 1e-8, "fit_intercept": False}


def bipartite_model(perfect=True, m=5, n=4):
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(n, n, 2)) for _ in range(m)]
    Y = [rng.permutation(n) for _ in X]
    return BipartiteMatchingCRF(rho=1.0, perfect=perfect, **FINE).fit(X, Y), X, Y


def test_matchings_given_pairs_and_non_pairs():
    model, X, _ = bipartite_model()
    partners = np.array([np.nan, 2.0, np.nan, np.nan])
    matrix = np.full((4, 4), np.nan)
    matrix[0, 3], matrix[3, 1] = 0.0, 1.0
    pairs = np.array([[2, 0]])
    known = [partners, matrix, pairs, None, np.array([None, 1, None, None])]
    tests = [
        lambda y: y[1] == 2,
        lambda y: y[0] != 3 and y[3] == 1,
        lambda y: y[2] == 0,
        lambda y: True,
        lambda y: y[1] == 1,
    ]
    best = model.predict(X, known=known)
    exact = model.predict_marginals(X, method="exact", known=known)
    samples = model.sample(X, 30, known=known, random_state=0)
    tables = model.predict_marginals(X, known=known)
    for x, agrees, found, table, drawn, auto in zip(
        X, tests, best, exact, samples, tables, strict=True
    ):
        every = np.array([p for p in permutations(range(4)) if agrees(p)])
        total = np.array([(x[np.arange(4), y] @ model.coef_).sum() for y in every])
        np.testing.assert_array_equal(found, every[np.argmax(total)])
        p = np.exp(total - logsumexp(total))
        np.testing.assert_allclose(table, (p[:, None, None] * np.eye(4)[every]).sum(0), atol=1e-8)
        assert all(agrees(y) for y in drawn)
        np.testing.assert_allclose(auto.sum(axis=1), 1.0, atol=1e-6)
    y = best[0]
    whole = model.log_likelihood(X[:1], [y])[0]
    assert model.log_likelihood(X[:1], [y], known=known[:1])[0] > whole
    lower, upper = model.log_likelihood_bounds(X[:1], [y], known=known[:1])
    exact = model.log_likelihood(X[:1], [y], known=known[:1])[0]
    assert lower[0] - 1e-9 <= exact <= upper[0] + 1e-9


def test_single_nodes_and_groups_given():
    model, X, _ = bipartite_model(perfect=False)
    known = [np.array([-1.0, np.nan, np.nan, np.nan])] * 5
    assert all(y[0] == -1 for y in model.predict(X, known=known))
    rng = np.random.default_rng(2)
    groups = [x + x.swapaxes(0, 1) for x in rng.normal(size=(3, 6, 6, 2))]
    mates = MatchingCRF(**FINE).fit(groups, [np.arange(6) ^ 1] * 3)
    known = np.full(6, np.nan)
    known[4] = 0.0
    for found, table in zip(
        mates.predict(groups, known=[known] * 3),
        mates.predict_marginals(groups, known=[known] * 3),
        strict=True,
    ):
        assert found[4] == 0
        assert found[0] == 4
        assert table[0, 4] == 1.0


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (np.array([9.0, np.nan, np.nan, np.nan]), r"known\[0\]: row 0 has partner 9"),
        (
            np.array([0.5, np.nan, np.nan, np.nan]),
            r"known\[0\]: partners must be integers, found 0.5",
        ),
        (np.array([1.0, 1.0, np.nan, np.nan]), r"known\[0\]: known: node \d is in 2 pairs"),
        (np.full((4, 4), 2.0), r"known\[0\]: found 2.0 in a matrix of pairs"),
        (np.zeros(3), r"known\[0\]: expected shape \(4,\), the partner"),
        (np.zeros((4, 4)), r"known\[0\]: .*must be matched"),
    ],
)
def test_contradictions_are_named(known, message):
    model, X, _ = bipartite_model()
    with pytest.raises(ValueError, match=message):
        model.predict(X[:1], known=[known])


def test_known_pairs_must_be_allowed():
    model, X, _ = bipartite_model()
    mask = ~np.eye(4, dtype=bool)
    with pytest.raises(ValueError, match=r"row 0 and column 0 are a pair, which is not allowed"):
        model.predict([PairInput(X[0], mask=mask)], known=[np.array([[0, 0]])])


@pytest.mark.parametrize("perfect", [True, False])
def test_partners_that_are_not_known_are_summed_over(perfect):
    """Not known is not single: two sides, at rho = 1/2, where P has the same rho in both terms."""
    rng = np.random.default_rng(6)
    X = [rng.normal(size=(4, 4, 2)) for _ in range(8)]
    truth = np.array([2.0, -1.0])
    full = [
        max(permutations(range(4)), key=lambda y, x=x: (x[np.arange(4), y] @ truth).sum())
        for x in X
    ]
    Y = [np.array(y, dtype=float) for y in full]
    for y in Y[2:]:
        y[rng.permutation(4)[:2]] = np.nan
    model = BipartiteMatchingCRF(perfect=perfect, rho=0.5, **FINE).fit(X, Y)
    path = np.array(model.history_.objective)
    assert (np.diff(path) >= -1e-7).all()
    whole = BipartiteMatchingCRF(perfect=perfect, rho=0.5, **FINE).fit(X[:2], Y[:2])
    penalty = 0.5 * FINE["alpha"]

    def value(m):
        fit = m.approximate_log_likelihood(X, Y, tol=1e-9).sum()
        return fit - penalty * m.coef_ @ m.coef_

    assert value(model) == pytest.approx(path[-1], abs=1e-4)
    assert value(model) > value(whole)
    for k in range(2):  # a stationary point, by finite differences
        slopes = []
        for h in (1e-4, -1e-4):
            moved = BipartiteMatchingCRF(perfect=perfect, rho=0.5, **FINE).fit(X[:2], Y[:2])
            moved.coef_ = model.coef_ + h * np.eye(2)[k]
            slopes.append(value(moved))
        assert abs(slopes[0] - slopes[1]) / 2e-4 < 0.02
    exact = model.log_likelihood(X[2:3], Y[2:3])[0]
    lower, upper = model.log_likelihood_bounds(X[2:3], Y[2:3])
    assert lower[0] - 1e-9 <= exact <= upper[0] + 1e-9


# ---------------------------------------------------------------------- likelihoods of matchings
@pytest.mark.parametrize("perfect", [True, False])
def test_likelihoods_of_matchings_given_pairs(perfect):
    model, X, Y = bipartite_model(perfect=perfect, n=3)
    places = range(3) if perfect else range(-1, 3)
    every = np.array(
        [y for y in product(places, repeat=3) if len({*y} - {-1}) == sum(j >= 0 for j in y)]
    )
    for m, (x, y) in enumerate(zip(X, Y, strict=True)):
        scores = x @ model.coef_
        total = np.where(every >= 0, scores[np.arange(3), every], 0.0).sum(axis=1)
        known = np.full(3, np.nan)
        known[m % 3] = y[m % 3]
        agree = every[:, m % 3] == y[m % 3]
        at = int(np.flatnonzero((every == y).all(axis=1))[0])
        expected = total[at] - logsumexp(total[agree])
        assert model.log_likelihood([x], [y], known=[known])[0] == pytest.approx(expected)
        # Of Y, too, only a part is known: the rest is summed over.
        other = (m + 1) % 3
        part = np.full(3, np.nan)
        part[other] = y[other]
        both = agree & (every[:, other] == y[other])
        expected = logsumexp(total[both]) - logsumexp(total[agree])
        assert model.log_likelihood([x], [part], known=[known])[0] == pytest.approx(expected)
        low, high = model.log_likelihood_bounds([x], [part], known=[known])
        assert low[0] - 1e-7 <= expected <= high[0] + 1e-7
        wrong = known.copy()
        wrong[m % 3] = (y[m % 3] + 1) % 3
        for label in (y, np.where(np.isnan(known), np.nan, y)):
            with pytest.raises(
                ValueError, match=r"Y\[0\]: (differs from what is known|known: node)"
            ):
                model.log_likelihood([x], [label], known=[wrong])


def test_known_links_outside_the_candidates():
    pd = pytest.importorskip("pandas")
    pairs = pd.DataFrame(
        {"old": list("aabbc"), "new": list("xyxyz"), "name": [1.0, 0.2, 0.3, 0.9, 0.8]}
    )
    sample = PairInput.from_frame(pairs, ids=("old", "new"))
    links = pd.DataFrame({"old": ["a", "b", "c"], "new": ["x", "y", "z"]})
    model = BipartiteMatchingCRF(perfect=False, alpha=0.1).fit([sample], [links])
    known = pd.DataFrame({"old": ["a"], "new": ["z"]})  # never compared
    with pytest.warns(UserWarning, match=r"known\[0\]: 1 of 1 links are not among"):
        found = model.predict_links([sample], known=[known])[0]
    taken = (found["old"] == "a") | (found["new"] == "z")
    assert (found["probability"][taken] == 0.0).all()
    assert found.loc[found["linked"], ["old", "new"]].values.tolist() == [["b", "y"]]
    mates = MatchingCRF(perfect=False, alpha=0.1)
    group = EdgeList.from_frame(pairs, ids=("old", "new"))
    mates.fit([group], [links])
    with pytest.warns(UserWarning, match="not among the candidate pairs"):
        found = mates.predict_links([group], known=[pd.DataFrame({"a": ["z"], "b": ["a"]})])[0]
    assert found["old"][found["linked"]].tolist() == ["b"]
    with pytest.raises(ValueError, match=r"row 0 and column 2 are a pair, which is not allowed"):
        model.predict([sample], known=[np.array([[0, 2]])])
