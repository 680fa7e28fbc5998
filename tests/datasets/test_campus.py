"""Generated roommates, and the files of a housing office."""

import os

import numpy as np
import pytest

from mlestruct.datasets import (
    Campus,
    CampusYear,
    Question,
    generate_campus,
    read_campus,
    write_campus,
)


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


def test_files_round_trip(tmp_path):
    campus = generate_campus(20, missing=0.1, random_state=4)
    write_campus(campus, tmp_path / "new" / "folder")
    again = read_campus(tmp_path / "new" / "folder")
    assert again.questions == campus.questions
    assert again.true_weights is None
    for a, b in zip(campus.years, again.years, strict=True):
        assert (a.year, a.students) == (b.year, b.students)
        np.testing.assert_array_equal(a.answers, b.answers)
        assert (a.answers < 0).any()
        np.testing.assert_array_equal(a.partner, b.partner)
    theta = campus.true_theta
    np.testing.assert_array_equal(
        campus.features(2010).scores(theta), again.features(2010).scores(theta)
    )


def test_names_with_commas_and_accents_round_trip(tmp_path):
    question = Question('noise, "late"', "ordinal", ("peu", "très", "—"))
    year = CampusYear(2020, ["Zoë", "b"], np.array([[0], [-1]]), np.array([1, 0]))
    write_campus(Campus([question], [year]), tmp_path)
    again = read_campus(tmp_path)
    assert again.questions == [question]
    assert again.years[0].students == ["Zoë", "b"]


QUESTIONS = "name,kind,levels\nsmoking,binary,2\nnoise,ordinal,5\n"
STUDENTS = "id,smoking,noise\na,0,4\nb,1,\nc,0,0\nd,1,3\ne,0,2\n"
PAIRS = "id_a,id_b\na,c\nd,b\n"


def office(folder, **files):
    texts = {"questions": QUESTIONS, "students_2020": STUDENTS, "pairs_2020": PAIRS} | files
    for name, text in texts.items():
        if text is not None:
            data = text if isinstance(text, bytes) else text.encode()
            (folder / f"{name}.csv").write_bytes(data)


def test_an_offices_own_files(tmp_path):
    office(tmp_path, students_2020=b"\xef\xbb\xbf" + STUDENTS.replace("\n", "\r\n").encode())
    campus = read_campus(tmp_path)
    assert campus.questions[1].labels == ("0", "1", "2", "3", "4")
    year = campus.years[0]
    assert year.students == ["a", "b", "c", "d", "e"]
    np.testing.assert_array_equal(year.answers[:, 1], [4, -1, 0, 3, 2])
    np.testing.assert_array_equal(year.partner, [2, 3, 0, 1, -1])  # e lives alone
    pairs = year.paired()
    assert pairs.students == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(pairs.partner, [2, 3, 0, 1])
    assert campus.features(pairs).shape == (4, 4)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"pairs_2020": PAIRS + "x,e\n"}, "pairs_2020.csv, line 4: 'x' is not among the ids"),
        ({"pairs_2020": PAIRS + "e,b\n"}, "pairs_2020.csv, line 4: 'b' is in two"),
        ({"pairs_2020": PAIRS + "e,e\n"}, "line 4: 'e' is its own partner"),
        ({"students_2020": STUDENTS + "f,0,5\n"}, "line 7, column noise: expected 0 to 4.*'5'"),
        ({"students_2020": STUDENTS + "f,-1,3\n"}, "line 7, column smoking: .*'-1'"),
        ({"students_2020": STUDENTS + "f,often,3\n"}, "column smoking: .*'often'"),
        ({"students_2020": STUDENTS + "a,0,3\n"}, "line 7, column id: empty or twice: 'a'"),
        ({"students_2020": STUDENTS + "f,0\n"}, "line 7: expected 3 cells, got 2"),
        ({"students_2020": "id,smoking\na,0\n"}, "line 1: expected the columns"),
        ({"students_2020": "id,smoking,noise\n"}, "no students"),
        ({"students_2020": "id,smoking,noise\nJosé,0,1\n".encode("latin-1")}, "not UTF-8"),
        ({"students_2020": STUDENTS + 'f,"0,1\n'}, "students_2020.csv, line 7"),
        ({"questions": QUESTIONS + "noise,ordinal,5\n"}, "line 4, column name: .*twice"),
        ({"questions": QUESTIONS + "age,number,5\n"}, "line 4, column kind: .*'number'"),
        ({"questions": QUESTIONS + "age,ordinal,many\n"}, "line 4, column levels: .*'many'"),
        ({"questions": QUESTIONS + "age,binary,3\n"}, "line 4, column levels: 2 if binary"),
        ({"students_old": STUDENTS}, "expected names like students_2010.csv, got 'old'"),
        ({"questions": "name,kind,levels,labels\nq,binary,2,no\n"}, "column labels: 1 for 2"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, files, message):
    office(tmp_path, **files)
    with pytest.raises(ValueError, match=message):
        read_campus(tmp_path)


@pytest.mark.parametrize("missing", ["questions", "students_2020"])
def test_missing_files_are_named(tmp_path, missing):
    office(tmp_path, **{missing: None})
    with pytest.raises(FileNotFoundError, match=f"{missing}.csv does not exist"):
        read_campus(tmp_path)


def test_a_year_yet_to_be_assigned_has_no_pairs(tmp_path):
    office(tmp_path, pairs_2020=None)
    assert (read_campus(tmp_path).years[0].partner == -1).all()


def test_a_folder_without_years(tmp_path):
    office(tmp_path, students_2020=None, pairs_2020=None)
    with pytest.raises(FileNotFoundError, match=r"no files students_YYYY.csv"):
        read_campus(tmp_path)


def test_places_that_cannot_be_written_are_named(tmp_path):
    campus = generate_campus(4)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="file"):
        write_campus(campus, tmp_path / "file")
    if os.geteuid() != 0:  # root may write everywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(PermissionError, match=r"questions.csv"):
            write_campus(campus, tmp_path / "locked")
