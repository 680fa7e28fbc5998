"""Generated roommates."""

import numpy as np
import pytest

from mlestruct.datasets import Campus, CampusYear, Question, generate_campus


@pytest.fixture(scope="module")
def campus():
    return generate_campus(200, random_state=3)


def roommate_auc(scores, partner):
    """How often a pair of roommates has a higher score than another pair, ties counting half."""
    table = np.zeros((partner.size, partner.size))
    table[np.triu_indices(partner.size, 1)] = scores
    together = np.triu(partner[:, None] == np.arange(partner.size), 1)
    apart = np.triu(~together, 1)
    gap = table[together][:, None] - table[apart][None, :]
    return (gap > 0).mean() + (gap == 0).mean() / 2


def test_years_are_even_and_everyone_has_one_roommate(campus):
    assert [year.year for year in campus.years] == [2010, 2011, 2012]
    sizes = [len(year.students) for year in campus.years]
    assert len(set(sizes)) > 1
    for year, n in zip(campus.years, sizes, strict=True):
        assert n % 2 == 0
        assert abs(n - 200) <= 10
        assert year.answers.shape == (n, 14)
        assert len(set(year.students)) == n
        np.testing.assert_array_equal(year.partner[year.partner], np.arange(n))
        assert (year.partner != np.arange(n)).all()
        assert year.rhat <= 1.05
        assert year.ess >= 100


def test_the_default_size_is_that_of_a_university():
    sizes = [len(y.students) for y in generate_campus(2400, 3, strength=0.0).years]
    assert all(2374 <= n <= 2504 for n in sizes)


def test_questionnaire_and_weights_fit_together(campus):
    kinds = [question.kind for question in campus.questions]
    assert (kinds.count("binary"), kinds.count("ordinal")) == (2, 12)
    features = campus.features(2011)
    assert features.n_features == 200
    assert features.shape[0] == len(campus.years[1].students)
    expected = [campus.true_weights.get(name, 0.0) for name in features.feature_names]
    np.testing.assert_array_equal(campus.true_theta, expected)
    assert set(campus.true_weights) <= set(features.feature_names)
    order = np.argsort(features.shortest_equivalent(campus.true_theta)[:14])[:3]
    names = [features.feature_names[k] for k in order]
    assert names == ["|smoking|", "|personality|", "|bed time|"]
    with pytest.raises(ValueError, match=r"expected one of \[2010, 2011, 2012\], got 1999"):
        campus.features(1999)


def test_answers_are_skewed_and_correlated():
    year = generate_campus([4000], strength=0.0, random_state=1).years[0]
    names = [question.name for question in generate_campus(2).questions]
    by_name = dict(zip(names, year.answers.T, strict=True))
    assert by_name["smoking"].mean() == pytest.approx(0.08, abs=0.015)
    late = np.corrcoef(by_name["bed time"], by_name["wake time"])[0, 1]
    assert 0.4 < late < 0.7
    assert abs(np.corrcoef(by_name["temperature"], by_name["bed time"])[0, 1]) < 0.06


def test_scores_tell_roommates_apart_as_strength_says(campus):
    def auc(of):
        return np.mean(
            [roommate_auc(of.features(y).scores(campus.true_theta), y.partner) for y in of.years]
        )

    assert 0.7 < auc(campus) < 0.88
    assert auc(generate_campus(200, strength=0.0, random_state=3)) == pytest.approx(0.5, abs=0.06)


def test_gradient_at_no_weights_points_to_the_truth():
    """A single Newton step from 0, with the exact curvature there, finds what matters most."""
    campus = generate_campus(600, 2, strength=0.5, random_state=5)
    gradient, curvature = 0.0, np.eye(200)
    for year in campus.years:
        features, n = campus.features(year), len(year.students)
        one = np.flatnonzero(year.partner > np.arange(n))
        places = one * (2 * n - one - 1) // 2 + year.partner[one] - one - 1
        gradient += features.moments_at(places, np.ones(places.size))
        gradient -= features.moments(np.full(features.n_scored, 1.0 / (n - 1)))
        ((gram, scale),) = features.second_moments()
        curvature = curvature + scale * gram
    step = np.linalg.solve(curvature, gradient)
    truth = campus.features(2010).shortest_equivalent(campus.true_theta)
    assert np.corrcoef(step[:14], truth[:14])[0, 1] > 0.85


def test_generation_repeats_and_differs_by_seed():
    one, same, other = (generate_campus(20, 2, random_state=s) for s in (1, 1, 2))
    for a, b in zip(one.years, same.years, strict=True):
        np.testing.assert_array_equal(a.answers, b.answers)
        np.testing.assert_array_equal(a.partner, b.partner)
    assert not np.array_equal(one.years[0].answers, other.years[0].answers)
    assert [len(y.students) for y in generate_campus([10, 14]).years] == [10, 14]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_students": 21}, "n_students: expected even numbers from 2, got 21"),
        ({"n_students": [20, 21]}, "n_students: expected even"),
        ({"n_students": 0}, "n_students: expected even"),
        ({"n_students": [20], "n_years": 2}, "expected 2 sizes"),
        ({"n_students": []}, "expected some sizes"),
        ({"n_years": 0}, "n_years: expected a whole number of at least 1"),
        ({"missing": 1.0}, "missing: expected a share"),
        ({"strength": np.nan}, "strength: expected a number"),
    ],
)
def test_generator_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate_campus(**arguments)


def test_students_without_a_roommate_are_left_out():
    answers = np.array([[0, 4], [1, -1], [0, 0], [1, 3], [0, 2]])
    year = CampusYear(2020, list("abcde"), answers, np.array([2, 3, 0, 1, -1]))  # e lives alone
    questions = [
        Question("smoking", "binary", ("no", "yes")),
        Question("noise", "ordinal", "01234"),
    ]
    pairs = year.paired()
    assert pairs.students == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(pairs.partner, [2, 3, 0, 1])
    np.testing.assert_array_equal(pairs.answers, answers[:4])
    assert Campus(questions, [year]).features(pairs).shape == (4, 4)
