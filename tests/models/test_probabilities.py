"""Samples, likelihoods and calibration of estimators, against counting and against each other."""

from itertools import permutations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import brier_score_loss

from mlestruct import BipartiteMatchingCRF, ChainCRF, GraphCRF, GridCRF, MatchingCRF
from mlestruct.exceptions import TooLargeToCount
from mlestruct.inference import marginals
from mlestruct.metrics import reliability
from mlestruct.structures import Decoding, Vertex


@pytest.fixture(scope="module")
def pairs():
    """A fitted model of two sides, and new samples."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 5, 2)) for _ in range(30)]
    Y = [np.argsort(rng.random(5)) for _ in range(30)]
    return BipartiteMatchingCRF(alpha=0.1, random_state=0).fit(X[:20], Y[:20]), X[20:], Y[20:]


@pytest.fixture(scope="module")
def group():
    rng = np.random.default_rng(1)
    X = [x + x.transpose(1, 0, 2) for x in rng.normal(size=(12, 6, 6, 2))]
    Y = [np.array([1, 0, 3, 2, 5, 4])] * 12
    return MatchingCRF(alpha=5.0).fit(X, Y), X, Y


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(3, 4, 2)) for _ in range(12)]
    Y = [np.where(x[..., 0] + rng.normal(size=(3, 4)) > 0, "on", "off") for x in X]
    return GridCRF(alpha=1.0).fit(X, Y), X, Y


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(3)
    Y = [rng.integers(3, size=n) for n in (4, 6, 5, 4, 7)]
    X = [np.eye(3)[y] + rng.normal(size=(len(y), 3)) for y in Y]
    return ChainCRF(alpha=1.0).fit(X, Y), X, Y


def frequencies(labels, n):
    """How often each row has each column."""
    return np.stack([(labels == j).mean(axis=0) for j in range(n)], axis=1)


def within(found, expected, n, errors=5.0):
    spread = np.sqrt(expected * (1 - expected) / n) + 1.0 / n
    return bool((np.abs(found - expected) <= errors * spread).all())


# ---------------------------------------------------------------------- samples
@pytest.mark.parametrize("method", ["exact", "mcmc"])
def test_matchings_are_drawn_with_their_probabilities(pairs, method):
    model, X, _ = pairs
    drawn = model.sample(X[:2], 3000, method, random_state=0)
    for labels, table in zip(drawn, model.predict_marginals(X[:2], method="exact"), strict=True):
        assert labels.shape == (3000, 5)
        assert within(frequencies(labels, 5), table, 3000)


def test_groups_are_drawn_as_partners(group):
    model, X, _ = group
    labels = model.sample(X[:1], 2000, random_state=0)[0]
    assert (np.take_along_axis(labels, labels, axis=1) == np.arange(6)).all()
    assert within(frequencies(labels, 6), model.predict_marginals(X[:1], method="exact")[0], 2000)


def test_images_are_drawn_with_the_labels_of_the_user(images):
    model, X, _ = images
    labels = model.sample(X[:1], 2000, random_state=0)[0]
    assert labels.shape == (2000, 3, 4)
    assert set(labels.ravel()) <= {"on", "off"}
    exact = model.predict_marginals(X[:1], method="exact")[0]
    found = (labels == "on").mean(axis=0)
    assert within(found, exact[..., list(model.classes_).index("on")], 2000)


def test_sequences_of_different_lengths(words):
    model, X, _ = words
    drawn = model.sample(X, 1000, random_state=0)
    for labels, table in zip(drawn, model.predict_marginals(X), strict=True):
        assert within(frequencies(labels, 3), table, 1000)


@pytest.mark.parametrize("kind", ["pairs", "group", "images", "words"])
def test_seeds_are_respected_whatever_the_number_of_threads(kind, request):
    model, X, _ = request.getfixturevalue(kind)
    first = model.sample(X, 3, random_state=5)
    model.n_jobs = 2
    again = model.sample(X, 3, random_state=5)
    other = model.sample(X, 3, random_state=6)
    model.n_jobs = None
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_pairs_are_drawn_where_nodes_have_several_partners():
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(3, 4, 2)) for _ in range(4)]
    Y = [np.array([[0, 0], [0, 1], [1, 1], [1, 2], [2, 0], [2, 3]])] * 4
    model = BipartiteMatchingCRF(capacity=(2, 3)).fit(X, Y)
    for label in model.sample(X[:1], 20, random_state=0)[0]:
        assert (np.bincount(label[:, 0], minlength=3) == 2).all()
        assert np.bincount(label[:, 1], minlength=4).max() <= 3


def test_nodes_without_capacity_are_never_matched():
    rng = np.random.default_rng(5)
    X = [rng.normal(size=(4, 5, 2)) for _ in range(10)]
    capacity = (np.array([1, 1, 0, 1]), np.array([1, 0, 1, 1, 1]))
    partners = [np.array([0, 2, -1, 3]), np.array([4, 3, -1, -1])] * 5
    listed = [np.array([(i, j) for i, j in enumerate(y) if j >= 0]) for y in partners]
    by_partner = BipartiteMatchingCRF(capacity=capacity, perfect=False).fit(X, partners)
    by_pairs = BipartiteMatchingCRF(capacity=capacity, perfect=False).fit(X, listed)
    np.testing.assert_array_equal(by_partner.coef_, by_pairs.coef_)
    labels = by_partner.sample(X[:1], 200, random_state=0)[0]
    assert labels.shape == (200, 4)
    assert (labels[:, 2] == -1).all()
    assert not (labels == 1).any()
    assert all(label.shape == (4,) and label.max() < 5 for label in by_partner.predict(X))


# ---------------------------------------------------------------------- likelihoods
def test_likelihood_of_a_matching_is_counted(pairs):
    model, X, Y = pairs
    scores = model.pair_scores(X)
    found = model.log_likelihood(X, Y)
    for table, y, value in zip(scores, Y, found, strict=True):
        totals = [table[np.arange(5), p].sum() for p in permutations(range(5))]
        assert value == pytest.approx(table[np.arange(5), y].sum() - logsumexp(totals))


@pytest.mark.parametrize("kind", ["pairs", "group", "images", "words"])
def test_exact_likelihood_lies_between_its_bounds(kind, request):
    model, X, Y = request.getfixturevalue(kind)
    exact = model.log_likelihood(X, Y)
    lower, upper = model.log_likelihood_bounds(X, Y)
    assert (lower <= exact + 1e-6).all()
    assert (exact <= upper + 1e-6).all()


def test_approximate_likelihood_of_images_is_a_lower_bound(images):
    model, X, Y = images
    assert (model.approximate_log_likelihood(X, Y) <= model.log_likelihood(X, Y) + 1e-6).all()


def test_unlabelled_nodes_are_left_out_of_the_likelihood(words):
    rng = np.random.default_rng(6)
    ring = np.stack([np.arange(5), (np.arange(5) + 1) % 5], axis=1)
    X = [(rng.normal(size=(5, 2)), ring) for _ in range(6)]
    Y = [rng.integers(2, size=5) for _ in range(6)]
    model = GraphCRF().fit(X, Y)
    hidden = [[None] * 5, *Y[1:]]
    assert model.log_likelihood(X, hidden)[0] == 0.0
    np.testing.assert_allclose(model.log_likelihood(X, hidden)[1:], model.log_likelihood(X, Y)[1:])


def test_too_large_samples_are_refused(pairs):
    model, _, _ = pairs
    with pytest.raises(TooLargeToCount):
        model.log_likelihood([np.zeros((40, 40, 2))], [np.arange(40)])


def test_alpha_can_be_chosen_by_likelihood(pairs):
    _, X, Y = pairs
    path = BipartiteMatchingCRF().fit_path(X[:5], Y[:5], [100.0, 1.0, 0.01])

    def likelihood(model, X, Y):
        return model.log_likelihood(X, Y).mean()

    best = path.best(X[5:], Y[5:], scoring=likelihood)
    values = [likelihood(model, X[5:], Y[5:]) for model in path.estimators]
    assert likelihood(best, X[5:], Y[5:]) == max(values)


# ---------------------------------------------------------------------- marginals, calibration
def test_methods_of_marginals_agree(pairs):
    model, X, _ = pairs
    auto = model.predict_marginals(X, tol=1e-9)
    for a, b in zip(auto, model.predict_marginals(X, tol=1e-9, method="fw"), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_random_methods_follow_the_random_state_of_the_estimator(pairs):
    model, X, _ = pairs
    one, two = (model.predict_marginals(X[:1], method="perturb", n_samples=20)[0] for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert np.isclose(one * 20, np.round(one * 20)).all()


@pytest.mark.parametrize("kind", ["pairs", "group", "images", "words"])
def test_outputs_of_the_model_itself_are_calibrated(kind, request):
    model, X, _ = request.getfixturevalue(kind)
    many = [x for x in X for _ in range(40)]
    drawn = [label for labels in model.sample(X, 40, random_state=0) for label in labels]
    exact = model.events(many, drawn, method="exact")
    found = reliability(*exact)
    assert found.ece <= 3.0 * found.ece_if_calibrated
    wrong = [label[::-1] if np.ndim(label) == 1 else label[::-1, ::-1] for label in drawn]
    if kind in ("pairs", "images"):
        other = model.events(many, wrong, method="exact")
        assert brier_score_loss(*other[:2]) > brier_score_loss(*exact[:2])


# ---------------------------------------------------------------------- output spaces of users
class Subsets:
    """k of n items."""

    def __init__(self, n, k, sign=1.0, start=None):
        self.n_coordinates, self.k, self.sign = n, k, sign
        self.start = np.full(n, k / n) if start is None else start

    def decode(self, scores):
        best = np.argsort(-self.sign * scores)[: self.k]
        return Decoding(Vertex(best, np.ones(self.k)), float(scores[best].sum()))

    def entropy(self, tau):
        return float(-(tau * np.log(tau) + (1 - tau) * np.log(1 - tau)).sum())

    def entropy_gradient(self, tau):
        return np.log(1 - tau) - np.log(tau)

    def interior(self):
        return self.start


@pytest.mark.parametrize("step", ["corrective", "capped"])
def test_an_output_space_of_ones_own_needs_a_decoder_only(step):
    scores = np.linspace(-1.0, 1.0, 8)
    found = marginals(Subsets(8, 3), scores, "fw", tol=1e-3, step=step)
    # The optimum has odds exp(score - u) with u such that the marginals sum to 3.
    low, high = -10.0, 10.0
    for _ in range(100):
        u = 0.5 * (low + high)
        low, high = (u, high) if (1 / (1 + np.exp(u - scores))).sum() > 3 else (low, u)
    np.testing.assert_allclose(found.tau, 1 / (1 + np.exp(u - scores)), atol=0.03)
    np.testing.assert_array_equal(found.table, found.tau)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Subsets(8, 3, sign=-1.0), "decode must maximise"),
        (Subsets(8, 3, start=np.full(7, 0.4)), r"interior: expected shape \(8,\)"),
    ],
)
def test_wrong_output_spaces_are_found_out(space, message):
    with pytest.raises(ValueError, match=message):
        marginals(space, np.linspace(-1.0, 1.0, 8), "fw")


def test_likelihoods_warn_of_a_larger_gap_than_asked():
    rng = np.random.default_rng(0)
    X, Y = [rng.normal(size=(4, 4, 2)) for _ in range(3)], [rng.permutation(4) for _ in range(3)]
    model = BipartiteMatchingCRF().fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="approximate_log_likelihood: .* known only to"):
        model.approximate_log_likelihood(X, Y, tol=1e-20)
