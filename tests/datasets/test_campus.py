"""Generated roommates."""

import numpy as np
import pytest

from mlestruct.datasets import CampusYear, generate_campus
from mlestruct.datasets.campus import answer_tables


@pytest.fixture(scope="module")
def campus():
    return generate_campus(200, random_state=3)


def roommate_auc(scores, partner):
    """How often a pair of roommates has a higher score than another pair, ties counting half."""
    together = np.triu(partner[:, None] == np.arange(partner.size), 1)
    apart = np.triu(~together, 1)
    gap = scores[together][:, None] - scores[apart][None, :]
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
    sizes = [len(y.students) for y in generate_campus(n_years=1, strength=0.0).years]
    assert all(2374 <= n <= 2504 for n in sizes)


def test_questionnaire_and_weights_fit_together(campus):
    kinds = [question.kind for question in campus.questions]
    assert (kinds.count("binary"), kinds.count("ordinal")) == (2, 12)
    names, tables = answer_tables(campus.questions)
    assert len(names) == 200
    assert set(campus.true_weights) <= set(names)
    np.testing.assert_array_equal(tables, tables.swapaxes(1, 2))
    year = campus.years[0]
    scores, (i, j) = campus.true_scores(year), (3, 7)
    expected = 0.0
    for question, a, b in zip(campus.questions, year.answers[i], year.answers[j], strict=True):
        low, high = sorted((a, b))
        expected += (high - low) * campus.true_weights.get(f"|{question.name}|", 0.0)
        expected += campus.true_weights.get(f"{question.name}: {low}-{high}", 0.0)
    assert scores[i, j] == scores[j, i] == pytest.approx(expected)


def test_answers_are_skewed_and_correlated():
    campus = generate_campus([1000] * 4, strength=0.0, random_state=1)
    names = [question.name for question in campus.questions]
    answers = np.concatenate([year.answers for year in campus.years])
    by_name = dict(zip(names, answers.T, strict=True))
    assert by_name["smoking"].mean() == pytest.approx(0.08, abs=0.015)
    late = np.corrcoef(by_name["bed time"], by_name["wake time"])[0, 1]
    assert 0.4 < late < 0.7
    assert abs(np.corrcoef(by_name["temperature"], by_name["bed time"])[0, 1]) < 0.06


def test_scores_tell_roommates_apart_as_strength_says(campus):
    def auc(of):
        return np.mean([roommate_auc(campus.true_scores(y), y.partner) for y in of.years])

    assert 0.7 < auc(campus) < 0.88
    assert auc(generate_campus(200, strength=0.0, random_state=3)) == pytest.approx(0.5, abs=0.06)


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
        ({"n_students": 21}, "`n_students` must be even, from 2; got 21"),
        ({"n_students": [20, 21]}, "`n_students` must be even"),
        ({"n_students": 0}, "`n_students` must be even"),
        ({"n_students": [20], "n_years": 2}, "expected 2 sizes"),
        ({"n_students": []}, "expected some sizes"),
        ({"n_years": 0}, "`n_years` must be a whole number of at least 1"),
        ({"missing": 1.0}, "`missing` must be a share"),
        ({"strength": np.nan}, "`strength` must be a number"),
    ],
)
def test_generator_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        generate_campus(**arguments)


def test_students_without_a_roommate_are_left_out():
    answers = np.array([[0, 4], [1, -1], [0, 0], [1, 3], [0, 2]])
    year = CampusYear(2020, list("abcde"), answers, np.array([2, 3, 0, 1, -1]))  # e lives alone
    pairs = year.paired()
    assert pairs.students == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(pairs.partner, [2, 3, 0, 1])
    np.testing.assert_array_equal(pairs.answers, answers[:4])
