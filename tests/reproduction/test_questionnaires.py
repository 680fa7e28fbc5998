"""Features of questionnaires beside arrays of all pairs."""

import numpy as np
import pytest

from mlestruct import MatchingCRF, PairInput
from mlestruct.datasets import generate_campus
from reproduction.questionnaires import AnswerPairs, true_theta


@pytest.fixture(scope="module")
def campus():
    return generate_campus([30, 40], random_state=3, missing=0.1)


def rows(features):
    """The features of all pairs as an array."""
    every = np.einsum("ia,kab,jb->ijk", features.people, features.tables, features.people)
    return every[np.triu_indices(features.n_people, 1)]


def test_products_are_those_of_an_array(campus):
    rng = np.random.default_rng(0)
    features = AnswerPairs(campus.questions, campus.years[0].answers)
    table, theta = rows(features), rng.normal(size=features.n_features)
    tau, some = rng.random(features.n_scored), rng.permutation(features.n_scored)[:50]
    np.testing.assert_allclose(features.scores(theta), table @ theta, atol=1e-12)
    np.testing.assert_allclose(features.moments(tau), tau @ table, atol=1e-10)
    np.testing.assert_allclose(features.moments_at(some, tau[some]), tau[some] @ table[some])
    np.testing.assert_array_equal(
        features.scores(true_theta(campus)),
        campus.true_scores(campus.years[0])[np.triu_indices(30, 1)],
    )


def test_second_moments_are_the_covariance_of_perfect_matchings():
    """Of the 15 matchings of six people."""
    campus = generate_campus([6], random_state=0)
    features = AnswerPairs(campus.questions, campus.years[0].answers)
    table = rows(features)
    place = {pair: k for k, pair in enumerate(zip(*np.triu_indices(6, 1), strict=True))}

    def matchings(people):
        if not people:
            yield []
        for partner in people[1:]:
            rest = [one for one in people[1:] if one != partner]
            yield from ([place[people[0], partner], *others] for others in matchings(rest))

    sums = np.array([table[chosen].sum(axis=0) for chosen in matchings(list(range(6)))])
    ((gram, scale),) = features.second_moments()
    np.testing.assert_allclose(scale * gram, np.cov(sums.T, bias=True), atol=1e-10)


def test_equivalent_weights_give_the_same_probabilities():
    campus = generate_campus([20], random_state=1)
    features = AnswerPairs(campus.questions, campus.years[0].answers)
    X, Y = [PairInput(features, shape=(20, 20))], [campus.years[0].partner]
    model = MatchingCRF(alpha=10.0).fit(X, Y)
    theta = np.random.default_rng(0).normal(size=features.n_features)
    shortest = features.shortest_equivalent(theta)
    assert np.linalg.norm(shortest) < np.linalg.norm(theta)
    found = []
    for model.coef_ in (theta, shortest):
        found.append(model.predict_marginals(X)[0])
    np.testing.assert_allclose(*found, atol=1e-5)


def test_gradient_at_no_weights_points_to_the_truth():
    """A single Newton step from 0, with the exact curvature there, finds what matters most."""
    campus = generate_campus(600, 2, strength=0.5, random_state=5)
    gradient, curvature = 0.0, np.eye(200)
    for year in campus.years:
        features, n = AnswerPairs(campus.questions, year.answers), len(year.students)
        one = np.flatnonzero(year.partner > np.arange(n))
        places = one * (2 * n - one - 1) // 2 + year.partner[one] - one - 1
        gradient += features.moments_at(places, np.ones(places.size))
        gradient -= features.moments(np.full(features.n_scored, 1.0 / (n - 1)))
        ((gram, scale),) = features.second_moments()
        curvature = curvature + scale * gram
    step = np.linalg.solve(curvature, gradient)
    truth = features.shortest_equivalent(true_theta(campus))
    assert np.corrcoef(step[:14], truth[:14])[0, 1] > 0.85
