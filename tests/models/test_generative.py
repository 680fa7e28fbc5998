"""Models of matchings without features: scores are the parameters."""

import numpy as np
import pytest
from scipy import sparse

from mlestruct import BipartiteMatchingCRF, MatchingCRF, PairInput


def one_weight_per_pair(n, group=False):
    """A sparse identity: the scores are the weights."""
    n_pairs = n * (n - 1) // 2 if group else n * n
    return PairInput(sparse.eye_array(n_pairs, format="csr"), shape=(n, n))


@pytest.mark.parametrize("group", [False, True])
def test_scores_as_parameters_are_those_of_explicit_indicators(group):
    """A generative model: one weight per pair, with and without an (n, n, n^2) array."""
    rng, n = np.random.default_rng(4), 6
    pairs = [(i, j) for i in range(n) for j in range(n) if not group or i < j]
    indicators = np.zeros((n, n, len(pairs)))
    for k, (i, j) in enumerate(pairs):
        indicators[i, j, k] = 1.0
        if group:
            indicators[j, i, k] = 1.0
    orders = [rng.permutation(n) for _ in range(12)]
    Y = [partner_of(order) for order in orders] if group else orders
    estimator = MatchingCRF if group else BipartiteMatchingCRF
    short = estimator(tol=1e-9).fit([one_weight_per_pair(n, group)] * 12, Y)
    explicit = estimator(tol=1e-9).fit([indicators] * 12, Y)
    assert short.n_features_in_ == len(pairs)
    np.testing.assert_allclose(short.coef_, explicit.coef_, atol=1e-4)
    assert short.objective_bound_ == pytest.approx(explicit.objective_bound_, rel=1e-8)


def partner_of(order):
    """Neighbours in an order are partners."""
    partner = np.empty(len(order), dtype=int)
    partner[order[::2]], partner[order[1::2]] = order[1::2], order[::2]
    return partner


def test_samples_with_masks_share_the_weights_of_pairs():
    rng, n = np.random.default_rng(5), 4
    mask = ~np.eye(n, dtype=bool)
    free = one_weight_per_pair(n)
    bounded = PairInput(free.features[np.flatnonzero(mask)], mask=mask)
    shift = (np.arange(n) + 1) % n
    model = BipartiteMatchingCRF(alpha=0.1).fit([free, bounded], [rng.permutation(n), shift])
    assert model.coef_.shape == (n * n,)
    assert not model.predict_marginals([bounded])[0].diagonal().any()


def test_many_pairs_need_no_square_of_their_number():
    """One weight per pair of 200 and 200: 40,000 indicators of 40,000 pairs would take 13 GB."""
    n = 200
    model = BipartiteMatchingCRF(tol=0.1).fit([one_weight_per_pair(n)], [np.arange(n)])
    assert model.coef_.reshape(n, n).argmax(axis=1).tolist() == list(range(n))
