"""Pairs of questionnaires: features against a pair-by-pair loop, curvature against enumeration."""

import numpy as np
import pandas as pd
import pytest

from mlestruct.features import FeatureMap
from mlestruct.features.questionnaires import QuestionnairePairs
from mlestruct.structures import SimpleGraph

LEVELS = [2, 5, 3]


def graph_of(mask):
    """The pairs i < j where a matrix is nonzero."""
    return SimpleGraph.from_mask(np.triu(mask, 1) + np.triu(mask, 1).T)


def people(n, levels=tuple(LEVELS), missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    answers = np.stack([rng.integers(k, size=n) for k in levels], axis=1).astype(float)
    answers[rng.random(answers.shape) < missing] = np.nan
    return answers


def one_pair(x, y, levels, ordinal, interactions):
    """Every feature of one pair, from the definition."""
    out = []
    for q in ordinal:
        unknown = np.isnan(x[q]) or np.isnan(y[q])
        out.append(0.0 if unknown else abs(x[q] - y[q]))
    for q in interactions:
        low, high = np.sort([x[q], y[q]]) if not np.isnan(x[q] + y[q]) else (-1, -1)
        for a in range(levels[q]):
            out.extend(float(low == a and high == b) for b in range(a, levels[q]))
    return out


def explicit(answers, levels=tuple(LEVELS), ordinal=(0, 1, 2), interactions=(0, 1, 2), mask=None):
    n = len(answers)
    return np.array(
        [
            one_pair(answers[i], answers[j], levels, ordinal, interactions)
            for i in range(n)
            for j in range(i + 1, n)
            if mask is None or mask[i, j]
        ]
    )


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("on_graph", [False, True])
@pytest.mark.parametrize(
    ("ordinal", "interactions"), [((0, 1, 2), (0, 1, 2)), ((1,), (0, 2)), ((0, 1, 2), ())]
)
def test_scores_and_moments_are_those_of_the_definition(missing, on_graph, ordinal, interactions):
    rng = np.random.default_rng(1)
    answers = people(13, missing=missing)
    mask = rng.random((13, 13)) < 0.5 if on_graph else None
    expected = explicit(answers, LEVELS, ordinal, interactions, mask)
    pairs = QuestionnairePairs(answers, LEVELS, ordinal=ordinal, interactions=interactions)
    if on_graph:
        pairs = pairs.on_pairs(graph_of(mask))
    assert isinstance(pairs, FeatureMap)
    assert (pairs.n_scored, pairs.n_features) == expected.shape
    assert len(set(pairs.feature_names)) == pairs.n_features
    assert pairs.shape == (13, 13)
    theta, tau = rng.normal(size=pairs.n_features), rng.normal(size=pairs.n_scored)
    np.testing.assert_allclose(pairs.scores(theta), expected @ theta, atol=1e-12)
    np.testing.assert_allclose(pairs.moments(tau), expected.T @ tau, atol=1e-12)
    some = rng.choice(pairs.n_scored, 7, replace=False)
    np.testing.assert_allclose(
        pairs.moments_at(some, tau[some]), expected[some].T @ tau[some], atol=1e-12
    )
    np.testing.assert_array_equal(pairs.matrix, expected)


def test_many_people_span_several_blocks():
    answers = people(150, seed=2)
    pairs = QuestionnairePairs(answers)
    expected = explicit(answers)
    rng = np.random.default_rng(3)
    theta, tau = rng.normal(size=pairs.n_features), rng.normal(size=pairs.n_scored)
    np.testing.assert_allclose(pairs.scores(theta), expected @ theta, atol=1e-10)
    np.testing.assert_allclose(pairs.moments(tau), expected.T @ tau, atol=1e-8)


def test_the_questionnaire_of_the_paper_has_200_features_and_no_matrix():
    pairs = QuestionnairePairs(people(500, [2, 2] + [5] * 12))
    assert pairs.n_features == 200
    assert pairs.matrix is None


def test_names_say_what_a_weight_is_about():
    pairs = QuestionnairePairs([[0, 1], [1, 2]], names=["smoking", "noise"], ordinal=["noise"])
    assert pairs.feature_names == [
        "|noise|",
        *["smoking: 0-0", "smoking: 0-1", "smoking: 1-1"],
        *["noise: 0-0", "noise: 0-1", "noise: 0-2", "noise: 1-1", "noise: 1-2", "noise: 2-2"],
    ]
    np.testing.assert_array_equal(pairs.matrix, [[1, 0, 1, 0, 0, 0, 0, 0, 1, 0]])


def test_data_frames_name_their_questions_and_may_lack_answers():
    plain = pd.DataFrame({"smoking": [True, False, False], "noise": [0, 2, 1]})
    pairs = QuestionnairePairs(plain)
    assert pairs.names == ["smoking", "noise"]
    np.testing.assert_array_equal(pairs.answers, [[1, 0], [0, 2], [0, 1]])
    nullable = pd.DataFrame(
        {"smoking": pd.array([1, None, 0], dtype="Int64"), "noise": [0.0, 2.0, np.nan]}
    )
    np.testing.assert_array_equal(QuestionnairePairs(nullable).answers, [[1, 0], [-1, 2], [0, -1]])
    as_objects = np.array([[1, None], [0, 3]], dtype=object)
    np.testing.assert_array_equal(QuestionnairePairs(as_objects).answers, [[1, -1], [0, 3]])


@pytest.mark.parametrize(
    ("answers", "arguments", "message"),
    [
        ([[0, 1.5], [0, 1]], {}, "question 'q1'.*1.5"),
        ([[0, -1], [0, 1]], {}, "question 'q1'.*-1"),
        ([[0, np.inf], [0, 1]], {}, "question 'q1'.*inf"),
        ([["0", "1"], ["0", "1"]], {}, "question 'q0'.*'0'"),
        (np.array([[0, 1], [0, "often"]], dtype=object), {}, "question 'q1'.*'often'"),
        ([[0, 1], [0, 5]], {"levels": [2, 5]}, "question 'q1' has 5 levels, 0 to 4, got 5"),
        ([[0, 1], [0, 2010]], {}, "question 'q1' has 2011 levels"),
        ([[0, 1], [0, 1]], {"levels": [2]}, "levels: expected 2"),
        ([[0, 1], [0, 1]], {"levels": [2.5, 2]}, "levels: expected 2"),
        ([[0, 1], [0, 1]], {"names": ["a", "a"]}, "names: expected 2 different"),
        ([[0, 1], [0, 1]], {"ordinal": ["q7"]}, "ordinal.*'q7'"),
        ([[0, 1], [0, 1]], {"interactions": [2]}, "interactions.*got 2"),
        ([[0, 1], [0, 1]], {"ordinal": False, "interactions": False}, "no question has any"),
        ([0, 1], {}, "expected shape"),
        ([[0, 1], [0, 1]], {"graph": graph_of(np.ones((3, 3)))}, "graph: expected 2 nodes"),
    ],
)
def test_errors_name_the_question_and_what_was_found(answers, arguments, message):
    with pytest.raises(ValueError, match=message):
        QuestionnairePairs(answers, **arguments)


def matchings(people):
    """All perfect matchings of a list of people, as lists of pairs."""
    if not people:
        yield []
        return
    first, *rest = people
    for k, other in enumerate(rest):
        for more in matchings(rest[:k] + rest[k + 1 :]):
            yield [(first, other), *more]


@pytest.mark.parametrize("n", [4, 6, 8])
def test_second_moments_are_the_exact_covariance_over_uniform_matchings(n):
    answers = people(n, missing=0.1, seed=n)
    pairs = QuestionnairePairs(answers, LEVELS)
    matrix, place = explicit(answers), {}
    for i in range(n):
        for j in range(i + 1, n):
            place[i, j] = len(place)
    totals = np.array(
        [sum(matrix[place[pair]] for pair in chosen) for chosen in matchings(list(range(n)))]
    )
    ((gram, scale),) = pairs.second_moments()
    np.testing.assert_allclose(scale * gram, np.cov(totals.T, bias=True), atol=1e-10)


def without_node_effects(matrix, row, col, n):
    """What remains of each feature after least squares on u_i + u_j."""
    incidence = np.zeros((len(matrix), n))
    incidence[np.arange(len(matrix)), row] = incidence[np.arange(len(matrix)), col] = 1.0
    return matrix - incidence @ np.linalg.lstsq(incidence, matrix, rcond=None)[0]


@pytest.mark.parametrize("interactions", [None, False])
def test_gram_is_that_of_the_features_without_node_effects(interactions):
    answers = people(30, missing=0.1, seed=4)
    pairs = QuestionnairePairs(answers, LEVELS, interactions=interactions)
    left = without_node_effects(pairs.matrix, *np.triu_indices(30, 1), 30)
    ((gram, scale),) = pairs.second_moments()
    np.testing.assert_allclose(gram, left.T @ left, atol=1e-9)
    np.testing.assert_allclose(scale, [1 / 29], rtol=0.05)


def test_many_features_give_the_diagonal_only(monkeypatch):
    pairs = QuestionnairePairs(people(30, seed=5), LEVELS)
    full = pairs.second_moments()[0][0]
    monkeypatch.setattr("mlestruct.features.questionnaires.LARGEST_GRAM", 5)
    np.testing.assert_allclose(pairs.second_moments()[0][0], np.diag(full), atol=1e-9)


def test_gram_on_a_graph_is_close_to_the_exact_one():
    mask = np.random.default_rng(6).random((60, 60)) < 0.4
    pairs = QuestionnairePairs(people(60, missing=0.1, seed=6), LEVELS, graph=graph_of(mask))
    row, col = np.nonzero(np.triu(mask, 1))
    left = without_node_effects(pairs.matrix, row, col, 60)
    ((gram, scale),) = pairs.second_moments()
    np.testing.assert_allclose(gram, left.T @ left, atol=0.02 * np.abs(gram).max())
    np.testing.assert_allclose(scale, [60 / (2 * row.size)], rtol=0.1)


def test_shortest_equivalent_weights_change_no_probability():
    pairs = QuestionnairePairs(people(6, seed=7), LEVELS)
    theta = np.random.default_rng(7).normal(size=pairs.n_features)
    short = pairs.shortest_equivalent(theta)
    change = np.zeros((6, 6))
    change[np.triu_indices(6, 1)] = pairs.scores(theta - short)
    totals = [sum(change[pair] for pair in chosen) for chosen in matchings(list(range(6)))]
    assert np.ptp(totals) < 1e-12
    assert np.linalg.norm(short) < np.linalg.norm(theta)
    np.testing.assert_allclose(pairs.shortest_equivalent(short), short, atol=1e-12)


def test_a_binary_question_shares_its_weight_among_four_features():
    pairs = QuestionnairePairs([[0], [1]])
    # d + w01 - (w00 + w11) / 2 is all that matters; the shortest weights with -5 for it
    np.testing.assert_allclose(
        pairs.shortest_equivalent(np.array([-5.0, 0.0, 0.0, 0.0])), [-2.0, 1.0, -2.0, 1.0]
    )


def test_vectors_of_the_wrong_length_are_refused():
    pairs = QuestionnairePairs(people(6), LEVELS)
    with pytest.raises(ValueError, match="theta: expected shape"):
        pairs.scores(np.zeros(3))
    with pytest.raises(ValueError, match="tau: expected shape"):
        pairs.moments(np.zeros(14))
    with pytest.raises(IndexError, match="indices: expected 0 to 14"):
        pairs.moments_at(np.array([15]), np.ones(1))


def test_importance_is_the_spread_of_what_a_question_adds():
    rng = np.random.default_rng(0)
    answers = np.stack([rng.integers(0, 2, 200), rng.integers(0, 5, 200)], axis=1)
    pairs = QuestionnairePairs(answers, [2, 5], ["smoking", "noise"])
    theta = rng.normal(size=pairs.n_features)
    found = pairs.importance(theta)
    for q, name in enumerate(["smoking", "noise"]):
        others = [k for k, label in enumerate(pairs.feature_names) if name not in label]
        only = theta.copy()
        only[others] = 0.0
        table = pairs._table(only)[:-1, :-1]
        start = 0 if q == 0 else 2
        size = 2 if q == 0 else 5
        full = table[start : start + size, start : start + size][
            np.ix_(answers[:, q], answers[:, q])
        ]
        centred = full - full.mean(axis=0) - full.mean(axis=1)[:, None] + full.mean()
        assert found[name] == pytest.approx(centred.std(), rel=1e-9)
    assert pairs.importance(np.zeros(pairs.n_features)) == {"smoking": 0.0, "noise": 0.0}


def test_a_column_of_zeros_is_a_constant():
    pairs = QuestionnairePairs([[0, 1], [0, 2], [0, 0]], [1, 3], ["pair", "noise"])
    theta = np.zeros(pairs.n_features)
    theta[pairs.feature_names.index("pair: 0-0")] = 2.5
    np.testing.assert_allclose(pairs.scores(theta), 2.5)
